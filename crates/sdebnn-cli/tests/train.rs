//! Training from the command line: exact resumption, threads, and what a user may get wrong.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::{contents, fails, same, succeeds, text};
use serde_json::Value;
use tempfile::TempDir;

/// Drawn digits and a network so small that a run takes about a second.
const SETTINGS: [&str; 14] = [
    "data.limit_train=200",
    "data.limit_test=40",
    "data.validation=40",
    "train.epochs=3",
    "train.batch=16",
    "train.schedule.warmup=3",
    "train.ema=0.9",
    "train.clip_norm=0.5",
    "train.kl_warmup=2",
    "train.accumulate=2",
    "train.checkpoint_every=3",
    "evaluate.samples=2",
    "model.drift.width=4",
    "model.head.hidden=8",
];

fn config() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs/digits.toml")
}

fn command(out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdebnn"));
    command.env_remove("SDEBNN_DATA").arg("train").arg(config()).arg("--out").arg(out);
    for setting in SETTINGS {
        command.args(["--set", setting]);
    }
    command.args(more);
    command
}

fn train(out: &Path, more: &[&str]) -> Output {
    command(out, more).output().expect("the binary runs")
}

#[test]
fn a_run_that_is_killed_again_and_again_ends_as_if_it_never_had_been() {
    let directory = TempDir::new().unwrap();
    let (whole, killed) = (directory.path().join("whole"), directory.path().join("killed"));
    let start = std::time::Instant::now();
    succeeds(&train(&whole, &[]));
    let duration = start.elapsed();
    let expected = contents(&whole);
    assert!(expected.contains_key("summary.json") && expected.contains_key("checkpoints/best.safetensors"));

    // Early moments first: the machine may be faster than it was for the whole run. Later runs get further by going on.
    let mut kills = 0;
    for share in [5, 10, 20, 15, 30, 25, 40, 60, 80, 95] {
        if !common::killed(&mut command(&killed, &["--resume"]), duration * share / 100) {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 2, "too fast to be killed");
    succeeds(&train(&killed, &["--resume"]));
    same(&contents(&killed), &expected);
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let directory = TempDir::new().unwrap();
    let (whole, stopped) = (directory.path().join("whole"), directory.path().join("stopped"));
    succeeds(&train(&whole, &[]));
    for signal in ["-INT", "-TERM"] {
        let resumed = stopped.exists();
        let mut child = command(&stopped, &["--resume"]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut message = String::new();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        if resumed {
            lines.read_line(&mut message).unwrap();
            assert!(message.contains("going on at step"), "{message}");
        }
        // As soon as there is a checkpoint, a step has been taken.
        while !stopped.join("checkpoints/step-00000003.safetensors").exists() && !resumed {
            std::thread::sleep(Duration::from_millis(5));
        }
        let kill = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        lines.read_to_string(&mut message).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{message}");
        assert!(message.contains("to go on:") && message.contains("--resume"), "{message}");
    }
    succeeds(&train(&stopped, &["--resume"]));
    same(&contents(&stopped), &contents(&whole));
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let run = |threads: &str| {
        let out = directory.path().join(threads);
        succeeds(&train(&out, &["--threads", threads]));
        contents(&out)
    };
    let one = run("1");
    same(&run("2"), &one);
    same(&run("7"), &one);
}

#[test]
fn a_damaged_checkpoint_is_named_and_the_one_before_is_used() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("run");
    succeeds(&train(&out, &[]));
    let expected = contents(&out);
    let last = out.join("checkpoints/step-00000030.safetensors");
    let bytes = std::fs::read(&last).unwrap();
    std::fs::write(&last, &bytes[..bytes.len() / 2]).unwrap();
    let output = train(&out, &["--resume"]);
    succeeds(&output);
    assert!(text(&output.stderr).contains("step-00000030.safetensors is damaged"), "{}", text(&output.stderr));
    same(&contents(&out), &expected);

    for name in ["step-00000027.safetensors", "step-00000030.safetensors"] {
        std::fs::write(out.join("checkpoints").join(name), "").unwrap();
    }
    fails(&train(&out, &["--resume"]), &["no usable checkpoint", "step-00000030.safetensors is empty", "remove them"]);
}

#[test]
fn a_trained_run_is_evaluated() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("run");
    let output = train(&out, &["--json"]);
    succeeds(&output);
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let evaluate = |more: &[&str]| {
        let run = Command::new(env!("CARGO_BIN_EXE_sdebnn")).arg("eval").arg(&out).args(more).output();
        run.expect("the binary runs")
    };
    let found: Value = serde_json::from_slice(&evaluate(&["--json"]).stdout).unwrap();
    for key in ["accuracy", "nll", "brier", "ece", "nfe_drift"] {
        assert_eq!(found[key], summary[key], "{key}");
    }
    assert_eq!(found["reliability"].as_array().unwrap().len(), 15);
    let found: Value = serde_json::from_slice(&evaluate(&["--json", "--split", "validation"]).stdout).unwrap();
    assert_eq!((&found["split"], &found["count"]), (&"validation".into(), &40.into()));
    let output = evaluate(&["--samples", "2"]);
    succeeds(&output);
    assert!(text(&output.stdout).contains("40 test images, 2 weight paths"), "{}", text(&output.stdout));
    fails(
        &Command::new(env!("CARGO_BIN_EXE_sdebnn")).arg("eval").arg(directory.path()).output().unwrap(),
        &["cannot read", "config.toml"],
    );
}

#[test]
fn a_directory_with_a_run_is_not_overwritten() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("run");
    succeeds(&train(&out, &[]));
    let before = contents(&out);
    fails(&train(&out, &[]), &["holds a run of this configuration", "--resume"]);
    fails(&train(&out, &["--resume", "--set", "train.batch=8"]), &["another configuration", "--out"]);
    same(&contents(&out), &before);
    // A finished run that is resumed is evaluated again and stays as it is.
    succeeds(&train(&out, &["--resume"]));
    same(&contents(&out), &before);
}

#[test]
fn training_that_leaves_the_numbers_stops_with_advice() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("run");
    let output = train(&out, &["--set", "train.learning_rate=1e30", "--set", "train.schedule.warmup=0"]);
    let message = text(&output.stderr);
    assert!(!output.status.success() && !message.contains("panicked"), "{message}");
    assert!(message.contains("not finite") || message.contains("NaN"), "{message}");
}

#[test]
fn bad_configurations_and_data_are_named() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("run");
    fails(&train(&out, &["--set", "train.epoch=3"]), &["--set train.epoch=3", "unknown field `epoch`"]);
    fails(&train(&out, &["--set", "train.batch=0"]), &["train.batch", "at least 1"]);
    fails(&train(&out, &["--set", "data.validation=200"]), &["data.validation", "fewer than the 200 training images"]);
    fails(&train(&out, &["--set", "model.weights.sigma=-1.0"]), &["model.weights.sigma", "a positive number"]);
    assert!(!out.join("checkpoints").exists());

    let data = directory.path().join("data");
    let mnist = |data: &Path| {
        let (other, data) = (directory.path().join("mnist-run"), data.to_str().expect("UTF-8"));
        train(&other, &["--resume", "--data", data, "--set", "data.name=mnist", "--set", "data.validation=0"])
    };
    fails(&mnist(&data), &["MNIST", "sdebnn data fetch mnist", "--data DIR"]);
    let folder = data.join("mnist");
    std::fs::create_dir_all(&folder).unwrap();
    let header = |magic: u32, sizes: &[u32]| -> Vec<u8> {
        [&[magic], sizes].concat().iter().flat_map(|word| word.to_be_bytes()).collect()
    };
    let images = [header(0x803, &[2, 28, 28]), vec![0; 2 * 784]].concat();
    for (images_name, labels_name) in
        [("train-images-idx3-ubyte", "train-labels-idx1-ubyte"), ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")]
    {
        std::fs::write(folder.join(images_name), &images).unwrap();
        std::fs::write(folder.join(labels_name), [header(0x801, &[2]), vec![1, 2]].concat()).unwrap();
    }
    let file = folder.join("train-images-idx3-ubyte");
    std::fs::write(&file, &images[..1000]).unwrap();
    fails(&mnist(&data), &["train-images-idx3-ubyte", "at byte", "expected"]);
    std::fs::write(&file, [header(0x803, &[2, 28, 27]), vec![0; 2 * 784]].concat()).unwrap();
    fails(&mnist(&data), &["train-images-idx3-ubyte", "27", "28"]);
}

#[cfg(unix)]
#[test]
fn disks_that_are_full_and_directories_that_cannot_be_made_lose_nothing() {
    let directory = TempDir::new().unwrap();
    let blocked = directory.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    fails(&train(&blocked.join("run"), &[]), &["cannot make", "file/run"]);

    // A limit on the size of files answers as a full disk does. The first checkpoints fit, what is written later does not.
    let out = directory.path().join("run");
    let program = env!("CARGO_BIN_EXE_sdebnn");
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"", program]);
    limited.args(command(&out, &[]).get_args());
    fails(&limited.output().unwrap(), &["cannot write the checkpoint", "step-00000003.safetensors", "then resume"]);
    let left: Vec<_> = std::fs::read_dir(out.join("checkpoints")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    succeeds(&train(&out, &["--resume"]));
}

#[test]
fn an_experiment_of_the_paper_runs_without_its_data_and_is_not_repeated() {
    let directory = TempDir::new().unwrap();
    let reproduce = |experiment: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sdebnn"));
        command.env_remove("SDEBNN_DATA").current_dir(directory.path());
        let small = ["--set", "model.drift.width=4", "--set", "model.head.hidden=8", "--set", "train.batch=32"];
        command
            .args(["reproduce", experiment, "--budget", "smoke"])
            .args(small)
            .args(more)
            .output()
            .expect("the binary runs")
    };
    succeeds(&reproduce("cifar10", &["--model", "nesterov", "--solver", "fixed"]));
    let output = reproduce("mnist", &["--solver", "fixed"]);
    succeeds(&output);
    assert!(text(&output.stderr).contains("drawn digits stand in"), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("SDE-BNN, fixed ") && table.contains("Nesterov-SDEBNN, fixed "), "{table}");
    let path = directory.path().join("runs/mnist-smoke/nesterov-fixed-0/summary.json");
    let (written, when) = (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap().modified().unwrap());
    let again: Value = serde_json::from_slice(&reproduce("mnist", &["--solver", "fixed", "--json"]).stdout).unwrap();
    assert_eq!(again[0]["summary"], serde_json::from_slice::<Value>(&written).unwrap());
    assert_eq!(when, std::fs::metadata(&path).unwrap().modified().unwrap());
}

#[test]
fn data_sets_are_listed_and_checked() {
    let directory = TempDir::new().unwrap();
    let data = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sdebnn"));
        command.env_remove("SDEBNN_DATA").current_dir(directory.path()).arg("data").args(arguments);
        command.output().expect("the binary runs")
    };
    let output = data(&["list"]);
    succeeds(&output);
    for name in ["mnist", "cifar10", "walker2d"] {
        assert!(text(&output.stdout).contains(&format!("{name:<9} not in data")), "{}", text(&output.stdout));
    }
    let lines = text(&data(&["list", "--json"]).stdout);
    assert!(lines.lines().all(|line| serde_json::from_str::<Value>(line).unwrap()["complete"] == false), "{lines}");
    fails(&data(&["verify", "cifar10"]), &["CIFAR-10", "sdebnn data fetch cifar10"]);
    fails(&data(&["fetch", "imagenet"]), &["possible values: mnist, cifar10, walker2d"]);
}
