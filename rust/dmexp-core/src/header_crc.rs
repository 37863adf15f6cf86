//! The header's checksum of itself: a comment, the last line that is not blank.

use crate::crc32;

const BEFORE: &[u8] = b"# header-crc32 = \"";
const AFTER: &[u8] = b"\"";

/// Bytes of the line, its line feed included.
pub const LINE_LEN: usize = BEFORE.len() + 8 + AFTER.len() + 1;

/// Where the line starts, if the header has one.
#[must_use]
pub fn line_start(header: &[u8]) -> Option<usize> {
    find(header).map(|(start, _)| start)
}

/// The stored and the computed checksum, if the header has one.
#[must_use]
pub fn check(header: &[u8]) -> Option<(u32, u32)> {
    let (start, stored) = find(header)?;
    Some((stored, crc32::hash(&header[..start])))
}

/// The line that belongs after `text`.
#[must_use]
pub fn line(text: &[u8]) -> String {
    format!("# header-crc32 = \"{:08x}\"\n", crc32::hash(text))
}

fn find(header: &[u8]) -> Option<(usize, u32)> {
    let blank = |byte: &u8| matches!(byte, b'\n' | b'\r' | b' ' | b'\t');
    let len = header.iter().rposition(|byte| !blank(byte))? + 1;
    let line = header[..len].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let digits = header[line..len].strip_prefix(BEFORE)?.strip_suffix(AFTER)?;
    if digits.len() != 8 || !digits.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let stored = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((line, stored))
}
