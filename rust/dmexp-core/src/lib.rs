//! The hot work behind `dmexp`: narrowing with counts, widening, CRC-32, checked slicing.
//! Nothing here knows of Python.

pub mod cpu;
pub mod crc32;
pub mod dtype;
pub mod error;
pub mod narrow;
pub mod stats;
pub mod widen;

pub use crc32::Crc32;
pub use dtype::Dtype;
pub use error::Error;
pub use stats::Stats;
