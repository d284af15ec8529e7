//! Memory beyond the caches: written past them, and asked for in time.

use pulp::{Simd, WithSimd};

use crate::element::Element;
#[cfg(target_arch = "x86_64")]
use crate::{buffer::CACHE_LINE, instructions::same};

/// `to = value`. If `far` and with AVX-512 or AVX2, memory is written without being read first, and the caches keep what they have: for what
/// nobody reads soon. See [`settle`].
#[inline(always)]
pub(crate) fn stream<E: Element, S: Simd>(simd: S, far: bool, to: &mut E::Vector<S>, value: E::Vector<S>) {
    #[cfg(target_arch = "x86_64")]
    if far {
        use pulp::x86::{V3, V4};
        use std::arch::x86_64::{__m256, __m512, _mm256_stream_ps, _mm512_stream_ps};
        let to = std::ptr::from_mut(to).cast::<f32>();
        if same::<S, V4>(simd).is_some() {
            assert!(to.cast::<__m512>().is_aligned(), "vectors are cache lines");
            // SAFETY: the token proves the instruction set, with which vectors of all types have 64 bytes; `to` is aligned.
            return unsafe { _mm512_stream_ps(to, std::mem::transmute_copy(&value)) };
        }
        if same::<S, V3>(simd).is_some() {
            assert!(to.cast::<__m256>().is_aligned(), "vectors are halves of cache lines");
            // SAFETY: the token proves the instruction set, with which vectors of all types have 32 bytes; `to` is aligned.
            return unsafe { _mm256_stream_ps(to, std::mem::transmute_copy(&value)) };
        }
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

/// To bring memory to the nearest cache.
pub(crate) const NEAREST: i32 = 3;

/// To bring memory to the second cache, and leave the nearest one to what is computed.
const SECOND: i32 = 2;

/// Asks for `length` numbers of a row from `at` on, which may lie beyond its end.
#[inline(always)]
pub(crate) fn prefetch<const CACHE: i32, E>(row: &[E], at: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..(length * size_of::<E>()).div_ceil(CACHE_LINE) {
        use std::arch::x86_64::_mm_prefetch;
        let line = row.as_ptr().wrapping_add(at).wrapping_byte_add(line * CACHE_LINE);
        // SAFETY: a prefetch reads nothing that the program could see and never fails, so any address will do.
        unsafe { _mm_prefetch::<CACHE>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (row, at, length);
}

/// Memory that is asked for little by little, ahead of its use: a burst of requests would keep nearer ones waiting.
pub(crate) struct Foreseen<'a, E>(pub(crate) &'a [E]);

impl<E> Foreseen<'_, E> {
    /// Asks for the next `length` numbers, or what is left.
    #[inline(always)]
    pub(crate) fn ask(&mut self, length: usize) {
        if let Some(next) = self.0.split_off(..length.min(self.0.len())) {
            prefetch::<SECOND, _>(next, 0, next.len());
        }
    }
}
