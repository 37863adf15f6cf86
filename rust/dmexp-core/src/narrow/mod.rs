//! Narrowing with counts, alone and fused with the checksum.

use crate::crc32::Crc32;
use crate::dtype::Dtype;
use crate::error::Error;
use crate::stats::Stats;

/// Narrow `src` into `dst` and add what was seen to `stats`.
///
/// Both are little-endian values of any alignment, equally many.
///
/// # Errors
///
/// [`Error::Ragged`] and [`Error::Length`] where the lengths do not agree, [`Error::Conversion`]
/// where `dst_dtype` is f64. Nothing is written then.
pub fn narrow(
    src: &[u8],
    src_dtype: Dtype,
    dst: &mut [u8],
    dst_dtype: Dtype,
    stats: &mut Stats,
) -> Result<(), Error> {
    let _ = (src, src_dtype, dst, dst_dtype, stats);
    todo!()
}

/// [`narrow`], and add the bytes written to `crc` while they are in the nearest cache.
///
/// # Errors
///
/// As [`narrow`].
pub fn narrow_crc(
    src: &[u8],
    src_dtype: Dtype,
    dst: &mut [u8],
    dst_dtype: Dtype,
    stats: &mut Stats,
    crc: &mut Crc32,
) -> Result<(), Error> {
    narrow(src, src_dtype, dst, dst_dtype, stats)?;
    crc.update(dst);
    Ok(())
}

/// Add stored values to `stats`, as [`narrow`] to the same dtype would, without writing anything.
///
/// # Errors
///
/// [`Error::Ragged`] where the length is not a whole number of values, [`Error::Conversion`] for
/// f64, which is never stored.
pub fn scan(bytes: &[u8], dtype: Dtype, stats: &mut Stats) -> Result<(), Error> {
    let _ = (bytes, dtype, stats);
    todo!()
}

/// [`scan`], and add the bytes to `crc` in the same pass.
///
/// # Errors
///
/// As [`scan`].
pub fn scan_crc(
    bytes: &[u8],
    dtype: Dtype,
    stats: &mut Stats,
    crc: &mut Crc32,
) -> Result<(), Error> {
    scan(bytes, dtype, stats)?;
    crc.update(bytes);
    Ok(())
}
