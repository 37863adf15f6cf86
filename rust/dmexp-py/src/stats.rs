//! What narrowing counts, as a Python object.

use std::hash::{DefaultHasher, Hash, Hasher};

use dmexp_core::Stats;
use dmexp_core::stats::to_f64;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// What was seen while an array was narrowed.
///
/// Made by `narrow_with_stats`; immutable, and equal where all numbers are.
///
/// Attributes
/// ----------
/// count : int
///     Values.
/// flushed : int
///     Values that were not zero and are a zero of either sign now.
/// subnormal : int
///     Results that are not zero and lie below the smallest normal value of the dtype.
/// overflowed : int
///     Finite values that are infinite now.
/// nan, inf : int
///     NaNs and infinities in the input.
/// max_abs : float
///     Largest finite magnitude after narrowing; 0.0 where there is none.
/// min_nonzero_abs : float
///     Smallest finite magnitude after narrowing that is not zero; 0.0 where there is none.
#[pyclass(frozen, module = "dmexp._native")]
#[derive(Clone, Copy)]
pub struct NarrowStats(pub Stats);

#[pymethods]
impl NarrowStats {
    #[new]
    #[pyo3(signature = (
        *, count = 0, flushed = 0, subnormal = 0, overflowed = 0, nan = 0, inf = 0,
        max_abs = 0.0, min_nonzero_abs = 0.0
    ))]
    // One keyword for each attribute.
    #[allow(clippy::too_many_arguments)]
    fn new(
        count: u64,
        flushed: u64,
        subnormal: u64,
        overflowed: u64,
        nan: u64,
        inf: u64,
        max_abs: f32,
        min_nonzero_abs: f32,
    ) -> Self {
        Self(Stats {
            count,
            flushed,
            subnormal,
            overflowed,
            nan,
            inf,
            max_abs,
            min_nonzero_abs,
            ..Stats::default()
        })
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.count
    }

    #[getter]
    fn flushed(&self) -> u64 {
        self.0.flushed
    }

    #[getter]
    fn subnormal(&self) -> u64 {
        self.0.subnormal
    }

    #[getter]
    fn overflowed(&self) -> u64 {
        self.0.overflowed
    }

    #[getter]
    fn nan(&self) -> u64 {
        self.0.nan
    }

    #[getter]
    fn inf(&self) -> u64 {
        self.0.inf
    }

    #[getter]
    fn max_abs(&self) -> f64 {
        to_f64(self.0.max_abs)
    }

    #[getter]
    fn min_nonzero_abs(&self) -> f64 {
        to_f64(self.0.min_nonzero_abs)
    }

    /// The attributes as a dict, in the order above.
    fn _asdict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Stats {
            count, flushed, subnormal, overflowed, nan, inf, max_abs, min_nonzero_abs, ..
        } = self.0;
        let fields = PyDict::new(py);
        fields.set_item("count", count)?;
        fields.set_item("flushed", flushed)?;
        fields.set_item("subnormal", subnormal)?;
        fields.set_item("overflowed", overflowed)?;
        fields.set_item("nan", nan)?;
        fields.set_item("inf", inf)?;
        fields.set_item("max_abs", to_f64(max_abs))?;
        fields.set_item("min_nonzero_abs", to_f64(min_nonzero_abs))?;
        Ok(fields)
    }

    /// For `copy` and process pools.
    fn __getnewargs_ex__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyDict>)> {
        Ok((PyTuple::empty(py), self._asdict(py)?))
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.key() == other.key()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.key().hash(&mut hasher);
        hasher.finish()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let fields: Vec<String> = self
            ._asdict(py)?
            .iter()
            .map(|(name, value)| Ok(format!("{name}={}", value.repr()?)))
            .collect::<PyResult<_>>()?;
        Ok(format!("NarrowStats({})", fields.join(", ")))
    }
}

impl NarrowStats {
    /// Everything that Python sees. Magnitudes are finite and not negative, so that equal bits
    /// are equal values.
    fn key(&self) -> ([u64; 6], [u32; 2]) {
        let stats = &self.0;
        let counts =
            [stats.count, stats.flushed, stats.subnormal, stats.overflowed, stats.nan, stats.inf];
        (counts, [stats.max_abs.to_bits(), stats.min_nonzero_abs.to_bits()])
    }
}
