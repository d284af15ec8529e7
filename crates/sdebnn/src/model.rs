//! The whole model: learned parameters, forward pass, loss.

use std::sync::Arc;

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};

use crate::activation::Activation;
use crate::brownian::{BrownianPath, DrawnPath};
use crate::config::{DynamicsConfig, Estimator, HeadConfig, ModelConfig};
use crate::controller::{Controller, SolverConfig};
use crate::drift::Drift;
use crate::dynamics::{Dynamics, FirstOrder, HeavyBall, Nesterov};
use crate::engine::Engine;
use crate::error::{ConfigError, SolveError};
use crate::fused::Kernel;
use crate::likelihood::Target;
use crate::method::Method;
use crate::mlp::{Mlp, parameter};
use crate::nfe::Nfe;
use crate::random::Stream;
use crate::solve::{Problem, Solution};
use crate::weights::{Partition, WeightProcess};

/// Which law the weights follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// The Ornstein–Uhlenbeck prior.
    Prior,
    /// The learned posterior.
    Posterior,
}

/// The parts of a model that are not learned.
#[derive(Debug)]
struct Architecture {
    config: ModelConfig,
    drift: Box<dyn Drift>,
    partition: Partition,
    /// Numbers in a state, a multiple of those in an input.
    features: usize,
    outputs: usize,
}

/// A network with stochastic weights over continuous depth: SDE-BNN, Nesterov-SDEBNN, and their deterministic limits.
#[derive(Module, Debug)]
pub struct SdeBnn {
    /// The weights at `t0`, laid out as the drift network's [`Layout`](crate::drift::Layout) says.
    pub w0: Param<Tensor<1>>,
    /// `NN_φ`, the learned part of the posterior drift; `None` if no weight moves.
    pub phi: Option<Mlp>,
    /// The read-out head.
    pub head: Option<Mlp>,
    /// `ξ`, `[1]`.
    pub xi: Param<Tensor<1>>,
    /// The logarithm of the likelihood's scale, `[1]`.
    pub log_scale: Option<Param<Tensor<1>>>,
    #[module(skip)]
    architecture: Arc<Architecture>,
    /// The first step of the solve before.
    #[module(skip)]
    first_step: Option<f64>,
}

/// A forward pass.
#[derive(Debug)]
pub struct Forward {
    /// The head's outputs, `[samples, batch, outputs]`.
    pub outputs: Tensor<3>,
    /// The solve behind them.
    pub solution: Solution,
}

/// A loss and its parts.
#[derive(Debug)]
pub struct Loss {
    /// `mean NLL + kl_coef · KL`, `[1]`, to be differentiated.
    pub total: Tensor<1>,
    /// The mean negative log-likelihood, `[1]`.
    pub nll: Tensor<1>,
    /// The KL divergence, `[1]`, averaged over the weight samples.
    pub kl: Tensor<1>,
    /// The function evaluations of all solves together.
    pub nfe: Nfe,
    /// The number of solves: one a batch, or one a gap of sequences.
    pub solves: usize,
    /// The first step that an adaptive solve accepted.
    pub first_step: Option<f64>,
}

impl Loss {
    /// `mean NLL + kl_coef · KL`.
    pub(crate) fn new(nll: Tensor<1>, kl: Tensor<1>, kl_coef: f64, nfe: Nfe, solves: usize) -> Self {
        // Gradients of zero are not carried back.
        let total = if kl_coef == 0.0 { nll.clone() } else { nll.clone() + kl.clone().mul_scalar(kl_coef) };
        Self { total, nll, kl, nfe, solves, first_step: None }
    }

    /// The mean of the losses of several weight paths.
    ///
    /// # Panics
    /// If there is none.
    pub fn mean(losses: Vec<Self>) -> Self {
        let factor = 1.0 / losses.len() as f64;
        let sum = losses.into_iter().reduce(|a, b| Self {
            total: a.total + b.total,
            nll: a.nll + b.nll,
            kl: a.kl + b.kl,
            nfe: a.nfe + b.nfe,
            solves: a.solves + b.solves,
            first_step: b.first_step,
        });
        let Self { total, nll, kl, nfe, solves, first_step } = sum.expect("at least one loss");
        let [total, nll, kl] = [total, nll, kl].map(|t| t.mul_scalar(factor));
        Self { total, nll, kl, nfe, solves, first_step }
    }
}

impl SdeBnn {
    /// An untrained model for inputs of shape `[features]` or `[channels, height, width]`: the weights start at the usual random
    /// point and `NN_φ` at zero, so the posterior starts at the prior.
    pub fn new(
        config: &ModelConfig,
        input: &[usize],
        outputs: usize,
        stream: Stream,
        device: &Device,
        dtype: DType,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let drift = config.build_drift(input)?;
        let layout = drift.layout();
        let partition = config.build_partition(layout)?;
        let features = config.state_shape(input).iter().product();
        let phi = (partition.moving() > 0).then(|| {
            let moving = partition.moving();
            let first = moving + usize::from(config.weights.time_dependent);
            let sizes: Vec<usize> = [first].iter().chain(&config.weights.hidden).chain(&[moving]).copied().collect();
            Mlp::init(&sizes, stream.child(1), device, dtype).zero_last()
        });
        let head = match config.head {
            HeadConfig::First {} => {
                ConfigError::unless(
                    outputs <= features,
                    "head.kind",
                    &"first",
                    "\"linear\" or \"mlp\" where there are more outputs than features",
                )?;
                None
            }
            HeadConfig::Linear {} => Some(vec![features, outputs]),
            HeadConfig::Mlp { hidden } => Some(vec![features, hidden, outputs]),
        };
        let (xi, learn_xi) = match config.dynamics {
            DynamicsConfig::Nesterov { xi, learn_xi, .. } => (xi, learn_xi),
            DynamicsConfig::FirstOrder {} | DynamicsConfig::HeavyBall { .. } => (0.0, false),
        };
        let log_scale = config
            .likelihood
            .scale()
            .map(|s| parameter(vec![s.scale.ln()], [1], device, dtype).set_require_grad(s.learn));
        let model = Self {
            w0: parameter(layout.init(stream.child(0)), [layout.len()], device, dtype),
            phi,
            head: head.map(|sizes| Mlp::init(&sizes, stream.child(2), device, dtype)),
            xi: parameter(vec![xi], [1], device, dtype).set_require_grad(learn_xi),
            log_scale,
            architecture: Arc::new(Architecture { config: config.clone(), drift, partition, features, outputs }),
            first_step: None,
        };
        model.check_engine(device, dtype)?;
        Ok(model)
    }

    /// An engine that was asked for by name must be able to do the work.
    fn check_engine(&self, device: &Device, dtype: DType) -> Result<(), ConfigError> {
        let solver = &self.config().solver;
        let able = solver.engine.allows_kernels(device, dtype)
            && (solver.controller == Controller::Fixed || solver.method != Method::Euler)
            && self.drift().kernel().is_some()
            && self.dynamics().kernel().is_some();
        ConfigError::unless(
            able || solver.engine != Engine::Fused,
            "solver.engine",
            &solver.engine,
            "\"auto\": there are kernels on the CPU, for first-order and Nesterov dynamics, and for Euler on a fixed grid only",
        )
    }

    /// The configuration that the model was built from.
    pub fn config(&self) -> &ModelConfig {
        &self.architecture.config
    }

    /// How it is solved: as the configuration says, after the solve before.
    pub fn solver(&self) -> SolverConfig {
        self.config().solver.after(self.first_step)
    }

    /// Remembers the first step of a solve for the next.
    pub fn with_first_step(mut self, first_step: Option<f64>) -> Self {
        self.first_step = first_step;
        self
    }

    /// The drift network.
    pub fn drift(&self) -> &dyn Drift {
        &*self.architecture.drift
    }

    /// Arithmetic of one evaluation of the drift network for one example and one weight sample, in floating-point operations; 0 where
    /// the kernels do not know the network.
    pub fn flops_per_evaluation(&self) -> f64 {
        self.kernel_problem().map_or(0.0, |p| p.flops_per_evaluation() as f64)
    }

    /// The same from `t0` to `T`; 0 also where the steps are not fixed.
    pub fn flops_per_example(&self) -> f64 {
        let fixed = |_: &_| self.config().solver.controller == Controller::Fixed;
        let problem = self.kernel_problem().filter(fixed);
        problem.map_or(0.0, |p| p.flops_per_evaluation() as f64 * p.evaluations() as f64)
    }

    fn kernel_problem(&self) -> Option<sdebnn_kernels::Problem> {
        let (drift, (dynamics, _)) = self.drift().kernel().zip(self.dynamics().kernel())?;
        let solver = &self.config().solver;
        sdebnn_kernels::Problem::new(drift, dynamics, solver.method.kernel(), solver.grid()).ok()
    }

    /// One Brownian path for each of `samples` weight samples, a function of the stream and the sample's index alone.
    pub fn brownian(&self, stream: Stream, samples: usize) -> Vec<DrawnPath> {
        let (solver, dim) = (&self.config().solver, self.architecture.partition.moving());
        (0..samples).map(|s| DrawnPath::new(stream.child(s as u64), dim, solver)).collect()
    }

    /// How many tensors the state of the dynamics has.
    pub fn components(&self) -> usize {
        match self.config().dynamics {
            DynamicsConfig::FirstOrder {} => 1,
            DynamicsConfig::Nesterov { .. } | DynamicsConfig::HeavyBall { .. } => 2,
        }
    }

    /// Hands the network, with its weights as the law moves them, to `work`.
    pub fn with_problem<T>(&self, law: Law, work: impl FnOnce(&Problem<'_>) -> T) -> T {
        let Architecture { config, drift, partition, .. } = &*self.architecture;
        let weights = &config.weights;
        let process = WeightProcess {
            sigma: weights.sigma,
            network: self.phi.as_ref().filter(|_| law == Law::Posterior),
            form: weights.posterior,
            time_dependent: weights.time_dependent,
            martingale: law == Law::Posterior && weights.estimator == Estimator::StickingTheLanding,
        };
        work(&Problem { drift: &**drift, dynamics: &*self.dynamics(), process, partition, w0: self.w0.val() })
    }

    /// Inputs `[batch, numbers]` with the zeros that are added to their features, once for every sample:
    /// `[samples, batch, features]`.
    pub fn augmented(&self, x: Tensor<2>, samples: usize) -> Tensor<3> {
        let features = self.architecture.features;
        let [batch, width] = x.dims();
        let input = x.unsqueeze::<3>().repeat_dim(0, samples);
        if features == width {
            return input;
        }
        let rest = Tensor::zeros([samples, batch, features - width], (&input.device(), input.dtype()));
        Tensor::cat(vec![input, rest], 2)
    }

    /// Runs inputs `[batch, numbers]` (images flattened channel by channel) through one network for every Brownian path.
    pub fn forward<P: BrownianPath>(&self, x: Tensor<2>, law: Law, paths: &[P]) -> Result<Forward, SolveError> {
        let Architecture { features, outputs, .. } = &*self.architecture;
        let batch = x.dims()[0];
        let input = self.augmented(x, paths.len());
        let solution = self.with_problem(law, |problem| problem.solve(&self.solver(), input, paths))?;
        let h = solution.output.clone();
        let outputs = match &self.head {
            None => h.narrow(2, 0, *outputs),
            Some(head) => {
                let rows = h.reshape([paths.len() * batch, *features]);
                head.forward(rows, Activation::Relu).reshape([paths.len(), batch, *outputs])
            }
        };
        Ok(Forward { outputs, solution })
    }

    fn dynamics(&self) -> Box<dyn Dynamics> {
        match self.config().dynamics {
            DynamicsConfig::FirstOrder {} => Box::new(FirstOrder),
            DynamicsConfig::Nesterov { residual, squash, .. } => {
                Box::new(Nesterov { residual, squash, xi: self.xi.val() })
            }
            DynamicsConfig::HeavyBall { damping } => Box::new(HeavyBall { damping }),
        }
    }

    /// The negative ELBO of a batch: `mean NLL + kl_coef · KL`.
    pub fn loss<P: BrownianPath>(
        &self,
        x: Tensor<2>,
        target: &Target,
        kl_coef: f64,
        paths: &[P],
    ) -> Result<Loss, SolveError> {
        let Forward { outputs, solution } = self.forward(x, Law::Posterior, paths)?;
        let log_scale = self.log_scale.as_ref().map(Param::val);
        let nll = self.config().likelihood.nll(outputs, target, log_scale);
        let first_step = solution.first_step();
        Ok(Loss { first_step, ..Loss::new(nll, solution.mean_kl(), kl_coef, solution.nfe, 1) })
    }
}
