//! What narrowing counts.

/// Counts and range of a run of narrowed or stored values.
///
/// Magnitudes are of the *result*; values that are not finite enter neither.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Values seen.
    pub count: u64,
    /// Non-zero values whose result is a zero of either sign.
    pub flushed: u64,
    /// Results that are a zero of either sign. `verify` needs it: no more values can have been
    /// flushed than there are zeros.
    pub zeros: u64,
    /// Non-zero results below the smallest normal of the target.
    pub subnormal: u64,
    /// Finite values whose result is infinite.
    pub overflowed: u64,
    /// NaNs in the input.
    pub nan: u64,
    /// Infinities in the input.
    pub inf: u64,
    /// Largest finite magnitude; 0 where there is none.
    pub max_abs: f32,
    /// Smallest non-zero finite magnitude; 0 where there is none.
    pub min_nonzero_abs: f32,
    /// Index of the first value whose result is not finite.
    pub first_bad: Option<u64>,
}

impl Stats {
    /// Append the statistics of the values that follow.
    ///
    /// Associative: blocks may be merged in any grouping, as long as their order is kept
    /// (`first_bad` of `later` is moved by `self.count`).
    pub fn merge(&mut self, later: &Self) {
        if self.first_bad.is_none() {
            self.first_bad = later.first_bad.map(|index| self.count + index);
        }
        self.count += later.count;
        self.flushed += later.flushed;
        self.zeros += later.zeros;
        self.subnormal += later.subnormal;
        self.overflowed += later.overflowed;
        self.nan += later.nan;
        self.inf += later.inf;
        // Magnitudes order as their bits do. Compared as floats, subnormals would be zero in threads
        // that were switched to flush them, as some libraries do.
        let (max, min) = (self.max_abs.to_bits(), self.min_nonzero_abs.to_bits());
        self.max_abs = f32::from_bits(max.max(later.max_abs.to_bits()));
        self.min_nonzero_abs = f32::from_bits(match (min, later.min_nonzero_abs.to_bits()) {
            (0, min) | (min, 0) => min,
            (a, b) => a.min(b),
        });
    }

    /// Whether every result is finite: what an export requires.
    #[must_use]
    pub const fn all_finite(&self) -> bool {
        self.overflowed == 0 && self.nan == 0 && self.inf == 0
    }
}

/// An f32 as f64, whatever the thread's mode: the instruction makes a subnormal zero in some.
#[must_use]
pub fn to_f64(value: f32) -> f64 {
    let (bits, place) = (value.to_bits(), f64::from_bits((1023 - 149) << 52));
    if bits & 0x7f80_0000 != 0 {
        return value.into();
    }
    let magnitude = f64::from(bits & 0x007f_ffff) * place;
    if bits >> 31 == 1 { -magnitude } else { magnitude }
}
