//! The tensor table of a header, with every sum and product checked: where each tensor lies.

use std::ops::Range;

use crate::ascii::find_control;
use crate::names::Names;

/// Why a tensor table is refused. One variant per cause; names are the tensor's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A tensor without a name.
    #[error("tensor {position} has an empty name")]
    EmptyName {
        /// Place in the table, from 0.
        position: usize,
    },
    /// A name with a control character in it.
    #[error("the name of tensor {position}, {:?}, has a control character in it", shown(name))]
    ControlCharacter {
        /// Place in the table, from 0.
        position: usize,
        /// The name.
        name: String,
    },
    /// The same name twice.
    #[error("two tensors are named '{}'", shown(name))]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// More axes than NumPy can hold.
    #[error("tensor '{}' has {rank} dims; at most {MAX_RANK} can be read", shown(name))]
    Rank {
        /// The tensor.
        name: String,
        /// How many dims it has.
        rank: usize,
    },
    /// The product of the dims, or a sum of sizes, is beyond 64 bits.
    #[error("tensor '{}': its dims {dims:?} are beyond 64 bits in bytes", shown(name))]
    Overflow {
        /// The tensor.
        name: String,
        /// Its dims.
        dims: Vec<u64>,
    },
    /// A tensor that ends beyond the payload.
    #[error(
        "tensor '{}': its dims {dims:?} need payload bytes {start} to {end}, \
         the payload has {payload}",
        shown(name)
    )]
    BeyondPayload {
        /// The tensor.
        name: String,
        /// Its dims.
        dims: Vec<u64>,
        /// Where it starts in the payload, in bytes.
        start: u64,
        /// Where it would end.
        end: u64,
        /// The payload's length in bytes.
        payload: u64,
    },
    /// Payload that no tensor covers.
    #[error("the tensors cover {covered} bytes of a payload of {payload}")]
    Uncovered {
        /// Bytes that the tensors cover.
        covered: u64,
        /// The payload's length in bytes.
        payload: u64,
    },
}

/// Axes of a NumPy array at most.
pub const MAX_RANK: usize = 64;

const SHOWN_LETTERS: usize = 200;

/// What any array library can still widen the values to, in bytes.
const WIDEST: u64 = 4;

/// How long a name is expected to be, to make room at once.
const NAME_BYTES: usize = 40;

/// One tensor of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    name_start: usize,
    name_len: usize,
    dims_start: usize,
    rank: usize,
    /// Where the tensor starts in the payload, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub nbytes: u64,
    /// The CRC-32 of its bytes, where the header gives one.
    pub crc32: Option<u32>,
}

impl Entry {
    /// The tensor's bytes within the payload.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        // Checked when the entry was made: offset + nbytes is at most the payload's length.
        self.offset..self.offset + self.nbytes
    }
}

/// A tensor table that agrees with its payload.
#[derive(Debug)]
pub struct Index {
    names: String,
    dims: Vec<u64>,
    entries: Vec<Entry>,
    places: Names,
}

/// Takes tensors in payload order and lays them out.
#[derive(Debug)]
pub struct Builder {
    index: Index,
    width: u64,
    payload: u64,
    covered: u64,
}

impl Builder {
    /// A table over `payload` bytes of values of `width` bytes each, with room for about `tensors`.
    #[must_use]
    pub fn new(width: u64, payload: u64, tensors: usize) -> Self {
        let index = Index {
            names: String::with_capacity(tensors.saturating_mul(NAME_BYTES)),
            dims: Vec::with_capacity(tensors.saturating_mul(2)),
            entries: Vec::with_capacity(tensors),
            places: Names::with_room(tensors),
        };
        Self { index, width, payload, covered: 0 }
    }

    /// Append the next tensor.
    ///
    /// # Errors
    ///
    /// Every [`Refusal`] but [`Refusal::Uncovered`]. The table must not be used after one.
    pub fn push(&mut self, name: &str, dims: &[u64], crc32: Option<u32>) -> Result<(), Refusal> {
        let position = self.index.entries.len();
        if name.is_empty() {
            return Err(Refusal::EmptyName { position });
        }
        if has_control(name) {
            return Err(Refusal::ControlCharacter { position, name: name.to_owned() });
        }
        if dims.len() > MAX_RANK {
            return Err(Refusal::Rank { name: name.to_owned(), rank: dims.len() });
        }
        let start = self.covered;
        let (nbytes, end) = self
            .extent(dims)
            .ok_or_else(|| Refusal::Overflow { name: name.to_owned(), dims: dims.to_vec() })?;
        if end > self.payload {
            return Err(Refusal::BeyondPayload {
                name: name.to_owned(),
                dims: dims.to_vec(),
                start,
                end,
                payload: self.payload,
            });
        }
        self.covered = end;
        let index = &mut self.index;
        let entry = Entry {
            name_start: index.names.len(),
            name_len: name.len(),
            dims_start: index.dims.len(),
            rank: dims.len(),
            offset: start,
            nbytes,
            crc32,
        };
        let Index { names, entries, places, .. } = &mut *index;
        let is_at = |place: usize| named(names, &entries[place]) == name;
        if !places.insert(name, position, is_at) {
            return Err(Refusal::DuplicateName { name: name.to_owned() });
        }
        index.names.push_str(name);
        index.dims.extend_from_slice(dims);
        index.entries.push(entry);
        Ok(())
    }

    /// Bytes of a tensor of `dims`, and where it ends; `None` beyond 64 bits.
    ///
    /// Zero dims do not excuse the others: no array library can hold such a shape, as it is or
    /// widened to f32. The bound is that of i64, since offsets and lengths are signed in TOML and
    /// in NumPy.
    fn extent(&self, dims: &[u64]) -> Option<(u64, u64)> {
        let fits = |bytes: u64| i64::try_from(bytes).is_ok();
        let mut count = 1_u64;
        for &dim in dims.iter().filter(|&&dim| dim != 0) {
            count = count.checked_mul(dim)?;
            count.checked_mul(WIDEST.max(self.width)).filter(|&bytes| fits(bytes))?;
        }
        let nbytes = if dims.contains(&0) { 0 } else { count * self.width };
        let end = self.covered.checked_add(nbytes).filter(|&end| fits(end))?;
        Some((nbytes, end))
    }

    /// The finished table.
    ///
    /// # Errors
    ///
    /// [`Refusal::Uncovered`] where payload is left over.
    pub fn finish(self) -> Result<Index, Refusal> {
        if self.covered == self.payload {
            Ok(self.index)
        } else {
            Err(Refusal::Uncovered { covered: self.covered, payload: self.payload })
        }
    }
}

impl Index {
    /// How many tensors there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All tensors in payload order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// A tensor's name.
    #[must_use]
    pub fn name(&self, entry: &Entry) -> &str {
        named(&self.names, entry)
    }

    /// A tensor's dims.
    #[must_use]
    pub fn dims(&self, entry: &Entry) -> &[u64] {
        &self.dims[entry.dims_start..entry.dims_start + entry.rank]
    }

    /// The place of a tensor in the table.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.places.find(name, |place| self.name(&self.entries[place]) == name)
    }
}

fn named<'a>(names: &'a str, entry: &Entry) -> &'a str {
    &names[entry.name_start..entry.name_start + entry.name_len]
}

/// Unicode's control characters (C0, DEL and C1): none belongs in a name.
fn has_control(name: &str) -> bool {
    if name.is_ascii() {
        find_control(name.as_bytes(), [0x7f]).is_some()
    } else {
        name.chars().any(char::is_control)
    }
}

/// As much of a name as a message has room for.
fn shown(name: &str) -> &str {
    name.char_indices().nth(SHOWN_LETTERS).map_or(name, |(end, _)| &name[..end])
}
