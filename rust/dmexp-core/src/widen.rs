//! Widening to f32, alone and fused with the checksum.

use crate::crc32::Crc32;
use crate::dtype::Dtype;
use crate::error::Error;

/// Widen f16 or bf16 values to little-endian f32; f32 is copied. Exact for every finite value.
///
/// # Errors
///
/// [`Error::Ragged`] and [`Error::Length`] where the lengths do not agree, [`Error::Conversion`]
/// for f64. Nothing is written then.
pub fn widen(src: &[u8], src_dtype: Dtype, dst: &mut [u8]) -> Result<(), Error> {
    let _ = (src, src_dtype, dst);
    todo!()
}

/// [`widen`], and add the *source* bytes to `crc` in the same pass.
///
/// # Errors
///
/// As [`widen`].
pub fn widen_crc(
    src: &[u8],
    src_dtype: Dtype,
    dst: &mut [u8],
    crc: &mut Crc32,
) -> Result<(), Error> {
    widen(src, src_dtype, dst)?;
    crc.update(src);
    Ok(())
}
