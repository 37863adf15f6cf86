//! Python buffers as slices: one of the three places that hold unsafe code.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// The bytes of a C-contiguous buffer of any item type, held for as long as this lives.
pub struct ReadBuffer(PyUntypedBuffer);

impl ReadBuffer {
    /// Take hold of the buffer of `object`.
    pub fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the buffer is not C-contiguous"));
        }
        Ok(Self(buffer))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        let len = self.0.len_bytes();
        if len == 0 {
            return &[];
        }
        // SAFETY: the exporter keeps `len` bytes at this address until the buffer is released,
        // which `self` does not do before it is dropped; is_c_contiguous was checked in `get`, so
        // they are one run. Hazard: another Python thread may write to the memory meanwhile, which
        // Rust does not allow for. Callers only copy and sum bytes, never branch on their validity
        // twice, and the docstrings ask the user not to mutate arrays during a call.
        unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast::<u8>(), len) }
    }
}

/// The bytes of a writable C-contiguous buffer, held for as long as this lives.
pub struct WriteBuffer(PyUntypedBuffer);

impl WriteBuffer {
    /// Take hold of the buffer of `object`, which must be writable.
    pub fn get(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.readonly() {
            return Err(PyValueError::new_err("the output buffer is read-only"));
        }
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the output buffer is not C-contiguous"));
        }
        Ok(Self(buffer))
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.0.len_bytes();
        if len == 0 {
            return &mut [];
        }
        // SAFETY: as in ReadBuffer::bytes; the buffer is writable, and `&mut self` keeps this the
        // only slice that Rust has of it. Callers that hold several buffers check that they do
        // not overlap.
        unsafe { std::slice::from_raw_parts_mut(self.0.buf_ptr().cast::<u8>(), len) }
    }

    /// Where the bytes lie, to tell overlapping buffers.
    pub fn range(&self) -> std::ops::Range<usize> {
        let start = self.0.buf_ptr() as usize;
        start..start + self.0.len_bytes()
    }
}
