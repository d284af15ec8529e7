//! Sequences from the command line: training on drawn walks and on a user's own files, exact resumption, forecasts, bad files.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{contents, fails, same, succeeds, text};
use serde_json::Value;
use tempfile::TempDir;

/// Short walks and a network so small that a run takes about a second.
const SETTINGS: [&str; 10] = [
    "data.limit=12",
    "data.length=60",
    "data.window=10",
    "data.stride=5",
    "train.epochs=4",
    "train.batch=16",
    "train.schedule.warmup=3",
    "train.checkpoint_every=3",
    "recurrent.hidden=6",
    "model.drift.hidden=[6]",
];

fn sdebnn() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdebnn"));
    command.env_remove("SDEBNN_DATA");
    command
}

fn command(out: &Path, more: &[&str]) -> Command {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/walks.toml");
    let mut command = sdebnn();
    command.arg("train").arg(config).arg("--out").arg(out);
    for setting in SETTINGS {
        command.args(["--set", setting]);
    }
    command.args(more);
    command
}

fn train(out: &Path, more: &[&str]) -> Output {
    command(out, more).output().expect("the binary runs")
}

fn evaluate(run: &Path, more: &[&str]) -> Output {
    sdebnn().arg("eval").arg(run).args(more).output().expect("the binary runs")
}

fn metrics(run: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(run.join("metrics.jsonl")).expect("metrics");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn the_loss_falls_and_a_run_that_is_killed_ends_as_if_it_never_had_been() {
    let directory = TempDir::new().unwrap();
    let (whole, killed) = (directory.path().join("whole"), directory.path().join("killed"));
    let epochs = ["--set", "train.epochs=50"];
    succeeds(&train(&whole, &epochs));
    let rows = metrics(&whole);
    let number = |epoch: usize, key: &str| rows[epoch][key].as_f64().expect("a number");
    for key in ["loss", "test_mse"] {
        assert!(number(49, key) < 0.5 * number(0, key), "{key}: {} from {}", number(49, key), number(0, key));
    }
    assert!(number(49, "test_mse") < number(49, "test_no_change"));
    assert_eq!(number(0, "test_no_change"), number(49, "test_no_change"));
    assert_eq!(number(0, "test_nfe_drift_per_sequence"), 10.0 * number(0, "test_nfe_drift"));

    for epochs_before in [1, 8] {
        let mut command = command(&killed, &[&epochs[..], &["--resume"]].concat());
        let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let lines = || std::fs::read_to_string(killed.join("metrics.jsonl")).map_or(0, |text| text.lines().count());
        while lines() < epochs_before && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(child.try_wait().unwrap().is_none(), "too fast to be killed");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    succeeds(&train(&killed, &[&epochs[..], &["--resume", "--threads", "3"]].concat()));
    same(&contents(&killed), &contents(&whole));
}

#[test]
fn adaptive_steps_are_remembered_across_batches_and_across_a_stop() {
    let directory = TempDir::new().unwrap();
    let (whole, parts) = (directory.path().join("whole"), directory.path().join("parts"));
    let settings = ["--set", "model.solver.controller=embedded", "--set", "train.epochs=3"];
    succeeds(&train(&whole, &settings));
    let rows = metrics(&whole);
    assert!(rows.iter().all(|row| row["accepted"].as_f64() > Some(0.0) && row["skipped"] == 0.0));
    let mut child = command(&parts, &settings).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    while !parts.join("metrics.jsonl").exists() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    succeeds(&train(&parts, &[&settings[..], &["--resume", "--threads", "1"]].concat()));
    same(&contents(&parts), &contents(&whole));

    let nfe = |settings: &[&str]| {
        let output = evaluate(&whole, &[settings, &["--json", "--samples", "2"]].concat());
        succeeds(&output);
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["nfe_drift"].as_f64().unwrap()
    };
    let fixed = nfe(&["--set", "model.solver.controller=fixed", "--set", "model.solver.steps=7"]);
    assert_eq!(fixed, 14.0);
    assert!(nfe(&[]) < nfe(&["--set", "model.solver.controller=step-doubling"]));
}

#[test]
fn a_trained_run_is_evaluated_and_forecasts() {
    let directory = TempDir::new().unwrap();
    let run = directory.path().join("run");
    let output = train(&run, &["--json"]);
    succeeds(&output);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let norms = std::fs::read(run.join("gradient_norms.csv")).unwrap();
    assert_eq!(text(&norms).lines().count(), 1 + 10);
    let found: Value = serde_json::from_slice(&evaluate(&run, &["--json"]).stdout).unwrap();
    for key in ["mse", "no_change", "nfe_drift", "nfe_drift_per_sequence", "samples"] {
        assert_eq!(found[key], summary[key], "{key}");
    }
    assert_eq!(std::fs::read(run.join("gradient_norms.csv")).unwrap(), norms);
    succeeds(&evaluate(&run, &["--split", "validation", "--samples", "2"]));

    let out = directory.path().join("forecast");
    let forecast = |window: &str| {
        let out = out.to_str().expect("UTF-8");
        evaluate(&run, &["--forecast", "70", "--samples", "3", "--window", window, "--out", out])
    };
    succeeds(&forecast("1"));
    for file in ["forecast.csv", "forecast.svg", "forecast.png"] {
        assert!(out.join(file).is_file(), "{file}");
    }
    let table = std::fs::read_to_string(out.join("forecast.csv")).unwrap();
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), (10 + 70) * 17);
    let mut known = 0;
    for row in &rows[10 * 17..] {
        let number = |i: usize| row[i].parse::<f64>().expect("a number");
        assert!(number(5) <= number(4) && number(4) <= number(6), "{row:?}");
        known += usize::from(!row[3].is_empty());
    }
    // A walk of 60 frames ends before the forecast does.
    let first: usize = rows[10 * 17][0].parse().unwrap();
    assert_eq!(known, (60 - first) * 17);
    fails(&forecast("1000"), &["--window", "a window of the test set, 0 to"]);
    fails(&evaluate(&run, &["--forecast", "0"]), &["--forecast"]);
}

#[test]
fn adaptive_steps_train() {
    let directory = TempDir::new().unwrap();
    let run = directory.path().join("run");
    let adaptive = ["model.solver.controller=step-doubling", "train.epochs=1", "data.limit=4", "train.samples=2"];
    let more: Vec<&str> = adaptive.iter().flat_map(|setting| ["--set", setting]).collect();
    succeeds(&train(&run, &more));
    let row = &metrics(&run)[0];
    // Three steps of two evaluations an attempt.
    assert_eq!(row["nfe_drift"].as_f64().unwrap(), 6.0 * row["attempts"].as_f64().unwrap());
    assert!(row["attempts"].as_f64().unwrap() > 1.0 && row["kl"].as_f64().unwrap() >= 0.0);
}

/// An npy file of version 1.
fn npy(header: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{header}\n");
    [&b"\x93NUMPY\x01\0"[..], &(header.len() as u16).to_le_bytes(), header.as_bytes(), data].concat()
}

fn recording(len: usize, features: usize, phase: f64) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({len}, {features}), }}");
    let value = |i: usize| (0.3 * (i / features) as f64 + (i % features) as f64 + phase).sin() as f32;
    npy(&header, &(0..len * features).flat_map(|i| value(i).to_le_bytes()).collect::<Vec<_>>())
}

/// A folder with eight recordings of two features.
fn folder(directory: &Path) -> PathBuf {
    let folder = directory.join("mine");
    std::fs::create_dir(&folder).unwrap();
    for i in 0..8 {
        std::fs::write(folder.join(format!("{i}.npy")), recording(40 + i, 2, i as f64)).unwrap();
    }
    folder
}

#[test]
fn a_folder_of_the_users_own_files_is_trained_on() {
    let directory = TempDir::new().unwrap();
    let (mine, run) = (folder(directory.path()), directory.path().join("run"));
    let mine = mine.to_str().expect("UTF-8");
    succeeds(&train(&run, &["--set", "data.name=npy", "--data", mine]));
    succeeds(&evaluate(&run, &["--data", mine, "--forecast", "5"]));
    assert!(run.join("forecast.png").is_file());
    // The folder may also stand in the configuration.
    let other = directory.path().join("other");
    succeeds(&train(&other, &["--set", "data.name=npy", "--set", &format!("data.dir={mine}")]));
    succeeds(&evaluate(&other, &[]));
}

#[test]
fn bad_files_are_refused_with_their_reason() {
    let directory = TempDir::new().unwrap();
    let (mine, run) = (folder(directory.path()), directory.path().join("run"));
    let attempt = |more: &[&str]| {
        let data = ["--resume", "--set", "data.name=npy", "--data", mine.to_str().expect("UTF-8")];
        train(&run, &[&data, more].concat())
    };
    let header = |descr: &str, shape: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}");
    let good = recording(40, 2, 0.0);
    let zeros = [0; 80 * 8];
    let nan = [vec![0; 79 * 8], f64::NAN.to_le_bytes().to_vec()].concat();
    let cases: [(Vec<u8>, &[&str]); 12] = [
        (b"PK\x03\x04 a zip".to_vec(), &["at byte 0", "NUMPY"]),
        (Vec::new(), &["at byte 0", "NUMPY"]),
        (b"\x93NUMPY\x09\0".to_vec(), &["version 9.0"]),
        (good[..good.len() - 1].to_vec(), &["the end of the file", "320 bytes"]),
        ([&good[..], b"!"].concat(), &["more bytes"]),
        (npy(&header("'|O'", "(40, 2)"), &zeros), &["the type '|O'", "'<f8'"]),
        (npy(&header("'<i8'", "(40, 2)"), &zeros), &["the type '<i8'"]),
        (npy(&header("'<f8'", "(80,)"), &zeros), &["the shape [80]", "two dimensions"]),
        (npy(&header("'<f8'", "(40, 2, 1)"), &zeros), &["two dimensions"]),
        (npy(&header("'<f8'", "(40, 2)"), &nan), &["NaN", "a finite number"]),
        (recording(40, 3, 0.0), &["3 features", "2, like the files before it"]),
        (recording(9, 2, 0.0), &["is too short: 9 frames", "at least 11", "data.window"]),
    ];
    for (bytes, parts) in cases {
        std::fs::write(mine.join("z.npy"), bytes).unwrap();
        fails(&attempt(&[]), &[&["z.npy"], parts].concat());
    }
    assert!(!run.join("checkpoints").exists());
    std::fs::remove_file(mine.join("z.npy")).unwrap();
    for i in 2..8 {
        std::fs::remove_file(mine.join(format!("{i}.npy"))).unwrap();
    }
    fails(&attempt(&[]), &["2 sequences", "at least 3", "data.validation"]);
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    fails(&attempt(&["--set", "data.name=walker2d"]), &["another configuration"]);
    let npy = ["--set", "data.name=npy", "--data", empty.to_str().expect("UTF-8")];
    fails(&train(&directory.path().join("none"), &npy), &["no files *.npy in", "data.dir"]);
}

#[test]
fn bad_settings_are_named() {
    let directory = TempDir::new().unwrap();
    let run = directory.path().join("run");
    let with = |setting: &str| train(&run, &["--set", setting]);
    fails(&with("data.name=imagenet"), &["data.name", "imagenet", "mnist, cifar10, digits, walker2d, npy, walks"]);
    fails(&with("data.drop=1"), &["data.drop"]);
    fails(&with("data.window=0"), &["data.window", "at least 1"]);
    fails(&with("data.test=0.95"), &["data.test", "leaves some to train on"]);
    fails(&with("data.augmentation=true"), &["unknown field `augmentation`"]);
    fails(&with("model.augment=2"), &["model.augment", "0 for sequences"]);
    fails(&with("model.likelihood.kind=categorical"), &["model.likelihood", "squared-error"]);
    fails(&with("model.head={kind='linear'}"), &["model.head", "first"]);
    assert!(!run.exists());
}

#[test]
fn the_papers_experiment_runs_without_its_data() {
    let directory = TempDir::new().unwrap();
    let mut command = sdebnn();
    command.current_dir(directory.path()).args(["reproduce", "walker2d", "--budget", "smoke", "--solver", "both"]);
    for setting in ["data.length=40", "data.window=8", "recurrent.hidden=4", "model.drift.hidden=[4]"] {
        command.args(["--set", setting]);
    }
    let output = command.output().expect("the binary runs");
    succeeds(&output);
    assert!(text(&output.stderr).contains("drawn walks stand in"), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for title in ["SDE-BNN, fixed", "Nesterov-SDEBNN, adaptive"] {
        assert!(table.contains(title), "{table}");
    }
    let root = directory.path().join("runs/walker2d-smoke");
    for file in ["report.html", "tables/walker2d-results.csv", "nesterov-adaptive-0/summary.json"] {
        assert!(root.join(file).is_file(), "{file}");
    }
    // Two models, two solvers, two epochs, and a header.
    let metrics = std::fs::read_to_string(root.join("tables/walker2d-metrics.csv")).unwrap();
    assert_eq!(metrics.lines().count(), 1 + 8);
}
