//! A file's bytes: mapped where the system allows it, read where it does not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

use memmap2::Mmap;

use crate::positioned::read_exact_at;
use crate::sigbus;

/// At least the page of every system that this runs on; a multiple of the real one is fine.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 64 << 10;

/// What the system may map in one piece.
#[cfg(unix)]
const HUGE_BYTES: usize = 2 << 20;

/// One open file and, from the first time that they are asked for, its bytes: read-only, at one
/// address for as long as this lives.
///
/// A mapped file that shrinks leaves pages that cannot be had any more. Touching one does not end
/// the process: see [`sigbus`]. [`Mapping::is_intact`] tells afterwards.
#[derive(Debug)]
pub struct Mapping {
    /// None where the bytes came through a pipe, once.
    file: Option<File>,
    len: usize,
    // Not made at opening: whoever wants a header, or reads the payload in large pieces, does
    // without, and making and undoing it is half of what opening costs.
    bytes: OnceLock<Bytes>,
}

#[derive(Debug)]
enum Bytes {
    /// The guard goes first: it must forget the address range before the pages go.
    Mapped(Option<sigbus::Guard>, Mmap),
    Read(Vec<u8>),
}

impl Mapping {
    /// Map `path`; `None` where it is empty or cannot be mapped.
    ///
    /// # Errors
    ///
    /// Whatever the system says when the file cannot be opened or measured.
    pub fn map(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        let Some(len) = mappable(&about) else { return Ok(None) };
        Ok(map(&file, len).map(|bytes| Self { file: Some(file), len, bytes: bytes.into() }))
    }

    /// Open `path`. What is no regular file is read into memory.
    ///
    /// # Errors
    ///
    /// Whatever the system says when the file cannot be opened, measured or read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if let Some(len) = mappable(&file.metadata()?) {
            return Ok(Self { file: Some(file), len, bytes: OnceLock::new() });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self { file: None, len: bytes.len(), bytes: Bytes::Read(bytes).into() })
    }

    /// How many bytes the file had when it was opened.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the file was empty when it was opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All bytes, as many as the file had when it was opened.
    ///
    /// # Errors
    ///
    /// Where the file cannot be mapped and reading it fails: whatever the system says;
    /// `UnexpectedEof` where it has become shorter.
    pub fn bytes(&self) -> io::Result<&[u8]> {
        if self.bytes.get().is_none() {
            let made = self.make()?;
            // Another thread may have been faster; what it made is as good.
            self.bytes.get_or_init(|| made);
        }
        Ok(match self.bytes.get() {
            Some(Bytes::Mapped(_, map)) => map,
            Some(Bytes::Read(bytes)) => bytes,
            None => &[],
        })
    }

    fn make(&self) -> io::Result<Bytes> {
        let Some(file) = &self.file else { return Ok(Bytes::Read(Vec::new())) };
        if let Some(bytes) = map(file, self.len) {
            return Ok(bytes);
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(self.len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        bytes.resize(self.len, 0);
        read_exact_at(file, &mut bytes, 0)?;
        Ok(Bytes::Read(bytes))
    }

    /// Whether the bytes are the file's pages rather than a copy.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        self.bytes().is_ok() && matches!(self.bytes.get(), Some(Bytes::Mapped(..)))
    }

    /// The open file behind the bytes, where they can be read from it.
    #[must_use]
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// The file's length now, in bytes; the length of the copy where there is no file.
    ///
    /// # Errors
    ///
    /// Whatever the system says when the file cannot be measured.
    pub fn current_len(&self) -> io::Result<u64> {
        match &self.file {
            Some(file) => Ok(file.metadata()?.len()),
            None => Ok(self.len as u64),
        }
    }

    /// Let the system drop the pages of a range, so that a walk over a large file does not count
    /// all of it as this process's memory. A later access reads them again, also of the bytes
    /// around the range, which may go with it. Does nothing for a copy, for a range outside the
    /// file, and where the system has no such call.
    pub fn give_back(&self, offset: usize, len: usize) {
        #[cfg(unix)]
        if let Some(Bytes::Mapped(_, map)) = self.bytes.get()
            && let Some(range) = map.get(offset..).and_then(|rest| rest.get(..len))
        {
            let (range, all) = (range.as_ptr_range(), map.as_ptr_range());
            // Huge pages as a whole: of those at its ends, a walk in parts would leave some behind.
            let first = range.start as usize / HUGE_BYTES * HUGE_BYTES;
            let first = first.max(all.start as usize);
            let last = (range.end as usize).next_multiple_of(HUGE_BYTES).min(all.end as usize);
            if len > 0 {
                // SAFETY: the pages lie inside our own mapping of a file that is never written
                // through it, so dropping them loses nothing: a read brings the same bytes back.
                unsafe { libc::madvise(first as *mut _, last - first, libc::MADV_DONTNEED) };
            }
        }
        #[cfg(not(unix))]
        let _ = (offset, len);
    }

    /// Whether reading the bytes where they lie is safe and takes no waiting: lost pages are
    /// replaced, and the system has the file in memory, as far as a few samples tell.
    #[must_use]
    pub fn is_at_hand(&self) -> bool {
        match self.bytes() {
            Ok(bytes) => {
                let guarded = matches!(self.bytes.get(), Some(Bytes::Mapped(Some(_), _)));
                guarded && resident(bytes)
            }
            Err(_) => false,
        }
    }

    /// False once a page that was promised could not be had.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        match self.bytes.get() {
            Some(Bytes::Mapped(Some(guard), _)) => !guard.was_hit(),
            _ => true,
        }
    }
}

/// Whether the system holds some pages of a mapping, spread over all of it.
#[cfg(target_os = "linux")]
fn resident(bytes: &[u8]) -> bool {
    let samples = (bytes.len() / PAGE_BYTES).clamp(1, 32);
    (0..samples).all(|nth| {
        let address = bytes.as_ptr() as usize + bytes.len() / samples * nth;
        let page = address / PAGE_BYTES * PAGE_BYTES;
        let first = page.max(bytes.as_ptr() as usize);
        let mut answer = 0_u8;
        // SAFETY: `first` is the start of a page of the mapping: mappings start at pages, and
        // multiples of PAGE_BYTES are some. One byte is asked for, so one answer is written.
        let done = unsafe { libc::mincore(first as *mut _, 1, &raw mut answer) };
        done == 0 && answer & 1 == 1
    })
}

#[cfg(not(target_os = "linux"))]
fn resident(_: &[u8]) -> bool {
    false
}

/// The length of a file that can be mapped as far as one can tell beforehand.
fn mappable(about: &std::fs::Metadata) -> Option<usize> {
    usize::try_from(about.len()).ok().filter(|len| about.is_file() && *len > 0)
}

fn map(file: &File, len: usize) -> Option<Bytes> {
    // SAFETY: the mapping is read-only and private to one object. Other processes may write to
    // the file: readers then see other bytes, which every check tolerates, and pages that vanish
    // are replaced by the SIGBUS guard below.
    let map = unsafe { memmap2::MmapOptions::new().len(len).map(file) }.ok()?;
    let guard = sigbus::Guard::new(map.as_ptr() as usize, map.len());
    Some(Bytes::Mapped(guard, map))
}
