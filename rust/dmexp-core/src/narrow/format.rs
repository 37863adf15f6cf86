//! The four formats as types, so that one loop body serves every pair.

use crate::dtype::Dtype;

/// A signed integer that holds a magnitude: the bits of a value without its sign.
///
/// Signed, because SSE2 compares 16-bit lanes as signed only; magnitudes are never negative.
pub(crate) trait Magnitude: Copy + Ord {
    const ZERO: Self;
    const MAX: Self;
    /// One more if `condition`; wraps, which a block of 1,024 values cannot reach.
    fn count(self, condition: bool) -> Self;
    /// One less; zero becomes `MAX`, so that a minimum passes it over.
    fn less_one_or_max(self) -> Self;
    fn plus_one(self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn total(self) -> u64;
}

macro_rules! magnitude {
    ($($int:ty),*) => {$(
        impl Magnitude for $int {
            const ZERO: Self = 0;
            const MAX: Self = <$int>::MAX;
            #[inline(always)]
            fn count(self, condition: bool) -> Self {
                self.wrapping_add(<$int>::from(condition))
            }
            #[inline(always)]
            fn less_one_or_max(self) -> Self {
                self.wrapping_sub(1) & <$int>::MAX
            }
            #[inline(always)]
            fn plus_one(self) -> Self {
                self.saturating_add(1)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn total(self) -> u64 {
                self as u64
            }
        }
    )*};
}

magnitude!(i16, i32, i64);

/// A floating-point format.
pub(crate) trait Format: Copy {
    const DTYPE: Dtype;
    /// The bytes of one value, little-endian.
    type Raw: Copy;
    /// The same as an unsigned integer.
    type Bits: Copy;
    type Mag: Magnitude;
    const INFINITY: Self::Mag;
    const MIN_NORMAL: Self::Mag;

    /// Bytes as values; bytes left over are ignored.
    fn raws(bytes: &[u8]) -> &[Self::Raw];
    fn raws_mut(bytes: &mut [u8]) -> &mut [Self::Raw];
    fn bytes(raws: &[Self::Raw]) -> &[u8];
    fn bytes_mut(raws: &mut [Self::Raw]) -> &mut [u8];
    fn load(raw: Self::Raw) -> Self::Bits;
    fn store(bits: Self::Bits) -> Self::Raw;
    fn magnitude(bits: Self::Bits) -> Self::Mag;
    fn is_negative(bits: Self::Bits) -> bool;
    /// The one NaN that narrowing writes: quiet, no payload, with this sign.
    fn nan(negative: bool) -> Self::Bits;
    /// A finite magnitude as f32. Only asked of stored formats, where it is exact.
    fn to_f32(magnitude: Self::Mag) -> f32;
}

macro_rules! format {
    ($(#[$doc:meta])* $name:ident: $dtype:ident, $bits:ty, $mag:ty, $mantissa:literal, $to_f32:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Format for $name {
            const DTYPE: Dtype = Dtype::$dtype;
            type Raw = [u8; size_of::<$bits>()];
            type Bits = $bits;
            type Mag = $mag;
            // All ones in the exponent, which lies between the sign bit and the mantissa.
            const INFINITY: $mag = <$mag>::MAX >> $mantissa << $mantissa;
            const MIN_NORMAL: $mag = 1 << $mantissa;

            #[inline(always)]
            fn raws(bytes: &[u8]) -> &[Self::Raw] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn raws_mut(bytes: &mut [u8]) -> &mut [Self::Raw] {
                bytes.as_chunks_mut().0
            }
            #[inline(always)]
            fn bytes(raws: &[Self::Raw]) -> &[u8] {
                raws.as_flattened()
            }
            #[inline(always)]
            fn bytes_mut(raws: &mut [Self::Raw]) -> &mut [u8] {
                raws.as_flattened_mut()
            }
            #[inline(always)]
            fn load(raw: Self::Raw) -> $bits {
                <$bits>::from_le_bytes(raw)
            }
            #[inline(always)]
            fn store(bits: $bits) -> Self::Raw {
                bits.to_le_bytes()
            }
            #[inline(always)]
            fn magnitude(bits: $bits) -> $mag {
                bits as $mag & <$mag>::MAX
            }
            #[inline(always)]
            fn is_negative(bits: $bits) -> bool {
                (bits as $mag) < 0
            }
            #[inline(always)]
            fn nan(negative: bool) -> $bits {
                (Self::INFINITY as $bits | 1 << ($mantissa - 1))
                    | <$bits>::from(negative) << (<$bits>::BITS - 1)
            }
            #[inline(always)]
            fn to_f32(magnitude: $mag) -> f32 {
                $to_f32(magnitude as $bits)
            }
        }
    };
}

format!(
    /// IEEE 754 binary16.
    F16: F16, u16, i16, 10, |bits| f32::from_bits(crate::narrow::round::f16_f32(bits))
);
format!(
    /// The upper half of a binary32.
    Bf16: Bf16, u16, i16, 7, |bits| f32::from_bits(crate::narrow::round::bf16_f32(bits))
);
format!(
    /// IEEE 754 binary32.
    F32: F32, u32, i32, 23, f32::from_bits
);
format!(
    /// IEEE 754 binary64, a source only.
    F64: F64, u64, i64, 52, |bits| f64::from_bits(bits) as f32
);
