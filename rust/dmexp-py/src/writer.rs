//! `PayloadWriter`: arrays in, a payload at the end of a file out.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use dmexp_core::sink::Sink;
use dmexp_core::write::{PayloadWriter as Core, Piece};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers::ReadBuffer;
use crate::dtypes;
use crate::errors;
use crate::file::{TallyTuple, tally_tuple};

/// Writes the payload of one new file. Closed once; calls after that are ValueErrors.
#[pyclass(frozen, module = "dmexp._native")]
pub struct PayloadWriter {
    state: Mutex<Option<Core>>,
    path: Option<PathBuf>,
}

impl PayloadWriter {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Core) -> std::io::Result<R> + Send,
    ) -> PyResult<R> {
        py.detach(|| {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.as_mut().map(work)
        })
        .ok_or_else(|| PyValueError::new_err("the writer is closed"))?
        .map_err(|error| errors::io(error, self.path.as_deref()))
    }
}

#[pymethods]
impl PayloadWriter {
    /// Open the existing file `path`, or memory where it is None, and write values of `dtype` from
    /// byte `offset` on. With `sync` the blocks start on their way to the disk at once, for a call of
    /// `sync` to come.
    #[new]
    #[pyo3(signature = (path, dtype, offset, threads, sync=false))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        dtype: &str,
        offset: u64,
        threads: usize,
        sync: bool,
    ) -> PyResult<Self> {
        let dtype = dtypes::stored(dtype)?;
        let open = |path| OpenOptions::new().read(true).write(true).open(path).map(Sink::File);
        let sink = py
            .detach(|| path.as_ref().map_or_else(|| Ok(Sink::memory()), open))
            .map_err(|error| errors::io(error, path.as_deref()))?;
        let writer = Core::new(sink, dtype, offset, threads).syncing(sync);
        Ok(Self { state: Mutex::new(Some(writer)), path })
    }

    /// Ask for `nbytes` on disk in all.
    fn reserve(&self, py: Python<'_>, nbytes: u64) -> PyResult<()> {
        self.with(py, |writer| writer.sink().reserve(nbytes))
    }

    /// Append `pieces`, a list of `(tensor, buffer, dtype)`.
    ///
    /// Returns None, or `(tensor, index)` of the first value that the dtype cannot hold.
    fn write(
        &self,
        py: Python<'_>,
        pieces: Vec<(usize, Bound<'_, PyAny>, String)>,
    ) -> PyResult<Option<(usize, u64)>> {
        let mut buffers = Vec::with_capacity(pieces.len());
        for (tensor, buffer, dtype) in &pieces {
            buffers.push((*tensor, ReadBuffer::get(buffer)?, dtypes::any(dtype)?));
        }
        let pieces: Vec<_> = buffers
            .iter()
            .map(|(tensor, buffer, dtype)| Piece {
                tensor: *tensor,
                bytes: buffer.bytes(),
                dtype: *dtype,
            })
            .collect();
        let bad = self.with(py, |writer| writer.write(&pieces))?;
        Ok(bad.map(|bad| (bad.tensor, bad.index)))
    }

    /// Bytes of payload so far.
    fn written(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |writer| Ok(writer.written()))
    }

    /// The tallies of `count` tensors.
    fn tallies(&self, py: Python<'_>, count: usize) -> PyResult<Vec<TallyTuple>> {
        self.with(py, |writer| {
            writer.ensure_tensors(count);
            Ok(writer.tallies().iter().map(tally_tuple).collect())
        })
    }

    /// The checksum of the payload so far.
    fn crc32(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |writer| {
            let mut all = dmexp_core::Crc32::new();
            writer.tallies().iter().for_each(|tally| all.append(&tally.crc));
            Ok(all.value())
        })
    }

    /// Move a part of the payload on its way to byte `offset`. True when all of it is there and
    /// the file is cut after it; False when there is more to do, so that Ctrl-C is not kept waiting.
    fn move_to(&self, py: Python<'_>, offset: u64) -> PyResult<bool> {
        self.with(py, |writer| writer.move_to(offset))
    }

    /// Write `data` at byte `offset`.
    fn write_at(&self, py: Python<'_>, offset: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = ReadBuffer::get(data)?;
        let bytes = data.bytes();
        self.with(py, |writer| writer.sink().write_all_at(bytes, offset))
    }

    /// Wait until the file's bytes are on disk.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |writer| writer.sink().sync())
    }

    /// End the writing and give what is in memory; empty for a file.
    fn take<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).take();
        match state.map(Core::into_sink) {
            Some(Sink::Memory(bytes)) => {
                PyBytes::new(py, &bytes.into_inner().unwrap_or_else(PoisonError::into_inner))
            }
            _ => PyBytes::new(py, b""),
        }
    }

    /// Close the file.
    fn close(&self) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
