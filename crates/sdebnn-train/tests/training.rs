//! The trainer on drawn digits: what its settings mean, seen in the parameters they lead to.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use sdebnn::config::{DynamicsConfig, ModelConfig};
use sdebnn_train::checkpoint::{Checkpoint, CheckpointStore};
use sdebnn_train::experiment::ModelName;
use sdebnn_train::experiment::grid::{Budget, Cell, PaperExperiment, SolverName};
use sdebnn_train::experiment::images::{ImagesConfig, ImagesSummary};
use sdebnn_train::experiment::run::Experiment;
use sdebnn_train::trainer::TrainObserver;
use serde_json::{Map, Value};

struct Nobody;

impl TrainObserver for Nobody {
    fn started(&mut self, _: u64, _: u64, _: u64) {}
    fn step(&mut self, _: u64, _: f64, _: f64) {}
    fn epoch(&mut self, _: u64, _: u64, _: &Map<String, Value>) {}
    fn warning(&mut self, message: &str) {
        panic!("{message}");
    }
}

const DIGITS: &str = include_str!("../../../configs/digits.toml");

/// A small classifier with weights that do not move, so that a batch and its parts see the same network.
fn small(settings: &[&str]) -> ImagesConfig {
    let fixed = [
        "data.limit_train=64",
        "data.limit_test=16",
        "data.validation=0",
        "train.batch=32",
        "train.epochs=2",
        "train.schedule.warmup=0",
        "train.kl_coef=0",
        "model.drift.width=4",
        "model.head.hidden=8",
        "model.weights.stochastic=none",
    ];
    let settings: Vec<String> = fixed.iter().chain(settings).map(|s| s.to_string()).collect();
    ImagesConfig::read("configs/digits.toml", DIGITS, &settings).unwrap()
}

fn trained(config: &ImagesConfig, out: &Path) -> (ImagesSummary, Checkpoint) {
    let directory = config.open(out, false).unwrap();
    let summary = config.train(&directory, None, &AtomicBool::new(false), &mut Nobody).unwrap().unwrap();
    let (checkpoint, _) = CheckpointStore::new(&out.join("checkpoints")).unwrap().load_last().unwrap().unwrap();
    (summary, checkpoint)
}

/// All tensors whose names begin with `prefix`, one after the other.
fn numbers(checkpoint: &Checkpoint, prefix: &str) -> Vec<f32> {
    let tensors = checkpoint.tensors.iter().filter(|tensor| tensor.name.starts_with(prefix));
    tensors.flat_map(|tensor| tensor.values.clone()).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    assert!(!a.is_empty() && a.len() == b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_batch_in_parts_leads_where_the_whole_does() {
    let directory = tempfile::tempdir().unwrap();
    // Compared by Adam's first moments, which are linear in the gradients: its steps magnify rounding where a gradient is tiny.
    let (_, whole) = trained(&small(&[]), &directory.path().join("whole"));
    let (_, parts) = trained(&small(&["train.accumulate=5"]), &directory.path().join("parts"));
    let (a, b) = (numbers(&whole, "adam.first."), numbers(&parts, "adam.first."));
    let size = a.iter().fold(0.0f32, |m, v| m.max(v.abs()));
    assert!(distance(&a, &b) < 1e-4 * size, "{} of {size}", distance(&a, &b));
}

#[test]
fn the_moving_average_lags_behind_and_is_what_is_evaluated() {
    let directory = tempfile::tempdir().unwrap();
    let (plain, last) = trained(&small(&[]), &directory.path().join("plain"));
    let (averaged, checkpoint) = trained(&small(&["train.ema=0.5"]), &directory.path().join("averaged"));
    assert_eq!(numbers(&checkpoint, "model."), numbers(&last, "model."));
    assert!(distance(&numbers(&checkpoint, "ema."), &numbers(&checkpoint, "model.")) > 1e-4);
    assert_ne!(plain.nll, averaged.nll);
}

#[test]
fn clipped_gradients_are_smaller() {
    let directory = tempfile::tempdir().unwrap();
    let norm = |name: &str, clip: &str| {
        let (_, checkpoint) = trained(&small(&[&format!("train.clip_norm={clip}")]), &directory.path().join(name));
        let moments = numbers(&checkpoint, "adam.first.");
        moments.iter().map(|v| v * v).sum::<f32>().sqrt()
    };
    // After 4 steps, ‖m‖ is at most (1 − 0.9⁴) times the largest norm.
    let clipped = norm("clipped", "0.01");
    assert!(clipped <= 0.01 * 0.344 && norm("free", "0") > 10.0 * clipped, "{clipped}");
}

#[test]
fn every_configuration_of_the_paper_can_be_used() {
    for budget in [Budget::Smoke, Budget::Quick, Budget::Paper] {
        for experiment in PaperExperiment::ALL {
            for &solver in experiment.solvers() {
                for stands_in in [false, true] {
                    let cell = |model| Cell { model, solver, seed: 3 };
                    let of = |model| experiment.config(budget, cell(model), &[], stands_in).unwrap();
                    let (first, second) = (of(ModelName::SdeBnn), of(ModelName::Nesterov));
                    for (config, model) in [(&first, ModelName::SdeBnn), (&second, ModelName::Nesterov)] {
                        assert_eq!(ModelName::of(&config.model().dynamics), Some(model));
                        assert_eq!(SolverName::of(config.model().solver.controller), solver);
                        assert_eq!((config.paper(), config.seed()), (Some(experiment), 3));
                        assert!(config.seconds(1e11) > 1.0);
                    }
                    let [a, b] = [&first, &second].map(|config| ModelConfig {
                        dynamics: DynamicsConfig::FirstOrder {},
                        ..config.model().clone()
                    });
                    assert_eq!(a, b, "the models differ in their dynamics alone");
                }
            }
        }
    }
}
