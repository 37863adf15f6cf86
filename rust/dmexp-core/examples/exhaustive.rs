//! Narrow all 2^32 f32 values to bf16 and f16 on every tier of this CPU, and compare bits and counts
//! with the naive reference of the tests: for machines that have no NumPy to compare with.
//!
//! `cargo run --release -p dmexp-core --example exhaustive [STEP]`: with a step, one run of 65,536
//! values in so many; without one it takes some minutes.

#[path = "../tests/common/mod.rs"]
mod common;

use std::process::ExitCode;

use dmexp_core::cpu::{Tier, tiers_available};
use dmexp_core::narrow::narrow_on;
use dmexp_core::{Dtype, Stats};

/// Values that share their upper half.
const RUN: u64 = 1 << 16;

fn main() -> ExitCode {
    let step = std::env::args().nth(1).map_or(1, |step| step.parse().expect("STEP is a number"));
    let tiers: Vec<Tier> = tiers_available().collect();
    let mut wrong = 0_u64;
    for to in [Dtype::Bf16, Dtype::F16] {
        let mut runs = 0;
        for upper in (0..1 << 16).step_by(step) {
            let values: Vec<u64> = (upper * RUN..(upper + 1) * RUN).collect();
            let src = common::bytes(&values, Dtype::F32);
            let (expected, expected_stats) = common::narrow(&src, Dtype::F32, to);
            for tier in &tiers {
                let mut dst = vec![0; expected.len()];
                let mut stats = Stats::default();
                narrow_on(*tier, &src, Dtype::F32, &mut dst, to, &mut stats, None)
                    .expect("the lengths agree");
                if dst != expected || stats != expected_stats {
                    wrong += 1;
                    println!("{to} on {}: wrong from {:#010x} on", tier.name(), upper * RUN);
                }
            }
            runs += 1;
        }
        let names: Vec<&str> = tiers.iter().map(|tier| tier.name()).collect();
        println!("{to}: {} values on {}, {wrong} runs wrong", runs * RUN, names.join(", "));
    }
    if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
