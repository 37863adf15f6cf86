//! The one rounding rule, value by value: to nearest, ties to even, subnormals kept.
//!
//! Every function is free of branches, so that loops over it vectorise, and is right for every
//! value that is *not* a NaN. A NaN may come out as anything; [`super::block`] puts it right.
//!
//! Integer arithmetic on the bits, because the float instructions depend on a mode of the thread
//! that other libraries set (flush to zero), and because the bf16 instruction of AVX-512 flushes
//! subnormals whatever the mode. The float additions below stay clear of both: no operand that
//! matters, and no result, is subnormal.

/// bf16 is the upper half of f32, so adding just under half of the lower half, and the bit that
/// makes ties go to even, carries into the result exactly when rounding up is due. A carry out of
/// the mantissa moves to the next exponent, and at the top to infinity.
///
/// A NaN with all mantissa bits above the lower half set wraps to a zero.
#[inline(always)]
pub(crate) const fn f32_bf16(bits: u32) -> u16 {
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// f16 has a shorter exponent: three ranges, all computed, one selected.
#[inline(always)]
pub(crate) fn f32_f16(bits: u32) -> u16 {
    const MIN_NORMAL: u32 = 0x3880_0000; // 2^-14
    const TOO_LARGE: u32 = 0x4780_0000; // 2^16; from 65520 on the carry makes an infinity
    const REBIAS: u32 = 112 << 23;
    const ALIGN: f32 = 0.5; // its last place is 2^-24, the smallest f16 subnormal

    let magnitude = bits & 0x7fff_ffff;
    let sign = (bits >> 16) as u16 & 0x8000;
    let normal = magnitude.wrapping_sub(REBIAS).wrapping_add(0x0fff + (magnitude >> 13 & 1)) >> 13;
    // The sum is rounded at that last place, so its low bits are the result.
    let subnormal = (f32::from_bits(magnitude) + ALIGN).to_bits().wrapping_sub(ALIGN.to_bits());
    let rounded = if magnitude < MIN_NORMAL { subnormal } else { normal };
    let rounded = if magnitude < TOO_LARGE { rounded } else { 0x7c00 };
    rounded as u16 | sign
}

/// f64 to a format of `MANTISSA` and `EXPONENT` bits, rounded once; the result in the low bits.
#[inline(always)]
fn f64_to<const MANTISSA: u32, const EXPONENT: u32>(bits: u64) -> u64 {
    let bias = (1_u64 << (EXPONENT - 1)) - 1;
    let shift = 52 - MANTISSA;
    let min_normal = (1023 - bias + 1) << 52;
    let too_large = (1023 + bias + 1) << 52;
    let infinity = ((1_u64 << EXPONENT) - 1) << MANTISSA;
    // The power of two whose last place is the smallest subnormal of the target.
    let align = f64::from_bits((1023 - bias + 1 - u64::from(MANTISSA) + 52) << 52);

    let magnitude = bits & (u64::MAX >> 1);
    let sign = bits >> 63 << (MANTISSA + EXPONENT);
    let half = (1_u64 << (shift - 1)) - 1 + (magnitude >> shift & 1);
    let normal = magnitude.wrapping_sub((1023 - bias) << 52).wrapping_add(half) >> shift;
    let subnormal = (f64::from_bits(magnitude) + align).to_bits().wrapping_sub(align.to_bits());
    let rounded = if magnitude < min_normal { subnormal } else { normal };
    let rounded = if magnitude < too_large { rounded } else { infinity };
    rounded | sign
}

#[inline(always)]
pub(crate) fn f64_f32(bits: u64) -> u32 {
    f64_to::<23, 8>(bits) as u32
}

#[inline(always)]
pub(crate) fn f64_bf16(bits: u64) -> u16 {
    f64_to::<7, 8>(bits) as u16
}

#[inline(always)]
pub(crate) fn f64_f16(bits: u64) -> u16 {
    f64_to::<10, 5>(bits) as u16
}

/// Exact, and every NaN keeps its bits.
#[inline(always)]
pub(crate) const fn bf16_f32(bits: u16) -> u32 {
    (bits as u32) << 16
}

/// Exact. A NaN keeps sign and payload and becomes quiet, as the instructions of x86 and Arm do it.
#[inline(always)]
pub(crate) fn f16_f32(bits: u16) -> u32 {
    const REBIAS: u32 = 112 << 23;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let sign = u32::from(bits & 0x8000) << 16;
    let normal = magnitude + REBIAS;
    // An exponent of zero means 2^-14 without the leading one: put the one in, take it off again.
    let one = REBIAS + (1 << 23);
    let subnormal = (f32::from_bits(magnitude + one) - f32::from_bits(one)).to_bits();
    let quiet = if magnitude > 0x0f80_0000 { 1 << 22 } else { 0 };
    let special = (normal + REBIAS) | quiet;
    let widened = if magnitude < 1 << 23 { subnormal } else { normal };
    let widened = if magnitude < 0x0f80_0000 { widened } else { special };
    widened | sign
}

#[inline(always)]
pub(crate) fn f16_bf16(bits: u16) -> u16 {
    f32_bf16(f16_f32(bits))
}

#[inline(always)]
pub(crate) fn bf16_f16(bits: u16) -> u16 {
    f32_f16(bf16_f32(bits))
}
