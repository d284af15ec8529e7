//! Squares of numbers, transposed: vectors of examples become vectors of channels.

#[cfg(target_arch = "x86_64")]
use pulp::x86::{V3, V4};
use pulp::{Simd, bytemuck};

/// Transposes as many vectors of single precision as a vector has lanes: vector `i` of the result goes to `to[i * stride]`.
#[inline(always)]
pub(crate) fn transpose_f32<S: Simd>(simd: S, from: &[S::f32s], to: &mut [S::f32s], stride: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = same::<S, V3>(simd) {
            return avx2::transpose(simd, bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), stride);
        }
        if let Some(simd) = same::<S, V4>(simd) {
            return avx512::transpose(simd, bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), stride);
        }
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

/// `simd` as a token of type `T`, if that is what it is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn same<S: Simd, T: Simd>(simd: S) -> Option<T> {
    // SAFETY: the types are equal, and tokens are `Copy`.
    (std::any::TypeId::of::<S>() == std::any::TypeId::of::<T>()).then(|| unsafe { std::mem::transmute_copy(&simd) })
}

/// Eight by eight in 24 shuffles: thin layers multiply too little to hide a transposition number by number.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::{arch::x86_64::__m256, array};

    use pulp::{bytemuck::cast, f32x8, x86::V3};

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

/// Sixteen by sixteen in 64 shuffles.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::__m512;

    use pulp::{bytemuck::cast, f32x16, x86::V4};

    /// The square `from[0..16]`.
    #[inline(always)]
    pub(super) fn transpose(simd: V4, from: &[f32x16], to: &mut [f32x16], stride: usize) {
        let avx = simd.avx512f;
        let from: &[f32x16; 16] = from[..16].try_into().expect("sixteen vectors");
        // Quarter `l` of `fours[i][q]` has column `4 l + i` of the rows `4 q` to `4 q + 3`.
        let mut fours = [[cast::<_, __m512>(from[0]); 4]; 4];
        for q in 0..4 {
            let [a, b, c, d]: [__m512; 4] =
                [cast(from[4 * q]), cast(from[4 * q + 1]), cast(from[4 * q + 2]), cast(from[4 * q + 3])];
            let (low, next_low) = (avx._mm512_unpacklo_ps(a, b), avx._mm512_unpacklo_ps(c, d));
            let (high, next_high) = (avx._mm512_unpackhi_ps(a, b), avx._mm512_unpackhi_ps(c, d));
            fours[0][q] = avx._mm512_shuffle_ps::<0x44>(low, next_low);
            fours[1][q] = avx._mm512_shuffle_ps::<0xee>(low, next_low);
            fours[2][q] = avx._mm512_shuffle_ps::<0x44>(high, next_high);
            fours[3][q] = avx._mm512_shuffle_ps::<0xee>(high, next_high);
        }
        for (i, [a, b, c, d]) in fours.into_iter().enumerate() {
            // Quarters 0 and 1, and 2 and 3, of two rows of quarters; then those of four.
            let (low, next_low) = (avx._mm512_shuffle_f32x4::<0x44>(a, b), avx._mm512_shuffle_f32x4::<0x44>(c, d));
            let (high, next_high) = (avx._mm512_shuffle_f32x4::<0xee>(a, b), avx._mm512_shuffle_f32x4::<0xee>(c, d));
            to[i * stride] = cast(avx._mm512_shuffle_f32x4::<0x88>(low, next_low));
            to[(4 + i) * stride] = cast(avx._mm512_shuffle_f32x4::<0xdd>(low, next_low));
            to[(8 + i) * stride] = cast(avx._mm512_shuffle_f32x4::<0x88>(high, next_high));
            to[(12 + i) * stride] = cast(avx._mm512_shuffle_f32x4::<0xdd>(high, next_high));
        }
    }
}
