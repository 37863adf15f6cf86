//! The checksum against one computed a bit at a time.

mod common;

use common::Random;
use dmexp_core::Crc32;
use dmexp_core::crc32::{combine, hash};

/// By the definition: divide by the reflected polynomial, a bit at a time.
fn naive(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ ((crc & 1) * 0xedb8_8320))
    })
}

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..length).map(|_| random.next() as u8).collect()
}

#[test]
fn the_check_value_of_the_standard() {
    assert_eq!(hash(b"123456789"), 0xcbf4_3926);
    assert_eq!(hash(b""), 0);
}

#[test]
fn every_length_to_1500_at_every_alignment_of_16() {
    let bytes = noise(1516, 1);
    for length in 0..1500 {
        let start = length % 16;
        let bytes = &bytes[start..start + length];
        assert_eq!(hash(bytes), naive(bytes), "{length} bytes at +{start}");
    }
}

#[test]
fn pieces_equal_one_shot() {
    let bytes = noise(20_000, 2);
    let mut random = Random(3);
    for _ in 0..200 {
        let mut crc = Crc32::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let take = (1 + random.below(4000) as usize).min(rest.len());
            crc.update(&rest[..take]);
            rest = &rest[take..];
        }
        assert_eq!((crc.value(), crc.len()), (hash(&bytes), 20_000));
    }
}

#[test]
fn combining_equals_the_checksum_of_both() {
    let bytes = noise(5000, 4);
    for split in (0..=5000).step_by(41) {
        let (first, second) = bytes.split_at(split);
        let combined = combine(hash(first), hash(second), second.len() as u64);
        assert_eq!(combined, hash(&bytes), "split at {split}");
        let mut crc = Crc32::new();
        let mut later = Crc32::new();
        crc.update(first);
        later.update(second);
        crc.append(&later);
        assert_eq!((crc.value(), crc.len()), (hash(&bytes), 5000));
    }
}

#[test]
fn combining_takes_lengths_of_any_size() {
    // 2^32 - 1 bytes shift by a whole cycle of the polynomial and a bit; what matters is that
    // appending in two steps equals appending at once.
    let (a, b) = (hash(b"a"), hash(b"b"));
    for length in [u64::from(u32::MAX), 1 << 40, u64::MAX / 2] {
        let zeros_then_b = combine(combine(a, 0, length - 1), b, 1);
        assert_eq!(zeros_then_b, combine(a, combine(0, b, 1), length));
    }
}
