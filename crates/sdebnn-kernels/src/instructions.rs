//! The choice of instruction set, made at run time.

use pulp::{Arch, Scalar, Simd, WithSimd};

use crate::element::Element;

/// Which vector instructions to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// The widest the machine has: AVX-512, AVX2 with FMA, NEON, or none.
    #[default]
    Detect,
    /// None: one example at a time.
    Scalar,
}

impl InstructionSet {
    /// Runs `op` with these instructions.
    pub(crate) fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
        match self {
            Self::Detect => Arch::new().dispatch(op),
            Self::Scalar => Scalar::new().vectorize(op),
        }
    }

    /// Examples of a vector.
    pub(crate) fn lanes<E: Element>(self) -> usize {
        self.dispatch(Lanes::<E>(std::marker::PhantomData))
    }
}

struct Lanes<E>(std::marker::PhantomData<E>);

impl<E: Element> WithSimd for Lanes<E> {
    type Output = usize;
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        E::lanes::<S>()
    }
}

/// `simd` as a token of type `T`, if that is what it is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn same<S: Simd, T: Simd>(simd: S) -> Option<T> {
    // SAFETY: the types are equal, and tokens are `Copy`.
    (std::any::TypeId::of::<S>() == std::any::TypeId::of::<T>()).then(|| unsafe { std::mem::transmute_copy(&simd) })
}
