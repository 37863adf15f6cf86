//! What is known of a run of payload once it has passed through a kernel.

use crate::crc32::Crc32;
use crate::stats::Stats;

/// Counts and checksum of one tensor, or of a part of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Counts and range.
    pub stats: Stats,
    /// Checksum of the stored bytes.
    pub crc: Crc32,
}

impl Tally {
    /// Append the tally of the bytes that follow.
    pub fn append(&mut self, later: &Self) {
        self.stats.merge(&later.stats);
        self.crc.append(&later.crc);
    }
}
