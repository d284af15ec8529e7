use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use sdebnn_train::experiment::{EpochMetrics, ModelName, Observer};
use sdebnn_train::trainer::TrainObserver;
use serde_json::{Map, Value};

/// How many lines a model gets where there is no terminal.
const LINES: usize = 20;

/// A bar on a terminal, plain lines elsewhere, or nothing.
pub struct Progress {
    quiet: bool,
    epochs: usize,
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    pub fn new(quiet: bool) -> Self {
        Self { quiet, epochs: 0, bar: ProgressBar::hidden(), started: Instant::now() }
    }
}

impl Observer for Progress {
    fn started(&mut self, model: ModelName, epochs: usize) {
        self.epochs = epochs;
        self.started = Instant::now();
        if self.quiet {
            return;
        }
        let style = ProgressStyle::with_template("{prefix:>15} {wide_bar} {pos}/{len} epochs  {eta} left  {msg}")
            .expect("a valid template");
        self.bar = ProgressBar::new(epochs as u64).with_style(style).with_prefix(model.title());
    }

    fn epoch(&mut self, m: &EpochMetrics) {
        if self.quiet {
            return;
        }
        self.bar.set_position(m.epoch as u64);
        self.bar.set_message(format!("loss {:.3}", m.loss));
        let every = self.epochs.div_ceil(LINES);
        if self.bar.is_hidden() && (m.epoch.is_multiple_of(every) || m.epoch == self.epochs) {
            let left = self.started.elapsed() / m.epoch as u32 * (self.epochs - m.epoch) as u32;
            eprintln!(
                "{} epoch {}/{}  loss {:.4}  nll {:.4}  kl {:.2}  nfe {}  {:.1} s, {} s left",
                m.model.key(),
                m.epoch,
                self.epochs,
                m.loss,
                m.nll,
                m.kl,
                m.nfe_drift,
                m.seconds,
                Duration::as_secs(&left)
            );
        }
    }

    fn trained(&mut self, _model: ModelName) {
        self.bar.finish();
    }
}

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
        let sequences = metrics.contains_key("test_mse");
        let (percent, nll, ece) = (100.0 * number("test_accuracy"), number("test_nll"), number("test_ece"));
        let (mse, no_change) = (number("test_mse"), number("test_no_change"));
        let test;
        (self.test, test) = match sequences {
            true => (format!("  test {mse:.4}"), format!("test MSE {mse:.4} (no change {no_change:.4})")),
            false => (format!("  test {percent:.1} %"), format!("test {percent:.2} %  NLL {nll:.4}  ECE {ece:.4}")),
        };
        self.line(&format!(
            "epoch {epoch}/{epochs}  loss {:.4}  {test}  NFE {:.0}  {:.0} s",
            number("loss"),
            number("test_nfe_drift"),
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
