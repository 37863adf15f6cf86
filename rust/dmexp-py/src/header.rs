//! Headers: the quick readers, the tensor table, the header's own checksum.

use std::path::PathBuf;

use dmexp_core::Crc32;
use dmexp_core::document;
use dmexp_core::header::{Header, Metadata};
use dmexp_core::header_crc;
use dmexp_core::index::{Builder, Entry, Index};
use dmexp_core::prefix::{Opened, PREFIX_BYTES};
use dmexp_core::scan::scan;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::buffers::ReadBuffer;
use crate::errors::refusal;
use crate::file::FileBytes;
use crate::toml;

/// A tensor table that agrees with its payload. Offsets count from the payload's start.
///
/// Where a quick reader made it, it knows the rest of the header too.
#[pyclass(frozen, module = "dmexp._native")]
pub struct HeaderIndex {
    index: Index,
    facts: Option<Facts>,
}

/// A header but for its tensor table, kept until Python asks.
struct Facts {
    format: u64,
    dtype: &'static str,
    source: String,
    step: u64,
    num_params: u64,
    num_tensors: u64,
    flushed: u64,
    max_abs: f64,
    min_nonzero_abs: f64,
    subnormal: Option<u64>,
    writer: Option<String>,
    config: String,
    metadata: Option<Py<PyDict>>,
    metadata_text: Option<String>,
    extra: Option<Py<PyDict>>,
    tensor_extra: Option<Py<PyDict>>,
    place: Place,
}

/// What the prefix says of the header and its payload.
#[derive(Clone, Copy, Default)]
struct Place {
    payload_offset: usize,
    payload_bytes: u64,
    payload_crc32: u32,
}

impl HeaderIndex {
    fn entry(&self, place: usize) -> PyResult<&Entry> {
        self.index.entries().get(place).ok_or_else(|| PyIndexError::new_err("no such tensor"))
    }

    /// Read a header; None where the complete parser has to look at it.
    fn read(py: Python<'_>, header: &[u8], place: Place) -> PyResult<Option<(Self, bool)>> {
        let payload = place.payload_bytes;
        // The text outlives the header that is made of its parts.
        let normal;
        let canonical = std::str::from_utf8(header).ok().and_then(|text| scan(text, payload));
        let found = match canonical {
            Some(found) => found,
            None => {
                let Some(text) = document::text(header) else { return Ok(None) };
                normal = text;
                let Some(found) = document::read(&normal, payload) else { return Ok(None) };
                found
            }
        };
        let adds_up = found.adds_up(payload);
        Self::keep(py, found, place).map(|index| Some((index, adds_up)))
    }

    fn keep(py: Python<'_>, header: Header<'_>, place: Place) -> PyResult<Self> {
        let index = header.index;
        let (mut metadata, mut metadata_text) = (None, None);
        match header.metadata {
            None => {}
            Some(Metadata::Table(table)) => metadata = Some(toml::dict(py, table)?.unbind()),
            Some(Metadata::Text(text)) => metadata_text = Some(text.to_owned()),
        }
        let extra = match header.extra {
            keys if keys.is_empty() => None,
            keys => Some(toml::dict(py, keys)?.unbind()),
        };
        let mut tensor_extra = None;
        if !header.tensor_extra.is_empty() {
            let all = PyDict::new(py);
            for (place, keys) in header.tensor_extra {
                let name = index.entries().get(place).map_or("", |entry| index.name(entry));
                all.set_item(name, toml::dict(py, keys)?)?;
            }
            tensor_extra = Some(all.unbind());
        }
        let facts = Facts {
            format: header.format,
            dtype: header.dtype.name(),
            source: header.source,
            step: header.step,
            num_params: header.num_params,
            num_tensors: header.num_tensors,
            flushed: header.flushed,
            max_abs: header.max_abs,
            min_nonzero_abs: header.min_nonzero_abs,
            subnormal: header.subnormal,
            writer: header.writer,
            config: header.config,
            metadata,
            metadata_text,
            extra,
            tensor_extra,
            place,
        };
        Ok(Self { index, facts: Some(facts) })
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
        let mut builder = Builder::new(width_bytes, payload_bytes, tensors.len());
        for (name, dims, crc32) in &tensors {
            builder.push(name, dims, *crc32).map_err(|cause| refusal(py, &cause))?;
        }
        let index = builder.finish().map_err(|cause| refusal(py, &cause))?;
        Ok(Self { index, facts: None })
    }

    /// The rest of the header by the names of `Header`'s attributes; None where it is not known.
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(facts) = &self.facts else {
            return Ok(None);
        };
        let fields = PyDict::new(py);
        fields.set_item("format", facts.format)?;
        fields.set_item("dtype", facts.dtype)?;
        fields.set_item("source", &facts.source)?;
        fields.set_item("step", facts.step)?;
        fields.set_item("num_params", facts.num_params)?;
        fields.set_item("num_tensors", facts.num_tensors)?;
        fields.set_item("flushed", facts.flushed)?;
        fields.set_item("max_abs", facts.max_abs)?;
        fields.set_item("min_nonzero_abs", facts.min_nonzero_abs)?;
        fields.set_item("subnormal", facts.subnormal)?;
        fields.set_item("writer", &facts.writer)?;
        fields.set_item("config", &facts.config)?;
        let table = |found: &Option<Py<PyDict>>| match found {
            Some(table) => table.clone_ref(py).into_bound(py),
            None => PyDict::new(py),
        };
        fields.set_item("metadata", table(&facts.metadata))?;
        fields.set_item("extra", table(&facts.extra))?;
        fields.set_item("tensor_extra", table(&facts.tensor_extra))?;
        fields.set_item("payload_offset", facts.place.payload_offset)?;
        fields.set_item("payload_bytes", facts.place.payload_bytes)?;
        fields.set_item("payload_crc32", facts.place.payload_crc32)?;
        Ok(Some(fields))
    }

    /// The text of a `[metadata]` table, and what is below it, that takes the complete parser.
    #[getter]
    fn metadata_text(&self) -> Option<&str> {
        self.facts.as_ref()?.metadata_text.as_deref()
    }

    /// Whether the header has no config, as far as is known here.
    #[getter]
    fn lacks_config(&self) -> bool {
        self.facts.as_ref().is_some_and(|facts| facts.config.is_empty())
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

/// Read the header in `data[start:start + length]`; None where the complete parser has to look
/// at it. What it claims of the payload may still contradict itself.
#[pyfunction]
pub fn read_header(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    start: usize,
    length: usize,
    payload_bytes: u64,
) -> PyResult<Option<HeaderIndex>> {
    let data = ReadBuffer::get(data)?;
    let header = part(data.bytes(), start, length)?;
    let place = Place { payload_bytes, ..Place::default() };
    Ok(HeaderIndex::read(py, header, place)?.map(|(index, _)| index))
}

/// Open a file and read its header. None where there is anything to refuse, to complain about or
/// to look at more closely: the long way finds it again, and words it.
#[pyfunction]
pub fn open_file(
    py: Python<'_>,
    path: &Bound<'_, PyAny>,
) -> PyResult<Option<(FileBytes, HeaderIndex)>> {
    let Ok(path) = path.extract::<PathBuf>() else {
        return Ok(None);
    };
    let Ok(Some(opened)) = py.detach(|| Opened::open(&path)) else {
        return Ok(None);
    };
    let place = Place {
        payload_offset: PREFIX_BYTES + opened.prefix.header,
        payload_bytes: opened.prefix.payload,
        payload_crc32: opened.prefix.crc32,
    };
    let Ok(header) = opened.header() else {
        return Ok(None);
    };
    let index = match HeaderIndex::read(py, header, place)? {
        Some((index, true)) if index.metadata_text().is_none() => index,
        _ => return Ok(None),
    };
    let file = FileBytes::of(opened.file);
    Ok(file.intact().then_some((file, index)))
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
