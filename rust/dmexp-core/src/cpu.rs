//! Which instruction set the kernels use.

/// A set of instructions that a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// What every target has.
    Portable,
}

impl Tier {
    /// The name that `DMEXP_CPU` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
        }
    }
}

/// The tier in use.
#[must_use]
pub fn tier() -> Tier {
    Tier::Portable
}

/// The tiers of this CPU, slowest first.
#[must_use]
pub fn tiers_available() -> &'static [Tier] {
    &[Tier::Portable]
}
