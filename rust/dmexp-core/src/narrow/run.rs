//! Whole calls: blocks, checksum and streaming stores, compiled for every tier.

use std::iter;

use super::block::{self, BLOCK, Convert, Tally};
use super::format::Format;
use crate::cpu::Tier;
use crate::crc32::Crc32;
use crate::simd::{self, Job, Simd};
use crate::stats::Stats;

/// Outputs from this size on are written past the caches, which could not hold them anyway.
const STREAM_FROM_BYTES: usize = 32 << 20;

/// Values in a block that is streamed: its stores hold up the reads for as long as they take.
const STREAM_BLOCK: usize = BLOCK / 2;

/// What the caches move at a time.
const LINE_BYTES: usize = 64;

/// Narrow `src` into `dst`. The lengths agree.
pub(super) fn narrow<C: Convert>(
    tier: Tier,
    src: &[u8],
    dst: &mut [u8],
    stats: &mut Stats,
    crc: Option<&mut Crc32>,
) {
    struct Narrow<'a, C: Convert> {
        src: &'a [<C::From as Format>::Raw],
        dst: &'a mut [<C::To as Format>::Raw],
        tally: &'a mut Tally<C::To>,
        crc: Option<&'a mut Crc32>,
    }

    impl<C: Convert> Job for Narrow<'_, C> {
        #[inline(always)]
        fn run<S: Simd>(mut self, simd: S) {
            // Not with the checksum, which goes to callers that reuse their output.
            if S::STREAMS && self.crc.is_none() && size_of_val(self.dst) >= STREAM_FROM_BYTES {
                return streamed::<C, S>(simd, self.src, self.dst, self.tally);
            }
            let head = to_line(C::To::bytes(self.dst), C::To::DTYPE.width());
            let (src_head, src) = self.src.split_at(head);
            let (dst_head, dst) = self.dst.split_at_mut(head);
            let heads = iter::once((src_head, dst_head)).filter(|_| head > 0);
            for (src, dst) in heads.chain(src.chunks(BLOCK).zip(dst.chunks_mut(BLOCK))) {
                block::narrow::<C, S>(simd, src, dst, self.tally);
                if let Some(crc) = &mut self.crc {
                    crc.update(C::To::bytes(dst));
                }
            }
        }
    }

    let mut tally = Tally::new();
    let job =
        Narrow::<C> { src: C::From::raws(src), dst: C::To::raws_mut(dst), tally: &mut tally, crc };
    simd::dispatch(tier, job);
    stats.merge(&tally.finish());
}

/// How many values lie before the first that starts a cache line; 0 where none does.
///
/// Blocks of results start there. Otherwise most stores of a wide register touch two lines, and the
/// line that two streamed blocks share would be written by ordinary stores from both sides, at more
/// cost than all the others of a block.
#[inline(always)]
fn to_line(values: &[u8], width: usize) -> usize {
    let bytes = values.as_ptr().align_offset(LINE_BYTES);
    if bytes.is_multiple_of(width) && bytes < values.len() { bytes / width } else { 0 }
}

/// Where a buffer starts with a cache line, whatever else is on the stack: at some other places the
/// streaming was measured to take half as long again.
#[repr(align(64))]
struct Aligned<T>(T);

/// Each block is made and counted in a buffer that stays in L1, then copied past the caches.
///
/// Not converted straight into streaming stores: a block that needs a second look would have to come
/// back from memory.
#[inline(always)]
fn streamed<C: Convert, S: Simd>(
    simd: S,
    src: &[<C::From as Format>::Raw],
    dst: &mut [<C::To as Format>::Raw],
    tally: &mut Tally<C::To>,
) {
    let head = to_line(C::To::bytes(dst), C::To::DTYPE.width());
    let (src_head, mut src) = src.split_at(head);
    let (dst_head, dst) = dst.split_at_mut(head);
    block::narrow::<C, S>(simd, src_head, dst_head, tally);
    let mut buffer = Aligned([C::To::store(C::To::nan(false)); STREAM_BLOCK]);
    for dst in dst.chunks_mut(STREAM_BLOCK) {
        let (block, rest) = src.split_at(dst.len());
        let buffer = &mut buffer.0[..dst.len()];
        block::narrow::<C, S>(simd, block, buffer, tally);
        let next = &rest[..rest.len().min(STREAM_BLOCK)];
        simd.stream(C::To::bytes(buffer), C::To::bytes_mut(dst), C::From::bytes(next));
        src = rest;
    }
    simd.stream_end();
}

/// Count `bytes`, a whole number of values.
pub(super) fn scan<F: Format>(
    tier: Tier,
    bytes: &[u8],
    stats: &mut Stats,
    crc: Option<&mut Crc32>,
) {
    struct Scan<'a, F: Format> {
        values: &'a [F::Raw],
        tally: &'a mut Tally<F>,
        crc: Option<&'a mut Crc32>,
    }

    impl<F: Format> Job for Scan<'_, F> {
        #[inline(always)]
        fn run<S: Simd>(mut self, simd: S) {
            for values in self.values.chunks(BLOCK) {
                block::scan::<F, S>(simd, values, self.tally);
                if let Some(crc) = &mut self.crc {
                    crc.update(F::bytes(values));
                }
            }
        }
    }

    let mut tally = Tally::new();
    simd::dispatch(tier, Scan::<F> { values: F::raws(bytes), tally: &mut tally, crc });
    stats.merge(&tally.finish());
}
