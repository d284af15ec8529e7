use super::{StepControl, Verdict};

/// The step-size control of step doubling, to the letter of torchsde but for [`Verdict::TooSmall`].
///
/// With `r = 0.9/err` and the ratio `prev` of the accepted step before (r itself where there is none), the proposed step is multiplied by
/// `r^(1/1.5)` in `[0.2, 1.4]` if `err > 1`, and otherwise by `r^(1/4.5) (r/prev)^0.13` in `[1, 1.4]`.
#[derive(Clone, Debug)]
pub struct StepDoubling {
    step: f64,
    dt_min: f64,
    previous: Option<f64>,
}

impl StepDoubling {
    /// Starts with the proposal `step`.
    pub fn new(step: f64, dt_min: f64) -> Self {
        Self { step, dt_min, previous: None }
    }
}

impl StepControl for StepDoubling {
    fn step(&self) -> f64 {
        self.step
    }

    fn judge(&mut self, error: f64) -> Verdict {
        let smallest = self.step <= self.dt_min;
        let ratio = 0.9 / error;
        let previous = *self.previous.get_or_insert(ratio);
        let accept = error <= 1.0;
        // The proposal is scaled, not the step that was cut short at T.
        if accept {
            self.step *= (ratio.powf(1.0 / 4.5) * (ratio / previous).powf(0.13)).clamp(1.0, 1.4);
            self.previous = Some(ratio);
        } else {
            self.step *= ratio.powf(1.0 / 1.5).clamp(0.2, 1.4);
        }
        if self.step < self.dt_min {
            self.step = self.dt_min;
            self.previous = None;
        }
        Verdict::of(accept, smallest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_steps_grow_by_at_most_two_fifths_and_never_shrink() {
        let mut control = StepDoubling::new(0.1, 1e-5);
        assert_eq!(control.judge(1e-7), Verdict::Accept);
        assert!((control.step() - 0.14).abs() < 1e-15);
        assert_eq!(control.judge(1.0), Verdict::Accept);
        assert!((control.step() - 0.14).abs() < 1e-15);
    }

    #[test]
    fn the_memory_of_the_ratio_damps_growth() {
        let mut control = StepDoubling::new(0.1, 1e-5);
        control.judge(0.5);
        let first = 1.8f64.powf(1.0 / 4.5);
        assert!((control.step() - 0.1 * first).abs() < 1e-15);
        control.judge(0.6);
        let second = 1.5f64.powf(1.0 / 4.5) * (1.5f64 / 1.8).powf(0.13);
        assert!((control.step() - 0.1 * first * second).abs() < 1e-15);
    }

    #[test]
    fn rejected_steps_shrink_down_to_the_smallest_and_then_end() {
        let mut control = StepDoubling::new(1e-3, 1e-4);
        assert_eq!(control.judge(8.0), Verdict::Reject);
        assert!((control.step() - 1e-3 * (0.9f64 / 8.0).powf(1.0 / 1.5)).abs() < 1e-18);
        assert_eq!(control.judge(1e9), Verdict::Reject);
        assert_eq!(control.step(), 1e-4);
        assert_eq!(control.judge(2.0), Verdict::TooSmall);
    }
}
