use burn::tensor::Tensor;
use burn::tensor::module::{conv_transpose2d, conv2d};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};

use super::{Drift, Layout};
use crate::activation::Activation;
use crate::error::ConfigError;
use crate::fused::Kernel;

/// What one layer does; every convolution is 3×3 and sees one more channel, index 0, filled with the time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    /// `conv3×3` with this stride and padding.
    Conv {
        stride: usize,
        padding: usize,
    },
    /// `convT3×3`, stride 2, output padding 1, no padding.
    Transposed,
    Activation,
}

/// Groups of convolutional blocks on images.
///
/// A block is conv3×3(C→H, pad 1) · act · conv3×3(H→H, stride 2, pad 1) · act · convT3×3(H→H, stride 2, output padding 1) · act ·
/// conv3×3(H→C, no pad). Between groups conv3×3(C→4C, stride 2, pad 1) halves the image. An activation follows each block but the
/// very last, none the down-sampling convolution. The output has as many numbers as the state and is reshaped to it.
///
/// Flat layout, for each convolution: `weight` (out × in + 1 × 3 × 3; transposed: in + 1 × out × 3 × 3; the time is input 0),
/// `bias`.
#[derive(Clone, Debug)]
pub struct ConvNet {
    layout: Layout,
    ops: Vec<Op>,
    activation: Activation,
    shape: [usize; 3],
    width: usize,
    blocks: Vec<usize>,
}

impl ConvNet {
    /// A network on a state of `[channels, height, width]`, with `blocks[i]` blocks of `hidden` channels in group i.
    pub fn new(
        shape: [usize; 3],
        hidden: usize,
        blocks: &[usize],
        activation: Activation,
    ) -> Result<Self, ConfigError> {
        let [mut channels, height, width] = shape;
        let divisor = 1 << blocks.len().min(32);
        ConfigError::unless(
            !blocks.is_empty() && blocks.iter().all(|&b| b > 0),
            "drift.blocks",
            &blocks,
            "at least one group of at least one block",
        )?;
        ConfigError::unless(hidden > 0, "drift.width", &hidden, "at least 1")?;
        if height == 0 || width == 0 || height % divisor != 0 || width % divisor != 0 {
            let expected = format!("image sides divisible by {divisor} with that many groups, not {height}×{width}");
            return Err(ConfigError::new("drift.blocks", &blocks, expected));
        }
        let (layout, ops) = (Layout::default(), Vec::new());
        let mut net = Self { layout, ops, activation, shape, width: hidden, blocks: blocks.to_vec() };
        for (group, &count) in blocks.iter().enumerate() {
            let last_group = group + 1 == blocks.len();
            for block in 0..count {
                net.conv(channels, hidden, 1, 1);
                net.ops.push(Op::Activation);
                net.conv(hidden, hidden, 2, 1);
                net.ops.push(Op::Activation);
                net.transposed(hidden, hidden);
                net.ops.push(Op::Activation);
                net.conv(hidden, channels, 1, 0);
                if !(last_group && block + 1 == count) {
                    net.ops.push(Op::Activation);
                }
            }
            if !last_group {
                net.conv(channels, 4 * channels, 2, 1);
                channels *= 4;
            }
        }
        Ok(net)
    }

    fn conv(&mut self, inputs: usize, outputs: usize, stride: usize, padding: usize) {
        let shape = [outputs, inputs + 1, 3, 3];
        self.layout.push_layer((inputs + 1) * 9, &[("weight", &shape), ("bias", &[outputs])]);
        self.ops.push(Op::Conv { stride, padding });
    }

    fn transposed(&mut self, inputs: usize, outputs: usize) {
        let shape = [inputs + 1, outputs, 3, 3];
        self.layout.push_layer(outputs * 9, &[("weight", &shape), ("bias", &[outputs])]);
        self.ops.push(Op::Transposed);
    }

    /// The network for one weight sample: images `[batch, C, H, W]` and flat weights `[1, P]`.
    fn eval_sample(&self, t: f64, images: Tensor<4>, w: Tensor<2>) -> Tensor<4> {
        let mut shapes = self.layout.entries().iter().map(|e| &e.shape);
        let mut parts = self.layout.split(w);
        let mut next = || parts.next().zip(shapes.next()).expect("the layout lists every tensor of every layer");
        let mut y = images;
        for op in &self.ops {
            if *op == Op::Activation {
                y = self.activation.apply(y);
                continue;
            }
            let (weight, shape) = next();
            let weight = weight.reshape([shape[0], shape[1], 3, 3]);
            let bias = Some(next().0.reshape([-1]));
            let [batch, _, height, width] = y.dims();
            let time = Tensor::full([batch, 1, height, width], t, (&y.device(), y.dtype()));
            let input = Tensor::cat(vec![time, y], 1);
            y = match *op {
                Op::Conv { stride, padding } => {
                    conv2d(input, weight, bias, ConvOptions::new([stride; 2], [padding; 2], [1; 2], 1))
                }
                _ => {
                    conv_transpose2d(input, weight, bias, ConvTransposeOptions::new([2; 2], [0; 2], [1; 2], [1; 2], 1))
                }
            };
        }
        y
    }
}

impl Drift for ConvNet {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn eval(&self, t: f64, h: Tensor<3>, w: Tensor<2>) -> Tensor<3> {
        let [samples, batch, features] = h.dims();
        let [c, height, width] = self.shape;
        let outputs = (0..samples)
            .map(|s| {
                let images = h.clone().slice_dim(0, s).reshape([batch, c, height, width]);
                let weights = w.clone().slice_dim(0, s);
                self.eval_sample(t, images, weights).reshape([1, batch, features])
            })
            .collect();
        Tensor::cat(outputs, 0)
    }

    fn kernel(&self) -> Option<sdebnn_kernels::Drift> {
        let Self { shape, width, blocks, activation, .. } = self;
        let (activation, blocks) = (activation.kernel(), blocks.clone());
        Some(sdebnn_kernels::Drift::Conv { shape: *shape, width: *width, blocks, activation })
    }
}
