//! The joint solve of weights, KL divergence and activations.

mod adaptive;
mod noise;

use burn::tensor::Tensor;

use crate::brownian::BrownianPath;
use crate::controller::{Attempt, Controller, SolverConfig};
use crate::drift::Drift;
use crate::dynamics::{Dynamics, Memory, State};
use crate::error::{Component, SolveError};
use crate::fused::{self, Kernel, SequenceCall, SequenceTensors};
use crate::joint::{Joint, Weights, is_finite};
use crate::method::Tableau;
use crate::mlp::Mlp;
use crate::nfe::Nfe;
use crate::weights::{Partition, StageWeights, WeightPath, WeightProcess, WeightSlope, WeightStep, combine};

/// A network with weights that move, and activations that follow.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The drift network.
    pub drift: &'a dyn Drift,
    /// How it moves the activations.
    pub dynamics: &'a dyn Dynamics,
    /// The law of the weights that move.
    pub process: WeightProcess<'a>,
    /// Which weights move.
    pub partition: &'a Partition,
    /// The weights at `t0`, `[P]`.
    pub w0: Tensor<1>,
}

/// Where a solve ended.
#[derive(Debug)]
pub struct Solution {
    /// The activations `h(T)`, `[samples, batch, features]`.
    pub output: Tensor<3>,
    /// The whole state at `T`, momenta included.
    pub state: State,
    /// The weights at `T`, `[samples, P]`.
    pub weights: Tensor<2>,
    /// `∫ ½‖u‖² dt`, `[samples]`.
    pub kl: Tensor<1>,
    /// `∫ u·dB` with `φ` detached, `[samples]`, if it was asked for.
    pub martingale: Option<Tensor<1>>,
    /// The function evaluations.
    pub nfe: Nfe,
    /// The attempted steps of an adaptive solve.
    pub attempts: Vec<Attempt>,
}

impl Solution {
    /// The first step that an adaptive solve accepted.
    pub fn first_step(&self) -> Option<f64> {
        self.attempts.iter().find(|attempt| attempt.accepted).map(|attempt| attempt.dt)
    }

    /// The estimate of the KL divergence, averaged over the weight samples, `[1]`.
    pub(crate) fn mean_kl(&self) -> Tensor<1> {
        mean_kl(&self.kl, self.martingale.as_ref())
    }
}

/// `∫ ½‖u‖² dt`, with `∫ u·dB` added where there is one, averaged over the weight samples, `[1]`.
pub(crate) fn mean_kl(kl: &Tensor<1>, martingale: Option<&Tensor<1>>) -> Tensor<1> {
    martingale.map_or_else(|| kl.clone(), |martingale| kl.clone() + martingale.clone()).mean()
}

/// What a step of the activations is given.
#[derive(Clone, Copy)]
struct ActivationStep<'a> {
    tableau: &'a Tableau,
    interval: (f64, f64),
    /// The weights at every stage.
    stages: &'a [Tensor<2>],
    /// Factors on the vector field, `[1, batch, 1]`.
    scale: Option<&'a Tensor<3>>,
}

/// One drift evaluation of the activations: the slope, and what the field had cached after it.
struct Evaluation {
    slope: State,
    cached: Option<Tensor<3>>,
}

/// What a step computed at its start, for another step from the same point.
struct FirstEvaluation {
    weights: Option<WeightSlope>,
    activations: Evaluation,
}

impl Problem<'_> {
    /// Solves from the augmented `input` `[samples, batch, features]`, with one Brownian path a weight sample.
    ///
    /// # Panics
    /// If `input` and `paths` do not have as many samples, or a path does not have as many components as weights move.
    pub fn solve<P: BrownianPath>(
        &self,
        solver: &SolverConfig,
        input: Tensor<3>,
        paths: &[P],
    ) -> Result<Solution, SolveError> {
        assert_eq!(input.dims()[0], paths.len(), "samples of input and paths");
        let start = self.dynamics.start(input);
        match solver.controller {
            Controller::Fixed => self.solve_fixed(solver, solver.grid(), start, paths),
            Controller::StepDoubling | Controller::Embedded => self.solve_adaptive(solver, start, paths, None),
        }
    }

    /// Solves as [`solve`](Self::solve) does, on a grid of given times.
    pub fn solve_on_grid<P: BrownianPath>(
        &self,
        solver: &SolverConfig,
        grid: Vec<f64>,
        input: Tensor<3>,
        paths: &[P],
    ) -> Result<Solution, SolveError> {
        self.solve_fixed(solver, grid, self.dynamics.start(input), paths)
    }

    /// The weights do not see the activations: their whole path comes first, then the activations are carried along it.
    fn solve_fixed<P: BrownianPath>(
        &self,
        solver: &SolverConfig,
        grid: Vec<f64>,
        start: State,
        paths: &[P],
    ) -> Result<Solution, SolveError> {
        let path = self.weight_path_on(solver, grid, paths);
        let state = self.carry(solver, &path, start.clone(), None);
        if !(is_finite(&path.end) && is_finite(&path.kl) && state.iter().all(is_finite)) {
            return Err(self.find_not_finite(solver, &path.grid, start, paths));
        }
        Ok(Solution {
            output: self.dynamics.output(solver.t1, &state),
            state,
            weights: path.end,
            kl: path.kl,
            martingale: path.martingale,
            nfe: solver.nfe_of_steps(path.grid.len() - 1),
            attempts: Vec::new(),
        })
    }

    /// Solves the weights alone on the fixed grid.
    pub fn weight_path<P: BrownianPath>(&self, solver: &SolverConfig, paths: &[P]) -> WeightPath {
        self.weight_path_on(solver, solver.grid(), paths)
    }

    fn weight_path_on<P: BrownianPath>(&self, solver: &SolverConfig, grid: Vec<f64>, paths: &[P]) -> WeightPath {
        let tableau = solver.method.tableau();
        if let Some(network) = self.fused_network(solver) {
            let problem = self.process.kernel(network, self.partition.moving(), solver.method, grid.clone());
            let noise = self.kernel_noise(tableau, paths, &grid);
            return fused::weight_path(problem, grid, self.w0.clone(), network.flat(), noise);
        }
        let mut weights = self.start_weights(paths.len());
        let mut listed = Vec::with_capacity((grid.len() - 1) * tableau.nodes.len());
        for interval in grid.windows(2) {
            let noise = self.noise(tableau, paths, (interval[0], interval[1]));
            listed.extend(self.step_weights(tableau, (interval[0], interval[1]), &mut weights, noise, None).0);
        }
        let end = self.whole(&weights, paths.len());
        WeightPath { grid, stages: StageWeights::Listed(listed), end, kl: weights.kl, martingale: weights.martingale }
    }

    /// Carries activations along a weight path, with the solver's method and engine. `time_scale` (`[batch]`) multiplies the vector field
    /// of each example; the time that the network sees is not scaled.
    pub fn carry(
        &self,
        solver: &SolverConfig,
        path: &WeightPath,
        start: State,
        time_scale: Option<&Tensor<1>>,
    ) -> State {
        if let Some((problem, settings, xi)) = self.kernel(solver, path.grid.clone()) {
            return fused::carry(problem, settings, start, path.stages.stacked(), xi, time_scale);
        }
        let (tableau, mut memory) = (solver.method.tableau(), Memory::default());
        let stages = path.stages.listed((path.grid.len() - 1) * tableau.nodes.len());
        let steps = path.grid.windows(2).zip(stages.chunks(tableau.nodes.len()));
        let scale = time_scale.map(by_example);
        steps.fold(start, |state, (interval, stages)| {
            let step = ActivationStep { tableau, interval: (interval[0], interval[1]), stages, scale: scale.as_ref() };
            self.step_activations(step, &state, &mut memory, None).0
        })
    }

    /// Carries a state through sequences along one weight path on the fixed grid: at every frame (`[batch, features]`) a cell whose
    /// layers, the last too, are followed by tanh, across every gap (`[batch]`) the block. Returns the state after every gap,
    /// `[frames, components, batch, features]`, and the weights, or nothing if the kernels cannot do it.
    pub(crate) fn carry_sequence<P: BrownianPath>(
        &self,
        solver: &SolverConfig,
        cell: &Mlp,
        frames: &[Tensor<2>],
        gaps: &[Tensor<1>],
        path: &P,
    ) -> Option<(Tensor<4>, WeightPath)> {
        let (problem, settings, xi) = self.kernel(solver, solver.grid())?;
        let dense = matches!(problem.drift(), sdebnn_kernels::Drift::Dense { .. });
        if !dense || solver.controller != Controller::Fixed || frames.is_empty() {
            return None;
        }
        let hidden = cell.layers[1..].iter().map(|layer| layer.weight.val().dims()[1]).collect();
        let weights = self.weight_path(solver, std::slice::from_ref(path));
        let tensors = SequenceTensors {
            weights: weights.stages.stacked(),
            cell: cell.flat(),
            frames: Tensor::stack(frames.to_vec(), 0),
            xi,
            gaps: Tensor::stack(gaps.to_vec(), 0),
        };
        Some((fused::sequence(SequenceCall { problem, settings, hidden }, tensors), weights))
    }

    /// The activations' part of the problem for the kernels, if they can solve it, and `ξ`.
    fn kernel(
        &self,
        solver: &SolverConfig,
        grid: Vec<f64>,
    ) -> Option<(sdebnn_kernels::Problem, sdebnn_kernels::Settings, Tensor<1>)> {
        let (device, dtype) = (self.w0.device(), self.w0.dtype());
        if !solver.engine.allows_kernels(&device, dtype) {
            return None;
        }
        let (drift, (dynamics, xi)) = (self.drift.kernel()?, self.dynamics.kernel()?);
        let problem = fused::problem(drift, dynamics, solver.method.kernel(), grid);
        let settings = sdebnn_kernels::Settings { tape_budget: solver.tape_mib << 20, ..Default::default() };
        Some((problem, settings, xi.unwrap_or_else(|| Tensor::zeros([1], (&device, dtype)))))
    }

    /// Solves once more, looking at every step, to say where a solve left the numbers.
    fn find_not_finite<P: BrownianPath>(
        &self,
        solver: &SolverConfig,
        grid: &[f64],
        start: State,
        paths: &[P],
    ) -> SolveError {
        let (tableau, mut memory) = (solver.method.tableau(), Memory::default());
        let mut joint = Joint { weights: self.start_weights(paths.len()), activations: start };
        for interval in grid.windows(2) {
            let noise = self.noise(tableau, paths, (interval[0], interval[1]));
            self.step(tableau, (interval[0], interval[1]), &mut joint, noise, None, &mut memory, None);
            if let Some(component) = joint.not_finite() {
                return SolveError::NotFinite { t: interval[1], component };
            }
        }
        SolveError::NotFinite { t: solver.t1, component: Component::Activations }
    }

    /// The network of the posterior, if the kernels can solve the weights.
    fn fused_network(&self, solver: &SolverConfig) -> Option<&Mlp> {
        let able = solver.engine.allows_kernels(&self.w0.device(), self.w0.dtype())
            && self.partition.moving() == self.drift.layout().len()
            && !self.process.martingale;
        // The kernels carry what a hidden layer sees of the weights.
        self.process.network.filter(|network| able && network.layers.len() > 1)
    }

    fn start_weights(&self, samples: usize) -> Weights {
        let kl = Tensor::zeros([samples], (&self.w0.device(), self.w0.dtype()));
        let martingale = self.process.martingale.then(|| kl.clone());
        Weights { moving: self.partition.select(&self.rows(samples)), kl, martingale }
    }

    /// The initial weights of every sample, `[samples, P]`.
    fn rows(&self, samples: usize) -> Tensor<2> {
        self.w0.clone().unsqueeze::<2>().repeat_dim(0, samples)
    }

    /// The whole weight vector.
    fn whole(&self, weights: &Weights, samples: usize) -> Tensor<2> {
        let join = |moving: &Tensor<2>| self.partition.join(&self.rows(samples), moving.clone());
        weights.moving.as_ref().map_or_else(|| self.rows(samples), join)
    }

    #[expect(clippy::too_many_arguments, reason = "a step of a joint state has two halves")]
    fn step(
        &self,
        tableau: &Tableau,
        interval: (f64, f64),
        joint: &mut Joint,
        noise: Tensor<3>,
        scale: Option<&Tensor<3>>,
        memory: &mut Memory,
        first: Option<FirstEvaluation>,
    ) -> FirstEvaluation {
        let (weights, activations) = first.map_or((None, None), |f| (f.weights, Some(f.activations)));
        let (stages, weights) = self.step_weights(tableau, interval, &mut joint.weights, noise, weights);
        let step = ActivationStep { tableau, interval, stages: &stages, scale };
        let (state, activations) = self.step_activations(step, &joint.activations, memory, activations);
        joint.activations = state;
        FirstEvaluation { weights, activations }
    }

    /// Moves the weights and returns the whole weight vector at every stage, and the first slope.
    fn step_weights(
        &self,
        tableau: &Tableau,
        interval: (f64, f64),
        weights: &mut Weights,
        noise: Tensor<3>,
        first: Option<WeightSlope>,
    ) -> (Vec<Tensor<2>>, Option<WeightSlope>) {
        let Some(moving) = &weights.moving else {
            return (vec![self.rows(noise.dims()[1]); tableau.nodes.len()], None);
        };
        let WeightStep { stages, end, kl, martingale, first } =
            self.process.step(tableau, interval, moving, &noise, first);
        weights.moving = Some(end);
        if let Some(kl) = kl {
            weights.kl = weights.kl.clone() + kl;
        }
        if let (Some(sum), Some(term)) = (&mut weights.martingale, martingale) {
            *sum = sum.clone() + term;
        }
        let rows = self.rows(noise.dims()[1]);
        let stages = stages.into_iter().map(|w| self.partition.join(&rows, w)).collect();
        (stages, Some(first))
    }

    fn step_activations(
        &self,
        step: ActivationStep<'_>,
        state: &State,
        memory: &mut Memory,
        first: Option<Evaluation>,
    ) -> (State, Evaluation) {
        let ActivationStep { tableau, interval: (t0, t1), stages, scale } = step;
        let evaluate = |i: usize, state: &State, memory: &mut Memory| {
            let t = tableau.time(i, t0, t1);
            let mut slope = self.dynamics.derivative(t, state, &|h| self.drift.eval(t, h, stages[i].clone()), memory);
            if let Some(scale) = scale {
                slope = slope.into_iter().map(|s| s * scale.clone()).collect();
            }
            memory.evaluations += 1;
            Evaluation { slope, cached: memory.cached.clone() }
        };
        let first = match first {
            Some(first) => {
                memory.evaluations += 1;
                memory.cached = first.cached.clone();
                first
            }
            None => evaluate(0, state, memory),
        };
        let mut slopes = vec![first.slope.clone()];
        for (i, row) in tableau.stages.iter().enumerate().skip(1) {
            let stage = advance(state, t1 - t0, row, &slopes);
            slopes.push(evaluate(i, &stage, memory).slope);
        }
        (advance(state, t1 - t0, tableau.weights, &slopes), first)
    }
}

/// A number an example in the shape of the activations, `[1, batch, 1]`.
fn by_example(numbers: &Tensor<1>) -> Tensor<3> {
    numbers.clone().reshape([1, -1, 1])
}

/// `y + Δt Σᵢ cᵢ fᵢ` for every component of the activations.
fn advance(state: &State, dt: f64, coefficients: &[f64], slopes: &[State]) -> State {
    let component =
        |(c, y): (usize, &Tensor<3>)| combine(y.clone(), dt, coefficients, slopes.iter().map(|slope| slope[c].clone()));
    state.iter().enumerate().map(component).collect()
}
