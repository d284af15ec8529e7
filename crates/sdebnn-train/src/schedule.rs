//! How learning rate and KL coefficient change while a model is trained.

use serde::{Deserialize, Serialize};

/// The learning rate over the run, as a multiple of `train.learning_rate` or by a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Schedule {
    /// Always the same.
    Constant {},
    /// Rises linearly over `warmup` steps, then falls along half a cosine to `end` times the learning rate.
    Cosine {
        /// Steps of the rise.
        #[serde(default)]
        warmup: u64,
        /// What is left at the end, as a share.
        #[serde(default)]
        end: f64,
    },
    /// Another learning rate from each of some epochs on, counted from 1.
    Table {
        /// Pairs of an epoch and the learning rate from it on, in ascending order.
        rates: Vec<(u64, f64)>,
    },
}

impl Default for Schedule {
    fn default() -> Self {
        Self::Constant {}
    }
}

impl Schedule {
    /// The learning rate at step `step` (from 0) of `steps`, `per_epoch` an epoch.
    pub fn rate(&self, base: f64, step: u64, steps: u64, per_epoch: u64) -> f64 {
        match self {
            Self::Constant {} => base,
            Self::Cosine { warmup, .. } if step < *warmup => base * (step + 1) as f64 / *warmup as f64,
            Self::Cosine { warmup, end } => {
                let done = (step - warmup) as f64 / (steps - warmup).max(1) as f64;
                base * (end + (1.0 - end) * 0.5 * (1.0 + (std::f64::consts::PI * done).cos()))
            }
            Self::Table { rates } => {
                let epoch = step / per_epoch.max(1) + 1;
                rates.iter().take_while(|(from, _)| *from <= epoch).last().map_or(base, |(_, rate)| *rate)
            }
        }
    }
}

/// The factor on the KL coefficient: rises linearly from 0 to 1 over `warmup` epochs.
pub fn kl_factor(warmup: f64, step: u64, per_epoch: u64) -> f64 {
    let epochs = step as f64 / per_epoch.max(1) as f64;
    if warmup > 0.0 { (epochs / warmup).min(1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cosine_rises_and_falls() {
        let cosine = Schedule::Cosine { warmup: 4, end: 0.1 };
        let rate = |step| cosine.rate(2.0, step, 104, 10);
        assert_eq!((rate(0), rate(3), rate(4)), (0.5, 2.0, 2.0));
        assert!((rate(54) - 1.1).abs() < 1e-12 && (rate(104) - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_table_counts_epochs_from_one() {
        let table = Schedule::Table { rates: vec![(2, 0.5), (4, 0.25)] };
        assert_eq!([0, 9, 10, 29, 30, 99].map(|s| table.rate(1.0, s, 100, 10)), [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]);
        assert_eq!(Schedule::Constant {}.rate(0.3, 7, 9, 1), 0.3);
    }

    #[test]
    fn the_kl_divergence_comes_in_slowly() {
        assert_eq!([0, 5, 20, 40].map(|s| kl_factor(2.0, s, 10)), [0.0, 0.25, 1.0, 1.0]);
        assert_eq!(kl_factor(0.0, 0, 10), 1.0);
    }
}
