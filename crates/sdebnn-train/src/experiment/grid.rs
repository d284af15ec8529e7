//! What the paper runs, what it varies in each of its experiments, and how much of them is run.

use std::path::Path;

use sdebnn::controller::Controller;
use serde::{Deserialize, Serialize};

use super::ModelName;
use super::images::{self, ImageSet};
use super::run::AnyExperiment;
use super::sequences;
use super::toy::ToyConfig;
use crate::error::Error;

/// The experiments of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PaperExperiment {
    /// 1D regression.
    Toy,
    /// Handwritten digits.
    Mnist,
    /// Photographs.
    Cifar10,
    /// Recorded motion.
    Walker2d,
}

impl PaperExperiment {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 4] = [Self::Toy, Self::Mnist, Self::Cifar10, Self::Walker2d];

    /// Its name in files and commands.
    pub fn key(self) -> &'static str {
        match self {
            Self::Toy => "toy",
            Self::Mnist => "mnist",
            Self::Cifar10 => "cifar10",
            Self::Walker2d => "walker2d",
        }
    }

    /// Its name in titles.
    pub fn title(self) -> &'static str {
        match self {
            Self::Toy => "1D regression",
            Self::Mnist => "MNIST",
            Self::Cifar10 => "CIFAR-10",
            Self::Walker2d => "Walker2D",
        }
    }

    /// The solvers that the paper tried on it.
    pub fn solvers(self) -> &'static [SolverName] {
        match self {
            Self::Toy => &[SolverName::Fixed],
            _ => &[SolverName::Fixed, SolverName::Adaptive],
        }
    }

    /// What the paper's figures show for the function evaluations of a test solve with adaptive steps, drift and diffusion together.
    pub fn paper_nfe(self, model: ModelName) -> Option<f64> {
        let (baseline, nesterov) = match self {
            Self::Toy => return None,
            Self::Mnist => (400.0, 240.0),
            Self::Cifar10 => (270.0, 170.0),
            Self::Walker2d => (180.0, 145.0),
        };
        Some(if model == ModelName::SdeBnn { baseline } else { nesterov })
    }

    /// The drawn data that takes the place of its data set in a smoke run, if that is not in the directory.
    pub fn stand_in(self, data: &Path) -> Option<&'static str> {
        match self {
            Self::Toy => None,
            Self::Mnist => images::is_missing(ImageSet::Mnist, data).then_some("drawn digits"),
            Self::Cifar10 => images::is_missing(ImageSet::Cifar10, data).then_some("drawn digits"),
            Self::Walker2d => sequences::is_missing(data).then_some("drawn walks"),
        }
    }

    /// The configuration of one of its runs, with keys replaced, on drawn data if `stands_in`.
    pub fn config(
        self,
        budget: Budget,
        cell: Cell,
        settings: &[String],
        stands_in: bool,
    ) -> Result<AnyExperiment, Error> {
        let mut settings = settings.to_vec();
        settings.push(format!("seed={}", cell.seed));
        let images = |set| -> Result<_, Error> {
            let config = images::paper::config(set, budget, cell, &settings)?;
            let stand_in = || images::paper::with_digits(&config, self);
            Ok(AnyExperiment::Images(if stands_in { stand_in() } else { config }))
        };
        match self {
            Self::Toy => Ok(AnyExperiment::Toy(ToyConfig::of_paper(budget, cell.model, &settings)?)),
            Self::Mnist => images(ImageSet::Mnist),
            Self::Cifar10 => images(ImageSet::Cifar10),
            Self::Walker2d => {
                let config = sequences::paper::config(budget, cell, &settings)?;
                let stand_in = || sequences::paper::with_walks(&config);
                Ok(AnyExperiment::Sequences(if stands_in { stand_in() } else { config }))
            }
        }
    }
}

/// What distinguishes the runs of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The model.
    pub model: ModelName,
    /// How its steps are chosen.
    pub solver: SolverName,
    /// The seed.
    pub seed: u64,
}

/// How much of an experiment to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// To see that everything works.
    Smoke,
    /// What two cores can do.
    Quick,
    /// As the paper has it.
    Paper,
}

impl Budget {
    /// Its name in files and tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Paper => "paper",
        }
    }
}

/// How the steps are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SolverName {
    /// Equal steps.
    Fixed,
    /// Steps that keep to a tolerance.
    Adaptive,
}

impl SolverName {
    /// The kind of a controller.
    pub fn of(controller: Controller) -> Self {
        match controller {
            Controller::Fixed => Self::Fixed,
            Controller::StepDoubling | Controller::Embedded => Self::Adaptive,
        }
    }

    /// Its name in files and tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Adaptive => "adaptive",
        }
    }

    /// What it sets in a configuration, with this tolerance for adaptive steps, which are the paper's: by step doubling.
    pub(super) fn settings(self, tolerance: f64) -> Vec<String> {
        match self {
            Self::Fixed => Vec::new(),
            Self::Adaptive => vec![
                "model.solver.controller=step-doubling".into(),
                format!("model.solver.atol={tolerance}"),
                format!("model.solver.rtol={tolerance}"),
            ],
        }
    }
}
