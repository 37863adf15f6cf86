//! Look for control characters, eight bytes at a time.

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// Where the first byte is that is below 0x20 or one of `others`, which are ASCII.
pub(crate) fn find_control<const N: usize>(bytes: &[u8], others: [u8; N]) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (nth, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let mut found = below(word, 0x20);
        for other in others {
            found |= below(word ^ ONES.wrapping_mul(u64::from(other)), 1);
        }
        if found != 0 {
            return Some(nth * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let odd = |byte: &u8| *byte < 0x20 || others.contains(byte);
    rest.iter().position(odd).map(|at| words.len() * 8 + at)
}

/// The high bit of each byte below `limit`, which is at most 0x80. The subtraction may borrow from
/// the byte above one that was found, so that only the lowest bit is to be trusted.
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES.wrapping_mul(u64::from(limit))) & !word & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_is_judged_as_one_by_one() {
        let odd = |byte: u8| byte < 0x20 || byte == b'"' || byte == 0x7f;
        for byte in 0..=255 {
            for after in [b'a', 0x1f, 0x20, 0xff] {
                for at in 0..20 {
                    let mut bytes = [b'a'; 21];
                    bytes[at] = byte;
                    bytes[at + 1] = after;
                    let expected = bytes.iter().position(|&byte| odd(byte));
                    assert_eq!(find_control(&bytes, [b'"', 0x7f]), expected, "{bytes:?}");
                }
            }
        }
        assert_eq!(find_control(b"", []), None);
    }
}
