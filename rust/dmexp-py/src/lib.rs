//! `dmexp._native`: buffers in, buffers out, errors mapped in one place.

mod arrays;
mod buffers;
mod crc;
mod dtypes;
mod errors;
mod file;
mod header;
mod memory;
mod narrow;
mod stats;
mod toml;
mod writer;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
#[pyo3(name = "_native")]
fn native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    file::register_hook();
    narrow::check_tier(m.py())?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add_class::<crc::Crc32>()?;
    m.add_class::<file::FileBytes>()?;
    m.add_class::<header::HeaderIndex>()?;
    m.add_class::<stats::NarrowStats>()?;
    m.add_class::<writer::PayloadWriter>()?;
    m.add_function(wrap_pyfunction!(crc::crc32, m)?)?;
    m.add_function(wrap_pyfunction!(crc::crc32_combine, m)?)?;
    m.add_function(wrap_pyfunction!(file::pages_lost, m)?)?;
    m.add_function(wrap_pyfunction!(file::read_memory, m)?)?;
    m.add_function(wrap_pyfunction!(header::header_crc32, m)?)?;
    m.add_function(wrap_pyfunction!(header::header_crc32_line, m)?)?;
    m.add_function(wrap_pyfunction!(header::open_file, m)?)?;
    m.add_function(wrap_pyfunction!(header::read_header, m)?)?;
    m.add_function(wrap_pyfunction!(narrow::cpu_tiers, m)?)?;
    m.add_function(wrap_pyfunction!(narrow::narrow_array, m)?)?;
    m.add_function(wrap_pyfunction!(narrow::narrow_bytes, m)?)?;
    m.add_function(wrap_pyfunction!(toml::parse_toml, m)?)?;
    m.add_function(wrap_pyfunction!(narrow::widen_array, m)?)?;
    m.add_function(wrap_pyfunction!(narrow::widen_bytes, m)?)?;
    // Nobody imports * from a private module, and the stub need not repeat every name.
    m.delattr("__all__")
}
