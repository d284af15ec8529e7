//! The paper's experiments on images: what is run, and what the paper found.

use sdebnn::config::DriftConfig;

use super::config::{ImageSet, ImagesConfig};
use crate::error::Error;
use crate::experiment::ModelName;
use crate::experiment::grid::{Budget, Cell, PaperExperiment, SolverName};
use crate::experiment::run::Experiment;

/// The configuration of one run of the paper's grid, with keys replaced.
pub(in crate::experiment) fn config(
    set: ImageSet,
    budget: Budget,
    cell: Cell,
    settings: &[String],
) -> Result<ImagesConfig, Error> {
    let (name, text) = match (set, budget) {
        (ImageSet::Mnist, Budget::Paper) => ("configs/mnist.toml", include_str!("../../../../../configs/mnist.toml")),
        (ImageSet::Mnist, _) => ("configs/mnist-quick.toml", include_str!("../../../../../configs/mnist-quick.toml")),
        (ImageSet::Cifar10, Budget::Paper) => {
            ("configs/cifar10.toml", include_str!("../../../../../configs/cifar10.toml"))
        }
        (ImageSet::Cifar10, _) => {
            ("configs/cifar10-quick.toml", include_str!("../../../../../configs/cifar10-quick.toml"))
        }
        (ImageSet::Digits, _) => ("configs/digits.toml", include_str!("../../../../../configs/digits.toml")),
    };
    let mut all = Vec::new();
    if budget == Budget::Smoke {
        let small = [
            "data.limit_train=128",
            "data.limit_test=64",
            "train.epochs=2",
            "train.batch=32",
            "train.schedule.warmup=2",
            "evaluate.final_samples=2",
        ];
        all.extend(small.map(String::from));
    }
    all.extend(cell.solver.settings(if set == ImageSet::Cifar10 { 5e-3 } else { 1e-3 }));
    if cell.solver == SolverName::Adaptive && set == ImageSet::Cifar10 {
        all.push("model.drift.activation=swish".into());
        if budget == Budget::Paper {
            all.push("train.epochs=300".into());
        }
    }
    all.extend_from_slice(settings);
    Ok(ImagesConfig::read(name, text, &all)?.with_model(cell.model))
}

/// An experiment on drawn digits, for when its data set is not there. Their sides can be halved only twice, so only the first
/// group of a drift network is kept.
pub(in crate::experiment) fn with_digits(config: &ImagesConfig, experiment: PaperExperiment) -> ImagesConfig {
    let mut config = config.clone();
    config.data.name = ImageSet::Digits;
    config.data.stands_in_for = Some(experiment);
    if let DriftConfig::Conv { blocks, .. } = &mut config.model.drift {
        blocks.truncate(1);
    }
    config
}

/// What the paper found: mean ± standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaperResult {
    /// Test accuracy, per cent.
    pub accuracy: (f64, f64),
    /// Area under the accuracy curve, per cent.
    pub auc: (f64, f64),
    /// Negative log-likelihood.
    pub nll: (f64, f64),
}

/// The paper's row for these runs; `None` for experiments that its table does not have.
pub fn paper_result(experiment: PaperExperiment, model: ModelName, solver: SolverName) -> Option<PaperResult> {
    use ModelName::{Nesterov, SdeBnn};
    use PaperExperiment::{Cifar10, Mnist, Toy, Walker2d};
    use SolverName::{Adaptive, Fixed};
    let (accuracy, auc, nll) = match (experiment, model, solver) {
        (Mnist, SdeBnn, Fixed) => ((98.90, 0.07), (97.59, 0.04), (0.1437, 0.0089)),
        (Mnist, Nesterov, Fixed) => ((99.04, 0.12), (97.87, 0.06), (0.0737, 0.0065)),
        (Mnist, SdeBnn, Adaptive) => ((98.87, 0.12), (97.57, 0.03), (0.1385, 0.0126)),
        (Mnist, Nesterov, Adaptive) => ((99.04, 0.03), (97.88, 0.04), (0.0715, 0.0034)),
        (Cifar10, SdeBnn, Fixed) => ((87.56, 0.36), (83.05, 0.29), (0.989, 0.022)),
        (Cifar10, Nesterov, Fixed) => ((88.36, 0.24), (85.61, 0.45), (0.597, 0.011)),
        (Cifar10, SdeBnn, Adaptive) => ((85.87, 0.28), (78.42, 0.60), (0.677, 0.009)),
        (Cifar10, Nesterov, Adaptive) => ((86.99, 0.23), (83.94, 0.32), (0.532, 0.010)),
        (Toy | Walker2d, ..) => return None,
    };
    Some(PaperResult { accuracy, auc, nll })
}
