//! Exponential and logarithm on vectors.

use std::f64::consts::LOG2_E;

use pulp::Simd;

use crate::element::Element;

/// A power of two in parts, `2^y = power · (1 + rest + fraction · quotient)` with a small `fraction`, if `y` is near an integer (or one of
/// a table of fractions), and `quotient ≈ ln 2`.
///
/// Keeping the parts apart gives the power, and 1 more or less, without cancellation and in as few operations as there are.
#[derive(Clone, Copy, Debug)]
pub struct Exp2<V> {
    pub(crate) power: V,
    pub(crate) fraction: V,
    /// `(2^fraction - 1) / fraction`
    pub(crate) quotient: V,
    /// What `power` lacks, relatively: not even a unit in its last place.
    pub(crate) rest: Option<V>,
}

/// `e^(factor x)` as a power of two. The exponent is limited to `±limit`, itself at most [`Element::EXP_LIMIT`].
#[inline(always)]
fn exp_parts<E: Element, S: Simd>(simd: S, x: E::Vector<S>, factor: f64, limit: E) -> Exp2<E::Vector<S>> {
    let bounded = E::clamp(simd, x, E::from_f64(limit.to_f64() / factor.abs()));
    let factor = E::from_f64(factor * LOG2_E);
    if let Some(parts) = E::exp2_by_table(simd, bounded, factor) {
        return parts;
    }
    let (fraction, power) = E::fraction_and_exp2(simd, bounded, factor);
    let mut quotient = E::splat(simd, E::EXP2[0]);
    for &coefficient in &E::EXP2[1..] {
        quotient = E::fma(simd, quotient, fraction, E::splat(simd, coefficient));
    }
    Exp2 { power, fraction, quotient, rest: None }
}

/// `e^(factor x)`, with the exponent limited to `±limit`.
#[inline(always)]
pub(crate) fn exp_of_product<E: Element, S: Simd>(simd: S, x: E::Vector<S>, factor: f64, limit: E) -> E::Vector<S> {
    let Exp2 { power, fraction, quotient, .. } = exp_parts::<E, S>(simd, x, factor, limit);
    E::mul(simd, power, E::fma(simd, fraction, quotient, E::splat(simd, E::ONE)))
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
    let Exp2 { power, fraction, quotient, .. } = exp_parts::<E, S>(simd, x, factor, limit);
    E::fma(simd, power, E::fma(simd, fraction, quotient, one), one)
}

/// `e^(factor x) - 1`, with the exponent limited to `±limit`, without cancellation near 0.
#[inline(always)]
pub(crate) fn exp_of_product_minus_one<E: Element, S: Simd>(
    simd: S,
    x: E::Vector<S>,
    factor: f64,
    limit: E,
) -> E::Vector<S> {
    let Exp2 { power, fraction, quotient, rest } = exp_parts::<E, S>(simd, x, factor, limit);
    let growth = match rest {
        Some(rest) => E::fma(simd, fraction, quotient, rest),
        None => E::mul(simd, fraction, quotient),
    };
    E::fma(simd, power, growth, E::sub(simd, power, E::splat(simd, E::ONE)))
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
