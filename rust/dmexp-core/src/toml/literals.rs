//! Numbers and booleans.

use super::value::Value;

/// Digits that a number may have: parsing longer ones takes time that nobody needs to spend.
const MOST_BYTES: usize = 128;

/// Read a number or a boolean from the start of `text`; the bytes that it takes come with it.
pub(super) fn literal(text: &str) -> Option<(Value<'static>, usize)> {
    for (word, value) in [("true", true), ("false", false)] {
        if text.starts_with(word) {
            return ends(text, word.len()).then_some((Value::Boolean(value), word.len()));
        }
    }
    let bytes = text.as_bytes();
    let radix = match bytes.get(..2) {
        Some(b"0x") => 16,
        Some(b"0o") => 8,
        Some(b"0b") => 2,
        _ => 10,
    };
    if radix != 10 {
        let len = digits(&bytes[2..], |byte| char::from(byte).is_digit(radix))?;
        if !ends(text, 2 + len) {
            return None;
        }
        let number = i64::from_str_radix(&plain(&text[2..2 + len]), radix).ok()?;
        return Some((Value::Integer(number), 2 + len));
    }
    let sign = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    let whole = digits(&bytes[sign..], |byte| byte.is_ascii_digit())?;
    if whole > 1 && bytes[sign] == b'0' {
        return None;
    }
    let mut len = sign + whole;
    if bytes.get(len) == Some(&b'.') {
        len += 1 + digits(&bytes[len + 1..], |byte| byte.is_ascii_digit())?;
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        len += 1 + sign + digits(&bytes[len + 1 + sign..], |byte| byte.is_ascii_digit())?;
    }
    // A date starts like a number, and goes on.
    if !ends(text, len) {
        return None;
    }
    let number = plain(&text[..len]);
    let value = if len == sign + whole {
        Value::Integer(number.parse().ok()?)
    } else {
        Value::Float(number.parse().ok()?)
    };
    Some((value, len))
}

/// How many bytes of digits there are, with single underscores between them.
fn digits(bytes: &[u8], is_digit: impl Fn(u8) -> bool) -> Option<usize> {
    let mut len = 0;
    loop {
        let start = len;
        while bytes.get(len).is_some_and(|byte| is_digit(*byte)) {
            len += 1;
        }
        if len == start || len > MOST_BYTES {
            return None;
        }
        if bytes.get(len) != Some(&b'_') {
            return Some(len);
        }
        len += 1;
    }
}

fn plain(digits: &str) -> std::borrow::Cow<'_, str> {
    if digits.contains('_') { digits.replace('_', "").into() } else { digits.into() }
}

/// Whether a value may end at `at`.
fn ends(text: &str, at: usize) -> bool {
    matches!(text.as_bytes().get(at), None | Some(b' ' | b'\t' | b'\n' | b',' | b']' | b'}' | b'#'))
}
