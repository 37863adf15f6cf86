//! A TOML reader for the common case: fast, and silent where it is not sure.
//!
//! It knows tables, arrays of tables, dotted keys, all four kinds of strings, integers, floats,
//! booleans, arrays and inline tables as TOML 1.0 has them. At anything else (dates, `inf`, what
//! only TOML 1.1 allows, numbers beyond 64 bits, deep nesting, any fault) it gives up with `None`:
//! the caller then takes a complete parser, which also knows how to complain. What it does read it
//! must read as that parser would; a property test holds the two together.

mod literals;
mod parse;
mod strings;
mod value;

pub use parse::parse;
pub use value::{Table, Value};
