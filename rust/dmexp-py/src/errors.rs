//! The one place where errors cross into Python. The classes are Python's: `dmexp.errors`.

use std::io;
use std::path::Path;

use dmexp_core::index::Refusal;
use pyo3::exceptions::{PyEOFError, PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyModule};

/// Build `dmexp.errors.<class>(message, **facts)`.
pub fn error(py: Python<'_>, class: &str, message: &str, facts: &Bound<'_, PyDict>) -> PyErr {
    static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let build = || -> PyResult<Bound<'_, PyAny>> {
        let module = ERRORS
            .get_or_try_init(py, || PyModule::import(py, "dmexp.errors").map(Bound::unbind))?;
        module.bind(py).getattr(class)?.call((message,), Some(facts))
    };
    build().map_or_else(|error| error, PyErr::from_value)
}

/// Turn an error of the system into Python's, which goes by its number.
pub fn io(error: io::Error, path: Option<&Path>) -> PyErr {
    let Some(number) = error.raw_os_error() else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => PyEOFError::new_err(error.to_string()),
            io::ErrorKind::OutOfMemory => PyMemoryError::new_err(()),
            io::ErrorKind::InvalidInput => PyValueError::new_err(error.to_string()),
            _ => error.into(),
        };
    };
    let words = error.to_string();
    // Python puts the number in front itself.
    let words = words.rsplit_once(" (os error").map_or(&*words, |(words, _)| words).to_owned();
    let path = path.map(|path| path.as_os_str().to_owned());
    if cfg!(windows) {
        PyOSError::new_err((0, words, path, number))
    } else {
        PyOSError::new_err((number, words, path))
    }
}

/// Turn a refused tensor table into its exception.
pub fn refusal(py: Python<'_>, refusal: &Refusal) -> PyErr {
    let facts = PyDict::new(py);
    let built = (|| -> PyResult<&'static str> {
        Ok(match refusal {
            Refusal::EmptyName { position } | Refusal::ControlCharacter { position, .. } => {
                facts.set_item("key", "name")?;
                facts.set_item("position", position)?;
                "FormatError"
            }
            Refusal::DuplicateName { name } => {
                facts.set_item("key", "name")?;
                facts.set_item("tensor", name)?;
                "FormatError"
            }
            Refusal::Rank { name, rank } => {
                facts.set_item("key", "dims")?;
                facts.set_item("tensor", name)?;
                facts.set_item("rank", rank)?;
                "FormatError"
            }
            Refusal::Overflow { name, dims } => {
                facts.set_item("tensor", name)?;
                facts.set_item("dims", dims)?;
                "SizeOverflowError"
            }
            Refusal::BeyondPayload { name, dims, start, end, payload } => {
                facts.set_item("tensor", name)?;
                facts.set_item("dims", dims)?;
                facts.set_item("start", start)?;
                facts.set_item("end", end)?;
                facts.set_item("payload", payload)?;
                facts.set_item("conflicts", PyList::empty(py))?;
                "ShapeMismatchError"
            }
            Refusal::Uncovered { covered, payload } => {
                facts.set_item("covered", covered)?;
                facts.set_item("payload", payload)?;
                facts.set_item("conflicts", PyList::empty(py))?;
                "ShapeMismatchError"
            }
            // The enum may grow; an unnamed cause is still a fault of the header.
            _ => "FormatError",
        })
    })();
    match built {
        Ok(class) => error(py, class, &format!("{refusal}. {ADVICE}"), &facts),
        Err(error) => error,
    }
}

const ADVICE: &str =
    "The header does not belong to this payload: get the file again, or export again.";
