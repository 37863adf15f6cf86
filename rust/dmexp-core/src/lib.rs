//! The hot work behind `dmexp`: narrowing with counts, widening, CRC-32, checked slicing.
//! Nothing here knows of Python.
