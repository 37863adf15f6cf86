//! The errors of the kernels. One variant per cause.

use crate::dtype::Dtype;

/// What a kernel refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two buffers that must agree in length do not.
    #[error("{what} is {found} bytes long, expected {expected}")]
    Length {
        /// Which buffer: `"source"` or `"destination"`.
        what: &'static str,
        /// Bytes that the other buffer calls for.
        expected: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// A buffer that does not hold a whole number of values.
    #[error("{found} bytes are not a whole number of {dtype} values ({} bytes each)", dtype.width())]
    Ragged {
        /// The dtype of the values.
        dtype: Dtype,
        /// Bytes that were given.
        found: usize,
    },
    /// A pair of dtypes for which there is no kernel.
    #[error("there is no conversion from {from} to {to}")]
    Conversion {
        /// The dtype of the source.
        from: Dtype,
        /// The dtype asked for.
        to: Dtype,
    },
    /// `DMEXP_CPU` names no tier.
    #[error("DMEXP_CPU={found:?} is not a tier. Known: {known}")]
    UnknownTier {
        /// The value of the variable.
        found: String,
        /// The tiers of this CPU, quoted and joined with commas.
        known: String,
    },
    /// `DMEXP_CPU` names a tier that this CPU lacks.
    #[error("DMEXP_CPU={found:?} asks for instructions that this CPU lacks. It has: {known}")]
    MissingTier {
        /// The value of the variable.
        found: String,
        /// The tiers of this CPU, quoted and joined with commas.
        known: String,
    },
}
