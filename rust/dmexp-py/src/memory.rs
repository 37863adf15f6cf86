//! The bytes of any object with a buffer, for the length of one call.

use std::mem::MaybeUninit;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Inputs from this size on are worked on detached from the interpreter.
pub const DETACH_BYTES: usize = 2048;

/// A buffer that is given back when this goes out of scope.
struct View(ffi::Py_buffer);

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: filled by PyObject_GetBuffer and released nowhere else; the thread is attached,
        // because `with_bytes` returns to a caller that holds `Bound` objects.
        unsafe { ffi::PyBuffer_Release(&raw mut self.0) };
    }
}

/// Call `work` with the bytes of `object`: any buffer of one run of memory, of any item type.
///
/// Asks for the plain bytes without format, so that arrays of a dtype which has no buffer format
/// (bfloat16) are accepted, as `zlib.crc32` accepts them.
///
/// # Errors
///
/// What the object raises: `TypeError` where it has no buffer, `BufferError` or `ValueError` where
/// its memory is not one run.
#[inline]
pub fn with_bytes<R>(object: &Bound<'_, PyAny>, work: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
    // The common case, without the 30 ns of asking for a view and giving it back.
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(work(bytes.as_bytes()));
    }
    let mut view = MaybeUninit::<ffi::Py_buffer>::uninit();
    // SAFETY: `object` is alive and the thread attached; the call fills `view` or reports an error.
    let filled =
        unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_SIMPLE) };
    if filled != 0 {
        return Err(PyErr::fetch(object.py()));
    }
    // SAFETY: filled above. It may be moved: a view without shape and format holds no pointer into
    // itself.
    let view = View(unsafe { view.assume_init() });
    let len = usize::try_from(view.0.len)
        .map_err(|_| PyBufferError::new_err("the buffer has a negative length"))?;
    if len == 0 {
        return Ok(work(&[]));
    }
    // SAFETY: the exporter keeps `len` bytes at `buf` until the view is released, which is after
    // `work`. Hazard: another thread may write to them meanwhile. `work` only sums and converts
    // them; no check that it makes is relied upon in a second reading, and no bit pattern is
    // invalid. What it returns is then unspecified, as the docstrings say.
    let bytes = unsafe { std::slice::from_raw_parts(view.0.buf.cast::<u8>(), len) };
    Ok(work(bytes))
}
