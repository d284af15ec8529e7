//! Where the parameters of `NN_φ` are, and how samples are shared out.

use std::ops::Range;

/// Samples that go through a solve together, at most: as many as leave the registers room for two rows of sums.
pub(super) const GROUP: usize = 5;

/// The flat layout `W₁, b₁, W₂, b₂, …` of `φ`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// `[M (+1), hidden…, M]`
    sizes: Vec<usize>,
    /// Start of each layer, and the end of the last.
    starts: Vec<usize>,
}

impl Layout {
    pub(super) fn new(hidden: &[usize], moving: usize, time_dependent: bool) -> Self {
        let sizes: Vec<_> =
            [moving + usize::from(time_dependent)].into_iter().chain(hidden.iter().copied()).chain([moving]).collect();
        let mut starts = vec![0];
        for ends in sizes.windows(2) {
            starts.push(starts[starts.len() - 1] + (ends[0] + 1) * ends[1]);
        }
        Self { sizes, starts }
    }

    pub(super) fn moving(&self) -> usize {
        self.sizes[self.sizes.len() - 1]
    }

    /// 1 if the network sees the time, else 0.
    pub(super) fn time_inputs(&self) -> usize {
        self.sizes[0] - self.moving()
    }

    pub(super) fn hidden_layers(&self) -> usize {
        self.sizes.len() - 2
    }

    pub(super) fn parameters(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }

    pub(super) fn inputs(&self, layer: usize) -> usize {
        self.sizes[layer]
    }

    pub(super) fn outputs(&self, layer: usize) -> usize {
        self.sizes[layer + 1]
    }

    pub(super) fn weights(&self, layer: usize) -> Range<usize> {
        self.starts[layer]..self.starts[layer] + self.inputs(layer) * self.outputs(layer)
    }

    pub(super) fn biases(&self, layer: usize) -> Range<usize> {
        self.weights(layer).end..self.starts[layer + 1]
    }

    /// Numbers kept for a sample in a hidden layer: the last one has a 1 after its activations, whose weights are the biases
    /// of the output.
    pub(super) fn width(&self, layer: usize) -> usize {
        self.outputs(layer) + usize::from(layer + 1 == self.hidden_layers())
    }
}

/// Consecutive samples that go through the solve together, at least two groups where there are two samples.
pub(super) fn groups(samples: usize) -> Vec<Range<usize>> {
    let count = samples.div_ceil(GROUP).max(samples.min(2));
    (0..count).map(|group| group * samples / count..(group + 1) * samples / count).collect()
}

/// `[evaluation][S][width]` as, for each group, its part of every evaluation.
pub(super) fn deal<'a, E>(
    mut array: &'a mut [E],
    groups: &[Range<usize>],
    samples: usize,
    width: usize,
) -> Vec<Vec<&'a mut [E]>> {
    let evaluations = array.len() / (samples * width);
    let mut dealt: Vec<_> = groups.iter().map(|_| Vec::with_capacity(evaluations + 1)).collect();
    for _ in 0..evaluations {
        for (group, dealt) in groups.iter().zip(&mut dealt) {
            dealt.push(array.split_off_mut(..group.len() * width).expect("the groups are all samples"));
        }
    }
    dealt
}
