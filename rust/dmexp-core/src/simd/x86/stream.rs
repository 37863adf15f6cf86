//! Stores that bypass the caches.

use std::arch::x86_64::*;

/// Streaming stores of whole cache lines, an ordinary copy of what lies before and after them.
///
/// Lines of `next` are fetched in between: without that the block's stores fill the write buffers
/// and the reads of the next block wait behind them, at less than half the speed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn stream_avx(block: &[u8], dst: &mut [u8], next: &[u8]) {
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

/// Order the stores of [`stream_avx`] before whatever follows.
#[inline(always)]
pub(super) fn end() {
    // SAFETY: every x86-64 has SSE.
    unsafe { _mm_sfence() };
}
