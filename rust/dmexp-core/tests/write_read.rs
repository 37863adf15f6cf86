//! Payloads out and in: the same bytes and counts by any number of threads and any cut.

mod common;

use std::fs::{File, OpenOptions};
use std::io::{self, Read};

use common::Random;
use dmexp_core::crc32::hash;
use dmexp_core::narrow::narrow;
use dmexp_core::read::{Out, Request, Store};
use dmexp_core::sink::Sink;
use dmexp_core::tally::Tally;
use dmexp_core::widen::widen;
use dmexp_core::write::{BLOCK_BYTES, PayloadWriter, Piece};
use dmexp_core::{Dtype, Stats};

fn read_tensors(
    store: Store<'_>,
    dtype: Dtype,
    requests: Vec<Request<'_>>,
    threads: usize,
) -> io::Result<Vec<Tally>> {
    dmexp_core::read::read_tensors(store, dtype, requests, threads, &mut || Ok(()))
}

/// Finite values of every magnitude that f16 holds, as bytes of `dtype`.
fn values(count: usize, dtype: Dtype, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    let mut bytes = Vec::with_capacity(count * dtype.width());
    for _ in 0..count {
        let value = (random.below(2001) as f64 - 1000.0) * 0.5_f64.powi(random.below(40) as i32);
        match dtype {
            Dtype::F64 => bytes.extend(value.to_le_bytes()),
            Dtype::F32 => bytes.extend((value as f32).to_le_bytes()),
            // Any pattern with a small exponent will do.
            Dtype::F16 => bytes.extend((random.next() as u16 & 0xbbff).to_le_bytes()),
            Dtype::Bf16 => bytes.extend((random.next() as u16 & 0xbfff).to_le_bytes()),
        }
    }
    bytes
}

/// One tensor by the kernel alone.
fn expected(bytes: &[u8], from: Dtype, to: Dtype) -> (Vec<u8>, Stats) {
    let mut out = vec![0; bytes.len() / from.width() * to.width()];
    let mut stats = Stats::default();
    narrow(bytes, from, &mut out, to, &mut stats).unwrap();
    (out, stats)
}

fn taken(writer: PayloadWriter) -> Vec<u8> {
    match writer.into_sink() {
        Sink::Memory(bytes) => bytes.into_inner().unwrap(),
        Sink::File(mut file) => {
            let mut bytes = Vec::new();
            io::Seek::rewind(&mut file).unwrap();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        }
    }
}

/// A file that is gone when it is closed.
fn scratch(name: &str) -> File {
    let path = std::env::temp_dir().join(format!("dmexp-{}-{name}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
    #[cfg(unix)]
    std::fs::remove_file(path).unwrap();
    file
}

/// Tensors whose ends fall inside, at and beside the ends of blocks.
fn counts() -> [usize; 9] {
    let block = BLOCK_BYTES / 2;
    [3, 0, block - 3, block, 1, 3 * block + 7, block / 2, 0, 4 * block - 1]
}

#[test]
fn threads_and_cuts_change_nothing() {
    for (from, to) in [
        (Dtype::F32, Dtype::Bf16),
        (Dtype::F32, Dtype::F32),
        (Dtype::F64, Dtype::F16),
        (Dtype::Bf16, Dtype::Bf16),
        (Dtype::F16, Dtype::F32),
    ] {
        let tensors: Vec<_> =
            (0_u64..).zip(counts()).map(|(seed, n)| values(n, from, seed)).collect();
        let narrowed: Vec<_> = tensors.iter().map(|bytes| expected(bytes, from, to)).collect();
        let payload: Vec<u8> = narrowed.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        for threads in [1, 2, 3, 8] {
            let mut random = Random(threads as u64);
            let mut writer = PayloadWriter::new(Sink::memory(), to, 100, threads);
            let mut pieces = Vec::new();
            for (tensor, bytes) in tensors.iter().enumerate() {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let most = rest.len() / from.width();
                    let count = (1 + random.below(most as u64 * 2) as usize).min(most);
                    let (now, later) = rest.split_at(count * from.width());
                    pieces.push(Piece { tensor, bytes: now, dtype: from });
                    rest = later;
                    if random.below(3) == 0 {
                        assert!(writer.write(&pieces).unwrap().is_none());
                        pieces.clear();
                    }
                }
            }
            assert!(writer.write(&pieces).unwrap().is_none());
            assert_eq!(writer.written(), payload.len() as u64);
            writer.ensure_tensors(tensors.len());
            for (tally, (bytes, stats)) in writer.tallies().iter().zip(&narrowed) {
                assert_eq!((tally.crc.value(), tally.crc.len()), (hash(bytes), bytes.len() as u64));
                assert_eq!(tally.stats, *stats, "{from} to {to} by {threads}");
            }
            assert!(taken(writer)[100..] == payload, "{from} to {to} by {threads}");
        }
    }
}

#[test]
fn what_was_written_is_read() {
    for (name, dtype) in [("f32", Dtype::F32), ("f16", Dtype::F16), ("bf16", Dtype::Bf16)] {
        let tensors: Vec<_> =
            (0_u64..).zip(counts()).map(|(seed, n)| values(n, dtype, seed)).collect();
        let mut writer = PayloadWriter::new(Sink::File(scratch(name)), dtype, 33, 2);
        let pieces: Vec<_> = tensors
            .iter()
            .enumerate()
            .map(|(tensor, bytes)| Piece { tensor, bytes, dtype })
            .collect();
        writer.write(&pieces).unwrap();
        let written: Vec<Tally> = writer.tallies().to_vec();
        let Sink::File(file) = writer.into_sink() else { unreachable!() };
        let memory: Vec<u8> = [vec![0; 33], tensors.concat()].concat();
        for store in [Store::File(&file), Store::Memory(&memory)] {
            for threads in [1, 2, 5] {
                for widened in [false, true] {
                    let factor = if widened { 4 / dtype.width() } else { 1 };
                    let mut rooms: Vec<Vec<u8>> =
                        tensors.iter().map(|bytes| vec![0; bytes.len() * factor]).collect();
                    let mut offset = 33;
                    let mut requests = Vec::new();
                    for room in &mut rooms {
                        let nbytes = (room.len() / factor) as u64;
                        let out = if widened { Out::Widened(room) } else { Out::Stored(room) };
                        requests.push(Request { offset, nbytes, out: Some(out) });
                        offset += nbytes;
                    }
                    let found = read_tensors(store, dtype, requests, threads).unwrap();
                    for (nth, tally) in found.iter().enumerate() {
                        assert_eq!(tally.crc, written[nth].crc);
                        assert_eq!(tally.stats, written[nth].stats);
                        let mut wide = vec![0; tensors[nth].len() * factor];
                        if widened {
                            widen(&tensors[nth], dtype, &mut wide).unwrap();
                        } else {
                            wide.copy_from_slice(&tensors[nth]);
                        }
                        assert!(rooms[nth] == wide, "{dtype} tensor {nth} by {threads}");
                    }
                }
            }
        }
    }
}

#[test]
fn requests_in_any_order_and_with_gaps_are_read() {
    let bytes = values(3 * BLOCK_BYTES, Dtype::Bf16, 4);
    let mut random = Random(8);
    let ranges: Vec<(u64, u64)> = (0..200)
        .map(|_| {
            let start = random.below(bytes.len() as u64 / 2) * 2;
            (start, random.below((bytes.len() as u64 - start) / 2 + 1).min(90_000) * 2)
        })
        .collect();
    let requests = ranges.iter().map(|&(offset, nbytes)| Request { offset, nbytes, out: None });
    let found = read_tensors(Store::Memory(&bytes), Dtype::Bf16, requests.collect(), 3).unwrap();
    for (tally, (start, nbytes)) in found.iter().zip(ranges) {
        let part = &bytes[start as usize..][..nbytes as usize];
        assert_eq!((tally.crc.value(), tally.stats.count), (hash(part), nbytes / 2));
    }
}

#[test]
fn the_first_bad_value_is_found_whatever_the_threads() {
    let count = 12 * BLOCK_BYTES / 2;
    let mut bytes = values(count, Dtype::F32, 1);
    // Bad from here on, in every block: whichever thread is first, this is the one to report.
    let first = 5 * BLOCK_BYTES / 2 + 17;
    for index in (first..count).step_by(1000) {
        bytes[index * 4..][..4].copy_from_slice(&f32::NAN.to_le_bytes());
    }
    for to in [Dtype::Bf16, Dtype::F32] {
        for threads in [1, 2, 4, 8] {
            let mut writer = PayloadWriter::new(Sink::memory(), to, 0, threads);
            let (before, after) = bytes.split_at(4000);
            let pieces = [
                Piece { tensor: 0, bytes: before, dtype: Dtype::F32 },
                Piece { tensor: 1, bytes: after, dtype: Dtype::F32 },
            ];
            let bad = writer.write(&pieces).unwrap().unwrap();
            assert_eq!((bad.tensor, bad.index), (1, first as u64 - 1000));
        }
    }
}

#[test]
fn a_payload_moves_down_and_up_in_parts() {
    let bytes = values(5 * BLOCK_BYTES / 2 + 100, Dtype::Bf16, 2);
    for (from, to) in
        [(70_000, 500), (500, 70_000), (0, 1), (1, 0), (64, 64), (0, 3 << 20), (3 << 20, 0)]
    {
        for sink in [Sink::memory(), Sink::File(scratch(&format!("{from}-{to}")))] {
            let mut writer = PayloadWriter::new(sink, Dtype::Bf16, from, 1);
            writer.write(&[Piece { tensor: 0, bytes: &bytes, dtype: Dtype::Bf16 }]).unwrap();
            while !writer.move_to(to).unwrap() {}
            writer.sink().write_all_at(&vec![7; to as usize], 0).unwrap();
            // It goes on where it is now.
            writer.write(&[Piece { tensor: 1, bytes: &bytes[..10], dtype: Dtype::Bf16 }]).unwrap();
            let found = taken(writer);
            assert_eq!(found.len(), to as usize + bytes.len() + 10);
            assert!(found[to as usize..][..bytes.len()] == bytes);
            assert!(found.ends_with(&bytes[..10]));
        }
    }
}

#[test]
fn a_long_move_is_done_in_more_than_one_call() {
    let bytes = vec![0_u8; 300 << 20];
    let mut writer = PayloadWriter::new(Sink::memory(), Dtype::F32, 64, 2);
    writer.write(&[Piece { tensor: 0, bytes: &bytes, dtype: Dtype::F32 }]).unwrap();
    assert!(!writer.move_to(32).unwrap());
    assert!(writer.move_to(32).unwrap());
    assert_eq!(taken(writer).len(), 32 + bytes.len());
}

#[test]
fn a_store_that_ends_too_early_is_an_unexpected_end() {
    let bytes = values(10, Dtype::F32, 3);
    let file = scratch("short");
    dmexp_core::positioned::write_all_at(&file, &bytes, 0).unwrap();
    for store in [Store::File(&file), Store::Memory(&bytes)] {
        for (offset, nbytes) in
            [(0, 44), (36, 8), (40, 4), (4000, 4), (u64::MAX - 3, 0), (1 << 62, 4)]
        {
            let request = Request { offset, nbytes, out: None };
            let error = read_tensors(store, Dtype::F32, vec![request], 1);
            if nbytes == 0 {
                assert_eq!(error.unwrap()[0].stats.count, 0);
            } else {
                assert_eq!(error.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            }
        }
    }
}

#[test]
fn rooms_and_lengths_that_do_not_fit_are_invalid() {
    let bytes = values(10, Dtype::Bf16, 3);
    let store = Store::Memory(&bytes);
    let invalid = |request: Request<'_>| {
        read_tensors(store, Dtype::Bf16, vec![request], 1).unwrap_err().kind()
            == io::ErrorKind::InvalidInput
    };
    let mut room = [0; 8];
    assert!(invalid(Request { offset: 0, nbytes: 3, out: None }));
    assert!(invalid(Request { offset: 0, nbytes: 6, out: Some(Out::Stored(&mut room)) }));
    assert!(invalid(Request { offset: 0, nbytes: 6, out: Some(Out::Widened(&mut room)) }));
    assert!(invalid(Request { offset: u64::MAX, nbytes: 2, out: None }));
    let too_much = vec![
        Request { offset: 0, nbytes: 1 << 63, out: None },
        Request { offset: 0, nbytes: 1 << 63, out: None },
    ];
    assert!(read_tensors(store, Dtype::Bf16, too_much, 1).is_err());
    let mut writer = PayloadWriter::new(Sink::memory(), Dtype::Bf16, 0, 1);
    let ragged = Piece { tensor: 0, bytes: &bytes[..3], dtype: Dtype::F32 };
    assert_eq!(writer.write(&[ragged]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!(writer.written(), 0);
}

#[test]
fn no_pieces_are_no_payload() {
    let mut writer = PayloadWriter::new(Sink::memory(), Dtype::F32, 24, 4);
    assert!(writer.write(&[]).unwrap().is_none());
    assert!(writer.write(&[Piece { tensor: 3, bytes: &[], dtype: Dtype::F64 }]).unwrap().is_none());
    assert_eq!((writer.written(), writer.tallies().len()), (0, 4));
    assert!(writer.move_to(10).unwrap());
    assert_eq!(taken(writer), [0; 10]);
    assert!(read_tensors(Store::Memory(&[]), Dtype::F32, vec![], 4).unwrap().is_empty());
}

#[test]
fn a_pause_can_end_the_reading() {
    let bytes = vec![0; 200 << 20];
    let read = |threads, most: usize| {
        let mut pauses = 0;
        let mut pause = || {
            pauses += 1;
            if pauses > most { Err(io::Error::other("enough")) } else { Ok(()) }
        };
        let request = Request { offset: 0, nbytes: bytes.len() as u64, out: None };
        let store = Store::Memory(&bytes);
        let found =
            dmexp_core::read::read_tensors(store, Dtype::F32, vec![request], threads, &mut pause);
        (found.map(|tallies| tallies[0].stats.count), pauses)
    };
    let (found, pauses) = read(1, usize::MAX);
    assert_eq!((found.unwrap(), pauses), (50 << 20, 6));
    let (found, pauses) = read(1, 0);
    assert_eq!((found.unwrap_err().to_string(), pauses), ("enough".into(), 1));
    // With a second thread, the first may be done before it has read enough to pause.
    let (found, pauses) = read(2, 0);
    assert_eq!((found.is_err(), pauses <= 1), (pauses == 1, true));
}
