//! The one kernel behind layers and their input gradients: a contraction over taps and channels.
#![expect(clippy::needless_range_loop, reason = "register tiles read best with their row and column as indices")]

use pulp::{Simd, WithSimd};

use crate::{
    element::Element,
    finish::{Finish, finish_pixels},
    geometry::{Geometry, Run},
};

/// Where the weight of (output channel, input channel, tap) lies in a flat slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WeightStrides {
    /// Distance between output channels.
    pub(crate) output: usize,
    /// Distance between input channels.
    pub(crate) input: usize,
    /// Distance between taps.
    pub(crate) tap: usize,
}

/// Weights as the kernel finds them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Weights<'a, E> {
    /// In the caller's layout. For a single tap, where all weights fit the nearest cache.
    InPlace(&'a [E], WeightStrides),
    /// In the order of use; see [`pack`].
    Packed(&'a [E]),
}

/// Most (pixels, output channels) whose sums are kept in registers together.
///
/// Twelve sums are enough to hide the latency of the multiply-add, and with their operands few enough for sixteen registers. Four pixels and three
/// channels take seven loads for twelve multiply-adds, two pixels and six channels eight. But the pixels of a convolution are far apart.
fn block(taps: usize, outputs: usize) -> (usize, usize) {
    if taps == 1 || outputs <= 3 { (4, 3) } else { (2, 6) }
}

/// Of `rest` output channels that are left, those that are taken together: at most `most`, and the last ones in two halves rather than as a
/// block and a small rest.
#[inline(always)]
fn channels_of_block(rest: usize, most: usize) -> usize {
    if rest <= most {
        rest
    } else if rest <= most + most / 2 {
        rest / 2
    } else {
        most
    }
}

/// Weights in the order in which the kernel reads them: `[block of output channels][tap][input][output within the block]`,
/// `taps` in the order given.
pub(crate) fn pack<E: Element>(
    weights: &[E],
    strides: WeightStrides,
    taps: impl ExactSizeIterator<Item = usize> + Clone,
    [inputs, outputs]: [usize; 2],
    packed: &mut Vec<E>,
) {
    packed.clear();
    packed.reserve(taps.len() * inputs * outputs);
    let (_, most) = block(taps.len(), outputs);
    let mut first = 0;
    while first < outputs {
        let block = channels_of_block(outputs - first, most);
        for tap in taps.clone() {
            for input in 0..inputs {
                let start = first * strides.output + tap * strides.tap + input * strides.input;
                packed.extend((0..block).map(|q| weights[start + q * strides.output]));
            }
        }
        first += block;
    }
}

/// Pixels that go through [`Finish`] in one loop: few enough to be in the nearest cache still.
const FINISHED_TOGETHER: usize = 12;

/// `y[p, q] = bias[class of p, q] + Σ_tap Σ_c x[p at tap, c] · w[q, c, tap]`, then [`Finish`].
///
/// Images are `[pixel][channel]` of vectors whose lanes are examples, so a weight is one broadcast.
pub(crate) struct Contraction<'a, E: Element, S: Simd> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) channels: [usize; 2],
    pub(crate) input: &'a [E::Vector<S>],
    pub(crate) weights: Weights<'a, E>,
    /// `[class][output channel]`, or empty for no bias.
    pub(crate) bias: &'a [E],
    pub(crate) output: &'a mut [E::Vector<S>],
    pub(crate) finish: Finish<'a, E::Vector<S>>,
}

impl<E: Element, S: Simd> Contraction<'_, E, S> {
    /// Runs the kernel with the target features of `simd`.
    pub(crate) fn run(mut self, simd: S) {
        self.check();
        match block(self.geometry.taps, self.channels[1]) {
            (4, _) => self.all_pixels::<4, 3>(simd),
            _ => self.all_pixels::<2, 6>(simd),
        }
    }

    /// The bounds on which the unchecked reads of the inner loop rely.
    fn check(&self) {
        let [inputs, outputs] = self.channels;
        assert_eq!(self.input.len(), self.geometry.inputs * inputs, "input image");
        assert_eq!(self.output.len(), self.geometry.outputs * outputs, "output image");
        assert!(self.bias.is_empty() || self.bias.len() == self.geometry.classes.len() * outputs, "bias");
        let taps = self.geometry.taps;
        match self.weights {
            Weights::Packed(weights) => assert_eq!(weights.len(), outputs * inputs * taps, "packed weights"),
            Weights::InPlace(weights, strides) => {
                let last = (outputs - 1) * strides.output + (inputs - 1) * strides.input + (taps - 1) * strides.tap;
                assert!(last < weights.len(), "weights");
            }
        }
    }

    fn all_pixels<const P: usize, const MOST: usize>(&mut self, simd: S) {
        let (weights, strides) = match self.weights {
            Weights::Packed(weights) => (weights, None),
            Weights::InPlace(weights, strides) => (weights, Some(strides)),
        };
        for (index, class) in self.geometry.classes.iter().enumerate() {
            let bias =
                if self.bias.is_empty() { &[] } else { &self.bias[index * self.channels[1]..][..self.channels[1]] };
            for pixels in class.pixels.chunks(FINISHED_TOGETHER) {
                // Contraction and finish are separate functions: together, the constants of an activation take registers
                // from the sums.
                simd.vectorize(Sums::<E, S, P, MOST> {
                    simd,
                    runs: &class.runs,
                    taps: self.geometry.taps,
                    pixels,
                    channels: self.channels,
                    input: self.input,
                    weights,
                    strides,
                    bias,
                    scales: matches!(self.finish, Finish::Scale),
                    output: self.output,
                });
                finish_pixels::<E, S>(simd, pixels, self.channels[1], self.output, &mut self.finish);
            }
        }
    }
}

/// The contraction for pixels that see the same taps, `P` at a time, with at most `MOST` output channels.
struct Sums<'a, E: Element, S: Simd, const P: usize, const MOST: usize> {
    simd: S,
    runs: &'a [Run],
    taps: usize,
    pixels: &'a [(usize, usize)],
    channels: [usize; 2],
    input: &'a [E::Vector<S>],
    weights: &'a [E],
    /// None if the weights are packed.
    strides: Option<WeightStrides>,
    bias: &'a [E],
    /// Whether the output is multiplied with what is there.
    scales: bool,
    output: &'a mut [E::Vector<S>],
}

impl<E: Element, S: Simd, const P: usize, const MOST: usize> WithSimd for Sums<'_, E, S, P, MOST> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(mut self, _: T) {
        let outputs = self.channels[1];
        let mut first = 0;
        while first < outputs {
            let block = channels_of_block(outputs - first, MOST);
            match block {
                1 => self.block::<1>(first),
                2 => self.block::<2>(first),
                3 => self.block::<3>(first),
                4 if MOST > 3 => self.block::<4>(first),
                5 if MOST > 3 => self.block::<5>(first),
                6 if MOST > 3 => self.block::<6>(first),
                _ => unreachable!("a block of {block} channels, at most {MOST}"),
            }
            first += block;
        }
    }
}

impl<E: Element, S: Simd, const P: usize, const MOST: usize> Sums<'_, E, S, P, MOST> {
    /// `Q` output channels from `first` on.
    #[inline(always)]
    fn block<const Q: usize>(&mut self, first: usize) {
        let mut bias = [E::splat(self.simd, E::ZERO); Q];
        if !self.bias.is_empty() {
            for (to, &bias) in bias.iter_mut().zip(&self.bias[first..first + Q]) {
                *to = E::splat(self.simd, bias);
            }
        }
        let (groups, rest) = self.pixels.as_chunks::<P>();
        for pixels in groups {
            self.group(first, bias, pixels);
        }
        match *rest {
            [a] => self.group(first, bias, &[a]),
            [a, b] if P > 2 => self.group(first, bias, &[a, b]),
            [a, b, c] if P > 2 => self.group(first, bias, &[a, b, c]),
            _ => {}
        }
    }

    /// `Q` output channels of `G` pixels.
    #[inline(always)]
    fn group<const G: usize, const Q: usize>(
        &mut self,
        first: usize,
        bias: [E::Vector<S>; Q],
        pixels: &[(usize, usize); G],
    ) {
        let [inputs, outputs] = self.channels;
        let mut sums = [bias; G];
        for run in self.runs {
            let mut from = [0; G];
            for p in 0..G {
                from[p] = pixels[p].0.wrapping_add_signed(run.offset) * inputs;
            }
            let length = run.length * inputs;
            match self.strides {
                None => {
                    let weight = first * self.taps * inputs + run.tap * inputs * Q;
                    self.run(&mut sums, from, length, weight, Q, 1);
                }
                Some(strides) => {
                    let weight = first * strides.output + run.tap * strides.tap;
                    self.run(&mut sums, from, length, weight, strides.input, strides.output);
                }
            }
        }
        for p in 0..G {
            let to = pixels[p].1 * outputs + first;
            store::<E, S, Q>(self.simd, self.scales, &mut self.output[to..to + Q], &sums[p]);
        }
    }

    /// All input channels under a run of taps, `length` together: pixels at `from`, weights from `weight` on with the given
    /// distances.
    #[inline(always)]
    fn run<const G: usize, const Q: usize>(
        &self,
        sums: &mut [[E::Vector<S>; Q]; G],
        from: [usize; G],
        length: usize,
        mut weight: usize,
        input: usize,
        output: usize,
    ) {
        let simd = self.simd;
        for c in 0..length {
            // SAFETY: the geometry links only pixels of the input image, whose length `check` has compared.
            let x = |p: usize| unsafe { *self.input.get_unchecked(from[p] + c) };
            // SAFETY: the indices are below the extents for which `check` has compared the number of weights.
            let w = |q: usize| E::splat(simd, unsafe { *self.weights.get_unchecked(weight + q * output) });
            debug_assert!(from.iter().all(|from| from + c < self.input.len()));
            debug_assert!(weight + (Q - 1) * output < self.weights.len());
            // Sixteen registers hold the sums, the fewer operands, and one of the others.
            if Q < G {
                let mut weights = [sums[0][0]; Q];
                for q in 0..Q {
                    weights[q] = w(q);
                }
                for p in 0..G {
                    let x = x(p);
                    for q in 0..Q {
                        sums[p][q] = E::fma(simd, x, weights[q], sums[p][q]);
                    }
                }
            } else {
                let mut inputs = [sums[0][0]; G];
                for p in 0..G {
                    inputs[p] = x(p);
                }
                for q in 0..Q {
                    let w = w(q);
                    for p in 0..G {
                        sums[p][q] = E::fma(simd, inputs[p], w, sums[p][q]);
                    }
                }
            }
            weight += input;
        }
    }
}

/// `to = values`, or `to = to · values` for [`Finish::Scale`].
#[inline(always)]
pub(crate) fn store<E: Element, S: Simd, const Q: usize>(
    simd: S,
    scales: bool,
    to: &mut [E::Vector<S>],
    values: &[E::Vector<S>; Q],
) {
    if scales {
        for (to, &value) in to.iter_mut().zip(values) {
            *to = E::mul(simd, value, *to);
        }
    } else {
        to.copy_from_slice(values);
    }
}
