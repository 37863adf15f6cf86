//! Conversions by hand, where that was measured to win: with F16C, and bf16 with AVX-512.

use std::arch::x86_64::*;

use crate::narrow::format::{Bf16, F16, F32, Format};
use crate::narrow::range::Range;
use crate::narrow::round;
use crate::simd::{Portable, Simd};

/// Nearest-even, whatever the thread's mode says.
const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;

/// Two vectors of eight at a time: convert, store, and keep maximum, minimum and the count of
/// subnormals in registers. One pass is a fifth faster in cache than converting first.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn f32_f16_avx2(src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
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
        max: largest(max),
        min: smallest(min),
        below_normal: lanes(below).into_iter().fold(0, i16::wrapping_add),
    };
    range.and(rest_f16(src_rest, dst_rest))
}

#[inline]
#[target_feature(enable = "popcnt,avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) fn f32_f16_avx512(src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<F16> {
    let (src_blocks, src_rest) = src.as_chunks::<32>();
    let (dst_blocks, dst_rest) = dst.as_chunks_mut::<32>();
    let magnitude = _mm512_set1_epi16(0x7fff);
    let normal = _mm512_set1_epi16(F16::MIN_NORMAL);
    let mut max = _mm512_setzero_si512();
    let mut min = magnitude;
    let mut below = 0_u32;
    for (src, dst) in src_blocks.iter().zip(dst_blocks) {
        let src = src.as_ptr().cast::<f32>();
        fetch_ahead(src.cast());
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
        below = below.wrapping_add(_mm512_cmplt_epi16_mask(bits, normal).count_ones());
    }
    let [max_low, max_high] = halves(max);
    let [min_low, min_high] = halves(min);
    let range = Range {
        max: largest(_mm256_max_epi16(max_low, max_high)),
        min: smallest(_mm256_min_epi16(min_low, min_high)),
        // At most as many as the block has values.
        below_normal: below as i16,
    };
    range.and(rest_f16(src_rest, dst_rest))
}

/// As [`round::f32_bf16`], with the lowest kept bit as a mask instead of a shift, and the upper halves
/// of two vectors picked by one permutation instead of shifts and truncations.
#[inline]
#[target_feature(enable = "popcnt,avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) fn f32_bf16_avx512(src: &[[u8; 4]], dst: &mut [[u8; 2]]) -> Range<Bf16> {
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
        fetch_ahead(src.cast());
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
        max: largest(_mm256_max_epi16(max_low, max_high)),
        min: smallest(_mm256_min_epi16(min_low, min_high)),
        below_normal: 0,
    };
    range.and(Portable.f32_bf16(src_rest, dst_rest))
}

/// Ask for the two cache lines that the loop will come to in two turns. The CPU fetches ahead too, but
/// from a cache farther away not early enough: an eighth faster on what L3 holds, measured best at
/// this distance.
#[inline(always)]
fn fetch_ahead(src: *const i8) {
    const AHEAD: usize = 256;
    // SAFETY: every x86-64 has SSE. A prefetch does not fault, wherever it points.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(src.wrapping_add(AHEAD));
        _mm_prefetch::<_MM_HINT_T0>(src.wrapping_add(AHEAD + 64));
    }
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

/// Largest of 16 magnitudes: the instruction finds the smallest of eight, so they are turned over.
#[inline]
#[target_feature(enable = "avx2")]
fn largest(magnitudes: __m256i) -> i16 {
    let [low, high] =
        [_mm256_castsi256_si128(magnitudes), _mm256_extracti128_si256::<1>(magnitudes)];
    let turned = _mm_xor_si128(_mm_max_epi16(low, high), _mm_set1_epi16(i16::MAX));
    i16::MAX ^ _mm_cvtsi128_si32(_mm_minpos_epu16(turned)) as i16
}

/// Smallest of 16 magnitudes.
#[inline]
#[target_feature(enable = "avx2")]
fn smallest(magnitudes: __m256i) -> i16 {
    let [low, high] =
        [_mm256_castsi256_si128(magnitudes), _mm256_extracti128_si256::<1>(magnitudes)];
    _mm_cvtsi128_si32(_mm_minpos_epu16(_mm_min_epi16(low, high))) as i16
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
pub(super) fn f16_f32_avx2(src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
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
    Portable.f16_f32(src_rest, dst_rest);
}

#[inline]
#[target_feature(enable = "popcnt,avx2,f16c,avx512f,avx512bw,avx512vl,avx512dq")]
pub(super) fn f16_f32_avx512(src: &[[u8; 2]], dst: &mut [[u8; 4]]) {
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
    Portable.f16_f32(src_rest, dst_rest);
}
