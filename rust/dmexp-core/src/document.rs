//! Read a header in any words that TOML allows, by way of the quick TOML reader.
//!
//! `None` for whatever has to be refused, or looked at by a complete parser: the caller finds out
//! which, and words it.

use std::borrow::Cow;

use crate::dtype::Dtype;
use crate::header::{Header, Metadata};
use crate::index::Builder;
use crate::scan::lower_hex;
use crate::toml::{self, Table, Value};

/// A header's bytes as the text that TOML sees: without a byte order mark, lines ending with a line
/// feed. `None` where they are not UTF-8.
#[must_use]
pub fn text(header: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(header).ok()?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    Some(if text.contains('\r') { text.replace("\r\n", "\n").into() } else { text.into() })
}

/// Read `text`, a header whose payload has `payload` bytes.
#[must_use]
pub fn read(text: &str, payload: u64) -> Option<Header<'_>> {
    let mut extra = Vec::new();
    let mut known: [Option<Value<'_>>; KEYS.len()] = Default::default();
    for (key, value) in toml::parse(text)? {
        match KEYS.iter().position(|known| *known == key) {
            Some(nth) => known[nth] = Some(value),
            None => extra.push((key, value)),
        }
    }
    let [
        format,
        dtype,
        source,
        step,
        num_params,
        num_tensors,
        flushed,
        max_abs,
        min,
        config,
        tensors,
        subnormal,
        writer,
        metadata,
    ] = known;
    let dtype = Dtype::from_name(&string(dtype?)?).filter(|dtype| Dtype::STORED.contains(dtype))?;
    let Value::Array(tensors) = tensors? else { return None };
    let mut builder = Builder::new(dtype.width() as u64, payload, tensors.len());
    let mut tensor_extra = Vec::new();
    let mut dims = Vec::new();
    for (place, tensor) in tensors.into_iter().enumerate() {
        let Value::Table(tensor) = tensor else { return None };
        let more = push(tensor, &mut builder, &mut dims)?;
        if !more.is_empty() {
            tensor_extra.push((place, more));
        }
    }
    Some(Header {
        format: count(&format?)?,
        dtype,
        source: string(source?)?.into_owned(),
        step: count(&step?)?,
        num_params: count(&num_params?)?,
        num_tensors: count(&num_tensors?)?,
        flushed: count(&flushed?)?,
        max_abs: float(&max_abs?)?,
        min_nonzero_abs: float(&min?)?,
        subnormal: optional(subnormal, |value| count(&value))?,
        writer: optional(writer, |value| string(value).map(Cow::into_owned))?,
        config: string(config?)?.into_owned(),
        metadata: optional(metadata, |value| match value {
            Value::Table(table) => Some(Metadata::Table(table)),
            _ => None,
        })?,
        extra,
        tensor_extra,
        index: builder.finish().ok()?,
    })
}

const KEYS: [&str; 14] = [
    "format",
    "dtype",
    "source",
    "step",
    "num_params",
    "num_tensors",
    "flushed",
    "max_abs",
    "min_nonzero_abs",
    "config",
    "tensors",
    "subnormal",
    "writer",
    "metadata",
];

/// Append one tensor; the keys that are left over are returned.
fn push<'a>(
    tensor: Table<'a>,
    builder: &mut Builder,
    dims: &mut Vec<u64>,
) -> Option<Vec<(Cow<'a, str>, Value<'a>)>> {
    let (mut name, mut has_dims, mut overflowed, mut crc32) = (None, false, None, None);
    let mut more = Vec::new();
    for (key, value) in tensor {
        match key.as_ref() {
            "name" => name = Some(string(value)?),
            "dims" => {
                let Value::Array(values) = value else { return None };
                dims.clear();
                for dim in &values {
                    dims.push(count(dim)?);
                }
                has_dims = true;
            }
            "overflowed" => overflowed = Some(count(&value)?),
            "crc32" => crc32 = Some(lower_hex(string(value)?.as_bytes().try_into().ok()?)?),
            _ => more.push((key, value)),
        }
    }
    if !has_dims || overflowed? != 0 {
        return None;
    }
    builder.push(&name?, dims, crc32).ok()?;
    Some(more)
}

fn string(value: Value<'_>) -> Option<Cow<'_, str>> {
    if let Value::String(text) = value { Some(text) } else { None }
}

fn count(value: &Value<'_>) -> Option<u64> {
    if let Value::Integer(number) = value { u64::try_from(*number).ok() } else { None }
}

fn float(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        // To the nearest f64, as Python converts it.
        #[allow(clippy::cast_precision_loss)]
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// The outer `None` is for a value that is there and is not right.
#[allow(clippy::option_option)]
fn optional<'a, T>(
    value: Option<Value<'a>>,
    read: impl FnOnce(Value<'a>) -> Option<T>,
) -> Option<Option<T>> {
    value.map_or(Some(None), |value| read(value).map(Some))
}
