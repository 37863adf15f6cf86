//! A file's bytes: mapped where the system allows it, read where it does not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use memmap2::Mmap;

use crate::sigbus;

/// At least the page of every system that this runs on; a multiple of the real one is fine.
#[cfg(unix)]
const PAGE_BYTES: usize = 64 << 10;

/// The bytes of one file, read-only, at one address for as long as this lives.
///
/// A mapped file that shrinks leaves pages that cannot be had any more. Touching one does not end
/// the process: see [`sigbus`]. [`Mapping::is_intact`] tells afterwards.
#[derive(Debug)]
pub struct Mapping {
    bytes: Bytes,
    file: Option<File>,
    guard: Option<sigbus::Guard>,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
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
        Ok(Self::of(file, about.is_file() && about.len() > 0).ok())
    }

    /// Map a file, or give it back.
    fn of(file: File, worth_it: bool) -> Result<Self, File> {
        if !worth_it {
            return Err(file);
        }
        // SAFETY: the mapping is read-only and private to this object. Other processes may write
        // to the file: readers then see other bytes, which every check tolerates, and pages that
        // vanish are replaced by the SIGBUS guard below.
        let Ok(map) = (unsafe { Mmap::map(&file) }) else { return Err(file) };
        let guard = sigbus::Guard::new(map.as_ptr() as usize, map.len());
        Ok(Self { bytes: Bytes::Mapped(map), file: Some(file), guard })
    }

    /// Map `path`; read it into memory where it cannot be mapped (pipes, some network mounts).
    ///
    /// # Errors
    ///
    /// Whatever the system says when the file cannot be opened, measured or read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        let mut file = match Self::of(file, about.is_file() && about.len() > 0) {
            Ok(mapping) => return Ok(mapping),
            Err(file) => file,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Self { bytes: Bytes::Read(bytes), file: None, guard: None })
    }

    /// All bytes, as many as the file had when it was opened.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(map) => map,
            Bytes::Read(bytes) => bytes,
        }
    }

    /// Whether the bytes are the file's pages rather than a copy.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        matches!(self.bytes, Bytes::Mapped(_))
    }

    /// The open file behind the bytes, where they can be read from it again.
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
            None => Ok(self.bytes().len() as u64),
        }
    }

    /// Let the system drop the pages of a range, so that a walk over a large file does not count
    /// all of it as this process's memory. A later access reads them again. Does nothing for a
    /// copy, for a range outside the file, and where the system has no such call.
    pub fn give_back(&self, offset: usize, len: usize) {
        #[cfg(unix)]
        if let Bytes::Mapped(map) = &self.bytes
            && let Some(range) = map.get(offset..).and_then(|rest| rest.get(..len))
        {
            let start = range.as_ptr() as usize;
            let first = start.next_multiple_of(PAGE_BYTES);
            let last = (start + len) / PAGE_BYTES * PAGE_BYTES;
            if first < last {
                // SAFETY: the pages lie inside our own mapping of a file that is never written
                // through it, so dropping them loses nothing: a read brings the same bytes back.
                unsafe { libc::madvise(first as *mut _, last - first, libc::MADV_DONTNEED) };
            }
        }
        #[cfg(not(unix))]
        let _ = (offset, len);
    }

    /// False once a page that this mapping promised could not be had.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.guard.as_ref().is_none_or(|guard| !guard.was_hit())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // The guard must forget the address range before the pages go.
        self.guard = None;
    }
}
