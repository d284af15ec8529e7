//! Small dense networks of learned parameters.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::activation::Activation;
use crate::random::Stream;

/// `x ↦ W x + b` with `W` of shape out × in.
#[derive(Module, Debug)]
pub struct Affine {
    /// `W`, out × in.
    pub weight: Param<Tensor<2>>,
    /// `b`.
    pub bias: Param<Tensor<1>>,
}

/// Affine layers with an activation between them and none after the last: `NN_φ` and the read-out heads.
#[derive(Module, Debug)]
pub struct Mlp {
    /// The layers in order.
    pub layers: Vec<Affine>,
}

impl Mlp {
    /// Layers of the given widths, weights and biases uniform in `±1/√fan_in`.
    pub fn init(sizes: &[usize], stream: Stream, device: &Device, dtype: DType) -> Self {
        let layer = |(i, pair): (usize, &[usize])| {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = 1.0 / (inputs as f64).sqrt();
            let draw = |node, len| {
                let mut values = vec![0.0; len];
                stream.child(i as u64).fill_uniform(node, &mut values);
                values.iter_mut().for_each(|v| *v = bound * (2.0 * *v - 1.0));
                values
            };
            Affine {
                weight: parameter(draw(0, inputs * outputs), [outputs, inputs], device, dtype),
                bias: parameter(draw(1, outputs), [outputs], device, dtype),
            }
        };
        Self { layers: sizes.windows(2).enumerate().map(layer).collect() }
    }

    /// With the last layer set to zero, so that the network is zero.
    pub fn zero_last(mut self) -> Self {
        if let Some(last) = self.layers.pop() {
            self.layers.push(Affine {
                weight: Param::from_tensor(last.weight.val().detach().zeros_like()),
                bias: Param::from_tensor(last.bias.val().detach().zeros_like()),
            });
        }
        self
    }

    /// All parameters in one vector: weight, bias, weight, bias, …
    pub(crate) fn flat(&self) -> Tensor<1> {
        let parts = self.layers.iter().flat_map(|layer| [layer.weight.val().reshape([-1]), layer.bias.val()]);
        Tensor::cat(parts.collect(), 0)
    }

    /// The network's output for every row of `x`.
    pub fn forward(&self, x: Tensor<2>, activation: Activation) -> Tensor<2> {
        self.run(x, activation, |t| t)
    }

    /// [`forward`](Self::forward) with gradients for `x` but none for the parameters.
    pub fn forward_detached(&self, x: Tensor<2>, activation: Activation) -> Tensor<2> {
        self.run(x, activation, Tensor::detach)
    }

    fn run(&self, x: Tensor<2>, activation: Activation, parameter: impl Fn(Tensor<2>) -> Tensor<2>) -> Tensor<2> {
        let mut y = x;
        for (i, layer) in self.layers.iter().enumerate() {
            if i > 0 {
                y = activation.apply(y);
            }
            let bias = parameter(layer.bias.val().unsqueeze());
            // `(W yᵀ)ᵀ`: the gradient of `W` comes in its own order then.
            y = parameter(layer.weight.val()).matmul(y.transpose()).transpose() + bias;
        }
        y
    }
}

/// A parameter from numbers.
pub(crate) fn parameter<const D: usize>(
    values: Vec<f64>,
    shape: [usize; D],
    device: &Device,
    dtype: DType,
) -> Param<Tensor<D>> {
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), (device, dtype)))
}
