//! A drift network as a list of layers on one tile of examples.

use pulp::Simd;

use crate::{
    activation::Activation,
    buffer::Buffer,
    element::Element,
    elementwise::restore,
    far_memory::Foreseen,
    finish::Finish,
    layer::{Folded, Layer},
    problem::Drift,
    tape::Slots,
};

/// The parameters of one evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageWeights<'a, E> {
    pub(crate) t: f64,
    pub(crate) parameters: &'a [E],
    pub(crate) folded: &'a [Folded<E>],
}

/// The parameters of every evaluation and sample with time folded in, layer by layer.
pub(crate) type FoldedWeights<E> = Vec<Vec<Folded<E>>>;

/// The layers of a drift network for tiles of a given number of vectors of examples.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) layers: Vec<Layer>,
    /// Parameters of all layers.
    pub(crate) parameters: usize,
    /// Place of the parameters of each layer.
    places: Vec<usize>,
    /// Vectors in one component of the state of a tile.
    pub(crate) state: usize,
    /// Where each vector of the state is found in the output of the last layer, if not in the same place: the output is read
    /// as a flat `[channel][pixel]` array and re-interpreted in the shape of the state.
    output_order: Option<Vec<usize>>,
}

impl Network {
    /// The network with `groups` vectors of examples a tile, of `bytes` bytes each; images take one.
    pub(crate) fn new(drift: &Drift, groups: usize, bytes: usize) -> Self {
        match drift {
            Drift::Dense { sizes, activation, time } => {
                let last = sizes.len() - 2;
                let layer = |(index, ends): (usize, &[usize])| {
                    let activation = if index == last { Activation::Identity } else { *activation };
                    Layer::dense(groups, [ends[0], ends[1]], *time, activation)
                };
                Self::from_layers(sizes.windows(2).enumerate().map(layer).collect(), groups * sizes[0], None)
            }
            Drift::Conv { shape, width, blocks, activation } => {
                let (layers, end) = convolutions(*shape, *width, blocks, *activation, bytes);
                Self::from_layers(layers, shape.iter().product(), reinterpretation(end, *shape))
            }
        }
    }

    /// The layers in order, for a state of `state` vectors.
    pub(crate) fn from_layers(layers: Vec<Layer>, state: usize, output_order: Option<Vec<usize>>) -> Self {
        let mut parameters = 0;
        let place = |layer: &Layer| {
            let place = parameters;
            parameters += layer.parameters;
            place
        };
        let places = layers.iter().map(place).collect();
        Self { layers, parameters, places, state, output_order }
    }

    /// Floating-point operations of one evaluation of a tile, per lane.
    pub(crate) fn flops(&self) -> usize {
        self.layers.iter().map(Layer::flops).sum()
    }

    /// Every layer with its own part of the flat parameters.
    fn with_parameters<'a, T>(
        &'a self,
        parameters: &'a [T],
    ) -> impl DoubleEndedIterator<Item = (usize, &'a Layer, &'a [T])> {
        let part =
            |(index, layer): (usize, &'a Layer)| (index, layer, &parameters[self.places[index]..][..layer.parameters]);
        (0..self.layers.len()).map(|index| (index, &self.layers[index])).map(part)
    }

    /// Every layer with `t` folded into its parameters; for the backward pass as well if asked for. Overwrites `folded`.
    pub(crate) fn fold<E: Element>(&self, t: f64, parameters: &[E], backward: bool, folded: &mut Vec<Folded<E>>) {
        folded.resize_with(self.layers.len(), Folded::default);
        for (index, layer, parameters) in self.with_parameters(parameters) {
            layer.fold(t, parameters, backward, &mut folded[index]);
        }
    }

    /// `f = f_w(h, t)`. `kept` receives what the backward pass needs to know of the hidden layers.
    pub(crate) fn forward<E: Element, S: Simd>(
        &self,
        simd: S,
        weights: StageWeights<'_, E>,
        h: &[E],
        workspace: &mut Workspace<E>,
        mut kept: Slots<'_, &mut [E]>,
        output: &mut [E],
    ) {
        let mut input = E::vectors::<S>(h);
        let mut hidden = workspace.hidden.iter_mut();
        let outside = E::vectors::<S>(&workspace.outside);
        for (layer, folded) in self.layers.iter().zip(weights.folded) {
            let activation = layer.activation;
            let Some(values) = hidden.next() else {
                let to = if self.output_order.is_some() { &mut workspace.permuted[..] } else { &mut *output };
                let finish =
                    if activation == Activation::Identity { Finish::Keep } else { Finish::Activate(activation) };
                layer.forward(simd, folded, input, E::vectors_mut::<S>(to), finish, outside);
                break;
            };
            let values = E::vectors_mut::<S>(values);
            let finish = match kept.next_layer() {
                Some(slot) => Finish::Record(activation, kept.far, E::vectors_mut::<S>(slot)),
                None => Finish::Activate(activation),
            };
            layer.forward(simd, folded, input, values, finish, outside);
            input = values;
        }
        if let Some(order) = &self.output_order {
            let from = E::vectors::<S>(&workspace.permuted);
            for (to, &place) in E::vectors_mut::<S>(output).iter_mut().zip(order) {
                *to = from[place];
            }
        }
    }

    /// Given the gradient of `f` (before the last layer's activation, if it has one) in `workspace.gradients[0]`: the gradient of the
    /// parameters in `gradient`, and the gradient of `h` in `workspace.gradients[0]`. What the forward pass did not keep is computed
    /// again. Meanwhile, what lies `ahead` is asked for.
    #[expect(clippy::too_many_arguments, reason = "what goes in, what was kept of it, what comes next, and memory")]
    pub(crate) fn backward<E: Element, S: Simd>(
        &self,
        simd: S,
        weights: StageWeights<'_, E>,
        h: &[E],
        workspace: &mut Workspace<E>,
        kept: Slots<'_, &[E]>,
        ahead: &mut Foreseen<'_, E>,
        gradient: &mut [E],
    ) {
        if let Some(order) = &self.output_order {
            let from = E::vectors::<S>(&workspace.gradients[0]);
            let to = E::vectors_mut::<S>(&mut workspace.permuted);
            for (&place, &value) in order.iter().zip(from) {
                to[place] = value;
            }
            workspace.gradients[0][..workspace.permuted.len()].copy_from_slice(&workspace.permuted);
        }
        for (index, layer, parameters) in self.with_parameters(weights.parameters).rev() {
            let folded = &weights.folded[index];
            if let Some(previous) = index.checked_sub(1) {
                self.recall(simd, weights, h, workspace, &kept, previous);
            }
            let [current, next] = &mut workspace.gradients;
            let lanes = E::lanes::<S>();
            let output_gradient = E::vectors::<S>(&current[..layer.outputs() * lanes]);
            let input = E::vectors::<S>(match index.checked_sub(1) {
                None => h,
                Some(previous) => self.kept_value(&kept, previous).unwrap_or(&workspace.hidden[previous]),
            });
            layer.weight_gradient(
                simd,
                weights.t,
                parameters,
                folded,
                input,
                output_gradient,
                E::vectors_mut::<S>(&mut workspace.sums[..layer.scratch_vectors(lanes) * lanes]),
                &mut workspace.class_sums,
                ahead,
                &mut gradient[self.places[index]..][..layer.parameters],
            );
            let finish = match index.checked_sub(1).map(|previous| (previous, self.layers[previous].activation)) {
                None | Some((_, Activation::Identity)) => Finish::Keep,
                Some((previous, activation)) => match self.kept_value(&kept, previous) {
                    Some(value) => Finish::TimesSlope(activation, E::vectors::<S>(value)),
                    None => Finish::Scale,
                },
            };
            // A share of what the gradient of the weights did not ask for.
            ahead.ask(ahead.0.len() / (index + 1));
            let input_gradient = E::vectors_mut::<S>(&mut next[..layer.inputs() * lanes]);
            let outside = E::vectors::<S>(&workspace.outside);
            layer.input_gradient(simd, folded, output_gradient, input_gradient, finish, outside);
            workspace.gradients.swap(0, 1);
        }
    }

    /// The values of a hidden layer, if those are what the tape has of it.
    fn kept_value<'a, E>(&self, kept: &Slots<'_, &'a [E]>, index: usize) -> Option<&'a [E]> {
        kept.of_layer(index).filter(|_| self.layers[index].activation.keeps_value())
    }

    /// Finds the values of a hidden layer, and their slopes in `workspace.gradients[1]`, where the gradient of that layer will be,
    /// unless the values are on the tape. Layers are asked for from the last to the first.
    fn recall<E: Element, S: Simd>(
        &self,
        simd: S,
        weights: StageWeights<'_, E>,
        h: &[E],
        workspace: &mut Workspace<E>,
        kept: &Slots<'_, &[E]>,
        index: usize,
    ) {
        if self.kept_value(kept, index).is_some() {
            return;
        }
        let Workspace { hidden, slopes, gradients: [_, next], outside, .. } = workspace;
        let outside = E::vectors::<S>(outside);
        let next = &mut next[..self.layers[index].outputs() * E::lanes::<S>()];
        if index + 2 < self.layers.len() && kept.of_layer(index + 1).is_none() {
            // The layer after it was computed from it.
            return next.copy_from_slice(&slopes[index]);
        }
        let first = (0..=index).rev().find(|&index| kept.of_layer(index).is_some()).unwrap_or(0);
        for current in first..=index {
            if self.kept_value(kept, current).is_some() {
                continue;
            }
            let (layer, (before, after)) = (&self.layers[current], hidden.split_at_mut(current));
            let values = E::vectors_mut::<S>(&mut after[0]);
            let slopes = E::vectors_mut::<S>(if current == index { &mut *next } else { &mut slopes[current] });
            match kept.of_layer(current) {
                Some(slot) => restore::<E, S>(simd, layer.activation, E::vectors::<S>(slot), values, slopes),
                None => {
                    let input = match current.checked_sub(1) {
                        None => h,
                        Some(previous) => self.kept_value(kept, previous).unwrap_or(&before[previous]),
                    };
                    let finish = Finish::Differentiate(layer.activation, values);
                    let folded = &weights.folded[current];
                    layer.forward(simd, folded, E::vectors::<S>(input), slopes, finish, outside);
                }
            }
        }
    }
}

/// Memory in which one tile passes through a network.
#[derive(Debug)]
pub(crate) struct Workspace<E> {
    /// Values of each layer but the last.
    hidden: Vec<Buffer<E>>,
    /// Slope of the activation of each layer but the last.
    slopes: Vec<Buffer<E>>,
    /// Gradient of the output of the current layer, and of its input.
    pub(crate) gradients: [Buffer<E>; 2],
    /// Scratch of a weight gradient.
    sums: Buffer<E>,
    /// Sums of an output gradient over the pixels of each class.
    class_sums: Vec<E>,
    /// Output of the last layer before it is re-interpreted.
    permuted: Buffer<E>,
    /// A pixel of zeros.
    outside: Buffer<E>,
}

impl<E: Element> Workspace<E> {
    /// Memory for `network` with vectors of `lanes` examples; without `backward`, only what a forward pass needs.
    pub(crate) fn new(network: &Network, lanes: usize, backward: bool) -> Self {
        let layers = &network.layers;
        let largest = layers.iter().map(|l| l.outputs().max(l.inputs())).max().unwrap_or(0);
        let sums = layers.iter().map(|l| l.scratch_vectors(lanes)).max().unwrap_or(0);
        let if_backward = |vectors: usize| if backward { Buffer::new(vectors * lanes) } else { Buffer::new(0) };
        Self {
            hidden: layers[..layers.len() - 1].iter().map(|l| Buffer::new(l.outputs() * lanes)).collect(),
            slopes: layers[..layers.len() - 1].iter().map(|l| if_backward(l.outputs())).collect(),
            gradients: [if_backward(largest), if_backward(largest)],
            sums: if_backward(sums),
            class_sums: Vec::new(),
            permuted: Buffer::new(network.output_order.as_ref().map_or(0, |_| network.state * lanes)),
            outside: Buffer::new(layers.iter().flat_map(|l| l.channels).max().unwrap_or(0) * lanes),
        }
    }
}

/// The layers of a convolutional drift, and the shape of its output.
fn convolutions(
    shape: [usize; 3],
    hidden: usize,
    blocks: &[usize],
    activation: Activation,
    bytes: usize,
) -> (Vec<Layer>, [usize; 3]) {
    let [mut channels, mut height, mut width] = shape;
    let mut layers = Vec::new();
    for (group, &count) in blocks.iter().enumerate() {
        let last_group = group + 1 == blocks.len();
        let last_block = last_group.then_some(count - 1);
        let convolution =
            |size, stride, pad, ends, activation| Layer::convolution(size, stride, pad, ends, activation, bytes);
        for block in 0..count {
            let after = if last_block == Some(block) { Activation::Identity } else { activation };
            let (size, half, padded) = ([height, width], [height / 2, width / 2], [height + 2, width + 2]);
            layers.push(convolution(size, 1, 1, [channels, hidden], activation));
            layers.push(convolution(size, 2, 1, [hidden, hidden], activation));
            layers.push(Layer::transposed_convolution(half, [hidden, hidden], activation, bytes));
            layers.push(convolution(padded, 1, 0, [hidden, channels], after));
        }
        if !last_group {
            layers.push(convolution([height, width], 2, 1, [channels, 4 * channels], Activation::Identity));
            (channels, height, width) = (4 * channels, height / 2, width / 2);
        }
    }
    (layers, [channels, height, width])
}

/// For each place of `[pixel][channel]` in shape `to`, the place of the same number in shape `from`, both flattened
/// `[channel][pixel]` in between.
fn reinterpretation(from: [usize; 3], to: [usize; 3]) -> Option<Vec<usize>> {
    if from == to {
        return None;
    }
    let (from_pixels, to_pixels) = (from[1] * from[2], to[1] * to[2]);
    let place = |index: usize| {
        let (pixel, channel) = (index / to[0], index % to[0]);
        let flat = channel * to_pixels + pixel;
        flat % from_pixels * from[0] + flat / from_pixels
    };
    Some((0..to.iter().product()).map(place).collect())
}
