//! Activation functions, their derivatives, and their application to rows of vectors.

use pulp::Simd;

use crate::{
    element::Element,
    elementary::{exp_of_product, exp_of_product_minus_one, log_one_plus, one_plus_exp_of_product},
};

/// A scalar function applied to every number: between the layers of a drift network, or as the squashing function `s` of the
/// Nesterov dynamics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// `x · sigmoid(β x)` with `β = softplus(½)`
    Swish,
    /// `x · sigmoid(x)`
    Silu,
    /// `x · tanh(softplus(x))`
    Mish,
    /// `ln(1 + eˣ)`
    Softplus,
    /// `tanh x`
    Tanh,
    /// `max(x, 0)`
    Relu,
    /// `x`
    Identity,
    /// `x` limited to `[-½, ½]`
    HardTanhHalf,
}

/// `softplus(½)`, the fixed slope of [`Activation::Swish`].
pub const SWISH_SLOPE: f64 = 0.974_076_984_180_106_7;

impl Activation {
    /// Every activation.
    pub const ALL: [Self; 8] = [
        Self::Swish,
        Self::Silu,
        Self::Mish,
        Self::Softplus,
        Self::Tanh,
        Self::Relu,
        Self::Identity,
        Self::HardTanhHalf,
    ];

    /// Whether what is kept for the backward pass is the value, and not the argument.
    pub(crate) fn keeps_value(self) -> bool {
        matches!(self, Self::Tanh | Self::Identity)
    }

    /// The limit of the function at `+∞`, if it is finite.
    #[must_use]
    pub fn limit(self) -> Option<f64> {
        match self {
            Self::Tanh => Some(1.0),
            Self::HardTanhHalf => Some(0.5),
            Self::Swish | Self::Silu | Self::Mish | Self::Softplus | Self::Relu | Self::Identity => None,
        }
    }

    /// The value at one number, in double precision.
    #[must_use]
    pub fn value(self, x: f64) -> f64 {
        let softplus = x.max(0.0) + (-x.abs()).exp().ln_1p();
        match self {
            Self::Swish => x / (1.0 + (-SWISH_SLOPE * x).exp()),
            Self::Silu => x / (1.0 + (-x).exp()),
            Self::Mish => x * softplus.tanh(),
            Self::Softplus => softplus,
            Self::Tanh => x.tanh(),
            Self::Relu => x.max(0.0),
            Self::Identity => x,
            Self::HardTanhHalf => x.clamp(-0.5, 0.5),
        }
    }
}

/// An activation known at compile time: the body of the vector loops.
pub(crate) trait Function<E: Element>: Copy {
    /// The value.
    fn value<S: Simd>(self, simd: S, x: E::Vector<S>) -> E::Vector<S>;
    /// The value and the derivative, sharing what they have in common.
    fn value_and_slope<S: Simd>(self, simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>);
    /// What to keep for [`Function::restore`]: the argument, or the value where the derivative is cheaper from that.
    #[inline(always)]
    fn keep<S: Simd>(self, x: E::Vector<S>, _value: E::Vector<S>) -> E::Vector<S> {
        x
    }
    /// The value and the derivative from what was kept, with the same bits as [`Function::value_and_slope`].
    #[inline(always)]
    fn restore<S: Simd>(self, simd: S, kept: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        self.value_and_slope(simd, kept)
    }
}

/// `x · sigmoid(slope · x)`.
#[derive(Clone, Copy)]
struct SigmoidWeighted(f64);

/// `sigmoid(slope x) = 1 / (1 + e^(-slope x))`.
#[inline(always)]
pub(crate) fn sigmoid<E: Element, S: Simd>(simd: S, x: E::Vector<S>, slope: f64) -> E::Vector<S> {
    E::div(simd, E::splat(simd, E::ONE), one_plus_exp_of_product::<E, S>(simd, x, -slope, E::EXP_LIMIT))
}

impl<E: Element> Function<E> for SigmoidWeighted {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, x: E::Vector<S>) -> E::Vector<S> {
        E::mul(simd, x, sigmoid::<E, S>(simd, x, self.0))
    }
    #[inline(always)]
    fn value_and_slope<S: Simd>(self, simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        let splat = |value: f64| E::splat(simd, E::from_f64(value));
        let gate = sigmoid::<E, S>(simd, x, self.0);
        let value = E::mul(simd, x, gate);
        let closed = E::fma(simd, gate, splat(-self.0), splat(self.0));
        (value, E::fma(simd, value, closed, gate))
    }
}

/// With `e = eˣ` and `n = e (e + 2)`: `tanh(softplus(x)) = n / (n + 2)`, one exponential and one division.
#[derive(Clone, Copy)]
struct Mish;

impl<E: Element> Function<E> for Mish {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, x: E::Vector<S>) -> E::Vector<S> {
        <Self as Function<E>>::value_and_slope(self, simd, x).0
    }
    #[inline(always)]
    fn value_and_slope<S: Simd>(self, simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        let (one, two) = (E::splat(simd, E::ONE), E::splat(simd, E::from_f64(2.0)));
        let saturation = E::splat(simd, E::SATURATION);
        let bounded = E::if_greater(simd, x, saturation, saturation, x);
        let e = exp_of_product::<E, S>(simd, bounded, 1.0, E::EXP_LIMIT);
        let n = E::mul(simd, e, E::add(simd, e, two));
        let inverse = E::div(simd, one, E::add(simd, n, two));
        let gate = E::mul(simd, n, inverse);
        // d/dx n/(n+2) = 2 n' / (n+2)² with n' = 2 e (e + 1)
        let growth = E::mul(simd, E::mul(simd, e, E::add(simd, e, one)), E::splat(simd, E::from_f64(4.0)));
        let gate_slope = E::mul(simd, E::mul(simd, growth, inverse), inverse);
        (E::mul(simd, x, gate), E::fma(simd, x, gate_slope, gate))
    }
}

#[derive(Clone, Copy)]
struct Softplus;

impl<E: Element> Function<E> for Softplus {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, x: E::Vector<S>) -> E::Vector<S> {
        let zero = E::splat(simd, E::ZERO);
        let u = exp_of_product::<E, S>(simd, E::abs(simd, x), -1.0, E::EXP_LIMIT);
        let positive = E::if_greater(simd, zero, x, zero, x);
        E::add(simd, positive, log_one_plus::<E, S>(simd, u))
    }
    #[inline(always)]
    fn value_and_slope<S: Simd>(self, simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        (<Self as Function<E>>::value(self, simd, x), sigmoid::<E, S>(simd, x, 1.0))
    }
}

/// With `e = e²ˣ - 1`: `tanh x = e / (e + 2)`, accurate near 0.
#[derive(Clone, Copy)]
struct Tanh;

impl<E: Element> Function<E> for Tanh {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, x: E::Vector<S>) -> E::Vector<S> {
        let e = exp_of_product_minus_one::<E, S>(simd, x, 2.0, E::from_f64(2.0 * E::SATURATION.to_f64()));
        E::div(simd, e, E::add(simd, e, E::splat(simd, E::from_f64(2.0))))
    }
    #[inline(always)]
    fn value_and_slope<S: Simd>(self, simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        <Self as Function<E>>::restore(self, simd, <Self as Function<E>>::value(self, simd, x))
    }
    #[inline(always)]
    fn keep<S: Simd>(self, _x: E::Vector<S>, value: E::Vector<S>) -> E::Vector<S> {
        value
    }
    #[inline(always)]
    fn restore<S: Simd>(self, simd: S, value: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        let one = E::splat(simd, E::ONE);
        (value, E::mul(simd, E::sub(simd, one, value), E::add(simd, one, value)))
    }
}

#[derive(Clone, Copy)]
struct Relu;

impl<E: Element> Function<E> for Relu {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, x: E::Vector<S>) -> E::Vector<S> {
        let zero = E::splat(simd, E::ZERO);
        E::if_greater(simd, zero, x, zero, x)
    }
    #[inline(always)]
    fn value_and_slope<S: Simd>(self, simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        let (zero, one) = (E::splat(simd, E::ZERO), E::splat(simd, E::ONE));
        (<Self as Function<E>>::value(self, simd, x), E::if_greater(simd, x, zero, one, zero))
    }
}

#[derive(Clone, Copy)]
struct Identity;

impl<E: Element> Function<E> for Identity {
    #[inline(always)]
    fn value<S: Simd>(self, _: S, x: E::Vector<S>) -> E::Vector<S> {
        x
    }
    #[inline(always)]
    fn value_and_slope<S: Simd>(self, simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        (x, E::splat(simd, E::ONE))
    }
}

#[derive(Clone, Copy)]
struct HardTanhHalf;

impl<E: Element> Function<E> for HardTanhHalf {
    #[inline(always)]
    fn value<S: Simd>(self, simd: S, x: E::Vector<S>) -> E::Vector<S> {
        E::clamp(simd, x, E::from_f64(0.5))
    }
    #[inline(always)]
    fn value_and_slope<S: Simd>(self, simd: S, x: E::Vector<S>) -> (E::Vector<S>, E::Vector<S>) {
        let (zero, one) = (E::splat(simd, E::ZERO), E::splat(simd, E::ONE));
        let outside = E::if_greater(simd, E::abs(simd, x), E::splat(simd, E::from_f64(0.5)), zero, one);
        (<Self as Function<E>>::value(self, simd, x), outside)
    }
}

/// Code that wants an [`Activation`] as a compile-time [`Function`].
pub(crate) trait WithFunction<E: Element> {
    /// What the code returns.
    type Output;
    /// Runs with the function.
    fn with_function<F: Function<E>>(self, function: F) -> Self::Output;
}

/// Runs `code` with the compile-time twin of `activation`: the choice is made once, outside the loops.
#[inline(always)]
pub(crate) fn dispatch<E: Element, W: WithFunction<E>>(activation: Activation, code: W) -> W::Output {
    match activation {
        Activation::Swish => code.with_function(SigmoidWeighted(SWISH_SLOPE)),
        Activation::Silu => code.with_function(SigmoidWeighted(1.0)),
        Activation::Mish => code.with_function(Mish),
        Activation::Softplus => code.with_function(Softplus),
        Activation::Tanh => code.with_function(Tanh),
        Activation::Relu => code.with_function(Relu),
        Activation::Identity => code.with_function(Identity),
        Activation::HardTanhHalf => code.with_function(HardTanhHalf),
    }
}
