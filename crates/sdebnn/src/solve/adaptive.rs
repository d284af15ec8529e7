//! Adaptive solves: the kernels where they can, plain tensor operations elsewhere.

use burn::backend::flex::FlexTensor;
use burn::tensor::{Tensor, TensorData};

use super::{ActivationStep, Evaluation, FirstEvaluation, Problem, Solution, by_example};
use crate::brownian::BrownianPath;
use crate::controller::{Controller, EULER_FACTOR, SolverConfig, Stepper, march};
use crate::dynamics::{Memory, State};
use crate::error::{Component, SolveError};
use crate::fused;
use crate::joint::Joint;
use crate::method::{EULER, Method, Tableau};
use crate::weights::WeightSlope;

impl Problem<'_> {
    /// Solves weights and activations together from a state at `t0`, with steps that the controller chooses. `time_scale` (`[batch]`)
    /// multiplies the vector field of each example, as in [`carry`](Self::carry).
    pub fn solve_adaptive<P: BrownianPath>(
        &self,
        solver: &SolverConfig,
        start: State,
        paths: &[P],
        time_scale: Option<&Tensor<1>>,
    ) -> Result<Solution, SolveError> {
        if let Some(found) = self.solve_adaptive_fused(solver, &start, paths, time_scale) {
            return found;
        }
        let scale = time_scale.map(by_example);
        let joint = Joint { weights: self.start_weights(paths.len()), activations: start };
        let (scale, memory) = (scale.as_ref(), Memory::default());
        let mut stepper = ReferenceStepper { problem: self, solver, paths, scale, joint, memory, attempted: None };
        let attempts = march(solver, &mut stepper)?;
        let joint = stepper.joint;
        Ok(Solution {
            output: self.dynamics.output(solver.t1, &joint.activations),
            state: joint.activations,
            weights: self.whole(&joint.weights, paths.len()),
            kl: joint.weights.kl,
            martingale: joint.weights.martingale,
            nfe: solver.adaptive_nfe(&attempts),
            attempts,
        })
    }

    /// [`solve_adaptive`](Self::solve_adaptive) by the kernels, if they can.
    fn solve_adaptive_fused<P: BrownianPath>(
        &self,
        solver: &SolverConfig,
        start: &State,
        paths: &[P],
        time_scale: Option<&Tensor<1>>,
    ) -> Option<Result<Solution, SolveError>> {
        let network = self.fused_network(solver)?;
        // The evaluations of an attempt must leave the parity of "skip" as it was.
        if !solver.method.tableau().nodes.len().is_multiple_of(2) {
            return None;
        }
        let (problem, settings, xi) = self.kernel(solver, vec![solver.t0, solver.t1])?;
        let weights =
            |method: Method, grid: Vec<f64>| self.process.kernel(network, self.partition.moving(), method, grid);
        let search = fused::Search { solver, problem, settings, weights: &weights, time_scale };
        let inputs = (self.w0.clone(), network.flat(), start, xi.clone());
        let tableau = solver.method.tableau();
        let found = match search.run(inputs, &|grid| self.noise_numbers(tableau, paths, grid)) {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        let fused::Found { grid, noise, attempts, recorded } = found;
        let noise = TensorData::new(noise, self.noise_shape(tableau, paths, &grid)).convert_dtype(self.w0.dtype());
        let path_problem = weights(solver.method, grid.clone());
        let path =
            fused::weight_path(path_problem, grid, self.w0.clone(), network.flat(), FlexTensor::from_data(noise));
        let state = fused::carry_recorded(recorded, start.clone(), path.stages.stacked(), xi, time_scale);
        Some(Ok(Solution {
            output: self.dynamics.output(solver.t1, &state),
            state,
            weights: path.end,
            kl: path.kl,
            martingale: None,
            nfe: solver.adaptive_nfe(&attempts),
            attempts,
        }))
    }
}

/// An adaptive solve by plain tensor operations.
struct ReferenceStepper<'a, P> {
    problem: &'a Problem<'a>,
    solver: &'a SolverConfig,
    paths: &'a [P],
    scale: Option<&'a Tensor<3>>,
    joint: Joint,
    memory: Memory,
    attempted: Option<Joint>,
}

impl<P: BrownianPath> ReferenceStepper<'_, P> {
    fn step(
        &mut self,
        tableau: &Tableau,
        ends: (f64, f64),
        joint: &mut Joint,
        first: Option<FirstEvaluation>,
    ) -> FirstEvaluation {
        let noise = self.problem.noise(tableau, self.paths, ends);
        self.problem.step(tableau, ends, joint, noise, self.scale, &mut self.memory, first)
    }

    /// An Euler step; the slope of the weights may be known.
    fn step_euler(&mut self, t: f64, end: f64, slope: Option<WeightSlope>, joint: &mut Joint) -> Evaluation {
        let noise = self.problem.noise(&EULER, self.paths, (t, end));
        let (stages, _) = self.problem.step_weights(&EULER, (t, end), &mut joint.weights, noise, slope);
        let step = ActivationStep { tableau: &EULER, interval: (t, end), stages: &stages, scale: self.scale };
        let (state, first) = self.problem.step_activations(step, &joint.activations, &mut self.memory, None);
        joint.activations = state;
        first
    }
}

impl<P: BrownianPath> Stepper for ReferenceStepper<'_, P> {
    fn attempt(&mut self, t: f64, end: f64) -> Result<f64, SolveError> {
        let tableau = self.solver.method.tableau();
        let (mut taken, mut other) = (self.joint.clone(), self.joint.clone());
        let factor = if self.solver.controller == Controller::Embedded {
            let weights = self.step(tableau, (t, end), &mut taken, None).weights;
            // With "skip", the second evaluation of a step adds to its field what the first has cached. The Euler step that it is compared
            // with must do so too, or the difference would not vanish with the step. Kernels know the network's output and need no
            // evaluation for it, so none is counted.
            let memory = std::mem::replace(&mut self.memory, Memory { evaluations: 0, cached: None });
            let cached = self.step_euler(t, end, None, &mut self.joint.clone()).cached;
            self.memory = Memory { evaluations: 1, cached };
            self.step_euler(t, end, weights, &mut other);
            self.memory = memory;
            EULER_FACTOR
        } else {
            // The parity of "skip" must be the same at both first evaluations for one to serve for the other.
            let shares_first = tableau.nodes.len().is_multiple_of(2);
            let first = self.step(tableau, (t, end), &mut other, None);
            let middle = 0.5 * (t + end);
            self.step(tableau, (t, middle), &mut taken, shares_first.then_some(first));
            self.step(tableau, (middle, end), &mut taken, None);
            1.0
        };
        let SolverConfig { atol, rtol, norm, .. } = *self.solver;
        let error = factor * other.distance(&taken, atol, rtol).norm(norm);
        if !error.is_finite() {
            let component = taken.not_finite().or(other.not_finite()).unwrap_or(Component::Activations);
            return Err(SolveError::NotFinite { t: end, component });
        }
        self.attempted = Some(taken);
        Ok(error)
    }

    fn accept(&mut self) {
        if let Some(taken) = self.attempted.take() {
            self.joint = taken;
        }
    }
}
