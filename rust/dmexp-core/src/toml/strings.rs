//! The four kinds of strings. Line ends are line feeds by now.

use std::borrow::Cow;

/// Read a string from the start of `text`; the bytes that it takes come with it.
pub(super) fn string(text: &str) -> Option<(Cow<'_, str>, usize)> {
    if let Some(rest) = text.strip_prefix("\"\"\"") {
        return with_escapes(rest, true).map(|(value, len)| (value, len + 3));
    }
    if let Some(rest) = text.strip_prefix("'''") {
        return literal_lines(rest).map(|(value, len)| (value, len + 3));
    }
    one_line(text)
}

/// A string that may be a key as well.
pub(super) fn one_line(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let (quote, rest) = (text.as_bytes().first()?, text.get(1..)?);
    match quote {
        b'"' => with_escapes(rest, false).map(|(value, len)| (value, len + 1)),
        b'\'' => {
            let len = rest.bytes().position(|b| b == b'\'' || is_control(b))?;
            (rest.as_bytes()[len] == b'\'').then(|| (Cow::Borrowed(&rest[..len]), len + 2))
        }
        _ => None,
    }
}

fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

fn literal_lines(text: &str) -> Option<(Cow<'_, str>, usize)> {
    let skipped = usize::from(text.starts_with('\n'));
    let rest = &text[skipped..];
    let len = rest.find("'''")?;
    let more = closing(&rest.as_bytes()[len..], b'\'');
    let value = &rest[..len + more];
    if value.bytes().any(|byte| is_control(byte) && byte != b'\n') {
        return None;
    }
    Some((Cow::Borrowed(value), skipped + len + more + 3))
}

/// Quotes that belong to the text although three of them follow: at most two do.
fn closing(quotes: &[u8], quote: u8) -> usize {
    let run = quotes.iter().take(5).take_while(|&&byte| byte == quote).count();
    run - 3
}

fn with_escapes(text: &str, lines: bool) -> Option<(Cow<'_, str>, usize)> {
    let bytes = text.as_bytes();
    let mut at = usize::from(lines && text.starts_with('\n'));
    let mut start = at;
    let mut value = String::new();
    loop {
        match *bytes.get(at)? {
            b'"' if !lines => {
                return Some((joined(value, &text[start..at]), at + 1));
            }
            b'"' => {
                if bytes[at..].starts_with(b"\"\"\"") {
                    let end = at + closing(&bytes[at..], b'"');
                    return Some((joined(value, &text[start..end]), end + 3));
                }
                at += 1;
            }
            b'\\' => {
                value.push_str(&text[start..at]);
                at += escape(&text[at + 1..], lines, &mut value)? + 1;
                start = at;
            }
            byte if is_control(byte) && !(lines && byte == b'\n') => return None,
            _ => at += 1,
        }
    }
}

fn joined<'a>(mut before: String, last: &'a str) -> Cow<'a, str> {
    if before.is_empty() {
        return Cow::Borrowed(last);
    }
    before.push_str(last);
    Cow::Owned(before)
}

/// Put what follows a backslash into `value`; the bytes that it takes are returned.
fn escape(text: &str, lines: bool, value: &mut String) -> Option<usize> {
    let letter = match text.as_bytes().first()? {
        b'b' => '\u{8}',
        b't' => '\t',
        b'n' => '\n',
        b'f' => '\u{c}',
        b'r' => '\r',
        b'"' => '"',
        b'\\' => '\\',
        kind @ (b'u' | b'U') => {
            let end = if *kind == b'u' { 5 } else { 9 };
            let digits = text.get(1..end)?;
            // Not every spelling that Rust reads as a number is one here: a sign is not.
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return None;
            }
            value.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
            return Some(end);
        }
        b' ' | b'\t' | b'\n' if lines => return line_end(text),
        _ => return None,
    };
    value.push(letter);
    Some(1)
}

/// A backslash at the end of a line takes all white space up to the next letter with it.
fn line_end(text: &str) -> Option<usize> {
    let blanks = text.bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    if text.as_bytes().get(blanks) != Some(&b'\n') {
        return None;
    }
    Some(text.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n')).count())
}
