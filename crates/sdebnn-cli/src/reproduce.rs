//! `sdebnn reproduce`: plans the runs of the paper's grid, makes those that are not there yet, and ends with the report.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sdebnn_train::experiment::ModelName;
use sdebnn_train::experiment::grid::{Budget, Cell, PaperExperiment, SolverName};
use sdebnn_train::experiment::run::{AnyExperiment, FAILURE};
use sdebnn_train::report::page;
use sdebnn_train::run_directory::RunDirectory;
use serde_json::{Value, json};

use crate::arguments::{BudgetName, ExperimentName, Models, ReproduceArguments, Solvers};
use crate::data_directory;
use crate::report::{results_text, run_json};
use crate::stop::{self, Stopped};
use crate::train::report;

/// How often a child is looked after.
const MOMENT: Duration = Duration::from_millis(50);

/// One run of the grid.
struct Planned {
    experiment: PaperExperiment,
    cell: Cell,
    out: PathBuf,
    config: AnyExperiment,
    finished: bool,
    /// About how long it takes.
    seconds: f64,
}

impl Planned {
    fn title(&self) -> String {
        let Cell { model, solver, seed } = self.cell;
        format!("{} {} {} {seed}", self.experiment.key(), model.key(), solver.key())
    }
}

impl Models {
    /// Which they are.
    pub fn names(self) -> &'static [ModelName] {
        match self {
            Self::SdeBnn => &[ModelName::SdeBnn],
            Self::Nesterov => &[ModelName::Nesterov],
            Self::Both => &[ModelName::SdeBnn, ModelName::Nesterov],
        }
    }
}

impl ReproduceArguments {
    fn budget(&self) -> Budget {
        match self.budget {
            BudgetName::Smoke => Budget::Smoke,
            BudgetName::Quick => Budget::Quick,
            BudgetName::Paper => Budget::Paper,
        }
    }

    fn experiments(&self) -> &'static [PaperExperiment] {
        match self.experiment {
            ExperimentName::Toy => &[PaperExperiment::Toy],
            ExperimentName::Mnist => &[PaperExperiment::Mnist],
            ExperimentName::Cifar10 => &[PaperExperiment::Cifar10],
            ExperimentName::Walker2d => &[PaperExperiment::Walker2d],
            ExperimentName::All => &PaperExperiment::ALL,
        }
    }

    /// Adaptive training takes many times as long, so the quick budget has it only if it is asked for.
    fn solvers(&self) -> &'static [SolverName] {
        match (self.solver, self.budget()) {
            (Some(Solvers::Fixed), _) | (None, Budget::Quick) => &[SolverName::Fixed],
            (Some(Solvers::Adaptive), _) => &[SolverName::Adaptive],
            (Some(Solvers::Both), _) | (None, _) => &[SolverName::Fixed, SolverName::Adaptive],
        }
    }

    fn directory(&self) -> PathBuf {
        let name = match self.experiments() {
            [one] => one.key(),
            _ => "all",
        };
        self.out.clone().unwrap_or_else(|| Path::new("runs").join(format!("{name}-{}", self.budget().key())))
    }

    fn cores(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.common.threads.map_or_else(all, |threads| threads as usize)
    }

    /// Threads of each of the runs that are made at the same time.
    fn threads(&self) -> usize {
        (self.cores() / self.jobs as usize).max(1)
    }

    /// Whether there is something to say while runs go on.
    fn speaks(&self) -> bool {
        !self.common.quiet && !self.common.json
    }
}

/// `sdebnn reproduce`.
pub fn reproduce(arguments: &ReproduceArguments) -> Result<()> {
    let out = arguments.directory();
    let plan = plan(arguments, &out)?;
    if arguments.dry_run {
        return report(&arguments.common, &plan.iter().map(plan_json).collect(), || plan_text(arguments, &plan));
    }
    if arguments.speaks() {
        eprint!("{}", plan_text(arguments, &plan));
    }
    let failed = make(arguments, &plan)?;
    let found = page::write(std::slice::from_ref(&out), &out)?;
    let runs: Vec<Value> = found.runs.iter().map(run_json).collect();
    report(&arguments.common, &Value::Array(runs), || {
        format!("\n{}report: {}\n", results_text(&found.results), found.page.display())
    })?;
    if failed > 0 {
        bail!("{failed} of {} runs failed; the report says why, and the same command tries them again", plan.len());
    }
    Ok(())
}

/// Lists the runs. A directory that holds another run is an error before anything is begun.
fn plan(arguments: &ReproduceArguments, out: &Path) -> Result<Vec<Planned>> {
    let budget = arguments.budget();
    let dir = data_directory(arguments.data.as_ref()).unwrap_or_else(|| "data".into());
    // Half a second: it is worth an estimate.
    let peak = sdebnn_train::bench::peak_flops_of_a_thread() * arguments.threads() as f64;
    let mut plan = Vec::new();
    for &experiment in arguments.experiments() {
        let stand_in = if budget == Budget::Smoke { experiment.stand_in(&dir) } else { None };
        if let Some(drawn) = stand_in.filter(|_| arguments.speaks()) {
            eprintln!("{} is not in {}: {drawn} stand in for it", experiment.title(), dir.display());
        }
        let root = if arguments.experiments().len() > 1 { out.join(experiment.key()) } else { out.into() };
        // A seed whole before the next, so that what is stopped early can be compared.
        for seed in arguments.seed..arguments.seed + arguments.seeds {
            for &solver in arguments.solvers().iter().filter(|solver| experiment.solvers().contains(solver)) {
                for &model in arguments.model.names() {
                    let cell = Cell { model, solver, seed };
                    let config = experiment.config(budget, cell, &arguments.set, stand_in.is_some())?;
                    let out = root.join(format!("{}-{}-{seed}", model.key(), solver.key()));
                    let (finished, seconds) = (config.is_finished(&out)?, config.seconds(peak));
                    plan.push(Planned { experiment, cell, out, config, finished, seconds });
                }
            }
        }
    }
    if plan.is_empty() {
        bail!("the paper has no adaptive runs of the toy experiment; leave --solver out");
    }
    Ok(plan)
}

fn duration_text(seconds: f64) -> String {
    match seconds {
        s if s < 90.0 => format!("{:.0} s", s.max(1.0)),
        s if s < 5400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

fn plan_text(arguments: &ReproduceArguments, plan: &[Planned]) -> String {
    let left = plan.iter().filter(|run| !run.finished);
    let (count, seconds) = left.fold((0, 0.0), |(count, sum), run| (count + 1, sum + run.seconds));
    let mut text = format!(
        "{} budget: {} runs, {} finished, {count} to make{}\n",
        arguments.budget().key(),
        plan.len(),
        plan.len() - count,
        if count > 0 {
            let about = duration_text(seconds / f64::from(arguments.jobs).min(count as f64));
            format!(", in about {about} with {} at a time on {} cores", arguments.jobs, arguments.cores())
        } else {
            String::new()
        }
    );
    for run in plan {
        let Cell { model, solver, seed } = run.cell;
        let state = if run.finished { "finished".into() } else { format!("about {}", duration_text(run.seconds)) };
        text += &format!(
            "  {:<9} {:<9} {:<9} seed {seed:<3} {state:<14} {}\n",
            run.experiment.key(),
            model.key(),
            solver.key(),
            run.out.display()
        );
    }
    text
}

fn plan_json(run: &Planned) -> Value {
    let Cell { model, solver, seed } = run.cell;
    json!({
        "experiment": run.experiment.key(), "model": model.key(), "solver": solver.key(), "seed": seed,
        "directory": run.out.display().to_string(), "finished": run.finished, "seconds": run.seconds,
    })
}

/// Makes the runs that are not finished, each in a process of its own. Returns how many of them failed.
fn make(arguments: &ReproduceArguments, plan: &[Planned]) -> Result<usize> {
    let stop = stop::flag()?;
    let left: Vec<&Planned> = plan.iter().filter(|run| !run.finished).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || -> Result<()> {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = left.get(i).filter(|_| !stop.load(Ordering::Relaxed)) else { return Ok(()) };
            if arguments.speaks() {
                eprintln!("[{}/{}] {}", i + 1, left.len(), run.title());
            }
            let status = make_one(arguments, run)?;
            if status.success() || status.code() == Some(i32::from(stop::EXIT_CODE)) {
                continue;
            }
            failed.fetch_add(1, Ordering::Relaxed);
            let directory = RunDirectory::make(&run.out)?;
            // A process that was killed could not say so itself.
            if !directory.file(FAILURE).exists() {
                directory.write(FAILURE, format!("the process ended with {status}\n").as_bytes())?;
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    if stop.load(Ordering::Relaxed) {
        eprintln!("everything is saved; the same command goes on");
        return Err(Stopped.into());
    }
    Ok(failed.into_inner())
}

/// `sdebnn train` as a child, which goes on where it was, stops as this process does, and ends if this process is killed.
fn make_one(arguments: &ReproduceArguments, run: &Planned) -> Result<ExitStatus> {
    let directory = run.config.open(&run.out)?;
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.arg("train").arg(directory.file("config.toml")).arg("--out").arg(&run.out);
    command.args(["--resume", "--child", "--threads", &arguments.threads().to_string()]);
    if let Some(data) = &arguments.data {
        command.arg("--data").arg(data);
    }
    if arguments.common.verbose {
        command.arg("--verbose");
    }
    let inherit = arguments.speaks() && arguments.jobs == 1;
    let stderr = match (inherit, arguments.speaks()) {
        (true, _) => Stdio::inherit(),
        (false, true) => Stdio::piped(),
        (false, false) => Stdio::null(),
    };
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(stderr).spawn().context("cannot start a run")?;
    let lines = child.stderr.take().map(|stderr| {
        let title = run.title();
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).for_each(|line| eprintln!("{title}: {line}"));
        })
    });
    let status = wait(&mut child)?;
    if let Some(lines) = lines {
        lines.join().expect("a thread that prints does not panic");
    }
    Ok(status)
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    let stop = stop::flag()?;
    let (mut input, mut told) = (child.stdin.take(), false);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !told {
            // It may have ended by itself: Ctrl-C reaches it too.
            let _ = input.as_mut().map(|input| input.write_all(&[stop::PLEASE]));
            told = true;
        }
        std::thread::sleep(MOMENT);
    }
}
