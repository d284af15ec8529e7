//! Sums of an output gradient over the pixels of each class.

use pulp::{Simd, WithSimd};

use crate::{element::Element, geometry::Geometry, lane_sums::EIGHT};

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
            let (blocks, rest) = sums.as_chunks_mut::<EIGHT>();
            for (block, sums) in blocks.iter_mut().enumerate() {
                let mut totals = [E::splat(simd, E::ZERO); EIGHT];
                for &(_, pixel) in &class.pixels {
                    let row = &output_gradient[pixel * channels + block * EIGHT..][..EIGHT];
                    for q in 0..EIGHT {
                        totals[q] = E::add(simd, totals[q], row[q]);
                    }
                }
                *sums = E::sum_eight(simd, &totals);
            }
            let first = channels - rest.len();
            for (q, sum) in rest.iter_mut().enumerate() {
                let mut total = E::splat(simd, E::ZERO);
                for &(_, pixel) in &class.pixels {
                    total = E::add(simd, total, output_gradient[pixel * channels + first + q]);
                }
                *sum = E::sum(simd, total);
            }
        }
    }
}
