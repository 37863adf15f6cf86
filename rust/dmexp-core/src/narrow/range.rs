//! What is kept of every block, and what is counted of the few that need it.

use super::format::{Format, Magnitude};

/// Range of a block of results, cheap enough to take of every block.
#[derive(Clone, Copy)]
pub(crate) struct Range<F: Format> {
    pub(crate) max: F::Mag,
    pub(crate) min: F::Mag,
    /// Zeros and subnormals. Taken of f16 only, where almost every block has some; 0 elsewhere.
    pub(crate) below_normal: F::Mag,
}

impl<F: Format> Range<F> {
    /// Whether to count along the way what is below the smallest normal.
    pub(crate) const COUNTS_BELOW: bool = matches!(F::DTYPE, crate::Dtype::F16);

    pub(crate) const EMPTY: Self =
        Self { max: F::Mag::ZERO, min: F::Mag::MAX, below_normal: F::Mag::ZERO };

    #[inline(always)]
    pub(crate) fn of(block: &[F::Raw]) -> Self {
        let mut range = Self::EMPTY;
        for raw in block {
            range.add(F::magnitude(F::load(*raw)));
        }
        range
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, magnitude: F::Mag) {
        self.max = self.max.max(magnitude);
        self.min = self.min.min(magnitude);
        if Self::COUNTS_BELOW {
            self.below_normal = self.below_normal.count(magnitude < F::MIN_NORMAL);
        }
    }

    /// The range of both. Counts are of at most a block together.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            max: self.max.max(other.max),
            min: self.min.min(other.min),
            below_normal: self.below_normal.plus(other.below_normal),
        }
    }

    /// Whether this says all there is to say: no zero, nothing that is not finite, and nothing
    /// subnormal that was not counted. A NaN that wrapped to zero is among what it does not know.
    #[inline(always)]
    pub(crate) fn is_enough(&self) -> bool {
        let smallest = if Self::COUNTS_BELOW { F::Mag::ZERO.count(true) } else { F::MIN_NORMAL };
        self.max < F::INFINITY && self.min >= smallest
    }
}

/// What a block without anything infinite may still hide.
pub(crate) struct Zeros<F: Format> {
    pub(crate) zero: u64,
    /// Zeros and subnormals; 0 where [`Range`] has counted them.
    pub(crate) below_normal: u64,
    pub(crate) max: F::Mag,
    /// Smallest non-zero magnitude; `MAX` where there is none.
    pub(crate) min: F::Mag,
}

impl<F: Format> Zeros<F> {
    /// Here and in [`Census::of`], counts are kept in lanes as wide as the values, so that the
    /// loop vectorises: one block at a time, or the 16-bit ones would wrap.
    #[inline(always)]
    pub(crate) fn of(block: &[F::Raw]) -> Self {
        let (mut zero, mut below_normal) = (F::Mag::ZERO, F::Mag::ZERO);
        let (mut max, mut min_less_one) = (F::Mag::ZERO, F::Mag::MAX);
        for raw in block {
            let magnitude = F::magnitude(F::load(*raw));
            zero = zero.count(magnitude == F::Mag::ZERO);
            if !Range::<F>::COUNTS_BELOW {
                below_normal = below_normal.count(magnitude < F::MIN_NORMAL);
            }
            max = max.max(magnitude);
            min_less_one = min_less_one.min(magnitude.less_one_or_max());
        }
        Self {
            zero: zero.total(),
            below_normal: below_normal.total(),
            max,
            min: min_less_one.plus_one(),
        }
    }
}

/// Everything about one block of values, source or result.
pub(crate) struct Census<F: Format> {
    pub(crate) zero: u64,
    /// Zeros and subnormals.
    pub(crate) below_normal: u64,
    pub(crate) infinite: u64,
    pub(crate) nan: u64,
    /// Largest finite magnitude.
    pub(crate) max: F::Mag,
    /// Smallest non-zero finite magnitude; `MAX` where there is none.
    pub(crate) min: F::Mag,
}

impl<F: Format> Census<F> {
    #[inline(always)]
    pub(crate) fn of(block: &[F::Raw]) -> Self {
        let none = F::Mag::ZERO;
        let (mut zero, mut below_normal, mut infinite, mut nan) = (none, none, none, none);
        let (mut max, mut min_less_one) = (none, F::Mag::MAX);
        for raw in block {
            let magnitude = F::magnitude(F::load(*raw));
            let finite = if magnitude < F::INFINITY { magnitude } else { none };
            zero = zero.count(magnitude == none);
            below_normal = below_normal.count(magnitude < F::MIN_NORMAL);
            infinite = infinite.count(magnitude == F::INFINITY);
            nan = nan.count(magnitude > F::INFINITY);
            max = max.max(finite);
            min_less_one = min_less_one.min(magnitude.less_one_or_max());
        }
        let min = min_less_one.plus_one();
        Self {
            zero: zero.total(),
            below_normal: below_normal.total(),
            infinite: infinite.total(),
            nan: nan.total(),
            max,
            min: if min < F::INFINITY { min } else { F::Mag::MAX },
        }
    }
}
