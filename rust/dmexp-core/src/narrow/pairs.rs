//! Every pair of formats that can be converted.

use super::block::Convert;
use super::format::{Bf16, F16, F32, F64, Format};
use super::range::Range;
use super::round;
use crate::simd::Simd;

/// Value by value with one function.
macro_rules! by_value {
    ($(#[$doc:meta])* $name:ident: $from:ident -> $to:ident by $round:path) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl Convert for $name {
            type From = $from;
            type To = $to;

            #[inline(always)]
            fn block<S: Simd>(
                _: S,
                src: &[<$from as Format>::Raw],
                dst: &mut [<$to as Format>::Raw],
            ) -> Range<$to> {
                for (dst, src) in dst.iter_mut().zip(src) {
                    *dst = $to::store($round($from::load(*src)));
                }
                Range::of(dst)
            }
        }
    };
}

by_value!(F64ToBf16: F64 -> Bf16 by round::f64_bf16);
by_value!(F64ToF16: F64 -> F16 by round::f64_f16);
by_value!(F64ToF32: F64 -> F32 by round::f64_f32);
by_value!(F16ToBf16: F16 -> Bf16 by round::f16_bf16);
by_value!(Bf16ToF16: Bf16 -> F16 by round::bf16_f16);
by_value!(Bf16ToF32: Bf16 -> F32 by round::bf16_f32);

/// The pair that matters most.
pub(super) struct F32ToBf16;

impl Convert for F32ToBf16 {
    type From = F32;
    type To = Bf16;

    #[inline(always)]
    fn block<S: Simd>(simd: S, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<Bf16> {
        simd.f32_bf16(src, dst)
    }
}

/// The pair that x86 and Arm have an instruction for.
pub(super) struct F32ToF16;

impl Convert for F32ToF16 {
    type From = F32;
    type To = F16;

    #[inline(always)]
    fn block<S: Simd>(simd: S, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
        simd.f32_f16(src, dst)
    }
}

/// Likewise, the other way.
pub(super) struct F16ToF32;

impl Convert for F16ToF32 {
    type From = F16;
    type To = F32;

    #[inline(always)]
    fn block<S: Simd>(simd: S, src: &[[u8; 2]], dst: &mut [[u8; 4]]) -> Range<F32> {
        simd.f16_f32(src, dst);
        Range::of(dst)
    }
}

/// The same format: every bit is kept.
pub(super) struct Copy<F>(std::marker::PhantomData<F>);

impl<F: Format> Convert for Copy<F> {
    type From = F;
    type To = F;
    const COPIES: bool = true;

    #[inline(always)]
    fn block<S: Simd>(_: S, src: &[F::Raw], dst: &mut [F::Raw]) -> Range<F> {
        dst.copy_from_slice(src);
        Range::of(dst)
    }
}
