//! The order in which an epoch visits its examples.

use crate::random::{Purpose, Source};

/// A permutation of `0..len`: the order of an epoch, a pure function of its arguments.
pub fn of_epoch(seed: u64, epoch: u64, len: usize) -> Vec<usize> {
    permutation(Source::new(seed, Purpose::Order, epoch, 0), len)
}

/// The batches of a run from number `first` on, without end: every epoch has its own order, and its last batch what is left.
///
/// # Panics
///
/// If there are no examples, or none in a batch.
pub fn batches(seed: u64, len: usize, size: usize, first: u64) -> impl Iterator<Item = Vec<usize>> {
    assert!(len > 0 && size > 0, "{len} examples in batches of {size}");
    let per_epoch = len.div_ceil(size) as u64;
    let batches = move |epoch| {
        let skipped = if epoch == first / per_epoch { (first % per_epoch) as usize } else { 0 };
        of_epoch(seed, epoch, len).chunks(size).skip(skipped).map(<[usize]>::to_vec).collect::<Vec<_>>()
    };
    (first / per_epoch..).flat_map(batches)
}

/// Fisher and Yates's permutation of `0..len`.
pub(crate) fn permutation(mut source: Source, len: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    for i in (1..len).rev() {
        order.swap(i, source.below(i + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_visits_every_example_once() {
        let mut order = of_epoch(3, 1, 1000);
        assert_ne!(order, (0..1000).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
        assert!(of_epoch(3, 1, 0).is_empty());
    }

    #[test]
    fn epochs_and_seeds_have_their_own_orders() {
        assert_ne!(of_epoch(3, 1, 100), of_epoch(3, 2, 100));
        assert_ne!(of_epoch(3, 1, 100), of_epoch(4, 1, 100));
    }

    #[test]
    fn batches_go_on_from_any_place() {
        let all: Vec<_> = batches(3, 10, 4, 0).take(9).collect();
        assert_eq!(all[3..6].concat(), of_epoch(3, 1, 10));
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2, 4, 4, 2, 4, 4, 2]);
        for first in 0..9 {
            let rest: Vec<_> = batches(3, 10, 4, first).take(9 - first as usize).collect();
            assert_eq!(rest, all[first as usize..]);
        }
    }

    #[test]
    fn the_order_is_the_same_on_every_machine() {
        assert_eq!(of_epoch(1, 2, 10), GOLDEN);
    }

    /// Written down once: a change would break the exact resume of runs made before it.
    const GOLDEN: [usize; 10] = [6, 2, 5, 0, 7, 8, 4, 3, 9, 1];
}
