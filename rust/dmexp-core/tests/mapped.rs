//! Values looked at where they lie: the same answers as reading them, also when the file shrinks.
#![cfg(target_os = "linux")]

mod common;

use std::fs::{self, OpenOptions};
use std::io;
use std::path::PathBuf;

use common::Random;
use dmexp_core::Dtype;
use dmexp_core::mapping::Mapping;
use dmexp_core::read::{Out, Request, Store, read_tensors};
use dmexp_core::tally::Tally;

/// A file that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("dmexp-{}-{name}", std::process::id()));
        fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// Finite bf16 values.
fn values(count: usize) -> Vec<u8> {
    let mut random = Random(5);
    (0..count).flat_map(|_| ((random.below(0x7f00) as u16) | 0x8000).to_le_bytes()).collect()
}

/// The tallies of two tensors that cover the bytes from 6 on, and their values widened.
fn read(
    store: Store<'_>,
    len: usize,
    threads: usize,
    widened: bool,
) -> io::Result<(Vec<Tally>, Vec<u8>)> {
    let (first, second) = (len / 6 * 2, len - 6 - len / 6 * 2);
    let mut room = vec![0; if widened { (first + second) * 2 } else { 0 }];
    let (one, two) = room.split_at_mut(if widened { first * 2 } else { 0 });
    let requests = vec![
        Request { offset: 6, nbytes: first as u64, out: widened.then_some(Out::Widened(one)) },
        Request {
            offset: 6 + first as u64,
            nbytes: second as u64,
            out: widened.then_some(Out::Widened(two)),
        },
    ];
    read_tensors(store, Dtype::Bf16, requests, threads, &mut || Ok(())).map(|found| (found, room))
}

#[test]
fn a_mapping_gives_what_reading_gives() {
    let bytes = values(13 << 20);
    let file = Scratch::new("mapped", &bytes);
    let mapping = Mapping::open(&file.0).unwrap();
    assert!(mapping.is_at_hand());
    for widened in [false, true] {
        let (expected, room) = read(Store::Memory(&bytes), bytes.len(), 1, widened).unwrap();
        for threads in [1, 2, 3] {
            let found = read(Store::Mapped(&mapping), bytes.len(), threads, widened).unwrap();
            assert!(found.1 == room);
            for (one, other) in found.0.iter().zip(&expected) {
                assert_eq!((one.stats, one.crc), (other.stats, other.crc));
            }
        }
    }
}

#[test]
fn a_file_that_shrank_ends_too_early() {
    let bytes = values(2 << 20);
    let file = Scratch::new("shrank", &bytes);
    let mapping = Mapping::open(&file.0).unwrap();
    assert_eq!(mapping.bytes().unwrap().len(), bytes.len());
    OpenOptions::new().write(true).open(&file.0).unwrap().set_len(1 << 20).unwrap();
    for threads in [1, 2] {
        let error = read(Store::Mapped(&mapping), bytes.len(), threads, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(!mapping.is_intact());
    }
    // What is still there is read all the same.
    let request = Request { offset: 0, nbytes: 1 << 20, out: None };
    let store = Store::Mapped(&mapping);
    let found = read_tensors(store, Dtype::Bf16, vec![request], 1, &mut || Ok(())).unwrap();
    assert_eq!(found[0].crc.value(), dmexp_core::crc32::hash(&bytes[..1 << 20]));
}

#[test]
fn what_cannot_be_mapped_is_not_at_hand() {
    let file = Scratch::new("empty", b"");
    let mapping = Mapping::open(&file.0).unwrap();
    assert!(mapping.is_empty());
    assert!(!mapping.is_mapped());
    assert!(!mapping.is_at_hand());
    assert_eq!(mapping.bytes().unwrap(), b"");
}
