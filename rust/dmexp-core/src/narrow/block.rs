//! The loop body: blocks small enough that a second look finds them in the nearest cache.

use super::format::{Format, Magnitude};
use super::range::{Census, Range};
use crate::simd::Simd;
use crate::stats::Stats;

/// Values in a block: 4 KiB of f32 and 2 KiB of the result stay in L1 together, and the memory's
/// stream keeps flowing while a block is looked at twice. Larger and smaller ones measured slower.
pub(crate) const BLOCK: usize = 1024;

/// How to get from one format to another.
pub(crate) trait Convert {
    type From: Format;
    type To: Format;
    /// Whether the bits are copied, NaNs and all.
    const COPIES: bool = false;

    /// Convert a block, right for all values but NaNs, and find its range.
    fn block<S: Simd>(
        simd: S,
        src: &[<Self::From as Format>::Raw],
        dst: &mut [<Self::To as Format>::Raw],
    ) -> Range<Self::To>;
}

/// Statistics while a call runs: magnitudes stay bits until the end.
pub(crate) struct Tally<F: Format> {
    stats: Stats,
    max: F::Mag,
    min: F::Mag,
}

impl<F: Format> Tally<F> {
    pub(crate) fn new() -> Self {
        Self {
            stats: Stats::default(),
            max: F::Mag::ZERO,
            min: F::Mag::MAX,
        }
    }

    #[inline(always)]
    fn add_range(&mut self, range: &Range<F>) {
        self.max = self.max.max(range.max);
        self.min = self.min.min(range.min);
        self.stats.subnormal += range.below_normal.total();
    }

    #[inline(always)]
    fn add_census(&mut self, census: &Census<F>) {
        self.max = self.max.max(census.max);
        self.min = self.min.min(census.min());
        self.stats.subnormal += census
            .below_normal
            .total()
            .saturating_sub(census.zero.total());
    }

    /// Note the first value of a block that is not finite; the block is not counted yet.
    fn note_first_bad(&mut self, block: &[F::Raw]) {
        if self.stats.first_bad.is_none() {
            let index = block
                .iter()
                .position(|raw| F::magnitude(F::load(*raw)) >= F::INFINITY);
            self.stats.first_bad = index.map(|index| self.stats.count + index as u64);
        }
    }

    pub(crate) fn finish(mut self) -> Stats {
        self.stats.max_abs = F::to_f32(self.max);
        if self.min < F::Mag::MAX {
            self.stats.min_nonzero_abs = F::to_f32(self.min);
        }
        self.stats
    }
}

/// Convert at most [`BLOCK`] values and count them.
#[inline(always)]
pub(crate) fn narrow<C: Convert, S: Simd>(
    simd: S,
    src: &[<C::From as Format>::Raw],
    dst: &mut [<C::To as Format>::Raw],
    tally: &mut Tally<C::To>,
) {
    let range = C::block(simd, src, dst);
    if range.is_enough() {
        tally.add_range(&range);
    } else {
        recount::<C>(src, dst, tally);
    }
    tally.stats.count += src.len() as u64;
}

/// The second look at a block that holds a zero, a subnormal or something that is not finite.
#[inline(always)]
fn recount<C: Convert>(
    src: &[<C::From as Format>::Raw],
    dst: &mut [<C::To as Format>::Raw],
    tally: &mut Tally<C::To>,
) {
    let before = Census::<C::From>::of(src);
    if before.nan > <C::From as Format>::Mag::ZERO && !C::COPIES {
        for (dst, src) in dst.iter_mut().zip(src) {
            let src = C::From::load(*src);
            let nan = C::To::store(C::To::nan(C::From::is_negative(src)));
            if C::From::magnitude(src) > C::From::INFINITY {
                *dst = nan;
            }
        }
    }
    let after = Census::<C::To>::of(dst);
    // Saturating, because the source may be an array that another thread is writing to: the counts
    // are then anyone's guess, but no reason to panic.
    let stats = &mut tally.stats;
    stats.nan += before.nan.total();
    stats.inf += before.infinite.total();
    stats.overflowed += after
        .infinite
        .total()
        .saturating_sub(before.infinite.total());
    stats.flushed += after.zero.total().saturating_sub(before.zero.total());
    if after.infinite > <C::To as Format>::Mag::ZERO || after.nan > <C::To as Format>::Mag::ZERO {
        tally.note_first_bad(dst);
    }
    tally.add_census(&after);
}

/// Count at most [`BLOCK`] values that are stored already.
#[inline(always)]
pub(crate) fn scan<F: Format>(block: &[F::Raw], tally: &mut Tally<F>) {
    let range = Range::<F>::of(block);
    if range.is_enough() {
        tally.add_range(&range);
    } else {
        let census = Census::<F>::of(block);
        tally.stats.nan += census.nan.total();
        tally.stats.inf += census.infinite.total();
        if census.infinite > F::Mag::ZERO || census.nan > F::Mag::ZERO {
            tally.note_first_bad(block);
        }
        tally.add_census(&census);
    }
    tally.stats.count += block.len() as u64;
}
