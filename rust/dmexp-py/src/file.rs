//! `FileBytes`: a file's bytes as a read-only Python buffer, and payloads read from it.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::ptr;

use dmexp_core::Dtype;
use dmexp_core::mapping::Mapping;
use dmexp_core::narrow::scan_crc;
use dmexp_core::read::{Out, Request, Store, read_tensors};
use dmexp_core::sigbus;
use dmexp_core::stats::to_f64;
use dmexp_core::tally::Tally;
use pyo3::exceptions::{PyBufferError, PyEOFError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::buffers::{ReadBuffer, WriteBuffer};
use crate::dtypes::stored;
use crate::errors;

/// What is checked between two looks at pending signals; a whole number of values.
const PAUSE_BYTES: usize = 32 << 20;

/// `(count, flushed, subnormal, nan, inf, max_abs, min_nonzero_abs, first_bad, zeros, crc32)`.
pub type TallyTuple = (u64, u64, u64, u64, u64, f64, f64, Option<u64>, u64, u32);

/// A tally as plain Python data.
pub fn tally_tuple(tally: &Tally) -> TallyTuple {
    let s = &tally.stats;
    (
        s.count,
        s.flushed,
        s.subnormal,
        s.nan,
        s.inf,
        to_f64(s.max_abs),
        to_f64(s.min_nonzero_abs),
        s.first_bad,
        s.zeros,
        tally.crc.value(),
    )
}

/// The bytes of one file, mapped where possible. Arrays over it keep it alive.
#[pyclass(frozen, module = "dmexp._native")]
pub struct FileBytes {
    mapping: Mapping,
}

impl FileBytes {
    /// The object of an open file.
    pub fn of(mapping: Mapping) -> Self {
        Self { mapping }
    }

    fn bytes(&self, py: Python<'_>) -> PyResult<&[u8]> {
        py.detach(|| self.mapping.bytes()).map_err(|error| errors::io(error, None))
    }
}

#[pymethods]
impl FileBytes {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self {
            mapping: py
                .detach(|| Mapping::open(&path))
                .map_err(|error| errors::io(error, Some(&path)))?,
        })
    }

    /// Map the file; None where it is empty or cannot be mapped.
    #[staticmethod]
    fn map(py: Python<'_>, path: PathBuf) -> PyResult<Option<Self>> {
        let mapping =
            py.detach(|| Mapping::map(&path)).map_err(|error| errors::io(error, Some(&path)))?;
        Ok(mapping.map(|mapping| Self { mapping }))
    }

    fn __len__(&self) -> usize {
        self.mapping.len()
    }

    /// Whether the bytes are the file's pages rather than a copy.
    #[getter]
    fn mapped(&self) -> bool {
        self.mapping.is_mapped()
    }

    /// The file's length now; other than `len()` where it changed since.
    fn current_len(&self) -> PyResult<u64> {
        self.mapping.current_len().map_err(|error| errors::io(error, None))
    }

    /// False once a page of the mapping could not be had, because the file had shrunk.
    pub fn intact(&self) -> bool {
        self.mapping.is_intact()
    }

    /// Let the system drop the pages of a range; a later access reads them again.
    fn give_back(&self, offset: usize, nbytes: usize) {
        self.mapping.give_back(offset, nbytes);
    }

    /// Check `nbytes` stored values of `dtype` from `offset` where they lie.
    fn scan(
        &self,
        py: Python<'_>,
        offset: usize,
        nbytes: usize,
        dtype: &str,
    ) -> PyResult<TallyTuple> {
        let dtype = stored(dtype)?;
        let bytes = self
            .bytes(py)?
            .get(offset..)
            .and_then(|rest| rest.get(..nbytes))
            .ok_or_else(|| PyValueError::new_err("the range leaves the file"))?;
        let mut tally = Tally::default();
        for part in bytes.chunks(PAUSE_BYTES) {
            // Whether a page was lost is asked below.
            py.detach(|| {
                sigbus::quietly(|| scan_crc(part, dtype, &mut tally.stats, &mut tally.crc))
            })
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
            py.check_signals()?;
        }
        if !self.mapping.is_intact() {
            return Err(PyEOFError::new_err("the file shrank while it was read"));
        }
        Ok(tally_tuple(&tally))
    }

    /// Read tensors by large sequential reads, check and place them.
    ///
    /// `requests` holds `(offset, nbytes, out, widen)`: where a tensor lies in the file, a writable
    /// buffer for its values or None, and whether they are widened to f32 on the way.
    /// EOFError where the file is shorter than it was.
    fn read(
        &self,
        py: Python<'_>,
        dtype: &str,
        requests: Vec<(u64, u64, Option<Bound<'_, PyAny>>, bool)>,
        threads: usize,
    ) -> PyResult<Vec<TallyTuple>> {
        let in_place = |(_, _, out, widen): &(_, _, Option<_>, bool)| out.is_none() || *widen;
        let store = match self.mapping.file() {
            // Unless they are copied as they are, values need not be read before they are used.
            Some(_) if requests.iter().all(in_place) && self.mapping.is_at_hand() => {
                Store::Mapped(&self.mapping)
            }
            Some(file) => Store::File(file),
            None => Store::Memory(self.bytes(py)?),
        };
        read_into(py, store, stored(dtype)?, &requests, threads)
    }

    /// Export the bytes, read-only.
    ///
    /// # Safety
    ///
    /// Called by the interpreter with a view to be filled.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        let bytes = slf.get().bytes(slf.py())?;
        let len = ffi::Py_ssize_t::try_from(bytes.len())?;
        // SAFETY: `view` is not null and the interpreter's; the bytes stay at their address for as
        // long as this object lives, and the view holds a reference to it. It is marked read-only.
        let result = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr().cast_mut().cast::<c_void>(),
                len,
                1,
                flags,
            )
        };
        if result == -1 {
            // SAFETY: as above; a failed export must not name an owner.
            unsafe { (*view).obj = ptr::null_mut() };
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}

/// As `FileBytes.read`, from bytes in memory.
#[pyfunction]
pub fn read_memory(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    dtype: &str,
    requests: Vec<(u64, u64, Option<Bound<'_, PyAny>>, bool)>,
    threads: usize,
) -> PyResult<Vec<TallyTuple>> {
    let data = ReadBuffer::get(data)?;
    read_into(py, Store::Memory(data.bytes()), stored(dtype)?, &requests, threads)
}

fn read_into(
    py: Python<'_>,
    store: Store<'_>,
    dtype: Dtype,
    requests: &[(u64, u64, Option<Bound<'_, PyAny>>, bool)],
    threads: usize,
) -> PyResult<Vec<TallyTuple>> {
    let mut rooms = Vec::with_capacity(requests.len());
    for (_, _, out, _) in requests {
        rooms.push(out.as_ref().map(WriteBuffer::get).transpose()?);
    }
    let mut ranges: Vec<_> =
        rooms.iter().flatten().map(WriteBuffer::range).filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    if ranges.windows(2).any(|pair| pair[1].start < pair[0].end) {
        return Err(PyValueError::new_err("two output buffers overlap"));
    }
    let requests = requests
        .iter()
        .zip(&mut rooms)
        .map(|((offset, nbytes, _, widen), room)| Request {
            offset: *offset,
            nbytes: *nbytes,
            out: room.as_mut().map(|room| {
                if *widen { Out::Widened(room.bytes_mut()) } else { Out::Stored(room.bytes_mut()) }
            }),
        })
        .collect();
    let tallies = py
        .detach(|| {
            // A tensor may take minutes to read, and Ctrl-C is not kept waiting for it.
            let mut pause =
                || Python::attach(|py| py.check_signals()).map_err(std::io::Error::other);
            read_tensors(store, dtype, requests, threads, &mut pause)
        })
        .map_err(|error| errors::io(error, None))?;
    Ok(tallies.iter().map(tally_tuple).collect())
}

/// How often a page of a mapped file could not be had, in this process so far.
#[pyfunction]
pub fn pages_lost() -> u64 {
    sigbus::lost()
}

/// Raise in the main thread soon, since a signal handler cannot raise.
extern "C" fn page_lost() {
    extern "C" fn pending(_: *mut c_void) -> c_int {
        // SAFETY: pending calls run with the interpreter attached.
        let py = unsafe { Python::assume_attached() };
        let facts = pyo3::types::PyDict::new(py);
        let message = "a mapped file shrank while its values were being read: what was read from it \
                       is not to be used. Copy the file before reading it, or get it again";
        errors::error(py, "TruncatedError", message, &facts).restore(py);
        -1
    }
    // SAFETY: Py_AddPendingCall may be called from any thread and without being attached. A page
    // is lost in the middle of a plain load from the mapping, so this thread holds no lock of the
    // interpreter's.
    unsafe { ffi::Py_AddPendingCall(Some(pending), ptr::null_mut()) };
}

/// Connect the guard of mappings to the interpreter.
pub fn register_hook() {
    sigbus::set_hook(page_lost);
}
