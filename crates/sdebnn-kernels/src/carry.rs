//! One tile through the whole solve: forward, and back.

mod attempt;

pub(crate) use attempt::Attempt;
pub use attempt::Companion;

use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::{
    buffer::Buffer,
    dynamics::{DriftOutput, Field, FieldAdjoint, Injection, recalls, remembers},
    element::Element,
    elementwise::{Accumulate, Add, Axpy, Settle},
    far_memory::{Foreseen, StreamCopy, settle},
    network::{FoldedWeights, Network, StageWeights, Workspace},
    problem::{Dynamics, Problem},
    tape::{Slots, TapePlan},
};

/// What all tiles of a call share.
pub(crate) struct Call<'a, E> {
    pub(crate) problem: &'a Problem,
    pub(crate) network: &'a Network,
    /// Time of every evaluation.
    pub(crate) times: &'a [f64],
    /// Factor between `x` and `h` at every evaluation.
    pub(crate) factors: &'a [f64],
    /// `[evaluation][sample][parameter]`
    pub(crate) weights: &'a [E],
    /// `[evaluation][sample]`: the same with time folded in, layer by layer.
    pub(crate) folded: &'a FoldedWeights<E>,
    pub(crate) samples: usize,
    pub(crate) xi: f64,
}

impl<E> Call<'_, E> {
    fn weights(&self, evaluation: usize, sample: usize) -> StageWeights<'_, E> {
        let place = evaluation * self.samples + sample;
        let parameters = self.network.parameters;
        StageWeights {
            t: self.times[evaluation],
            parameters: &self.weights[place * parameters..(place + 1) * parameters],
            folded: &self.folded[place],
        }
    }

    fn step_length(&self, step: usize) -> f64 {
        self.problem.grid()[step + 1] - self.problem.grid()[step]
    }

    fn factor(&self, evaluation: usize) -> f64 {
        self.factors[evaluation]
    }
}

/// Memory in which a tile is solved.
#[derive(Debug)]
pub(crate) struct TileMemory<E> {
    network: Workspace<E>,
    /// State of the current step, `[component][group][pixel][channel][lane]`.
    pub(crate) state: Buffer<E>,
    /// State of the second stage.
    stage: Buffer<E>,
    /// The next state while it is summed up; in the backward pass, the gradient of a stage's state.
    sum: Buffer<E>,
    /// The field, or what follows from it; in the backward pass, the next `sum`.
    field: Buffer<E>,
    /// In the backward pass, the gradient of a field with two parts.
    mixed: Buffer<E>,
    /// Output of the drift network.
    drift: Buffer<E>,
    /// `h`, where that is not the state itself.
    h: Buffer<E>,
    /// `h_temp`.
    remembered: Buffer<E>,
    /// Time scale of each example.
    pub(crate) scale: Buffer<E>,
}

impl<E: Element> TileMemory<E> {
    /// Memory for tiles of `groups` vectors; `backward` as well if asked for.
    pub(crate) fn new(network: &Network, lanes: usize, groups: usize, components: usize, backward: bool) -> Self {
        let elements = network.state * lanes;
        let state = || Buffer::new(components * elements);
        Self {
            network: Workspace::new(network, lanes, backward),
            state: state(),
            stage: state(),
            sum: state(),
            field: state(),
            mixed: if backward { state() } else { Buffer::new(0) },
            drift: Buffer::new(elements),
            h: Buffer::new(elements),
            remembered: Buffer::new(elements),
            scale: Buffer::new(groups * lanes),
        }
    }

    /// Whether it is large enough: any is for a forward pass.
    pub(crate) fn serves(&self, backward: bool) -> bool {
        !backward || !self.mixed.is_empty()
    }
}

/// `h = s(k(t)) x`, in `to` unless it is the state itself.
#[inline(always)]
fn activations<'a, E: Element, S: Simd>(
    simd: S,
    dynamics: Dynamics,
    factor: f64,
    state: &'a [E],
    to: &'a mut [E],
) -> &'a [E] {
    match dynamics {
        Dynamics::FirstOrder => state,
        Dynamics::Nesterov { .. } => {
            Axpy { to, base: None, factor, direction: state }.run(simd);
            to
        }
    }
}

/// Carries the state of one tile from the first to the last time of the grid.
pub(crate) struct Carry<'a, E: Element> {
    pub(crate) call: &'a Call<'a, E>,
    pub(crate) sample: usize,
    pub(crate) memory: &'a mut TileMemory<E>,
    /// Where to record, if at all.
    pub(crate) tape: Option<(&'a TapePlan, &'a mut [E])>,
    /// Receives what the first evaluation finds, if that is asked for.
    pub(crate) first: Option<&'a mut First<E>>,
}

/// What the first evaluation of a solve finds.
#[derive(Debug)]
pub(crate) struct First<E> {
    /// The output of the drift network.
    drift: Buffer<E>,
    /// The field.
    field: Buffer<E>,
}

impl<E: Element> WithSimd for Carry<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        carry(simd, self);
    }
}

pub(crate) fn carry<E: Element, S: Simd>(simd: S, tile: Carry<'_, E>) {
    let Carry { call, sample, memory, mut tape, mut first } = tile;
    let (method, dynamics) = (call.problem.method(), call.problem.dynamics());
    let stages = method.stages();
    let elements = memory.drift.len();
    for step in 0..call.problem.steps() {
        if let Some((plan, tape)) = &mut tape {
            StreamCopy { far: plan.far, to: plan.state_mut(tape, step), from: &memory.state }.run(simd);
        }
        let dt = call.step_length(step);
        let mut summed = false;
        for stage in 0..stages {
            let evaluation = step * stages + stage;
            let factor = call.factor(evaluation);
            let state = if stage == 0 { &memory.state } else { &memory.stage };
            let to = if remembers(dynamics, evaluation) { &mut memory.remembered } else { &mut memory.h };
            let h = activations(simd, dynamics, factor, &state[..elements], to);
            let (recorded_drift, kept) = match &mut tape {
                Some((plan, tape)) => {
                    let (drift, kept) = plan.evaluation_mut(tape, evaluation);
                    (Some((plan.far, drift)), kept)
                }
                None => (None, Slots::default()),
            };
            let drift = &mut memory.drift;
            let weights = call.weights(evaluation, sample);
            call.network.forward(simd, weights, h, &mut memory.network, kept, drift);
            if let Some(first) = &mut first {
                first.drift.copy_from_slice(drift);
            }
            // Where only one thing follows from the field, that is computed at once.
            let to_stage = (stage + 1 < stages).then(|| dt * method.node(stage + 1));
            let to_sum = Some(dt * method.weight(stage)).filter(|&factor| factor != 0.0);
            let only = match (to_stage, to_sum) {
                (Some(factor), None) | (None, Some(factor)) if first.is_none() && !summed => Some(factor),
                _ => None,
            };
            Field {
                dynamics,
                injection: Injection::new(dynamics, evaluation, factor, &memory.remembered),
                xi: call.xi,
                scale: &memory.scale,
                state,
                drift: DriftOutput::Fresh(&mut memory.drift),
                step: only.map(|factor| (&memory.state[..], factor)),
                to: &mut memory.field,
            }
            .run(simd);
            if let Some((far, to)) = recorded_drift.filter(|(_, to)| !to.is_empty()) {
                StreamCopy { far, to, from: &memory.drift }.run(simd);
            }
            if let Some(first) = first.take() {
                first.field.copy_from_slice(&memory.field);
            }
            if only.is_some() {
                let to = if to_stage.is_some() { &mut memory.stage } else { &mut memory.sum };
                std::mem::swap(&mut memory.field, to);
            } else {
                let (base, direction) = (Some(&memory.state[..]), &memory.field);
                if let Some(factor) = to_stage {
                    Axpy { to: &mut memory.stage, base, factor, direction }.run(simd);
                }
                match to_sum {
                    Some(factor) if summed => Accumulate { to: &mut memory.sum, factor, direction }.run(simd),
                    Some(factor) => Axpy { to: &mut memory.sum, base, factor, direction }.run(simd),
                    None => {}
                }
            }
            summed |= to_sum.is_some();
        }
        std::mem::swap(&mut memory.state, &mut memory.sum);
    }
    if tape.is_some() {
        settle();
    }
}

/// What the backward pass of a tile carries from step to step.
#[derive(Debug)]
pub(crate) struct TileAdjoint<E> {
    /// Gradient of the state, in the layout of the state.
    pub(crate) state: Buffer<E>,
    /// Gradient of `h_temp`.
    remembered: Buffer<E>,
    /// Gradient of `ξ`.
    pub(crate) xi: f64,
}

impl<E: Element> TileAdjoint<E> {
    /// Zero gradients.
    pub(crate) fn new(components: usize, elements: usize) -> Self {
        Self { state: Buffer::new(components * elements), remembered: Buffer::new(elements), xi: 0.0 }
    }
}

/// Carries the gradient of a tile's state from the end of a range of steps to its beginning.
pub(crate) struct CarryBack<'a, 'b, E: Element> {
    pub(crate) call: &'a Call<'a, E>,
    pub(crate) sample: usize,
    /// Steps of the tape.
    pub(crate) steps: Range<usize>,
    /// Steps of the solve before the tape's first.
    pub(crate) before: usize,
    pub(crate) memory: &'a mut TileMemory<E>,
    pub(crate) plan: &'a TapePlan,
    pub(crate) tape: &'a [E],
    pub(crate) adjoint: &'a mut TileAdjoint<E>,
    /// The parameters of every evaluation of the range, overwritten; added to if there is memory for a row.
    pub(crate) weight_gradient: &'a mut [&'b mut [E]],
    /// Memory for the gradient of one evaluation.
    pub(crate) row: Option<&'a mut [E]>,
}

impl<E: Element> WithSimd for CarryBack<'_, '_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        carry_back(simd, self);
    }
}

pub(crate) fn carry_back<E: Element, S: Simd>(simd: S, tile: CarryBack<'_, '_, E>) {
    let CarryBack { call, sample, steps, before, memory, plan, tape, adjoint, weight_gradient, mut row } = tile;
    let (method, dynamics) = (call.problem.method(), call.problem.dynamics());
    let stages = method.stages();
    let elements = memory.drift.len();
    // Whether a stage before the last has a share in the end of a step.
    let shared = (1..stages).any(|stage| method.weight(stage - 1) != 0.0);
    for step in steps.clone().rev() {
        let dt = call.step_length(before + step);
        let first = plan.state(tape, step);
        if shared {
            // The gradient of the step's end is needed by every stage while the stages add to it.
            memory.state.copy_from_slice(&adjoint.state);
        }
        for stage in (0..stages).rev() {
            let evaluation = step * stages + stage;
            // Of the whole solve; the tape counts from its own first evaluation.
            let whole = before * stages + evaluation;
            let factor = call.factor(whole);
            let (drift, kept) = plan.evaluation(tape, evaluation);
            let mut ahead = match evaluation.checked_sub(1) {
                Some(next) => plan.foresee(tape, next),
                None => Foreseen(&[]),
            };

            // Evaluation n - 1, if n is odd, is the first stage of this step or (one stage) of the step before.
            if recalls(dynamics, whole) {
                let source = plan.state(tape, (evaluation - 1) / stages);
                let factor = call.factor(whole - 1);
                Axpy { to: &mut memory.remembered, base: None, factor, direction: &source[..elements] }.run(simd);
            }
            let injection = Injection::new(dynamics, whole, factor, &memory.remembered);
            if stage > 0 {
                Field {
                    dynamics,
                    injection: Injection::new(dynamics, whole - 1, call.factor(whole - 1), &memory.remembered),
                    xi: call.xi,
                    scale: &memory.scale,
                    state: first,
                    drift: DriftOutput::Kept(plan.drift(tape, evaluation - 1)),
                    step: Some((first, dt * method.node(stage))),
                    to: &mut memory.stage,
                }
                .run(simd);
            }
            let state = if stage == 0 { first } else { &memory.stage };

            // Of the field, from the step's end and from the next stage: up to a factor, if from one of them alone.
            let from_end = dt * method.weight(stage);
            let (field_gradient, field_factor) = if stage + 1 == stages {
                (&adjoint.state, from_end)
            } else {
                let from_stage = dt * method.node(stage + 1);
                if from_end == 0.0 {
                    (&memory.sum, from_stage)
                } else {
                    Axpy { to: &mut memory.mixed, base: None, factor: from_end, direction: &memory.state }.run(simd);
                    Accumulate { to: &mut memory.mixed, factor: from_stage, direction: &memory.sum }.run(simd);
                    (&memory.mixed, 1.0)
                }
            };
            adjoint.xi += FieldAdjoint {
                dynamics,
                injection,
                xi: call.xi,
                scale: &memory.scale,
                state,
                drift,
                field_gradient,
                factor: field_factor,
                state_gradient: &mut memory.field,
                drift_gradient: &mut memory.network.gradients[0][..elements],
                remembered_gradient: &mut adjoint.remembered,
            }
            .run(simd);
            std::mem::swap(&mut memory.field, &mut memory.sum);

            let h = activations(simd, dynamics, factor, &state[..elements], &mut memory.h);
            let gradient = &mut *weight_gradient[evaluation - steps.start * stages];
            let weights = call.weights(whole, sample);
            match &mut row {
                None => call.network.backward(simd, weights, h, &mut memory.network, kept, &mut ahead, gradient),
                Some(row) => {
                    call.network.backward(simd, weights, h, &mut memory.network, kept, &mut ahead, row);
                    Add { to: gradient, from: row }.run(simd);
                }
            }

            let (x, m) = memory.sum.split_at_mut(elements);
            let (total_x, total_m) = adjoint.state.split_at_mut(elements);
            if matches!(injection, Injection::Outside(_)) {
                Accumulate { to: &mut memory.network.gradients[0][..elements], factor: 1.0, direction: x }.run(simd);
            }
            // The last evaluation may have stored what nothing uses.
            let used = remembers(dynamics, whole) && whole + 1 < call.problem.evaluations();
            Settle {
                gradient: &memory.network.gradients[0][..elements],
                other: used.then_some(&*adjoint.remembered),
                factor,
                to: x,
                total: total_x,
            }
            .run(simd);
            Accumulate { to: total_m, factor: 1.0, direction: m }.run(simd);
        }
    }
}
