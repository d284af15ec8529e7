use burn::tensor::Tensor;

/// The weights along a whole grid: all that the activations need to know of them.
#[derive(Debug)]
pub struct WeightPath {
    /// The times `t_0 < … < t_n`.
    pub grid: Vec<f64>,
    /// The weights at every drift evaluation.
    pub stages: StageWeights,
    /// The weights at the end, `[samples, P]`.
    pub end: Tensor<2>,
    /// `∫ ½‖u‖² dt`, `[samples]`.
    pub kl: Tensor<1>,
    /// `∫ u·dB` with `φ` detached, `[samples]`, if it was asked for.
    pub martingale: Option<Tensor<1>>,
}

/// The flat weights at every drift evaluation, in the order of evaluation.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one a solve")]
pub enum StageWeights {
    /// One tensor `[samples, P]` an evaluation.
    Listed(Vec<Tensor<2>>),
    /// One tensor `[evaluations, samples, P]`; further rows behind the evaluations have no meaning here.
    Stacked(Tensor<3>),
}

impl StageWeights {
    /// As one tensor, at least `[evaluations, samples, P]`.
    pub(crate) fn stacked(&self) -> Tensor<3> {
        match self {
            Self::Listed(stages) => Tensor::stack(stages.clone(), 0),
            Self::Stacked(stages) => stages.clone(),
        }
    }

    /// As a list of `evaluations` tensors.
    pub(crate) fn listed(&self, evaluations: usize) -> Vec<Tensor<2>> {
        match self {
            Self::Listed(stages) => stages.clone(),
            Self::Stacked(stages) => (0..evaluations).map(|i| stages.clone().narrow(0, i, 1).squeeze_dim(0)).collect(),
        }
    }
}
