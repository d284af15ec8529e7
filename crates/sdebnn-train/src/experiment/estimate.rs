//! About how long a run takes, before it is made.

use sdebnn::burn::tensor::{DType, Device};
use sdebnn::controller::Controller;
use sdebnn::model::SdeBnn;
use sdebnn::random::Stream;

use super::images::{self, ImageSet};
use super::run::AnyExperiment;
use super::sequences::{self, SequenceSet};

/// Images of the published sets: to train on, to test on.
const MNIST: [f64; 2] = [60_000.0, 10_000.0];
const CIFAR10: [f64; 2] = [50_000.0, 10_000.0];

/// Files of Walker2D, and their frames, about.
const WALKER2D: [f64; 2] = [400.0, 660.0];

/// The share of the machine's peak that a run has been seen to reach: convolutions, sequences, and the toy problem, whose networks are small.
const SHARES: [f64; 3] = [0.35, 0.17, 0.04];

/// Seconds of a run that are not spent in drift networks; of an epoch of the toy problem, and of others.
const OVERHEAD: [f64; 3] = [1.0, 0.003, 0.3];

/// A backward pass has about twice the arithmetic of the forward pass.
const TRAINING: f64 = 3.0;

/// How much there is to compute.
struct Work {
    /// Examples to train on, and to test on.
    examples: [f64; 2],
    /// Weight paths of a training step, of the test after each epoch, and of that at the end.
    samples: [usize; 3],
    /// Solves that an example takes.
    solves: usize,
    /// Drift evaluations of an adaptive solve, as far as known.
    adaptive: f64,
    /// The shape of what is solved for, and what it is mapped to.
    shape: Vec<usize>,
    outputs: usize,
    share: f64,
    /// Seconds of an epoch that are not spent in drift networks.
    overhead: f64,
}

impl AnyExperiment {
    fn work(&self) -> Work {
        match self {
            Self::Toy(config) => Work {
                examples: [config.data.train_points as f64, config.data.test_points as f64],
                samples: [config.train.samples, 0, 2 * config.evaluate.samples],
                solves: 1,
                adaptive: 100.0,
                shape: vec![1],
                outputs: 1,
                share: SHARES[2],
                overhead: OVERHEAD[1],
            },
            Self::Images(config) => {
                let (shape, published) = match config.data.name {
                    ImageSet::Mnist => (vec![1, 28, 28], MNIST),
                    ImageSet::Digits => (vec![1, 28, 28], images::DRAWN.map(|count| count as f64)),
                    ImageSet::Cifar10 => (vec![3, 32, 32], CIFAR10),
                };
                let limits = [config.data.limit_train, config.data.limit_test];
                let count = |i: usize| limits[i].map_or(published[i], |limit| published[i].min(limit as f64));
                Work {
                    examples: [count(0) - config.data.validation as f64, count(1) + config.data.validation as f64],
                    samples: [config.train.samples, config.evaluate.samples, config.evaluate.final_samples],
                    solves: 1,
                    adaptive: 160.0,
                    shape,
                    outputs: 10,
                    share: SHARES[0],
                    overhead: OVERHEAD[2],
                }
            }
            Self::Sequences(config) => {
                let data = &config.data;
                let [files, frames] = match data.name {
                    SequenceSet::Walks => sequences::DRAWN.map(|count| count as f64),
                    SequenceSet::Walker2d | SequenceSet::Npy => WALKER2D,
                };
                let files = data.limit.map_or(files, |limit| limit as f64);
                let frames = data.length.map_or(frames, |length| length as f64) * (1.0 - data.drop);
                let windows = files * ((frames - data.window as f64) / data.stride as f64).max(1.0);
                let tested = data.test + data.validation;
                Work {
                    examples: [windows * (1.0 - tested), windows * tested],
                    samples: [config.train.samples, config.evaluate.samples, config.evaluate.final_samples],
                    solves: data.window,
                    adaptive: 42.0,
                    shape: vec![config.recurrent.hidden],
                    outputs: config.recurrent.hidden,
                    share: SHARES[1],
                    overhead: OVERHEAD[2],
                }
            }
        }
    }

    /// About how many seconds a run takes on a machine of this many floating-point operations a second.
    pub fn seconds(&self, peak_flops: f64) -> f64 {
        let Work { examples, samples, solves, adaptive, shape, outputs, share, overhead } = self.work();
        let (model, epochs) = (self.model(), self.epochs() as f64);
        let device = Device::flex();
        let flops = SdeBnn::new(model, &shape, outputs, Stream::root(0), &device, DType::F32)
            .map_or(0.0, |model| model.flops_per_evaluation());
        let nfe = match model.solver.controller {
            Controller::Fixed => (model.solver.steps * model.solver.method.tableau().stages.len()) as f64,
            Controller::StepDoubling => adaptive,
            Controller::Embedded => adaptive / 3.0,
        };
        let [train, test, last] = samples.map(|samples| (samples * solves) as f64 * nfe * flops);
        let every = TRAINING * train * examples[0] + test * examples[1];
        (epochs * every + last * examples[1]) / (share * peak_flops) + OVERHEAD[0] + epochs * overhead
    }
}
