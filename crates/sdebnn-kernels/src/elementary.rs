//! Exponential and logarithm on vectors.

use std::f64::consts::LOG2_E;

use pulp::Simd;

use crate::element::Element;

/// `2ˣ` split as `2ⁿ (1 + p)`: with `x = n + f`, `|f| ≤ ½`, `p = 2ᶠ - 1`.
///
/// Keeping the parts apart gives both `2ˣ` and `2ˣ - 1` without cancellation. Callers fold `1 / ln 2` into the factors they
/// have; for `2ˣ = eʸ`, the rounding of `x = y / ln 2` costs a relative error of `|y|` half-ulps.
#[inline(always)]
fn exp2_parts<E: Element, S: Simd>(simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
    let (n, power) = E::round_and_exp2(simd, x);
    let f = E::sub(simd, x, n);
    let mut polynomial = E::splat(simd, E::EXP2[0]);
    for &coefficient in &E::EXP2[1..] {
        polynomial = E::fma(simd, polynomial, f, E::splat(simd, coefficient));
    }
    (power, E::mul(simd, f, polynomial))
}

/// `e^(factor x)`, with the exponent limited to `±limit`, itself at most [`Element::EXP_LIMIT`].
#[inline(always)]
pub(crate) fn exp_of_product<E: Element, S: Simd>(simd: S, x: E::Vector<S>, factor: f64, limit: E) -> E::Vector<S> {
    let (power, p) = exp2_parts::<E, S>(simd, base_two::<E, S>(simd, x, factor, limit));
    E::fma(simd, power, p, power)
}

/// `e^(factor x) - 1`, with the exponent limited to `±limit`, without cancellation near 0.
#[inline(always)]
pub(crate) fn exp_of_product_minus_one<E: Element, S: Simd>(
    simd: S,
    x: E::Vector<S>,
    factor: f64,
    limit: E,
) -> E::Vector<S> {
    let (power, p) = exp2_parts::<E, S>(simd, base_two::<E, S>(simd, x, factor, limit));
    E::fma(simd, power, p, E::sub(simd, power, E::splat(simd, E::ONE)))
}

/// `factor x / ln 2`, limited to `±limit / ln 2`.
#[inline(always)]
fn base_two<E: Element, S: Simd>(simd: S, x: E::Vector<S>, factor: f64, limit: E) -> E::Vector<S> {
    let scaled = E::mul(simd, x, E::splat(simd, E::from_f64(factor * LOG2_E)));
    E::clamp(simd, scaled, E::from_f64(limit.to_f64() * LOG2_E))
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
