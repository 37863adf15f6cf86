//! AVX2 and AVX-512. The loops are those of every tier; by hand is only what was measured to win.

mod convert;
mod stream;

use super::{Job, Simd};
use crate::cpu::Tier;
use crate::narrow::format::{Bf16, F16};
use crate::narrow::range::Range;

/// Proof that the CPU has AVX2, F16C, BMI1 and BMI2.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    #[inline]
    pub(super) fn detect() -> Option<Self> {
        Tier::Avx2.is_available().then_some(Self(()))
    }

    #[inline]
    pub(super) fn run<J: Job>(self, job: J) {
        #[inline(never)]
        #[target_feature(enable = "avx2,f16c,bmi1,bmi2")]
        fn wrapper<J: Job>(simd: Avx2, job: J) {
            job.run(simd);
        }
        // SAFETY: a value of this type exists only where `detect` found every one of the features.
        unsafe { wrapper(self, job) }
    }
}

impl Simd for Avx2 {
    const STREAMS: bool = true;

    #[inline(always)]
    fn aside<J: Job>(self, job: J) {
        self.run(job);
    }

    #[inline(always)]
    fn f32_f16(self, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
        // SAFETY: as in `run`.
        unsafe { convert::f32_f16_avx2(src, dst) }
    }

    #[inline(always)]
    fn f16_f32(self, src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
        // SAFETY: as in `run`.
        unsafe { convert::f16_f32_avx2(src, dst) }
    }

    #[inline(always)]
    fn stream(self, block: &[u8], dst: &mut [u8], next: &[u8]) {
        // SAFETY: as in `run`.
        unsafe { stream::stream_avx(block, dst, next) }
    }

    #[inline(always)]
    fn stream_end(self) {
        stream::end();
    }
}

/// Proof that the CPU has all of [`Avx2`], POPCNT, and AVX-512 F, BW, VL and DQ.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    #[inline(always)]
    fn without_avx512(self) -> Avx2 {
        Avx2(())
    }

    #[inline]
    pub(super) fn detect() -> Option<Self> {
        Tier::Avx512.is_available().then_some(Self(()))
    }

    #[inline]
    pub(super) fn run<J: Job>(self, job: J) {
        #[inline(never)]
        #[target_feature(enable = "popcnt,avx2,f16c,bmi1,bmi2,avx512f,avx512bw,avx512vl,avx512dq")]
        fn wrapper<J: Job>(simd: Avx512, job: J) {
            job.run(simd);
        }
        // SAFETY: a value of this type exists only where `detect` found every one of the features.
        unsafe { wrapper(self, job) }
    }
}

impl Simd for Avx512 {
    const STREAMS: bool = true;

    /// With AVX2: it compares into lanes, from which one subtraction counts, where AVX-512 compares
    /// into a mask and takes one step more. Measured 1.2 times as fast.
    #[inline(always)]
    fn aside<J: Job>(self, job: J) {
        self.without_avx512().run(job);
    }

    #[inline(always)]
    fn f32_bf16(self, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<Bf16> {
        // SAFETY: as in `run`.
        unsafe { convert::f32_bf16_avx512(src, dst) }
    }

    #[inline(always)]
    fn f32_f16(self, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
        // SAFETY: as in `run`.
        unsafe { convert::f32_f16_avx512(src, dst) }
    }

    #[inline(always)]
    fn f16_f32(self, src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
        // SAFETY: as in `run`; AVX-512 includes AVX2 and F16C here.
        unsafe { convert::f16_f32_avx512(src, dst) }
    }

    #[inline(always)]
    fn stream(self, block: &[u8], dst: &mut [u8], next: &[u8]) {
        // SAFETY: as in `run`.
        unsafe { stream::stream_avx(block, dst, next) }
    }

    #[inline(always)]
    fn stream_end(self) {
        stream::end();
    }
}
