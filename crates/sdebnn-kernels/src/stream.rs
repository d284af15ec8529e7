//! Vectors written past the caches.

use pulp::{Simd, WithSimd};

use crate::element::Element;
#[cfg(target_arch = "x86_64")]
use crate::instructions::same;

/// `to = value`. If `far` and with AVX-512, where a vector is a cache line, memory is written without being read first, and the caches keep
/// what they have: for what nobody reads soon. See [`settle`].
#[inline(always)]
pub(crate) fn stream<E: Element, S: Simd>(simd: S, far: bool, to: &mut E::Vector<S>, value: E::Vector<S>) {
    #[cfg(target_arch = "x86_64")]
    if far && same::<S, pulp::x86::V4>(simd).is_some() {
        use std::arch::x86_64::{__m512, _mm512_stream_ps};
        let to = std::ptr::from_mut(to).cast::<f32>();
        assert!(to.cast::<__m512>().is_aligned(), "vectors are cache lines");
        // SAFETY: the token proves the instruction set, with which vectors of all types have 64 bytes; `to` is aligned.
        return unsafe { _mm512_stream_ps(to, std::mem::transmute_copy(&value)) };
    }
    let _ = (simd, far);
    *to = value;
}

/// `to = from`, in the same way.
pub(crate) struct StreamCopy<'a, E: Element> {
    pub(crate) far: bool,
    pub(crate) to: &'a mut [E],
    pub(crate) from: &'a [E],
}

impl<E: Element> StreamCopy<'_, E> {
    /// Runs with the target features of `simd`.
    pub(crate) fn run<S: Simd>(self, simd: S) {
        simd.vectorize(self);
    }
}

impl<E: Element> WithSimd for StreamCopy<'_, E> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        for (to, &from) in E::vectors_mut::<S>(self.to).iter_mut().zip(E::vectors::<S>(self.from)) {
            stream::<E, S>(simd, self.far, to, from);
        }
    }
}

/// Makes sure that other threads find what [`stream`] wrote before whatever follows.
#[inline(always)]
pub(crate) fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
