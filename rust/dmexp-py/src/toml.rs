//! TOML values as Python objects.

use std::borrow::Cow;

use dmexp_core::toml::{self, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

/// Parse a document; None where the complete parser has to look at it.
#[pyfunction]
pub fn parse_toml<'py>(py: Python<'py>, text: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
    let text =
        if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { text.into() };
    toml::parse(&text).map(|table| dict(py, table)).transpose()
}

/// A table as a dict, in its order.
pub fn dict<'py, 'a>(
    py: Python<'py>,
    entries: impl IntoIterator<Item = (Cow<'a, str>, Value<'a>)>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in entries {
        dict.set_item(key, object(py, value)?)?;
    }
    Ok(dict)
}

fn object<'py>(py: Python<'py>, value: Value<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::String(text) => PyString::new(py, &text).into_any(),
        Value::Integer(number) => PyInt::new(py, number).into_any(),
        Value::Float(number) => PyFloat::new(py, number).into_any(),
        Value::Boolean(truth) => PyBool::new(py, truth).to_owned().into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(object(py, value)?)?;
            }
            list.into_any()
        }
        Value::Table(table) => dict(py, table)?.into_any(),
    })
}
