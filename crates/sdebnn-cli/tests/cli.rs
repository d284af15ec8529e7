//! The command line as a user meets it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Settings that make a run take a moment.
const TINY: [&str; 8] = [
    "--set",
    "train.epochs=3",
    "--set",
    "train.samples=2",
    "--set",
    "evaluate.samples=4",
    "--set",
    "model.solver.steps=4",
];

fn sdebnn(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sdebnn")).args(arguments).output().expect("the binary runs")
}

fn toy(out: &Path, more: &[&str]) -> Output {
    let out = out.to_str().expect("a path in UTF-8");
    sdebnn(&[&["reproduce", "toy", "--out", out], &TINY[..], more].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// The error of a command that must fail.
#[track_caller]
fn error(output: &Output) -> String {
    assert!(!output.status.success());
    let message = text(&output.stderr);
    assert!(!message.contains("panicked"), "{message}");
    message
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

/// `metrics.jsonl` without its timings.
fn metrics(directory: &Path) -> Vec<Value> {
    let lines = std::fs::read_to_string(directory.join("metrics.jsonl")).expect("metrics");
    let line = |line: &str| {
        let mut row: Value = serde_json::from_str(line).expect("JSON");
        let numbers = row.as_object_mut().expect("an object");
        numbers.remove("seconds").expect("seconds");
        numbers.retain(|key, _| !["seconds", "prediction_ms", "peak_memory_mib"].iter().any(|of| key.ends_with(of)));
        row
    };
    lines.lines().map(line).collect()
}

#[test]
fn help_shows_examples() {
    for arguments in [&["--help"][..], &["reproduce", "--help"], &["report", "--help"]] {
        let output = sdebnn(arguments);
        assert!(output.status.success());
        let help = text(&output.stdout);
        assert!(help.contains("Examples:") && help.contains("  sdebnn re"), "{help}");
    }
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(text(&sdebnn(&["completions", shell]).stdout).contains("reproduce"), "{shell}");
    }
    assert!(error(&sdebnn(&["completions", "dos"])).contains("possible values"));
}

#[test]
fn a_run_writes_its_directory_and_repeats_bit_for_bit() {
    let directory = tempfile::tempdir().expect("a directory");
    let [first, second, other] = ["first", "second", "other"].map(|name| directory.path().join(name));
    for (out, more) in [(&first, &[][..]), (&second, &[]), (&other, &["--seed", "1"])] {
        let output = toy(out, more);
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for model in ["sde-bnn", "nesterov"] {
        let [run, again] = [&first, &second].map(|out| out.join(format!("{model}-fixed-0")));
        for file in ["config.toml", "prediction.svg", "prediction.png"] {
            let bytes = std::fs::read(run.join(file)).expect(file);
            assert!(!bytes.is_empty(), "{file}");
            assert_eq!(bytes, std::fs::read(again.join(file)).expect(file), "{file}");
        }
        let rows = metrics(&run);
        assert_eq!(rows.len(), 3);
        assert_eq!(rows, metrics(&again));
        assert_ne!(rows, metrics(&other.join(format!("{model}-fixed-1"))));
        let results = json(&run.join("summary.json"));
        for key in ["rmse", "nll", "coverage95", "nfe_drift", "seconds", "band_data", "band_gap", "prediction_ms"] {
            assert!(results[key].is_number(), "{model} {key}");
        }
        assert_eq!(results["nfe_drift"], 8.0);
        assert_eq!(results["rmse"], rows[2]["final_rmse"]);
    }
}

#[test]
fn json_is_one_line_of_the_chosen_model() {
    let directory = tempfile::tempdir().expect("a directory");
    let output = toy(&directory.path().join("run"), &["--json", "--model", "nesterov"]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let line = text(&output.stdout);
    assert_eq!(line.lines().count(), 1);
    let runs: Vec<Value> = serde_json::from_str(&line).expect("JSON");
    assert_eq!(runs.len(), 1);
    assert!(runs[0]["model"] == "nesterov" && runs[0]["state"] == "finished" && runs[0]["summary"]["rmse"].is_number());
}

#[test]
fn a_run_of_another_configuration_is_not_overwritten() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("run");
    assert!(toy(&out, &[]).status.success());
    let file = out.join("nesterov-fixed-0/metrics.jsonl");
    let before = std::fs::read(&file).expect("metrics");
    let message = error(&toy(&out, &["--set", "train.learning_rate=0.5"]));
    assert!(message.contains("holds a run with another configuration"), "{message}");
    assert_eq!(before, std::fs::read(&file).expect("metrics"));
    assert!(toy(&out, &[]).status.success(), "the same command is no error");
    assert_eq!(before, std::fs::read(&file).expect("metrics"), "finished runs are not repeated");
}

#[test]
fn bad_settings_are_errors_that_name_the_key() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("run");
    for (setting, parts) in [
        ("train.epoch=3", &["train.epoch", "unknown field", "epochs"][..]),
        ("train.epochs=many", &["train.epochs", "invalid type", "many"]),
        ("train.epochs=0", &["`train.epochs` is 0", "at least 1"]),
        ("train.learning_rate=-1.0", &["`train.learning_rate` is -1.0", "positive"]),
        ("data.gap=[1.0, 9.0]", &["`data.gap` is [1.0, 9.0]", "inside `data.range`"]),
        ("model.solver.steps=0", &["`model.solver.steps` is 0"]),
        ("model.weights.sigma=-0.1", &["`model.weights.sigma` is -0.1"]),
        ("model.dynamics.squash=relu", &["`model.solver.t0`", "infinite"]),
        ("model.dynamics.kind=newton", &["model.dynamics", "unknown variant `newton`", "nesterov"]),
        ("model.likelihood.kind=categorical", &["model.likelihood"]),
        ("data.name=parabola", &["data.name", "unknown variant `parabola`", "curve"]),
        ("epochs", &["expected key=value"]),
    ] {
        let message = error(&toy(&out, &["--set", setting]));
        assert!(parts.iter().all(|part| message.contains(part)), "{setting}: {message}");
    }
    assert!(!out.exists(), "nothing is written before the configuration is checked");
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "kept").expect("a file");
    let message = error(&toy(&file.join("run"), &[]));
    assert!(message.contains("cannot make") && message.contains("file"), "{message}");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "kept");
}

#[test]
fn a_diverging_run_says_where_and_what_to_try() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = ["--model", "sde-bnn", "--set", "train.learning_rate=1e30"];
    let out = directory.path().join("run");
    let message = error(&toy(&out, &settings));
    let said = |message: &str| {
        message.contains("training, epoch") && message.contains("not finite") && message.contains("try")
    };
    assert!(said(&message) && message.contains("1 of 1 runs failed"), "{message}");
    assert!(said(&std::fs::read_to_string(out.join("sde-bnn-fixed-0/failure.txt")).expect("the reason")));
}

#[test]
fn bench_step_prints_measurements_of_every_workload() {
    for workload in ["toy", "mnist", "walker2d"] {
        for engine in ["auto", "reference"] {
            if (workload, engine) == ("walker2d", "reference") {
                continue; // 6400 small operations forward: minutes in all, and nothing new
            }
            let arguments = ["--workload", workload, "--model", "nesterov", "--engine", engine];
            let output = sdebnn(
                &[&["bench", "step", "--batch", "1", "--steps", "1", "--threads", "2", "--json"], &arguments[..]]
                    .concat(),
            );
            assert!(output.status.success(), "{}", text(&output.stderr));
            let times: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
            for key in
                ["train_step_s_median", "train_step_s_min", "eval_step_s_median", "first_loss", "second_loss", "gflops"]
            {
                assert!(times[key].as_f64().is_some_and(f64::is_finite), "{workload} {engine} {key}");
            }
            assert_eq!(times["workload"], workload);
            assert_eq!(times["threads"], 2);
        }
    }
    assert!(
        error(&sdebnn(&["bench", "step", "--workload", "toy", "--model", "nesterov", "--batch", "0"]))
            .contains("--batch")
    );
}

#[test]
fn bench_solve_shows_what_precision_costs() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().to_str().expect("a path in UTF-8");
    let output =
        sdebnn(&["bench", "solve", "--workload", "toy", "--batch", "2", "--paths", "2", "--out", out, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let points: Vec<Value> = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    let rows = text(&std::fs::read(directory.path().join("work-precision.csv")).expect("a file")).lines().count();
    assert_eq!(rows, points.len() + 1);
    for model in ["sde-bnn", "nesterov"] {
        for axis in ["evaluations", "seconds"] {
            for kind in ["svg", "png"] {
                assert!(directory.path().join(format!("work-precision-{model}-{axis}.{kind}")).is_file());
            }
        }
        for controller in ["fixed", "step-doubling", "embedded"] {
            let of = |p: &&Value| p["model"] == model && p["method"] == "midpoint" && p["controller"] == controller;
            let points: Vec<&Value> = points.iter().filter(of).collect();
            let number = |i: usize, key: &str| points[i][key].as_f64().expect("a number");
            assert!(number(5, "evaluations") > number(0, "evaluations"), "{model} {controller}");
            assert!(number(5, "error") < number(0, "error"), "{model} {controller}");
        }
    }
}

#[test]
fn both_engines_train_alike() {
    let directory = tempfile::tempdir().expect("a directory");
    let losses = ["fused", "reference"].map(|engine| {
        let out = directory.path().join(engine);
        let output = toy(&out, &["--set", &format!("model.solver.engine={engine}")]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        metrics(&out.join("nesterov-fixed-0"))
            .iter()
            .map(|row| row["loss"].as_f64().expect("a loss"))
            .collect::<Vec<_>>()
    });
    for (fused, reference) in losses[0].iter().zip(&losses[1]) {
        assert!((fused - reference).abs() < 1e-3 * reference.abs(), "{fused} {reference}");
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = ["1", "2", "7"].map(|threads| {
        let out = directory.path().join(threads);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sdebnn"));
        command.args(["reproduce", "toy", "--out"]).arg(&out).args(TINY).args(["--threads", threads]);
        assert!(command.output().expect("the binary runs").status.success());
        ["sde-bnn-fixed-0", "nesterov-fixed-0"].map(|run| metrics(&out.join(run)))
    });
    assert_eq!(runs[0], runs[1]);
    assert_eq!(runs[0], runs[2]);
}
