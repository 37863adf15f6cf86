//! Narrowing against the naive reference: every pair of dtypes on every tier of this CPU.

mod common;

use common::Random;
use dmexp_core::cpu::Tier;
use dmexp_core::narrow::{narrow, narrow_crc, narrow_on, scan_on};
use dmexp_core::{Crc32, Dtype, Error, Stats, crc32};

/// Lengths around the vector widths and the block of 1,024.
const LENGTHS: [usize; 24] = [
    0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 1000, 1023, 1024, 1025,
    2049, 4100,
];

/// Narrow on `tier` through buffers that start `offset` bytes off, and compare with the reference:
/// bytes, statistics, checksum, and the bytes around the destination.
fn check(tier: Tier, values: &[u64], from: Dtype, to: Dtype, offset: usize) {
    let src = common::bytes(values, from);
    let (expected, expected_stats) = common::narrow(&src, from, to);
    let mut shifted = vec![0xa5; offset];
    shifted.extend(&src);
    let mut room = vec![0x5a; offset + expected.len() + 16];
    let end = offset + expected.len();

    let mut stats = Stats::default();
    let mut crc = Crc32::new();
    let dst = &mut room[offset..end];
    narrow_on(tier, &shifted[offset..], from, dst, to, &mut stats, Some(&mut crc)).unwrap();
    let context = || format!("{from} to {to} on {tier:?}, {} values at +{offset}", values.len());
    if room[offset..end] != expected[..] {
        let at = (0..expected.len()).find(|&i| room[offset + i] != expected[i]).unwrap();
        let at = at / to.width();
        panic!(
            "{}: value {at}, {:#x}, became {:#x}, not {:#x}",
            context(),
            values[at],
            common::values(&room[offset..end], to)[at],
            common::values(&expected, to)[at],
        );
    }
    assert_eq!(stats, expected_stats, "{}", context());
    assert_eq!(crc.value(), crc32::hash(&expected), "{}", context());
    assert!(room[..offset].iter().chain(&room[end..]).all(|byte| *byte == 0x5a), "{}", context());

    // Without the checksum, another loop runs.
    let mut alone = vec![0; expected.len()];
    let mut stats = Stats::default();
    narrow_on(tier, &shifted[offset..], from, &mut alone, to, &mut stats, None).unwrap();
    assert_eq!(alone, expected, "{}", context());
    assert_eq!(stats, expected_stats, "{}", context());
}

/// The same tests for every pair on one tier; a tier that the CPU lacks is skipped by name.
macro_rules! tier_tests {
    ($module:ident, $tier:expr) => {
        mod $module {
            use super::*;

            fn pairs() -> impl Iterator<Item = (Dtype, Dtype)> {
                let tier: Tier = $tier;
                let froms = if tier.is_available() {
                    &Dtype::ALL[..]
                } else {
                    eprintln!("skipped: this CPU lacks {tier:?}");
                    &[]
                };
                froms.iter().flat_map(|from| Dtype::STORED.map(|to| (*from, to)))
            }

            #[test]
            fn edges_equal_the_reference() {
                for (from, to) in pairs() {
                    check($tier, &common::edges(from), from, to, 0);
                }
            }

            #[test]
            fn edges_among_ordinary_values_equal_the_reference() {
                // One edge per block, so that the check that decides about a second look sees it
                // alone. The edges that matter most; all of them would take minutes.
                let mut random = Random(1);
                for (from, to) in pairs() {
                    let mut block = common::ordinary(from, 1024, &mut random);
                    let edges = common::edges(from);
                    let step = (edges.len() / 1500).max(1);
                    for edge in edges.iter().step_by(step) {
                        let at = random.below(1024) as usize;
                        let before = std::mem::replace(&mut block[at], *edge);
                        check($tier, &block, from, to, 0);
                        block[at] = before;
                    }
                }
            }

            #[test]
            fn every_length_and_alignment_equals_the_reference() {
                let mut random = Random(2);
                for (from, to) in pairs() {
                    let edges = common::edges(from);
                    for length in LENGTHS {
                        for offset in [0, 1, 2, 3, 4, 8, 31] {
                            let plain = common::ordinary(from, length, &mut random);
                            check($tier, &plain, from, to, offset);
                            let mixed: Vec<u64> = (0..length)
                                .map(|_| edges[random.below(edges.len() as u64) as usize])
                                .collect();
                            check($tier, &mixed, from, to, offset);
                        }
                    }
                }
            }

            #[test]
            fn random_bits_equal_the_reference() {
                let mut random = Random(3);
                for (from, to) in pairs() {
                    let mask = u64::MAX >> (64 - 8 * from.width());
                    for _ in 0..20 {
                        let count = random.below(5000) as usize;
                        let values: Vec<u64> = (0..count).map(|_| random.next() & mask).collect();
                        check($tier, &values, from, to, random.below(9) as usize);
                    }
                }
            }

            #[test]
            fn all_16_bit_values_equal_the_reference() {
                let all: Vec<u64> = (0..=0xffff).collect();
                for (from, to) in pairs().filter(|(from, _)| from.width() == 2) {
                    check($tier, &all, from, to, 0);
                }
            }

            #[test]
            fn a_nan_that_plain_rounding_wraps_to_zero_is_a_nan() {
                // f32 0x7fff8000 to 0x7fffffff: adding half of the lower half carries through all
                // of the exponent and the sign.
                for sign in [0, 0x8000_0000_u64] {
                    for bits in [0x7fff_8000, 0x7fff_ffff, 0x7fff_c001] {
                        let mut random = Random(4);
                        for (from, to) in pairs().filter(|(from, _)| *from == Dtype::F32) {
                            let mut block = common::ordinary(from, 1024, &mut random);
                            block[777] = bits | sign;
                            check($tier, &block, from, to, 0);
                        }
                    }
                }
            }

            #[test]
            fn a_block_of_nothing_but_nans_is_counted() {
                for (from, to) in pairs() {
                    let nan = common::convert(0x7ff8 << 48 | 1, Dtype::F64, from);
                    check($tier, &vec![nan; 3000], from, to, 0);
                }
            }

            #[test]
            fn a_scan_equals_narrowing_to_the_same_dtype() {
                let mut random = Random(5);
                for (dtype, _) in pairs().filter(|(from, to)| from == to) {
                    let edges = common::edges(dtype);
                    for length in LENGTHS {
                        let mut values = common::ordinary(dtype, length, &mut random);
                        for at in (0..length).step_by(1500) {
                            values[at] = edges[random.below(edges.len() as u64) as usize];
                        }
                        let mut bytes = vec![0];
                        bytes.extend(common::bytes(&values, dtype));
                        let (_, expected) = common::narrow(&bytes[1..], dtype, dtype);
                        let (mut stats, mut crc) = (Stats::default(), Crc32::new());
                        scan_on($tier, &bytes[1..], dtype, &mut stats, Some(&mut crc)).unwrap();
                        assert_eq!(stats, expected, "{length} values of {dtype}");
                        assert_eq!(crc.value(), crc32::hash(&bytes[1..]));
                        let mut stats = Stats::default();
                        scan_on($tier, &bytes[1..], dtype, &mut stats, None).unwrap();
                        assert_eq!(stats, expected, "{length} values of {dtype}");
                    }
                }
            }

            #[test]
            fn an_output_larger_than_the_cache_is_the_same() {
                // From 32 MiB of output on, stores bypass the caches; an odd offset, so that head
                // and tail of every block take the ordinary way.
                let (from, to) = (Dtype::F32, Dtype::Bf16);
                if pairs().next().is_none() {
                    return;
                }
                let mut random = Random(6);
                let tile = common::ordinary(from, 4099, &mut random);
                let count = (16 << 20) + 5000;
                let mut values: Vec<u64> = tile.iter().copied().cycle().take(count).collect();
                values[12_345_678] = 0x7fff_ffff;
                values[1_234_567] = 1;
                let src = common::bytes(&values, from);
                for offset in [0, 1, 2] {
                    let mut room = vec![0; offset + 2 * count];
                    let mut stats = Stats::default();
                    let dst = &mut room[offset..];
                    narrow_on($tier, &src, from, dst, to, &mut stats, None).unwrap();
                    let (mut pieces, mut expected) = (vec![0; 2 * count], Stats::default());
                    for (src, dst) in src.chunks(4 << 20).zip(pieces.chunks_mut(2 << 20)) {
                        narrow_on(Tier::Portable, src, from, dst, to, &mut expected, None).unwrap();
                    }
                    assert!(room[offset..] == pieces[..], "at +{offset}");
                    assert_eq!(stats, expected);
                    assert_eq!(stats.first_bad, Some(12_345_678));
                    assert_eq!(stats.flushed, 1);
                }
            }
        }
    };
}

tier_tests!(portable, Tier::Portable);
#[cfg(target_arch = "x86_64")]
tier_tests!(avx2, Tier::Avx2);
#[cfg(target_arch = "x86_64")]
tier_tests!(avx512, Tier::Avx512);
#[cfg(target_arch = "aarch64")]
tier_tests!(neon, Tier::Neon);

/// Bits of f32, bits of bf16, bits of f16: the edges that the format document names.
const TABLE: [(u32, u16, u16); 22] = [
    (0x0000_0000, 0x0000, 0x0000),
    (0x8000_0000, 0x8000, 0x8000),
    (0x3f80_0000, 0x3f80, 0x3c00), // 1
    (0x3f82_8000, 0x3f82, 0x3c14), // 1.01953125: a tie that goes to even
    (0x3f83_8000, 0x3f84, 0x3c1c), // the tie above it
    (0x7f7f_7fff, 0x7f7f, 0x7c00), // the last that bf16 holds
    (0x7f7f_8000, 0x7f80, 0x7c00), // the first that it does not
    (0x7f7f_ffff, 0x7f80, 0x7c00),
    (0x0000_8000, 0x0000, 0x0000), // 2^-134, a tie: to zero
    (0x0000_8001, 0x0001, 0x0000),
    (0x0001_8000, 0x0002, 0x0000),
    (0x0080_0000, 0x0080, 0x0000), // the smallest normal of bf16
    (0x477f_efff, 0x4780, 0x7bff), // 65519.996
    (0x477f_f000, 0x4780, 0x7c00), // 65520
    (0x3300_0000, 0x3300, 0x0000), // 2^-25, a tie: to zero
    (0x3300_0001, 0x3300, 0x0001), // the next one
    (0x3880_0000, 0x3880, 0x0400), // the smallest normal of f16
    (0x387f_ffff, 0x3880, 0x0400), // rounds up to it
    (0x7f80_0000, 0x7f80, 0x7c00),
    (0x7f80_0001, 0x7fc0, 0x7e00), // a signalling NaN
    (0xff80_0001, 0xffc0, 0xfe00),
    (0x7fff_ffff, 0x7fc0, 0x7e00),
];

#[test]
fn the_table_of_edges_holds() {
    for (bits, bf16, f16) in TABLE {
        for (to, expected) in [(Dtype::Bf16, bf16), (Dtype::F16, f16)] {
            let mut dst = [0; 2];
            narrow(&bits.to_le_bytes(), Dtype::F32, &mut dst, to, &mut Stats::default()).unwrap();
            assert_eq!(u16::from_le_bytes(dst), expected, "{bits:#010x} to {to}");
            assert_eq!(common::convert(bits.into(), Dtype::F32, to), expected.into());
        }
    }
}

#[test]
fn f64_is_rounded_once() {
    // By way of f32 the 2^-40 would be lost and the tie would go to even, 0x3f80.
    let value = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
    let mut dst = [0; 2];
    let mut stats = Stats::default();
    narrow(&value.to_le_bytes(), Dtype::F64, &mut dst, Dtype::Bf16, &mut stats).unwrap();
    assert_eq!(u16::from_le_bytes(dst), 0x3f81);
}

#[test]
fn the_reference_agrees_with_half() {
    // `half` keeps NaN payloads, so those are left out.
    let mut random = Random(7);
    for _ in 0..200_000 {
        let value = f32::from_bits(random.next() as u32);
        if !value.is_nan() {
            let bits = value.to_bits().into();
            let f16 = half::f16::from_f32(value).to_bits();
            let bf16 = half::bf16::from_f32(value).to_bits();
            assert_eq!(common::convert(bits, Dtype::F32, Dtype::F16), f16.into());
            assert_eq!(common::convert(bits, Dtype::F32, Dtype::Bf16), bf16.into());
        }
    }
}

#[test]
fn statistics_of_pieces_merge_to_those_of_the_whole() {
    let mut random = Random(8);
    let edges = common::edges(Dtype::F32);
    let values: Vec<u64> =
        (0..9000).map(|_| edges[random.below(edges.len() as u64) as usize]).collect();
    let src = common::bytes(&values, Dtype::F32);
    let (_, whole) = common::narrow(&src, Dtype::F32, Dtype::F16);
    for _ in 0..50 {
        let mut pieces: Vec<Stats> = Vec::new();
        let mut rest = &src[..];
        while !rest.is_empty() {
            let take = (4 * (1 + random.below(2000)) as usize).min(rest.len());
            let (piece, left) = rest.split_at(take);
            let mut stats = Stats::default();
            let mut dst = vec![0; take / 2];
            narrow(piece, Dtype::F32, &mut dst, Dtype::F16, &mut stats).unwrap();
            pieces.push(stats);
            rest = left;
        }
        // Neighbours in random order: any grouping gives the same.
        while pieces.len() > 1 {
            let at = random.below(pieces.len() as u64 - 1) as usize;
            let later = pieces.remove(at + 1);
            pieces[at].merge(&later);
        }
        assert_eq!(pieces[0], whole);
    }
}

#[test]
fn a_call_adds_to_what_was_there() {
    let (mut stats, mut crc) = (Stats::default(), Crc32::new());
    let mut dst = [0; 4];
    for values in [[1.0_f32, 2.0], [f32::NAN, 0.5]] {
        let src: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        narrow_crc(&src, Dtype::F32, &mut dst, Dtype::Bf16, &mut stats, &mut crc).unwrap();
    }
    assert_eq!((stats.count, stats.nan, stats.first_bad), (4, 1, Some(2)));
    assert_eq!((stats.max_abs, stats.min_nonzero_abs), (2.0, 0.5));
    assert_eq!(crc.value(), crc32::hash(&[0x80, 0x3f, 0, 0x40, 0xc0, 0x7f, 0, 0x3f]));
}

#[test]
fn lengths_that_disagree_are_refused_and_nothing_is_written() {
    let mut dst = [7; 5];
    let mut stats = Stats::default();
    let error = narrow(&[0; 8], Dtype::F32, &mut dst, Dtype::Bf16, &mut stats).unwrap_err();
    assert_eq!(error, Error::Length { what: "destination", expected: 4, found: 5 });
    assert_eq!(error.to_string(), "destination is 5 bytes long, expected 4");
    let error = narrow(&[0; 7], Dtype::F32, &mut dst, Dtype::Bf16, &mut stats).unwrap_err();
    assert_eq!(error, Error::Ragged { dtype: Dtype::F32, found: 7 });
    let error = narrow(&[0; 4], Dtype::F32, &mut dst, Dtype::F64, &mut stats).unwrap_err();
    assert_eq!(error, Error::Conversion { from: Dtype::F32, to: Dtype::F64 });
    assert_eq!((dst, stats), ([7; 5], Stats::default()));
}
