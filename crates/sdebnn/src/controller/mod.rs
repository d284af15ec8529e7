//! What decides the steps of a solve.

mod config;
mod embedded;
mod march;
mod step_doubling;

pub use config::{Controller, ErrorNorm, SolverConfig};
pub(crate) use embedded::EULER_FACTOR;
pub use embedded::Pi;
pub use march::{StepControl, Verdict};
pub(crate) use march::{Stepper, march};
pub use step_doubling::StepDoubling;

/// One attempted step of an adaptive solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Where it started.
    pub t: f64,
    /// Its length.
    pub dt: f64,
    /// Its error in units of the tolerance.
    pub error: f64,
    /// Whether it was accepted.
    pub accepted: bool,
}
