//! What a document is made of.

use std::borrow::Cow;
use std::collections::HashMap;

/// Keys from which on a table is searched by hash.
const HASHED_FROM: usize = 16;

/// A value of a document; strings without escapes are parts of its text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text.
    String(Cow<'a, str>),
    /// An integer of 64 bits.
    Integer(i64),
    /// A finite float, or an infinity where the digits are beyond f64.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// `[1, 2]`, and `[[name]]`.
    Array(Vec<Value<'a>>),
    /// `[name]`, `{…}`, and what dotted keys imply.
    Table(Table<'a>),
}

/// Keys and values in the order of the text.
#[derive(Clone, Debug, Default)]
pub struct Table<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
    places: Option<HashMap<Cow<'a, str>, usize>>,
    pub(super) made: Made,
}

/// How a table came to be, which decides who may add to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Made {
    /// As the parent in `[parent.child]`.
    #[default]
    Implied,
    /// By `[name]` or `[[name]]`; also the document itself.
    Headed,
    /// By a dotted key.
    Dotted,
    /// In one piece, as a value.
    Inline,
}

impl PartialEq for Table<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl<'a> Table<'a> {
    pub(super) fn new(made: Made) -> Self {
        Self { made, ..Self::default() }
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.place(key).map(|place| &self.entries[place].1)
    }

    /// Keys and values in the order of the text.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.entries.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The table under `key`, if that is the only key and its value a table.
    #[must_use]
    pub fn only(mut self, key: &str) -> Option<Self> {
        match (self.entries.len(), self.entries.pop()?) {
            (1, (found, Value::Table(table))) if found == key => Some(table),
            _ => None,
        }
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Value<'a>> {
        self.place(key).map(|place| &mut self.entries[place].1)
    }

    /// Add a key; `None` where it is there already.
    pub(super) fn insert(&mut self, key: Cow<'a, str>, value: Value<'a>) -> Option<&mut Value<'a>> {
        if self.place(&key).is_some() {
            return None;
        }
        let place = self.entries.len();
        if let Some(places) = &mut self.places {
            places.insert(key.clone(), place);
        } else if place + 1 >= HASHED_FROM {
            let known =
                self.entries.iter().enumerate().map(|(place, (key, _))| (key.clone(), place));
            self.places = Some(known.chain([(key.clone(), place)]).collect());
        }
        self.entries.push((key, value));
        self.entries.last_mut().map(|(_, value)| value)
    }

    fn place(&self, key: &str) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(key).copied(),
            None => self.entries.iter().position(|(known, _)| known == key),
        }
    }
}

impl<'a> IntoIterator for Table<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
