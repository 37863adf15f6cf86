//! From arrays to a payload on disk: narrow, count, checksum and write in one pass.
//!
//! Work is cut into blocks of two mebibytes of output. Each thread has one buffer of that size,
//! takes the next block, narrows into the buffer (counting and checksumming while the result is in
//! the nearest cache) and writes it at its final place. Blocks are folded in order afterwards, so
//! the result does not depend on how many threads there were.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::dtype::Dtype;
use crate::narrow::{narrow_crc, scan_crc};
use crate::sigbus;
use crate::sink::Sink;
use crate::tally::Tally;

/// Bytes of output that a thread works on at a time: as many as the system can keep in one piece,
/// which it then also maps in one piece for whoever reads the file.
pub const BLOCK_BYTES: usize = 2 << 20;

/// Blocks that are moved before the caller is asked whether to go on.
const MOVED_AT_ONCE: u64 = 128;

/// Output below which a second thread costs more than it saves.
const THREADED_BYTES: usize = 2 * BLOCK_BYTES;

/// A run of values of one tensor.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Which tensor, counted from 0. Never lower than in the piece before.
    pub tensor: usize,
    /// Little-endian values of any alignment.
    pub bytes: &'a [u8],
    /// Their dtype.
    pub dtype: Dtype,
}

/// The first value that the dtype cannot hold.
#[derive(Clone, Copy, Debug)]
pub struct Bad {
    /// Which tensor.
    pub tensor: usize,
    /// Which value of it, in row-major order.
    pub index: u64,
}

/// A payload that grows at the end of a file.
#[derive(Debug)]
pub struct PayloadWriter {
    sink: Sink,
    dtype: Dtype,
    offset: u64,
    written: u64,
    moved_blocks: u64,
    threads: usize,
    syncs: bool,
    tallies: Vec<Tally>,
    buffers: Vec<Vec<u8>>,
}

/// One block of output: parts of pieces that lie one after the other in the file.
#[derive(Debug)]
struct Block<'a> {
    offset: u64,
    out_bytes: usize,
    parts: Vec<Piece<'a>>,
}

impl PayloadWriter {
    /// Write values of `dtype` into `sink` from byte `offset` on.
    #[must_use]
    pub fn new(sink: Sink, dtype: Dtype, offset: u64, threads: usize) -> Self {
        let threads = threads.max(1);
        Self {
            sink,
            dtype,
            offset,
            written: 0,
            moved_blocks: 0,
            threads,
            syncs: false,
            tallies: Vec::new(),
            buffers: Vec::new(),
        }
    }

    /// Start to put each block on disk as soon as it is written: for callers that sync in the end,
    /// and then wait for little more than the last one.
    #[must_use]
    pub fn syncing(self, syncs: bool) -> Self {
        Self { syncs, ..self }
    }

    /// Where the payload goes.
    #[must_use]
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// End the writing.
    #[must_use]
    pub fn into_sink(self) -> Sink {
        self.sink
    }

    /// Bytes of payload so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// The tally of each tensor so far.
    #[must_use]
    pub fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// Make room in the tallies for `count` tensors: those that never had a piece are empty.
    pub fn ensure_tensors(&mut self, count: usize) {
        if self.tallies.len() < count {
            self.tallies.resize_with(count, Tally::default);
        }
    }

    /// Narrow and append the pieces.
    ///
    /// Stops at the first value that the dtype cannot hold; the payload is not to be used then.
    ///
    /// # Errors
    ///
    /// Whatever the system says while writing; `InvalidInput` where a piece is no whole number
    /// of values or its dtype cannot be converted.
    pub fn write(&mut self, pieces: &[Piece<'_>]) -> io::Result<Option<Bad>> {
        let blocks = self.cut(pieces)?;
        self.ensure_tensors(pieces.iter().map(|piece| piece.tensor + 1).max().unwrap_or(0));
        let out_bytes: usize = blocks.iter().map(|block| block.out_bytes).sum();
        let threads = if out_bytes < THREADED_BYTES { 1 } else { self.threads.min(blocks.len()) };
        self.buffers.resize_with(threads.max(self.buffers.len()), Vec::new);
        let job = Job {
            sink: &self.sink,
            dtype: self.dtype,
            syncs: self.syncs,
            blocks: &blocks,
            next: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            done: Mutex::new(Vec::with_capacity(blocks.len())),
        };
        let mut outcome = Ok(());
        std::thread::scope(|scope| {
            let (first, others) = self.buffers[..threads].split_first_mut()?;
            let job = &job;
            let handles: Vec<_> =
                others.iter_mut().map(|buffer| scope.spawn(move || job.run(buffer))).collect();
            outcome = job.run(first);
            for handle in handles {
                let theirs = handle
                    .join()
                    .unwrap_or_else(|_| Err(io::Error::other("a writer thread stopped")));
                if outcome.is_ok() {
                    outcome = theirs;
                }
            }
            Some(())
        });
        outcome?;
        let mut done = job.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|(block, _)| *block);
        for (block, tallies) in done {
            for (part, tally) in blocks[block].parts.iter().zip(tallies) {
                let whole = &mut self.tallies[part.tensor];
                whole.append(&tally);
                if let Some(index) = whole.stats.first_bad {
                    return Ok(Some(Bad { tensor: part.tensor, index }));
                }
            }
        }
        self.written += out_bytes as u64;
        Ok(None)
    }

    fn cut<'a>(&self, pieces: &[Piece<'a>]) -> io::Result<Vec<Block<'a>>> {
        let out_width = self.dtype.width();
        // Blocks end where the file's own blocks do, so that the system can keep each in one piece.
        let room_at = |offset: u64| {
            let beyond = usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0);
            match (BLOCK_BYTES - beyond) / out_width {
                0 => BLOCK_BYTES / out_width,
                values => values,
            }
        };
        let mut room = 0;
        let mut blocks: Vec<Block<'a>> = Vec::new();
        let mut offset = self.offset + self.written;
        for piece in pieces {
            let width = piece.dtype.width();
            if !piece.bytes.len().is_multiple_of(width) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let mut rest = piece.bytes;
            while !rest.is_empty() {
                if room == 0 {
                    blocks.push(Block { offset, out_bytes: 0, parts: Vec::new() });
                    room = room_at(offset);
                }
                let Some(block) = blocks.last_mut() else { break };
                let (now, later) = rest.split_at(rest.len().min(room * width));
                block.parts.push(Piece { bytes: now, ..*piece });
                let values = now.len() / width;
                block.out_bytes += values * out_width;
                offset += (values * out_width) as u64;
                room -= values;
                rest = later;
            }
        }
        Ok(blocks)
    }

    /// Move a part of the payload, so that in the end it starts at byte `offset`.
    ///
    /// True when all of it is there and the file is cut after it. Until then, call it again with
    /// the same offset, and do nothing else.
    ///
    /// # Errors
    ///
    /// Whatever the system says while reading and writing.
    pub fn move_to(&mut self, offset: u64) -> io::Result<bool> {
        let block = BLOCK_BYTES as u64;
        let count = if offset == self.offset { 0 } else { self.written.div_ceil(block) };
        let end = count.min(self.moved_blocks + MOVED_AT_ONCE);
        let mut buffer = vec![0; BLOCK_BYTES];
        for nth in self.moved_blocks..end {
            // Towards the end of the file from the back, since the target overlaps what was not
            // moved yet.
            let at = block * if offset < self.offset { nth } else { count - 1 - nth };
            // The end of the range is at most one block away.
            #[allow(clippy::cast_possible_truncation)]
            let len = (self.written - at).min(block) as usize;
            self.sink.read_exact_at(&mut buffer[..len], self.offset + at)?;
            self.sink.write_all_at(&buffer[..len], offset + at)?;
        }
        self.moved_blocks = end;
        if end < count {
            return Ok(false);
        }
        self.moved_blocks = 0;
        self.offset = offset;
        self.sink.set_len(offset + self.written)?;
        Ok(true)
    }
}

/// What the threads of one call share.
struct Job<'a, 'b> {
    sink: &'a Sink,
    dtype: Dtype,
    syncs: bool,
    blocks: &'a [Block<'b>],
    next: AtomicUsize,
    stop: AtomicBool,
    done: Mutex<Vec<(usize, Vec<Tally>)>>,
}

impl Job<'_, '_> {
    fn run(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        // Whoever writes mapped pages asks at the end whether any was lost.
        sigbus::quietly(|| self.take_blocks(buffer))
    }

    fn take_blocks(&self, buffer: &mut Vec<u8>) -> io::Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            let nth = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(block) = self.blocks.get(nth) else { break };
            let tallies = self.one(block, buffer).inspect_err(|_| self.stop())?;
            if tallies.iter().any(|tally| tally.stats.first_bad.is_some()) {
                // Blocks before this one are under way already; those after it are not needed.
                self.stop();
            }
            let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((nth, tallies));
        }
        Ok(())
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn one(&self, block: &Block<'_>, buffer: &mut Vec<u8>) -> io::Result<Vec<Tally>> {
        let mut tallies = Vec::with_capacity(block.parts.len());
        if let [part] = block.parts[..]
            && part.dtype == self.dtype
        {
            // The values are stored as they are: no copy, straight from the source's pages.
            let mut tally = Tally::default();
            scan_crc(part.bytes, part.dtype, &mut tally.stats, &mut tally.crc).map_err(invalid)?;
            tallies.push(tally);
            self.put(part.bytes, block.offset)?;
            return Ok(tallies);
        }
        if buffer.len() < block.out_bytes {
            // Made anew, so that memory which no block needs is never touched.
            let small = block.out_bytes <= BLOCK_BYTES / 16;
            *buffer = vec![0; if small { BLOCK_BYTES / 16 } else { BLOCK_BYTES }];
        }
        let mut at = 0;
        for part in &block.parts {
            let end = at + part.bytes.len() / part.dtype.width() * self.dtype.width();
            let mut tally = Tally::default();
            let out = &mut buffer[at..end];
            narrow_crc(part.bytes, part.dtype, out, self.dtype, &mut tally.stats, &mut tally.crc)
                .map_err(invalid)?;
            tallies.push(tally);
            at = end;
        }
        self.put(&buffer[..at], block.offset)?;
        Ok(tallies)
    }

    fn put(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.sink.write_all_at(bytes, offset)?;
        if self.syncs {
            self.sink.begin_sync(offset, bytes.len());
        }
        Ok(())
    }
}

fn invalid(error: crate::error::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
