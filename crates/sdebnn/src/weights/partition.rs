use std::ops::Range;

use burn::tensor::Tensor;

use crate::drift::Layout;

/// Which weights move: all of them (SDE-BNN), those of some layers (a partially stochastic network), or none (a neural ODE). The
/// others keep their learned initial value.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Pieces of the flat vector in order, and whether each moves; neighbours differ.
    pieces: Vec<(Range<usize>, bool)>,
}

impl Partition {
    /// The weights of the layers for which `moves` holds.
    pub fn of_layers(layout: &Layout, moves: impl Fn(usize) -> bool) -> Self {
        let mut pieces: Vec<(Range<usize>, bool)> = Vec::new();
        for entry in layout.entries() {
            match pieces.last_mut() {
                Some((range, moving)) if *moving == moves(entry.layer) => range.end = entry.range.end,
                _ => pieces.push((entry.range.clone(), moves(entry.layer))),
            }
        }
        Self { pieces }
    }

    /// The number of weights that move.
    pub fn moving(&self) -> usize {
        self.pieces.iter().filter(|(_, moving)| *moving).map(|(range, _)| range.len()).sum()
    }

    /// The moving part of `w` (`[samples, P]`), or `None` if nothing moves.
    pub fn select(&self, w: &Tensor<2>) -> Option<Tensor<2>> {
        let parts: Vec<_> = self.parts(w).filter_map(|(part, moving)| moving.then_some(part)).collect();
        (!parts.is_empty()).then(|| Tensor::cat(parts, 1))
    }

    /// The whole weight vector: `w` with its moving part replaced by `moved`.
    pub fn join(&self, w: &Tensor<2>, moved: Tensor<2>) -> Tensor<2> {
        if let [(_, true)] = self.pieces[..] {
            return moved;
        }
        let mut start = 0;
        let parts = self.parts(w).map(|(part, moving)| {
            if !moving {
                return part;
            }
            let len = part.dims()[1];
            start += len;
            moved.clone().narrow(1, start - len, len)
        });
        Tensor::cat(parts.collect(), 1)
    }

    fn parts(&self, w: &Tensor<2>) -> impl Iterator<Item = (Tensor<2>, bool)> {
        self.pieces.iter().map(|(range, moving)| (w.clone().narrow(1, range.start, range.len()), *moving))
    }
}
