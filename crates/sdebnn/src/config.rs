//! A model as plain data, as it stands in a configuration file.

use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::controller::SolverConfig;
use crate::drift::{ConvNet, DenseNet, Drift, Layout, TimeInput};
use crate::dynamics::Residual;
use crate::error::ConfigError;
use crate::likelihood::Likelihood;
use crate::weights::{Partition, PosteriorForm};

/// A model: what its state is, how it moves, and what is read out of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// Zero channels (or features) appended to the input.
    #[serde(default)]
    pub augment: usize,
    /// The equation of the activations.
    pub dynamics: DynamicsConfig,
    /// The drift network.
    pub drift: DriftConfig,
    /// The weight process.
    pub weights: WeightsConfig,
    /// The solver.
    #[serde(default)]
    pub solver: SolverConfig,
    /// What is read out of `h(T)`.
    pub head: HeadConfig,
    /// The law of the targets.
    pub likelihood: Likelihood,
}

/// The equation of the activations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DynamicsConfig {
    /// SDE-BNN: [`FirstOrder`](crate::dynamics::FirstOrder).
    FirstOrder {},
    /// Nesterov-SDEBNN: [`Nesterov`](crate::dynamics::Nesterov).
    Nesterov {
        /// The residual connection.
        #[serde(default)]
        residual: Residual,
        /// The squashing function `σ_f`.
        #[serde(default = "tanh")]
        squash: Activation,
        /// The strength `ξ` of the residual connection, or where learning starts.
        #[serde(default = "one")]
        xi: f64,
        /// Whether `ξ` is learned.
        #[serde(default)]
        learn_xi: bool,
    },
    /// [`HeavyBall`](crate::dynamics::HeavyBall).
    HeavyBall {
        /// The damping `γ`.
        #[serde(default = "one")]
        damping: f64,
    },
}

impl DynamicsConfig {
    /// Nesterov-SDEBNN as the paper has it.
    pub fn nesterov() -> Self {
        Self::Nesterov { residual: Residual::default(), squash: tanh(), xi: one(), learn_xi: false }
    }
}

fn tanh() -> Activation {
    Activation::Tanh
}

fn one() -> f64 {
    1.0
}

/// The drift network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DriftConfig {
    /// [`ConvNet`].
    Conv {
        /// Channels inside a block.
        width: usize,
        /// Blocks in each group.
        blocks: Vec<usize>,
        /// The activation.
        activation: Activation,
    },
    /// [`DenseNet`].
    Dense {
        /// Widths of the hidden layers.
        hidden: Vec<usize>,
        /// The activation.
        activation: Activation,
        /// How time enters.
        time: TimeInput,
    },
}

/// Which weights move.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stochastic {
    /// All: SDE-BNN.
    #[default]
    All,
    /// None: a (Nesterov, heavy-ball) neural ODE.
    None,
    /// Those of the listed layers, from 0: a partially stochastic network.
    Layers(Vec<usize>),
}

/// The estimator of the KL divergence and of its gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// `∫ ½‖u‖² dt`.
    #[default]
    Plain,
    /// `∫ ½‖u‖² dt + ∫ u·dB` with `φ` detached in the second term: the same mean, and no variance where the posterior is right.
    StickingTheLanding,
}

/// The weight process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsConfig {
    /// The diffusion `σ`.
    pub sigma: f64,
    /// Widths of the hidden layers of `NN_φ`.
    pub hidden: Vec<usize>,
    /// Whether `NN_φ` sees the time.
    #[serde(default)]
    pub time_dependent: bool,
    /// How `NN_φ` enters the posterior drift.
    #[serde(default)]
    pub posterior: PosteriorForm,
    /// Which weights move.
    #[serde(default)]
    pub stochastic: Stochastic,
    /// The estimator of the KL divergence.
    #[serde(default)]
    pub estimator: Estimator,
}

/// What is read out of `h(T)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum HeadConfig {
    /// The first features themselves.
    First {},
    /// A linear layer.
    Linear {},
    /// linear → relu → linear.
    Mlp {
        /// The width between.
        hidden: usize,
    },
}

impl ModelConfig {
    /// Whether the configuration can be used at all; [`build_drift`](Self::build_drift) checks what depends on the input's shape.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let check = ConfigError::unless;
        self.solver.validate()?;
        self.likelihood.validate()?;
        let sigma = self.weights.sigma;
        check(sigma.is_finite() && sigma > 0.0, "weights.sigma", &sigma, "a positive number")?;
        check(
            self.weights.hidden.iter().all(|&n| n > 0),
            "weights.hidden",
            &self.weights.hidden,
            "widths of at least 1",
        )?;
        match &self.dynamics {
            DynamicsConfig::FirstOrder {} => {}
            DynamicsConfig::Nesterov { squash, xi, .. } => {
                check(xi.is_finite(), "dynamics.xi", xi, "a finite number")?;
                check(
                    squash.limit().is_some() || self.solver.t0 > 0.0,
                    "solver.t0",
                    &self.solver.t0,
                    "a positive number, because k(t) is infinite at 0 and `dynamics.squash` has no finite limit there",
                )?;
            }
            DynamicsConfig::HeavyBall { damping } => {
                check(damping.is_finite() && *damping >= 0.0, "dynamics.damping", damping, "a number of at least 0")?;
            }
        }
        if let DriftConfig::Dense { hidden, .. } = &self.drift {
            check(hidden.iter().all(|&n| n > 0), "drift.hidden", hidden, "widths of at least 1")?;
        }
        match self.head {
            HeadConfig::Mlp { hidden } => check(hidden > 0, "head.hidden", &hidden, "a width of at least 1"),
            HeadConfig::First {} | HeadConfig::Linear {} => Ok(()),
        }
    }

    /// The state's shape for an input of shape `[features]` or `[channels, height, width]`.
    pub(crate) fn state_shape(&self, input: &[usize]) -> Vec<usize> {
        let mut shape = input.to_vec();
        shape[0] += self.augment;
        shape
    }

    /// The drift network for an input of shape `[features]` or `[channels, height, width]`.
    pub fn build_drift(&self, input: &[usize]) -> Result<Box<dyn Drift>, ConfigError> {
        let shape = self.state_shape(input);
        match (&self.drift, &shape[..]) {
            (DriftConfig::Conv { width, blocks, activation }, &[c, h, w]) => {
                Ok(Box::new(ConvNet::new([c, h, w], *width, blocks, *activation)?))
            }
            (DriftConfig::Conv { .. }, _) => {
                let expected = "\"dense\" for inputs that are not images [channels, height, width]";
                Err(ConfigError::new("drift.kind", &"conv", expected))
            }
            (DriftConfig::Dense { hidden, activation, time }, _) => {
                let state = shape.iter().product();
                let sizes: Vec<usize> = [state].iter().chain(hidden).chain(&[state]).copied().collect();
                Ok(Box::new(DenseNet::new(&sizes, *activation, *time)))
            }
        }
    }

    pub(crate) fn build_partition(&self, layout: &Layout) -> Result<Partition, ConfigError> {
        Ok(match &self.weights.stochastic {
            Stochastic::All => Partition::of_layers(layout, |_| true),
            Stochastic::None => Partition::of_layers(layout, |_| false),
            Stochastic::Layers(layers) => {
                let count = layout.layers();
                if layers.iter().any(|&layer| layer >= count) {
                    let expected = format!("layers below {count}");
                    return Err(ConfigError::new("weights.stochastic.layers", layers, expected));
                }
                Partition::of_layers(layout, |layer| layers.contains(&layer))
            }
        })
    }
}
