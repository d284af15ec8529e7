use sdebnn::activation::Activation;
use sdebnn::burn::module::Module;
use sdebnn::burn::tensor::{DType, Device, Gradients, Int, Tensor, TensorData};
use sdebnn::config::{DriftConfig, DynamicsConfig, HeadConfig, ModelConfig, WeightsConfig};
use sdebnn::controller::SolverConfig;
use sdebnn::drift::TimeInput;
use sdebnn::engine::Engine;
use sdebnn::likelihood::{Likelihood, Scale, Target};
use sdebnn::model::{Loss, SdeBnn};
use sdebnn::random::Stream;
use sdebnn::sequence::{Frames, OdeRnn};
use sdebnn::{ConfigError, SolveError};
use serde::Serialize;

use super::StepBench;
use crate::error::Error;
use crate::experiment::ModelName;
use crate::optimiser::{Adam, norm};
use crate::parameters::Parameters;

/// Frames of a sequence, numbers in a frame, and the width of the hidden state.
const FRAMES: usize = 64;
const FEATURES: usize = 17;
const HIDDEN: usize = 24;

/// The shapes of the paper's experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// 1D regression, ten weight samples.
    Toy,
    /// Images of 1 × 28 × 28.
    Mnist,
    /// Images of 3 × 32 × 32, three groups.
    Cifar10,
    /// Sequences of 64 frames.
    Walker2d,
}

impl Workload {
    fn batch(self) -> usize {
        match self {
            Self::Toy => 50,
            Self::Mnist | Self::Cifar10 => 128,
            Self::Walker2d => 256,
        }
    }

    fn samples(self) -> usize {
        if self == Self::Toy { 10 } else { 1 }
    }

    /// Learning rate and weight of the KL divergence.
    fn training(self) -> (f64, f64) {
        match self {
            Self::Toy => (1e-3, 0.0),
            Self::Mnist => (1e-3, 1e-5),
            Self::Cifar10 => (3e-4, 100.0),
            Self::Walker2d => (1e-3, 1.0),
        }
    }

    /// The shape of an example that the block sees: an image, or the hidden state of sequences.
    fn shape(self) -> &'static [usize] {
        match self {
            Self::Toy => &[1],
            Self::Mnist => &[1, 28, 28],
            Self::Cifar10 => &[3, 32, 32],
            Self::Walker2d => &[HIDDEN],
        }
    }

    /// Numbers of such an example.
    pub(super) fn numbers(self) -> usize {
        self.shape().iter().product()
    }

    /// The block of a model that was not trained.
    pub(super) fn untrained(self, model: ModelName, device: &Device) -> Result<SdeBnn, Error> {
        let bench =
            StepBench { workload: self, model, batch: None, steps: 1, solver_steps: None, engine: Engine::Auto };
        let outputs = if self == Self::Walker2d { HIDDEN } else { 1 };
        SdeBnn::new(&self.model(&bench), self.shape(), outputs, Stream::root(0), device, DType::F32)
            .map_err(|e| Error::config("bench", "model.", e))
    }

    fn model(self, bench: &StepBench) -> ModelConfig {
        let conv =
            |width, blocks: &[usize], activation| DriftConfig::Conv { width, blocks: blocks.to_vec(), activation };
        let dense = |width, activation, time| DriftConfig::Dense { hidden: vec![width; 2], activation, time };
        let (drift, hidden, sigma, steps) = match self {
            Self::Toy => (dense(32, Activation::Swish, TimeInput::Squash), vec![32], 0.2, 20),
            Self::Mnist => (conv(32, &[1], Activation::Swish), vec![1, 64, 1], 0.1, 20),
            Self::Cifar10 => (conv(64, &[1, 1, 1], Activation::Mish), vec![2, 32, 2], 0.1, 20),
            Self::Walker2d => (dense(HIDDEN, Activation::Tanh, TimeInput::None), vec![1, 32, 1], 0.1, 50),
        };
        // As configs/cifar10.toml has it: of what that network computes, the default would keep a sixth.
        let tape_mib = if self == Self::Cifar10 { 3072 } else { SolverConfig::default().tape_mib };
        ModelConfig {
            augment: if self == Self::Walker2d { 0 } else { 2 },
            dynamics: match bench.model {
                ModelName::SdeBnn => DynamicsConfig::FirstOrder {},
                ModelName::Nesterov => DynamicsConfig::nesterov(),
            },
            drift,
            weights: WeightsConfig {
                sigma,
                hidden,
                time_dependent: false,
                posterior: Default::default(),
                stochastic: Default::default(),
                estimator: Default::default(),
            },
            solver: SolverConfig {
                engine: bench.engine,
                steps: bench.solver_steps.unwrap_or(steps),
                tape_mib,
                ..Default::default()
            },
            head: match self {
                Self::Toy | Self::Walker2d => HeadConfig::First {},
                Self::Mnist | Self::Cifar10 => HeadConfig::Mlp { hidden: 1024 },
            },
            likelihood: match self {
                Self::Toy => Likelihood::Gaussian(Scale { scale: 0.1, learn: false }),
                Self::Mnist | Self::Cifar10 => Likelihood::Categorical,
                Self::Walker2d => Likelihood::SquaredError,
            },
        }
    }
}

/// A model with its data.
#[allow(clippy::large_enum_variant, reason = "there is one")]
enum Task {
    Examples { model: SdeBnn, x: Tensor<2>, y: Target },
    Sequences { model: OdeRnn, frames: Frames, targets: Tensor<3> },
}

/// Takes training and evaluation steps of a workload.
pub(super) struct Trainer {
    workload: Workload,
    batch: usize,
    task: Option<Task>,
    parameters: Parameters,
    values: Vec<f32>,
    gradients: Vec<f32>,
    adam: Adam,
    step: u64,
}

impl Trainer {
    pub(super) fn new(bench: &StepBench) -> Result<Self, Error> {
        let workload = bench.workload;
        let batch = bench.batch.unwrap_or(workload.batch());
        let check = ConfigError { key: "--batch".into(), found: batch.to_string(), expected: "at least 1".into() };
        if batch == 0 {
            return Err(Error::config("options", "", check));
        }
        let device = Device::flex().autodiff();
        let config = workload.model(bench);
        let bad = |e| Error::config("bench", "model.", e);
        let init = Stream::root(0);
        let draw = |node: u64, len: usize| {
            let mut values = vec![0.0; len];
            Stream::root(1).fill_normal(node, &mut values);
            values
        };
        let rows = |node: u64, width: usize| {
            Tensor::<2>::from_data(TensorData::new(draw(node, batch * width), [batch, width]), (&device, DType::F32))
        };
        let task = match workload {
            Workload::Toy => Task::Examples {
                model: SdeBnn::new(&config, &[1], 1, init, &device, DType::F32).map_err(bad)?,
                x: rows(0, 1),
                y: Target::Values(rows(1, 1)),
            },
            Workload::Mnist | Workload::Cifar10 => {
                let shape = if workload == Workload::Mnist { [1, 28, 28] } else { [3, 32, 32] };
                let classes: Vec<i64> = (0..batch as i64).map(|i| i % 10).collect();
                let classes = Tensor::<1, Int>::from_data(TensorData::new(classes, [batch]), (&device, DType::I64));
                Task::Examples {
                    model: SdeBnn::new(&config, &shape, 10, init, &device, DType::F32).map_err(bad)?,
                    x: rows(0, shape.iter().product()),
                    y: Target::Classes(classes),
                }
            }
            Workload::Walker2d => {
                let gaps = |frame: u64| {
                    let gaps: Vec<f64> =
                        draw(1000 + frame, batch).iter().map(|v| (1.0 + f64::from(*v > 0.0)) / 64.0).collect();
                    Tensor::<1>::from_data(TensorData::new(gaps, [batch]), (&device, DType::F32))
                };
                let frames = Frames {
                    inputs: (0..FRAMES as u64).map(|i| rows(i, FEATURES)).collect(),
                    gaps: (0..FRAMES as u64).map(gaps).collect(),
                };
                let targets = (0..FRAMES as u64).map(|i| rows(100 + i, FEATURES)).collect();
                Task::Sequences {
                    model: OdeRnn::new(&config, FEATURES, HIDDEN, init, &device, DType::F32).map_err(bad)?,
                    frames,
                    targets: Tensor::stack(targets, 0),
                }
            }
        };
        let (parameters, values) = match &task {
            Task::Examples { model, .. } => Parameters::of(model),
            Task::Sequences { model, .. } => Parameters::of(model),
        };
        let (gradients, adam) = (vec![0.0; values.len()], Adam::new(values.len()));
        Ok(Self { workload, batch, task: Some(task), parameters, values, gradients, adam, step: 0 })
    }

    pub(super) fn batch(&self) -> usize {
        self.batch
    }

    /// Arithmetic of the drift network in one forward pass.
    pub(super) fn forward_flops(&self) -> f64 {
        let (block, gaps) = match &self.task {
            Some(Task::Examples { model, .. }) => (model, 1),
            Some(Task::Sequences { model, .. }) => (&model.block, FRAMES),
            None => return 0.0,
        };
        let solves = (gaps * self.workload.samples() * self.batch) as f64;
        block.flops_per_example() * solves
    }

    fn noise(&mut self) -> Stream {
        self.step += 1;
        Stream::root(2).child(self.step)
    }

    fn loss(workload: Workload, task: &Task, noise: Stream) -> Result<Loss, SolveError> {
        let (_, kl_coef) = workload.training();
        match task {
            Task::Examples { model, x, y } => {
                model.loss(x.clone(), y, kl_coef, &model.brownian(noise, workload.samples()))
            }
            Task::Sequences { model, frames, targets } => {
                let path = &model.block.brownian(noise, 1)[0];
                model.loss(frames, targets.clone(), kl_coef, path)
            }
        }
    }

    fn collect(&mut self, model: &impl Module, gradients: Gradients) {
        self.parameters.add_gradients(model, gradients, 1.0, &mut self.gradients);
    }

    /// Forward, backward, Adam. Returns the loss.
    pub(super) fn train_step(&mut self) -> Result<f64, SolveError> {
        let noise = self.noise();
        let task = self.task.take().expect("a task between steps");
        let loss = Self::loss(self.workload, &task, noise)?;
        let value = loss.total.clone().into_scalar::<f64>();
        self.gradients.fill(0.0);
        let gradients = loss.total.backward();
        match &task {
            Task::Examples { model, .. } => self.collect(model, gradients),
            Task::Sequences { model, .. } => self.collect(model, gradients),
        }
        let factor = match self.workload {
            Workload::Walker2d => (1.0 / norm(&self.gradients)).min(1.0) as f32,
            _ => 1.0,
        };
        let (rate, _) = self.workload.training();
        self.adam.step(rate, factor, &self.gradients, &mut self.values);
        let (parameters, values) = (&self.parameters, &self.values);
        self.task = Some(match task {
            Task::Examples { model, x, y } => Task::Examples { model: parameters.put(values, model), x, y },
            Task::Sequences { model, frames, targets } => {
                Task::Sequences { model: parameters.put(values, model), frames, targets }
            }
        });
        Ok(value)
    }

    /// The same forward pass without gradients.
    pub(super) fn eval_step(&mut self) -> Result<f64, SolveError> {
        let noise = self.noise();
        let plain = |t: &Tensor<2>| t.clone().inner();
        let task = match self.task.as_ref().expect("a task between steps") {
            Task::Examples { model, x, y } => {
                let y = match y {
                    Target::Classes(classes) => Target::Classes(classes.clone().inner()),
                    Target::Values(values) => Target::Values(plain(values)),
                };
                Task::Examples { model: model.valid(), x: plain(x), y }
            }
            Task::Sequences { model, frames, targets } => Task::Sequences {
                model: model.valid(),
                frames: Frames {
                    inputs: frames.inputs.iter().map(plain).collect(),
                    gaps: frames.gaps.iter().map(|g| g.clone().inner()).collect(),
                },
                targets: targets.clone().inner(),
            },
        };
        Ok(Self::loss(self.workload, &task, noise)?.total.into_scalar::<f64>())
    }
}
