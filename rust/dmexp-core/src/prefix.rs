//! The 24 bytes that every file starts with.

use std::io;
use std::path::Path;

use crate::header::VERSION;
use crate::header_crc;
use crate::mapping::Mapping;
use crate::positioned::read_exact_at;

/// How many bytes the prefix has.
pub const PREFIX_BYTES: usize = 24;

/// A header up to this size is read rather than mapped.
const READ_BYTES: usize = 16 << 10;

const MAGIC: [u8; 7] = *b"DMEXPRT";

/// What the prefix says.
#[derive(Clone, Copy, Debug)]
pub struct Prefix {
    /// The header's length in bytes.
    pub header: usize,
    /// The payload's length in bytes.
    pub payload: u64,
    /// The payload's checksum.
    pub crc32: u32,
}

impl Prefix {
    /// Read the prefix of a file of `len` bytes; `None` where there is anything to refuse.
    #[must_use]
    pub fn read(head: &[u8], len: usize) -> Option<Self> {
        let head: &[u8; PREFIX_BYTES] = head.first_chunk()?;
        let (magic, rest) = head.split_first_chunk()?;
        let (version, rest) = rest.split_first()?;
        let (header, rest) = rest.split_first_chunk()?;
        let (payload, rest) = rest.split_first_chunk()?;
        let header = usize::try_from(u32::from_le_bytes(*header)).ok()?;
        let payload = u64::from_le_bytes(*payload);
        let expected = PREFIX_BYTES as u64 + header as u64;
        let good = *magic == MAGIC
            && u64::from(*version) == VERSION
            && expected.checked_add(payload) == Some(len as u64);
        good.then(|| {
            Some(Self { header, payload, crc32: u32::from_le_bytes(*rest.first_chunk()?) })
        })?
    }
}

/// A file whose prefix, length and header checksum are right.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: Mapping,
    /// Its prefix.
    pub prefix: Prefix,
    small: Vec<u8>,
}

impl Opened {
    /// Open `path`; `None` where it is no regular file or there is anything to refuse.
    ///
    /// # Errors
    ///
    /// Whatever the system says.
    pub fn open(path: &Path) -> io::Result<Option<Self>> {
        // Before opening: a pipe that is opened twice is a pipe that is lost.
        if !std::fs::metadata(path)?.is_file() {
            return Ok(None);
        }
        let mapping = Mapping::open(path)?;
        let Some(file) = mapping.file() else { return Ok(None) };
        let len = mapping.len();
        let mut head = [0; READ_BYTES];
        let head = &mut head[..len.min(READ_BYTES)];
        read_exact_at(file, head, 0)?;
        let Some(prefix) = Prefix::read(head, len) else { return Ok(None) };
        let small = head.get(PREFIX_BYTES..PREFIX_BYTES + prefix.header).unwrap_or(&[]).to_vec();
        let opened = Self { file: mapping, prefix, small };
        let sound = header_crc::check(opened.header()?).is_none_or(|(said, is)| said == is);
        Ok(sound.then_some(opened))
    }

    /// The header's bytes.
    ///
    /// # Errors
    ///
    /// Whatever the system says when the file has to be mapped for it and cannot.
    pub fn header(&self) -> io::Result<&[u8]> {
        if self.small.len() == self.prefix.header {
            return Ok(&self.small);
        }
        let bytes = self.file.bytes()?;
        Ok(&bytes[PREFIX_BYTES..PREFIX_BYTES + self.prefix.header])
    }
}
