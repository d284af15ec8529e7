//! Exponential and logarithm on vectors.

use std::f64::consts::LOG2_E;

use pulp::Simd;

use crate::element::Element;

/// `e^(factor x)` split as `2ⁿ (1 + f p)`, with `factor x / ln 2 = n + f`, `|f| ≤ ½`: returns `2ⁿ`, `f` and `p = (2ᶠ - 1) / f`. The
/// exponent is limited to `±limit`, itself at most [`Element::EXP_LIMIT`].
///
/// Keeping the parts apart gives the exponential, and 1 more or less, without cancellation and in as few operations as there are.
#[inline(always)]
fn exp_parts<E: Element, S: Simd>(simd: S, x: E::Vector<S>, factor: f64, limit: E) -> [E::Vector<S>; 3] {
    let bounded = E::clamp(simd, x, E::from_f64(limit.to_f64() / factor.abs()));
    let (f, power) = E::fraction_and_exp2(simd, bounded, E::from_f64(factor * LOG2_E));
    let mut polynomial = E::splat(simd, E::EXP2[0]);
    for &coefficient in &E::EXP2[1..] {
        polynomial = E::fma(simd, polynomial, f, E::splat(simd, coefficient));
    }
    [power, f, polynomial]
}

/// `e^(factor x)`, with the exponent limited to `±limit`.
#[inline(always)]
pub(crate) fn exp_of_product<E: Element, S: Simd>(simd: S, x: E::Vector<S>, factor: f64, limit: E) -> E::Vector<S> {
    let [power, f, p] = exp_parts::<E, S>(simd, x, factor, limit);
    E::mul(simd, power, E::fma(simd, f, p, E::splat(simd, E::ONE)))
}

/// `1 + e^(factor x)`, with the exponent limited to `±limit`.
#[inline(always)]
pub(crate) fn one_plus_exp_of_product<E: Element, S: Simd>(
    simd: S,
    x: E::Vector<S>,
    factor: f64,
    limit: E,
) -> E::Vector<S> {
    let one = E::splat(simd, E::ONE);
    let [power, f, p] = exp_parts::<E, S>(simd, x, factor, limit);
    E::fma(simd, power, E::fma(simd, f, p, one), one)
}

/// `e^(factor x) - 1`, with the exponent limited to `±limit`, without cancellation near 0.
#[inline(always)]
pub(crate) fn exp_of_product_minus_one<E: Element, S: Simd>(
    simd: S,
    x: E::Vector<S>,
    factor: f64,
    limit: E,
) -> E::Vector<S> {
    let [power, f, p] = exp_parts::<E, S>(simd, x, factor, limit);
    E::fma(simd, power, E::mul(simd, f, p), E::sub(simd, power, E::splat(simd, E::ONE)))
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
