//! The vector field of the activations and its transpose, number by number.

use pulp::{Simd, WithSimd};

use crate::{
    activation::{self, Function, WithFunction},
    element::Element,
    problem::{Dynamics, Residual},
};

/// `s(k(t))` with `k(t) = t^(-3/2) e^(t/2)`: the factor between `x` and `h`. 1 for first-order dynamics.
pub(crate) fn factor(dynamics: Dynamics, t: f64) -> f64 {
    match dynamics {
        Dynamics::FirstOrder => 1.0,
        Dynamics::Nesterov { squash, .. } => match squash.limit() {
            Some(limit) if t <= 0.0 => limit,
            _ => squash.value(t.powf(-1.5) * (0.5 * t).exp()),
        },
    }
}

/// What a Nesterov evaluation adds to `-m - s(f)`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Injection<'a, E> {
    /// Nothing.
    None,
    /// `ξ h_temp` inside `s`.
    Inside(&'a [E]),
    /// `-ξ h` outside, with the factor between `x` and `h`.
    Outside(f64),
}

impl<'a, E> Injection<'a, E> {
    /// The injection of evaluation `n` (counting from 0) with factor `s(k(t))`.
    pub(crate) fn new(dynamics: Dynamics, n: usize, factor: f64, remembered: &'a [E]) -> Self {
        match dynamics {
            Dynamics::Nesterov { .. } if recalls(dynamics, n) => Self::Inside(remembered),
            Dynamics::Nesterov { residual: Residual::Direct, .. } => Self::Outside(factor),
            Dynamics::Nesterov { .. } | Dynamics::FirstOrder => Self::None,
        }
    }
}

/// Whether evaluation `n` uses the `h` stored by the one before.
pub(crate) fn recalls(dynamics: Dynamics, n: usize) -> bool {
    matches!(dynamics, Dynamics::Nesterov { residual: Residual::Skip, .. }) && !n.is_multiple_of(2)
}

/// Whether evaluation `n` stores its `h` for the next one.
pub(crate) fn remembers(dynamics: Dynamics, n: usize) -> bool {
    matches!(dynamics, Dynamics::Nesterov { residual: Residual::Skip, .. }) && n.is_multiple_of(2)
}

/// The output of the drift network.
pub(crate) enum DriftOutput<'a, E> {
    /// As computed; becomes what is to be kept of it for the backward pass.
    Fresh(&'a mut [E]),
    /// What was kept.
    Kept(&'a [E]),
}

/// The time derivative of the state, given `f = f_w(h, t)`; see [`Dynamics`] for the equations.
pub(crate) struct Field<'a, E: Element> {
    pub(crate) dynamics: Dynamics,
    pub(crate) injection: Injection<'a, E>,
    pub(crate) xi: f64,
    /// One vector per group of examples, multiplied onto the field.
    pub(crate) scale: &'a [E],
    /// `[component][group][feature]`
    pub(crate) state: &'a [E],
    pub(crate) drift: DriftOutput<'a, E>,
    /// Where a step along the field starts and how long it is: what is asked for is its end, not the field.
    pub(crate) step: Option<(&'a [E], f64)>,
    /// Receives the field or the end of the step, in the layout of the state.
    pub(crate) to: &'a mut [E],
}

impl<E: Element> Field<'_, E> {
    /// Runs with the target features of `simd`.
    pub(crate) fn run<S: Simd>(self, simd: S) {
        simd.vectorize(self);
    }
}

impl<E: Element> WithSimd for Field<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.dynamics {
            Dynamics::FirstOrder => {
                let scale = E::vectors::<S>(self.scale);
                let drift = match self.drift {
                    DriftOutput::Fresh(drift) => E::vectors::<S>(drift),
                    DriftOutput::Kept(drift) => E::vectors::<S>(drift),
                };
                let features = drift.len() / scale.len();
                let to = E::vectors_mut::<S>(self.to);
                let groups = drift.chunks_exact(features).zip(to.chunks_exact_mut(features)).zip(scale);
                match self.step {
                    None => {
                        for ((drift, to), &scale) in groups {
                            for (&f, to) in drift.iter().zip(to) {
                                *to = E::mul(simd, scale, f);
                            }
                        }
                    }
                    Some((start, length)) => {
                        let length = E::splat(simd, E::from_f64(length));
                        for (((drift, to), &scale), start) in groups.zip(E::vectors::<S>(start).chunks_exact(features))
                        {
                            for ((&f, to), &start) in drift.iter().zip(to).zip(start) {
                                *to = E::fma(simd, length, E::mul(simd, scale, f), start);
                            }
                        }
                    }
                }
            }
            Dynamics::Nesterov { squash, .. } => activation::dispatch::<E, _>(squash, NesterovField(simd, self)),
        }
    }
}

struct NesterovField<'a, E: Element, S: Simd>(S, Field<'a, E>);

impl<E: Element, S: Simd> WithFunction<E> for NesterovField<'_, E, S> {
    type Output = ();
    #[inline(always)]
    fn with_function<F: Function<E>>(self, s: F) {
        let Self(simd, Field { injection, xi, scale, state, drift, step, to, .. }) = self;
        let scale = E::vectors::<S>(scale);
        let (x, m) = E::vectors::<S>(state).split_at(state.len() / 2 / E::lanes::<S>());
        let mut to = Along::<E, S>::new(simd, step, to);
        let features = m.len() / scale.len();
        let splat = |value: f64| E::splat(simd, E::from_f64(value));
        let outside = match injection {
            Injection::Outside(factor) => splat(-xi * factor),
            Injection::None | Injection::Inside(_) => splat(0.0),
        };
        let mut drift = match drift {
            DriftOutput::Kept(kept) => Err(E::vectors::<S>(kept)),
            DriftOutput::Fresh(drift) => Ok(E::vectors_mut::<S>(drift)),
        };
        let (xi, remembered) = match injection {
            Injection::Inside(remembered) => (splat(xi), E::vectors::<S>(remembered)),
            Injection::None | Injection::Outside(_) => (splat(0.0), &[][..]),
        };
        for (group, &scale) in scale.iter().enumerate() {
            for i in group * features..(group + 1) * features {
                let pull = match &mut drift {
                    Err(kept) => s.restore(simd, kept[i]).0,
                    Ok(drift) => {
                        let argument = remembered.get(i).map_or(drift[i], |&h| E::fma(simd, xi, h, drift[i]));
                        let value = s.value(simd, argument);
                        drift[i] = s.keep::<S>(argument, value);
                        value
                    }
                };
                let rate = E::sub(simd, E::mul(simd, outside, x[i]), E::add(simd, m[i], pull));
                to.put(i, E::mul(simd, scale, s.value(simd, m[i])));
                to.put(m.len() + i, E::mul(simd, scale, rate));
            }
        }
    }
}

/// Where the numbers of a field go: as they are, or as a step along it.
struct Along<'a, E: Element, S: Simd> {
    simd: S,
    start: &'a [E::Vector<S>],
    length: E::Vector<S>,
    to: &'a mut [E::Vector<S>],
}

impl<'a, E: Element, S: Simd> Along<'a, E, S> {
    #[inline(always)]
    fn new(simd: S, step: Option<(&'a [E], f64)>, to: &'a mut [E]) -> Self {
        let (start, length) = step.unwrap_or((&[], 0.0));
        let length = E::splat(simd, E::from_f64(length));
        Self { simd, start: E::vectors::<S>(start), length, to: E::vectors_mut::<S>(to) }
    }

    #[inline(always)]
    fn put(&mut self, i: usize, rate: E::Vector<S>) {
        self.to[i] = match self.start.get(i) {
            Some(&start) => E::fma(self.simd, self.length, rate, start),
            None => rate,
        };
    }
}

/// The transpose of [`Field`]: carries a gradient of the field back to state, drift and `ξ`.
pub(crate) struct FieldAdjoint<'a, E: Element> {
    pub(crate) dynamics: Dynamics,
    pub(crate) injection: Injection<'a, E>,
    pub(crate) xi: f64,
    pub(crate) scale: &'a [E],
    pub(crate) state: &'a [E],
    /// What was kept of the drift network's output.
    pub(crate) drift: &'a [E],
    /// Gradient of the field, in the layout of the state, up to a factor.
    pub(crate) field_gradient: &'a [E],
    pub(crate) factor: f64,
    /// Receives the gradient of the state, except for what passes through the drift network. Its first component, in units of `h`, is
    /// written only for [`Injection::Outside`], and none of it for first-order dynamics: it is zero there.
    pub(crate) state_gradient: &'a mut [E],
    /// Receives the gradient of the drift network's output.
    pub(crate) drift_gradient: &'a mut [E],
    /// Receives the gradient of `h_temp` for [`Injection::Inside`].
    pub(crate) remembered_gradient: &'a mut [E],
}

impl<E: Element> FieldAdjoint<'_, E> {
    /// Runs with the target features of `simd`; returns the gradient of `ξ`.
    pub(crate) fn run<S: Simd>(self, simd: S) -> f64 {
        simd.vectorize(self)
    }
}

impl<E: Element> WithSimd for FieldAdjoint<'_, E> {
    type Output = f64;
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        match self.dynamics {
            Dynamics::FirstOrder => {
                let scale = E::vectors::<S>(self.scale);
                let field_gradient = E::vectors::<S>(self.field_gradient);
                let drift_gradient = E::vectors_mut::<S>(self.drift_gradient);
                let factor = E::splat(simd, E::from_f64(self.factor));
                let features = field_gradient.len() / scale.len();
                let groups = field_gradient.chunks_exact(features).zip(drift_gradient.chunks_exact_mut(features));
                for ((from, to), &scale) in groups.zip(scale) {
                    for (&k, f) in from.iter().zip(to) {
                        *f = E::mul(simd, scale, E::mul(simd, factor, k));
                    }
                }
                0.0
            }
            Dynamics::Nesterov { squash, .. } => activation::dispatch::<E, _>(squash, NesterovAdjoint(simd, self)),
        }
    }
}

struct NesterovAdjoint<'a, E: Element, S: Simd>(S, FieldAdjoint<'a, E>);

impl<E: Element, S: Simd> WithFunction<E> for NesterovAdjoint<'_, E, S> {
    type Output = f64;
    #[inline(always)]
    fn with_function<F: Function<E>>(self, s: F) -> f64 {
        let Self(simd, adjoint) = self;
        let (scale, drift) = (E::vectors::<S>(adjoint.scale), E::vectors::<S>(adjoint.drift));
        let (x, m) = E::vectors::<S>(adjoint.state).split_at(drift.len());
        let (field_x, field_m) = E::vectors::<S>(adjoint.field_gradient).split_at(drift.len());
        let (grad_h, grad_m) = E::vectors_mut::<S>(adjoint.state_gradient).split_at_mut(drift.len());
        let grad_drift = E::vectors_mut::<S>(adjoint.drift_gradient);
        let grad_remembered = E::vectors_mut::<S>(adjoint.remembered_gradient);
        let features = drift.len() / scale.len();
        let splat = |value: f64| E::splat(simd, E::from_f64(value));
        let (zero, xi) = (splat(0.0), splat(adjoint.xi));
        let remembered = match adjoint.injection {
            Injection::Inside(remembered) => E::vectors::<S>(remembered),
            Injection::None | Injection::Outside(_) => &[],
        };
        let outside = match adjoint.injection {
            Injection::Outside(factor) => Some(splat(factor)),
            Injection::None | Injection::Inside(_) => None,
        };
        let factor = splat(adjoint.factor);
        let mut xi_gradient = zero;
        for (group, &scale) in scale.iter().enumerate() {
            for i in group * features..(group + 1) * features {
                let (_, slope) = s.restore(simd, drift[i]);
                let (_, slope_m) = s.value_and_slope(simd, m[i]);
                // The field has -m - s(argument) - ξ h: `pull` is the gradient of each of these terms' opposite.
                let pull = E::mul(simd, scale, E::sub(simd, zero, E::mul(simd, factor, field_m[i])));
                let push = E::mul(simd, scale, E::mul(simd, factor, field_x[i]));
                let grad_argument = E::mul(simd, pull, slope);
                grad_m[i] = E::fma(simd, push, slope_m, pull);
                grad_drift[i] = grad_argument;
                if let Some(factor) = outside {
                    grad_h[i] = E::mul(simd, xi, pull);
                    xi_gradient = E::fma(simd, E::mul(simd, factor, x[i]), pull, xi_gradient);
                }
                if let Some(&h) = remembered.get(i) {
                    grad_remembered[i] = E::mul(simd, xi, grad_argument);
                    xi_gradient = E::fma(simd, h, grad_argument, xi_gradient);
                }
            }
        }
        E::sum(simd, xi_gradient).to_f64()
    }
}
