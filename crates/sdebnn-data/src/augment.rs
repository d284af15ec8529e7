//! Batches of normalised pixels, with the usual augmentation of CIFAR-10: a random crop of the padded image, and a flip.

use crate::random::{Purpose, Source};
use crate::{Images, Normalisation};

/// How images are varied in one epoch: a pure function of seed, epoch and the index of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Augmentation {
    /// The seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
}

/// Black pixels on each side of an image before it is cropped to its size again.
const PADDING: usize = 4;

/// How one image is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variation {
    /// Row and column of the padded image where the crop begins.
    corner: [usize; 2],
    flipped: bool,
}

impl Augmentation {
    fn of_image(self, index: usize) -> Variation {
        let mut source = Source::new(self.seed, Purpose::Augmentation, self.epoch, index as u64);
        let corner = [source.below(2 * PADDING + 1), source.below(2 * PADDING + 1)];
        Variation { corner, flipped: source.below(2) == 1 }
    }
}

impl Variation {
    const NONE: Self = Self { corner: [PADDING; 2], flipped: false };
}

/// Writes the images with these indices to `out`, normalised, and their classes to `labels` (which is emptied first).
///
/// # Panics
///
/// If an index is not below `images.len()`, `out` does not hold exactly `indices.len()` images, or the normalisation is not
/// for as many channels.
pub fn fill_batch(
    images: &Images,
    indices: &[usize],
    normalisation: &Normalisation,
    augmentation: Option<Augmentation>,
    out: &mut [f32],
    labels: &mut Vec<u8>,
) {
    assert_eq!(out.len(), indices.len() * images.image_len(), "room for the batch");
    assert_eq!(normalisation.mean.len(), images.channels, "a mean for each channel");
    assert_eq!(normalisation.std.len(), images.channels, "a deviation for each channel");
    let tables: Vec<[f32; 256]> =
        normalisation.mean.iter().zip(&normalisation.std).map(|(m, s)| table(*m, *s)).collect();
    labels.clear();
    labels.extend(indices.iter().map(|&index| images.label(index)));
    for (&index, out) in indices.iter().zip(out.chunks_exact_mut(images.image_len())) {
        let variation = augmentation.map_or(Variation::NONE, |augmentation| augmentation.of_image(index));
        let plane = images.height * images.width;
        let planes = images.image(index).chunks_exact(plane).zip(out.chunks_exact_mut(plane));
        for ((from, to), table) in planes.zip(&tables) {
            fill_plane(from, to, images.width, variation, table);
        }
    }
}

/// The normalised value of each byte.
fn table(mean: f32, std: f32) -> [f32; 256] {
    std::array::from_fn(|byte| (byte as f32 / 255.0 - mean) / std)
}

fn fill_plane(from: &[u8], to: &mut [f32], width: usize, variation: Variation, table: &[f32; 256]) {
    let Variation { corner: [top, left], flipped } = variation;
    for (y, to) in to.chunks_exact_mut(width).enumerate() {
        // What is outside of the image wraps to a large index, which is not there.
        let row = from.chunks_exact(width).nth((y + top).wrapping_sub(PADDING)).unwrap_or(&[]);
        for (x, to) in to.iter_mut().enumerate() {
            let x = if flipped { width - 1 - x } else { x };
            let byte = row.get((x + left).wrapping_sub(PADDING)).copied().unwrap_or(0);
            *to = table[usize::from(byte)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: f32 = 1.0 / 255.0;

    /// Two images of two channels, 3 × 5, whose bytes are all different and not 0.
    fn images() -> Images {
        Images::new([2, 3, 5], 2, (1..=60).collect(), vec![1, 0])
    }

    /// Takes every byte to itself.
    fn identity() -> Normalisation {
        Normalisation { mean: vec![0.0; 2], std: vec![UNIT; 2] }
    }

    fn batch(indices: &[usize], augmentation: Option<Augmentation>) -> Vec<f32> {
        let mut out = vec![f32::NAN; indices.len() * 30];
        fill_batch(&images(), indices, &identity(), augmentation, &mut out, &mut vec![]);
        out.iter().map(|x| x.round()).collect()
    }

    #[test]
    fn without_augmentation_images_stay_what_they_are() {
        assert_eq!(batch(&[1, 0], None), (31..=60).chain(1..=30).map(|i| i as f32).collect::<Vec<_>>());
        let mut labels = vec![9; 7];
        fill_batch(&images(), &[1, 0, 0], &identity(), None, &mut [0.0; 90], &mut labels);
        assert_eq!(labels, [0, 1, 1]);
    }

    #[test]
    fn channels_have_their_own_constants() {
        let normalisation = Normalisation { mean: vec![0.5, 0.25], std: vec![0.25, 0.5] };
        let mut out = vec![0.0; 30];
        fill_batch(&images(), &[0], &normalisation, None, &mut out, &mut vec![]);
        assert_eq!((out[0], out[15]), ((UNIT - 0.5) / 0.25, (16.0 / 255.0 - 0.25) / 0.5));
    }

    #[test]
    fn crops_and_flips_move_all_channels_alike() {
        let plane: Vec<u8> = (1..=15).collect();
        let table = std::array::from_fn(|byte| byte as f32);
        let filled = |corner, flipped| {
            let mut to = [f32::NAN; 15];
            fill_plane(&plane, &mut to, 5, Variation { corner, flipped }, &table);
            to.map(|value| value as u8)
        };
        assert_eq!(filled([5, 3], false), [0, 6, 7, 8, 9, 0, 11, 12, 13, 14, 0, 0, 0, 0, 0]);
        assert_eq!(filled([4, 4], true), [5, 4, 3, 2, 1, 10, 9, 8, 7, 6, 15, 14, 13, 12, 11]);
        assert_eq!(filled([0, 8], false), [0; 15]);
    }

    #[test]
    fn a_variation_depends_on_seed_epoch_and_index_alone() {
        let augmentation = |seed, epoch| Augmentation { seed, epoch };
        assert_eq!(batch(&[0, 1], Some(augmentation(1, 2)))[30..], batch(&[1], Some(augmentation(1, 2))));
        let variations = |seed, epoch| (0..50).map(move |i| augmentation(seed, epoch).of_image(i)).collect::<Vec<_>>();
        assert_ne!(variations(1, 2), variations(1, 3));
        assert_ne!(variations(1, 2), variations(2, 2));
    }

    #[test]
    fn all_crops_and_both_flips_occur() {
        let all: std::collections::HashSet<_> = (0..5000)
            .map(|i| Augmentation { seed: 0, epoch: 0 }.of_image(i))
            .map(|Variation { corner, flipped }| (corner, flipped))
            .collect();
        assert_eq!(all.len(), 9 * 9 * 2);
    }
}
