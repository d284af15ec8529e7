use std::ops::Range;

use burn::tensor::Tensor;

use crate::random::Stream;

/// One tensor inside the flat weight vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name, `layer.role`: `2.weight`.
    pub name: String,
    /// The layer that it belongs to, from 0.
    pub layer: usize,
    /// Its shape; the elements lie row by row.
    pub shape: Vec<usize>,
    /// Its place in the flat vector.
    pub range: Range<usize>,
    /// Initial values are uniform in `±bound`, `bound = 1/√fan_in` of the layer.
    pub bound: f64,
}

/// The layout of a flat weight vector: layer after layer, for each its entries one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    entries: Vec<Entry>,
}

impl Layout {
    /// Appends a layer with its named tensors.
    pub(crate) fn push_layer(&mut self, fan_in: usize, tensors: &[(&str, &[usize])]) {
        let layer = self.layers();
        for &(role, shape) in tensors {
            let start = self.len();
            self.entries.push(Entry {
                name: format!("{layer}.{role}"),
                layer,
                shape: shape.to_vec(),
                range: start..start + shape.iter().product::<usize>(),
                bound: 1.0 / (fan_in as f64).sqrt(),
            });
        }
    }

    /// The tensors in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The number of layers.
    pub fn layers(&self) -> usize {
        self.entries.last().map_or(0, |e| e.layer + 1)
    }

    /// The length P of the flat vector.
    pub fn len(&self) -> usize {
        self.entries.last().map_or(0, |e| e.range.end)
    }

    /// Whether there are no weights at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Initial weights: uniform in `±1/√fan_in`, layer by layer.
    pub fn init(&self, stream: Stream) -> Vec<f64> {
        let mut w = vec![0.0; self.len()];
        stream.fill_uniform(0, &mut w);
        for entry in &self.entries {
            for value in &mut w[entry.range.clone()] {
                *value = entry.bound * (2.0 * *value - 1.0);
            }
        }
        w
    }

    /// The tensors of `w` (`[samples, P]`), each still flat: `[samples, len]`.
    pub(crate) fn split(&self, w: Tensor<2>) -> impl Iterator<Item = Tensor<2>> {
        let sizes = self.entries.iter().map(|e| e.range.len()).collect();
        w.split_with_sizes(sizes, 1).into_iter()
    }
}
