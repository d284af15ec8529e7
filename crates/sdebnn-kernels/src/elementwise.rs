//! Loops over vectors that are not contractions.

use pulp::{Simd, WithSimd};

use crate::{
    activation::{self, Activation, Function, WithFunction},
    element::Element,
};

/// `a = act(z)`, `d = act'(z)` from what was kept of `z`.
pub(crate) fn restore<E: Element, S: Simd>(
    simd: S,
    activation: Activation,
    kept: &[E::Vector<S>],
    a: &mut [E::Vector<S>],
    d: &mut [E::Vector<S>],
) {
    simd.vectorize(Restore::<E, S> { simd, activation, kept, a, d });
}

struct Restore<'a, E: Element, S: Simd> {
    simd: S,
    activation: Activation,
    kept: &'a [E::Vector<S>],
    a: &'a mut [E::Vector<S>],
    d: &'a mut [E::Vector<S>],
}

impl<E: Element, S: Simd> WithSimd for Restore<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_simd<T: Simd>(self, _: T) {
        activation::dispatch::<E, _>(self.activation, self);
    }
}

impl<E: Element, S: Simd> WithFunction<E> for Restore<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_function<F: Function<E>>(self, function: F) {
        for ((&kept, a), d) in self.kept.iter().zip(self.a).zip(self.d) {
            (*a, *d) = function.restore(self.simd, kept);
        }
    }
}

/// `to = base + factor · direction`; `base` defaults to zero.
pub(crate) struct Axpy<'a, E: Element> {
    pub(crate) to: &'a mut [E],
    pub(crate) base: Option<&'a [E]>,
    pub(crate) factor: f64,
    pub(crate) direction: &'a [E],
}

impl<E: Element> Axpy<'_, E> {
    /// Runs with the target features of `simd`.
    pub(crate) fn run<S: Simd>(self, simd: S) {
        simd.vectorize(self);
    }
}

impl<E: Element> WithSimd for Axpy<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let factor = E::splat(simd, E::from_f64(self.factor));
        let to = E::vectors_mut::<S>(self.to);
        let direction = E::vectors::<S>(self.direction);
        match self.base {
            Some(base) => {
                for ((to, &base), &direction) in to.iter_mut().zip(E::vectors::<S>(base)).zip(direction) {
                    *to = E::fma(simd, factor, direction, base);
                }
            }
            None => {
                for (to, &direction) in to.iter_mut().zip(direction) {
                    *to = E::mul(simd, factor, direction);
                }
            }
        }
    }
}

/// `to += factor · direction`.
pub(crate) struct Accumulate<'a, E: Element> {
    pub(crate) to: &'a mut [E],
    pub(crate) factor: f64,
    pub(crate) direction: &'a [E],
}

impl<E: Element> Accumulate<'_, E> {
    /// Runs with the target features of `simd`.
    pub(crate) fn run<S: Simd>(self, simd: S) {
        simd.vectorize(self);
    }
}

impl<E: Element> WithSimd for Accumulate<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let factor = E::splat(simd, E::from_f64(self.factor));
        for (to, &direction) in E::vectors_mut::<S>(self.to).iter_mut().zip(E::vectors::<S>(self.direction)) {
            *to = E::fma(simd, factor, direction, *to);
        }
    }
}

/// `to = factor · (gradient + other)`, `total += to`.
pub(crate) struct Settle<'a, E: Element> {
    pub(crate) gradient: &'a [E],
    pub(crate) other: Option<&'a [E]>,
    pub(crate) factor: f64,
    pub(crate) to: &'a mut [E],
    pub(crate) total: &'a mut [E],
}

impl<E: Element> Settle<'_, E> {
    /// Runs with the target features of `simd`.
    pub(crate) fn run<S: Simd>(self, simd: S) {
        simd.vectorize(self);
    }
}

impl<E: Element> WithSimd for Settle<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let factor = E::splat(simd, E::from_f64(self.factor));
        let other = E::vectors::<S>(self.other.unwrap_or(&[]));
        let to = E::vectors_mut::<S>(self.to).iter_mut().zip(E::vectors_mut::<S>(self.total));
        for (i, ((to, total), &gradient)) in to.zip(E::vectors::<S>(self.gradient)).enumerate() {
            let sum = other.get(i).map_or(gradient, |&other| E::add(simd, gradient, other));
            *to = E::mul(simd, factor, sum);
            *total = E::add(simd, *total, *to);
        }
    }
}

/// `to += from`, for slices of any length.
pub(crate) struct Add<'a, E: Element> {
    pub(crate) to: &'a mut [E],
    pub(crate) from: &'a [E],
}

impl<E: Element> Add<'_, E> {
    /// Runs with the target features of `simd`.
    pub(crate) fn run<S: Simd>(self, simd: S) {
        simd.vectorize(self);
    }
}

impl<E: Element> WithSimd for Add<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (to, &from) in self.to.iter_mut().zip(self.from) {
            *to += from;
        }
    }
}

/// `gradient ← gradient · act'`, the derivative from what was kept of the argument.
pub(crate) struct TimesSlope<'a, E: Element> {
    pub(crate) activation: Activation,
    pub(crate) value: &'a [E],
    pub(crate) gradient: &'a mut [E],
}

impl<E: Element> TimesSlope<'_, E> {
    /// Runs with the target features of `simd`.
    pub(crate) fn run<S: Simd>(self, simd: S) {
        simd.vectorize(self);
    }
}

impl<E: Element> WithSimd for TimesSlope<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        activation::dispatch::<E, _>(self.activation, WithSlope(simd, self));
    }
}

struct WithSlope<'a, E: Element, S: Simd>(S, TimesSlope<'a, E>);

impl<E: Element, S: Simd> WithFunction<E> for WithSlope<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_function<F: Function<E>>(self, function: F) {
        let Self(simd, TimesSlope { value, gradient, .. }) = self;
        for (gradient, &value) in E::vectors_mut::<S>(gradient).iter_mut().zip(E::vectors::<S>(value)) {
            *gradient = E::mul(simd, *gradient, function.restore(simd, value).1);
        }
    }
}
