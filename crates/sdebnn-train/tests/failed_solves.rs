//! Batches whose solve fails: the run stops, or goes on without them.

use std::sync::atomic::AtomicBool;

use sdebnn::SolveError;
use sdebnn::burn::module::Param;
use sdebnn::burn::tensor::{DType, Device, Tensor, TensorData};
use sdebnn::mlp::{Affine, Mlp};
use sdebnn::model::Loss;
use sdebnn::nfe::Nfe;
use sdebnn::random::Stream;
use sdebnn_train::Error;
use sdebnn_train::run_directory::RunDirectory;
use sdebnn_train::trainer::{Evaluation, MeanNfe, Outcome, Split, Task, TrainConfig, TrainObserver, Trainer};
use serde_json::{Map, Value};

/// Learns one number; the solve of some batches fails.
struct OneNumber {
    fails: fn(u64) -> bool,
}

const STEPS: u64 = 6;

fn scalar(value: f32, device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(vec![value], [1]), (device, DType::F32))
}

impl Task for OneNumber {
    type Model = Mlp;
    type Batch = u64;

    fn model(&self) -> Result<Mlp, Error> {
        let device = Device::flex().autodiff();
        let weight = Param::from_tensor(scalar(0.0, &device).reshape([1, 1]));
        Ok(Mlp { layers: vec![Affine { weight, bias: Param::from_tensor(scalar(0.0, &device)) }] })
    }

    fn steps_per_epoch(&self) -> u64 {
        STEPS
    }

    fn batches(&self, first: u64) -> Box<dyn Iterator<Item = u64>> {
        Box::new(first..)
    }

    fn cut(&self, batch: u64, _: usize) -> Vec<(f64, u64)> {
        vec![(1.0, batch)]
    }

    fn loss(&self, model: &Mlp, batch: &u64, _: f64, _: Stream) -> Result<Loss, SolveError> {
        if (self.fails)(*batch) {
            return Err(SolveError::TooManySteps { t: 0.5, attempts: 7 });
        }
        let layer = &model.layers[0];
        let value = layer.weight.val().reshape([1]) + layer.bias.val();
        let total = (value - 1.0).square();
        let kl = total.zeros_like();
        Ok(Loss { nll: total.clone(), kl, nfe: Nfe::default(), solves: 1, first_step: None, total })
    }

    fn remember(&self, model: Mlp, _: Option<f64>) -> Mlp {
        model
    }

    fn solves(&self) -> usize {
        1
    }

    fn has_validation(&self) -> bool {
        false
    }

    fn evaluate(&self, _: &Mlp, _: Split, _: usize, _: &AtomicBool) -> Result<Option<Evaluation>, SolveError> {
        Ok(Some(Evaluation { score: 0.0, values: Vec::new(), nfe: MeanNfe::default() }))
    }

    fn curve_values(&self, _: &[f64]) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

#[derive(Default)]
struct Listener {
    warnings: Vec<String>,
    skipped: Vec<f64>,
}

impl TrainObserver for Listener {
    fn started(&mut self, _: u64, _: u64, _: u64) {}
    fn step(&mut self, _: u64, _: f64, _: f64) {}
    fn epoch(&mut self, _: u64, _: u64, metrics: &Map<String, Value>) {
        self.skipped.extend(metrics["skipped"].as_f64());
    }
    fn warning(&mut self, message: &str) {
        self.warnings.push(message.into());
    }
}

fn run(fails: fn(u64) -> bool, policy: &str) -> (Result<f32, String>, Listener) {
    let config = format!(
        "epochs = 2\nbatch = 1\nlearning_rate = 0.1\nkl_coef = 0.0\nsamples = 1\nfailed_solve = \"{policy}\"\n"
    );
    let config: TrainConfig = toml::from_str(&config).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (directory, stop) = (RunDirectory::make(directory.path()).unwrap(), AtomicBool::new(false));
    let (task, mut listener) = (OneNumber { fails }, Listener::default());
    let trainer = Trainer {
        task: &task,
        config: &config,
        noise: Stream::root(0),
        samples: 1,
        directory: &directory,
        stop: &stop,
    };
    let result = match trainer.run(&mut listener) {
        Ok(Outcome::Finished { model, .. }) => Ok(model.layers[0].weight.val().into_scalar()),
        Ok(Outcome::Interrupted { .. }) => panic!("nothing stops the run"),
        Err(error) => Err(error.to_string()),
    };
    (result, listener)
}

#[test]
fn a_failed_solve_ends_a_run_unless_batches_may_be_skipped() {
    let (result, _) = run(|batch| batch == 3, "stop");
    assert!(result.unwrap_err().contains("7 attempts"));
    let (result, listener) = run(|batch| batch == 3 || batch == 8 || batch == 9, "skip");
    let (whole, _) = run(|_| false, "stop");
    assert_eq!(listener.skipped, [1.0, 2.0]);
    assert_eq!(listener.warnings.len(), 3);
    assert!(listener.warnings[0].ends_with("the batch is skipped"), "{}", listener.warnings[0]);
    // Twelve steps of about 0.1 without the three that were skipped.
    let (skipped, whole) = (result.unwrap(), whole.unwrap());
    assert!(skipped > 0.1 && skipped < whole, "{skipped} {whole}");
}

#[test]
fn an_epoch_without_a_step_is_an_error() {
    let (result, _) = run(|batch| batch >= STEPS, "skip");
    assert!(result.unwrap_err().contains("every batch of epoch 2 failed"));
}
