use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use super::{Dynamics, Memory, State};
use crate::activation::Activation;
use crate::fused::Kernel;

/// The residual connection of [`Nesterov`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Residual {
    /// `dm = [ −m − s(f_w(h,t) + ε ξ h_temp) ] dt`. With n drift evaluations made before this one, n even caches `h_temp := h` and has
    /// ε = 0, n odd has ε = 1 and the cached `h_temp`.
    ///
    /// This is not a vector field but a field tied to its solver: as steps shrink, midpoint converges (with order 1) to "ε always 1",
    /// Heun and Euler to something else. A continuous adjoint is ill-defined for it; gradients are those of the discrete solve.
    #[default]
    Skip,
    /// `dm = [ −m − s(f_w(h,t)) − ξ h ] dt`.
    Direct,
    /// `dm = [ −m − s(f_w(h,t)) ] dt`.
    None,
}

/// Nesterov-SDEBNN: `h = s(k(t)) x`, `k(t) = t^(-3/2) e^(t/2)`, `dx = s(m) dt`, `m(t0) = 0`, and `dm` by [`Residual`].
#[derive(Clone, Debug)]
pub struct Nesterov {
    /// The residual connection.
    pub residual: Residual,
    /// The squashing function `s = σ_f`.
    pub squash: Activation,
    /// The strength `ξ` of the residual connection, `[1]`.
    pub xi: Tensor<1>,
}

impl Nesterov {
    /// `s(k(t))`; at `t = 0`, where `k` is infinite, the limit of `s` (NaN if there is none).
    pub fn factor(&self, t: f64) -> f64 {
        if t <= 0.0 {
            return self.squash.limit().unwrap_or(f64::NAN);
        }
        self.squash.value(t.powf(-1.5) * (0.5 * t).exp())
    }
}

impl Dynamics for Nesterov {
    fn start(&self, input: Tensor<3>) -> State {
        let rest = input.zeros_like();
        vec![input, rest]
    }

    fn derivative(&self, t: f64, state: &State, f: &dyn Fn(Tensor<3>) -> Tensor<3>, memory: &mut Memory) -> State {
        let m = state[1].clone();
        let h = self.output(t, state);
        let xi = || self.xi.clone().reshape([1, 1, 1]);
        let force = f(h.clone());
        let pull = match self.residual {
            Residual::None => self.squash.apply(force),
            Residual::Direct => self.squash.apply(force) + h * xi(),
            Residual::Skip => match memory.cached.clone() {
                Some(cached) if memory.evaluations % 2 == 1 => self.squash.apply(force + cached * xi()),
                _ => {
                    memory.cached = Some(h);
                    self.squash.apply(force)
                }
            },
        };
        vec![self.squash.apply(m.clone()), (m + pull).neg()]
    }

    fn output(&self, t: f64, state: &State) -> Tensor<3> {
        state[0].clone().mul_scalar(self.factor(t))
    }

    fn kernel(&self) -> Option<(sdebnn_kernels::Dynamics, Option<Tensor<1>>)> {
        let (residual, squash) = (self.residual.kernel(), self.squash.kernel());
        Some((sdebnn_kernels::Dynamics::Nesterov { residual, squash }, Some(self.xi.clone())))
    }
}
