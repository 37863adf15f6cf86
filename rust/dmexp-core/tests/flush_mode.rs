//! Some libraries switch the CPU to flush subnormals (PyTorch offers it, code compiled for fast math
//! does it unasked). Results must not depend on that.
#![cfg(target_arch = "x86_64")]

mod common;

use std::arch::asm;

use dmexp_core::cpu::tiers_available;
use dmexp_core::narrow::narrow_on;
use dmexp_core::stats::to_f64;
use dmexp_core::widen::widen_on;
use dmexp_core::{Dtype, Stats};

/// Run `work` on a thread that takes subnormal operands for zero and makes subnormal results zero.
fn flushing(work: impl FnOnce() + Send) {
    const FLUSH_TO_ZERO: u32 = 1 << 15;
    const DENORMALS_ARE_ZERO: u32 = 1 << 6;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut mode = 0_u32;
            // SAFETY: stores the mode of this thread in `mode`.
            unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mode, options(nostack)) };
            mode |= FLUSH_TO_ZERO | DENORMALS_ARE_ZERO;
            // SAFETY: loads it again. Rust promises nothing about float arithmetic from here to the
            // end of the thread; to see what the kernels make of it is what this test is for.
            unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const mode, options(nostack, readonly)) };
            let tiny = std::hint::black_box(1e-40_f32);
            let product = tiny * std::hint::black_box(1.0);
            assert_eq!(product.to_bits(), 0, "the mode is not on");
            work();
        });
    });
}

#[test]
fn narrowing_is_the_same_in_a_thread_that_flushes_subnormals() {
    for from in Dtype::ALL {
        for to in Dtype::STORED {
            let src = common::bytes(&common::edges(from), from);
            for tier in tiers_available() {
                let mut plain = (vec![0; src.len() / from.width() * to.width()], Stats::default());
                narrow_on(tier, &src, from, &mut plain.0, to, &mut plain.1, None).unwrap();
                let mut flushed = (vec![0; plain.0.len()], Stats::default());
                flushing(|| {
                    // In two calls, so that statistics are merged.
                    let half = src.len() / from.width() / 2;
                    let (src_1, src_2) = src.split_at(half * from.width());
                    let (dst_1, dst_2) = flushed.0.split_at_mut(half * to.width());
                    narrow_on(tier, src_1, from, dst_1, to, &mut flushed.1, None).unwrap();
                    narrow_on(tier, src_2, from, dst_2, to, &mut flushed.1, None).unwrap();
                });
                assert!(plain.0 == flushed.0, "{from} to {to} on {tier:?}");
                let bits =
                    |stats: Stats| (stats.max_abs.to_bits(), stats.min_nonzero_abs.to_bits());
                assert_eq!(bits(plain.1), bits(flushed.1), "{from} to {to} on {tier:?}");
                assert_eq!(plain.1.subnormal, flushed.1.subnormal);
                assert_eq!(plain.1.flushed, flushed.1.flushed);
            }
        }
    }
}

#[test]
fn widening_is_the_same_in_a_thread_that_flushes_subnormals() {
    let all: Vec<u64> = (0..=0xffff).collect();
    for from in [Dtype::F16, Dtype::Bf16] {
        let src = common::bytes(&all, from);
        for tier in tiers_available() {
            let (mut plain, mut flushed) = (vec![0; 2 * src.len()], vec![0; 2 * src.len()]);
            widen_on(tier, &src, from, &mut plain, None).unwrap();
            flushing(|| widen_on(tier, &src, from, &mut flushed, None).unwrap());
            assert!(plain == flushed, "{from} on {tier:?}");
        }
    }
}

#[test]
fn statistics_merge_the_same_in_a_thread_that_flushes_subnormals() {
    let of = |bits: u32| {
        let value = f32::from_bits(bits);
        Stats { max_abs: value, min_nonzero_abs: value, ..Stats::default() }
    };
    let magnitudes = [0_u32, 1, 2, 0x007f_ffff, 0x0080_0000, 0x3f80_0000];
    for one in magnitudes {
        for other in magnitudes {
            let mut merged = of(one);
            flushing(|| merged.merge(&of(other)));
            assert_eq!(merged.max_abs.to_bits(), one.max(other));
            let smallest = [one, other].into_iter().filter(|bits| *bits > 0).min().unwrap_or(0);
            assert_eq!(merged.min_nonzero_abs.to_bits(), smallest, "{one:#x} and {other:#x}");
        }
    }
}

#[test]
fn a_subnormal_f32_becomes_the_same_f64() {
    for bits in [0, 1, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0x8000_0001, 0x8000_0000] {
        let expected = f64::from(f32::from_bits(bits)).to_bits();
        let mut found = 0;
        flushing(|| found = to_f64(f32::from_bits(bits)).to_bits());
        assert_eq!(found, expected, "{bits:#010x}");
    }
}
