//! CRC-32 (IEEE 802.3, the one of `zlib`).

use crc_fast::CrcAlgorithm::Crc32IsoHdlc;

/// A running CRC-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crc32 {
    value: u32,
    len: u64,
}

impl Crc32 {
    /// The checksum of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { value: 0, len: 0 }
    }

    /// Go on from the checksum of `len` earlier bytes. `len` matters to [`Self::append`] of this
    /// value to another only; pass 0 where that is not done.
    #[must_use]
    pub const fn resume(value: u32, len: u64) -> Self {
        Self { value, len }
    }

    /// Add bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.value = combine(self.value, hash(bytes), bytes.len() as u64);
        self.len = self.len.wrapping_add(bytes.len() as u64);
    }

    /// Add the bytes that `later` has seen.
    pub fn append(&mut self, later: &Self) {
        self.value = combine(self.value, later.value, later.len);
        self.len = self.len.wrapping_add(later.len);
    }

    /// The checksum so far.
    #[must_use]
    pub const fn value(&self) -> u32 {
        self.value
    }

    /// Bytes so far.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether no byte was seen.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The checksum of `bytes`.
#[must_use]
pub fn hash(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32IsoHdlc, bytes) as u32
}

/// The checksum of two runs of bytes from the checksums of each and the length of the second.
#[must_use]
pub fn combine(first: u32, second: u32, len_second: u64) -> u32 {
    crc_fast::checksum_combine(Crc32IsoHdlc, first.into(), second.into(), len_second) as u32
}
