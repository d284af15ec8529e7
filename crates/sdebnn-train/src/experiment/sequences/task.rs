use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use sdebnn::SolveError;
use sdebnn::burn::module::Module;
use sdebnn::burn::tensor::{DType, Device, Tensor, TensorData};
use sdebnn::model::{Law, Loss};
use sdebnn::random::Stream;
use sdebnn::sequence::{Frames, OdeRnn};
use sdebnn_data::{WindowSets, Windows, order};

use super::config::SequencesConfig;
use crate::error::Error;
use crate::experiment::run::Purpose;
use crate::trainer::{Evaluation, MeanNfe, Split, Task};

/// Next-frame prediction with its data.
pub(super) struct SequencesTask {
    pub(super) config: SequencesConfig,
    pub(super) sets: WindowSets,
    device: Device,
}

impl SequencesTask {
    /// Loads the data from `dir`, or from where the configuration says.
    pub(super) fn load(config: &SequencesConfig, dir: Option<&Path>) -> Result<Self, Error> {
        let sequences = config.data.load(config.seed, dir)?;
        let sets = WindowSets::new(&sequences, config.seed, &config.data.preparation())?;
        Ok(Self { config: config.clone(), sets, device: Device::flex().autodiff() })
    }

    pub(super) fn windows(&self, split: Split) -> &Windows {
        match split {
            Split::Validation => &self.sets.validation,
            Split::Test => &self.sets.test,
        }
    }

    /// Decides the weight paths of training.
    pub(super) fn noise(&self) -> Stream {
        Purpose::TrainNoise.stream(self.config.seed)
    }

    /// Decides the weight paths of evaluation.
    pub(super) fn evaluation_noise(&self) -> Stream {
        Purpose::EvaluationNoise.stream(self.config.seed)
    }

    /// The mean squared error of predictions that are averaged over `samples` weight paths, and the mean function evaluations of a solve.
    pub(super) fn predict(
        &self,
        model: &OdeRnn,
        split: Split,
        samples: usize,
        stop: &AtomicBool,
    ) -> Result<Option<(f64, MeanNfe)>, SolveError> {
        let (windows, model) = (self.windows(split), model.valid());
        let paths = model.block.brownian(self.evaluation_noise(), samples);
        let (mut squares, mut nfe) = (0.0, MeanNfe::default());
        for indices in (0..windows.len()).collect::<Vec<_>>().chunks(self.config.evaluate.batch) {
            let (frames, targets) = frames(windows, indices, &model.block.w0.val().device());
            let mut sum = targets.zeros_like();
            for path in &paths {
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let found = model.forward(&frames, Law::Posterior, path)?;
                sum = sum + found.predictions;
                nfe.add(indices.len() as f64, &found.nfe, windows.frames());
            }
            let errors = sum.div_scalar(samples as f64) - targets;
            let errors: Vec<f32> = errors.into_data().try_into_vec().expect("32-bit floating-point numbers");
            squares += errors.iter().map(|error| f64::from(*error).powi(2)).sum::<f64>();
        }
        let count = windows.len() as f64;
        let mse = squares / (count * (windows.frames() * windows.features()) as f64);
        Ok(Some((mse, nfe.divided_by(count * samples as f64))))
    }
}

/// Windows as tensors: their frames with gaps, and what comes after each gap, `[frames, batch, features]`.
pub(super) fn frames(windows: &Windows, indices: &[usize], device: &Device) -> (Frames, Tensor<3>) {
    let (count, batch, width) = (windows.frames(), indices.len(), windows.features());
    let mut steps = vec![Vec::with_capacity(batch * width); count + 1];
    let mut gaps = vec![Vec::with_capacity(batch); count];
    for &window in indices {
        steps.iter_mut().zip(windows.window(window)).for_each(|(step, frame)| step.extend_from_slice(frame));
        gaps.iter_mut().zip(windows.gaps(window)).for_each(|(gaps, gap)| gaps.push(gap));
    }
    let targets = TensorData::new(steps[1..].concat(), [count, batch, width]);
    let row = |step: Vec<f32>| Tensor::from_data(TensorData::new(step, [batch, width]), (device, DType::F32));
    let gap = |gaps: Vec<f32>| Tensor::from_data(TensorData::new(gaps, [batch]), (device, DType::F32));
    let frames =
        Frames { inputs: steps.into_iter().take(count).map(row).collect(), gaps: gaps.into_iter().map(gap).collect() };
    (frames, Tensor::from_data(targets, (device, DType::F32)))
}

impl Task for SequencesTask {
    type Model = OdeRnn;
    type Batch = Vec<usize>;

    fn model(&self) -> Result<OdeRnn, Error> {
        let SequencesConfig { seed, model, recurrent, .. } = &self.config;
        let (features, init) = (self.sets.train.features(), Purpose::Init.stream(*seed));
        OdeRnn::new(model, features, recurrent.hidden, init, &self.device, DType::F32)
            .map_err(|e| Error::config("configuration", "model.", e))
    }

    fn steps_per_epoch(&self) -> u64 {
        self.sets.train.len().div_ceil(self.config.train.batch) as u64
    }

    fn batches(&self, first: u64) -> Box<dyn Iterator<Item = Vec<usize>>> {
        Box::new(order::batches(self.config.seed, self.sets.train.len(), self.config.train.batch, first))
    }

    fn cut(&self, batch: Vec<usize>, parts: usize) -> Vec<(f64, Vec<usize>)> {
        let share = |part: &[usize]| (part.len() as f64 / batch.len() as f64, part.to_vec());
        batch.chunks(batch.len().div_ceil(parts)).map(share).collect()
    }

    fn loss(&self, model: &OdeRnn, batch: &Vec<usize>, kl_coef: f64, noise: Stream) -> Result<Loss, SolveError> {
        let (frames, targets) = frames(&self.sets.train, batch, &self.device);
        let paths = model.block.brownian(noise, self.config.train.samples);
        let losses: Result<Vec<Loss>, _> =
            paths.iter().map(|path| model.loss(&frames, targets.clone(), kl_coef, path)).collect();
        Ok(Loss::mean(losses?))
    }

    fn remember(&self, mut model: OdeRnn, first_step: Option<f64>) -> OdeRnn {
        model.block = model.block.with_first_step(first_step);
        model
    }

    fn solves(&self) -> usize {
        self.config.data.window
    }

    fn has_validation(&self) -> bool {
        !self.sets.validation.is_empty()
    }

    fn evaluate(
        &self,
        model: &OdeRnn,
        split: Split,
        samples: usize,
        stop: &AtomicBool,
    ) -> Result<Option<Evaluation>, SolveError> {
        let found = self.predict(model, split, samples, stop)?;
        let values = |mse| vec![("mse", mse), ("no_change", self.windows(split).no_change())];
        Ok(found.map(|(mse, nfe)| Evaluation { score: -mse, values: values(mse), nfe }))
    }

    fn curve_values(&self, _: &[f64]) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
