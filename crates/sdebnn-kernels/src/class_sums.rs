//! Sums of an output gradient over the pixels of each class.

use pulp::{Simd, WithSimd};

use crate::{element::Element, geometry::Geometry};

/// Channels whose sums over pixels are kept in registers together.
const CHANNELS: usize = 8;

/// `sums[class, q] = Σ_{p in class} Σ_lane dy[p, q]`: what biases and time inputs are multiplied with.
pub(crate) struct ClassSums<'a, E: Element, S: Simd> {
    pub(crate) simd: S,
    pub(crate) geometry: &'a Geometry,
    pub(crate) channels: usize,
    pub(crate) output_gradient: &'a [E::Vector<S>],
    /// `[class][channel]`
    pub(crate) sums: &'a mut [E],
}

impl<E: Element, S: Simd> WithSimd for ClassSums<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(self, _: T) {
        let Self { simd, geometry, channels, output_gradient, sums } = self;
        for (class, sums) in geometry.classes.iter().zip(sums.chunks_exact_mut(channels)) {
            let mut first = 0;
            while first < channels {
                let count = (channels - first).min(CHANNELS);
                let mut totals = [E::splat(simd, E::ZERO); CHANNELS];
                for &(_, pixel) in &class.pixels {
                    let row = &output_gradient[pixel * channels + first..][..count];
                    for (total, &value) in totals.iter_mut().zip(row) {
                        *total = E::add(simd, *total, value);
                    }
                }
                for (sum, &total) in sums[first..first + count].iter_mut().zip(&totals) {
                    *sum = E::sum(simd, total);
                }
                first += count;
            }
        }
    }
}
