//! The one dtype table of the Rust side.

use std::fmt;

/// A floating-point format that a payload or a source holds, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// IEEE 754 binary64: a source only, never stored.
    F64,
}

impl Dtype {
    /// Every dtype.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::F64];

    /// What a payload may hold.
    pub const STORED: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// Bytes of one value.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::F64 => 8,
        }
    }

    /// The canonical name: `"f32"`, `"f16"`, `"bf16"` or `"f64"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F64 => "f64",
        }
    }

    /// The dtype of a canonical name. Synonyms are normalised on the Python side.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
