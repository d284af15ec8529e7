use std::sync::atomic::AtomicBool;

use sdebnn::SolveError;
use sdebnn::burn::module::Module;
use sdebnn::model::Loss;
use sdebnn::nfe::Nfe;
use sdebnn::random::Stream;
use serde::Serialize;

use crate::error::Error;

/// Which examples to evaluate on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Those that were set apart from the training examples.
    Validation,
    /// The test set.
    Test,
}

impl Split {
    /// Its name in metrics.
    pub fn key(self) -> &'static str {
        match self {
            Self::Validation => "validation",
            Self::Test => "test",
        }
    }
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// What decides which parameters are the best: higher is better.
    pub score: f64,
    /// The metrics by name.
    pub values: Vec<(&'static str, f64)>,
    /// Function evaluations of a solve, on average.
    pub nfe: MeanNfe,
}

/// Mean numbers of function evaluations of a solve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeanNfe {
    /// See [`Nfe::drift`].
    pub nfe_drift: f64,
    /// See [`Nfe::diffusion`].
    pub nfe_diffusion: f64,
    /// See [`Nfe::attempts`].
    pub attempts: f64,
    /// See [`Nfe::accepted`].
    pub accepted: f64,
    /// See [`Nfe::rejected`].
    pub rejected: f64,
}

impl MeanNfe {
    /// Adds the mean of some solves, which counts `weight` times; `nfe` are those of all of them together.
    pub fn add(&mut self, weight: f64, nfe: &Nfe, solves: usize) {
        let mean = |count: usize| weight * (count as f64 / solves as f64);
        self.nfe_drift += mean(nfe.drift);
        self.nfe_diffusion += mean(nfe.diffusion);
        self.attempts += mean(nfe.attempts);
        self.accepted += mean(nfe.accepted);
        self.rejected += mean(nfe.rejected);
    }

    /// The mean of what was added, if its weights sum to `total`.
    pub fn divided_by(self, total: f64) -> Self {
        Self::from_numbers(self.numbers().map(|sum| sum / total))
    }

    pub(super) fn numbers(&self) -> [f64; 5] {
        let Self { nfe_drift, nfe_diffusion, attempts, accepted, rejected } = *self;
        [nfe_drift, nfe_diffusion, attempts, accepted, rejected]
    }

    pub(super) fn from_numbers([nfe_drift, nfe_diffusion, attempts, accepted, rejected]: [f64; 5]) -> Self {
        Self { nfe_drift, nfe_diffusion, attempts, accepted, rejected }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = (&'static str, f64)> {
        ["nfe_drift", "nfe_diffusion", "attempts", "accepted", "rejected"].into_iter().zip(self.numbers())
    }
}

/// What is learned, and from what.
pub trait Task {
    /// The model.
    type Model: Module;
    /// Examples of one step.
    type Batch;

    /// The untrained model.
    fn model(&self) -> Result<Self::Model, Error>;

    /// Steps of an epoch.
    fn steps_per_epoch(&self) -> u64;

    /// The batches from one on, without end: a pure function of the configuration and of the step.
    fn batches(&self, first: u64) -> Box<dyn Iterator<Item = Self::Batch>>;

    /// Cuts a batch into at most `parts` parts, each with its share of the whole.
    fn cut(&self, batch: Self::Batch, parts: usize) -> Vec<(f64, Self::Batch)>;

    /// The loss of a batch.
    fn loss(&self, model: &Self::Model, batch: &Self::Batch, kl_coef: f64, noise: Stream) -> Result<Loss, SolveError>;

    /// Solves that an example takes: the gaps of a sequence.
    fn solves(&self) -> usize {
        1
    }

    /// The model with the first step of the batch before, for those whose solver learns from it.
    fn remember(&self, model: Self::Model, first_step: Option<f64>) -> Self::Model;

    /// Whether there are examples to choose the best parameters by, other than the test set.
    fn has_validation(&self) -> bool;

    /// Evaluates with `samples` weight paths; `None` if `stop` became true meanwhile.
    fn evaluate(
        &self,
        model: &Self::Model,
        split: Split,
        samples: usize,
        stop: &AtomicBool,
    ) -> Result<Option<Evaluation>, SolveError>;

    /// Metrics of the test scores of all epochs so far.
    fn curve_values(&self, curve: &[f64]) -> Vec<(&'static str, f64)>;
}
