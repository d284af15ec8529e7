//! `sdebnn reproduce` and `sdebnn report`: every experiment in small, interrupted and not, and the page as a browser shows it.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{fails, succeeds, text};
use serde_json::Value;
use tempfile::TempDir;

fn sdebnn(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdebnn"));
    command.env_remove("SDEBNN_DATA").args(arguments);
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

/// The runs of MNIST in small, on networks so small that a run takes about a second.
fn small(out: &Path, more: &[&str]) -> Command {
    let mut command = sdebnn(&["reproduce", "mnist", "--budget", "smoke", "--solver", "fixed", "--data", "nowhere"]);
    command.arg("--out").arg(out);
    let settings = ["model.drift.width=4", "model.head.hidden=8", "train.batch=16", "train.checkpoint_every=2"];
    command.args(settings.iter().flat_map(|setting| ["--set", setting])).args(more);
    command
}

/// All files of a report, without what depends on the machine.
fn report(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for path in ["report.html", "figures", "tables"].map(|name| out.join(name)) {
        let paths: Vec<PathBuf> = match path.is_dir() {
            true => std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect(),
            false => vec![path],
        };
        for path in paths {
            let name = path.strip_prefix(out).unwrap().display().to_string();
            // Seconds, milliseconds and memory.
            if name.starts_with("tables/cost") {
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            if name == "report.html" {
                bytes = without(&text(&bytes), "<td class=\"machine\">", "</td>").into_bytes();
            } else if name.ends_with("-metrics.csv") {
                let lines = text(&bytes);
                assert!(lines.lines().next().unwrap().ends_with(",seconds"), "{lines}");
                bytes = lines.lines().flat_map(|line| line.rsplit_once(',').unwrap().0.bytes()).collect();
            }
            files.insert(name, bytes);
        }
    }
    files
}

/// A text without what stands between two others.
fn without(text: &str, start: &str, end: &str) -> String {
    let mut parts = text.split(start);
    let first = parts.next().unwrap().to_string();
    parts.fold(first, |all, part| all + part.split_once(end).expect("an end").1)
}

#[test]
fn killed_twice_it_ends_with_the_same_report() {
    let directory = TempDir::new().unwrap();
    let (whole, killed) = (directory.path().join("whole"), directory.path().join("killed"));
    let start = Instant::now();
    succeeds(&run(&mut small(&whole, &[])));
    let duration = start.elapsed();
    let mut kills = 0;
    for share in [10, 20, 30, 40] {
        if !common::killed(&mut small(&killed, &[]), duration * share / 100) {
            break;
        }
        kills += 1;
        // The run that it was making ends with it, and so gives its directory free.
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(kills >= 2, "too fast to be killed");
    succeeds(&run(&mut small(&killed, &["--jobs", "2"])));
    common::same(&report(&killed), &report(&whole));

    // From the run directories alone, to another place.
    let again = directory.path().join("again");
    let output = run(sdebnn(&["report"]).arg(&killed).arg("--out").arg(&again));
    succeeds(&output);
    assert!(text(&output.stdout).contains("report.html"));
    common::same(&report(&again), &report(&whole));
}

#[test]
fn a_plan_is_shown_and_nothing_is_done() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("runs");
    let output = run(&mut small(&out, &["--dry-run", "--seeds", "3"]));
    succeeds(&output);
    let plan = text(&output.stdout);
    assert!(plan.contains("6 runs, 0 finished, 6 to make, in about") && plan.contains("nesterov-fixed-2"), "{plan}");
    let output = run(&mut small(&out, &["--dry-run", "--json"]));
    let plan: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(plan.len() == 2 && plan.iter().all(|run| run["finished"] == false && run["seconds"].is_number()));
    assert!(!out.exists());
    fails(&run(&mut sdebnn(&["reproduce", "toy", "--solver", "adaptive"])), &["no adaptive runs"]);
    fails(&run(sdebnn(&["report"]).arg(directory.path())), &["holds no run"]);
    fails(&run(sdebnn(&["report"]).arg(&out)), &["cannot read", "runs"]);
}

#[test]
fn a_failed_run_is_shown_and_the_others_go_on() {
    let directory = TempDir::new().unwrap();
    let out = directory.path();
    std::fs::create_dir_all(out.join("sde-bnn-fixed-0")).unwrap();
    std::fs::write(out.join("sde-bnn-fixed-0/checkpoints"), "in the way").unwrap();
    fails(&run(&mut small(out, &[])), &["1 of 2 runs failed", "the same command tries them again"]);
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        page.contains("1 of 2 runs failed") && page.contains("failed: cannot") && page.contains("checkpoints"),
        "{page}"
    );
    assert!(page.contains("Nesterov-SDEBNN, fixed"), "{page}");
    let results = std::fs::read_to_string(out.join("tables/mnist-results.csv")).unwrap();
    assert_eq!(results.lines().count(), 2, "{results}");

    std::fs::remove_file(out.join("sde-bnn-fixed-0/checkpoints")).unwrap();
    succeeds(&run(&mut small(out, &[])));
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!page.contains("failed:"), "{page}");
}

#[cfg(unix)]
#[test]
fn asked_to_stop_it_saves_and_goes_on_later() {
    let directory = TempDir::new().unwrap();
    let mut child = small(directory.path(), &["--set", "train.epochs=50"]).stderr(Stdio::null()).spawn().unwrap();
    let checkpoints = directory.path().join("sde-bnn-fixed-0/checkpoints");
    let start = Instant::now();
    while std::fs::read_dir(&checkpoints).map_or(0, Iterator::count) == 0 {
        assert!(start.elapsed() < Duration::from_secs(120), "no checkpoint");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!directory.path().join("nesterov-fixed-0").exists() && !directory.path().join("report.html").exists());
    let output = run(small(directory.path(), &["--set", "train.epochs=50", "--model", "sde-bnn"]).env("NO_COLOR", "1"));
    succeeds(&output);
    assert!(text(&output.stderr).contains("going on at step"), "{}", text(&output.stderr));
}

/// Every experiment in small; then the numbers by another program, and the page in a browser.
#[test]
fn the_whole_paper_in_small() {
    let directory = TempDir::new().unwrap();
    let out = directory.path().join("all");
    let data = directory.path().join("no-data");
    let run_all = |more: &[&str]| {
        let mut command = sdebnn(&["reproduce", "all", "--budget", "smoke"]);
        run(command.arg("--data").arg(&data).arg("--out").arg(&out).args(more))
    };
    let start = Instant::now();
    succeeds(&run_all(&[]));
    eprintln!("reproduce all --budget smoke: {:.0} s", start.elapsed().as_secs_f64());
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    for part in ["drawn digits stand in", "drawn walks stand in", "98.90 ± 0.07", "1D regression", "reliability"] {
        assert!(page.contains(part), "{part}");
    }
    for link in ["src=", "@import", "url(http", "<script", "<link"] {
        assert!(!page.contains(link), "the page is not self-contained: {link}");
    }
    let figures = [
        "toy-sde-bnn",
        "toy-nesterov",
        "mnist-accuracy",
        "mnist-nfe",
        "mnist-reliability",
        "cifar10-accuracy",
        "cifar10-nfe",
        "cifar10-reliability",
        "walker2d-test-loss-fixed",
        "walker2d-test-loss-adaptive",
        "walker2d-nfe",
        "walker2d-gradient-norms",
    ];
    for figure in figures {
        for kind in ["svg", "png"] {
            assert!(out.join(format!("figures/{figure}.{kind}")).is_file(), "{figure}.{kind}");
        }
    }
    recomputed(&out);
    browsed(&out.join("report.html"), directory.path());
}

/// Every number in the tables by another program.
fn recomputed(out: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/check_report.py");
    let modern = Command::new("python3").args(["-c", "import tomllib"]).stderr(Stdio::null()).status();
    if !modern.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no Python 3.11 to recompute the report's numbers");
        return;
    }
    let output = run(Command::new("python3").arg(&script).arg(out));
    succeeds(&output);
    eprint!("{}", text(&output.stdout));

    // And it would have seen a wrong one.
    let page = out.join("report.html");
    let right = std::fs::read_to_string(&page).unwrap();
    let table = right.find("id=\"toy-results\"").unwrap();
    let number = table + right[table..].find("<td>0.").unwrap() + 4;
    let wrong = format!("{}9{}", &right[..number], &right[number + 1..]);
    std::fs::write(&page, wrong).unwrap();
    fails(&run(Command::new("python3").arg(&script).arg(out)), &["toy-results", "recomputed"]);
    std::fs::write(&page, right).unwrap();
}

/// What a browser makes of a page, and what it has to say.
fn dom(browser: &str, address: &str, settings: &[String]) -> Option<(String, String)> {
    let profile = TempDir::new().unwrap();
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--hide-scrollbars", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"])
        .args(["--disable-sync", "--allow-file-access-from-files", "--enable-logging=stderr"])
        .args(["--virtual-time-budget=5000", "--window-size=1400,1000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()));
    let output = command.args(settings).arg(address).output().ok()?;
    Some((text(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// The page at the widths of a desk and of a phone, light and dark.
fn browsed(page: &Path, directory: &Path) {
    let works =
        |name: &&&str| dom(name, "data:text/html,<p>here</p>", &[]).is_some_and(|(dom, _)| dom.contains("here"));
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"].iter().find(works) else {
        eprintln!("skipped: no Chromium that works to open the report in");
        return;
    };
    for width in [1280, 390] {
        for (scheme, paper) in [(1, "rgb(255, 255, 255)"), (0, "rgb(21, 24, 28)")] {
            // A window may not be as narrow as a phone, but a frame may.
            let frame = directory.join("frame.html");
            let html = format!(
                "<iframe id=f src='{}' style='width:{width}px;height:900px;border:0'></iframe><p id=p>nothing</p><script>
                 f.onload = () => {{
                   const d = f.contentDocument, e = d.documentElement;
                   p.textContent = [e.scrollWidth, e.clientWidth, getComputedStyle(d.body).backgroundColor,
                     d.querySelectorAll('figure svg').length].join('|');
                 }}</script>",
                page.display()
            );
            std::fs::write(&frame, html).unwrap();
            let settings = [format!("--blink-settings=preferredColorScheme={scheme}")];
            let (dom, log) = dom(browser, &format!("file://{}", frame.display()), &settings).expect("a page");
            let found = dom.split("<p id=\"p\">").nth(1).and_then(|rest| rest.split('<').next()).unwrap_or_default();
            let found: Vec<&str> = found.split('|').collect();
            assert_eq!(found.len(), 4, "{dom}\n{log}");
            assert_eq!(found[0], found[1], "the page scrolls sideways at {width}");
            assert_eq!(found[1], width.to_string());
            assert_eq!(found[2], paper, "scheme {scheme}");
            assert_eq!(found[3], "12");
            assert!(!log.contains("CONSOLE"), "{log}");
        }
    }
    eprintln!("opened in {browser} at two widths, light and dark");
}
