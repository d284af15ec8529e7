//! The path of the weights: `dw = f(w, t) dt + σ dB` with a learned drift, forward and backward.
//!
//! A [`WeightPathProblem`] says what is solved, a [`WeightPathSolver`] solves it for some samples of the Brownian motion and
//! carries gradients back.
//!
//! The first layer `V` and the last one `U` of the network have few rows and as many columns as there are moving weights; the hidden
//! layers between them are small. Both are linear, and so is the rest of the drift. So what the network sees of the weights, `V w`, moves
//! by itself, as they do, given `V U` and `V ΔB`. The hidden layers of all evaluations come first, then all weights, columns after
//! columns. On the way back, the weights are `U c` and a part without parameters, with a few coefficients `c` that move as they do; their gradient `g` enters by
//! `Uᵀ g`, and every gradient of `φ` is a sum of outer products over all evaluations at once.
//!
//! Samples share the matrices they load; groups of them, and pieces of long rows, run on different threads. Neither depends on the number
//! of threads, and nor do the results, to the last bit.

mod backward;
mod columns;
mod forward;
mod hidden;
mod layout;
mod outer_products;
mod parameter_gradients;
mod scheme;
mod solver;
mod tape;

pub use solver::{
    WeightPathGradients, WeightPathInputs, WeightPathOutputGradients, WeightPathOutputs, WeightPathSolver,
};
pub use tape::WeightPathTape;

use layout::Layout;

use crate::{error::Error, problem::Method};

/// How the network enters the drift of the weights, whose prior is `dw = -w dt + σ dB`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PosteriorForm {
    /// `f = NN_φ - w`, so `u = NN_φ / σ`.
    #[default]
    Residual,
    /// `f = NN_φ + w`, so `u = (NN_φ + 2 w) / σ`.
    Literal,
}

impl PosteriorForm {
    /// `a` of `f = NN_φ + a w`.
    fn decay(self) -> f64 {
        match self {
            Self::Residual => -1.0,
            Self::Literal => 1.0,
        }
    }

    /// `a` of `σ u = NN_φ + a w`: the prior's drift is `-w`.
    fn shift(self) -> f64 {
        self.decay() + 1.0
    }
}

/// A validated problem: carry weights along a grid.
///
/// `dw = f(w, t) dt + σ dB`, where [`PosteriorForm`] gives `f` and `u` by a network `NN_φ` of `M (+1) → hidden… → M` numbers with
/// tanh between its layers, and `KL = ∫ ½‖u‖² dt`. As explicit Runge-Kutta methods,
///
/// ```text
/// wᵢ = y + cᵢ (Δt kᵢ₋₁ + σ ΔBᵢ),   kᵢ = f(wᵢ, t + cᵢ Δt),   y⁺ = y + Δt Σ bᵢ kᵢ + σ ΔB,   KL⁺ = KL + Δt Σ bᵢ ½‖uᵢ‖².
/// ```
///
/// `ΔBᵢ` is the increment `ΔB` of the step, except by [`Method::Sra1`], where it is twice the mean of `B − B(t)` over the step.
///
/// The parameters `φ` are flat: the weights `[outputs][inputs]` and the biases of each layer. If the network depends on the
/// time, that is input 0 of its first layer.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightPathProblem {
    layout: Layout,
    sigma: f64,
    form: PosteriorForm,
    method: Method,
    grid: Vec<f64>,
    /// The time of every evaluation.
    times: Vec<f64>,
}

impl WeightPathProblem {
    /// `moving` weights with diffusion `sigma`, driven by a network with the given hidden layers.
    ///
    /// # Errors
    /// If there is no hidden layer, a size is zero, `sigma` is not positive and finite, or the grid does not increase.
    pub fn new(
        moving: usize,
        hidden: &[usize],
        time_dependent: bool,
        form: PosteriorForm,
        sigma: f64,
        method: Method,
        grid: Vec<f64>,
    ) -> Result<Self, Error> {
        if hidden.is_empty() {
            return Err(Error::NoHiddenLayer);
        }
        if moving == 0 || hidden.contains(&0) {
            let sizes = [&[moving], hidden, &[moving]].concat();
            return Err(Error::DenseSizes { sizes });
        }
        if !(sigma.is_finite() && sigma > 0.0) {
            return Err(Error::Diffusion { sigma });
        }
        if grid.len() < 2 {
            return Err(Error::ShortGrid { points: grid.len() });
        }
        for (index, &time) in grid.iter().enumerate() {
            if !time.is_finite() || (index > 0 && time <= grid[index - 1]) {
                return Err(Error::GridOrder { index, time });
            }
        }
        let stage_time = |ends: &[f64], stage: usize| match method.node(stage) {
            1.0 => ends[1],
            node => ends[0] + node * (ends[1] - ends[0]),
        };
        let step = |ends| (0..method.stages()).map(move |stage| stage_time(ends, stage));
        let times = grid.windows(2).flat_map(step).collect();
        Ok(Self { layout: Layout::new(hidden, moving, time_dependent), sigma, form, method, grid, times })
    }

    /// Number `M` of moving weights.
    #[must_use]
    pub fn moving(&self) -> usize {
        self.layout.moving()
    }

    /// How many numbers the network sees of the weights: the outputs of its first layer.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.layout.outputs(0)
    }

    /// Number of parameters `φ`.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.layout.parameters()
    }

    /// Number `n` of steps.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.grid.len() - 1
    }

    /// Number of drift evaluations: steps × stages.
    #[must_use]
    pub fn evaluations(&self) -> usize {
        self.times.len()
    }
}
