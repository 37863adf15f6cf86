//! What a header says, and whether its numbers agree with each other.

use std::borrow::Cow;

use crate::dtype::Dtype;
use crate::index::Index;
use crate::toml::{Table, Value};

/// The version of the format that is read and written.
pub const VERSION: u64 = 1;

/// What a header says. Its tensor table agrees with the payload; its other claims may not, see
/// [`Header::adds_up`].
#[derive(Debug)]
pub struct Header<'a> {
    /// `format`.
    pub format: u64,
    /// `dtype`.
    pub dtype: Dtype,
    /// `source`.
    pub source: String,
    /// `step`.
    pub step: u64,
    /// `num_params`.
    pub num_params: u64,
    /// `num_tensors`.
    pub num_tensors: u64,
    /// `flushed`.
    pub flushed: u64,
    /// `max_abs`.
    pub max_abs: f64,
    /// `min_nonzero_abs`.
    pub min_nonzero_abs: f64,
    /// `subnormal`, where it is there.
    pub subnormal: Option<u64>,
    /// `writer`, where it is there.
    pub writer: Option<String>,
    /// `config`.
    pub config: String,
    /// `metadata`, where it is there.
    pub metadata: Option<Metadata<'a>>,
    /// Keys at the top that this version does not know.
    pub extra: Vec<(Cow<'a, str>, Value<'a>)>,
    /// Keys of tensors that this version does not know, by the tensor's place.
    pub tensor_extra: Vec<(usize, Vec<(Cow<'a, str>, Value<'a>)>)>,
    /// The tensor table, checked against the payload.
    pub index: Index,
}

/// The table that travels with a file.
#[derive(Debug)]
pub enum Metadata<'a> {
    /// What it holds.
    Table(Table<'a>),
    /// Its text, a `[metadata]` table and what is below it, which takes a complete parser.
    Text(&'a str),
}

impl Header<'_> {
    /// Whether the version is ours and no count or magnitude contradicts another one or the
    /// `payload` bytes. Does not say which: that is for whoever words the refusal.
    #[must_use]
    pub fn adds_up(&self, payload: u64) -> bool {
        let magnitude = |value: f64| value.is_finite() && value >= 0.0;
        self.format == VERSION
            && self.num_tensors == self.index.len() as u64
            && self.num_params.checked_mul(self.dtype.width() as u64) == Some(payload)
            && self.flushed <= self.num_params
            && self.subnormal.is_none_or(|count| count <= self.num_params)
            && magnitude(self.max_abs)
            && magnitude(self.min_nonzero_abs)
    }
}
