//! The steps of an adaptive solve, found by the kernels.

use burn::tensor::{DType, Tensor};
use sdebnn_kernels::{
    Attempted, Companion, Inputs, Problem, Settings, Solver, Tape, WeightPathInputs, WeightPathOutputs,
    WeightPathProblem, WeightPathSolver, WeightPathTape,
};

use super::carry::Recorded;
use super::{FITS, Real, Remembers};
use crate::controller::{Attempt, Controller, EULER_FACTOR, SolverConfig, Stepper, march};
use crate::dynamics::State;
use crate::error::{Component, SolveError};
use crate::joint::Distance;
use crate::method::Method;

/// An attempt's share of what is left of the tape's budget: how many will be accepted is not known.
const SHARE: usize = 8;

/// What is solved, and how.
pub(crate) struct Search<'a> {
    pub(crate) solver: &'a SolverConfig,
    /// The activations' part, on any grid.
    pub(crate) problem: Problem,
    pub(crate) settings: Settings,
    /// The weights' part by a method on a grid.
    pub(crate) weights: &'a dyn Fn(Method, Vec<f64>) -> WeightPathProblem,
    /// `[batch]`: factors on the vector field.
    pub(crate) time_scale: Option<&'a Tensor<1>>,
}

/// The accepted grid, and what is known of the solve on it.
pub(crate) struct Found {
    pub(crate) grid: Vec<f64>,
    /// The method's rows of noise, `[steps · increments, samples, M]`.
    pub(crate) noise: Vec<f64>,
    pub(crate) attempts: Vec<Attempt>,
    /// The state at the end, and the tape that leads back.
    pub(crate) recorded: Recorded,
}

impl Search<'_> {
    /// Searches from `w0`, `φ`, a state and `ξ`, with the method's rows of `noise` over the intervals of any grid.
    pub(crate) fn run(
        self,
        inputs: (Tensor<1>, Tensor<1>, &State, Tensor<1>),
        noise: &dyn Fn(&[f64]) -> Vec<f64>,
    ) -> Result<Found, SolveError> {
        match inputs.0.dtype() {
            DType::F64 => self.run_with::<f64>(inputs, noise),
            _ => self.run_with::<f32>(inputs, noise),
        }
    }

    fn run_with<E: Real + Remembers<Solver<E>>>(
        self,
        (w0, phi, state, xi): (Tensor<1>, Tensor<1>, &State, Tensor<1>),
        noise: &dyn Fn(&[f64]) -> Vec<f64>,
    ) -> Result<Found, SolveError> {
        // Steps are constants for gradients, and a model that is not trained leaves no tape.
        let record = w0.device().is_autodiff();
        let [samples, batch, _] = state[0].dims();
        let (problem, settings) = (&self.problem, self.settings);
        // Grids come and go, so the remembered solver is one for the whole interval.
        let fits = |s: &Solver<E>| s.problem() == problem && *s.settings() == settings;
        let base = E::remembered().get(fits, || Solver::with_settings(problem.clone(), settings));
        let w0: Vec<E> = vector(w0);
        let mut stepper = KernelStepper {
            base: &base,
            search: &self,
            noise,
            samples,
            batch,
            phi: vector(phi),
            xi: vector::<E, 1>(xi)[0],
            time_scale: self.time_scale.map(|scale| vector(scale.clone())),
            at: Point {
                state: state.iter().flat_map(|c| vector::<E, 3>(c.clone())).collect(),
                weights: w0.repeat(samples),
                seen: None,
                kl: vec![0.0; samples],
            },
            grid: vec![self.solver.t0],
            increments: Vec::new(),
            tapes: Vec::new(),
            budget: settings.tape_budget,
            record,
            attempted: None,
            weight_tape: None,
        };
        let attempts = march(self.solver, &mut stepper)?;
        let KernelStepper { at, grid, increments, tapes, .. } = stepper;
        let solver = base.on_grid(grid.clone()).expect("times that increase");
        let tape = record.then(|| solver.join(tapes));
        Ok(Found { grid, noise: increments, attempts, recorded: Recorded::new(solver, at.state, tape) })
    }
}

fn vector<E: Real, const D: usize>(tensor: Tensor<D>) -> Vec<E> {
    tensor.into_data().try_into_vec().expect("numbers of this type on the CPU")
}

/// The joint state at one time.
struct Point<E> {
    /// `[component][sample][example][feature]`
    state: Vec<E>,
    /// `[sample][M]`
    weights: Vec<E>,
    /// What the network sees of them, if they are where a step ended.
    seen: Option<Vec<E>>,
    kl: Vec<f64>,
}

/// A step that was attempted.
struct Taken<E> {
    end: Point<E>,
    /// The times of its grid after the first.
    times: Vec<f64>,
    increments: Vec<f64>,
    tape: Option<Tape<E>>,
}

struct KernelStepper<'a, E: Real> {
    base: &'a Solver<E>,
    search: &'a Search<'a>,
    noise: &'a dyn Fn(&[f64]) -> Vec<f64>,
    samples: usize,
    batch: usize,
    phi: Vec<E>,
    xi: E,
    time_scale: Option<Vec<E>>,
    at: Point<E>,
    grid: Vec<f64>,
    increments: Vec<f64>,
    tapes: Vec<Tape<E>>,
    /// Bytes left for tapes.
    budget: usize,
    record: bool,
    attempted: Option<Taken<E>>,
    /// The last tape of the weights: `φ` does not change, so the next attempt need not prepare it again.
    weight_tape: Option<WeightPathTape<E>>,
}

impl<E: Real> KernelStepper<'_, E> {
    /// The weights of every evaluation, `[evaluation][sample][M]`, those at the end, what the network sees of these, and the KL divergence.
    fn weights(&mut self, method: Method, grid: &[f64], noise: &[f64]) -> (Vec<E>, Vec<E>, Vec<E>, Vec<f64>) {
        let problem = (self.search.weights)(method, grid.to_vec());
        let (evaluations, moving, sees) = (problem.evaluations(), problem.moving(), problem.seen());
        let solver = WeightPathSolver::<E>::new(problem);
        let row = self.samples * moving;
        let noise: Vec<E> = noise.iter().map(|&v| E::from_f64(v)).collect();
        let (mut all, mut ends) = (vec![E::default(); evaluations * row], vec![E::default(); row]);
        let (mut divergence, mut seen) = (vec![E::default(); self.samples], vec![E::default(); self.samples * sees]);
        let outputs =
            WeightPathOutputs { stages: &mut all, end: &mut ends, kl: &mut divergence, seen: Some(&mut seen) };
        // Every sample has weights of its own at the start.
        let Point { weights, seen: start, .. } = &self.at;
        let (samples, start) = (self.samples, start.as_deref());
        let inputs = WeightPathInputs { samples, initial: weights, seen: start, phi: &self.phi, noise: &noise };
        let tape = solver.record_with(&inputs, outputs, self.weight_tape.take()).expect(FITS);
        self.weight_tape = Some(tape);
        let kl = self.at.kl.iter().zip(divergence).map(|(kl, divergence)| kl + divergence.to_f64()).collect();
        (all, ends, seen, kl)
    }
}

impl<E: Real> Stepper for KernelStepper<'_, E> {
    fn attempt(&mut self, t: f64, end: f64) -> Result<f64, SolveError> {
        let SolverConfig { controller, method, atol, rtol, norm, .. } = *self.search.solver;
        let doubling = controller == Controller::StepDoubling;
        let times = if doubling { vec![0.5 * (t + end), end] } else { vec![end] };
        let grid = [&[t], &times[..]].concat();
        let increments = (self.noise)(&grid);
        let (mut weights, ends, seen, kl) = self.weights(method, &grid, &increments);
        let row = ends.len();
        let (companion, factor) = if doubling { (Companion::FullStep, 1.0) } else { (Companion::Euler, EULER_FACTOR) };
        let rows = method.tableau().increments();
        let total: Vec<f64> = if doubling && rows > 1 {
            (self.noise)(&[t, end])
        } else {
            // A step's last row is its increment. Those of a lattice add up exactly; areas do not.
            (0..row).map(|i| increments.iter().skip((rows - 1) * row + i).step_by(rows * row).sum()).collect()
        };
        let other_method = if doubling { method } else { Method::Euler };
        let (other_weights, other_ends, _, other_kl) = self.weights(other_method, &[t, end], &total);
        if doubling {
            weights.extend_from_slice(&other_weights[row..]);
        }
        let (mut state, mut other) = (self.at.state.clone(), self.at.state.clone());
        let inputs = Inputs {
            samples: self.samples,
            batch: self.batch,
            weights: &weights,
            state: &self.at.state,
            xi: self.xi,
            time_scale: self.time_scale.as_deref(),
        };
        let attempted = Attempted { companion, state: &mut state, other: &mut other };
        let solver = self.base.on_grid(grid).expect("times that increase");
        if let Some(tape) = self.attempted.take().and_then(|taken| taken.tape) {
            self.base.discard(tape);
        }
        let tape = solver.attempt(&inputs, attempted, self.record.then_some(self.budget / SHARE)).expect(FITS);
        let mut distance = Distance::default();
        distance.activations.add(squares(&other, &state, atol, rtol));
        distance.weights.add(squares(&other_ends, &ends, atol, rtol));
        distance.kl.add(squares(&other_kl, &kl, atol, rtol));
        let error = factor * distance.norm(norm);
        let end_point = Point { state, weights: ends, seen: Some(seen), kl };
        if !error.is_finite() {
            let component = not_finite(&end_point).or(not_finite(&Point {
                state: other,
                weights: other_ends,
                seen: None,
                kl: other_kl,
            }));
            return Err(SolveError::NotFinite { t: end, component: component.unwrap_or(Component::Activations) });
        }
        self.attempted = Some(Taken { end: end_point, times, increments, tape });
        Ok(error)
    }

    fn accept(&mut self) {
        if let Some(Taken { end, times, increments, tape }) = self.attempted.take() {
            self.at = end;
            self.grid.extend(times);
            self.increments.extend(increments);
            self.budget = self.budget.saturating_sub(tape.as_ref().map_or(0, Tape::bytes));
            self.tapes.extend(tape);
        }
    }
}

/// `Σ ((a − b)/max(1e-7, atol + rtol · max(|a|, |b|)))²` and the number of elements.
fn squares<E: sdebnn_kernels::Element>(a: &[E], b: &[E], atol: f64, rtol: f64) -> (f64, usize) {
    let square = |(a, b): (&E, &E)| {
        let (a, b) = (a.to_f64(), b.to_f64());
        ((a - b) / (atol + rtol * a.abs().max(b.abs())).max(1e-7)).powi(2)
    };
    (a.iter().zip(b).map(square).sum(), a.len())
}

/// The first component that is not finite.
fn not_finite<E: sdebnn_kernels::Element>(point: &Point<E>) -> Option<Component> {
    let finite = |values: &[E]| values.iter().all(|v| v.to_f64().is_finite());
    if !finite(&point.weights) {
        Some(Component::Weights)
    } else if !point.kl.iter().all(|v| v.is_finite()) {
        Some(Component::Kl)
    } else {
        (!finite(&point.state)).then_some(Component::Activations)
    }
}
