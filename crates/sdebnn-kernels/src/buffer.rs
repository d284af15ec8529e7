//! Memory aligned to cache lines.

use std::ops::{Deref, DerefMut};

use crate::element::Element;

/// Bytes of a cache line: vectors that start on one never straddle two.
pub(crate) const CACHE_LINE: usize = 64;

/// A slice that starts on a cache line.
#[derive(Debug)]
pub(crate) struct Buffer<E> {
    memory: Vec<E>,
    start: usize,
    length: usize,
}

impl<E: Element> Buffer<E> {
    /// `length` zeros.
    pub(crate) fn new(length: usize) -> Self {
        let memory = vec![E::ZERO; length + CACHE_LINE / size_of::<E>()];
        let start = memory.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE / size_of::<E>());
        Self { memory, start, length }
    }
}

impl<E> Deref for Buffer<E> {
    type Target = [E];
    fn deref(&self) -> &[E] {
        &self.memory[self.start..self.start + self.length]
    }
}

impl<E> DerefMut for Buffer<E> {
    fn deref_mut(&mut self) -> &mut [E] {
        &mut self.memory[self.start..self.start + self.length]
    }
}
