//! Work and precision: what every method and controller pays for an error.

use std::time::Instant;

use sdebnn::brownian::{BrownianPath, DrawnPath, LevyTree};
use sdebnn::burn::tensor::{DType, Device, Tensor, TensorData};
use sdebnn::controller::{Controller, SolverConfig};
use sdebnn::engine::Engine;
use sdebnn::method::Method;
use sdebnn::model::{Law, SdeBnn};
use sdebnn::random::Stream;
use sdebnn::solve::Solution;
use serde::Serialize;

use super::workload::Workload;
use crate::error::Error;
use crate::experiment::ModelName;

/// Steps of the solve that counts as exact, and cells of the Brownian paths.
const FINE: usize = 1024;

/// Steps of fixed grids.
const STEPS: [usize; 6] = [4, 8, 16, 32, 64, 128];

/// Tolerances of adaptive solves.
const TOLERANCES: [f64; 6] = [1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4];

/// What to solve.
#[derive(Clone, Copy, Debug)]
pub struct SolveBench {
    /// The shapes.
    pub workload: Workload,
    /// The model.
    pub model: ModelName,
    /// Examples.
    pub batch: usize,
    /// Weight paths, one solve each.
    pub paths: usize,
}

/// What one way of solving costs, and how far it ends from a very fine solve on the same path, over some weight paths.
#[derive(Clone, Debug, Serialize)]
pub struct SolvePoint {
    /// The model.
    pub model: ModelName,
    /// The one-step method.
    pub method: Method,
    /// What decides the steps.
    pub controller: Controller,
    /// The number of steps, or the tolerance (absolute and relative).
    pub setting: f64,
    /// Drift evaluations of a solve, on average.
    pub evaluations: f64,
    /// Seconds of the fastest solve, each on a path that is drawn for it as in training.
    pub seconds: f64,
    /// Root mean square of `h(T)` against the same method with 1024 steps, on average.
    pub error: f64,
}

impl SolveBench {
    /// Solves in every way; `observe` sees each point as it is found.
    pub fn run(&self, mut observe: impl FnMut(&SolvePoint)) -> Result<Vec<SolvePoint>, Error> {
        let model = self.workload.untrained(self.model, &Device::flex())?;
        let input = self.input(&model);
        let moving = model.drift().layout().len();
        let mut points = Vec::new();
        for method in Method::ALL {
            let controllers = [Controller::Fixed, Controller::StepDoubling, Controller::Embedded];
            let fits = |controller: &Controller| *controller != Controller::Embedded || method != Method::Euler;
            let mut ways: Vec<(f64, SolverConfig)> = Vec::new();
            for controller in controllers.into_iter().filter(fits) {
                let base = SolverConfig { method, controller, engine: Engine::Auto, ..Default::default() };
                match controller {
                    Controller::Fixed => {
                        ways.extend(STEPS.map(|steps| (steps as f64, SolverConfig { steps, ..base.clone() })));
                    }
                    _ => ways.extend(TOLERANCES.map(|t| (t, SolverConfig { atol: t, rtol: t, ..base.clone() }))),
                }
            }
            let fine = SolverConfig { method, steps: FINE, ..Default::default() };
            let (mut sums, mut fastest) = (vec![[0.0; 2]; ways.len()], vec![f64::INFINITY; ways.len()]);
            for path in 0..self.paths {
                let stream = Stream::root(2).child(path as u64);
                let path = [LevyTree::new(stream, moving, fine.t0, fine.t1, FINE)];
                let exact = numbers(self.solve(&model, &fine, &input, &path)?.output);
                for (((_, way), sums), fastest) in ways.iter().zip(&mut sums).zip(&mut fastest) {
                    let found = self.solve(&model, way, &input, &path)?;
                    let evaluations = found.nfe.drift as f64;
                    let output = numbers(found.output);
                    let squares: f64 = output.iter().zip(&exact).map(|(a, b)| f64::from(a - b).powi(2)).sum();
                    let error = (squares / exact.len() as f64).sqrt();
                    sums.iter_mut().zip([evaluations, error]).for_each(|(sum, value)| *sum += value);
                    let started = Instant::now();
                    self.solve(&model, way, &input, &[DrawnPath::new(stream, moving, way)])?;
                    *fastest = fastest.min(started.elapsed().as_secs_f64());
                }
            }
            for (((setting, way), sums), seconds) in ways.into_iter().zip(sums).zip(fastest) {
                let [evaluations, error] = sums.map(|sum| sum / self.paths as f64);
                let (model, controller) = (self.model, way.controller);
                let point = SolvePoint { model, method, controller, setting, evaluations, seconds, error };
                observe(&point);
                points.push(point);
            }
        }
        Ok(points)
    }

    fn input(&self, model: &SdeBnn) -> Tensor<3> {
        let width = self.workload.numbers();
        let mut values = vec![0.0; self.batch * width];
        Stream::root(1).fill_normal(0, &mut values);
        let w0 = model.w0.val();
        let x = Tensor::<2>::from_data(TensorData::new(values, [self.batch, width]), (&w0.device(), DType::F32));
        model.augmented(x, 1)
    }

    fn solve<P: BrownianPath>(
        &self,
        model: &SdeBnn,
        solver: &SolverConfig,
        input: &Tensor<3>,
        path: &[P],
    ) -> Result<Solution, Error> {
        let found = model.with_problem(Law::Posterior, |problem| problem.solve(solver, input.clone(), path));
        found.map_err(|error| Error::Solve { model: self.model.key(), epoch: 0, error })
    }
}

fn numbers(tensor: Tensor<3>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("32-bit floating-point numbers")
}
