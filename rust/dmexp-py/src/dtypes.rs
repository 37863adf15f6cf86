//! Names of dtypes that cross the border are canonical already; anything else is a mistake here.

use dmexp_core::Dtype;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Any dtype.
pub fn any(name: &str) -> PyResult<Dtype> {
    Dtype::from_name(name).ok_or_else(|| PyValueError::new_err(format!("no dtype {name:?}")))
}

/// A dtype that a payload may hold.
pub fn stored(name: &str) -> PyResult<Dtype> {
    any(name).and_then(|dtype| {
        if Dtype::STORED.contains(&dtype) {
            Ok(dtype)
        } else {
            Err(PyValueError::new_err(format!("{name:?} is not stored")))
        }
    })
}
