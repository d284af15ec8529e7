use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sdebnn_train::experiment::{EpochMetrics, ModelName, Observer};

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
