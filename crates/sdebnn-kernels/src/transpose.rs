//! Squares of numbers, transposed: vectors of examples become vectors of channels.

use pulp::{Simd, bytemuck};

/// Transposes as many vectors of single precision as a vector has lanes: vector `i` of the result goes to `to[i * stride]`.
#[inline(always)]
pub(crate) fn transpose_f32<S: Simd>(simd: S, from: &[S::f32s], to: &mut [S::f32s], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = avx2::token(simd) {
        return avx2::transpose(simd, bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), stride);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = simd;
    transpose_numbers::<f32>(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), S::F32_LANES, stride);
}

/// As [`transpose_f32`], in double precision.
#[inline(always)]
pub(crate) fn transpose_f64<S: Simd>(_: S, from: &[S::f64s], to: &mut [S::f64s], stride: usize) {
    transpose_numbers::<f64>(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), S::F64_LANES, stride);
}

/// One number at a time.
#[inline(always)]
fn transpose_numbers<E: Copy>(from: &[E], to: &mut [E], lanes: usize, stride: usize) {
    for (column, from) in from[..lanes * lanes].chunks_exact(lanes).enumerate() {
        for (row, &value) in from.iter().enumerate() {
            to[row * stride * lanes + column] = value;
        }
    }
}

/// Eight by eight in 24 shuffles: thin layers multiply too little to hide a transposition number by number.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::{any::TypeId, arch::x86_64::__m256, array, mem::transmute_copy};

    use pulp::{Simd, bytemuck::cast, f32x8, x86::V3};

    /// `simd` as the token of AVX2, if that is what it is.
    #[inline(always)]
    pub(super) fn token<S: Simd>(simd: S) -> Option<V3> {
        // SAFETY: the types are equal, and tokens are `Copy`.
        (TypeId::of::<S>() == TypeId::of::<V3>()).then(|| unsafe { transmute_copy(&simd) })
    }

    /// The square `from[0..8]`.
    #[inline(always)]
    pub(super) fn transpose(simd: V3, from: &[f32x8], to: &mut [f32x8], stride: usize) {
        let avx = simd.avx;
        let from: &[f32x8; 8] = from[..8].try_into().expect("eight vectors");
        let rows: [__m256; 8] = array::from_fn(|i| cast(from[i]));
        // Pairs of rows, then of pairs: four rows of each half of the columns.
        let [a, b, c, d, e, f, g, h] = rows;
        let low = [(a, b), (c, d), (e, f), (g, h)].map(|(x, y)| avx._mm256_unpacklo_ps(x, y));
        let high = [(a, b), (c, d), (e, f), (g, h)].map(|(x, y)| avx._mm256_unpackhi_ps(x, y));
        let four = |x: __m256, y: __m256| [avx._mm256_shuffle_ps::<0x44>(x, y), avx._mm256_shuffle_ps::<0xee>(x, y)];
        let [t0, t1] = four(low[0], low[1]);
        let [t2, t3] = four(high[0], high[1]);
        let [t4, t5] = four(low[2], low[3]);
        let [t6, t7] = four(high[2], high[3]);
        for (i, (x, y)) in [(t0, t4), (t1, t5), (t2, t6), (t3, t7)].into_iter().enumerate() {
            to[i * stride] = cast(avx._mm256_permute2f128_ps::<0x20>(x, y));
            to[(i + 4) * stride] = cast(avx._mm256_permute2f128_ps::<0x31>(x, y));
        }
    }
}
