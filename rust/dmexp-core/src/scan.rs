//! Read a header in exactly the words that our writer uses.
//!
//! A general TOML parser builds a value for every key; this walks the text once and fills the
//! tensor table. It knows one spelling of each line and gives up (`None`) at anything else: the
//! caller then takes a real parser, which also knows how to complain. Where both read a header
//! they must agree; a property test holds them to it.

use std::borrow::Cow;

use crate::ascii::find_control;
use crate::dtype::Dtype;
use crate::header::{Header, Metadata};
use crate::index::Builder;
use crate::toml;

/// Twice what our writer's longest number takes.
const LONGEST_FLOAT: usize = 128;

/// Bytes of the shortest tensor that can be written, to bound what a claim makes room for.
const TENSOR_BYTES: usize = 48;

/// Read `text`, a header whose payload has `payload` bytes; `None` for other words than ours.
#[must_use]
pub fn scan(text: &str, payload: u64) -> Option<Header<'_>> {
    Cursor { text, at: 0 }.header(payload)
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn header(mut self, payload: u64) -> Option<Header<'a>> {
        let format = self.integer_line("format = ")?;
        let dtype = Dtype::from_name(&self.string_line("dtype = ")?)?;
        if dtype == Dtype::F64 {
            return None;
        }
        let source = self.string_line("source = ")?.into_owned();
        let step = self.integer_line("step = ")?;
        let num_params = self.integer_line("num_params = ")?;
        let num_tensors = self.integer_line("num_tensors = ")?;
        let flushed = self.integer_line("flushed = ")?;
        let max_abs = self.float_line("max_abs = ")?;
        let min_nonzero_abs = self.float_line("min_nonzero_abs = ")?;
        let subnormal =
            if self.sees("subnormal = ") { Some(self.integer_line("subnormal = ")?) } else { None };
        let writer = if self.sees("writer = ") {
            Some(self.string_line("writer = ")?.into_owned())
        } else {
            None
        };
        let config = self.string_line("config = ")?.into_owned();
        let room = usize::try_from(num_tensors).ok()?.min(self.text.len() / TENSOR_BYTES);
        let mut builder = Builder::new(dtype.width() as u64, payload, room);
        let mut dims = Vec::new();
        let mut count = 0_u64;
        if !self.eat("tensors = []\n") {
            while self.eat("\n[[tensors]]\nname = ") {
                let name = self.string()?;
                self.expect("\ndims = [")?;
                self.dims(&mut dims)?;
                self.expect("\noverflowed = 0\n")?;
                let crc32 = if self.eat("crc32 = \"") { Some(self.hex_line()?) } else { None };
                builder.push(&name, &dims, crc32).ok()?;
                count += 1;
            }
            if count == 0 {
                return None;
            }
        }
        let metadata = self.metadata()?;
        // Only blank lines may follow.
        if self.rest().bytes().any(|byte| byte != b'\n') {
            return None;
        }
        let index = builder.finish().ok()?;
        Some(Header {
            format,
            dtype,
            source,
            step,
            num_params,
            num_tensors,
            flushed,
            max_abs,
            min_nonzero_abs,
            subnormal,
            writer,
            config,
            metadata,
            extra: Vec::new(),
            tensor_extra: Vec::new(),
            index,
        })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn sees(&self, words: &str) -> bool {
        self.text.as_bytes()[self.at..].starts_with(words.as_bytes())
    }

    fn eat(&mut self, words: &str) -> bool {
        let found = self.sees(words);
        if found {
            self.at += words.len();
        }
        found
    }

    fn expect(&mut self, words: &str) -> Option<()> {
        self.eat(words).then_some(())
    }

    fn integer_line(&mut self, key: &str) -> Option<u64> {
        self.expect(key)?;
        let number = self.integer()?;
        self.expect("\n")?;
        Some(number)
    }

    /// Decimal digits without a leading zero, at most what TOML's signed integers hold.
    fn integer(&mut self) -> Option<u64> {
        let digits = &self.text.as_bytes()[self.at..];
        let mut number = 0_u64;
        let mut len = 0;
        while let Some(digit) = digits.get(len).filter(|byte| byte.is_ascii_digit()) {
            number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
            len += 1;
        }
        if len == 0 || (len > 1 && digits[0] == b'0') || i64::try_from(number).is_err() {
            return None;
        }
        self.at += len;
        Some(number)
    }

    /// Digits, a point, digits: no sign, no exponent, no underscore.
    fn float_line(&mut self, key: &str) -> Option<f64> {
        self.expect(key)?;
        let line = self.rest();
        let line = &line[..line.find('\n')?];
        if line.len() > LONGEST_FLOAT {
            return None;
        }
        let (whole, part) = line.split_once('.')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        self.at += line.len() + 1;
        line.parse().ok()
    }

    fn string_line(&mut self, key: &str) -> Option<Cow<'a, str>> {
        self.expect(key)?;
        let text = self.string()?;
        self.expect("\n")?;
        Some(text)
    }

    /// A string in any of TOML's four forms, as long as it holds no escape but the five that
    /// are one letter, and (where it is more than a line) starts with a line feed.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        if self.eat("\"\"\"\n") {
            return self
                .until("\"\"\"", true)
                .filter(|text| plain(text, true) && !text.contains('\\'))
                .map(Cow::Borrowed);
        }
        if self.eat("'''\n") {
            return self.until("'''", true).filter(|text| plain(text, true)).map(Cow::Borrowed);
        }
        if (self.sees("\"\"") && !self.sees("\"\"\n")) || self.sees("'''") {
            return None;
        }
        if self.eat("'") {
            return self.until("'", false).filter(|text| plain(text, false)).map(Cow::Borrowed);
        }
        self.expect("\"")?;
        self.basic()
    }

    /// The text up to `end`, which is stepped over. A longer run of quotes belongs to the text.
    fn until(&mut self, end: &str, lines: bool) -> Option<&'a str> {
        let rest = self.rest();
        let quote = end.as_bytes()[0];
        let mut len = 0;
        while !rest.as_bytes()[len..].starts_with(end.as_bytes()) {
            len += 1;
            len += rest.get(len..)?.find(char::from(quote))?;
        }
        if lines {
            while rest.as_bytes().get(len + end.len()) == Some(&quote) {
                len += 1;
            }
            // TOML allows two quotes before the closing three.
            if len >= 3 && rest[..len].ends_with(end) {
                return None;
            }
        }
        self.at += len + end.len();
        Some(&rest[..len])
    }

    /// A basic string after its opening quote.
    fn basic(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.rest();
        let len = find_control(rest.as_bytes(), [b'"', b'\\', 0x7f])?;
        if rest.as_bytes()[len] == b'"' {
            self.at += len + 1;
            return Some(Cow::Borrowed(&rest[..len]));
        }
        let mut text = String::from(&rest[..len]);
        let mut letters = rest[len..].chars();
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => text.push(match letters.next()? {
                    '"' => '"',
                    '\\' => '\\',
                    't' => '\t',
                    'n' => '\n',
                    'r' => '\r',
                    _ => return None,
                }),
                letter if letter < ' ' || letter == '\u{7f}' => return None,
                letter => text.push(letter),
            }
        }
        self.at = self.text.len() - letters.as_str().len();
        Some(Cow::Owned(text))
    }

    /// Integers up to `]`, which is stepped over.
    fn dims(&mut self, dims: &mut Vec<u64>) -> Option<()> {
        dims.clear();
        if self.eat("]") {
            return Some(());
        }
        loop {
            dims.push(self.integer()?);
            if self.eat("]") {
                return Some(());
            }
            self.expect(", ")?;
        }
    }

    /// Eight lower-case hex digits, a quote and a line feed.
    fn hex_line(&mut self) -> Option<u32> {
        let value = lower_hex(self.text.as_bytes()[self.at..].first_chunk()?)?;
        self.at += 8;
        self.expect("\"\n")?;
        Some(value)
    }

    /// Step over a `[metadata]` table and over the line of the header's own checksum. The outer
    /// `None` is for anything else.
    #[allow(clippy::option_option)]
    fn metadata(&mut self) -> Option<Option<Metadata<'a>>> {
        let start = self.at;
        let mut metadata = None;
        let end = match crate::header_crc::line_start(self.text.as_bytes()) {
            Some(line) if line >= start => line,
            Some(_) => return None,
            None => self.text.len(),
        };
        if self.sees("\n[metadata]\n") || self.sees("\n[metadata.") {
            let text = &self.text[start + 1..end];
            metadata = Some(match toml::parse(text) {
                Some(tables) => Metadata::Table(tables.only("metadata")?),
                None => Metadata::Text(text),
            });
            self.at = end;
        }
        if self.at == end && end < self.text.len() {
            let next = end + crate::header_crc::LINE_LEN;
            if self.text.as_bytes().get(next - 1) != Some(&b'\n') {
                return None;
            }
            self.at = next;
        }
        Some(metadata)
    }
}

/// Eight lower-case hex digits.
pub(crate) fn lower_hex(digits: &[u8; 8]) -> Option<u32> {
    digits.iter().try_fold(0, |value: u32, digit| {
        let nibble = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u32::from(nibble))
    })
}

/// Whether TOML allows the text inside a literal as it stands.
fn plain(text: &str, lines: bool) -> bool {
    let mut rest = text.as_bytes();
    while let Some(at) = find_control(rest, [0x7f]) {
        if rest[at] != b'\t' && !(lines && rest[at] == b'\n') {
            return false;
        }
        rest = &rest[at + 1..];
    }
    true
}
