//! Runs by experiment, and by what they have in common but for the seed.

use super::run::{ReportedRun, RunState};
use super::spread::Spread;
use crate::experiment::ModelName;
use crate::experiment::grid::{PaperExperiment, SolverName};
use crate::experiment::run::AnyExperiment;

/// Runs that differ in their seed alone.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// The model.
    pub model: ModelName,
    /// How its steps are chosen.
    pub solver: SolverName,
    /// The runs: the finished ones, or if there are none, those that have come some way.
    pub runs: Vec<&'a ReportedRun>,
    /// Whether they are finished.
    pub finished: bool,
    /// What the group is called where the model and the solver do not say enough.
    note: Option<String>,
}

impl Group<'_> {
    /// The configuration, seed aside.
    pub fn config(&self) -> &AnyExperiment {
        &self.runs[0].config
    }

    /// The group in tables and legends.
    pub fn title(&self) -> String {
        let note = self.note.as_ref().map_or(String::new(), |note| format!(", {note}"));
        let open = if self.finished { "" } else { " (unfinished)" };
        format!("{}, {}{note}{open}", self.model.title(), self.solver.key())
    }

    /// How the group differs from others of its model.
    pub fn condition(&self) -> String {
        let note = self.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
        format!("{} steps{note}", self.solver.key())
    }

    /// What the runs ended with.
    pub fn last(&self, key: &str) -> Spread {
        self.last_times(key, 1.0)
    }

    /// The same, multiplied by a number.
    pub fn last_times(&self, key: &str, factor: f64) -> Spread {
        Spread::of(&self.runs.iter().map(|run| factor * run.number(key)).collect::<Vec<_>>())
    }

    /// A metric after each epoch that all runs have: each seed's.
    pub fn epochs(&self, key: &str) -> Vec<Vec<f64>> {
        let curves: Vec<Vec<f64>> = self.runs.iter().map(|run| run.curve(key)).collect();
        let epochs = curves.iter().map(Vec::len).min().unwrap_or(0);
        (0..epochs).map(|epoch| curves.iter().map(|curve| curve[epoch]).collect()).collect()
    }

    /// How much was run, in words.
    pub fn budget(&self) -> String {
        let solver = &self.config().model().solver;
        let examples = self.last("examples").mean;
        let what = match self.config() {
            AnyExperiment::Toy(_) => "points",
            AnyExperiment::Images(_) => "images",
            AnyExperiment::Sequences(_) => "windows",
        };
        let steps = match self.solver {
            SolverName::Fixed => format!("{} steps", solver.steps),
            SolverName::Adaptive => format!("{}, tolerance {}", solver.controller.key(), solver.atol),
        };
        let trained = match examples.is_nan() {
            true => String::new(),
            false => format!(" × {examples:.0} {what}"),
        };
        format!("{} epochs{trained}, {steps}", self.config().epochs())
    }
}

/// The runs of one experiment.
#[derive(Clone, Debug)]
pub struct Section<'a> {
    /// Its name in files.
    pub key: String,
    /// Its name in titles.
    pub title: &'static str,
    /// The experiment of the paper, if it is one.
    pub paper: Option<PaperExperiment>,
    /// What it was run on, if that only stands in for the paper's data.
    pub stand_in: Option<&'static str>,
    /// Its runs: fixed steps first, the baseline first.
    pub groups: Vec<Group<'a>>,
    /// The runs that have something to show or not.
    pub runs: Vec<&'a ReportedRun>,
}

impl<'a> Section<'a> {
    /// The experiments of some runs, in the paper's order.
    pub fn of(runs: &'a [ReportedRun]) -> Vec<Self> {
        let mut keys: Vec<(Option<PaperExperiment>, &'static str)> =
            runs.iter().map(|run| (run.config.paper(), run.config.data_title())).collect();
        // Those that are not of the paper come last.
        keys.sort_by_key(|(paper, title)| (paper.is_none(), *paper, *title));
        keys.dedup();
        keys.into_iter().map(|(paper, data)| Self::one(paper, data, runs)).collect()
    }

    fn one(paper: Option<PaperExperiment>, data: &'static str, runs: &'a [ReportedRun]) -> Self {
        let of = |run: &&ReportedRun| (run.config.paper(), run.config.data_title()) == (paper, data);
        let runs: Vec<&ReportedRun> = runs.iter().filter(of).collect();
        let mut groups: Vec<Group> = Vec::new();
        for run in &runs {
            let alike = |group: &&mut Group| {
                group.model == run.model && group.config().with(0, run.model) == run.config.with(0, run.model)
            };
            match groups.iter_mut().find(alike) {
                Some(group) => group.runs.push(run),
                None => groups.push(Group {
                    model: run.model,
                    solver: run.solver,
                    runs: vec![run],
                    finished: false,
                    note: None,
                }),
            }
        }
        for group in &mut groups {
            let finished = |run: &&ReportedRun| run.state == RunState::Finished;
            group.finished = group.runs.iter().any(finished);
            group.runs.retain(|run| if group.finished { finished(run) } else { !run.metrics.is_empty() });
            group.runs.sort_by_key(|run| run.config.seed());
        }
        groups.retain(|group| !group.runs.is_empty());
        groups.sort_by_key(|group| (group.solver, group.model));
        let count = |g: &Group| groups.iter().filter(|o| (o.model, o.solver) == (g.model, g.solver)).count();
        let notes: Vec<Option<String>> = groups.iter().map(|g| (count(g) > 1).then(|| g.budget())).collect();
        groups.iter_mut().zip(notes).for_each(|(group, note)| group.note = note);
        let is_drawn = data.starts_with("drawn");
        Self {
            key: paper.map_or_else(|| data.replace(' ', "-"), |paper| paper.key().into()),
            title: paper.map_or(data, PaperExperiment::title),
            paper,
            stand_in: (paper.is_some() && is_drawn).then_some(data),
            groups,
            runs,
        }
    }

    /// What it was run on, in titles.
    pub fn data(&self) -> String {
        self.stand_in.map_or(self.title.into(), |data| format!("{} ({data})", self.title))
    }

    /// Groups of the two models that differ in nothing else, the baseline first.
    pub fn pairs(&self) -> Vec<(&Group<'a>, &Group<'a>)> {
        let of = |model| self.groups.iter().filter(move |group| group.finished && group.model == model);
        let common = |group: &Group| group.config().with(0, ModelName::SdeBnn);
        let other = |group: &Group| of(ModelName::Nesterov).find(|other| common(other) == common(group));
        of(ModelName::SdeBnn).filter_map(|group| Some((group, other(group)?))).collect()
    }
}
