//! CRC-32 (IEEE 802.3, the one of `zlib`).

use crc32fast::Hasher;

/// A running CRC-32.
///
/// ```
/// use dmexp_core::Crc32;
///
/// let mut crc = Crc32::new();
/// crc.update(b"12345");
/// crc.update(b"6789");
/// assert_eq!(crc.value(), 0xcbf4_3926);
/// ```
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

    /// Go on from the checksum of `len` earlier bytes. The length matters only where this value
    /// is later given to [`Self::append`]; pass 0 otherwise.
    #[must_use]
    pub const fn resume(value: u32, len: u64) -> Self {
        Self { value, len }
    }

    /// Add bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        self.value = resume(self.value, bytes);
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
#[inline]
pub fn hash(bytes: &[u8]) -> u32 {
    resume(0, bytes)
}

/// The checksum of earlier bytes, whose checksum is `value`, and `bytes`.
#[must_use]
#[inline]
pub fn resume(value: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(value);
    hasher.update(bytes);
    hasher.finalize()
}

/// The checksum of two runs of bytes from the checksum of each and the length of the second.
#[must_use]
pub fn combine(first: u32, second: u32, len_second: u64) -> u32 {
    let mut hasher = Hasher::new_with_initial(first);
    hasher.combine(&Hasher::new_with_initial_len(second, len_second));
    hasher.finalize()
}
