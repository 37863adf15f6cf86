//! CRC-32 for Python: as `zlib.crc32` and as a `hashlib` object.

use std::sync::Mutex;

use dmexp_core::crc32 as kernel;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::errors;
use crate::memory::{DETACH_BYTES, with_bytes};

/// An integer of any size and sign, reduced to 32 bits as `zlib` does it.
pub struct Low32(u32);

impl<'py> FromPyObject<'_, 'py> for Low32 {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        // SAFETY: `value` is alive and the thread attached.
        let low = unsafe { ffi::PyLong_AsUnsignedLongLongMask(value.as_ptr()) };
        if low == u64::MAX
            && let Some(error) = PyErr::take(value.py())
        {
            return Err(error);
        }
        Ok(Self(low as u32))
    }
}

/// An argument that may be left out, but not be None.
struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(value.to_owned())))
    }
}

/// The checksum of `data` after bytes whose checksum is `value`.
fn resume(data: &Bound<'_, PyAny>, value: u32) -> PyResult<u32> {
    let py = data.py();
    with_bytes(data, |bytes| {
        if bytes.len() < DETACH_BYTES {
            kernel::resume(value, bytes)
        } else {
            py.detach(|| kernel::resume(value, bytes))
        }
    })
}

/// Compute a CRC-32 (IEEE 802.3, the one of `zlib.crc32`).
///
/// Parameters
/// ----------
/// data : bytes-like
///     Any contiguous buffer of any item type; its bytes are summed.
/// value : int, default 0
///     The checksum of the bytes before ``data``. Reduced to 32 bits.
///
/// Returns
/// -------
/// int
///     The checksum, below ``2**32``. That of nothing is ``value``.
///
/// Raises
/// ------
/// TypeError
///     Where ``data`` has no buffer, a ``str`` for example.
/// BufferError, ValueError
///     Where its memory is not contiguous; which of the two is the object's choice.
///
/// Notes
/// -----
/// Other threads run meanwhile from 2 KiB on. Do not write to ``data`` during the call.
///
/// Examples
/// --------
/// >>> from dmexp import crc32
/// >>> hex(crc32(b"123456789"))
/// '0xcbf43926'
/// >>> crc32(b"6789", crc32(b"12345")) == crc32(b"123456789")
/// True
#[pyfunction]
#[pyo3(signature = (data, value = Low32(0), /), text_signature = "(data, value=0, /)")]
pub fn crc32(data: &Bound<'_, PyAny>, value: Low32) -> PyResult<u32> {
    resume(data, value.0)
}

/// Compute the checksum of two runs of bytes from the checksum of each.
///
/// Parameters
/// ----------
/// a, b : int
///     The checksums of the first and of the second run. Reduced to 32 bits.
/// len_b : int
///     Length of the second run in bytes.
///
/// Returns
/// -------
/// int
///     What `crc32` gives for the first run followed by the second.
///
/// Raises
/// ------
/// InvalidArgumentError
///     Where ``len_b`` is negative or beyond 64 bits.
///
/// Examples
/// --------
/// >>> from dmexp import crc32, crc32_combine
/// >>> crc32_combine(crc32(b"12345"), crc32(b"6789"), 4) == crc32(b"123456789")
/// True
#[pyfunction]
#[pyo3(signature = (a, b, len_b, /))]
pub fn crc32_combine(a: Low32, b: Low32, len_b: &Bound<'_, PyAny>) -> PyResult<u32> {
    let Ok(len) = len_b.extract::<u64>() else {
        // Something that is no integer raises its own TypeError.
        len_b.extract::<Low32>()?;
        let facts = PyDict::new(len_b.py());
        facts.set_item("argument", "len_b")?;
        let message = format!(
            "len_b is {len_b}, expected the length in bytes of the second run: 0 or more, below 2**64."
        );
        return Err(errors::error(len_b.py(), "InvalidArgumentError", &message, &facts));
    };
    Ok(kernel::combine(a.0, b.0, len))
}

/// A CRC-32 that grows piece by piece, used like a ``hashlib`` object.
///
/// Parameters
/// ----------
/// data : bytes-like, default ``b""``
///     The first bytes.
///
/// Notes
/// -----
/// May be shared between threads: each update counts as a whole, in the order in which they
/// happen to run. Other threads run during updates of 2 KiB and more.
///
/// Examples
/// --------
/// >>> from dmexp import Crc32
/// >>> crc = Crc32(b"12345")
/// >>> crc.update(b"6789")
/// >>> crc.hexdigest()
/// 'cbf43926'
#[pyclass(frozen, module = "dmexp")]
pub struct Crc32(Mutex<u32>);

impl Crc32 {
    fn get(&self, py: Python<'_>) -> u32 {
        *self.0.lock_py_attached(py).unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl Crc32 {
    #[new]
    #[pyo3(signature = (data = Given(None), /), text_signature = "(data=b'', /)")]
    fn new(data: Given<'_>) -> PyResult<Self> {
        let value = data.0.map_or(Ok(0), |data| resume(&data, 0))?;
        Ok(Self(Mutex::new(value)))
    }

    /// Add the bytes of any contiguous buffer.
    #[pyo3(signature = (data, /))]
    fn update(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let recover = std::sync::PoisonError::into_inner;
        with_bytes(data, |bytes| {
            if bytes.len() < DETACH_BYTES {
                // Detaches only while another thread has the lock: that one may need to attach.
                let mut value = self.0.lock_py_attached(py).unwrap_or_else(recover);
                *value = kernel::resume(*value, bytes);
            } else {
                py.detach(|| {
                    let mut value = self.0.lock().unwrap_or_else(recover);
                    *value = kernel::resume(*value, bytes);
                });
            }
        })
    }

    /// The checksum so far as 4 bytes, most significant first. More may be added afterwards.
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.get(py).to_be_bytes())
    }

    /// The checksum so far as 8 lower-case hexadecimal digits. More may be added afterwards.
    fn hexdigest(&self, py: Python<'_>) -> String {
        format!("{:08x}", self.get(py))
    }

    /// A second object with the same bytes behind it.
    fn copy(&self, py: Python<'_>) -> Self {
        Self(Mutex::new(self.get(py)))
    }

    /// The checksum so far, as `crc32` gives it.
    #[getter]
    fn value(&self, py: Python<'_>) -> u32 {
        self.get(py)
    }

    /// Length of `digest()` in bytes: 4.
    #[classattr]
    #[pyo3(name = "digest_size")]
    const DIGEST_SIZE: usize = 4;

    /// ``"crc32"``.
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        pyo3::intern!(py, "crc32").clone()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        format!("<dmexp.Crc32 {:08x}>", self.get(py))
    }
}
