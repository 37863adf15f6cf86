//! NEON, which every AArch64 has: loops vectorise without a wrapper, so that only the conversion
//! between f16 and f32 is done by hand.

use std::arch::aarch64::{float32x4_t, uint16x4_t, vld1_u16, vld1q_f32, vst1_u16, vst1q_f32};
use std::arch::asm;

use super::{Job, Portable, Simd};
use crate::narrow::format::F16;
use crate::narrow::range::Range;

/// The instructions that every AArch64 has.
#[derive(Clone, Copy)]
pub(super) struct Neon;

impl Simd for Neon {
    #[inline(never)]
    fn aside<J: Job>(self, job: J) {
        job.run(self);
    }

    #[inline(always)]
    fn f32_f16(self, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
        let (src_blocks, src_rest) = src.as_chunks::<4>();
        let (dst_blocks, dst_rest) = dst.as_chunks_mut::<4>();
        for (src, dst) in src_blocks.iter().zip(dst_blocks) {
            // SAFETY: `src` points at four values of four bytes and `dst` at four of two; neither
            // access asks for more than byte alignment.
            unsafe {
                let bits = to_f16(vld1q_f32(src.as_ptr().cast()));
                vst1_u16(dst.as_mut_ptr().cast(), bits);
            }
        }
        let _ = Portable.f32_f16(src_rest, dst_rest);
        Range::of(dst)
    }

    #[inline(always)]
    fn f16_f32(self, src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
        let (src_blocks, src_rest) = src.as_chunks::<4>();
        let (dst_blocks, dst_rest) = dst.as_chunks_mut::<4>();
        for (src, dst) in src_blocks.iter().zip(dst_blocks) {
            // SAFETY: `src` points at four values of two bytes and `dst` at four of four; neither
            // access asks for more than byte alignment.
            unsafe {
                let values = to_f32(vld1_u16(src.as_ptr().cast()));
                vst1q_f32(dst.as_mut_ptr().cast(), values);
            }
        }
        Portable.f16_f32(src_rest, dst_rest);
    }
}

// The intrinsics of these two wait for a stable `f16`.

#[inline(always)]
fn to_f16(values: float32x4_t) -> uint16x4_t {
    let bits: uint16x4_t;
    // SAFETY: a conversion between two registers, in every AArch64; it touches no memory.
    unsafe {
        asm!(
            "fcvtn {bits:v}.4h, {values:v}.4s",
            bits = lateout(vreg) bits,
            values = in(vreg) values,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    bits
}

#[inline(always)]
fn to_f32(bits: uint16x4_t) -> float32x4_t {
    let values: float32x4_t;
    // SAFETY: as in `to_f16`.
    unsafe {
        asm!(
            "fcvtl {values:v}.4s, {bits:v}.4h",
            values = lateout(vreg) values,
            bits = in(vreg) bits,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    values
}
