//! Reads and writes at a place in a file, in full, without a shared cursor.

use std::fs::File;
use std::io;

/// Write all of `bytes` at `offset`, going on after short writes.
///
/// # Errors
///
/// Whatever the system says.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    write_all_with(bytes, offset, |rest, at| write_at(file, rest, at))
}

/// Fill `bytes` from `offset`.
///
/// # Errors
///
/// `UnexpectedEof` where the file ends before, and whatever the system says.
pub fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match read_at(file, &mut bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The loop of [`write_all_at`], over any positioned write.
fn write_all_with(
    bytes: &[u8],
    offset: u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        match write(&bytes[done..], offset + done as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::write_at(file, bytes, offset)
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset)
}

#[cfg(windows)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

/// Ask for `len` bytes on disk, so that the file system lays them out at once and a full disk
/// shows before the work is done.
///
/// # Errors
///
/// `StorageFull`, `QuotaExceeded` or `FileTooLarge` where the disk cannot hold them. File systems that cannot reserve are not an
/// error: the writes that follow allocate as they go.
pub fn reserve(file: &File, len: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if let Ok(len) = libc::off_t::try_from(len)
        && len > 0
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open for as long as `file` is borrowed.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len) } != 0 {
            let error = io::Error::last_os_error();
            let never = [
                io::ErrorKind::StorageFull,
                io::ErrorKind::QuotaExceeded,
                io::ErrorKind::FileTooLarge,
            ];
            if never.contains(&error.kind()) {
                return Err(error);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, len);
    Ok(())
}

/// Have the system start to write `len` bytes from `offset` to disk, and wait for nothing: a sync
/// later has less to wait for. Where the system has no such call, the sync does it all.
pub fn begin_sync(file: &File, offset: u64, len: usize) {
    #[cfg(target_os = "linux")]
    if let (Ok(offset), Ok(len)) = (libc::off64_t::try_from(offset), libc::off64_t::try_from(len)) {
        use std::os::fd::AsRawFd;
        let how = libc::SYNC_FILE_RANGE_WRITE;
        // An error is of no account: the sync that follows reports what did not get to the disk.
        // SAFETY: the descriptor is open for as long as `file` is borrowed.
        let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, how) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_at_a_time_writes_all() {
        let data: Vec<u8> = (0..=255).collect();
        let mut out = vec![0; 300];
        let mut calls = 0;
        write_all_with(&data, 7, |rest, at| {
            calls += 1;
            if calls % 5 == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            out[usize::try_from(at).unwrap()] = rest[0];
            Ok(1)
        })
        .unwrap();
        assert_eq!(&out[7..263], &data[..]);
        assert!(out[..7].iter().chain(&out[263..]).all(|&byte| byte == 0));
    }

    #[test]
    fn a_write_that_takes_nothing_is_an_error() {
        let error = write_all_with(&[1, 2], 0, |_, _| Ok(0)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
