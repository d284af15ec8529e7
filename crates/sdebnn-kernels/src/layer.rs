//! One layer of a drift network on one tile of examples.

use pulp::Simd;

use crate::{
    activation::Activation,
    class_sums::ClassSums,
    contraction::{Contraction, WeightStrides, Weights, pack},
    element::Element,
    far_memory::Foreseen,
    filter::{Filter, Filtering},
    finish::Finish,
    geometry::{Geometry, MOST_TAPS},
    instructions::InstructionSet,
    pairing::Pairing,
    squash::{Squash, Unsquash},
    weight_gradient::{WeightGradient, scratch},
};

/// How a layer sees the time `t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeInput {
    /// Not at all: `W y + b`.
    None,
    /// As input 0: `W [t; y] + b`.
    Concat,
    /// As gate and shift: `(W y + b) · sigmoid(a t + c) + d t`.
    Squash,
}

/// A linear layer and the activation that follows it.
///
/// Time never becomes an input of the contraction. Its part of the result is the same for all pixels of a class, so it is
/// *folded* into one bias per class and output channel; a squash gate is folded into a copy of the weights.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub(crate) geometry: Geometry,
    transposed: Geometry,
    pairing: Pairing,
    /// (input, output) channels, without time.
    pub(crate) channels: [usize; 2],
    time: TimeInput,
    pub(crate) activation: Activation,
    /// Place of the first weight that is not a weight of time.
    first: usize,
    strides: WeightStrides,
    /// Place of the biases: the number of weights.
    biases: usize,
    /// Number of parameters of the layer.
    pub(crate) parameters: usize,
    /// Forward and for the input gradient, if the layer is computed that way.
    filters: Option<[Filter; 2]>,
}

/// What time leaves behind when a layer is evaluated at a fixed `t`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folded<E> {
    /// `[class][output channel]`
    bias: Vec<E>,
    /// Weights with the gate multiplied in (squash only).
    weights: Vec<E>,
    /// Weights packed for the forward pass, and for the input gradient (not squash: those are used too seldom to pay for it).
    packed: [Vec<E>; 2],
    /// Gates `sigmoid(a t + c)` (squash only).
    gates: Vec<E>,
    /// The weights of filters, forward and for the input gradient.
    filters: [Vec<E>; 2],
}

impl Layer {
    /// Convolution of images of the given size, with weights `[output][1 + input][ky][kx]`, for vectors of `bytes` bytes.
    pub(crate) fn convolution(
        size: [usize; 2],
        stride: usize,
        pad: usize,
        channels: [usize; 2],
        activation: Activation,
        bytes: usize,
    ) -> Self {
        let geometry = Geometry::convolution(size[0], size[1], stride, pad);
        let [inputs, outputs] = channels;
        let strides = WeightStrides { output: (inputs + 1) * geometry.taps, input: geometry.taps, tap: 1 };
        let (first, weights) = (geometry.taps, outputs * strides.output);
        let layer = Self::new(geometry, channels, TimeInput::Concat, activation, first, strides, weights);
        match (stride, pad) {
            (1, 0..=2) => layer.filtered(bytes, |geometries| Filter::same(size, pad, geometries)),
            (2, 1) => layer.filtered(bytes, |geometries| Filter::down(size, geometries)),
            _ => layer,
        }
    }

    /// Transposed convolution with weights `[1 + input][output][ky][kx]`.
    pub(crate) fn transposed_convolution(
        size: [usize; 2],
        channels: [usize; 2],
        activation: Activation,
        bytes: usize,
    ) -> Self {
        let geometry = Geometry::transposed_convolution(size[0], size[1]);
        let [inputs, outputs] = channels;
        let strides = WeightStrides { output: geometry.taps, input: outputs * geometry.taps, tap: 1 };
        let (first, weights) = (strides.input, (inputs + 1) * strides.input);
        Self::new(geometry, channels, TimeInput::Concat, activation, first, strides, weights)
            .filtered(bytes, |geometries| Filter::up(size, geometries))
    }

    /// Dense layer with weights `[output][input]`, or `[output][1 + input]` if time is concatenated; `groups` vectors of
    /// examples a tile.
    pub(crate) fn dense(groups: usize, channels: [usize; 2], time: TimeInput, activation: Activation) -> Self {
        let [inputs, outputs] = channels;
        let first = usize::from(time == TimeInput::Concat);
        let strides = WeightStrides { output: inputs + first, input: 1, tap: 0 };
        let weights = outputs * strides.output;
        Self::new(Geometry::pointwise(groups), channels, time, activation, first, strides, weights)
    }

    fn new(
        geometry: Geometry,
        channels: [usize; 2],
        time: TimeInput,
        activation: Activation,
        first: usize,
        strides: WeightStrides,
        weights: usize,
    ) -> Self {
        let vectors = if time == TimeInput::Squash { 4 } else { 1 };
        Self {
            transposed: geometry.transposed(),
            pairing: Pairing::new(&geometry, channels, false),
            geometry,
            channels,
            time,
            activation,
            first,
            strides,
            biases: weights,
            parameters: weights + vectors * channels[1],
            filters: None,
        }
    }

    /// The same layer computed by filters, made from its relation and the transposed one, if that pays with vectors of so many bytes.
    fn filtered(mut self, bytes: usize, filters: impl FnOnce([&Geometry; 2]) -> [Filter; 2]) -> Self {
        if Filter::pays(bytes) {
            self.pairing = Pairing::new(&self.geometry, self.channels, true);
            self.filters = Some(filters([&self.geometry, &self.transposed]));
        }
        self
    }

    /// Multiplications and additions of the contraction for one group of examples.
    pub(crate) fn flops(&self) -> usize {
        2 * self.geometry.links.len() * self.channels[0] * self.channels[1]
    }

    /// Numbers in the output image, per example.
    pub(crate) fn outputs(&self) -> usize {
        self.geometry.outputs * self.channels[1]
    }

    /// Numbers in the input image, per example.
    pub(crate) fn inputs(&self) -> usize {
        self.geometry.inputs * self.channels[0]
    }

    /// Vectors of scratch the weight gradient needs, with vectors of `lanes` examples.
    pub(crate) fn scratch_vectors(&self, lanes: usize) -> usize {
        scratch(&self.pairing, self.channels, lanes)
    }

    /// Place of the weight with which `t` enters output channel `q` under `tap`.
    fn time_weight(&self, q: usize, tap: usize) -> usize {
        q * self.strides.output + tap * self.strides.tap
    }

    /// Folds the time `t` into biases (and weights, for a squash layer), and packs the weights of other layers, those of the input
    /// gradient only if `backward`. Overwrites `folded`.
    pub(crate) fn fold<E: Element>(&self, t: f64, parameters: &[E], backward: bool, folded: &mut Folded<E>) {
        folded.bias.clear();
        folded.bias.reserve_exact(self.geometry.classes.len() * self.channels[1]);
        let outputs = self.channels[1];
        let (weights, biases) = parameters.split_at(self.biases);
        for class in &self.geometry.classes {
            folded.bias.extend_from_slice(&biases[..outputs]);
            if self.time == TimeInput::Concat {
                let first = folded.bias.len() - outputs;
                for (q, bias) in folded.bias[first..].iter_mut().enumerate() {
                    let seen: f64 = class.taps.iter().map(|&(tap, _)| weights[self.time_weight(q, tap)].to_f64()).sum();
                    *bias = E::from_f64(bias.to_f64() + t * seen);
                }
            }
        }
        if self.time == TimeInput::Squash {
            folded.gates.resize(outputs, E::ZERO);
            folded.weights.resize(weights.len(), E::ZERO);
            InstructionSet::Detect.dispatch(Squash {
                t: E::from_f64(t),
                weights,
                vectors: biases,
                gates: &mut folded.gates,
                squashed: &mut folded.weights,
                bias: &mut folded.bias,
            });
        } else {
            let (taps, [inputs, outputs]) = (self.geometry.taps, self.channels);
            let weights = &weights[self.first..];
            let defined = |pass: usize| self.filters.as_ref().is_none_or(|filters| filters[pass].has_rest());
            let [forward, transposed] = &mut folded.packed;
            if defined(0) {
                pack(weights, self.strides, 0..taps, [inputs, outputs], forward);
            }
            if backward && defined(1) {
                pack(weights, self.transposed_strides(), (0..taps).rev(), [outputs, inputs], transposed);
            }
            if let Some([filter, gradient_filter]) = &self.filters {
                let at = |output: usize, input: usize, tap: usize| {
                    weights[output * self.strides.output + input * self.strides.input + tap * self.strides.tap]
                };
                let [forward, transposed] = &mut folded.filters;
                filter.pack([inputs, outputs], at, forward);
                if backward {
                    gradient_filter.pack([outputs, inputs], |input, output, tap| at(output, input, tap), transposed);
                }
            }
        }
    }

    /// Strides of the input gradient, where input and output change roles.
    fn transposed_strides(&self) -> WeightStrides {
        WeightStrides { output: self.strides.input, input: self.strides.output, tap: self.strides.tap }
    }

    /// The weights of the contraction, time apart; `backward` for those of the input gradient.
    fn weights<'a, E>(&self, folded: &'a Folded<E>, backward: bool) -> Weights<'a, E> {
        let strides = if backward { self.transposed_strides() } else { self.strides };
        match self.time {
            TimeInput::Squash => Weights::InPlace(&folded.weights, strides),
            TimeInput::None | TimeInput::Concat => Weights::Packed(&folded.packed[usize::from(backward)]),
        }
    }

    /// `y = W x + b`, then `finish`. `outside` is a pixel of zeros.
    pub(crate) fn forward<'a, E: Element, S: Simd>(
        &'a self,
        simd: S,
        folded: &'a Folded<E>,
        input: &'a [E::Vector<S>],
        output: &'a mut [E::Vector<S>],
        finish: Finish<'a, E::Vector<S>>,
        outside: &'a [E::Vector<S>],
    ) {
        if let Some([filter, _]) = &self.filters {
            return Filtering::<E, S> {
                filter,
                channels: self.channels,
                input,
                weights: &folded.filters[0],
                rest_weights: &folded.packed[0],
                bias: &folded.bias,
                output,
                finish,
                outside,
            }
            .run(simd);
        }
        Contraction::<E, S> {
            geometry: &self.geometry,
            channels: self.channels,
            input,
            weights: self.weights(folded, false),
            bias: &folded.bias,
            output,
            finish,
        }
        .run(simd);
    }

    /// `dx = Wᵀ dy`, then `finish`. `outside` is a pixel of zeros.
    pub(crate) fn input_gradient<'a, E: Element, S: Simd>(
        &'a self,
        simd: S,
        folded: &'a Folded<E>,
        output_gradient: &'a [E::Vector<S>],
        input_gradient: &'a mut [E::Vector<S>],
        finish: Finish<'a, E::Vector<S>>,
        outside: &'a [E::Vector<S>],
    ) {
        let channels = [self.channels[1], self.channels[0]];
        if let Some([_, filter]) = &self.filters {
            return Filtering::<E, S> {
                filter,
                channels,
                input: output_gradient,
                weights: &folded.filters[1],
                rest_weights: &folded.packed[1],
                bias: &[],
                output: input_gradient,
                finish,
                outside,
            }
            .run(simd);
        }
        Contraction::<E, S> {
            geometry: &self.transposed,
            channels,
            input: output_gradient,
            weights: self.weights(folded, true),
            bias: &[],
            output: input_gradient,
            finish,
        }
        .run(simd);
    }

    /// Gradient of every parameter of the layer at time `t`, summed over the tile and written to `gradient`.
    #[expect(clippy::too_many_arguments, reason = "two images, two parameter slices and scratch")]
    pub(crate) fn weight_gradient<E: Element, S: Simd>(
        &self,
        simd: S,
        t: f64,
        parameters: &[E],
        folded: &Folded<E>,
        input: &[E::Vector<S>],
        output_gradient: &[E::Vector<S>],
        scratch: &mut [E::Vector<S>],
        class_sums: &mut Vec<E>,
        ahead: &mut Foreseen<'_, E>,
        gradient: &mut [E],
    ) {
        let outputs = self.channels[1];
        WeightGradient::<E, S> {
            pairing: &self.pairing,
            channels: self.channels,
            input,
            output_gradient,
            strides: self.strides,
            scratch,
            ahead,
            gradient: &mut gradient[self.first..self.biases],
        }
        .run(simd);

        class_sums.resize(self.geometry.classes.len() * outputs, E::ZERO);
        let sums = &mut *class_sums;
        simd.vectorize(ClassSums::<E, S> { simd, geometry: &self.geometry, channels: outputs, output_gradient, sums });
        self.unfold(simd, t, parameters, folded, class_sums, gradient);
    }

    /// Gradients of biases and of the parameters of time, from the sums of the output gradient over each class.
    fn unfold<E: Element, S: Simd>(
        &self,
        simd: S,
        t: f64,
        parameters: &[E],
        folded: &Folded<E>,
        class_sums: &[E],
        gradient: &mut [E],
    ) {
        let outputs = self.channels[1];
        let (weight_gradient, rest) = gradient.split_at_mut(self.biases);
        if self.time == TimeInput::None && class_sums.len() == outputs {
            return rest.copy_from_slice(class_sums);
        }
        if self.time == TimeInput::Squash {
            let (weights, vectors) = parameters.split_at(self.biases);
            return simd.vectorize(Unsquash {
                t: E::from_f64(t),
                weights,
                biases: &vectors[..outputs],
                gates: &folded.gates,
                bias_gradient: class_sums,
                weight_gradient,
                vector_gradients: rest,
            });
        }
        for q in 0..outputs {
            let mut total = 0.0;
            let mut by_tap = [0.0; MOST_TAPS];
            for (class, sums) in self.geometry.classes.iter().zip(class_sums.chunks_exact(outputs)) {
                total += sums[q].to_f64();
                for &(tap, _) in &class.taps {
                    by_tap[tap] += sums[q].to_f64();
                }
            }
            rest[q] = E::from_f64(total);
            if self.time == TimeInput::Concat {
                for (tap, sum) in by_tap[..self.geometry.taps].iter().enumerate() {
                    weight_gradient[self.time_weight(q, tap)] = E::from_f64(t * sum);
                }
            }
        }
    }
}
