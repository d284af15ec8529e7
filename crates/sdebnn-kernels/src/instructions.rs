//! The choice of instruction set, made at run time.

#[cfg(target_arch = "x86_64")]
use pulp::x86::V3;
use pulp::{Arch, Scalar, Simd, WithSimd};

use crate::element::Element;

/// Which vector instructions to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// The widest the machine has: AVX-512, AVX2 with FMA, NEON, or none.
    #[default]
    Detect,
    /// AVX2 with FMA, also where the machine has more; what it has where that is less.
    Avx2,
    /// None: one example at a time.
    Scalar,
}

impl InstructionSet {
    /// Every choice.
    pub const ALL: [Self; 3] = [Self::Detect, Self::Avx2, Self::Scalar];

    /// Runs `op` with these instructions.
    pub(crate) fn dispatch<Op: WithSimd>(self, op: Op) -> Op::Output {
        #[cfg(target_arch = "x86_64")]
        if self == Self::Avx2
            && let Some(simd) = V3::try_new()
        {
            return Simd::vectorize(simd, op);
        }
        match self {
            Self::Detect | Self::Avx2 => Arch::new().dispatch(op),
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
