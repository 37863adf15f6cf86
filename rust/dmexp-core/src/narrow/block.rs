//! The loop body: blocks small enough that a second look finds them in the nearest cache.

use super::format::{Format, Magnitude};
use super::range::{Census, Range, Zeros};
use crate::simd::{Job, Simd};
use crate::stats::Stats;

/// Values in a block: 8 KiB of f32 and 4 KiB of the result stay in L1 together, and the memory's
/// stream keeps flowing while a block is looked at twice. Larger ones measured slower from memory,
/// smaller ones from the caches.
pub(crate) const BLOCK: usize = 2048;

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
        Self { stats: Stats::default(), max: F::Mag::ZERO, min: F::Mag::MAX }
    }

    #[inline(always)]
    fn add_range(&mut self, range: &Range<F>) {
        self.max = self.max.max(range.max);
        self.min = self.min.min(range.min);
        self.stats.subnormal += range.below_normal.total();
    }

    #[inline(always)]
    fn add_zeros(&mut self, range: &Range<F>, zeros: &Zeros<F>) {
        self.max = self.max.max(range.max);
        self.min = self.min.min(zeros.min);
        let below_normal =
            if Range::<F>::COUNTS_BELOW { range.below_normal.total() } else { zeros.below_normal };
        self.stats.zeros += zeros.zero;
        self.stats.subnormal += below_normal.saturating_sub(zeros.zero);
    }

    #[inline(always)]
    fn add_census(&mut self, census: &Census<F>) {
        self.max = self.max.max(census.max);
        self.min = self.min.min(census.min);
        self.stats.zeros += census.zero;
        self.stats.subnormal += census.below_normal.saturating_sub(census.zero);
    }

    /// Note the first value of a block that is not finite; the block is not counted yet.
    fn note_first_bad(&mut self, block: &[F::Raw]) {
        if self.stats.first_bad.is_none() {
            let index = block.iter().position(|raw| F::magnitude(F::load(*raw)) >= F::INFINITY);
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
        simd.aside(Recount::<C> { src, dst, range, tally });
    }
    tally.stats.count += src.len() as u64;
}

/// The second look at a block that holds a zero, a subnormal or something that is not finite.
struct Recount<'a, C: Convert> {
    src: &'a [<C::From as Format>::Raw],
    dst: &'a mut [<C::To as Format>::Raw],
    range: Range<C::To>,
    tally: &'a mut Tally<C::To>,
}

impl<C: Convert> Job for Recount<'_, C> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        recount::<C>(self.src, self.dst, &self.range, self.tally);
    }
}

#[inline(always)]
fn recount<C: Convert>(
    src: &[<C::From as Format>::Raw],
    dst: &mut [<C::To as Format>::Raw],
    range: &Range<C::To>,
    tally: &mut Tally<C::To>,
) {
    // Most of these blocks hold zeros and nothing worse. The maximum of the source tells: a NaN
    // may have become a zero.
    if range.max < C::To::INFINITY {
        let before = Zeros::<C::From>::of(src);
        if before.max <= C::From::INFINITY {
            let after = Zeros::<C::To>::of(dst);
            tally.stats.flushed += after.zero.saturating_sub(before.zero);
            tally.add_zeros(range, &after);
            return;
        }
    }
    let before = Census::<C::From>::of(src);
    if before.nan > 0 && !C::COPIES {
        for (dst, src) in dst.iter_mut().zip(src) {
            let src = C::From::load(*src);
            let nan = C::To::store(C::To::nan(C::From::is_negative(src)));
            if C::From::magnitude(src) > C::From::INFINITY {
                *dst = nan;
            }
        }
    }
    let after = Census::<C::To>::of(dst);
    let stats = &mut tally.stats;
    // Saturating here and above, because the source may be an array that another thread is writing
    // to: the counts are then anyone's guess, but no reason to panic.
    stats.nan += before.nan;
    stats.inf += before.infinite;
    stats.overflowed += after.infinite.saturating_sub(before.infinite);
    stats.flushed += after.zero.saturating_sub(before.zero);
    if after.infinite > 0 || after.nan > 0 {
        tally.note_first_bad(dst);
    }
    tally.add_census(&after);
}

/// Count at most [`BLOCK`] values that are stored already.
#[inline(always)]
pub(crate) fn scan<F: Format, S: Simd>(simd: S, block: &[F::Raw], tally: &mut Tally<F>) {
    let range = Range::<F>::of(block);
    if range.is_enough() {
        tally.add_range(&range);
    } else {
        simd.aside(Rescan { block, range, tally });
    }
    tally.stats.count += block.len() as u64;
}

/// As [`Recount`], of values that are stored already.
struct Rescan<'a, F: Format> {
    block: &'a [F::Raw],
    range: Range<F>,
    tally: &'a mut Tally<F>,
}

impl<F: Format> Job for Rescan<'_, F> {
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { block, range, tally } = self;
        if range.max < F::INFINITY {
            tally.add_zeros(&range, &Zeros::of(block));
        } else {
            let census = Census::<F>::of(block);
            tally.stats.nan += census.nan;
            tally.stats.inf += census.infinite;
            tally.note_first_bad(block);
            tally.add_census(&census);
        }
    }
}
