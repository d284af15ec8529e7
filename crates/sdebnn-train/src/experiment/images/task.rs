use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sdebnn::SolveError;
use sdebnn::burn::module::Module;
use sdebnn::burn::tensor::{DType, Device, Int, Tensor, TensorData, activation};
use sdebnn::likelihood::Target;
use sdebnn::model::{Law, Loss, SdeBnn};
use sdebnn::random::Stream;
use sdebnn_data::batches::{Batch, Batches, Plan, Position};
use sdebnn_data::{Images, Normalisation};

use super::config::ImagesConfig;
use crate::classification::{Classification, auc_of_curve};
use crate::error::Error;
use crate::experiment::run::Purpose;
use crate::trainer::{Evaluation, MeanNfe, Split, Task};

/// A classification of images with its data.
pub(super) struct ImagesTask {
    config: ImagesConfig,
    train: Arc<Images>,
    validation: Arc<Images>,
    test: Arc<Images>,
    normalisation: Normalisation,
    device: Device,
}

impl ImagesTask {
    /// Loads the data from `dir`, or from where the configuration says.
    pub(super) fn load(config: &ImagesConfig, dir: Option<&Path>) -> Result<Self, Error> {
        let sets = config.data.load(config.seed, dir)?;
        let (train, validation) = sets.train.split(config.seed, config.data.validation);
        if train.is_empty() {
            let found = sdebnn::ConfigError {
                key: "data.validation".into(),
                found: config.data.validation.to_string(),
                expected: format!("fewer than the {} training images", sets.train.len()),
            };
            return Err(Error::config("configuration", "", found));
        }
        Ok(Self {
            config: config.clone(),
            train: train.into(),
            validation: validation.into(),
            test: sets.test.into(),
            normalisation: sets.normalisation,
            device: Device::flex().autodiff(),
        })
    }

    fn stream(&self, purpose: Purpose) -> Stream {
        purpose.stream(self.config.seed)
    }

    /// Images to train on.
    pub(super) fn examples(&self) -> usize {
        self.train.len()
    }

    /// Decides the weight paths of training.
    pub(super) fn noise(&self) -> Stream {
        self.stream(Purpose::TrainNoise)
    }

    /// Evaluates, with all that is known of the predicted probabilities.
    pub(super) fn classify(
        &self,
        model: &SdeBnn,
        split: Split,
        samples: usize,
        stop: &AtomicBool,
    ) -> Result<Option<(Classification, MeanNfe)>, SolveError> {
        let images = match split {
            Split::Validation => &self.validation,
            Split::Test => &self.test,
        };
        let model = model.valid();
        let paths = model.brownian(self.stream(Purpose::EvaluationNoise), samples);
        let plan = Plan { seed: 0, batch_size: self.config.evaluate.batch, epochs: 1, shuffle: false, augment: false };
        let (mut sums, mut nfe) = (Classification::new(images.classes), MeanNfe::default());
        for batch in Batches::start(images.clone(), self.normalisation.clone(), plan, Position::default()) {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let count = batch.labels.len();
            let pixels = TensorData::new(batch.pixels, [count, images.image_len()]);
            let x = Tensor::<2>::from_data(pixels, (&model.w0.val().device(), DType::F32));
            let found = model.forward(x, Law::Posterior, &paths)?;
            let probabilities = activation::softmax(found.outputs, 2).mean_dim(0);
            let probabilities: Vec<f32> =
                probabilities.into_data().try_into_vec().expect("32-bit floating-point numbers");
            sums.add(&probabilities, &batch.labels.iter().map(|&label| label.into()).collect::<Vec<_>>());
            nfe.add(count as f64, &found.solution.nfe, 1);
        }
        Ok(Some((sums, nfe.divided_by(images.len() as f64))))
    }
}

impl Task for ImagesTask {
    type Model = SdeBnn;
    type Batch = Batch;

    fn model(&self) -> Result<SdeBnn, Error> {
        let Images { channels, height, width, classes, .. } = *self.train;
        let (input, init) = ([channels, height, width], self.stream(Purpose::Init));
        SdeBnn::new(&self.config.model, &input, classes, init, &self.device, DType::F32)
            .map_err(|e| Error::config("configuration", "model.", e))
    }

    fn steps_per_epoch(&self) -> u64 {
        self.train.len().div_ceil(self.config.train.batch) as u64
    }

    fn batches(&self, first: u64) -> Box<dyn Iterator<Item = Batch>> {
        let plan = Plan {
            seed: self.config.seed,
            batch_size: self.config.train.batch,
            epochs: u64::MAX,
            shuffle: true,
            augment: self.config.data.augmentation,
        };
        let per_epoch = self.steps_per_epoch();
        let first = Position { epoch: first / per_epoch, batch: (first % per_epoch) as usize };
        Box::new(Batches::start(self.train.clone(), self.normalisation.clone(), plan, first))
    }

    fn cut(&self, batch: Batch, parts: usize) -> Vec<(f64, Batch)> {
        let (count, width) = (batch.labels.len(), self.train.image_len());
        let size = count.div_ceil(parts);
        let part = |((indices, labels), pixels): ((&[usize], &[u8]), &[f32])| {
            let share = labels.len() as f64 / count as f64;
            let (indices, labels, pixels) = (indices.to_vec(), labels.to_vec(), pixels.to_vec());
            (share, Batch { position: batch.position, indices, pixels, labels })
        };
        let parts = batch.indices.chunks(size).zip(batch.labels.chunks(size)).zip(batch.pixels.chunks(size * width));
        parts.map(part).collect()
    }

    fn loss(&self, model: &SdeBnn, batch: &Batch, kl_coef: f64, noise: Stream) -> Result<Loss, SolveError> {
        let count = batch.labels.len();
        let pixels = TensorData::new(batch.pixels.clone(), [count, self.train.image_len()]);
        let x = Tensor::<2>::from_data(pixels, (&self.device, DType::F32));
        let labels: Vec<i64> = batch.labels.iter().map(|&label| label.into()).collect();
        let y = Tensor::<1, Int>::from_data(TensorData::new(labels, [count]), &self.device);
        model.loss(x, &Target::Classes(y), kl_coef, &model.brownian(noise, self.config.train.samples))
    }

    fn remember(&self, model: SdeBnn, first_step: Option<f64>) -> SdeBnn {
        model.with_first_step(first_step)
    }

    fn has_validation(&self) -> bool {
        !self.validation.is_empty()
    }

    fn evaluate(
        &self,
        model: &SdeBnn,
        split: Split,
        samples: usize,
        stop: &AtomicBool,
    ) -> Result<Option<Evaluation>, SolveError> {
        let found = self.classify(model, split, samples, stop)?;
        Ok(found.map(|(sums, nfe)| Evaluation { score: sums.accuracy(), values: values(&sums), nfe }))
    }

    fn curve_values(&self, curve: &[f64]) -> Vec<(&'static str, f64)> {
        vec![("auc", auc_of_curve(curve))]
    }
}

/// The metrics of predicted probabilities by name.
pub(super) fn values(sums: &Classification) -> Vec<(&'static str, f64)> {
    vec![("accuracy", sums.accuracy()), ("nll", sums.nll()), ("brier", sums.brier()), ("ece", sums.ece())]
}
