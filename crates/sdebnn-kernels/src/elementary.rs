//! Exponential and logarithm on vectors.

use pulp::Simd;

use crate::element::Element;

/// `eˣ` split as `2ⁿ (1 + p)`: with `x / ln 2 = n + f`, `|f| ≤ ½`, `p = 2ᶠ - 1`.
///
/// Keeping the parts apart gives both `eˣ` and `eˣ - 1` without cancellation. `|x|` must be at most
/// [`Element::EXP_LIMIT`]; the rounding of `x / ln 2` costs a relative error of `|x|` half-ulps.
#[inline(always)]
fn exp_parts<E: Element, S: Simd>(simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
    let scaled = E::mul(simd, x, E::splat(simd, E::from_f64(std::f64::consts::LOG2_E)));
    let (n, power) = E::round_and_exp2(simd, scaled);
    let f = E::sub(simd, scaled, n);
    let mut polynomial = E::splat(simd, E::EXP2[0]);
    for &coefficient in &E::EXP2[1..] {
        polynomial = E::fma(simd, polynomial, f, E::splat(simd, coefficient));
    }
    (power, E::mul(simd, f, polynomial))
}

/// `eˣ` for `|x|` at most [`Element::EXP_LIMIT`].
#[inline(always)]
pub(crate) fn exp<E: Element, S: Simd>(simd: S, x: E::Vector<S>) -> E::Vector<S> {
    let (power, p) = exp_parts::<E, S>(simd, x);
    E::fma(simd, power, p, power)
}

/// `eˣ - 1` for `|x|` at most [`Element::EXP_LIMIT`], without cancellation near 0.
#[inline(always)]
pub(crate) fn exp_minus_one<E: Element, S: Simd>(simd: S, x: E::Vector<S>) -> E::Vector<S> {
    let (power, p) = exp_parts::<E, S>(simd, x);
    E::fma(simd, power, p, E::sub(simd, power, E::splat(simd, E::ONE)))
}

/// `ln(1 + u)` for `0 ≤ u ≤ 1`, as `2 artanh(u / (2 + u))`.
#[inline(always)]
pub(crate) fn log_one_plus<E: Element, S: Simd>(simd: S, u: E::Vector<S>) -> E::Vector<S> {
    let y = E::div(simd, u, E::add(simd, u, E::splat(simd, E::from_f64(2.0))));
    let square = E::mul(simd, y, y);
    let mut series = E::splat(simd, E::ATANH_TAYLOR[0]);
    for &coefficient in &E::ATANH_TAYLOR[1..] {
        series = E::fma(simd, series, square, E::splat(simd, coefficient));
    }
    let twice = E::add(simd, y, y);
    E::fma(simd, E::mul(simd, twice, square), series, twice)
}
