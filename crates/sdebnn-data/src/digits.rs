//! Drawn digits: ten classes of strokes on 28 × 28 grey pixels, for use where MNIST is not at hand.
//!
//! An image is a pure function of the seed, of whether it is to train or to test on, and of its index.

use libm::{cos, sin};
use rayon::prelude::*;

use crate::random::{Purpose, Source};
use crate::{ImageSets, Images, Normalisation};

const SIDE: usize = 28;
const CLASSES: usize = 10;
/// Straight pieces that stand for an arc.
const ARC_PIECES: usize = 12;

type Point = [f64; 2];

/// A pen stroke in a box that is 1 wide and 1 high, from its upper left corner.
enum Stroke {
    /// Straight from point to point.
    Lines(&'static [Point]),
    /// A piece of an ellipse: centre, radii, and the angles in degrees between which it runs, clockwise from the right.
    Arc(Point, Point, [f64; 2]),
}

use Stroke::{Arc, Lines};

/// The ways to write each digit.
const GLYPHS: [&[&[Stroke]]; CLASSES] = [
    &[&[Arc([0.5, 0.5], [0.47, 0.5], [0.0, 360.0])]],
    &[&[Lines(&[[0.5, 0.0], [0.5, 1.0]])], &[Lines(&[[0.22, 0.24], [0.52, 0.0], [0.52, 1.0]])]],
    &[&[Arc([0.5, 0.28], [0.42, 0.28], [-170.0, 40.0]), Lines(&[[0.82, 0.46], [0.05, 1.0], [0.97, 1.0]])]],
    &[&[Arc([0.45, 0.26], [0.42, 0.26], [-160.0, 90.0]), Arc([0.45, 0.76], [0.5, 0.24], [-90.0, 155.0])]],
    &[
        &[Lines(&[[0.62, 0.0], [0.02, 0.66], [0.98, 0.66]]), Lines(&[[0.7, 0.3], [0.7, 1.0]])],
        &[Lines(&[[0.18, 0.0], [0.05, 0.52], [0.92, 0.52]]), Lines(&[[0.82, 0.0], [0.76, 1.0]])],
    ],
    &[&[Lines(&[[0.92, 0.0], [0.2, 0.0], [0.12, 0.49]]), Arc([0.45, 0.7], [0.47, 0.3], [-135.0, 150.0])]],
    &[&[Arc([0.9, 0.72], [0.84, 0.74], [180.0, 260.0]), Arc([0.5, 0.72], [0.44, 0.28], [0.0, 360.0])]],
    &[
        &[Lines(&[[0.05, 0.0], [0.95, 0.0], [0.4, 1.0]])],
        &[Lines(&[[0.05, 0.0], [0.95, 0.0], [0.4, 1.0]]), Lines(&[[0.32, 0.5], [0.92, 0.5]])],
    ],
    &[&[Arc([0.5, 0.25], [0.37, 0.25], [0.0, 360.0]), Arc([0.5, 0.75], [0.46, 0.25], [0.0, 360.0])]],
    &[
        &[Arc([0.48, 0.28], [0.42, 0.28], [0.0, 360.0]), Lines(&[[0.9, 0.28], [0.82, 1.0]])],
        &[Arc([0.48, 0.28], [0.42, 0.28], [0.0, 360.0]), Arc([0.08, 0.28], [0.82, 0.74], [0.0, 70.0])],
    ],
];

/// Draws digits to train and to test on.
pub fn draw(seed: u64, train: usize, test: usize) -> ImageSets {
    ImageSets {
        train: images(seed, Purpose::TrainDigit, train),
        test: images(seed, Purpose::TestDigit, test),
        normalisation: Normalisation::digits(),
    }
}

fn images(seed: u64, part: Purpose, len: usize) -> Images {
    // Classes take turns, so that any beginning of the data has about equally many of each.
    let labels: Vec<u8> = (0..len).map(|i| (i % CLASSES) as u8).collect();
    let mut pixels = vec![0; len * SIDE * SIDE];
    pixels.par_chunks_exact_mut(SIDE * SIDE).zip(&labels).enumerate().for_each(|(i, (image, &label))| {
        draw_digit(label.into(), Source::new(seed, part, i as u64, 0), image);
    });
    Images::new([1, SIDE, SIDE], CLASSES, pixels, labels)
}

fn draw_digit(digit: usize, mut source: Source, image: &mut [u8]) {
    let glyph = GLYPHS[digit][source.below(GLYPHS[digit].len())];
    let hand = Hand::new(&mut source);
    let half_width = source.between(0.8, 1.7);

    // The squared distance of each pixel to the nearest stroke, known only near the strokes.
    let mut distances = [f64::INFINITY; SIDE * SIDE];
    for stroke in glyph {
        let points = stroke.points().map(|point| hand.place(point));
        let points: Vec<Point> = points.collect();
        points.windows(2).for_each(|ends| mark(&mut distances, [ends[0], ends[1]], half_width + 0.5));
    }

    let (ink, noise) = (source.between(0.75, 1.0), source.between(0.0, 0.2));
    source.fill_bytes(image);
    for (pixel, square) in image.iter_mut().zip(distances) {
        let covered = (half_width + 0.5 - square.sqrt()).clamp(0.0, 1.0);
        let value = covered * ink + noise * (f64::from(*pixel) / 255.0 - 0.5);
        *pixel = (255.0 * value.clamp(0.0, 1.0)).round() as u8;
    }
}

impl Stroke {
    fn points(&self) -> Box<dyn Iterator<Item = Point> + '_> {
        match self {
            Lines(points) => Box::new(points.iter().copied()),
            Arc(centre, radii, [from, to]) => Box::new((0..=ARC_PIECES).map(move |i| {
                let angle = (from + (to - from) * i as f64 / ARC_PIECES as f64).to_radians();
                [centre[0] + radii[0] * cos(angle), centre[1] + radii[1] * sin(angle)]
            })),
        }
    }
}

/// How one digit is written: what takes the box of a glyph to the pixels of an image.
struct Hand {
    size: Point,
    shear: f64,
    /// Cosine and sine of the rotation.
    turn: [f64; 2],
    shift: Point,
    /// Size and phase of a wave along the height that bends straight strokes a little.
    wave: [f64; 2],
}

impl Hand {
    fn new(source: &mut Source) -> Self {
        let angle = source.between(-0.25, 0.25);
        Self {
            size: [source.between(9.0, 15.0), source.between(15.0, 20.0)],
            shear: source.between(-0.3, 0.15),
            turn: [cos(angle), sin(angle)],
            shift: [source.between(-2.0, 2.0), source.between(-2.0, 2.0)],
            wave: [source.between(0.0, 1.2), source.between(0.0, std::f64::consts::TAU)],
        }
    }

    fn place(&self, [x, y]: Point) -> Point {
        let wave = self.wave[0] * sin(6.0 * y + self.wave[1]);
        let y = (y - 0.5) * self.size[1];
        let x = (x - 0.5) * self.size[0] + self.shear * y + wave;
        let [cos, sin] = self.turn;
        let centre = SIDE as f64 / 2.0;
        [centre + cos * x - sin * y + self.shift[0], centre + sin * x + cos * y + self.shift[1]]
    }
}

/// Lowers the squared distances of all pixels within `reach` of a straight piece.
fn mark(distances: &mut [f64], [from, to]: [Point; 2], reach: f64) {
    let along = [to[0] - from[0], to[1] - from[1]];
    let square = along[0] * along[0] + along[1] * along[1];
    // Pixels whose centre, half a pixel from their index, is in the box around the piece; casts stop at the border.
    let range = |axis: usize| {
        let low = (from[axis].min(to[axis]) - reach - 0.5).ceil() as usize;
        let high = (from[axis].max(to[axis]) + reach - 0.5).floor() as isize + 1;
        low..high.clamp(0, SIDE as isize) as usize
    };
    for row in range(1) {
        for column in range(0) {
            let pixel = [column as f64 + 0.5 - from[0], row as f64 + 0.5 - from[1]];
            let nearest = ((pixel[0] * along[0] + pixel[1] * along[1]) / square).clamp(0.0, 1.0);
            let apart = [pixel[0] - nearest * along[0], pixel[1] - nearest * along[1]];
            let distance = &mut distances[row * SIDE + column];
            *distance = distance.min(apart[0] * apart[0] + apart[1] * apart[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn an_image_depends_only_on_seed_part_and_index() {
        let few = draw(1, 20, 20);
        let more = draw(1, 35, 20);
        assert!((0..20).all(|i| few.train.image(i) == more.train.image(i)));
        assert!((0..20).all(|i| few.train.image(i) != few.test.image(i)));
        assert_ne!(few.train, draw(2, 20, 0).train);
        assert!((0..10).all(|i| few.train.image(i) != few.train.image(i + 10)));
    }

    #[test]
    fn digits_are_the_same_on_every_machine_and_number_of_threads() {
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let images = one.install(|| draw(7, 100, 0).train);
        assert_eq!(images, draw(7, 100, 0).train);
        let mut digest = Sha256::new();
        (0..100).for_each(|i| digest.update(images.image(i)));
        assert_eq!(
            format!("{:x}", digest.finalize()),
            "fc5450d44f5c12b1509fd927cffac79576e9044345bd648d71b9ba652bde09e0"
        );
    }

    #[test]
    fn digits_look_like_their_class() {
        // The nearest mean image is a poor reader, yet far better than the 10 % of chance.
        let ImageSets { train, test, .. } = draw(3, 2000, 500);
        let mut means = vec![[0.0; 784]; 10];
        for i in 0..train.len() {
            let mean = &mut means[usize::from(train.label(i))];
            mean.iter_mut().zip(train.image(i)).for_each(|(m, &p)| *m += f64::from(p) / 200.0);
        }
        let distance = |mean: &[f64; 784], image: &[u8]| -> f64 {
            mean.iter().zip(image).map(|(m, &p)| (m - f64::from(p)).powi(2)).sum()
        };
        let right = (0..test.len()).filter(|&i| {
            let nearest = (0..10)
                .min_by(|&a, &b| distance(&means[a], test.image(i)).total_cmp(&distance(&means[b], test.image(i))));
            nearest == Some(test.label(i).into())
        });
        let right = right.count();
        assert!((300..500).contains(&right), "{right} of 500");
    }

    #[test]
    fn the_constants_normalise() {
        let images = draw(11, 5000, 0).train;
        let values = (0..images.len()).flat_map(|i| images.image(i)).map(|&p| f64::from(p) / 255.0);
        let n = (images.len() * images.image_len()) as f64;
        let mean = values.clone().sum::<f64>() / n;
        let std = (values.map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        let constants = Normalisation::digits();
        assert!((mean - f64::from(constants.mean[0])).abs() < 2e-3, "mean {mean}");
        assert!((std - f64::from(constants.std[0])).abs() < 2e-3, "std {std}");
    }
}
