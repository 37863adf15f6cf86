//! The hot work behind `dmexp`: narrowing with counts, widening, CRC-32, checked slicing.
//! Nothing here knows of Python.

mod ascii;
pub mod cpu;
pub mod crc32;
pub mod document;
pub mod dtype;
pub mod error;
pub mod header;
pub mod header_crc;
pub mod index;
pub mod mapping;
mod names;
pub mod narrow;
pub mod positioned;
pub mod prefix;
pub mod read;
pub mod scan;
pub mod sigbus;
mod simd;
pub mod sink;
pub mod stats;
pub mod tally;
pub mod toml;
pub mod widen;
pub mod write;

pub use crc32::Crc32;
pub use dtype::Dtype;
pub use error::Error;
pub use stats::Stats;
