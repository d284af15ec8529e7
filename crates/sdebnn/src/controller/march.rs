use super::{Attempt, Controller, Pi, SolverConfig, StepDoubling};
use crate::error::SolveError;
use crate::nfe::Nfe;

/// What becomes of an attempted step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The step is kept.
    Accept,
    /// The step is tried again, shorter.
    Reject,
    /// The smallest step was rejected.
    TooSmall,
}

impl Verdict {
    /// Of an attempt that passed or not, with the smallest step or not.
    pub(super) fn of(accept: bool, smallest: bool) -> Self {
        match (accept, smallest) {
            (true, _) => Self::Accept,
            (false, false) => Self::Reject,
            (false, true) => Self::TooSmall,
        }
    }
}

/// What proposes the steps of an adaptive solve.
pub trait StepControl {
    /// The proposed step.
    fn step(&self) -> f64;

    /// Judges the attempt made with the proposed step by its error in units of the tolerance, and proposes the next.
    fn judge(&mut self, error: f64) -> Verdict;
}

/// Who takes the steps of an adaptive solve.
pub(crate) trait Stepper {
    /// Attempts the step from `t` to `end` and returns its error in units of the tolerance.
    fn attempt(&mut self, t: f64, end: f64) -> Result<f64, SolveError>;

    /// Keeps the step that was attempted last.
    fn accept(&mut self);
}

/// Takes a stepper from `t0` to `t1` and returns the attempts.
pub(crate) fn march(solver: &SolverConfig, stepper: &mut impl Stepper) -> Result<Vec<Attempt>, SolveError> {
    let mut control: Box<dyn StepControl> = match solver.controller {
        Controller::Fixed | Controller::StepDoubling => Box::new(StepDoubling::new(solver.initial_step, solver.dt_min)),
        Controller::Embedded => Box::new(Pi::new(solver.initial_step, solver.dt_min)),
    };
    let (mut t, mut attempts) = (solver.t0, Vec::new());
    while t < solver.t1 {
        if attempts.len() == solver.max_attempts {
            return Err(SolveError::TooManySteps { t, attempts: attempts.len() });
        }
        let end = (t + control.step()).min(solver.t1);
        let error = stepper.attempt(t, end)?;
        let verdict = control.judge(error);
        attempts.push(Attempt { t, dt: end - t, error, accepted: verdict == Verdict::Accept });
        match verdict {
            Verdict::Accept => {
                stepper.accept();
                t = end;
            }
            Verdict::Reject => {}
            Verdict::TooSmall => return Err(SolveError::StepTooSmall { t, dt_min: solver.dt_min, error }),
        }
    }
    Ok(attempts)
}

impl SolverConfig {
    /// The function evaluations of an adaptive solve.
    pub(crate) fn adaptive_nfe(&self, attempts: &[Attempt]) -> Nfe {
        let stages = self.method.tableau().nodes.len();
        let drift = attempts.len() * if self.controller == Controller::StepDoubling { 3 * stages } else { stages };
        let accepted = attempts.iter().filter(|a| a.accepted).count();
        Nfe { drift, diffusion: drift, attempts: attempts.len(), accepted, rejected: attempts.len() - accepted }
    }
}
