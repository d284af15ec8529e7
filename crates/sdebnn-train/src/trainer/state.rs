use std::collections::BTreeMap;

use super::task::MeanNfe;
use crate::checkpoint::Checkpoint;
use crate::optimiser::Adam;
use crate::parameters::Parameters;

/// Everything that changes during a run.
pub(super) struct State {
    pub(super) step: u64,
    pub(super) values: Vec<f32>,
    pub(super) adam: Adam,
    /// The moving average of the parameters.
    pub(super) ema: Option<Vec<f32>>,
    /// Over the steps of the current epoch.
    pub(super) sums: Sums,
    /// Batches of the current epoch whose solve failed.
    pub(super) skipped: u64,
    /// The first step that the solve of the batch before accepted.
    pub(super) first_step: Option<f64>,
    /// Test scores after each epoch.
    pub(super) curve: Vec<f64>,
    pub(super) best: f64,
}

/// Sums over the steps of an epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) steps: f64,
    pub(super) loss: f64,
    pub(super) nll: f64,
    pub(super) kl: f64,
    pub(super) gradient_norm: f64,
    pub(super) nfe: MeanNfe,
}

impl Sums {
    pub(super) fn numbers(&self) -> [f64; 10] {
        let Self { steps, loss, nll, kl, gradient_norm, nfe } = *self;
        let [a, b, c, d, e] = nfe.numbers();
        [steps, loss, nll, kl, gradient_norm, a, b, c, d, e]
    }

    pub(super) fn from_numbers([steps, loss, nll, kl, gradient_norm, a, b, c, d, e]: [f64; 10]) -> Self {
        Self { steps, loss, nll, kl, gradient_norm, nfe: MeanNfe::from_numbers([a, b, c, d, e]) }
    }
}

/// Numbers as text that gives the same bits when read again.
fn to_text(numbers: &[f64]) -> String {
    numbers.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" ")
}

fn from_text(text: &str) -> Option<Vec<f64>> {
    text.split_whitespace().map(|v| v.parse().ok()).collect()
}

impl State {
    pub(super) fn new(values: Vec<f32>, ema: bool) -> Self {
        Self {
            step: 0,
            adam: Adam::new(values.len()),
            ema: ema.then(|| values.clone()),
            values,
            sums: Sums::default(),
            skipped: 0,
            first_step: None,
            curve: Vec::new(),
            best: f64::NEG_INFINITY,
        }
    }

    /// What evaluation uses.
    pub(super) fn evaluated(&self) -> &[f32] {
        self.ema.as_ref().unwrap_or(&self.values)
    }

    pub(super) fn checkpoint(&self, parameters: &Parameters) -> Checkpoint {
        let mut tensors = parameters.tensors("model.", &self.values);
        tensors.extend(parameters.tensors("adam.first.", &self.adam.first));
        tensors.extend(parameters.tensors("adam.second.", &self.adam.second));
        if let Some(ema) = &self.ema {
            tensors.extend(parameters.tensors("ema.", ema));
        }
        let metadata = BTreeMap::from([
            ("step".into(), self.step.to_string()),
            ("updates".into(), self.adam.steps.to_string()),
            ("skipped".into(), self.skipped.to_string()),
            ("first_step".into(), to_text(self.first_step.as_slice())),
            ("epoch_sums".into(), to_text(&self.sums.numbers())),
            ("curve".into(), to_text(&self.curve)),
            ("best".into(), to_text(&[self.best])),
        ]);
        Checkpoint { tensors, metadata }
    }

    pub(super) fn from_checkpoint(checkpoint: &Checkpoint, parameters: &Parameters, ema: bool) -> Result<Self, String> {
        let text = |key: &str| checkpoint.metadata.get(key).map(String::as_str).ok_or(format!("has no {key}"));
        let numbers = |key: &str| from_text(text(key)?).ok_or(format!("has no numbers as {key}"));
        let integer = |key: &str| text(key)?.parse::<u64>().map_err(|_| format!("has no number as {key}"));
        let step = integer("step")?;
        // Checkpoints of older versions know nothing of batches that were skipped, and less of attempted steps.
        let or = |key: &str, value: u64| if checkpoint.metadata.contains_key(key) { integer(key) } else { Ok(value) };
        let sums = numbers("epoch_sums")?;
        let sums = std::array::from_fn(|i| sums.get(i).copied().unwrap_or(0.0));
        Ok(Self {
            step,
            values: parameters.read("model.", checkpoint)?,
            adam: Adam {
                steps: or("updates", step)?,
                first: parameters.read("adam.first.", checkpoint)?,
                second: parameters.read("adam.second.", checkpoint)?,
            },
            ema: ema.then(|| parameters.read("ema.", checkpoint)).transpose()?,
            sums: Sums::from_numbers(sums),
            skipped: or("skipped", 0)?,
            first_step: numbers("first_step").ok().and_then(|first| first.first().copied()),
            curve: numbers("curve")?,
            best: *numbers("best")?.first().ok_or("has no best")?,
        })
    }
}
