//! Statements, keys and nesting.

use std::borrow::Cow;

use super::literals::literal;
use super::strings::{one_line, string};
use super::value::{Made, Table, Value};

/// Nested arrays and inline tables, and parts of a key: more is left to the other parser.
const MOST_NESTED: usize = 32;

/// Tables and lines of arrays, tensors aside: no model's header has as many.
const MOST_OPENED: usize = 100_000;

/// A value takes a few dozen bytes, so that the text's own length bounds the memory for them.
const BYTES_OF_A_VALUE: usize = 8;
const MOST_VALUES_ANYWAY: usize = 1 << 16;

type Key<'a> = Vec<Cow<'a, str>>;

/// Read a whole document; `None` where a complete parser has to look at it.
///
/// Lines end with a line feed: a text with carriage returns is given up.
#[must_use]
pub fn parse(text: &str) -> Option<Table<'_>> {
    let opened = text.split('\n').map(|line| line.trim_start_matches([' ', '\t']));
    let opened = opened.filter(|line| line.starts_with('[') && !line.starts_with("[[tensors]]"));
    if opened.take(MOST_OPENED).count() == MOST_OPENED {
        return None;
    }
    let mut root = Table::new(Made::Headed);
    let values_left = text.len() / BYTES_OF_A_VALUE + MOST_VALUES_ANYWAY;
    let mut reader = Reader { text, at: 0, values_left };
    reader.section(&mut root)?;
    while reader.peek().is_some() {
        let table = reader.header(&mut root)?;
        reader.section(table)?;
    }
    Some(root)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    values_left: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Blanks, a comment, and the end of the line or of the text.
    fn line_end(&mut self) -> Option<()> {
        self.blanks();
        if self.peek() == Some(b'#') {
            self.comment()?;
        }
        match self.peek() {
            None => Some(()),
            Some(b'\n') => {
                self.at += 1;
                Some(())
            }
            Some(_) => None,
        }
    }

    fn comment(&mut self) -> Option<()> {
        let rest = self.rest();
        let len = rest.bytes().position(|byte| byte == b'\n').unwrap_or(rest.len());
        if rest[..len].bytes().any(|byte| (byte < 0x20 && byte != b'\t') || byte == 0x7f) {
            return None;
        }
        self.at += len;
        Some(())
    }

    /// The lines of one section, up to the next header.
    fn section(&mut self, table: &mut Table<'a>) -> Option<()> {
        loop {
            self.blanks();
            match self.peek() {
                None | Some(b'[') => return Some(()),
                Some(b'\n' | b'#') => {}
                Some(_) => self.key_value(table, 0)?,
            }
            self.line_end()?;
        }
    }

    /// `[a.b]` or `[[a.b]]` with its line end: the table that the lines below belong to.
    fn header<'t>(&mut self, root: &'t mut Table<'a>) -> Option<&'t mut Table<'a>> {
        self.at += 1;
        let is_array = self.eat(b'[');
        self.values_left = self.values_left.checked_sub(1)?;
        self.blanks();
        let mut key = self.key()?;
        if !self.eat(b']') || (is_array && !self.eat(b']')) {
            return None;
        }
        self.line_end()?;
        let last = key.pop()?;
        let mut table = root;
        for part in key {
            table = parent(table, part, Made::Implied)?;
        }
        if is_array { next_of_array(table, last) } else { headed(table, last) }
    }

    /// One or more names with points between them, and the blanks after.
    fn key(&mut self) -> Option<Key<'a>> {
        let mut key = Vec::with_capacity(1);
        loop {
            key.push(self.name()?);
            self.blanks();
            if !self.eat(b'.') {
                return Some(key);
            }
            if key.len() == MOST_NESTED {
                return None;
            }
            self.blanks();
        }
    }

    fn name(&mut self) -> Option<Cow<'a, str>> {
        let rest = self.rest();
        if matches!(self.peek(), Some(b'"' | b'\'')) {
            let (name, len) = one_line(rest)?;
            self.at += len;
            return Some(name);
        }
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let len = rest.bytes().take_while(|byte| bare(*byte)).count();
        self.at += len;
        (len > 0).then(|| Cow::Borrowed(&rest[..len]))
    }

    fn key_value(&mut self, table: &mut Table<'a>, depth: usize) -> Option<()> {
        let first = self.name()?;
        self.blanks();
        if self.peek() != Some(b'.') {
            let value = self.equals(depth)?;
            return table.insert(first, value).map(|_| ());
        }
        self.at += 1;
        self.blanks();
        let mut key = self.key()?;
        let last = key.pop()?;
        let value = self.equals(depth)?;
        let mut table = table;
        for part in std::iter::once(first).chain(key) {
            table = parent(table, part, Made::Dotted)?;
        }
        table.insert(last, value).map(|_| ())
    }

    fn equals(&mut self, depth: usize) -> Option<Value<'a>> {
        if !self.eat(b'=') {
            return None;
        }
        self.blanks();
        self.value(depth)
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        self.values_left = self.values_left.checked_sub(1)?;
        match self.peek()? {
            b'"' | b'\'' => {
                let (value, len) = string(self.rest())?;
                self.at += len;
                Some(Value::String(value))
            }
            b'[' => self.array(depth + 1),
            b'{' => self.inline_table(depth + 1),
            _ => {
                let (value, len) = literal(self.rest())?;
                self.at += len;
                Some(value)
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<Value<'a>> {
        if depth > MOST_NESTED {
            return None;
        }
        self.at += 1;
        let mut values = Vec::new();
        loop {
            self.lines()?;
            if self.eat(b']') {
                return Some(Value::Array(values));
            }
            values.push(self.value(depth)?);
            self.lines()?;
            if !self.eat(b',') && self.peek() != Some(b']') {
                return None;
            }
        }
    }

    /// Blanks, comments and line ends.
    fn lines(&mut self) -> Option<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n') => self.at += 1,
                Some(b'#') => self.comment()?,
                _ => return Some(()),
            }
        }
    }

    /// On one line and without a comma at the end, as TOML 1.0 has it.
    fn inline_table(&mut self, depth: usize) -> Option<Value<'a>> {
        if depth > MOST_NESTED {
            return None;
        }
        self.at += 1;
        let mut table = Table::new(Made::Inline);
        self.blanks();
        if self.eat(b'}') {
            return Some(Value::Table(table));
        }
        loop {
            self.key_value(&mut table, depth)?;
            self.blanks();
            if self.eat(b'}') {
                return Some(Value::Table(table));
            }
            if !self.eat(b',') {
                return None;
            }
            self.blanks();
        }
    }
}

/// The table `name` on the way to another one, made where it is missing.
///
/// A dotted key goes only through tables that dotted keys of the same section made; a header goes
/// through tables and to the last of an array that headers made.
fn parent<'t, 'a>(
    table: &'t mut Table<'a>,
    name: Cow<'a, str>,
    made: Made,
) -> Option<&'t mut Table<'a>> {
    if table.get(&name).is_none() {
        return match table.insert(name, Value::Table(Table::new(made)))? {
            Value::Table(table) => Some(table),
            _ => None,
        };
    }
    let found = match table.get_mut(&name)? {
        Value::Table(found) => found,
        Value::Array(values) => match values.last_mut()? {
            Value::Table(last) if last.made == Made::Headed => last,
            _ => return None,
        },
        _ => return None,
    };
    let open = match made {
        Made::Dotted => found.made == Made::Dotted,
        _ => matches!(found.made, Made::Implied | Made::Headed),
    };
    open.then_some(found)
}

fn headed<'t, 'a>(table: &'t mut Table<'a>, name: Cow<'a, str>) -> Option<&'t mut Table<'a>> {
    if table.get(&name).is_none() {
        return match table.insert(name, Value::Table(Table::new(Made::Headed)))? {
            Value::Table(table) => Some(table),
            _ => None,
        };
    }
    match table.get_mut(&name)? {
        Value::Table(found) if found.made == Made::Implied => {
            found.made = Made::Headed;
            Some(found)
        }
        _ => None,
    }
}

fn next_of_array<'t, 'a>(
    table: &'t mut Table<'a>,
    name: Cow<'a, str>,
) -> Option<&'t mut Table<'a>> {
    let found = if table.get(&name).is_none() {
        table.insert(name, Value::Array(Vec::new()))?
    } else {
        let found = table.get_mut(&name)?;
        // An array that was a value is closed, an empty one too.
        let last = if let Value::Array(values) = &*found { values.last() } else { None };
        if !matches!(last, Some(Value::Table(last)) if last.made == Made::Headed) {
            return None;
        }
        found
    };
    let Value::Array(values) = found else { return None };
    values.push(Value::Table(Table::new(Made::Headed)));
    match values.last_mut()? {
        Value::Table(table) => Some(table),
        _ => None,
    }
}
