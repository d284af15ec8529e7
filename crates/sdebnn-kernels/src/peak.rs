//! The machine's peak rate of multiply-adds, to put speeds in proportion.

use std::time::Instant;

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::{element::Element, instructions::InstructionSet};

/// Independent chains of multiply-adds: enough to hide their latency.
const CHAINS: usize = 12;

/// Multiply-adds of each chain in one timed run.
const LENGTH: usize = 400_000;

/// Timed runs, of which the fastest counts.
const RUNS: usize = 20;

/// Floating-point operations a second (a multiply-add counts 2) of one thread that does nothing but multiply-adds on registers.
#[must_use]
pub fn peak_flops_of_a_thread<E: Element>(instructions: InstructionSet) -> f64 {
    (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let flops = instructions.dispatch(Chains::<E>(std::marker::PhantomData));
            flops as f64 / start.elapsed().as_secs_f64()
        })
        .fold(0.0, f64::max)
}

/// The same on all threads of the current rayon pool at once.
#[must_use]
pub fn peak_flops<E: Element>(instructions: InstructionSet) -> f64 {
    let threads = rayon::current_num_threads();
    (0..threads).into_par_iter().with_max_len(1).map(|_| peak_flops_of_a_thread::<E>(instructions)).sum()
}

struct Chains<E>(std::marker::PhantomData<E>);

impl<E: Element> WithSimd for Chains<E> {
    type Output = usize;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> usize {
        let factor = E::splat(simd, std::hint::black_box(E::from_f64(0.999)));
        let mut chains = [E::splat(simd, std::hint::black_box(E::ONE)); CHAINS];
        for _ in 0..LENGTH {
            for chain in &mut chains {
                *chain = E::fma(simd, *chain, factor, factor);
            }
        }
        std::hint::black_box(chains);
        2 * CHAINS * LENGTH * E::lanes::<S>()
    }
}
