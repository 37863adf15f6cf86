//! Headers: the scan of canonical text, the tensor table, the header's own checksum.

use dmexp_core::Crc32;
use dmexp_core::header_crc;
use dmexp_core::index::{Builder, Entry, Index};
use dmexp_core::scan::scan;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::buffers::ReadBuffer;
use crate::errors::refusal;

/// A tensor table that agrees with its payload. Offsets count from the payload's start.
#[pyclass(frozen, module = "dmexp._native")]
pub struct HeaderIndex {
    index: Index,
}

impl HeaderIndex {
    fn entry(&self, place: usize) -> PyResult<&Entry> {
        self.index.entries().get(place).ok_or_else(|| PyIndexError::new_err("no such tensor"))
    }
}

#[pymethods]
impl HeaderIndex {
    /// Lay out `tensors`, a list of `(name, dims, crc32 or None)`, over `payload_bytes` of values
    /// of `width_bytes` each.
    #[new]
    fn new(
        py: Python<'_>,
        width_bytes: u64,
        payload_bytes: u64,
        tensors: Vec<(String, Vec<u64>, Option<u32>)>,
    ) -> PyResult<Self> {
        let mut builder = Builder::new(width_bytes, payload_bytes);
        for (name, dims, crc32) in &tensors {
            builder.push(name, dims, *crc32).map_err(|cause| refusal(py, &cause))?;
        }
        let index = builder.finish().map_err(|cause| refusal(py, &cause))?;
        Ok(Self { index })
    }

    fn __len__(&self) -> usize {
        self.index.len()
    }

    /// All names in payload order.
    fn names(&self) -> Vec<&str> {
        self.index.entries().iter().map(|entry| self.index.name(entry)).collect()
    }

    /// The place of a name, or None.
    fn position(&self, name: &str) -> Option<usize> {
        self.index.position(name)
    }

    /// `(name, dims, offset, nbytes, crc32 or None)` of the tensor at `place`.
    fn get<'py>(
        &self,
        py: Python<'py>,
        place: usize,
    ) -> PyResult<(&str, Bound<'py, PyTuple>, u64, u64, Option<u32>)> {
        let entry = self.entry(place)?;
        let dims = PyTuple::new(py, self.index.dims(entry))?;
        Ok((self.index.name(entry), dims, entry.offset, entry.nbytes, entry.crc32))
    }

    /// The payload's checksum from the checksums of its tensors, in order.
    fn fold_crc32(&self, crc32s: Vec<u32>) -> PyResult<u32> {
        if crc32s.len() != self.index.len() {
            return Err(PyValueError::new_err("not one checksum a tensor"));
        }
        let mut whole = Crc32::new();
        for (entry, crc32) in self.index.entries().iter().zip(crc32s) {
            whole.append(&Crc32::resume(crc32, entry.nbytes));
        }
        Ok(whole.value())
    }

    /// Whether each tensor has a checksum of its own.
    fn all_have_crc32(&self) -> bool {
        self.index.entries().iter().all(|entry| entry.crc32.is_some())
    }
}

/// Read the header in `data[start:start + length]` if it is in our writer's words.
///
/// Returns `(fields, index, metadata_text)` or None. `fields` are the top-level keys.
#[pyfunction]
pub fn scan_header<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    start: usize,
    length: usize,
    payload_bytes: u64,
) -> PyResult<Option<(Bound<'py, PyDict>, HeaderIndex, Option<String>)>> {
    let data = ReadBuffer::get(data)?;
    let header = part(data.bytes(), start, length)?;
    let Some(found) = scan(header, payload_bytes) else {
        return Ok(None);
    };
    let fields = PyDict::new(py);
    fields.set_item("format", found.format)?;
    fields.set_item("dtype", found.dtype.name())?;
    fields.set_item("source", found.source)?;
    fields.set_item("step", found.step)?;
    fields.set_item("num_params", found.num_params)?;
    fields.set_item("num_tensors", found.num_tensors)?;
    fields.set_item("flushed", found.flushed)?;
    fields.set_item("max_abs", found.max_abs)?;
    fields.set_item("min_nonzero_abs", found.min_nonzero_abs)?;
    if let Some(subnormal) = found.subnormal {
        fields.set_item("subnormal", subnormal)?;
    }
    if let Some(writer) = found.writer {
        fields.set_item("writer", writer)?;
    }
    fields.set_item("config", found.config)?;
    // The scan made sure that the header is UTF-8.
    let metadata = found.metadata.map(|range| String::from_utf8_lossy(&header[range]).into_owned());
    Ok(Some((fields, HeaderIndex { index: found.index }, metadata)))
}

/// `(stored, computed)` checksums of the header in `data[start:start + length]`, or None.
#[pyfunction]
pub fn header_crc32(
    data: &Bound<'_, PyAny>,
    start: usize,
    length: usize,
) -> PyResult<Option<(u32, u32)>> {
    let data = ReadBuffer::get(data)?;
    Ok(header_crc::check(part(data.bytes(), start, length)?))
}

fn part(bytes: &[u8], start: usize, length: usize) -> PyResult<&[u8]> {
    bytes
        .get(start..)
        .and_then(|rest| rest.get(..length))
        .ok_or_else(|| PyValueError::new_err("the range leaves the data"))
}

/// The line that holds the checksum of `text`, to be put after it.
#[pyfunction]
pub fn header_crc32_line(text: &[u8]) -> String {
    header_crc::line(text)
}
