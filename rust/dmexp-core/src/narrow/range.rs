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

    pub(crate) const EMPTY: Self = Self {
        max: F::Mag::ZERO,
        min: F::Mag::MAX,
        below_normal: F::Mag::ZERO,
    };

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
        let smallest = if Self::COUNTS_BELOW {
            F::Mag::ZERO.count(true)
        } else {
            F::MIN_NORMAL
        };
        self.max < F::INFINITY && self.min >= smallest
    }
}

/// Everything about one block of values, source or result.
#[derive(Clone, Copy)]
pub(crate) struct Census<F: Format> {
    pub(crate) zero: F::Mag,
    pub(crate) below_normal: F::Mag,
    pub(crate) infinite: F::Mag,
    pub(crate) nan: F::Mag,
    /// Largest finite magnitude.
    pub(crate) max: F::Mag,
    /// Smallest non-zero magnitude less one.
    min_less_one: F::Mag,
}

impl<F: Format> Census<F> {
    /// Counts are kept in lanes as wide as the values, so that the loop vectorises: one block at
    /// a time, or the 16-bit ones would wrap.
    #[inline(always)]
    pub(crate) fn of(block: &[F::Raw]) -> Self {
        let none = F::Mag::ZERO;
        let mut census = Self {
            zero: none,
            below_normal: none,
            infinite: none,
            nan: none,
            max: none,
            min_less_one: F::Mag::MAX,
        };
        for raw in block {
            let magnitude = F::magnitude(F::load(*raw));
            let finite = if magnitude < F::INFINITY {
                magnitude
            } else {
                none
            };
            census.zero = census.zero.count(magnitude == none);
            census.below_normal = census.below_normal.count(magnitude < F::MIN_NORMAL);
            census.infinite = census.infinite.count(magnitude == F::INFINITY);
            census.nan = census.nan.count(magnitude > F::INFINITY);
            census.max = census.max.max(finite);
            census.min_less_one = census.min_less_one.min(magnitude.less_one_or_max());
        }
        census
    }

    /// Smallest non-zero finite magnitude; `MAX` where there is none.
    #[inline(always)]
    pub(crate) fn min(&self) -> F::Mag {
        let min = self.min_less_one.plus_one();
        if min < F::INFINITY { min } else { F::Mag::MAX }
    }
}
