//! Drift networks `f_w(t, h)`.

mod conv;
mod dense;
mod layout;

pub use conv::ConvNet;
pub use dense::{DenseNet, TimeInput};
pub use layout::{Entry, Layout};

use burn::tensor::Tensor;

/// A network whose weights are given from outside, as one flat vector.
pub trait Drift: std::fmt::Debug + Send + Sync {
    /// How the flat weight vector is laid out.
    fn layout(&self) -> &Layout;

    /// `f_w(t, h)` for activations `[samples, batch, features]` and weights `[samples, P]`: every weight sample has activations of
    /// its own.
    fn eval(&self, t: f64, h: Tensor<3>, w: Tensor<2>) -> Tensor<3>;

    /// The same network in the kernels, if they have it.
    fn kernel(&self) -> Option<sdebnn_kernels::Drift> {
        None
    }
}
