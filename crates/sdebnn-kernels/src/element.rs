//! The number types of the kernels and their vector operations.

use std::fmt::Debug;

use pulp::{Simd, bytemuck};

use crate::{
    elementary::Exp2,
    lane_sums::{EIGHT, sum_eight_f32},
    transpose::{transpose_f32, transpose_f64},
};
#[cfg(target_arch = "x86_64")]
use crate::{exp2_table::exp2_of_product, instructions::same};

/// Most elements of a vector: single precision with AVX-512.
pub(crate) const MOST_LANES: usize = 16;

/// A floating-point type the kernels run on: `f32` (the fast one) or `f64` (the exact one).
///
/// The methods mirror one instruction each on the vectors of an instruction set `S`, so that every kernel is written once
/// for both types and all instruction sets. They are `#[inline(always)]` because target features do not cross a call.
pub trait Element:
    Copy + Debug + Default + PartialOrd + std::ops::AddAssign + std::ops::MulAssign + Send + Sync + sealed::Sealed + 'static
{
    /// As many elements as the instruction set `S` processes at once: one per example.
    type Vector<S: Simd>: Copy + Debug + Send + Sync;

    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Largest `|x|` for which the exponential neither overflows nor becomes subnormal.
    const EXP_LIMIT: Self;
    /// `|x|` from which `tanh x` is 1 and `e^-x` negligible against 1.
    const SATURATION: Self;
    /// Coefficients of `(2ᶠ - 1) / f`, highest order first, for `|f| ≤ ½`.
    const EXP2: &'static [Self];
    /// Coefficients `1/3, 1/5, …` of the inverse hyperbolic tangent, highest order first, enough for `y ≤ 1/3`.
    const ATANH_TAYLOR: &'static [Self];

    /// Rounds to this type.
    fn from_f64(value: f64) -> Self;
    /// Converts exactly to double precision.
    fn to_f64(self) -> f64;
    /// Elements in a vector of `S`.
    fn lanes<S: Simd>() -> usize {
        size_of::<Self::Vector<S>>() / size_of::<Self>()
    }
    /// A slice of whole vectors as vectors.
    fn vectors<S: Simd>(elements: &[Self]) -> &[Self::Vector<S>];
    /// A mutable slice of whole vectors as vectors.
    fn vectors_mut<S: Simd>(elements: &mut [Self]) -> &mut [Self::Vector<S>];
    /// All lanes equal to `value`.
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;
    /// `a + b`
    fn add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a - b`
    fn sub<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a b`
    fn mul<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a / b`
    fn div<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a b + c`, rounded once where the machine can.
    fn fma<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S>;
    /// `|a|`
    fn abs<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// `a` limited to `[-limit, limit]`; not a number stays so.
    fn clamp<S: Simd>(simd: S, a: Self::Vector<S>, limit: Self) -> Self::Vector<S>;
    /// `then` where `a > b`, `otherwise` elsewhere.
    fn if_greater<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        then: Self::Vector<S>,
        otherwise: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// `(a b - n, 2ⁿ)` with `n` the integer nearest to `a b`, for `|a b|` within the range of exponents.
    fn fraction_and_exp2<S: Simd>(simd: S, a: Self::Vector<S>, b: Self) -> (Self::Vector<S>, Self::Vector<S>);
    /// `2^(a b)`, for `|a b|` within the range of exponents, if the instruction set looks numbers up in a register.
    #[inline(always)]
    fn exp2_by_table<S: Simd>(_simd: S, _a: Self::Vector<S>, _b: Self) -> Option<Exp2<Self::Vector<S>>> {
        None
    }
    /// The sum of all lanes.
    fn sum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;
    /// The sums of all lanes of eight vectors.
    #[inline(always)]
    fn sum_eight<S: Simd>(simd: S, vectors: &[Self::Vector<S>; EIGHT]) -> [Self; EIGHT] {
        let mut sums = [Self::ZERO; EIGHT];
        for (sum, &vector) in sums.iter_mut().zip(vectors) {
            *sum = Self::sum(simd, vector);
        }
        sums
    }
    /// Vectors as a slice of elements.
    fn elements<S: Simd>(vectors: &[Self::Vector<S>]) -> &[Self];
    /// Vectors as a mutable slice of elements.
    fn elements_mut<S: Simd>(vectors: &mut [Self::Vector<S>]) -> &mut [Self];
    /// Transposes the square of as many vectors as a vector has lanes, with the given distances in `from` and `to`.
    fn transpose<S: Simd>(simd: S, from: &[Self::Vector<S>], to: &mut [Self::Vector<S>], strides: [usize; 2]);
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! vector_operations {
    ($element:ty, $vector:ident, $as_simd:ident, $as_mut_simd:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident,
     $div:ident, $fma:ident, $min:ident, $max:ident, $abs:ident, $greater:ident, $select:ident, $sum:ident,
     $transpose:ident) => {
        type Vector<S: Simd> = S::$vector;
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;

        #[inline(always)]
        fn from_f64(value: f64) -> Self {
            value as $element
        }
        #[inline(always)]
        fn to_f64(self) -> f64 {
            f64::from(self)
        }
        #[inline(always)]
        fn vectors<S: Simd>(elements: &[Self]) -> &[Self::Vector<S>] {
            S::$as_simd(elements).0
        }
        #[inline(always)]
        fn vectors_mut<S: Simd>(elements: &mut [Self]) -> &mut [Self::Vector<S>] {
            S::$as_mut_simd(elements).0
        }
        #[inline(always)]
        fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S> {
            simd.$splat(value)
        }
        #[inline(always)]
        fn add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            simd.$add(a, b)
        }
        #[inline(always)]
        fn sub<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            simd.$sub(a, b)
        }
        #[inline(always)]
        fn mul<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            simd.$mul(a, b)
        }
        #[inline(always)]
        fn div<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S> {
            simd.$div(a, b)
        }
        #[inline(always)]
        fn fma<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>, c: Self::Vector<S>) -> Self::Vector<S> {
            simd.$fma(a, b, c)
        }
        #[inline(always)]
        fn abs<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S> {
            simd.$abs(a)
        }
        #[inline(always)]
        fn clamp<S: Simd>(simd: S, a: Self::Vector<S>, limit: Self) -> Self::Vector<S> {
            let (low, high) = (simd.$splat(-limit), simd.$splat(limit));
            if S::IS_SCALAR {
                // The scalar minimum and maximum drop a NaN.
                let a = simd.$select(simd.$greater(a, high), high, a);
                return simd.$select(simd.$greater(low, a), low, a);
            }
            // Vector instructions return their second operand, or the NaN, if there is one.
            simd.$max(low, simd.$min(high, a))
        }
        #[inline(always)]
        fn if_greater<S: Simd>(
            simd: S,
            a: Self::Vector<S>,
            b: Self::Vector<S>,
            then: Self::Vector<S>,
            otherwise: Self::Vector<S>,
        ) -> Self::Vector<S> {
            simd.$select(simd.$greater(a, b), then, otherwise)
        }
        #[inline(always)]
        fn sum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self {
            simd.$sum(a)
        }
        #[inline(always)]
        fn elements<S: Simd>(vectors: &[Self::Vector<S>]) -> &[Self] {
            bytemuck::cast_slice(vectors)
        }
        #[inline(always)]
        fn elements_mut<S: Simd>(vectors: &mut [Self::Vector<S>]) -> &mut [Self] {
            bytemuck::cast_slice_mut(vectors)
        }
        #[inline(always)]
        fn transpose<S: Simd>(simd: S, from: &[Self::Vector<S>], to: &mut [Self::Vector<S>], strides: [usize; 2]) {
            $transpose(simd, from, to, strides);
        }
    };
}

impl Element for f32 {
    vector_operations!(
        f32,
        f32s,
        as_simd_f32s,
        as_mut_simd_f32s,
        splat_f32s,
        add_f32s,
        sub_f32s,
        mul_f32s,
        div_f32s,
        mul_add_e_f32s,
        min_f32s,
        max_f32s,
        abs_f32s,
        greater_than_f32s,
        select_f32s,
        reduce_sum_f32s,
        transpose_f32
    );

    const EXP_LIMIT: f32 = 87.0;
    const SATURATION: f32 = 20.0;
    const EXP2: &'static [f32] =
        &[1.545_316_3e-4, 1.339_086_3e-3, 9.618_083e-3, 5.550_357e-2, 2.402_265e-1, 6.931_472e-1];
    const ATANH_TAYLOR: &'static [f32] =
        &[1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0];

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn exp2_by_table<S: Simd>(simd: S, a: S::f32s, b: f32) -> Option<Exp2<S::f32s>> {
        let Exp2 { power, fraction, quotient, rest } = exp2_of_product(same(simd)?, bytemuck::cast(a), b);
        Some(Exp2 {
            power: bytemuck::cast(power),
            fraction: bytemuck::cast(fraction),
            quotient: bytemuck::cast(quotient),
            rest: rest.map(bytemuck::cast),
        })
    }

    #[inline(always)]
    fn sum_eight<S: Simd>(simd: S, vectors: &[S::f32s; EIGHT]) -> [f32; EIGHT] {
        sum_eight_f32(simd, vectors)
    }

    #[inline(always)]
    fn fraction_and_exp2<S: Simd>(simd: S, a: S::f32s, b: f32) -> (S::f32s, S::f32s) {
        // Adding 1.5·2²³ + 127 leaves the rounded integer, as a biased exponent, in the low bits of the significand.
        let (b, magic) = (simd.splat_f32s(b), simd.splat_f32s(12_582_912.0 + 127.0));
        let shifted = simd.mul_add_e_f32s(a, b, magic);
        let power = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
        (simd.mul_add_e_f32s(a, b, simd.sub_f32s(magic, shifted)), simd.transmute_f32s_u32s(power))
    }
}

impl Element for f64 {
    vector_operations!(
        f64,
        f64s,
        as_simd_f64s,
        as_mut_simd_f64s,
        splat_f64s,
        add_f64s,
        sub_f64s,
        mul_f64s,
        div_f64s,
        mul_add_e_f64s,
        min_f64s,
        max_f64s,
        abs_f64s,
        greater_than_f64s,
        select_f64s,
        reduce_sum_f64s,
        transpose_f64
    );

    const EXP_LIMIT: f64 = 700.0;
    const SATURATION: f64 = 40.0;
    const EXP2: &'static [f64] = &[
        6.778726354822543e-14,
        1.3691488853904124e-12,
        2.5678435993488196e-11,
        4.44553827187081e-10,
        7.054911620801121e-09,
        1.0178086009239696e-07,
        1.3215486790144305e-06,
        1.5252733804059838e-05,
        0.00015403530393381606,
        0.0013333558146428441,
        0.009618129107628477,
        0.055504108664821576,
        0.2402265069591007,
        std::f64::consts::LN_2,
    ];
    const ATANH_TAYLOR: &'static [f64] = &[
        1.0 / 31.0,
        1.0 / 29.0,
        1.0 / 27.0,
        1.0 / 25.0,
        1.0 / 23.0,
        1.0 / 21.0,
        1.0 / 19.0,
        1.0 / 17.0,
        1.0 / 15.0,
        1.0 / 13.0,
        1.0 / 11.0,
        1.0 / 9.0,
        1.0 / 7.0,
        1.0 / 5.0,
        1.0 / 3.0,
    ];

    #[inline(always)]
    fn fraction_and_exp2<S: Simd>(simd: S, a: S::f64s, b: f64) -> (S::f64s, S::f64s) {
        let (b, magic) = (simd.splat_f64s(b), simd.splat_f64s(6_755_399_441_055_744.0));
        let shifted = simd.mul_add_e_f64s(a, b, magic);
        let (n, fraction) = (simd.sub_f64s(shifted, magic), simd.mul_add_e_f64s(a, b, simd.sub_f64s(magic, shifted)));
        // 64-bit shifts are not available everywhere. 1.5·2⁵² + (n + 1023)·2³² has the biased exponent in the low bits of its
        // upper half and zero in its lower half, where a 32-bit shift puts it in place.
        let biased = simd.splat_f64s(6_755_399_441_055_744.0 + 1023.0 * 4_294_967_296.0);
        let shifted = simd.mul_add_e_f64s(n, simd.splat_f64s(4_294_967_296.0), biased);
        let power = if size_of::<S::f64s>() == size_of::<S::u32s>() {
            let halves: S::u32s = bytemuck::cast(shifted);
            bytemuck::cast(simd.wrapping_dyn_shl_u32s(halves, simd.splat_u32s(20)))
        } else {
            let bits: u64 = bytemuck::cast(shifted);
            bytemuck::cast(bits << 20 & 0xFFF0_0000_0000_0000)
        };
        (fraction, power)
    }
}
