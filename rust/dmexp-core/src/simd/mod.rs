//! Tokens for instruction sets, and the one place that enters code compiled for them.
//!
//! A loop is written once, in safe code, as the `run` of a [`Job`], with everything that it calls
//! `#[inline(always)]`. [`dispatch`] compiles it into one wrapper per tier and chooses a wrapper
//! once per call.

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::cpu::Tier;
use crate::narrow::format::{Bf16, F16, F32, Format};
use crate::narrow::range::Range;
use crate::narrow::round;

/// Proof that the CPU has a set of instructions, and what is worth doing by hand with them.
pub(crate) trait Simd: Copy {
    /// Whether [`Simd::stream`] bypasses the caches.
    const STREAMS: bool = false;

    /// Narrow f32 to bf16, and find the range of the result. A NaN becomes anything.
    #[inline(always)]
    fn f32_bf16(self, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<Bf16> {
        for (dst, src) in dst.iter_mut().zip(src) {
            *dst = Bf16::store(round::f32_bf16(F32::load(*src)));
        }
        Range::of(dst)
    }

    /// Narrow f32 to f16, and find the range of the result. A NaN stays some NaN, or becomes an
    /// infinity.
    #[inline(always)]
    fn f32_f16(self, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
        for (dst, src) in dst.iter_mut().zip(src) {
            *dst = F16::store(round::f32_f16(F32::load(*src)));
        }
        Range::of(dst)
    }

    /// Widen f16 to f32.
    #[inline(always)]
    fn f16_f32(self, src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
        for (dst, src) in dst.iter_mut().zip(src) {
            *dst = F32::store(round::f16_f32(F16::load(*src)));
        }
    }

    /// Run a job out of line, with the instructions that count best: for what few blocks need.
    fn aside<J: Job>(self, job: J);

    /// Copy a block to memory that will not be read soon, while the source's `next` block is
    /// fetched: the stores would otherwise stop the reads.
    #[inline(always)]
    fn stream(self, block: &[u8], dst: &mut [u8], next: &[u8]) {
        let _ = next;
        dst.copy_from_slice(block);
    }

    /// After the last [`Simd::stream`]: order the copies before whatever follows.
    #[inline(always)]
    fn stream_end(self) {}
}

/// The instructions that the target has anyway.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Simd for Portable {
    #[inline(never)]
    fn aside<J: Job>(self, job: J) {
        job.run(self);
    }
}

/// Work that is compiled for every tier.
pub(crate) trait Job {
    /// Must be `#[inline(always)]`, and so must all that it calls, or the instructions are those
    /// of the portable tier.
    fn run<S: Simd>(self, simd: S);
}

/// Run a job with the instructions of `tier`.
///
/// # Panics
///
/// Where the CPU lacks the tier. [`crate::cpu::tier`] never names such a one.
#[inline]
pub(crate) fn dispatch<J: Job>(tier: Tier, job: J) {
    match tier {
        Tier::Portable => job.run(Portable),
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => x86::Avx2::detect().expect("the CPU has AVX2").run(job),
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 => x86::Avx512::detect().expect("the CPU has AVX-512").run(job),
        #[cfg(target_arch = "aarch64")]
        Tier::Neon => job.run(neon::Neon),
    }
}
