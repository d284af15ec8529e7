//! An attempted step, and what it is compared with to estimate its error.

use pulp::{Simd, WithSimd};

use super::{Carry, First, activations, carry};
use crate::{
    buffer::Buffer,
    dynamics::{DriftOutput, Field, Injection, recalls},
    element::Element,
    elementwise::{Accumulate, Axpy},
    tape::Slots,
};

/// The result with which an attempted step is compared to estimate its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Companion {
    /// The step of the Euler method, `y + Δt k₀`: no evaluation more. With the residual "skip", whose second evaluations add `ξ h_temp`,
    /// `k₀` adds it too: the difference would not vanish with the step otherwise.
    Euler,
    /// One step of the method instead of the two steps of the grid. It shares its first evaluation with them, and needs one more.
    FullStep,
}

/// [`Carry`], and the state that the companion ends in.
pub(crate) struct Attempt<'a, E: Element> {
    pub(crate) carry: Carry<'a, E>,
    pub(crate) companion: Companion,
    /// Memory for a state; ends as the companion's.
    pub(crate) other: &'a mut [E],
}

impl<E: Element> WithSimd for Attempt<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        attempt(simd, self);
    }
}

fn attempt<E: Element, S: Simd>(simd: S, tile: Attempt<'_, E>) {
    let Attempt { carry: Carry { call, sample, memory, tape, .. }, companion, other } = tile;
    let (method, dynamics, elements) = (call.problem.method(), call.problem.dynamics(), memory.drift.len());
    let start = memory.state.to_vec();
    let mut first = First { drift: Buffer::new(elements), field: Buffer::new(start.len()) };
    carry(simd, Carry { call, sample, memory, tape, first: Some(&mut first) });
    let grid = call.problem.grid();
    let dt = grid[grid.len() - 1] - grid[0];
    if recalls(dynamics, 1) {
        let (to, factor) = (&mut memory.remembered, call.factor(0));
        Axpy { to, base: None, factor, direction: &start[..elements] }.run(simd);
    }
    if companion == Companion::Euler {
        if recalls(dynamics, 1) {
            Field {
                dynamics,
                injection: Injection::new(dynamics, 1, call.factor(0), &memory.remembered),
                xi: call.xi,
                scale: &memory.scale,
                state: &start,
                drift: DriftOutput::Fresh(&mut first.drift),
                step: None,
                to: &mut first.field,
            }
            .run(simd);
        }
        return Axpy { to: other, base: Some(&start), factor: dt, direction: &first.field }.run(simd);
    }
    // The weights of the one evaluation more follow those of the grid; it is the second of its step.
    let (evaluation, factor) = (call.times.len() - 1, call.factors[call.factors.len() - 1]);
    let (to, direction) = (&mut memory.stage, &first.field[..]);
    Axpy { to, base: Some(&start), factor: dt * method.node(1), direction }.run(simd);
    let h = activations(simd, dynamics, factor, &memory.stage[..elements], &mut memory.h);
    let weights = call.weights(evaluation, sample);
    call.network.forward(simd, weights, h, &mut memory.network, Slots::default(), &mut memory.drift);
    Field {
        dynamics,
        injection: Injection::new(dynamics, 1, factor, &memory.remembered),
        xi: call.xi,
        scale: &memory.scale,
        state: &memory.stage,
        drift: DriftOutput::Fresh(&mut memory.drift),
        step: None,
        to: &mut memory.field,
    }
    .run(simd);
    Axpy { to: other, base: Some(&start), factor: dt * method.weight(0), direction: &first.field }.run(simd);
    Accumulate { to: other, factor: dt * method.weight(1), direction: &memory.field }.run(simd);
}
