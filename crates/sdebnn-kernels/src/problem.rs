//! The initial value problem: drift network, dynamics, method and time grid.

use crate::{activation::Activation, error::Error, layer::TimeInput, network::Network};

/// The drift network `f_w(h, t)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// Groups of convolutional blocks on images.
    ///
    /// A block on `C` channels is conv3×3(`C`→width, pad 1) · act · conv3×3(stride 2, pad 1) · act ·
    /// transposed conv3×3(stride 2, output padding 1) · act · conv3×3(width→`C`). Between groups,
    /// conv3×3(`C`→4`C`, stride 2, pad 1) halves the image. An activation follows each block but the last. Every convolution sees
    /// one more input channel (index 0) filled with `t`.
    Conv {
        /// Channels, height and width of the state.
        shape: [usize; 3],
        /// Channels of the hidden layers.
        width: usize,
        /// Number of blocks of each group.
        blocks: Vec<usize>,
        /// Activation between layers.
        activation: Activation,
    },
    /// Dense layers with an activation between them.
    Dense {
        /// Sizes of the state, the hidden layers, and the state again.
        sizes: Vec<usize>,
        /// Activation between layers.
        activation: Activation,
        /// How each layer sees the time.
        time: TimeInput,
    },
}

/// How the drift network moves the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dynamics {
    /// `dh = f_w(h, t) dt`, state `h`.
    FirstOrder,
    /// `dx = s(m) dt`, `dm = [-m - s(f_w(h, t)) …] dt` with `h = s(k(t)) x`, `k(t) = t^(-3/2) e^(t/2)`, state `(x, m)`.
    Nesterov {
        /// The residual term of `dm`.
        residual: Residual,
        /// The function `s`.
        squash: Activation,
    },
}

/// The residual term of the Nesterov dynamics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Residual {
    /// `dm = [-m - s(f_w(h, t) + ε ξ h_temp)] dt`: every even evaluation (counting from 0) stores `h_temp = h` and has
    /// `ε = 0`, every odd one has `ε = 1`. Not a vector field but one tied to its solver: the order of convergence is 1, and
    /// the gradients are those of the discrete solve.
    Skip,
    /// `dm = [-m - s(f_w(h, t)) - ξ h] dt`
    Direct,
    /// `dm = [-m - s(f_w(h, t))] dt`
    None,
}

/// The Runge-Kutta method, `y⁺ = y + Δt Σ bᵢ kᵢ`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// One stage at `t`.
    Euler,
    /// Stages at `t` and `t + ½Δt`; the second one makes the step.
    Midpoint,
    /// Stages at `t` and `t + Δt`; their mean makes the step.
    Heun,
    /// Stages at `t` and `t + ¾Δt`; a third of the first and two thirds of the second make the step. Of strong order 1.5 for weights that
    /// are given the mean of the Brownian path over each step, besides its increment.
    Sra1,
}

impl Method {
    /// Drift evaluations a step.
    #[must_use]
    pub fn stages(self) -> usize {
        match self {
            Self::Euler => 1,
            Self::Midpoint | Self::Heun | Self::Sra1 => 2,
        }
    }

    /// Place of stage `stage` in the step, in units of `Δt`; also how far its state is from `y` along the previous stage.
    pub(crate) fn node(self, stage: usize) -> f64 {
        match (self, stage) {
            (_, 0) | (Self::Euler, _) => 0.0,
            (Self::Midpoint, _) => 0.5,
            (Self::Heun, _) => 1.0,
            (Self::Sra1, _) => 0.75,
        }
    }

    /// Weight `b` of stage `stage` in the step.
    pub(crate) fn weight(self, stage: usize) -> f64 {
        match (self, stage) {
            (Self::Euler, _) => 1.0,
            (Self::Midpoint, 0) => 0.0,
            (Self::Midpoint, _) => 1.0,
            (Self::Heun, _) => 0.5,
            (Self::Sra1, 0) => 1.0 / 3.0,
            (Self::Sra1, _) => 2.0 / 3.0,
        }
    }

    /// Rows of noise a step: one increment for the whole step, or one for each stage but the first and one for the step's end.
    #[must_use]
    pub fn increments(self) -> usize {
        if self == Self::Sra1 { self.stages() } else { 1 }
    }
}

/// A validated problem: carry activations from `grid[0]` to the last time of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    drift: Drift,
    dynamics: Dynamics,
    method: Method,
    grid: Vec<f64>,
    parameters: usize,
    flops: usize,
}

impl Problem {
    /// Checks that the parts fit together.
    ///
    /// # Errors
    /// If the network's shape is impossible, the grid does not increase, or Nesterov dynamics start where they are undefined.
    pub fn new(drift: Drift, dynamics: Dynamics, method: Method, grid: Vec<f64>) -> Result<Self, Error> {
        check_drift(&drift)?;
        check_grid(dynamics, &grid)?;
        let network = Network::new(&drift, 1, 0);
        let (parameters, flops) = (network.parameters, network.flops());
        Ok(Self { drift, dynamics, method, grid, parameters, flops })
    }

    /// The drift network.
    #[must_use]
    pub fn drift(&self) -> &Drift {
        &self.drift
    }

    /// The dynamics.
    #[must_use]
    pub fn dynamics(&self) -> Dynamics {
        self.dynamics
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// The same problem on another grid.
    ///
    /// # Errors
    /// If there can be no solve on the grid.
    pub fn on_grid(&self, grid: Vec<f64>) -> Result<Self, Error> {
        check_grid(self.dynamics, &grid)?;
        Ok(Self { grid, ..self.clone() })
    }

    /// The times of the grid.
    #[must_use]
    pub fn grid(&self) -> &[f64] {
        &self.grid
    }

    /// Number of steps.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.grid.len() - 1
    }

    /// Number of drift evaluations: steps × stages.
    #[must_use]
    pub fn evaluations(&self) -> usize {
        self.steps() * self.method.stages()
    }

    /// The time of every drift evaluation, in order.
    #[must_use]
    pub fn evaluation_times(&self) -> Vec<f64> {
        let step = |ends: &[f64]| {
            let (start, length) = (ends[0], ends[1] - ends[0]);
            let end = ends[1];
            (0..self.method.stages()).map(move |stage| match self.method.node(stage) {
                1.0 => end,
                node => start + node * length,
            })
        };
        self.grid.windows(2).flat_map(step).collect()
    }

    /// Parameters `P` of the drift network.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Numbers `F` in one component of one example's state.
    #[must_use]
    pub fn features(&self) -> usize {
        match &self.drift {
            Drift::Conv { shape, .. } => shape.iter().product(),
            Drift::Dense { sizes, .. } => sizes[0],
        }
    }

    /// Components of the state: 1 (`h`) or 2 (`x`, `m`).
    #[must_use]
    pub fn components(&self) -> usize {
        match self.dynamics {
            Dynamics::FirstOrder => 1,
            Dynamics::Nesterov { .. } => 2,
        }
    }

    /// Floating-point operations (a multiply-add counts 2) of the layers in one forward evaluation for one example, without
    /// taps outside the image, time and activations. The backward pass has twice as many.
    #[must_use]
    pub fn flops_per_evaluation(&self) -> usize {
        self.flops
    }
}

fn check_grid(dynamics: Dynamics, grid: &[f64]) -> Result<(), Error> {
    if grid.len() < 2 {
        return Err(Error::ShortGrid { points: grid.len() });
    }
    for (index, &time) in grid.iter().enumerate() {
        let follows = index == 0 || time > grid[index - 1];
        if !time.is_finite() || !follows {
            return Err(Error::GridOrder { index, time });
        }
    }
    if let Dynamics::Nesterov { squash, .. } = dynamics {
        if grid[0] < 0.0 {
            return Err(Error::NegativeTime { start: grid[0] });
        }
        if grid[0] == 0.0 && squash.limit().is_none() {
            return Err(Error::UnboundedSquash { squash });
        }
    }
    Ok(())
}

fn check_drift(drift: &Drift) -> Result<(), Error> {
    match drift {
        Drift::Dense { sizes, .. } => {
            if sizes.len() < 2 || sizes.contains(&0) {
                return Err(Error::DenseSizes { sizes: sizes.clone() });
            }
            let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
            if first != last {
                return Err(Error::DriftSize { first, last });
            }
        }
        Drift::Conv { shape: [channels, height, width], width: hidden, blocks, .. } => {
            if *channels == 0 || *hidden == 0 || blocks.is_empty() || blocks.contains(&0) {
                return Err(Error::ConvSizes { channels: *channels, width: *hidden, blocks: blocks.clone() });
            }
            let (mut height, mut width) = (*height, *width);
            for group in 0..blocks.len() {
                if height == 0 || width == 0 || height % 2 != 0 || width % 2 != 0 {
                    return Err(Error::OddImage { group, height, width });
                }
                height /= 2;
                width /= 2;
            }
        }
    }
    Ok(())
}
