//! Narrowing and widening for Python: whole arrays, and runs of bytes of those that need preparing.

use dmexp_core::Stats;
use dmexp_core::narrow::narrow;
use dmexp_core::widen::widen;
use dmexp_core::{Dtype, cpu};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::arrays::Array;
use crate::buffers::{ReadBuffer, WriteBuffer};
use crate::dtypes;
use crate::errors;
use crate::memory::DETACH_BYTES;
use crate::stats::NarrowStats;

/// Run `work`, detached from the interpreter where that pays.
fn run<T: Send>(py: Python<'_>, source_bytes: usize, work: impl FnOnce() -> T + Send) -> T {
    if source_bytes < DETACH_BYTES { work() } else { py.detach(work) }
}

/// The kernels' refusals mean that the Python side passed what it should have checked.
fn mistake(error: &dmexp_core::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The dtype of a canonical name, or None for any other object.
fn canonical(name: &Bound<'_, PyAny>) -> Option<Dtype> {
    let name = name.cast_exact::<PyString>().ok()?;
    Dtype::from_name(name.to_str().ok()?)
}

/// Narrow a plain array into a new one or into `out`.
///
/// None where the arguments are not plain: `narrow_bytes` is the way for those.
#[pyfunction]
#[pyo3(signature = (array, dtype, out, /))]
pub fn narrow_array<'py>(
    array: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<(Bound<'py, PyAny>, NarrowStats)>> {
    let py = array.py();
    let Some(to) = canonical(dtype).filter(|to| *to != Dtype::F64) else {
        return Ok(None);
    };
    let Some(source) = Array::get(array)? else {
        return Ok(None);
    };
    let target = match out {
        None => source.empty_like(to)?,
        Some(out) => match Array::get(out)? {
            Some(target)
                if target.dtype() == to
                    && target.dims() == source.dims()
                    && target.is_writeable()
                    && !target.overlaps(&source) =>
            {
                target
            }
            _ => return Ok(None),
        },
    };
    let from = source.dtype();
    let (src, dst) = (source.bytes(), target.bytes());
    let stats = run(py, src.len(), move || {
        let mut stats = Stats::default();
        // SAFETY: `target` is new, or writeable and apart from `source`, both checked above; no
        // other slice of either is made.
        let (src, dst) = unsafe { (src.read(), dst.write()) };
        narrow(src, from, dst, to, &mut stats).map(|()| stats)
    })
    .map_err(|error| mistake(&error))?;
    Ok(Some((target.into_object(), NarrowStats(stats))))
}

/// Narrow a run of little-endian values, and append what was seen to the statistics of the runs
/// before.
#[pyfunction]
#[pyo3(signature = (src, src_dtype, dst, dst_dtype, before, /))]
pub fn narrow_bytes(
    py: Python<'_>,
    src: &Bound<'_, PyAny>,
    src_dtype: &str,
    dst: &Bound<'_, PyAny>,
    dst_dtype: &str,
    before: Option<&NarrowStats>,
) -> PyResult<NarrowStats> {
    let (from, to) = (dtypes::any(src_dtype)?, dtypes::stored(dst_dtype)?);
    let (src, mut dst) = disjoint(src, dst)?;
    let mut stats = before.map_or_else(Stats::default, |before| before.0);
    let (src, dst) = (src.bytes(), dst.bytes_mut());
    run(py, src.len(), || narrow(src, from, dst, to, &mut stats))
        .map_err(|error| mistake(&error))?;
    Ok(NarrowStats(stats))
}

/// Widen a plain array into a new one of float32; None where the argument is not plain.
#[pyfunction]
#[pyo3(signature = (array, /))]
pub fn widen_array<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = array.py();
    let Some(source) = Array::get(array)?.filter(|source| source.dtype() != Dtype::F64) else {
        return Ok(None);
    };
    let target = source.empty_like(Dtype::F32)?;
    let from = source.dtype();
    let (src, dst) = (source.bytes(), target.bytes());
    run(py, src.len(), move || {
        // SAFETY: `target` is new; no other slice of either is made.
        let (src, dst) = unsafe { (src.read(), dst.write()) };
        widen(src, from, dst)
    })
    .map_err(|error| mistake(&error))?;
    Ok(Some(target.into_object()))
}

/// Widen a run of little-endian values.
#[pyfunction]
#[pyo3(signature = (src, src_dtype, dst, /))]
pub fn widen_bytes(
    py: Python<'_>,
    src: &Bound<'_, PyAny>,
    src_dtype: &str,
    dst: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let from = dtypes::stored(src_dtype)?;
    let (src, mut dst) = disjoint(src, dst)?;
    let (src, dst) = (src.bytes(), dst.bytes_mut());
    run(py, src.len(), || widen(src, from, dst)).map_err(|error| mistake(&error))
}

fn disjoint(src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<(ReadBuffer, WriteBuffer)> {
    let (src, dst) = (ReadBuffer::get(src)?, WriteBuffer::get(dst)?);
    let (from, to) = (src.bytes().as_ptr_range(), dst.range());
    if (from.start as usize) < to.end && to.start < from.end as usize {
        return Err(PyValueError::new_err("source and destination overlap"));
    }
    Ok((src, dst))
}

/// The instruction set in use, and those that this CPU has: see `DMEXP_CPU`.
#[pyfunction]
pub fn cpu_tiers() -> (&'static str, Vec<&'static str>) {
    (cpu::tier().name(), cpu::tiers_available().map(cpu::Tier::name).collect())
}

/// Refuse an environment variable `DMEXP_CPU` that names no instruction set of this CPU.
pub fn check_tier(py: Python<'_>) -> PyResult<()> {
    if let Err(error) = cpu::configured() {
        let facts = PyDict::new(py);
        facts.set_item("argument", "DMEXP_CPU")?;
        let message = format!("{error}. Unset it to let dmexp choose.");
        return Err(errors::error(py, "InvalidArgumentError", &message, &facts));
    }
    Ok(())
}
