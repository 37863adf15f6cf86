//! From a payload to arrays: read, checksum, count and widen in one pass.
//!
//! The mirror of `write`: blocks of a mebibyte, one buffer a thread, large sequential reads; or no
//! buffer, where the values are looked at where they lie. A file that shrinks meanwhile is an
//! ordinary `UnexpectedEof`.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dtype::Dtype;
use crate::mapping::Mapping;
use crate::narrow::scan_crc;
use crate::positioned::read_exact_at;
use crate::sigbus;
use crate::tally::Tally;
use crate::widen::widen;

/// Bytes that a thread reads at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// Payload below which a second thread costs more than it saves.
const THREADED_BYTES: u64 = 8 << 20;

/// Bytes that are checked and then widened while they are in the nearest cache.
const CHUNK_BYTES: usize = 16 << 10;

/// Blocks that a thread reads between two pauses.
const PAUSE_BLOCKS: u32 = 32;

/// Blocks that a thread takes in a row, at most. Where two threads fill memory that was never
/// touched before at places close together, both of them clear the same huge page.
const RUN_BLOCKS: usize = 4;

/// Where the bytes come from.
#[derive(Clone, Copy, Debug)]
pub enum Store<'a> {
    /// A file, from its start.
    File(&'a File),
    /// The same bytes in memory.
    Memory(&'a [u8]),
    /// A file's mapping, see [`Mapping::is_at_hand`].
    Mapped(&'a Mapping),
}

/// One tensor to read.
#[derive(Debug)]
pub struct Request<'a> {
    /// Where it starts in the store, in bytes.
    pub offset: u64,
    /// How many bytes it has.
    pub nbytes: u64,
    /// Where its values go; `None` to check them only.
    pub out: Option<Out<'a>>,
}

/// Room for the values of one tensor.
#[derive(Debug)]
pub enum Out<'a> {
    /// As they are stored.
    Stored(&'a mut [u8]),
    /// As little-endian f32.
    Widened(&'a mut [u8]),
}

struct Part<'a> {
    tensor: usize,
    nbytes: usize,
    out: Option<Out<'a>>,
}

struct Block<'a> {
    offset: u64,
    nbytes: usize,
    parts: Vec<Part<'a>>,
}

/// Read, check and place every tensor; the tally of each is returned, in order.
///
/// `pause` is called by the calling thread now and then. What it returns as an error ends the
/// reading: it is where an embedder looks for signals.
///
/// # Errors
///
/// Those of `pause`;
/// `UnexpectedEof` where the store ends before a tensor does, `InvalidInput` where room and tensor
/// disagree, and whatever the system says while reading.
pub fn read_tensors(
    store: Store<'_>,
    dtype: Dtype,
    requests: Vec<Request<'_>>,
    threads: usize,
    pause: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<Vec<Tally>> {
    let count = requests.len();
    let total = requests
        .iter()
        .try_fold(0_u64, |sum, request| sum.checked_add(request.nbytes))
        .ok_or(io::ErrorKind::InvalidInput)?;
    let blocks = cut(dtype, requests)?;
    let threads = if total < THREADED_BYTES { 1 } else { threads.clamp(1, blocks.len().max(1)) };
    let queue = Mutex::new(blocks.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let work = |mut pause: Option<&mut dyn FnMut() -> io::Result<()>>| {
        let mut buffer = Vec::new();
        let mut blocks = 0;
        let mut run = VecDeque::new();
        let mut looked_at = None;
        while !stop.load(Ordering::Relaxed) {
            if run.is_empty() {
                let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
                let count = (queue.len() / (2 * threads)).clamp(1, RUN_BLOCKS);
                run.extend(queue.by_ref().take(count));
            }
            let Some((nth, block)) = run.pop_front() else { break };
            // In the order of the file, mostly; if not, pages that are needed again come again.
            let place = usize::try_from(block.offset).unwrap_or(0);
            let start = *looked_at.get_or_insert(place);
            let end = place.saturating_add(block.nbytes);
            let parts = one(store, dtype, block, &mut buffer)
                .inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((nth, parts));
            if let Store::Mapped(mapping) = store
                && run.is_empty()
            {
                // A walk over a large file is not to count all of it as this process's memory.
                mapping.give_back(start, end.saturating_sub(start));
                looked_at = None;
            }
            blocks += 1;
            if let Some(pause) = &mut pause
                && blocks % PAUSE_BLOCKS == 0
            {
                pause().inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (1..threads).map(|_| scope.spawn(|| work(None))).collect();
        let mut outcome: io::Result<()> = work(Some(pause));
        for handle in handles {
            let theirs =
                handle.join().unwrap_or_else(|_| Err(io::Error::other("a reader thread stopped")));
            if outcome.is_ok() {
                outcome = theirs;
            }
        }
        outcome
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(nth, _)| *nth);
    let mut tallies = vec![Tally::default(); count];
    for (tensor, tally) in done.into_iter().flat_map(|(_, parts)| parts) {
        tallies[tensor].append(&tally);
    }
    Ok(tallies)
}

fn cut(dtype: Dtype, requests: Vec<Request<'_>>) -> io::Result<Vec<Block<'_>>> {
    let width = dtype.width();
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for (tensor, request) in requests.into_iter().enumerate() {
        let mut rest = usize::try_from(request.nbytes).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut out = request.out;
        let fits = match &out {
            None => rest.is_multiple_of(width),
            Some(Out::Stored(room)) => rest.is_multiple_of(width) && room.len() == rest,
            Some(Out::Widened(room)) => {
                rest.is_multiple_of(width) && room.len() == rest / width * 4
            }
        };
        let end = request.offset.checked_add(request.nbytes);
        if !fits || end.is_none() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut offset = request.offset;
        while rest > 0 {
            let goes_on = blocks.last().is_some_and(|block| {
                block.nbytes < BLOCK_BYTES && block.offset + block.nbytes as u64 == offset
            });
            if !goes_on {
                blocks.push(Block { offset, nbytes: 0, parts: Vec::new() });
            }
            let Some(block) = blocks.last_mut() else { break };
            let nbytes = rest.min(BLOCK_BYTES - block.nbytes);
            let (now, later) = match out.take() {
                None => (None, None),
                Some(Out::Stored(room)) => {
                    let (now, later) = room.split_at_mut(nbytes);
                    (Some(Out::Stored(now)), Some(Out::Stored(later)))
                }
                Some(Out::Widened(room)) => {
                    let (now, later) = room.split_at_mut(nbytes / width * 4);
                    (Some(Out::Widened(now)), Some(Out::Widened(later)))
                }
            };
            block.parts.push(Part { tensor, nbytes, out: now });
            block.nbytes += nbytes;
            out = later;
            offset += nbytes as u64;
            rest -= nbytes;
        }
    }
    Ok(blocks)
}

fn one(
    store: Store<'_>,
    dtype: Dtype,
    mut block: Block<'_>,
    buffer: &mut Vec<u8>,
) -> io::Result<Vec<(usize, Tally)>> {
    let file = match store {
        Store::File(file) => Some(file),
        Store::Memory(_) => None,
        Store::Mapped(mapping) => {
            let bytes = part(mapping.bytes()?, &block)?;
            // A page that is lost shows afterwards, and the file then says what is wrong with it.
            let found = sigbus::quietly(|| spread(bytes, dtype, &mut block.parts));
            if mapping.is_intact() {
                return found;
            }
            mapping.file()
        }
    };
    let bytes = match (store, file) {
        (Store::Memory(all), _) => part(all, &block)?,
        (_, Some(file)) => {
            // A tensor that is kept as stored needs no buffer between.
            if let [part] = &mut block.parts[..]
                && let Some(Out::Stored(out)) = &mut part.out
            {
                read_exact_at(file, out, block.offset)?;
                return Ok(vec![(part.tensor, place(dtype, out, None)?)]);
            }
            if buffer.len() < block.nbytes {
                buffer.resize(block.nbytes, 0);
            }
            let room = &mut buffer[..block.nbytes];
            read_exact_at(file, room, block.offset)?;
            &*room
        }
        (_, None) => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    spread(bytes, dtype, &mut block.parts)
}

/// The bytes of a block among all bytes of a store.
fn part<'a>(all: &'a [u8], block: &Block<'_>) -> io::Result<&'a [u8]> {
    usize::try_from(block.offset)
        .ok()
        .and_then(|start| all.get(start..start.checked_add(block.nbytes)?))
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Check the bytes of a block and put them where they belong.
fn spread(bytes: &[u8], dtype: Dtype, parts: &mut [Part<'_>]) -> io::Result<Vec<(usize, Tally)>> {
    let mut at = 0;
    let mut tallies = Vec::with_capacity(parts.len());
    for part in parts {
        let source = &bytes[at..at + part.nbytes];
        tallies.push((part.tensor, place(dtype, source, part.out.as_mut())?));
        at += part.nbytes;
    }
    Ok(tallies)
}

/// Check `source` and put it where it belongs.
fn place(dtype: Dtype, source: &[u8], mut out: Option<&mut Out<'_>>) -> io::Result<Tally> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let mut tally = Tally::default();
    for (nth, chunk) in source.chunks(CHUNK_BYTES).enumerate() {
        scan_crc(chunk, dtype, &mut tally.stats, &mut tally.crc).map_err(invalid)?;
        let start = nth * CHUNK_BYTES;
        match &mut out {
            None => {}
            Some(Out::Stored(room)) => {
                room[start..start + chunk.len()].copy_from_slice(chunk);
            }
            Some(Out::Widened(room)) => {
                let wide = |bytes: usize| bytes / dtype.width() * 4;
                widen(chunk, dtype, &mut room[wide(start)..wide(start + chunk.len())])
                    .map_err(invalid)?;
            }
        }
    }
    Ok(tally)
}
