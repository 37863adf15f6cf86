//! Whole calls: blocks, checksum and streaming stores, compiled for every tier.

use super::block::{self, BLOCK, Convert, Tally};
use super::format::Format;
use crate::cpu::Tier;
use crate::crc32::Crc32;
use crate::simd::{self, Job, Simd};
use crate::stats::Stats;

/// Outputs from this size on are written past the caches, which could not hold them anyway.
const STREAM_FROM_BYTES: usize = 32 << 20;

/// Values between two updates of the checksum: few enough that they are still in L1, enough to
/// spread what an update costs to start and to end.
const CRC_EVERY: usize = 2 * BLOCK;

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
            // Not worth it with the checksum, which goes to callers that reuse their output.
            let stream =
                S::STREAMS && self.crc.is_none() && size_of_val(self.dst) >= STREAM_FROM_BYTES;
            let mut filled;
            let buffer: &mut [_] = if stream {
                filled = [C::To::store(C::To::nan(false)); BLOCK];
                &mut filled
            } else {
                &mut []
            };
            let mut rest = self.src;
            for dst in self.dst.chunks_mut(CRC_EVERY) {
                for dst in dst.chunks_mut(BLOCK) {
                    let src;
                    (src, rest) = rest.split_at(dst.len());
                    if stream {
                        let buffer = &mut buffer[..dst.len()];
                        block::narrow::<C, S>(simd, src, buffer, self.tally);
                        let next = &rest[..dst.len().min(rest.len())];
                        simd.stream(
                            C::To::bytes(buffer),
                            C::To::bytes_mut(dst),
                            C::From::bytes(next),
                        );
                    } else {
                        block::narrow::<C, S>(simd, src, dst, self.tally);
                    }
                }
                if let Some(crc) = &mut self.crc {
                    crc.update(C::To::bytes(dst));
                }
            }
            if stream {
                simd.stream_end();
            }
        }
    }

    let mut tally = Tally::new();
    let job =
        Narrow::<C> { src: C::From::raws(src), dst: C::To::raws_mut(dst), tally: &mut tally, crc };
    simd::dispatch(tier, job);
    stats.merge(&tally.finish());
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
            for values in self.values.chunks(CRC_EVERY) {
                for values in values.chunks(BLOCK) {
                    block::scan::<F, S>(simd, values, self.tally);
                }
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
