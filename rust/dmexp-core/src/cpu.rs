//! Which instruction set the kernels use: found once, or forced by `DMEXP_CPU`.

use std::sync::OnceLock;

use crate::error::Error;

/// A set of instructions that every kernel is compiled for. Results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// What the target has without asking: SSE2 on x86-64.
    Portable,
    /// AVX2, F16C, BMI1 and BMI2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// The same, POPCNT, and AVX-512 F, BW, VL and DQ.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// NEON with the half-precision conversions, which are part of every AArch64.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Tier {
    /// Every tier of this architecture, slowest first.
    pub const ALL: &[Self] = &[
        Self::Portable,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
        #[cfg(target_arch = "aarch64")]
        Self::Neon,
    ];

    /// The name that `DMEXP_CPU` takes.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Self::Neon => "neon",
        }
    }

    /// Whether this CPU, and the operating system, have the instructions.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("f16c")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("popcnt")
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => true,
        }
    }
}

/// The tiers that this CPU has, slowest first.
pub fn tiers_available() -> impl Iterator<Item = Tier> {
    Tier::ALL.iter().copied().filter(|tier| tier.is_available())
}

/// The tier in use.
///
/// The fastest one, unless `DMEXP_CPU` names another when this is first called. Where the variable
/// is at fault this is the portable tier, and [`configured`] tells; the binding asks at import.
#[must_use]
#[inline]
pub fn tier() -> Tier {
    *configured().as_ref().unwrap_or(&Tier::Portable)
}

/// The tier in use, or what is wrong with `DMEXP_CPU`.
///
/// # Errors
///
/// [`Error::UnknownTier`] where the variable is none of the names, [`Error::MissingTier`] where
/// this CPU lacks the instructions. An empty variable counts as unset.
pub fn configured() -> &'static Result<Tier, Error> {
    static CHOICE: OnceLock<Result<Tier, Error>> = OnceLock::new();
    CHOICE.get_or_init(|| choose(std::env::var_os("DMEXP_CPU").as_deref()))
}

fn choose(wanted: Option<&std::ffi::OsStr>) -> Result<Tier, Error> {
    let wanted = wanted.unwrap_or_default();
    if wanted.is_empty() {
        return Ok(tiers_available().last().unwrap_or(Tier::Portable));
    }
    let found = wanted.to_string_lossy().into_owned();
    let known =
        tiers_available().map(|tier| format!("'{}'", tier.name())).collect::<Vec<_>>().join(", ");
    match Tier::ALL.iter().find(|tier| tier.name() == found) {
        Some(tier) if tier.is_available() => Ok(*tier),
        Some(_) => Err(Error::MissingTier { found, known }),
        None => Err(Error::UnknownTier { found, known }),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn unset_and_empty_choose_the_fastest() {
        let fastest = tiers_available().last().unwrap();
        assert_eq!(choose(None), Ok(fastest));
        assert_eq!(choose(Some(OsStr::new(""))), Ok(fastest));
    }

    #[test]
    fn every_available_tier_can_be_forced_by_its_name() {
        for tier in tiers_available() {
            assert_eq!(choose(Some(OsStr::new(tier.name()))), Ok(tier));
        }
    }

    #[test]
    fn a_tier_that_the_cpu_lacks_is_refused() {
        for tier in Tier::ALL.iter().filter(|tier| !tier.is_available()) {
            let refused = choose(Some(OsStr::new(tier.name())));
            assert!(matches!(refused, Err(Error::MissingTier { .. })));
        }
    }

    #[test]
    fn another_name_is_refused_and_the_known_ones_are_listed() {
        let error = choose(Some(OsStr::new("sse9"))).unwrap_err();
        assert!(matches!(error, Error::UnknownTier { .. }));
        assert!(error.to_string().contains("\"sse9\""));
        assert!(error.to_string().contains("'portable'"));
    }
}
