//! The method as a linear recursion: what it does to any rows of numbers that move as the weights do.
//!
//! `dx = (v + a x) dt + σ dB` has the same coefficients for every column of the weights, for their products with a matrix, and for the
//! parts of which they are sums.

use super::{WeightPathProblem, hidden::fma};
use crate::element::Element;

/// The method at one evaluation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// Whether a step ends here.
    pub(super) last: bool,
    /// Whether the end of the step needs the slope of an earlier stage: Heun's method and SRA1.
    pub(super) remembers: bool,
    /// The slope's factor in what comes next, the next stage or the end of the step.
    pub(super) drift: f64,
    /// The slope's factor in the end of the step, also the time that it stands for.
    pub(super) share: f64,
    /// The noise's factor in what comes next.
    pub(super) diffusion: f64,
    /// The row of noise.
    pub(super) noise: usize,
}

impl WeightPathProblem {
    /// The method at an evaluation.
    pub(super) fn stage(&self, evaluation: usize) -> Stage {
        let (method, stages) = (self.method, self.method.stages());
        let (step, stage) = (evaluation / stages, evaluation % stages);
        let length = self.grid[step + 1] - self.grid[step];
        let last = stage + 1 == stages;
        let progress = if last { 1.0 } else { method.node(stage + 1) };
        Stage {
            last,
            remembers: stages > 1 && method.weight(0) != 0.0,
            drift: length * if last { method.weight(stage) } else { progress },
            share: length * method.weight(stage),
            diffusion: progress * self.sigma,
            noise: if method.increments() == 1 { step } else { evaluation },
        }
    }
}

/// Numbers on their way along the grid.
pub(super) struct Course<E> {
    /// At the start of the step.
    start: Vec<E>,
    /// At the stage.
    pub(super) current: Vec<E>,
    /// The start with the share of an earlier stage.
    remembered: Vec<E>,
    decay: E,
}

impl<E: Element> Course<E> {
    /// From `start` on, where `a = decay`.
    pub(super) fn new(start: Vec<E>, decay: f64) -> Self {
        Self { current: start.clone(), remembered: start.clone(), start, decay: E::from_f64(decay) }
    }

    /// To the next stage, or the end of the step, with `v = force` and the increment `noise`.
    #[inline(always)]
    pub(super) fn advance(&mut self, stage: &Stage, force: &[E], noise: &[E]) {
        let [drift, share, diffusion] = [stage.drift, stage.share, stage.diffusion].map(E::from_f64);
        let places = self.start.iter_mut().zip(&mut self.current).zip(&mut self.remembered);
        for (index, (((start, current), remembered), &force)) in places.zip(force).enumerate() {
            let slope = fma(self.decay, *current, force);
            let base = if stage.remembers && stage.last { *remembered } else { *start };
            *remembered = fma(share, slope, *start);
            let moved = fma(drift, slope, base);
            *current = noise.get(index).map_or(moved, |&noise| fma(diffusion, noise, moved));
            if stage.last {
                *start = *current;
            }
        }
    }
}

/// Gradients on their way back.
///
/// The end of a step has the gradient `λ`, its last slope `q = b Δt λ`. The gradient of a slope gives that of its stage, say `p`; then `λ ← λ + p`, and an
/// earlier slope has `q = b Δt λ_old + c Δt p`.
pub(super) struct Return<E> {
    /// `λ`
    end: Vec<E>,
    /// `p` of what came next.
    next: Vec<E>,
    /// `q`
    pub(super) slope: Vec<E>,
    decay: E,
}

impl<E: Element> Return<E> {
    /// From the gradient `end` of the last time on, where `a = decay`.
    pub(super) fn new(end: Vec<E>, decay: f64) -> Self {
        let zeros = vec![E::ZERO; end.len()];
        Self { end: zeros.clone(), slope: zeros, next: end, decay: E::from_f64(decay) }
    }

    /// Finds the gradient of the slope at a stage, which is that of `v`.
    #[inline(always)]
    pub(super) fn enter(&mut self, stage: &Stage) {
        let (drift, share) = (E::from_f64(stage.drift), E::from_f64(stage.share));
        for ((end, &next), slope) in self.end.iter_mut().zip(&self.next).zip(&mut self.slope) {
            *slope = fma(share, *end, product(drift, next));
            *end += next;
        }
    }

    /// Adds the gradient of the increment with which the stage was left; after [`enter`](Self::enter).
    #[inline(always)]
    pub(super) fn add_noise(&self, stage: &Stage, to: &mut [E]) {
        let diffusion = E::from_f64(stage.diffusion);
        let gradient = if stage.last { &self.end } else { &self.next };
        for (to, &gradient) in to.iter_mut().zip(gradient) {
            *to = fma(diffusion, gradient, *to);
        }
    }

    /// Goes on to the stage itself, which has the gradient `direct` for what else was made of it.
    #[inline(always)]
    pub(super) fn leave(&mut self, direct: &[E]) {
        for ((next, &slope), &direct) in self.next.iter_mut().zip(&self.slope).zip(direct) {
            *next = fma(self.decay, slope, direct);
        }
    }

    /// The gradient of the start.
    pub(super) fn finish(mut self) -> Vec<E> {
        super::hidden::add(&self.next, &mut self.end);
        self.end
    }
}

#[inline(always)]
fn product<E: Element>(a: E, mut b: E) -> E {
    b *= a;
    b
}
