//! Sequences with gaps: a recurrent cell at every frame, a stochastic block across every gap.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};

use crate::activation::Activation;
use crate::brownian::BrownianPath;
use crate::config::ModelConfig;
use crate::controller::{Controller, SolverConfig};
use crate::dynamics::State;
use crate::error::{Component, ConfigError, SolveError};
use crate::joint::is_finite;
use crate::likelihood::Target;
use crate::mlp::Mlp;
use crate::model::{Law, Loss, SdeBnn};
use crate::nfe::Nfe;
use crate::random::Stream;
use crate::solve::{Problem, mean_kl};
use crate::weights::WeightPath;

/// A recurrent cell: how a frame changes the hidden state.
pub trait Cell: Module {
    /// The hidden state `[batch, width]` after a frame `[batch, features]`.
    fn update(&self, state: Tensor<2>, frame: Tensor<2>) -> Tensor<2>;

    /// The cell as layers of which each, the last too, is followed by tanh, if it is one of those: the kernels have them.
    fn as_tanh_layers(&self) -> Option<&Mlp> {
        None
    }
}

/// `s ← tanh(A₂ tanh(A₁ [s; frame] + c₁) + c₂)`.
impl Cell for Mlp {
    fn update(&self, state: Tensor<2>, frame: Tensor<2>) -> Tensor<2> {
        self.forward(Tensor::cat(vec![state, frame], 1), Activation::Tanh).tanh()
    }

    fn as_tanh_layers(&self) -> Option<&Mlp> {
        Some(self)
    }
}

/// An ODE-RNN whose block between frames has stochastic weights.
///
/// ```text
/// s ← cell(s, frame)                                       at every frame
/// s ← the block's state at T, the field scaled by the gap  across every gap
/// prediction = A h(T) + c                                  read out after every gap
/// ```
///
/// The hidden state `s` is the block's whole state: `h`, or `(x, m)` for dynamics with momentum. One draw of the weights serves all
/// gaps of a sequence, so its KL divergence counts once. The block is any [`SdeBnn`] on vectors, the cell any [`Cell`].
#[derive(Module, Debug)]
pub struct OdeRnn<C: Module = Mlp> {
    /// The recurrent cell.
    pub cell: C,
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
    /// The function evaluations of all gaps together.
    pub nfe: Nfe,
    /// The first step that the last adaptive solve accepted.
    pub first_step: Option<f64>,
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
        let cell = Mlp::init(&[width + features, hidden, width], stream.child(1), device, dtype);
        Ok(Self::with_parts(cell, block, Mlp::init(&[hidden, features], stream.child(2), device, dtype)))
    }
}

impl<C: Cell> OdeRnn<C> {
    /// A model of a cell, a block, and a read-out of as many inputs as the block's `h` has numbers.
    ///
    /// # Panics
    /// If the read-out has no layer.
    pub fn with_parts(cell: C, block: SdeBnn, readout: Mlp) -> Self {
        let hidden = readout.layers.first().expect("a layer").weight.val().dims()[1];
        Self { cell, block, readout, hidden }
    }

    /// Predicts the frame after every gap, with one draw of the weights.
    pub fn forward<P: BrownianPath>(&self, frames: &Frames, law: Law, path: &P) -> Result<SequenceForward, SolveError> {
        match self.block.with_problem(law, |problem| self.forward_whole(problem, frames, path)) {
            Some(found) => found,
            None => self.forward_probed(frames, law, path, |state| state),
        }
    }

    /// [`forward`](Self::forward) as one operation, where the kernels can do it.
    fn forward_whole<P: BrownianPath>(
        &self,
        problem: &Problem<'_>,
        frames: &Frames,
        path: &P,
    ) -> Option<Result<SequenceForward, SolveError>> {
        let (cell, solver) = (self.cell.as_tanh_layers()?, &self.block.config().solver);
        let (states, weights) = problem.carry_sequence(solver, cell, &frames.inputs, &frames.gaps, path)?;
        let [count, components, batch, hidden] = states.dims();
        let state = states.chunk(components, 1).into_iter().map(|c| c.reshape([1, count * batch, hidden])).collect();
        let outputs = problem.dynamics.output(solver.t1, &state).squeeze_dim::<2>(0);
        let kl = mean_kl(&weights.kl, weights.martingale.as_ref());
        let nfe = (0..count).fold(Nfe::default(), |sum, _| sum + solver.fixed_nfe());
        Some(self.read_out(outputs, count).map(|predictions| SequenceForward {
            predictions,
            kl,
            nfe,
            first_step: None,
        }))
    }

    /// [`forward`](Self::forward), where `probe` sees (and may replace) the hidden state after every update by the cell.
    fn forward_probed<P: BrownianPath>(
        &self,
        frames: &Frames,
        law: Law,
        path: &P,
        mut probe: impl FnMut(Tensor<2>) -> Tensor<2>,
    ) -> Result<SequenceForward, SolveError> {
        self.block.with_problem(law, |problem| {
            let mut gaps = Gaps::new(problem, self.block.solver(), path);
            let mut state = self.start(frames);
            let mut outputs = Vec::with_capacity(frames.inputs.len());
            for (frame, gap) in frames.inputs.iter().zip(&frames.gaps) {
                let updated = probe(self.cell.update(state, frame.clone()));
                let (output, end) = gaps.cross(updated, self.block.components(), gap)?;
                outputs.push(output);
                state = end;
            }
            let predictions = self.read_out(Tensor::cat(outputs, 0), frames.inputs.len())?;
            Ok(SequenceForward { predictions, kl: gaps.kl(), nfe: gaps.nfe, first_step: gaps.first_step })
        })
    }

    /// Predicts `ahead` frames beyond the last, by taking predictions for frames, with one draw of the weights:
    /// `[ahead, batch, features]`. The gap after the last frame is also the one between the predicted frames.
    ///
    /// # Panics
    /// If there is no frame, or none is to be predicted.
    pub fn forecast<P: BrownianPath>(&self, frames: &Frames, ahead: usize, path: &P) -> Result<Tensor<3>, SolveError> {
        self.block.with_problem(Law::Posterior, |problem| {
            let mut gaps = Gaps::new(problem, self.block.solver(), path);
            let mut state = self.start(frames);
            let (mut prediction, mut predictions) = (None, Vec::with_capacity(ahead));
            let last = frames.inputs.len().saturating_sub(1);
            for i in 0..last + ahead {
                let frame = if i <= last { Some(frames.inputs[i].clone()) } else { prediction.take() };
                let updated = self.cell.update(state, frame.expect("the prediction before"));
                let (output, end) = gaps.cross(updated, self.block.components(), &frames.gaps[i.min(last)])?;
                state = end;
                if i >= last {
                    let found = self.read_out(output, 1)?;
                    prediction = Some(found.clone().squeeze_dim(0));
                    predictions.push(found);
                }
            }
            Ok(Tensor::cat(predictions, 0))
        })
    }

    fn start(&self, frames: &Frames) -> Tensor<2> {
        let batch = frames.inputs.first().map_or(0, |frame| frame.dims()[0]);
        let w0 = self.block.w0.val();
        Tensor::zeros([batch, self.hidden * self.block.components()], (&w0.device(), w0.dtype()))
    }

    /// The predictions of the activations after `count` gaps (`[count · batch, hidden]`), `[count, batch, features]`.
    fn read_out(&self, outputs: Tensor<2>, count: usize) -> Result<Tensor<3>, SolveError> {
        let rows = self.readout.forward(outputs, Activation::Identity);
        let features = rows.dims()[1] as i32;
        let predictions = rows.reshape([count as i32, -1, features]);
        let t = self.block.config().solver.t1;
        let finite = is_finite(&predictions);
        if finite { Ok(predictions) } else { Err(SolveError::NotFinite { t, component: Component::Activations }) }
    }

    /// The negative ELBO: `mean NLL + kl_coef · KL`, for targets `[frames, batch, features]`.
    pub fn loss<P: BrownianPath>(
        &self,
        frames: &Frames,
        targets: Tensor<3>,
        kl_coef: f64,
        path: &P,
    ) -> Result<Loss, SolveError> {
        let SequenceForward { predictions, kl, nfe, first_step } = self.forward(frames, Law::Posterior, path)?;
        let [count, batch, features] = predictions.dims();
        let [outputs, targets] = [predictions, targets].map(|t| t.reshape([count * batch, features]));
        let target = Target::Values(targets);
        let log_scale = self.block.log_scale.as_ref().map(Param::val);
        let nll = self.block.config().likelihood.nll(outputs.unsqueeze(), &target, log_scale);
        Ok(Loss { first_step, ..Loss::new(nll, kl, kl_coef, nfe, count) })
    }

    /// `‖∂L/∂sᵢ‖₂` of the hidden state after every update by the cell, averaged over the batch. `L` is the squared error, averaged over
    /// the features, of the prediction after the last gap; `targets` are `[frames, batch, features]`.
    ///
    /// # Panics
    /// If the model is not on a device with autodiff, or there is no frame.
    pub fn gradient_norms<P: BrownianPath>(
        &self,
        frames: &Frames,
        targets: Tensor<3>,
        path: &P,
    ) -> Result<Vec<f64>, SolveError> {
        // Gradients are kept of leaves alone: a zero that is added to a state has the state's gradient.
        let mut leaves = Vec::with_capacity(frames.inputs.len());
        let found = self.forward_probed(frames, Law::Posterior, path, |state| {
            let leaf = state.zeros_like().detach().require_grad();
            leaves.push(leaf.clone());
            state + leaf
        })?;
        let [count, _, features] = found.predictions.dims();
        let last = |t: Tensor<3>| t.narrow(0, count - 1, 1);
        // An example's loss has nothing of another's state, so the gradient of the sum is that of each.
        // Not `div_scalar`, whose gradient is rounded to 32 bits.
        let loss = (last(found.predictions) - last(targets)).square().sum().mul_scalar(1.0 / features as f64);
        let gradients = loss.backward();
        let norm = |leaf: &Tensor<2>| {
            let [batch, width] = leaf.dims();
            let gradient = leaf.grad(&gradients).expect("a leaf that the loss depends on");
            // Gradients of early frames are so small that their squares need 64 bits.
            let values = gradient.try_into_vec_as::<f64>().expect("floating-point numbers");
            let norms = values.chunks(width).map(|row| row.iter().map(|v| v * v).sum::<f64>().sqrt());
            norms.sum::<f64>() / batch as f64
        };
        Ok(leaves.iter().map(norm).collect())
    }
}

/// The gaps of a sequence, crossed one after the other with the same draw of the weights.
///
/// On a fixed grid the weights are solved once. Adaptive steps depend on the activations, so there every gap is a solve of the joint
/// state on the same Brownian path, and the KL divergence is that of the first.
struct Gaps<'a, P> {
    problem: &'a Problem<'a>,
    solver: SolverConfig,
    path: &'a P,
    weights: Option<WeightPath>,
    kl: Option<Tensor<1>>,
    nfe: Nfe,
    first_step: Option<f64>,
}

impl<'a, P: BrownianPath> Gaps<'a, P> {
    fn new(problem: &'a Problem<'a>, solver: SolverConfig, path: &'a P) -> Self {
        let weights = match solver.controller {
            Controller::Fixed => Some(problem.weight_path(&solver, std::slice::from_ref(path))),
            Controller::StepDoubling | Controller::Embedded => None,
        };
        let kl = weights.as_ref().map(|weights| mean_kl(&weights.kl, weights.martingale.as_ref()));
        Self { problem, solver, path, weights, kl, nfe: Nfe::default(), first_step: None }
    }

    /// The activations `[batch, hidden]` and the state `[batch, components · hidden]` at the end of a gap.
    fn cross(
        &mut self,
        state: Tensor<2>,
        components: usize,
        gap: &Tensor<1>,
    ) -> Result<(Tensor<2>, Tensor<2>), SolveError> {
        let start: State = state.chunk(components, 1).into_iter().map(|c| c.unsqueeze::<3>()).collect();
        let end = match &self.weights {
            Some(weights) => {
                self.nfe = self.nfe + self.solver.fixed_nfe();
                self.problem.carry(&self.solver, weights, start, Some(gap))
            }
            None => {
                let path = std::slice::from_ref(self.path);
                let solver = self.solver.after(self.first_step);
                let found = self.problem.solve_adaptive(&solver, start, path, Some(gap))?;
                self.nfe = self.nfe + found.nfe;
                self.first_step = found.first_step();
                self.kl.get_or_insert_with(|| found.mean_kl());
                found.state
            }
        };
        let output = self.problem.dynamics.output(self.solver.t1, &end).squeeze_dim(0);
        Ok((output, Tensor::cat(end.into_iter().map(|c| c.squeeze_dim::<2>(0)).collect(), 1)))
    }

    fn kl(&self) -> Tensor<1> {
        let none = || Tensor::zeros([1], (&self.problem.w0.device(), self.problem.w0.dtype()));
        self.kl.clone().unwrap_or_else(none)
    }
}
