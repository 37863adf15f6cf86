//! Narrowing with counts, alone and fused with the checksum.
//!
//! Every function here takes little-endian values of any alignment on any host. Given the same
//! bytes it gives the same bytes, counts and errors on every tier ([`crate::cpu::Tier`]).

mod block;
pub(crate) mod format;
mod pairs;
pub(crate) mod range;
pub(crate) mod round;
mod run;

use crate::cpu::{self, Tier};
use crate::crc32::Crc32;
use crate::dtype::Dtype;
use crate::error::Error;
use crate::stats::Stats;

/// Narrow `src` into `dst` and add what was seen to `stats`.
///
/// To the same dtype it copies every bit. A NaN otherwise becomes the quiet NaN with its sign and
/// without its payload. Infinities pass; whether they may is the caller's to say, by
/// [`Stats::first_bad`], [`Stats::all_finite`].
///
/// # Errors
///
/// [`Error::Ragged`] and [`Error::Length`] where the lengths do not agree, [`Error::Conversion`]
/// where `dst_dtype` is f64. Nothing is written then.
pub fn narrow(
    src: &[u8],
    src_dtype: Dtype,
    dst: &mut [u8],
    dst_dtype: Dtype,
    stats: &mut Stats,
) -> Result<(), Error> {
    narrow_on(cpu::tier(), src, src_dtype, dst, dst_dtype, stats, None)
}

/// [`narrow`], and add the bytes written to `crc` while they are in the nearest cache.
///
/// # Errors
///
/// As [`narrow`].
pub fn narrow_crc(
    src: &[u8],
    src_dtype: Dtype,
    dst: &mut [u8],
    dst_dtype: Dtype,
    stats: &mut Stats,
    crc: &mut Crc32,
) -> Result<(), Error> {
    narrow_on(cpu::tier(), src, src_dtype, dst, dst_dtype, stats, Some(crc))
}

/// [`narrow`] or [`narrow_crc`] on a given tier: for tests.
///
/// # Errors
///
/// As [`narrow`].
///
/// # Panics
///
/// Where the CPU lacks the tier.
#[doc(hidden)]
pub fn narrow_on(
    tier: Tier,
    src: &[u8],
    src_dtype: Dtype,
    dst: &mut [u8],
    dst_dtype: Dtype,
    stats: &mut Stats,
    crc: Option<&mut Crc32>,
) -> Result<(), Error> {
    use pairs::*;
    if dst_dtype == Dtype::F64 {
        return Err(Error::Conversion { from: src_dtype, to: dst_dtype });
    }
    check_lengths(src, src_dtype, dst, dst_dtype)?;
    let run = match (src_dtype, dst_dtype) {
        (Dtype::F32, Dtype::F32) => run::narrow::<Copy<format::F32>>,
        (Dtype::F32, Dtype::F16) => run::narrow::<F32ToF16>,
        (Dtype::F32, Dtype::Bf16) => run::narrow::<F32ToBf16>,
        (Dtype::F16, Dtype::F32) => run::narrow::<F16ToF32>,
        (Dtype::F16, Dtype::F16) => run::narrow::<Copy<format::F16>>,
        (Dtype::F16, Dtype::Bf16) => run::narrow::<F16ToBf16>,
        (Dtype::Bf16, Dtype::F32) => run::narrow::<Bf16ToF32>,
        (Dtype::Bf16, Dtype::F16) => run::narrow::<Bf16ToF16>,
        (Dtype::Bf16, Dtype::Bf16) => run::narrow::<Copy<format::Bf16>>,
        (Dtype::F64, Dtype::F32) => run::narrow::<F64ToF32>,
        (Dtype::F64, Dtype::F16) => run::narrow::<F64ToF16>,
        (Dtype::F64, Dtype::Bf16) => run::narrow::<F64ToBf16>,
        (_, Dtype::F64) => unreachable!("refused above"),
    };
    run(tier, src, dst, stats, crc);
    Ok(())
}

/// Add stored values to `stats`, as [`narrow`] to the same dtype would, without writing anything.
///
/// # Errors
///
/// [`Error::Ragged`] where the length is not a whole number of values, [`Error::Conversion`] for
/// f64, which is never stored.
pub fn scan(bytes: &[u8], dtype: Dtype, stats: &mut Stats) -> Result<(), Error> {
    scan_on(cpu::tier(), bytes, dtype, stats, None)
}

/// [`scan`], and add the bytes to `crc` in the same pass.
///
/// # Errors
///
/// As [`scan`].
pub fn scan_crc(
    bytes: &[u8],
    dtype: Dtype,
    stats: &mut Stats,
    crc: &mut Crc32,
) -> Result<(), Error> {
    scan_on(cpu::tier(), bytes, dtype, stats, Some(crc))
}

/// [`scan`] or [`scan_crc`] on a given tier: for tests.
///
/// # Errors
///
/// As [`scan`].
///
/// # Panics
///
/// Where the CPU lacks the tier.
#[doc(hidden)]
pub fn scan_on(
    tier: Tier,
    bytes: &[u8],
    dtype: Dtype,
    stats: &mut Stats,
    crc: Option<&mut Crc32>,
) -> Result<(), Error> {
    count_of(bytes, dtype)?;
    match dtype {
        Dtype::F32 => run::scan::<format::F32>(tier, bytes, stats, crc),
        Dtype::F16 => run::scan::<format::F16>(tier, bytes, stats, crc),
        Dtype::Bf16 => run::scan::<format::Bf16>(tier, bytes, stats, crc),
        Dtype::F64 => {
            return Err(Error::Conversion { from: dtype, to: dtype });
        }
    }
    Ok(())
}

/// How many values `bytes` holds.
fn count_of(bytes: &[u8], dtype: Dtype) -> Result<usize, Error> {
    if bytes.len().is_multiple_of(dtype.width()) {
        Ok(bytes.len() / dtype.width())
    } else {
        Err(Error::Ragged { dtype, found: bytes.len() })
    }
}

pub(crate) fn check_lengths(
    src: &[u8],
    src_dtype: Dtype,
    dst: &[u8],
    dst_dtype: Dtype,
) -> Result<(), Error> {
    // Cannot wrap: `dst` would be more than half of the address space for its f32 source to do so,
    // and widening multiplies by two a length that a slice has.
    let expected = count_of(src, src_dtype)?.saturating_mul(dst_dtype.width());
    if dst.len() == expected {
        Ok(())
    } else {
        Err(Error::Length { what: "destination", expected, found: dst.len() })
    }
}
