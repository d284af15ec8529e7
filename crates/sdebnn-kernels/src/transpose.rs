//! Squares of numbers, transposed: vectors of examples become vectors of channels.

#[cfg(target_arch = "x86_64")]
use pulp::x86::{V3, V4};
use pulp::{Simd, bytemuck};

#[cfg(target_arch = "x86_64")]
use crate::instructions::same;

/// Transposes as many vectors of single precision as a vector has lanes, with the given distances in `from` and `to`.
#[inline(always)]
pub(crate) fn transpose_f32<S: Simd>(simd: S, from: &[S::f32s], to: &mut [S::f32s], strides: [usize; 2]) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(simd) = same::<S, V3>(simd) {
            return avx2::transpose(simd, bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), strides);
        }
        if let Some(simd) = same::<S, V4>(simd) {
            return avx512::transpose(simd, bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), strides);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = simd;
    transpose_numbers::<f32>(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), S::F32_LANES, strides);
}

/// As [`transpose_f32`], in double precision.
#[inline(always)]
pub(crate) fn transpose_f64<S: Simd>(_: S, from: &[S::f64s], to: &mut [S::f64s], strides: [usize; 2]) {
    transpose_numbers::<f64>(bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to), S::F64_LANES, strides);
}

/// One number at a time.
#[inline(always)]
fn transpose_numbers<E: Copy>(from: &[E], to: &mut [E], lanes: usize, strides: [usize; 2]) {
    for column in 0..lanes {
        for (row, &value) in from[column * strides[0] * lanes..][..lanes].iter().enumerate() {
            to[row * strides[1] * lanes + column] = value;
        }
    }
}

/// Eight by eight in 24 shuffles: thin layers multiply too little to hide a transposition number by number.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::{arch::x86_64::__m256, array};

    use pulp::{bytemuck::cast, f32x8, x86::V3};

    #[inline(always)]
    pub(super) fn transpose(simd: V3, from: &[f32x8], to: &mut [f32x8], [apart, stride]: [usize; 2]) {
        let avx = simd.avx;
        let rows: [__m256; 8] = array::from_fn(|i| cast(from[i * apart]));
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
#[expect(clippy::needless_range_loop, reason = "squares read best with their row and column as indices")]
mod avx512 {
    use std::arch::x86_64::__m512;

    use pulp::{bytemuck::cast, f32x16, x86::V4};

    #[inline(always)]
    pub(super) fn transpose(simd: V4, from: &[f32x16], to: &mut [f32x16], [apart, stride]: [usize; 2]) {
        let avx = simd.avx512f;
        let row = |i: usize| cast::<_, __m512>(from[i * apart]);
        // Quarter `l` of `fours[i][q]` has column `4 l + i` of the rows `4 q` to `4 q + 3`.
        let mut fours = [[row(0); 4]; 4];
        for q in 0..4 {
            let [a, b, c, d] = [row(4 * q), row(4 * q + 1), row(4 * q + 2), row(4 * q + 3)];
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
