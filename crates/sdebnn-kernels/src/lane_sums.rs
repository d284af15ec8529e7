//! Sums over the lanes of eight vectors at once: a tree of shuffles in which no addition leaves a lane idle.

use pulp::Simd;

/// Vectors that are summed together.
pub(crate) const EIGHT: usize = 8;

/// The sum of all lanes of each vector.
#[inline(always)]
pub(crate) fn sum_eight_f32<S: Simd>(simd: S, vectors: &[S::f32s; EIGHT]) -> [f32; EIGHT] {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::instructions::same;
        use pulp::bytemuck::cast_slice;
        if let Some(simd) = same::<S, pulp::x86::V3>(simd) {
            return x86::avx2(simd, cast_slice(vectors));
        }
        if let Some(simd) = same::<S, pulp::x86::V4>(simd) {
            return x86::avx512(simd, cast_slice(vectors));
        }
    }
    let mut sums = [0.0; EIGHT];
    for (sum, &vector) in sums.iter_mut().zip(vectors) {
        *sum = simd.reduce_sum_f32s(vector);
    }
    sums
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m512};

    use pulp::{
        bytemuck::cast,
        f32x8, f32x16,
        x86::{V3, V4},
    };

    use super::EIGHT;

    #[inline(always)]
    pub(super) fn avx2(simd: V3, vectors: &[f32x8]) -> [f32; EIGHT] {
        let (low, high) = vectors.split_at(4);
        let (x, y) = (quarters_of_four_avx2(simd, low), quarters_of_four_avx2(simd, high));
        let avx = simd.avx;
        cast(avx._mm256_add_ps(avx._mm256_permute2f128_ps::<0x20>(x, y), avx._mm256_permute2f128_ps::<0x31>(x, y)))
    }

    /// In every quarter of four lanes, the sums of that quarter of four vectors.
    #[inline(always)]
    fn quarters_of_four_avx2(simd: V3, vectors: &[f32x8]) -> __m256 {
        let avx = simd.avx;
        let [a, b, c, d]: [__m256; 4] = [cast(vectors[0]), cast(vectors[1]), cast(vectors[2]), cast(vectors[3])];
        let first = avx._mm256_add_ps(avx._mm256_unpacklo_ps(a, b), avx._mm256_unpackhi_ps(a, b));
        let second = avx._mm256_add_ps(avx._mm256_unpacklo_ps(c, d), avx._mm256_unpackhi_ps(c, d));
        let low = avx._mm256_shuffle_ps::<0x44>(first, second);
        avx._mm256_add_ps(low, avx._mm256_shuffle_ps::<0xee>(first, second))
    }

    #[inline(always)]
    pub(super) fn avx512(simd: V4, vectors: &[f32x16]) -> [f32; EIGHT] {
        let (low, high) = vectors.split_at(4);
        let (x, y) = (quarters_of_four_avx512(simd, low), quarters_of_four_avx512(simd, high));
        let avx = simd.avx512f;
        // Two quarters of each, then one.
        let sums = avx._mm512_add_ps(avx._mm512_shuffle_f32x4::<0x88>(x, y), avx._mm512_shuffle_f32x4::<0xdd>(x, y));
        let sums = avx
            ._mm512_add_ps(avx._mm512_shuffle_f32x4::<0x88>(sums, sums), avx._mm512_shuffle_f32x4::<0xdd>(sums, sums));
        cast(avx._mm512_castps512_ps256(sums))
    }

    /// As with AVX2.
    #[inline(always)]
    fn quarters_of_four_avx512(simd: V4, vectors: &[f32x16]) -> __m512 {
        let avx = simd.avx512f;
        let [a, b, c, d]: [__m512; 4] = [cast(vectors[0]), cast(vectors[1]), cast(vectors[2]), cast(vectors[3])];
        let first = avx._mm512_add_ps(avx._mm512_unpacklo_ps(a, b), avx._mm512_unpackhi_ps(a, b));
        let second = avx._mm512_add_ps(avx._mm512_unpacklo_ps(c, d), avx._mm512_unpackhi_ps(c, d));
        let low = avx._mm512_shuffle_ps::<0x44>(first, second);
        avx._mm512_add_ps(low, avx._mm512_shuffle_ps::<0xee>(first, second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{element::Element, instructions::InstructionSet};
    use pulp::WithSimd;

    struct Sums;

    impl WithSimd for Sums {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            let lanes = f32::lanes::<S>();
            let numbers: Vec<f32> = (0..EIGHT * lanes).map(|i| (i * i % 101) as f32).collect();
            let mut vectors = [simd.splat_f32s(0.0); EIGHT];
            f32::elements_mut::<S>(&mut vectors).copy_from_slice(&numbers);
            let expected: Vec<f32> = numbers.chunks_exact(lanes).map(|vector| vector.iter().sum()).collect();
            assert_eq!(sum_eight_f32(simd, &vectors)[..], expected, "{lanes} lanes");
        }
    }

    #[test]
    fn the_lanes_of_each_vector_are_summed() {
        InstructionSet::ALL.into_iter().for_each(|instructions| instructions.dispatch(Sums));
    }
}
