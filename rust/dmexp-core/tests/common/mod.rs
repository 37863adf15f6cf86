//! A naive reference, and the inputs that every tier faces.
//!
//! The reference works from the definition: take a value apart into sign, whole number and power
//! of two, divide the number by the target's last place with remainder, round half to even. It
//! shares no trick and no line with the kernels.

// Each test binary uses a part of this.
#![allow(dead_code)]

use dmexp_core::{Dtype, Stats};

/// The layout of a format: bits of mantissa and of exponent.
fn layout(dtype: Dtype) -> (u32, u32) {
    match dtype {
        Dtype::F16 => (10, 5),
        Dtype::Bf16 => (7, 8),
        Dtype::F32 => (23, 8),
        Dtype::F64 => (52, 11),
    }
}

fn bias(exponent_bits: u32) -> i64 {
    (1 << (exponent_bits - 1)) - 1
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Zero,
    Subnormal,
    Normal,
    Infinite,
    Nan,
}

/// Class, sign, and the number and power of two of a finite value.
pub fn take_apart(bits: u64, dtype: Dtype) -> (Class, bool, u128, i64) {
    let (mantissa_bits, exponent_bits) = layout(dtype);
    let mantissa = bits & ((1 << mantissa_bits) - 1);
    let exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
    let negative = bits >> (mantissa_bits + exponent_bits) & 1 == 1;
    let lowest = 1 - bias(exponent_bits) - i64::from(mantissa_bits);
    match (exponent, mantissa) {
        (0, 0) => (Class::Zero, negative, 0, 0),
        (0, _) => (Class::Subnormal, negative, mantissa.into(), lowest),
        (e, m) if e == (1 << exponent_bits) - 1 => {
            (if m == 0 { Class::Infinite } else { Class::Nan }, negative, 0, 0)
        }
        (e, m) => {
            let number = u128::from(m | 1 << mantissa_bits);
            (Class::Normal, negative, number, lowest + e as i64 - 1)
        }
    }
}

/// One value from one format to another, by the format document.
pub fn convert(bits: u64, from: Dtype, to: Dtype) -> u64 {
    if from == to {
        return bits;
    }
    let (mantissa_bits, exponent_bits) = layout(to);
    let (class, negative, number, power) = take_apart(bits, from);
    let sign = u64::from(negative) << (mantissa_bits + exponent_bits);
    let infinity = ((1_u64 << exponent_bits) - 1) << mantissa_bits;
    match class {
        Class::Zero => return sign,
        Class::Infinite => return sign | infinity,
        Class::Nan => return sign | infinity | 1 << (mantissa_bits - 1),
        Class::Subnormal | Class::Normal => {}
    }
    // The last place of the result: that of the value's binade, or of the subnormals.
    let top = power + i64::from(127 - number.leading_zeros());
    let lowest = 1 - bias(exponent_bits) - i64::from(mantissa_bits);
    let place = (top - i64::from(mantissa_bits)).max(lowest);
    let units = if place <= power {
        number << (power - place)
    } else {
        let shift = place - power;
        if shift > 100 {
            0
        } else {
            let (whole, rest) = (number >> shift, number & ((1 << shift) - 1));
            let half = 1 << (shift - 1);
            whole + u128::from(rest > half || rest == half && whole & 1 == 1)
        }
    };
    // Units of the last place carry into the exponent by themselves; the leading one of a normal
    // number counts as one exponent step.
    let steps = u64::try_from(place - lowest).unwrap();
    let magnitude = u64::try_from(units).unwrap() + (steps << mantissa_bits);
    sign | magnitude.min(infinity)
}

/// A magnitude as f32, by way of f64 arithmetic.
pub fn magnitude_f32(bits: u64, dtype: Dtype) -> f32 {
    let (_, _, number, power) = take_apart(bits, dtype);
    // Two factors, because 2^power itself may be subnormal in f64's smaller brothers only.
    (number as f64 * 2f64.powi(i32::try_from(power).unwrap())) as f32
}

pub fn values(bytes: &[u8], dtype: Dtype) -> Vec<u64> {
    bytes
        .chunks(dtype.width())
        .map(|raw| {
            let mut wide = [0; 8];
            wide[..raw.len()].copy_from_slice(raw);
            u64::from_le_bytes(wide)
        })
        .collect()
}

pub fn bytes(values: &[u64], dtype: Dtype) -> Vec<u8> {
    values.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(dtype.width())).collect()
}

/// Bytes and statistics, value by value.
pub fn narrow(src: &[u8], from: Dtype, to: Dtype) -> (Vec<u8>, Stats) {
    let mut stats = Stats::default();
    let mut results = Vec::new();
    for bits in values(src, from) {
        let result = convert(bits, from, to);
        let (before, ..) = take_apart(bits, from);
        let (after, ..) = take_apart(result, to);
        match (before, after) {
            (Class::Nan, _) => stats.nan += 1,
            (Class::Infinite, _) => stats.inf += 1,
            (_, Class::Infinite) => stats.overflowed += 1,
            (Class::Subnormal | Class::Normal, Class::Zero) => stats.flushed += 1,
            (_, Class::Subnormal) => stats.subnormal += 1,
            _ => {}
        }
        match after {
            Class::Infinite | Class::Nan => {
                stats.first_bad.get_or_insert(stats.count);
            }
            Class::Zero => stats.zeros += 1,
            Class::Subnormal | Class::Normal => {
                let magnitude = magnitude_f32(result, to);
                stats.max_abs = stats.max_abs.max(magnitude);
                if stats.min_nonzero_abs == 0.0 || magnitude < stats.min_nonzero_abs {
                    stats.min_nonzero_abs = magnitude;
                }
            }
        }
        stats.count += 1;
        results.push(result);
    }
    (bytes(&results, to), stats)
}

/// A small generator (splitmix64), so that every run sees the same values.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Values of `from` at which a narrowing to any format changes its mind: every power of two, and
/// the values around it and around the ties of each target; zeros, subnormals, infinities, NaNs
/// of every kind; both signs.
pub fn edges(from: Dtype) -> Vec<u64> {
    let (mantissa_bits, exponent_bits) = layout(from);
    let sign = 1_u64 << (mantissa_bits + exponent_bits);
    let mut edges = Vec::new();
    for exponent in 0..1_u64 << exponent_bits {
        let base = exponent << mantissa_bits;
        for target_bits in [7, 10, 23] {
            // Half of the target's last place in this binade, and a quarter for good measure.
            for below in 0..3 {
                let Some(at) = u32::checked_sub(mantissa_bits, target_bits + below) else {
                    continue;
                };
                let place = 1_u64 << at;
                for offset in [place, 3 * place, (sign - 1) & ((1 << mantissa_bits) - 1) & !place] {
                    let tie = base + offset;
                    edges.extend([tie.saturating_sub(1), tie, tie + 1]);
                }
            }
        }
        edges.extend([base.saturating_sub(1), base, base + 1]);
    }
    edges.extend((0..mantissa_bits).map(|bit| 1 << bit));
    let infinity = ((1_u64 << exponent_bits) - 1) << mantissa_bits;
    edges.extend((0..mantissa_bits).map(|bit| infinity | 1 << bit));
    edges.extend((0..mantissa_bits).map(|bit| (sign - 1) >> bit << bit));
    edges.retain(|bits| *bits < sign);
    edges.sort_unstable();
    edges.dedup();
    let negative: Vec<u64> = edges.iter().map(|bits| bits | sign).collect();
    edges.extend(negative);
    edges
}

/// Values as weights have them: around 0.02, of both signs, nothing special.
pub fn ordinary(from: Dtype, count: usize, random: &mut Random) -> Vec<u64> {
    (0..count)
        .map(|_| {
            let exponent = 1023 - 4 - u64::from((random.next() | 1 << 7).trailing_zeros());
            let f64_bits = random.next() & !(0x7ff << 52) | exponent << 52;
            convert(f64_bits, Dtype::F64, from)
        })
        .collect()
}
