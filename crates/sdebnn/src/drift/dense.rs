use burn::tensor::{Tensor, activation};
use serde::{Deserialize, Serialize};

use super::{Drift, Layout};
use crate::activation::Activation;
use crate::fused::Kernel;

/// How time enters a dense layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeInput {
    /// `W y + b`.
    None,
    /// `W [t; y] + b`: time is input 0.
    Concat,
    /// `(W y + b) · sigmoid(a t + c) + d t`.
    Squash,
}

/// Dense layers with an activation between them and none after the last.
///
/// Flat layout, for each layer: `weight` (out × in; with [`TimeInput::Concat`] the time is column 0), `bias`, and with
/// [`TimeInput::Squash`] the vectors `a`, `c`, `d`.
#[derive(Clone, Debug)]
pub struct DenseNet {
    layout: Layout,
    sizes: Vec<usize>,
    activation: Activation,
    time: TimeInput,
}

impl DenseNet {
    /// A network of the given widths, the first and the last being that of the state.
    ///
    /// # Panics
    /// If there are fewer than two widths or the first is not the last.
    pub fn new(sizes: &[usize], activation: Activation, time: TimeInput) -> Self {
        assert!(sizes.len() >= 2 && sizes.first() == sizes.last(), "not widths of a vector field: {sizes:?}");
        let mut layout = Layout::default();
        for pair in sizes.windows(2) {
            let (inputs, out) = (pair[0] + usize::from(time == TimeInput::Concat), pair[1]);
            let shape = [out, inputs];
            let vector = [out];
            let mut tensors: Vec<(&str, &[usize])> = vec![("weight", &shape), ("bias", &vector)];
            if time == TimeInput::Squash {
                tensors.extend([("a", &vector[..]), ("c", &vector), ("d", &vector)]);
            }
            layout.push_layer(inputs, &tensors);
        }
        Self { layout, sizes: sizes.to_vec(), activation, time }
    }
}

impl Drift for DenseNet {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn eval(&self, t: f64, h: Tensor<3>, w: Tensor<2>) -> Tensor<3> {
        let mut shapes = self.layout.entries().iter().map(|e| &e.shape);
        let mut parts = self.layout.split(w);
        let mut next = || parts.next().zip(shapes.next()).expect("the layout lists every tensor of every layer");
        let mut y = h;
        let layers = self.layout.layers();
        for layer in 0..layers {
            let (weight, shape) = next();
            let (bias, _) = next();
            let weight = weight.reshape([-1, shape[0] as i64, shape[1] as i64]);
            let row = |v: Tensor<2>| v.unsqueeze_dim::<3>(1);
            if self.time == TimeInput::Concat {
                let [samples, batch, _] = y.dims();
                let time = Tensor::full([samples, batch, 1], t, (&y.device(), y.dtype()));
                y = Tensor::cat(vec![time, y], 2);
            }
            y = y.matmul(weight.swap_dims(1, 2)) + row(bias);
            if self.time == TimeInput::Squash {
                let (a, c, d) = (next().0, next().0, next().0);
                y = y * row(activation::sigmoid(a.mul_scalar(t) + c)) + row(d.mul_scalar(t));
            }
            if layer + 1 < layers {
                y = self.activation.apply(y);
            }
        }
        y
    }

    fn kernel(&self) -> Option<sdebnn_kernels::Drift> {
        let (sizes, activation, time) = (self.sizes.clone(), self.activation.kernel(), self.time.kernel());
        Some(sdebnn_kernels::Drift::Dense { sizes, activation, time })
    }
}
