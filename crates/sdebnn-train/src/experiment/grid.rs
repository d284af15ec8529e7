//! What the paper varies in each of its experiments, and how much of them is run.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SolverName {
    /// Equal steps.
    Fixed,
    /// Steps that keep to a tolerance, by step doubling.
    Adaptive,
}

impl SolverName {
    /// Its name in files and tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Adaptive => "adaptive",
        }
    }

    /// What it sets in a configuration, with this tolerance for adaptive steps.
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
