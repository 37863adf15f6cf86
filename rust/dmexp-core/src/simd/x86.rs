//! AVX2 and AVX-512. Intrinsics where they were measured to win: F16C and streaming stores.

use std::arch::x86_64::*;

use super::{Job, Simd};
use crate::cpu::Tier;
use crate::narrow::format::{Bf16, F16, F32, Format};
use crate::narrow::range::Range;
use crate::narrow::round;

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
        unsafe { f32_f16_avx2(src, dst) }
    }

    #[inline(always)]
    fn f16_f32(self, src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
        // SAFETY: as in `run`.
        unsafe { f16_f32_avx2(src, dst) }
    }

    #[inline(always)]
    fn stream(self, block: &[u8], dst: &mut [u8], next: &[u8]) {
        // SAFETY: as in `run`.
        unsafe { stream_avx(block, dst, next) }
    }

    #[inline(always)]
    fn stream_end(self) {
        // SAFETY: every x86-64 has SSE.
        unsafe { _mm_sfence() };
    }
}

/// Proof that the CPU has all of [`Avx2`] and AVX-512 F, BW, VL and DQ.
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
        unsafe { f32_bf16_avx512(src, dst) }
    }

    #[inline(always)]
    fn f32_f16(self, src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
        // SAFETY: as in `run`.
        unsafe { f32_f16_avx512(src, dst) }
    }

    #[inline(always)]
    fn f16_f32(self, src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
        // SAFETY: as in `run`; AVX-512 includes AVX2 and F16C here.
        unsafe { f16_f32_avx512(src, dst) }
    }

    #[inline(always)]
    fn stream(self, block: &[u8], dst: &mut [u8], next: &[u8]) {
        // SAFETY: as in `run`.
        unsafe { stream_avx(block, dst, next) }
    }

    #[inline(always)]
    fn stream_end(self) {
        // SAFETY: every x86-64 has SSE.
        unsafe { _mm_sfence() };
    }
}

/// Nearest-even, whatever the thread's mode says.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// Two vectors of eight at a time: convert, store, and keep maximum, minimum and the count of
/// subnormals in registers. One pass is a fifth faster in cache than converting first.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn f32_f16_avx2(src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
    let (src_blocks, src_rest) = src.as_chunks::<16>();
    let (dst_blocks, dst_rest) = dst.as_chunks_mut::<16>();
    let magnitude = _mm256_set1_epi16(0x7fff);
    let normal = _mm256_set1_epi16(F16::MIN_NORMAL);
    let mut max = _mm256_setzero_si256();
    let mut min = magnitude;
    let mut below = _mm256_setzero_si256();
    for (src, dst) in src_blocks.iter().zip(dst_blocks) {
        let src = src.as_ptr().cast::<f32>();
        // SAFETY: `src` points at 16 values, of which this reads the first and the last eight;
        // neither load asks for alignment.
        let (low, high) = unsafe { (_mm256_loadu_ps(src), _mm256_loadu_ps(src.add(8))) };
        let low = _mm256_cvtps_ph::<NEAREST>(low);
        let high = _mm256_cvtps_ph::<NEAREST>(high);
        let bits = _mm256_set_m128i(high, low);
        // SAFETY: `dst` points at 16 values of two bytes; the store asks for no alignment.
        unsafe { _mm256_storeu_si256(dst.as_mut_ptr().cast(), bits) };
        let bits = _mm256_and_si256(bits, magnitude);
        max = _mm256_max_epi16(max, bits);
        min = _mm256_min_epi16(min, bits);
        below = _mm256_sub_epi16(below, _mm256_cmpgt_epi16(normal, bits));
    }
    let range = Range {
        max: lanes(max).into_iter().fold(0, i16::max),
        min: lanes(min).into_iter().fold(i16::MAX, i16::min),
        below_normal: lanes(below).into_iter().fold(0, i16::wrapping_add),
    };
    range.and(rest_f16(src_rest, dst_rest))
}

#[inline]
#[target_feature(enable = "popcnt,avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
fn f32_f16_avx512(src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
    let (src_blocks, src_rest) = src.as_chunks::<32>();
    let (dst_blocks, dst_rest) = dst.as_chunks_mut::<32>();
    let magnitude = _mm512_set1_epi16(0x7fff);
    let normal = _mm512_set1_epi16(F16::MIN_NORMAL);
    let mut max = _mm512_setzero_si512();
    let mut min = magnitude;
    let mut below = 0;
    for (src, dst) in src_blocks.iter().zip(dst_blocks) {
        let src = src.as_ptr().cast::<f32>();
        // SAFETY: `src` points at 32 values, of which this reads the first and the last sixteen;
        // neither load asks for alignment.
        let (low, high) = unsafe { (_mm512_loadu_ps(src), _mm512_loadu_ps(src.add(16))) };
        let low = _mm512_cvtps_ph::<{ NEAREST | _MM_FROUND_NO_EXC }>(low);
        let high = _mm512_cvtps_ph::<{ NEAREST | _MM_FROUND_NO_EXC }>(high);
        let bits = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        // SAFETY: `dst` points at 32 values of two bytes; the store asks for no alignment.
        unsafe { _mm512_storeu_si512(dst.as_mut_ptr().cast(), bits) };
        let bits = _mm512_and_si512(bits, magnitude);
        max = _mm512_max_epi16(max, bits);
        min = _mm512_min_epi16(min, bits);
        // Counted by the scalar units, which have nothing else to do.
        below += _mm512_cmplt_epi16_mask(bits, normal).count_ones();
    }
    let [max_low, max_high] = halves(max);
    let [min_low, min_high] = halves(min);
    let range = Range {
        max: lanes(_mm256_max_epi16(max_low, max_high)).into_iter().fold(0, i16::max),
        min: lanes(_mm256_min_epi16(min_low, min_high)).into_iter().fold(i16::MAX, i16::min),
        // At most as many as the block has values.
        below_normal: below as i16,
    };
    range.and(rest_f16(src_rest, dst_rest))
}

/// As [`round::f32_bf16`], with the lowest kept bit as a mask instead of a shift, and the upper halves
/// of two vectors picked by one permutation instead of shifts and truncations.
#[inline]
#[target_feature(enable = "popcnt,avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
fn f32_bf16_avx512(src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<Bf16> {
    let (src_blocks, src_rest) = src.as_chunks::<32>();
    let (dst_blocks, dst_rest) = dst.as_chunks_mut::<32>();
    let magnitude = _mm512_set1_epi16(0x7fff);
    let under_half = _mm512_set1_epi32(0x7fff);
    let half = _mm512_set1_epi32(0x8000);
    let lowest_kept = _mm512_set1_epi32(0x1_0000);
    let round = |values: __m512i| {
        let odd = _mm512_test_epi32_mask(values, lowest_kept);
        _mm512_add_epi32(values, _mm512_mask_mov_epi32(under_half, odd, half))
    };
    let upper_halves = upper_halves();
    let mut max = _mm512_setzero_si512();
    let mut min = magnitude;
    for (src, dst) in src_blocks.iter().zip(dst_blocks) {
        let src = src.as_ptr().cast::<i32>();
        // SAFETY: `src` points at 32 values, of which this reads the first and the last sixteen;
        // neither load asks for alignment.
        let (low, high) = unsafe { (_mm512_loadu_epi32(src), _mm512_loadu_epi32(src.add(16))) };
        let bits = _mm512_permutex2var_epi16(round(low), upper_halves, round(high));
        // SAFETY: `dst` points at 32 values of two bytes; the store asks for no alignment.
        unsafe { _mm512_storeu_si512(dst.as_mut_ptr().cast(), bits) };
        let bits = _mm512_and_si512(bits, magnitude);
        max = _mm512_max_epi16(max, bits);
        min = _mm512_min_epi16(min, bits);
    }
    let [max_low, max_high] = halves(max);
    let [min_low, min_high] = halves(min);
    let range = Range {
        max: lanes(_mm256_max_epi16(max_low, max_high)).into_iter().fold(0, i16::max),
        min: lanes(_mm256_min_epi16(min_low, min_high)).into_iter().fold(i16::MAX, i16::min),
        below_normal: 0,
    };
    range.and(crate::simd::Portable.f32_bf16(src_rest, dst_rest))
}

/// Places of the upper halves of the 32-bit lanes of two vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn upper_halves() -> __m512i {
    let mut places = [0_u16; 32];
    for (lane, place) in places.iter_mut().enumerate() {
        *place = 2 * lane as u16 + 1;
    }
    // SAFETY: the array is 64 bytes; the load asks for no alignment.
    unsafe { _mm512_loadu_si512(places.as_ptr().cast()) }
}

#[inline(always)]
fn rest_f16(src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
    for (dst, src) in dst.iter_mut().zip(src) {
        *dst = F16::store(round::f32_f16(F32::load(*src)));
    }
    Range::of(dst)
}

#[inline(always)]
fn lanes(vector: __m256i) -> [i16; 16] {
    // SAFETY: both are 32 bytes without padding, and every bit pattern is a value of the array.
    unsafe { std::mem::transmute(vector) }
}

#[inline(always)]
fn halves(vector: __m512i) -> [__m256i; 2] {
    // SAFETY: both are 64 bytes without padding, and every bit pattern is a value of the array.
    unsafe { std::mem::transmute(vector) }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn f16_f32_avx2(src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
    let (src_blocks, src_rest) = src.as_chunks::<8>();
    let (dst_blocks, dst_rest) = dst.as_chunks_mut::<8>();
    for (src, dst) in src_blocks.iter().zip(dst_blocks) {
        // SAFETY: `src` points at eight values of two bytes and `dst` at eight of four; neither
        // access asks for alignment.
        unsafe {
            let bits = _mm_loadu_si128(src.as_ptr().cast());
            _mm256_storeu_ps(dst.as_mut_ptr().cast(), _mm256_cvtph_ps(bits));
        }
    }
    super::Portable.f16_f32(src_rest, dst_rest);
}

#[inline]
#[target_feature(enable = "popcnt,avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
fn f16_f32_avx512(src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
    let (src_blocks, src_rest) = src.as_chunks::<16>();
    let (dst_blocks, dst_rest) = dst.as_chunks_mut::<16>();
    for (src, dst) in src_blocks.iter().zip(dst_blocks) {
        // SAFETY: `src` points at sixteen values of two bytes and `dst` at sixteen of four;
        // neither access asks for alignment.
        unsafe {
            let bits = _mm256_loadu_si256(src.as_ptr().cast());
            _mm512_storeu_ps(dst.as_mut_ptr().cast(), _mm512_cvtph_ps(bits));
        }
    }
    super::Portable.f16_f32(src_rest, dst_rest);
}

/// Streaming stores of whole cache lines, an ordinary copy of what lies before and after them.
///
/// Lines of `next` are fetched in between: without that the block's stores fill the write buffers
/// and the reads of the next block wait behind them, at less than half the speed.
#[inline]
#[target_feature(enable = "avx2")]
fn stream_avx(block: &[u8], dst: &mut [u8], next: &[u8]) {
    assert_eq!(block.len(), dst.len());
    // SAFETY: every bit pattern is a value of either type; `align_to_mut` keeps the alignment.
    let (head, lines, tail) = unsafe { dst.align_to_mut::<Line>() };
    let (block_head, block) = block.split_at(head.len());
    head.copy_from_slice(block_head);
    let (block_lines, block_tail) = block.split_at(size_of_val(lines));
    let next = next.as_chunks::<64>().0;
    let per_line = next.len().div_ceil(lines.len().max(1)).max(1);
    let mut next = next.chunks(per_line);
    for (line, from) in lines.iter_mut().zip(block_lines.as_chunks::<64>().0) {
        for ahead in next.next().unwrap_or_default() {
            _mm_prefetch::<_MM_HINT_T0>(ahead.as_ptr().cast());
        }
        let from = from.as_ptr().cast::<__m256i>();
        // SAFETY: `from` has 64 bytes and its loads ask for no alignment; `line` is aligned. The
        // caller orders the stores with `stream_end`.
        unsafe {
            _mm256_stream_si256(&mut line.0[0], _mm256_loadu_si256(from));
            _mm256_stream_si256(&mut line.0[1], _mm256_loadu_si256(from.add(1)));
        }
    }
    tail.copy_from_slice(block_tail);
}

/// A cache line.
#[repr(align(64))]
struct Line([__m256i; 2]);
