//! One layer on one tile of examples: what tests compare and benchmarks time.

use pulp::{Simd, WithSimd};

use crate::{
    activation::Activation,
    buffer::Buffer,
    element::Element,
    far_memory::Foreseen,
    finish::Finish,
    instructions::InstructionSet,
    layer::{Folded, Layer, TimeInput},
    tiling::Tiling,
};

/// The linear map of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// 3×3 convolution, weights `[output][1 + input][3][3]`; input channel 0 is the time.
    Convolution {
        /// Distance of neighbouring output pixels on the input image.
        stride: usize,
        /// Zeros around the input image.
        pad: usize,
    },
    /// 3×3 transposed convolution with stride 2 and output padding 1, weights `[1 + input][output][3][3]`.
    TransposedConvolution,
    /// Dense layer on `1 × n` "images" whose `n` columns are independent.
    Dense(TimeInput),
}

/// A layer, its parameters, and one vector of examples with gradients.
#[derive(Debug)]
pub struct SingleLayer<E> {
    layer: Layer,
    instructions: InstructionSet,
    activation: Activation,
    inputs: Tiling,
    outputs: Tiling,
    t: f64,
    parameters: Vec<E>,
    folded: Folded<E>,
    input: Buffer<E>,
    output: Buffer<E>,
    output_gradient: Buffer<E>,
    input_gradient: Buffer<E>,
    sums: Buffer<E>,
    outside: Buffer<E>,
    weight_gradient: Vec<E>,
}

impl<E: Element> SingleLayer<E> {
    /// A layer from images of `shape` = channels, height, width to `channels` channels, followed by `activation`, for
    /// `examples` examples (at most one vector of them, which [`SingleLayer::capacity`] tells).
    #[must_use]
    pub fn new(
        kind: LayerKind,
        shape: [usize; 3],
        channels: usize,
        activation: Activation,
        examples: usize,
        instructions: InstructionSet,
    ) -> Self {
        let [inputs, height, width] = shape;
        let ends = [inputs, channels];
        let lanes = instructions.lanes::<E>();
        let bytes = lanes * size_of::<E>();
        let layer = match kind {
            LayerKind::Convolution { stride, pad } => {
                Layer::convolution([height, width], stride, pad, ends, activation, bytes)
            }
            LayerKind::TransposedConvolution => Layer::transposed_convolution([height, width], ends, activation, bytes),
            LayerKind::Dense(time) => Layer::dense(height * width, ends, time, activation),
        };
        let examples = examples.clamp(1, lanes);
        let buffer = |vectors: usize| Buffer::new(vectors * lanes);
        Self {
            instructions,
            activation,
            inputs: Tiling::with_shape([inputs, layer.geometry.inputs], 1, examples, lanes),
            outputs: Tiling::with_shape([channels, layer.geometry.outputs], 1, examples, lanes),
            t: 0.0,
            parameters: vec![E::ZERO; layer.parameters],
            folded: Folded::default(),
            input: buffer(layer.inputs()),
            output: buffer(layer.outputs()),
            output_gradient: buffer(layer.outputs()),
            input_gradient: buffer(layer.inputs()),
            sums: buffer(layer.scratch_vectors(lanes)),
            outside: buffer(inputs.max(channels)),
            weight_gradient: vec![E::ZERO; layer.parameters],
            layer,
        }
    }

    /// Examples a tile can hold.
    #[must_use]
    pub fn capacity(instructions: InstructionSet) -> usize {
        instructions.lanes::<E>()
    }

    /// Number of parameters.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.layer.parameters
    }

    /// Numbers in (input, output) of one example.
    #[must_use]
    pub fn features(&self) -> (usize, usize) {
        (self.layer.inputs(), self.layer.outputs())
    }

    /// Floating-point operations of the forward pass for a full vector of examples.
    #[must_use]
    pub fn flops(&self) -> usize {
        self.layer.flops() * self.inputs.lanes
    }

    /// Sets time, parameters, inputs `[example][channel][pixel]` and gradients of the outputs in the same layout.
    ///
    /// # Panics
    /// If a slice has the wrong length.
    pub fn load(&mut self, t: f64, parameters: &[E], input: &[E], output_gradient: &[E]) {
        self.t = t;
        self.parameters.copy_from_slice(parameters);
        self.inputs.load(0, input, &mut self.input);
        self.outputs.load(0, output_gradient, &mut self.output_gradient);
        self.layer.fold(t, &self.parameters, true, &mut self.folded);
    }

    /// `act(W x + b)`; read it with [`SingleLayer::output`].
    pub fn forward(&mut self) {
        self.instructions.dispatch(Pass::Forward(self));
    }

    /// `Wᵀ dy`; read it with [`SingleLayer::input_gradient`].
    pub fn backward_to_input(&mut self) {
        self.instructions.dispatch(Pass::Input(self));
    }

    /// Gradient of the parameters; read it with [`SingleLayer::weight_gradient`].
    pub fn backward_to_weights(&mut self) {
        self.instructions.dispatch(Pass::Weights(self));
    }

    /// The output, `[example][channel][pixel]`.
    #[must_use]
    pub fn output(&self) -> Vec<E> {
        let mut rows = vec![E::ZERO; self.outputs.examples(0).len() * self.layer.outputs()];
        self.outputs.store(0, &self.output, &mut rows);
        rows
    }

    /// The gradient of the input, `[example][channel][pixel]`.
    #[must_use]
    pub fn input_gradient(&self) -> Vec<E> {
        let mut rows = vec![E::ZERO; self.inputs.examples(0).len() * self.layer.inputs()];
        self.inputs.store(0, &self.input_gradient, &mut rows);
        rows
    }

    /// The gradient of the parameters, in their layout.
    #[must_use]
    pub fn weight_gradient(&self) -> &[E] {
        &self.weight_gradient
    }
}

enum Pass<'a, E> {
    Forward(&'a mut SingleLayer<E>),
    Input(&'a mut SingleLayer<E>),
    Weights(&'a mut SingleLayer<E>),
}

impl<E: Element> WithSimd for Pass<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self {
            Self::Forward(single) => {
                let SingleLayer { layer, folded, input, output, activation, outside, .. } = single;
                let finish = match activation {
                    Activation::Identity => Finish::Keep,
                    other => Finish::Activate(*other),
                };
                let (input, output) = (E::vectors::<S>(input), E::vectors_mut::<S>(output));
                layer.forward(simd, folded, input, output, finish, E::vectors::<S>(outside));
            }
            Self::Input(single) => {
                let SingleLayer { layer, folded, output_gradient, input_gradient, outside, .. } = single;
                let (from, to) = (E::vectors::<S>(output_gradient), E::vectors_mut::<S>(input_gradient));
                layer.input_gradient(simd, folded, from, to, Finish::Keep, E::vectors::<S>(outside));
            }
            Self::Weights(single) => {
                let SingleLayer { layer, t, parameters, folded, input, output_gradient, sums, .. } = single;
                let (input, output_gradient) = (E::vectors::<S>(input), E::vectors::<S>(output_gradient));
                let sums = E::vectors_mut::<S>(sums);
                let gradient = &mut single.weight_gradient;
                layer.weight_gradient(
                    simd,
                    *t,
                    parameters,
                    folded,
                    input,
                    output_gradient,
                    sums,
                    &mut Vec::new(),
                    &mut Foreseen(&[]),
                    gradient,
                );
            }
        }
    }
}
