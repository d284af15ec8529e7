use burn::tensor::Tensor;
use sdebnn_kernels::WeightPathProblem;
use serde::{Deserialize, Serialize};

use crate::activation::Activation;
use crate::fused::Kernel;
use crate::method::{Method, Tableau};
use crate::mlp::Mlp;

/// How the learned network enters the posterior drift `f_q`; the prior's is `f_p(w) = −w`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PosteriorForm {
    /// `f_q = f_p + NN_φ`, so `u = NN_φ/σ`.
    #[default]
    Residual,
    /// `f_q = NN_φ − f_p`, as the paper prints it, so `u = (NN_φ − 2 f_p)/σ`.
    Literal,
}

/// `dw = f(w, t) dt + σ dB`: the prior (Ornstein–Uhlenbeck, `f = −w`) or the posterior with its learned drift.
#[derive(Clone, Copy, Debug)]
pub struct WeightProcess<'a> {
    /// The diffusion `σ`.
    pub sigma: f64,
    /// The posterior's network `NN_φ` (tanh, `P → … → P`); `None` is the prior.
    pub network: Option<&'a Mlp>,
    /// How the network enters the drift.
    pub form: PosteriorForm,
    /// Whether the network sees the time as its input 0.
    pub time_dependent: bool,
    /// Whether `∫ u·dB` is carried as well (sticking the landing), `φ` detached.
    pub martingale: bool,
}

/// The drift of the weights and the KL rate at one point.
#[derive(Clone, Debug)]
pub(crate) struct WeightSlope {
    dw: Tensor<2>,
    /// `½‖u‖²` of every sample.
    dkl: Option<Tensor<1>>,
}

/// One step of the weights.
#[derive(Debug)]
pub(crate) struct WeightStep {
    /// The weights at every stage.
    pub stages: Vec<Tensor<2>>,
    /// The weights at the end.
    pub end: Tensor<2>,
    /// The KL divergence of this step, `[samples]`; `None` under the prior.
    pub kl: Option<Tensor<1>>,
    /// `∫ u·dB` over this step, if it is carried.
    pub martingale: Option<Tensor<1>>,
    /// The slope at the first stage, for a step that starts at the same point.
    pub first: WeightSlope,
}

impl WeightProcess<'_> {
    fn slope(&self, t: f64, w: &Tensor<2>) -> WeightSlope {
        let Some(network) = self.network else {
            return WeightSlope { dw: w.clone().neg(), dkl: None };
        };
        let output = network.forward(self.network_input(t, w), Activation::Tanh);
        let dkl = self.u(w, output.clone()).square().sum_dim(1).mul_scalar(0.5).squeeze_dim(1);
        let dw = match self.form {
            PosteriorForm::Residual => output - w.clone(),
            PosteriorForm::Literal => output + w.clone(),
        };
        WeightSlope { dw, dkl: Some(dkl) }
    }

    /// The same process of `moving` weights in the kernels.
    pub(crate) fn kernel(&self, network: &Mlp, moving: usize, method: Method, grid: Vec<f64>) -> WeightPathProblem {
        let hidden: Vec<usize> = network.layers.iter().skip(1).map(|layer| layer.weight.dims()[1]).collect();
        let (form, method) = (self.form.kernel(), method.kernel());
        WeightPathProblem::new(moving, &hidden, self.time_dependent, form, self.sigma, method, grid)
            .expect("a process and a grid that were checked when they were made")
    }

    fn network_input(&self, t: f64, w: &Tensor<2>) -> Tensor<2> {
        if !self.time_dependent {
            return w.clone();
        }
        let time = Tensor::full([w.dims()[0], 1], t, (&w.device(), w.dtype()));
        Tensor::cat(vec![time, w.clone()], 1)
    }

    /// `u = (f_q − f_p)/σ` from the network's output.
    fn u(&self, w: &Tensor<2>, output: Tensor<2>) -> Tensor<2> {
        match self.form {
            PosteriorForm::Residual => output,
            PosteriorForm::Literal => output + w.clone().mul_scalar(2.0),
        }
        .mul_scalar(1.0 / self.sigma)
    }

    /// `u(w(t), t)·ΔB` with `φ` detached. `u` is taken at the start of the step, before `ΔB`: a martingale, so its mean is exactly 0.
    fn martingale(&self, t: f64, w: &Tensor<2>, noise: &Tensor<2>) -> Option<Tensor<1>> {
        let network = self.network.filter(|_| self.martingale)?;
        let output = network.forward_detached(self.network_input(t, w), Activation::Tanh);
        Some((self.u(w, output) * noise.clone()).sum_dim(1).squeeze_dim(1))
    }

    /// One step from `t0` to `t1` with the method's rows of `noise`, `[increments, samples, moving]`; `first` is the slope at the start if it
    /// is known.
    pub(crate) fn step(
        &self,
        tableau: &Tableau,
        (t0, t1): (f64, f64),
        w: &Tensor<2>,
        noise: &Tensor<3>,
        first: Option<WeightSlope>,
    ) -> WeightStep {
        let dt = t1 - t0;
        let rows = noise.dims()[0];
        let increment = |i: usize| noise.clone().narrow(0, i.min(rows - 1), 1).squeeze_dim::<2>(0);
        let end_increment = increment(rows - 1);
        let first = first.unwrap_or_else(|| self.slope(t0, w));
        let (mut slopes, mut stages) = (vec![first.clone()], vec![w.clone()]);
        for (i, row) in tableau.stages.iter().enumerate().skip(1) {
            let kick = increment(i - 1).mul_scalar(tableau.nodes[i] * self.sigma);
            let stage = combine(w.clone(), dt, row, slopes.iter().map(|s| s.dw.clone())) + kick;
            slopes.push(self.slope(tableau.time(i, t0, t1), &stage));
            stages.push(stage);
        }
        let end = combine(w.clone(), dt, tableau.weights, slopes.iter().map(|s| s.dw.clone()));
        let kl = slopes[0]
            .dkl
            .as_ref()
            .map(|rate| combine(rate.zeros_like(), dt, tableau.weights, slopes.iter().filter_map(|s| s.dkl.clone())));
        WeightStep {
            stages,
            end: end + end_increment.clone().mul_scalar(self.sigma),
            kl,
            martingale: self.martingale(t0, w, &end_increment),
            first,
        }
    }
}

/// `y + Δt Σᵢ cᵢ fᵢ`, leaving out what is multiplied by zero.
pub(crate) fn combine<const D: usize>(
    y: Tensor<D>,
    dt: f64,
    coefficients: &[f64],
    slopes: impl Iterator<Item = Tensor<D>>,
) -> Tensor<D> {
    coefficients.iter().zip(slopes).filter(|(c, _)| **c != 0.0).fold(y, |y, (c, f)| y + f.mul_scalar(c * dt))
}
