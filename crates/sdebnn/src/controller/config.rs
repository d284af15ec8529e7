use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::error::ConfigError;
use crate::method::Method;
use crate::nfe::Nfe;

/// The controllers by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// Exactly `steps` equal steps.
    #[default]
    Fixed,
    /// Adaptive: one full step against two half steps ([`StepDoubling`](super::StepDoubling)).
    StepDoubling,
    /// Adaptive: each step against the Euler step that its first evaluation gives ([`Pi`](super::Pi)).
    Embedded,
}

impl Controller {
    /// Its name in configurations and tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::StepDoubling => "step-doubling",
            Self::Embedded => "embedded",
        }
    }
}

/// How the errors of all components of the joint state become one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorNorm {
    /// The root mean square over everything, as the paper has it.
    #[default]
    Rms,
    /// The largest of the root mean squares of activations, weights and KL divergence: it depends neither on the size of the batch nor on
    /// the number of weights.
    Worst,
}

/// How to solve from `t0` to `t1`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SolverConfig {
    /// The one-step method.
    pub method: Method,
    /// What decides the steps.
    pub controller: Controller,
    /// What carries the activations.
    pub engine: Engine,
    /// The fused engine: MiB that the hidden layers of a training step may take. What does not fit is computed again in the
    /// backward pass, with the same bits.
    pub tape_mib: usize,
    /// Where the solve starts.
    pub t0: f64,
    /// Where it ends, `T`.
    pub t1: f64,
    /// Fixed: the number of steps.
    pub steps: usize,
    /// Adaptive: the absolute tolerance.
    pub atol: f64,
    /// Adaptive: the relative tolerance.
    pub rtol: f64,
    /// Adaptive: how the errors of all components become one number.
    pub norm: ErrorNorm,
    /// Adaptive: the first step that is tried. By `embedded`, in training, that of the first batch only: later ones begin with the first
    /// step that was accepted for the batch before.
    pub initial_step: f64,
    /// Adaptive: the smallest step.
    pub dt_min: f64,
    /// Adaptive: how many steps may be attempted.
    pub max_attempts: usize,
}

impl Default for SolverConfig {
    fn default() -> Self {
        Self {
            method: Method::Midpoint,
            controller: Controller::Fixed,
            engine: Engine::Auto,
            tape_mib: 704,
            t0: 0.0,
            t1: 1.0,
            steps: 20,
            atol: 1e-3,
            rtol: 1e-3,
            norm: ErrorNorm::Rms,
            initial_step: 0.05,
            dt_min: 1e-5,
            max_attempts: 10_000,
        }
    }
}

impl SolverConfig {
    /// Whether the configuration can be used.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = ConfigError::unless;
        let positive = |v: f64| v.is_finite() && v > 0.0;
        check(self.t0.is_finite() && self.t0 >= 0.0, "solver.t0", &self.t0, "a number of at least 0")?;
        check(self.t1.is_finite() && self.t1 > self.t0, "solver.t1", &self.t1, "a number greater than `solver.t0`")?;
        check((1..=1 << 20).contains(&self.steps), "solver.steps", &self.steps, "1 to 1048576 steps")?;
        check((1..=1 << 20).contains(&self.tape_mib), "solver.tape_mib", &self.tape_mib, "1 to 1048576 MiB")?;
        check(positive(self.atol), "solver.atol", &self.atol, "a positive number")?;
        check(self.rtol.is_finite() && self.rtol >= 0.0, "solver.rtol", &self.rtol, "a number of at least 0")?;
        check(positive(self.dt_min), "solver.dt_min", &self.dt_min, "a positive number")?;
        check(
            self.controller == Controller::Fixed
                || (self.initial_step >= self.dt_min && self.initial_step <= self.t1 - self.t0),
            "solver.initial_step",
            &self.initial_step,
            "a number from `solver.dt_min` to `solver.t1 - solver.t0`",
        )?;
        check(
            self.controller != Controller::Embedded || self.method.tableau().nodes.len() == 2,
            "solver.method",
            &self.method,
            "`midpoint`, `heun` or `sra1` for `solver.controller = \"embedded\"`",
        )?;
        check(self.max_attempts > 0, "solver.max_attempts", &self.max_attempts, "at least 1")
    }

    /// The same with the first step that another solve accepted, if this is a controller that learns from others: the paper's begins
    /// every solve anew.
    pub fn after(&self, first_step: Option<f64>) -> Self {
        let remembered = first_step.filter(|_| self.controller == Controller::Embedded);
        let step = remembered.map_or(self.initial_step, |step| step.clamp(self.dt_min, self.t1 - self.t0));
        Self { initial_step: step, ..self.clone() }
    }

    /// The fixed grid `t_i = t0 + (T − t0) i/steps`, which ends at `T` exactly.
    pub fn grid(&self) -> Vec<f64> {
        let inner = (0..self.steps).map(|i| self.t0 + (self.t1 - self.t0) * i as f64 / self.steps as f64);
        inner.chain([self.t1]).collect()
    }

    /// The function evaluations of a fixed solve.
    pub fn fixed_nfe(&self) -> Nfe {
        self.nfe_of_steps(self.steps)
    }

    pub(crate) fn nfe_of_steps(&self, steps: usize) -> Nfe {
        let drift = steps * self.method.tableau().nodes.len();
        Nfe { drift, diffusion: drift, attempts: steps, accepted: steps, rejected: 0 }
    }

    /// The cells of a Brownian path that suits the solve: the fixed grid, or cells of about the first step (at most 2^20).
    pub fn cells(&self) -> usize {
        match self.controller {
            Controller::Fixed => self.steps,
            Controller::StepDoubling => {
                ((self.t1 - self.t0) / self.initial_step).ceil().min(f64::from(1 << 20)) as usize
            }
            // Bisections of an interval that is a power of two end where steps of few bits do.
            Controller::Embedded => {
                (((self.t1 - self.t0) / self.initial_step) as usize).clamp(1, 1 << 20).next_power_of_two()
            }
        }
    }
}
