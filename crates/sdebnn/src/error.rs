//! What can go wrong, as data.

use std::fmt::Debug;

/// A configuration that cannot be used: which key, what it holds, and what would be right.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("`{key}` is {found}; expected {expected}")]
pub struct ConfigError {
    /// The key, with its section: `solver.steps`.
    pub key: String,
    /// What was found there.
    pub found: String,
    /// What would be right.
    pub expected: String,
}

impl ConfigError {
    pub(crate) fn new(key: &str, found: &dyn Debug, expected: impl Into<String>) -> Self {
        Self { key: key.into(), found: format!("{found:?}"), expected: expected.into() }
    }

    /// An error unless `ok`.
    pub fn unless(ok: bool, key: &str, found: &dyn Debug, expected: &str) -> Result<(), Self> {
        if ok { Ok(()) } else { Err(Self::new(key, found, expected)) }
    }
}

/// The part of the joint state that an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The activations (and momenta).
    Activations,
    /// The weights.
    Weights,
    /// The accumulated KL divergence.
    Kl,
}

impl std::fmt::Display for Component {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Activations => "activations",
            Self::Weights => "weights",
            Self::Kl => "KL divergence",
        })
    }
}

/// A solve that did not reach `T`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SolveError {
    /// A component became infinite or not a number.
    #[error(
        "not finite: the {component}, after the step that ends at t = {t}; try a lower learning rate, more solver \
         steps (or a lower tolerance), or clipped gradients"
    )]
    NotFinite {
        /// The end of the first step that is not finite.
        t: f64,
        /// The first component that is not finite.
        component: Component,
    },
    /// The smallest allowed step is still rejected.
    #[error(
        "at t = {t} a step of `dt_min` = {dt_min} still has error {error:.3} (1 is allowed); raise `atol` and `rtol`, or lower `dt_min`"
    )]
    StepTooSmall {
        /// Where the step started.
        t: f64,
        /// The smallest step.
        dt_min: f64,
        /// Its error in units of the tolerance.
        error: f64,
    },
    /// The controller used up its attempts.
    #[error("{attempts} attempts brought the solve to t = {t} only; raise `max_attempts`, or raise `atol` and `rtol`")]
    TooManySteps {
        /// How far the solve came.
        t: f64,
        /// The attempts made.
        attempts: usize,
    },
}

/// Any error of this library.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// See [`ConfigError`].
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// See [`SolveError`].
    #[error(transparent)]
    Solve(#[from] SolveError),
}
