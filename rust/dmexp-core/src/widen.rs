//! Widening to f32, alone and fused with the checksum.

use crate::cpu::{self, Tier};
use crate::crc32::Crc32;
use crate::dtype::Dtype;
use crate::error::Error;
use crate::narrow::check_lengths;
use crate::narrow::format::{Bf16, F32, Format};
use crate::narrow::round;
use crate::simd::{self, Job, Simd};

/// Widen f16 or bf16 values to little-endian f32; f32 is copied. Exact for every finite value.
///
/// A bf16 or f32 NaN keeps every bit; an f16 NaN keeps sign and payload and becomes quiet.
///
/// # Errors
///
/// [`Error::Ragged`] and [`Error::Length`] where the lengths do not agree, [`Error::Conversion`]
/// for f64. Nothing is written then.
pub fn widen(src: &[u8], src_dtype: Dtype, dst: &mut [u8]) -> Result<(), Error> {
    widen_on(cpu::tier(), src, src_dtype, dst, None)
}

/// [`widen`], and add the *source* bytes to `crc` in the same pass.
///
/// # Errors
///
/// As [`widen`].
pub fn widen_crc(
    src: &[u8],
    src_dtype: Dtype,
    dst: &mut [u8],
    crc: &mut Crc32,
) -> Result<(), Error> {
    widen_on(cpu::tier(), src, src_dtype, dst, Some(crc))
}

/// [`widen`] or [`widen_crc`] on a given tier: for tests.
///
/// # Errors
///
/// As [`widen`].
///
/// # Panics
///
/// Where the CPU lacks the tier.
#[doc(hidden)]
pub fn widen_on(
    tier: Tier,
    src: &[u8],
    src_dtype: Dtype,
    dst: &mut [u8],
    crc: Option<&mut Crc32>,
) -> Result<(), Error> {
    if src_dtype == Dtype::F64 {
        return Err(Error::Conversion { from: src_dtype, to: Dtype::F32 });
    }
    check_lengths(src, src_dtype, dst, Dtype::F32)?;
    simd::dispatch(tier, Widen { src, src_dtype, dst, crc });
    Ok(())
}

/// Bytes of source between two updates of the checksum; its f32 values fit L1 beside it.
const CRC_EVERY_BYTES: usize = 4096;

struct Widen<'a> {
    src: &'a [u8],
    src_dtype: Dtype,
    dst: &'a mut [u8],
    crc: Option<&'a mut Crc32>,
}

impl Job for Widen<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { src, src_dtype, dst, crc } = self;
        let Some(crc) = crc else {
            return run(simd, src, src_dtype, dst);
        };
        let growth = Dtype::F32.width() / src_dtype.width();
        let blocks = dst.chunks_mut(CRC_EVERY_BYTES * growth);
        for (src, dst) in src.chunks(CRC_EVERY_BYTES).zip(blocks) {
            crc.update(src);
            run(simd, src, src_dtype, dst);
        }
    }
}

#[inline(always)]
fn run<S: Simd>(simd: S, src: &[u8], src_dtype: Dtype, dst: &mut [u8]) {
    match src_dtype {
        Dtype::F16 => simd.f16_f32(src.as_chunks().0, dst.as_chunks_mut().0),
        Dtype::Bf16 => {
            for (dst, src) in F32::raws_mut(dst).iter_mut().zip(Bf16::raws(src)) {
                *dst = F32::store(round::bf16_f32(Bf16::load(*src)));
            }
        }
        Dtype::F32 | Dtype::F64 => dst.copy_from_slice(src),
    }
}
