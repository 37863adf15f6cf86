//! Widening against the naive reference, on every tier of this CPU.

mod common;

use dmexp_core::cpu::tiers_available;
use dmexp_core::narrow::narrow;
use dmexp_core::widen::{widen, widen_on};
use dmexp_core::{Crc32, Dtype, Error, Stats, crc32};

/// What widening makes of one value: as the reference, but a NaN keeps its payload.
fn expected(bits: u64, from: Dtype) -> u64 {
    match (from, common::take_apart(bits, from).0) {
        (Dtype::Bf16, _) => bits << 16,
        (_, common::Class::Nan) => (bits & 0x8000) << 16 | 0x7fc0_0000 | (bits & 0x3ff) << 13,
        _ => common::convert(bits, from, Dtype::F32),
    }
}

#[test]
fn all_16_bit_values_at_every_alignment() {
    let all: Vec<u64> = (0..=0xffff).collect();
    for from in [Dtype::F16, Dtype::Bf16] {
        let wide: Vec<u64> = all.iter().map(|bits| expected(*bits, from)).collect();
        let wide = common::bytes(&wide, Dtype::F32);
        for tier in tiers_available() {
            for offset in 0..5 {
                let mut src = vec![0; offset];
                src.extend(common::bytes(&all, from));
                let mut dst = vec![0; offset + wide.len()];
                let mut crc = Crc32::new();
                widen_on(tier, &src[offset..], from, &mut dst[offset..], Some(&mut crc)).unwrap();
                assert!(dst[offset..] == wide[..], "{from} on {tier:?} at +{offset}");
                assert_eq!(crc.value(), crc32::hash(&src[offset..]));
            }
        }
    }
}

#[test]
fn every_length_up_to_a_few_vectors() {
    for from in Dtype::STORED {
        for tier in tiers_available() {
            for length in (0..130).chain([2047, 2048, 2049, 5000]) {
                let values: Vec<u64> = (0..length).map(|i| (i * 257) & 0xffff).collect();
                let mut dst = vec![0x5a; 4 * values.len() + 8];
                let end = 4 * values.len();
                let src = common::bytes(&values, from);
                widen_on(tier, &src, from, &mut dst[..end], None).unwrap();
                let wide: Vec<u64> = match from {
                    Dtype::F32 => values.clone(),
                    _ => values.iter().map(|bits| expected(*bits, from)).collect(),
                };
                assert_eq!(dst[..end], common::bytes(&wide, Dtype::F32), "{length} on {tier:?}");
                assert_eq!(dst[end..], [0x5a; 8]);
            }
        }
    }
}

#[test]
fn widened_and_narrowed_back_is_the_same() {
    for from in [Dtype::F16, Dtype::Bf16] {
        let all: Vec<u64> = (0..=0xffff)
            .filter(|bits| common::take_apart(*bits, from).0 != common::Class::Nan)
            .collect();
        let src = common::bytes(&all, from);
        let mut wide = vec![0; 2 * src.len()];
        widen(&src, from, &mut wide).unwrap();
        let mut back = vec![0; src.len()];
        let mut stats = Stats::default();
        narrow(&wide, Dtype::F32, &mut back, from, &mut stats).unwrap();
        assert!(back == src);
        assert_eq!((stats.flushed, stats.overflowed, stats.nan, stats.inf), (0, 0, 0, 2));
    }
}

#[test]
fn f64_and_lengths_that_disagree_are_refused() {
    let mut dst = [7; 8];
    let error = widen(&[0; 8], Dtype::F64, &mut dst).unwrap_err();
    assert_eq!(error, Error::Conversion { from: Dtype::F64, to: Dtype::F32 });
    let error = widen(&[0; 3], Dtype::F16, &mut dst).unwrap_err();
    assert_eq!(error, Error::Ragged { dtype: Dtype::F16, found: 3 });
    let error = widen(&[0; 8], Dtype::F16, &mut dst).unwrap_err();
    assert_eq!(error, Error::Length { what: "destination", expected: 16, found: 8 });
    assert_eq!(dst, [7; 8]);
}
