use super::{StepControl, Verdict};

/// What the difference to the Euler step is multiplied by to estimate a step's error.
///
/// The noise moves the drift within a step by `½ σΔB` on the way to its second evaluation, so the difference is `½ f' σ ΔB Δt`. The two
/// halves of step doubling differ from the full step by `¼ f' σ (ΔB₁ − ΔB₂) Δt`, which has half that deviation: with this factor, both
/// controllers mean the same by a tolerance. By SRA1 the difference is `f' σ (½ΔB + H) Δt`, larger by √(4/3), while the step's own error is
/// of a higher order: the tolerance is that of a step of order 1, and the solve ends closer than was asked for.
pub(crate) const EULER_FACTOR: f64 = 0.5;

/// The order of the error of a step, in its length.
const ORDER: f64 = 1.5;

/// Significant bits of a step.
const BITS: i32 = 4;

/// The step-size control of the embedded estimate: proportional and integral.
///
/// With the error `e` and that of the accepted step before, `e₋`, an accepted step is multiplied by `0.9 e^(−0.7/1.5) e₋^(0.4/1.5)` in
/// `[0.2, 5]` (at most 1 after a rejection), a rejected one by `0.9 e^(−1/1.5)` in `[0.2, 0.9]`. The first attempt is a measurement from
/// which the second step is chosen, in `[0.02, 50]` times the first. Steps are rounded down to four significant bits: a Brownian path finds
/// their ends by few bisections.
#[derive(Clone, Debug)]
pub struct Pi {
    step: f64,
    dt_min: f64,
    /// The error of the accepted step before; `None` before the first attempt.
    previous: Option<f64>,
    rejected: bool,
}

impl Pi {
    /// Starts with the proposal `step`.
    pub fn new(step: f64, dt_min: f64) -> Self {
        Self { step, dt_min, previous: None, rejected: false }
    }
}

/// `step` rounded down to [`BITS`] significant bits.
fn round_down(step: f64) -> f64 {
    let unit = (step.log2().floor() - f64::from(BITS - 1)).exp2();
    (step / unit).floor() * unit
}

impl StepControl for Pi {
    fn step(&self) -> f64 {
        round_down(self.step).max(self.dt_min)
    }

    fn judge(&mut self, error: f64) -> Verdict {
        let smallest = self.step <= self.dt_min;
        let accept = error <= 1.0;
        let integral = 0.9 * error.powf(-1.0 / ORDER);
        let factor = match self.previous {
            None => integral.clamp(0.02, 50.0),
            Some(_) if !accept => integral.clamp(0.2, 0.9),
            Some(previous) => {
                let factor = 0.9 * error.powf(-0.7 / ORDER) * previous.powf(0.4 / ORDER);
                factor.clamp(0.2, if self.rejected { 1.0 } else { 5.0 })
            }
        };
        self.rejected = !accept && self.previous.is_some();
        self.previous = if accept { Some(error) } else { self.previous.or(Some(1.0)) };
        self.step = (self.step * factor).max(self.dt_min);
        Verdict::of(accept, smallest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_four_significant_bits_and_are_never_longer_than_proposed() {
        for step in [0.05, 1.0, 0.9999, 1e-5, 3.7e-3, 0.125] {
            let rounded = round_down(step);
            assert!(rounded <= step && rounded > step * (1.0 - 0.125), "{step} {rounded}");
            let scaled = rounded / step.log2().floor().exp2() * 8.0;
            assert_eq!(scaled, scaled.round(), "{step} {rounded}");
        }
        assert_eq!(round_down(0.125), 0.125);
    }

    #[test]
    fn an_error_of_the_assumed_order_leads_to_the_tolerance() {
        // err = (h / 0.02)^1.5: the longest step that passes is 0.02.
        let mut control = Pi::new(0.5, 1e-6);
        let mut accepted = 0;
        for _ in 0..40 {
            let error = (control.step() / 0.02).powf(ORDER);
            accepted += usize::from(control.judge(error) == Verdict::Accept);
        }
        // Steps neither grow nor shrink where 0.9 e^(−0.3/1.5) = 1: at 0.0141, which loses at most an eighth when it is rounded.
        assert!((0.0123..=0.0142).contains(&control.step()), "{}", control.step());
        assert!(accepted >= 36, "{accepted}");
    }

    #[test]
    fn the_first_attempt_is_a_measurement() {
        // As above: one attempt is enough to come near, from far too short and from far too long a step.
        for step in [1e-3, 0.9] {
            let mut control = Pi::new(step, 1e-6);
            control.judge((control.step() / 0.02).powf(ORDER));
            assert!((0.012..=0.02).contains(&control.step()), "{step}: {}", control.step());
        }
    }

    #[test]
    fn growth_waits_for_a_step_after_a_rejection() {
        let mut control = Pi::new(0.1, 1e-6);
        control.judge(0.9);
        assert_eq!(control.judge(4.0), Verdict::Reject);
        let step = control.step();
        assert_eq!(control.judge(0.01), Verdict::Accept);
        assert!(control.step() <= step);
        control.judge(0.01);
        assert!(control.step() > 2.0 * step);
    }

    #[test]
    fn the_smallest_step_is_not_tried_twice() {
        let mut control = Pi::new(1e-3, 1e-4);
        assert_eq!(control.judge(1e9), Verdict::Reject);
        assert_eq!(control.step(), 1e-4);
        assert_eq!(control.judge(1e9), Verdict::TooSmall);
    }
}
