use std::fmt::Write;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use sdebnn_train::trainer::TrainObserver;
use serde_json::{Map, Value};

/// The progress of a training run: a bar on a terminal, a line an epoch (or a step) elsewhere, or nothing.
pub struct TrainProgress {
    quiet: bool,
    verbose: bool,
    steps: u64,
    /// What is known of the test set.
    test: String,
    bar: ProgressBar,
}

impl TrainProgress {
    pub fn new(quiet: bool, verbose: bool) -> Self {
        Self { quiet, verbose, steps: 0, test: String::new(), bar: ProgressBar::hidden() }
    }

    /// A line above the bar.
    fn line(&self, line: &str) {
        match self.quiet {
            true => {}
            false if self.bar.is_hidden() => eprintln!("{line}"),
            false => self.bar.println(line),
        }
    }
}

impl TrainObserver for TrainProgress {
    fn started(&mut self, step: u64, steps: u64, per_epoch: u64) {
        self.steps = steps;
        if !self.quiet {
            let template = "{wide_bar} {pos}/{len}  {rate}  {eta} left  {msg}";
            let rate = |state: &ProgressState, out: &mut dyn Write| {
                let _ = write!(out, "{:.1}/s", state.per_sec());
            };
            let style = ProgressStyle::with_template(template).expect("a valid template").with_key("rate", rate);
            self.bar = ProgressBar::new(steps).with_style(style).with_position(step);
            self.bar.reset_eta();
        }
        if step > 0 {
            self.line(&format!("going on at step {step} of {steps}, {per_epoch} an epoch"));
        }
    }

    fn step(&mut self, step: u64, loss: f64, nfe_drift: f64) {
        self.bar.set_position(step);
        self.bar.set_message(format!("loss {loss:.3}{}  NFE {nfe_drift:.0}", self.test));
        if self.verbose {
            self.line(&format!("step {step}/{}  loss {loss:.4}  NFE {nfe_drift:.0}", self.steps));
        }
    }

    fn epoch(&mut self, epoch: u64, epochs: u64, metrics: &Map<String, Value>) {
        let number = |key: &str| metrics.get(key).and_then(Value::as_f64).unwrap_or(f64::NAN);
        let (percent, nll, ece) = (100.0 * number("test_accuracy"), number("test_nll"), number("test_ece"));
        let (mse, no_change) = (number("test_mse"), number("test_no_change"));
        let (test, nfe);
        (self.test, test, nfe) = if metrics.contains_key("test_mse") {
            let whole = format!("test MSE {mse:.4} (no change {no_change:.4})");
            (format!("  test {mse:.4}"), whole, "test_nfe_drift")
        } else if metrics.contains_key("test_accuracy") {
            let whole = format!("test {percent:.2} %  NLL {nll:.4}  ECE {ece:.4}");
            (format!("  test {percent:.1} %"), whole, "test_nfe_drift")
        } else {
            (String::new(), format!("NLL {:.4}", number("nll")), "nfe_drift")
        };
        self.line(&format!(
            "epoch {epoch}/{epochs}  loss {:.4}  {test}  NFE {:.0}  {:.0} s",
            number("loss"),
            number(nfe),
            number("seconds")
        ));
        if epoch == epochs {
            self.bar.finish_and_clear();
        }
    }

    fn warning(&mut self, message: &str) {
        eprintln!("warning: {message}");
    }
}
