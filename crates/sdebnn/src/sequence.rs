//! Sequences with gaps: a recurrent cell at every frame, a stochastic block across every gap.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};

use crate::activation::Activation;
use crate::brownian::BrownianPath;
use crate::config::ModelConfig;
use crate::error::{Component, ConfigError, SolveError};
use crate::joint::is_finite;
use crate::likelihood::Target;
use crate::mlp::Mlp;
use crate::model::{Law, Loss, SdeBnn};
use crate::nfe::Nfe;
use crate::random::Stream;
use crate::solve::Problem;
use crate::weights::WeightPath;

/// An ODE-RNN whose block between frames has stochastic weights.
///
/// ```text
/// s ← tanh(A₂ tanh(A₁ [s; frame] + c₁) + c₂)              at every frame
/// s ← the block's state at T, the field scaled by the gap  across every gap
/// prediction = A h(T) + c                                  read out after every gap
/// ```
///
/// The hidden state `s` is the block's whole state: `h`, or `(x, m)` for dynamics with momentum. One draw of the weights serves all
/// gaps of a sequence, so its KL divergence counts once.
#[derive(Module, Debug)]
pub struct OdeRnn {
    /// The recurrent cell.
    pub cell: Mlp,
    /// The block across the gaps.
    pub block: SdeBnn,
    /// The linear read-out.
    pub readout: Mlp,
    #[module(skip)]
    hidden: usize,
}

/// The frames of a batch of sequences.
#[derive(Clone, Debug)]
pub struct Frames {
    /// One tensor `[batch, features]` a frame.
    pub inputs: Vec<Tensor<2>>,
    /// The gap that follows each frame, `[batch]` a frame.
    pub gaps: Vec<Tensor<1>>,
}

/// A forward pass over sequences.
#[derive(Debug)]
pub struct SequenceForward {
    /// The prediction after every gap, `[frames, batch, features]`.
    pub predictions: Tensor<3>,
    /// The KL divergence, `[1]`.
    pub kl: Tensor<1>,
    /// The function evaluations of one gap.
    pub nfe: Nfe,
}

impl OdeRnn {
    /// An untrained model with a hidden state of `hidden` numbers a component. `config.augment` must be 0 and its head is not used.
    pub fn new(
        config: &ModelConfig,
        features: usize,
        hidden: usize,
        stream: Stream,
        device: &Device,
        dtype: DType,
    ) -> Result<Self, ConfigError> {
        ConfigError::unless(config.augment == 0, "augment", &config.augment, "0 for sequences")?;
        let block = SdeBnn::new(config, &[hidden], hidden, stream.child(0), device, dtype)?;
        let width = hidden * block.components();
        Ok(Self {
            cell: Mlp::init(&[width + features, hidden, width], stream.child(1), device, dtype),
            block,
            readout: Mlp::init(&[hidden, features], stream.child(2), device, dtype),
            hidden,
        })
    }

    /// Predicts the frame after every gap, with one draw of the weights.
    pub fn forward<P: BrownianPath>(&self, frames: &Frames, law: Law, path: &P) -> Result<SequenceForward, SolveError> {
        let solver = &self.block.config().solver;
        self.block.with_problem(law, |problem| {
            let weights = problem.weight_path(solver, std::slice::from_ref(path));
            let states = problem
                .carry_sequence(solver, &weights, &self.cell, &frames.inputs, &frames.gaps)
                .unwrap_or_else(|| self.states(&problem, &weights, frames));
            let [count, components, batch, hidden] = states.dims();
            let after = states.chunk(components, 1).into_iter().map(|c| c.reshape([1, count * batch, hidden])).collect();
            let outputs = problem.dynamics.output(solver.t1, &after).squeeze_dim::<2>(0);
            let rows = self.readout.forward(outputs, Activation::Identity);
            let features = rows.dims()[1];
            let predictions = rows.reshape([count, batch, features]);
            if !is_finite(&predictions) {
                return Err(SolveError::NotFinite { t: solver.t1, component: Component::Activations });
            }
            Ok(SequenceForward { predictions, kl: weights.kl.mean(), nfe: solver.fixed_nfe() })
        })
    }

    /// The state after every gap, `[frames, components, batch, hidden]`, operation by operation.
    fn states(&self, problem: &Problem<'_>, weights: &WeightPath, frames: &Frames) -> Tensor<4> {
        let solver = &self.block.config().solver;
        let (components, batch) = (self.block.components(), frames.inputs[0].dims()[0]);
        let mut state = Tensor::zeros([batch, self.hidden * components], (&problem.w0.device(), problem.w0.dtype()));
        let mut states = Vec::with_capacity(frames.inputs.len());
        for (frame, gap) in frames.inputs.iter().zip(&frames.gaps) {
            let input = Tensor::cat(vec![state, frame.clone()], 1);
            let updated = self.cell.forward(input, Activation::Tanh).tanh();
            let start = updated.chunk(components, 1).into_iter().map(|c| c.unsqueeze::<3>()).collect();
            let end = problem.carry(solver, weights, start, Some(gap));
            states.push(Tensor::cat(end.clone(), 0));
            state = Tensor::cat(end.into_iter().map(|c| c.squeeze_dim::<2>(0)).collect(), 1);
        }
        Tensor::stack(states, 0)
    }

    /// The negative ELBO: `mean NLL + kl_coef · KL`, for targets `[frames, batch, features]`.
    pub fn loss<P: BrownianPath>(
        &self,
        frames: &Frames,
        targets: Tensor<3>,
        kl_coef: f64,
        path: &P,
    ) -> Result<Loss, SolveError> {
        let SequenceForward { predictions, kl, nfe } = self.forward(frames, Law::Posterior, path)?;
        let [count, batch, features] = predictions.dims();
        let [outputs, targets] = [predictions, targets].map(|t| t.reshape([count * batch, features]));
        let target = Target::Values(targets);
        let log_scale = self.block.log_scale.as_ref().map(Param::val);
        let nll = self.block.config().likelihood.nll(outputs.unsqueeze(), &target, log_scale);
        Ok(Loss { total: nll.clone() + kl.clone().mul_scalar(kl_coef), nll, kl, nfe })
    }
}
