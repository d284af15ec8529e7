//! The kernel: tiles of neighbouring outputs, their sums in registers.
#![expect(clippy::needless_range_loop, reason = "register tiles read best with their row and column as indices")]

use pulp::{Simd, WithSimd};

use super::{Filter, Kind, Part, TAPS, Tile, WEIGHTS, blocks};
use crate::{
    contraction::{Contraction, Weights, store},
    element::Element,
    finish::{Finish, finish_pixels},
};

/// A layer or an input gradient, as a [`Filter`] computes it, then [`Finish`].
pub(crate) struct Filtering<'a, E: Element, S: Simd> {
    pub(crate) filter: &'a Filter,
    pub(crate) channels: [usize; 2],
    pub(crate) input: &'a [E::Vector<S>],
    /// As [`Filter::pack`] leaves them.
    pub(crate) weights: &'a [E],
    /// For the pixels that are not in a tile.
    pub(crate) rest_weights: &'a [E],
    /// `[class][output channel]`, or empty for no bias.
    pub(crate) bias: &'a [E],
    pub(crate) output: &'a mut [E::Vector<S>],
    pub(crate) finish: Finish<'a, E::Vector<S>>,
    /// A pixel outside of the image: zeros for all input channels.
    pub(crate) outside: &'a [E::Vector<S>],
}

impl<E: Element, S: Simd> Filtering<'_, E, S> {
    /// Runs the kernel with the target features of `simd`.
    pub(crate) fn run(mut self, simd: S) {
        let (filter, [inputs, outputs]) = (self.filter, self.channels);
        assert_eq!(self.input.len(), filter.rest.inputs * inputs, "input image");
        assert_eq!(self.output.len(), filter.rest.outputs * outputs, "output image");
        assert_eq!(self.weights.len(), outputs * inputs * TAPS * WEIGHTS, "weights");
        assert!(self.bias.is_empty() || self.bias.len() == filter.rest.classes.len() * outputs, "bias");
        assert!(self.outside.len() >= inputs, "a pixel outside");
        for part in &filter.parts {
            simd.vectorize(Tiles::<E, S> {
                simd,
                filter,
                part,
                channels: self.channels,
                input: self.input,
                weights: self.weights,
                bias: self.bias,
                scales: matches!(self.finish, Finish::Scale),
                output: self.output,
                outside: self.outside,
            });
            finish_pixels::<E, S>(simd, &part.pixels, outputs, self.output, &mut self.finish);
        }
        if filter.has_rest() {
            Contraction::<E, S> {
                geometry: &filter.rest,
                channels: self.channels,
                input: self.input,
                weights: Weights::Packed(self.rest_weights),
                bias: self.bias,
                output: self.output,
                finish: self.finish,
            }
            .run(simd);
        }
    }
}

/// Some tiles of a row.
struct Tiles<'a, E: Element, S: Simd> {
    simd: S,
    filter: &'a Filter,
    part: &'a Part,
    channels: [usize; 2],
    input: &'a [E::Vector<S>],
    weights: &'a [E],
    bias: &'a [E],
    /// Whether the output is multiplied with what is there.
    scales: bool,
    output: &'a mut [E::Vector<S>],
    outside: &'a [E::Vector<S>],
}

impl<E: Element, S: Simd> WithSimd for Tiles<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(mut self, _: T) {
        // Two numbers come from the caches for every two multiply-adds. With stride 2, products of a tile have weights in common; with stride 1,
        // two tiles share each weight, or the multiply-adds would wait.
        match self.filter.kind {
            Kind::Same | Kind::Reversed => self.tiles::<Same, 4, 4, 4, 2, 2>(),
            Kind::Down => self.tiles::<Down, 5, 5, 3, 2, 1>(),
            Kind::Up => self.tiles::<Up<2>, 3, 5, 5, 4, 1>(),
            Kind::UpBefore => self.tiles::<Up<0>, 3, 5, 5, 4, 1>(),
        }
    }
}

/// What some tiles see under one row of the kernel: that row's index, and the channels of each pixel.
type Seen<'a, V, const I: usize, const G: usize> = (usize, [[&'a [V]; I]; G]);

/// Where the outputs of some tiles and their biases begin, if they are in the image.
type Places<const O: usize, const G: usize> = [[Option<(usize, usize)>; O]; G];

impl<E: Element, S: Simd> Tiles<'_, E, S> {
    /// `G` tiles at a time.
    #[inline(always)]
    fn tiles<F, const I: usize, const M: usize, const A: usize, const O: usize, const G: usize>(&mut self)
    where
        F: Form<I, M, A, O>,
    {
        let (groups, rest) = self.filter.tiles[self.part.tiles.clone()].as_chunks::<G>();
        for tiles in groups {
            self.group::<F, I, M, A, O, G>(tiles);
        }
        for tile in rest {
            self.group::<F, I, M, A, O, 1>(std::array::from_ref(tile));
        }
    }

    #[inline(always)]
    fn group<F, const I: usize, const M: usize, const A: usize, const O: usize, const G: usize>(
        &mut self,
        tiles: &[Tile; G],
    ) where
        F: Form<I, M, A, O>,
    {
        let (filter, [inputs, outputs], row) = (self.filter, self.channels, self.part.row);
        let rows = &filter.rows[row];
        let mut seen = [(0, [[&self.outside[..inputs]; I]; G]); TAPS];
        for ((to, pixels), &(ky, row)) in seen.iter_mut().zip(rows) {
            *to = ky;
            for (pixels, tile) in pixels.iter_mut().zip(tiles) {
                for (pixel, column) in pixels.iter_mut().zip(&tile.inputs) {
                    if let Some(column) = column {
                        *pixel = &self.input[(row * filter.widths[0] + column) * inputs..][..inputs];
                    }
                }
            }
        }
        let seen = &seen[..rows.len()];
        let place = |column| {
            let pixel = row * filter.widths[1] + column;
            (pixel * outputs, filter.classes[pixel] * outputs)
        };
        let places = tiles.each_ref().map(|tile| std::array::from_fn(|output| tile.outputs[output].map(place)));
        for block in blocks(outputs, filter.kind.channels()) {
            match block.len() {
                1 => self.block::<F, I, M, A, O, G, 1>(block.start, places, seen),
                2 => self.block::<F, I, M, A, O, G, 2>(block.start, places, seen),
                3 => self.block::<F, I, M, A, O, G, 3>(block.start, places, seen),
                4 if A != 4 => self.block::<F, I, M, A, O, G, 4>(block.start, places, seen),
                5 if A < 4 => self.block::<F, I, M, A, O, G, 5>(block.start, places, seen),
                6 if A < 4 => self.block::<F, I, M, A, O, G, 6>(block.start, places, seen),
                7 if A < 4 => self.block::<F, I, M, A, O, G, 7>(block.start, places, seen),
                8 if A < 4 => self.block::<F, I, M, A, O, G, 8>(block.start, places, seen),
                other => unreachable!("a block of {other} channels with {A} sums each"),
            }
        }
    }

    /// `Q` output channels of `G` tiles from `first` on.
    #[inline(always)]
    fn block<F, const I: usize, const M: usize, const A: usize, const O: usize, const G: usize, const Q: usize>(
        &mut self,
        first: usize,
        places: Places<O, G>,
        seen: &[Seen<'_, E::Vector<S>, I, G>],
    ) where
        F: Form<I, M, A, O>,
    {
        let (simd, inputs) = (self.simd, self.channels[0]);
        let weights = &self.weights[first * TAPS * inputs * WEIGHTS..][..Q * TAPS * inputs * WEIGHTS];
        let sums = self.sums::<F, I, M, A, O, G, Q>(weights, seen);
        for g in 0..G {
            let mut ends = [[sums[g][0][0]; Q]; O];
            for q in 0..Q {
                let mut of_channel = [sums[g][0][q]; A];
                for a in 0..A {
                    of_channel[a] = sums[g][a][q];
                }
                let outputs = F::outputs::<E, S>(simd, of_channel);
                for o in 0..O {
                    ends[o][q] = outputs[o];
                }
            }
            for o in 0..O {
                let Some((pixel, class)) = places[g][o] else { continue };
                let to = &mut self.output[pixel + first..][..Q];
                if self.bias.is_empty() {
                    store::<E, S, Q>(simd, self.scales, to, &ends[o]);
                } else {
                    let bias = &self.bias[class + first..][..Q];
                    for q in 0..Q {
                        to[q] = E::add(simd, ends[o][q], E::splat(simd, bias[q]));
                    }
                }
            }
        }
    }

    /// The sums of products of `G` tiles over all rows of the kernel and input channels.
    #[inline(always)]
    fn sums<F, const I: usize, const M: usize, const A: usize, const O: usize, const G: usize, const Q: usize>(
        &self,
        weights: &[E],
        seen: &[Seen<'_, E::Vector<S>, I, G>],
    ) -> [[[E::Vector<S>; Q]; A]; G]
    where
        F: Form<I, M, A, O>,
    {
        let (simd, inputs) = (self.simd, self.channels[0]);
        let mut sums = [[[E::splat(simd, E::ZERO); Q]; A]; G];
        for &(ky, tiles) in seen {
            let weights = &weights[ky * inputs * WEIGHTS * Q..][..inputs * WEIGHTS * Q];
            for c in 0..inputs {
                let mut factors = [[sums[0][0][0]; M]; G];
                for g in 0..G {
                    let mut x = [sums[0][0][0]; I];
                    for i in 0..I {
                        // SAFETY: each pixel has `inputs` channels.
                        x[i] = unsafe { *tiles[g][i].get_unchecked(c) };
                    }
                    factors[g] = F::factors::<E, S>(simd, x);
                }
                for w in 0..WEIGHTS {
                    for q in 0..Q {
                        // SAFETY: each channel has `WEIGHTS` times `Q` weights.
                        let weight = E::splat(simd, unsafe { *weights.get_unchecked((c * WEIGHTS + w) * Q + q) });
                        for g in 0..G {
                            for m in 0..M {
                                if F::WEIGHTS[m] == w {
                                    let sum = &mut sums[g][F::SUMS[m]][q];
                                    *sum = E::fma(simd, factors[g][m], weight, *sum);
                                }
                            }
                        }
                    }
                }
            }
        }
        sums
    }
}

/// A tile of `I` inputs and `O` outputs with `M` products that are added up to `A` sums.
trait Form<const I: usize, const M: usize, const A: usize, const O: usize> {
    /// The weight of each product.
    const WEIGHTS: [usize; M];
    /// The sum that each product is part of.
    const SUMS: [usize; M];
    /// What is multiplied with the weights.
    fn factors<E: Element, S: Simd>(simd: S, x: [E::Vector<S>; I]) -> [E::Vector<S>; M];
    /// The outputs from the sums.
    fn outputs<E: Element, S: Simd>(simd: S, sums: [E::Vector<S>; A]) -> [E::Vector<S>; O];
}

struct Same;

impl Form<4, 4, 4, 2> for Same {
    const WEIGHTS: [usize; 4] = [0, 1, 2, 3];
    const SUMS: [usize; 4] = [0, 1, 2, 3];
    #[inline(always)]
    fn factors<E: Element, S: Simd>(simd: S, [a, b, c, d]: [E::Vector<S>; 4]) -> [E::Vector<S>; 4] {
        [E::sub(simd, a, c), E::add(simd, b, c), E::sub(simd, c, b), E::sub(simd, b, d)]
    }
    #[inline(always)]
    fn outputs<E: Element, S: Simd>(simd: S, [a, b, c, d]: [E::Vector<S>; 4]) -> [E::Vector<S>; 2] {
        [E::add(simd, a, E::add(simd, b, c)), E::sub(simd, E::sub(simd, b, c), d)]
    }
}

struct Down;

impl Form<5, 5, 3, 2> for Down {
    const WEIGHTS: [usize; 5] = [0, 1, 2, 1, 3];
    const SUMS: [usize; 5] = [0, 0, 1, 2, 2];
    #[inline(always)]
    fn factors<E: Element, S: Simd>(simd: S, [a, b, c, d, e]: [E::Vector<S>; 5]) -> [E::Vector<S>; 5] {
        [E::sub(simd, a, c), b, c, d, E::sub(simd, e, c)]
    }
    #[inline(always)]
    fn outputs<E: Element, S: Simd>(simd: S, [a, b, c]: [E::Vector<S>; 3]) -> [E::Vector<S>; 2] {
        [E::add(simd, a, b), E::add(simd, c, b)]
    }
}

/// With the index of the input that the fourth output is made of.
struct Up<const OTHER: usize>;

impl<const OTHER: usize> Form<3, 5, 5, 4> for Up<OTHER> {
    const WEIGHTS: [usize; 5] = [0, 1, 2, 3, 3];
    const SUMS: [usize; 5] = [0, 1, 2, 3, 4];
    #[inline(always)]
    fn factors<E: Element, S: Simd>(simd: S, x: [E::Vector<S>; 3]) -> [E::Vector<S>; 5] {
        [E::sub(simd, x[0], x[1]), x[1], E::sub(simd, x[2], x[1]), x[1], x[OTHER]]
    }
    #[inline(always)]
    fn outputs<E: Element, S: Simd>(simd: S, [a, b, c, d, e]: [E::Vector<S>; 5]) -> [E::Vector<S>; 4] {
        [E::add(simd, a, b), E::add(simd, c, b), d, e]
    }
}
