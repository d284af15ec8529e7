//! What happens to the pixels of a layer once their sums are known.

use pulp::{Simd, WithSimd};

use crate::{
    activation::{self, Activation, Function, WithFunction},
    element::Element,
    far_memory::stream,
};

/// What happens to a pixel once all its channels are known, while they are still in the nearest cache.
#[derive(Debug)]
pub(crate) enum Finish<'a, V> {
    /// Nothing.
    Keep,
    /// `y ← act(y)`
    Activate(Activation),
    /// `y ← act(y)`, and what is to be kept for the backward pass goes to the tape, which may be far.
    Record(Activation, bool, &'a mut [V]),
    /// `a ← act(y)`, `y ← act'(y)`
    Differentiate(Activation, &'a mut [V]),
    /// `y ← y · d`, with `d` where `y` goes.
    Scale,
    /// `y ← y · act'`, the derivative from what was kept of the argument.
    TimesSlope(Activation, &'a [V]),
}

/// [`Finish`] for some pixels, the second of each pair.
pub(crate) fn finish_pixels<E: Element, S: Simd>(
    simd: S,
    pixels: &[(usize, usize)],
    channels: usize,
    output: &mut [E::Vector<S>],
    finish: &mut Finish<'_, E::Vector<S>>,
) {
    simd.vectorize(FinishPixels::<E, S> { simd, pixels, channels, output, finish });
}

struct FinishPixels<'a, 'b, E: Element, S: Simd> {
    simd: S,
    pixels: &'a [(usize, usize)],
    channels: usize,
    output: &'a mut [E::Vector<S>],
    finish: &'a mut Finish<'b, E::Vector<S>>,
}

impl<E: Element, S: Simd> WithSimd for FinishPixels<'_, '_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(self, _: T) {
        match *self.finish {
            Finish::Keep | Finish::Scale => {}
            Finish::Activate(act)
            | Finish::Record(act, ..)
            | Finish::Differentiate(act, _)
            | Finish::TimesSlope(act, _) => {
                activation::dispatch::<E, _>(act, self);
            }
        }
    }
}

impl<E: Element, S: Simd> WithFunction<E> for FinishPixels<'_, '_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_function<F: Function<E>>(self, function: F) {
        let Self { simd, pixels, channels, output, finish } = self;
        let ranges = pixels.iter().map(|&(_, pixel)| pixel * channels..(pixel + 1) * channels);
        match finish {
            Finish::Keep | Finish::Scale => {}
            Finish::Activate(_) => {
                for range in ranges {
                    for y in &mut output[range] {
                        *y = function.value(simd, *y);
                    }
                }
            }
            Finish::Record(_, far, tape) => {
                for range in ranges {
                    for (kept, y) in tape[range.clone()].iter_mut().zip(&mut output[range]) {
                        let value = function.value(simd, *y);
                        stream::<E, S>(simd, *far, kept, function.keep::<S>(*y, value));
                        *y = value;
                    }
                }
            }
            Finish::TimesSlope(_, kept) => {
                for range in ranges {
                    for (y, &kept) in output[range.clone()].iter_mut().zip(&kept[range]) {
                        *y = E::mul(simd, *y, function.restore(simd, kept).1);
                    }
                }
            }
            Finish::Differentiate(_, to) => {
                for range in ranges {
                    for (a, y) in to[range.clone()].iter_mut().zip(&mut output[range]) {
                        (*a, *y) = function.value_and_slope(simd, *y);
                    }
                }
            }
        }
    }
}
