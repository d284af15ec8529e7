//! Powers of two with AVX-512, in which one register holds a table of sixteen.

use std::arch::x86_64::{__m512, __m512i};

use pulp::{bytemuck::cast, x86::V4};

use crate::elementary::Exp2;

/// The bits of `2^(j/16)` without `j · 2¹⁹`: what the bits of `16 n + j`, shifted by 19 places, add up with to `2^(n + j/16)`.
const POWERS: [u32; 16] = [
    0x3f80_0000,
    0x3f7d_aac3,
    0x3f7b_95c2,
    0x3f79_c3d3,
    0x3f78_37f0,
    0x3f76_f532,
    0x3f75_fed7,
    0x3f75_583f,
    0x3f75_04f3,
    0x3f75_08a4,
    0x3f75_672a,
    0x3f76_248c,
    0x3f77_44fd,
    0x3f78_ccdf,
    0x3f7a_c0c7,
    0x3f7d_257d,
];

/// What those are wrong by, relatively, as numbers of single precision.
const ERRORS: [f32; 16] = [
    0.0,
    4.628_547e-8,
    -1.199_215_75e-8,
    4.729_782_4e-8,
    3.193_418e-8,
    3.621_057_2e-8,
    -3.099_072e-8,
    -7.475_213e-9,
    1.711_427_1e-8,
    -3.047_683_4e-8,
    5.233_334e-9,
    6.107_591_8e-9,
    -1.471_960_5e-8,
    -5.258_795e-9,
    -6.128_259_7e-9,
    5.140_609_3e-9,
];

/// Coefficients of `(2ᶠ - 1) / f`, highest order first, for `|f| ≤ 1/32`.
const QUOTIENT: [f32; 3] = [0.055_505_41, 0.240_233_56, std::f32::consts::LN_2];

/// `2^(a b)`, for `|a b|` within the range of exponents: three multiply-adds fewer than without a table.
#[inline(always)]
pub(crate) fn exp2_of_product(simd: V4, a: __m512, b: f32) -> Exp2<__m512> {
    let avx = simd.avx512f;
    // Adding 1.5·2¹⁹ leaves the nearest multiple of 1/16, as an integer, in the low bits of the significand.
    let (b, magic) = (avx._mm512_set1_ps(b), avx._mm512_set1_ps(786_432.0));
    let shifted = avx._mm512_fmadd_ps(a, b, magic);
    let fraction = avx._mm512_fmadd_ps(a, b, avx._mm512_sub_ps(magic, shifted));
    let [c2, c1, c0] =
        [avx._mm512_set1_ps(QUOTIENT[0]), avx._mm512_set1_ps(QUOTIENT[1]), avx._mm512_set1_ps(QUOTIENT[2])];
    let quotient = avx._mm512_fmadd_ps(avx._mm512_fmadd_ps(c2, fraction, c1), fraction, c0);
    // Of an index, the instruction reads four bits.
    let index: __m512i = cast(shifted);
    let power = avx._mm512_permutexvar_epi32(index, cast(POWERS));
    let power = avx._mm512_add_epi32(power, avx._mm512_slli_epi32::<19>(index));
    let rest = avx._mm512_permutexvar_ps(index, cast(ERRORS));
    Exp2 { power: cast(power), fraction, quotient, rest: Some(rest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_hold_powers_and_their_errors() {
        for (j, (&bits, &error)) in POWERS.iter().zip(&ERRORS).enumerate() {
            let power = f64::from(f32::from_bits(bits + ((j as u32) << 19)));
            let exact = (j as f64 / 16.0).exp2();
            assert!((power / exact - 1.0).abs() < 6e-8, "2^({j}/16) is not {power}");
            assert!((exact / power - 1.0 - f64::from(error)).abs() < 4e-15, "{power} lacks {}", exact / power - 1.0);
        }
    }
}
