//! Where a payload is written: a file, or memory.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

use crate::positioned;

/// Bytes with places, written from several threads at once.
#[derive(Debug)]
pub enum Sink {
    /// A file, from its start.
    File(File),
    /// Memory that grows as it is written to.
    Memory(Mutex<Vec<u8>>),
}

impl Sink {
    /// Empty memory.
    #[must_use]
    pub fn memory() -> Self {
        Self::Memory(Mutex::new(Vec::new()))
    }

    /// Write all of `bytes` at `offset`.
    ///
    /// # Errors
    ///
    /// Whatever the system says; `OutOfMemory` where memory cannot grow.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => positioned::write_all_at(file, bytes, offset),
            Self::Memory(memory) => {
                let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                let start = usize::try_from(offset).map_err(|_| io::ErrorKind::OutOfMemory)?;
                let end = start.checked_add(bytes.len()).ok_or(io::ErrorKind::OutOfMemory)?;
                if memory.len() < end {
                    let more = end - memory.len();
                    memory.try_reserve(more).map_err(|_| io::ErrorKind::OutOfMemory)?;
                    memory.resize(end, 0);
                }
                memory[start..end].copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Fill `bytes` from `offset`.
    ///
    /// # Errors
    ///
    /// `UnexpectedEof` beyond the end, and whatever the system says.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => positioned::read_exact_at(file, bytes, offset),
            Self::Memory(memory) => {
                let memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                let from = usize::try_from(offset).ok().and_then(|start| memory.get(start..));
                let from = from.and_then(|rest| rest.get(..bytes.len()));
                bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }

    /// Cut or extend to `len` bytes.
    ///
    /// # Errors
    ///
    /// Whatever the system says.
    pub fn set_len(&self, len: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.set_len(len),
            Self::Memory(memory) => {
                let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
                memory.lock().unwrap_or_else(PoisonError::into_inner).resize(len, 0);
                Ok(())
            }
        }
    }

    /// Ask for room for `len` bytes in all.
    ///
    /// # Errors
    ///
    /// `StorageFull` or `OutOfMemory` where there is none.
    pub fn reserve(&self, len: u64) -> io::Result<()> {
        match self {
            Self::File(file) => positioned::reserve(file, len),
            Self::Memory(memory) => {
                let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
                let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
                let more = len.saturating_sub(memory.len());
                memory.try_reserve_exact(more).map_err(|_| io::ErrorKind::OutOfMemory.into())
            }
        }
    }

    /// Start to put on disk what was written at `offset`, for a [`Sink::sync`] to come.
    pub fn begin_sync(&self, offset: u64, len: usize) {
        if let Self::File(file) = self {
            positioned::begin_sync(file, offset, len);
        }
    }

    /// Wait until what was written is on disk.
    ///
    /// # Errors
    ///
    /// Whatever the system says.
    pub fn sync(&self) -> io::Result<()> {
        match self {
            Self::File(file) => file.sync_all(),
            Self::Memory(_) => Ok(()),
        }
    }
}
