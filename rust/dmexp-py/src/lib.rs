//! `dmexp._native`: buffers in, buffers out, errors mapped in one place.

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
#[pyo3(name = "_native")]
fn native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    Ok(())
}
