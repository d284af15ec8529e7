//! Random numbers as a pure function of where they are used.
//!
//! There is no generator that advances: a [`Stream`] is a key, and every number is a function of the key, a 64-bit node and
//! a position. The same key gives the same bits in any order of calls, on any thread and on any machine (only IEEE basic
//! operations and the portable `libm` are involved).

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Where in a stream the keys of its children lie: far behind any number that is drawn from it.
const CHILD_KEYS: u128 = 1 << 60;

/// A key of the counter-based generator ChaCha8.
///
/// Streams form a tree: `Stream::root(seed).child(purpose).child(epoch).child(sample)` is independent of all its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    key: [u8; 32],
}

impl Stream {
    /// The stream that one seed decides.
    pub fn root(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self { key }.child(0)
    }

    /// The `index`-th child, independent of this stream and of the other children.
    pub fn child(&self, index: u64) -> Self {
        let mut source = self.source(index);
        source.set_word_pos(CHILD_KEYS);
        let mut key = [0; 32];
        source.fill_bytes(&mut key);
        Self { key }
    }

    fn source(&self, node: u64) -> ChaCha8Rng {
        let mut source = ChaCha8Rng::from_seed(self.key);
        source.set_stream(node);
        source
    }

    /// Fills `out` with uniform numbers in the open interval (0, 1).
    pub fn fill_uniform(&self, node: u64, out: &mut [f64]) {
        let mut source = self.source(node);
        for value in out {
            *value = open_unit(source.next_u64());
        }
    }

    /// Fills `out` with standard normal numbers.
    pub fn fill_normal(&self, node: u64, out: &mut [f64]) {
        self.fill_uniform(node, out);
        for value in out {
            *value = normal_quantile(*value);
        }
    }

    /// A permutation of `0..len` (Fisher–Yates), the order of one epoch.
    pub fn permutation(&self, len: usize) -> Vec<usize> {
        let mut source = self.source(0);
        let mut order: Vec<usize> = (0..len).collect();
        for i in (1..len).rev() {
            let j = (u128::from(source.next_u64()) * (i as u128 + 1)) >> 64;
            order.swap(i, j as usize);
        }
        order
    }
}

/// The centre of one of 2^52 equal cells of (0, 1), so that neither end is ever drawn.
fn open_unit(bits: u64) -> f64 {
    const CELL: f64 = 1.0 / (1u64 << 52) as f64;
    ((bits >> 12) as f64 + 0.5) * CELL
}

/// The quantile `Φ⁻¹(p)` of the standard normal law, accurate to about 1e-16 (Wichura's algorithm AS 241).
pub fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * ratio(r, &CENTRE);
    }
    let tail = if q < 0.0 { p } else { 1.0 - p };
    let r = libm::sqrt(-libm::log(tail));
    let x = if r <= 5.0 { ratio(r - 1.6, &SHOULDER) } else { ratio(r - 5.0, &TAIL) };
    x.copysign(q)
}

/// Numerator and denominator of a rational function, highest power first.
type Rational = ([f64; 8], [f64; 8]);

fn ratio(r: f64, (numerator, denominator): &Rational) -> f64 {
    let horner = |c: &[f64; 8]| c[1..].iter().fold(c[0], |acc, &k| acc * r + k);
    horner(numerator) / horner(denominator)
}

#[rustfmt::skip]
const CENTRE: Rational = (
    [2.509_080_928_730_122_7e3, 3.343_057_558_358_813e4, 6.726_577_092_700_87e4, 4.592_195_393_154_987e4,
     1.373_169_376_550_946e4, 1.971_590_950_306_551_4e3, 1.331_416_678_917_843_8e2, 3.387_132_872_796_366_6],
    [5.226_495_278_852_854e3, 2.872_908_573_572_194_3e4, 3.930_789_580_009_271e4, 2.121_379_430_158_66e4,
     5.394_196_021_424_751e3, 6.871_870_074_920_579e2, 4.231_333_070_160_091e1, 1.0],
);
#[rustfmt::skip]
const SHOULDER: Rational = (
    [7.745_450_142_783_414e-4, 2.272_384_498_926_918_4e-2, 2.417_807_251_774_506e-1, 1.270_458_252_452_368_4,
     3.647_848_324_763_204_5, 5.769_497_221_460_691, 4.630_337_846_156_546, 1.423_437_110_749_683_5],
    [1.050_750_071_644_416_9e-9, 5.475_938_084_995_345e-4, 1.519_866_656_361_645_7e-2, 1.481_039_764_274_800_8e-1,
     6.897_673_349_851e-1, 1.676_384_830_183_803_8, 2.053_191_626_637_759, 1.0],
);
#[rustfmt::skip]
const TAIL: Rational = (
    [2.010_334_399_292_288_1e-7, 2.711_555_568_743_487_6e-5, 1.242_660_947_388_078_4e-3, 2.653_218_952_657_612_4e-2,
     2.965_605_718_285_048_7e-1, 1.784_826_539_917_291_3, 5.463_784_911_164_114, 6.657_904_643_501_103],
    [2.044_263_103_389_939_8e-15, 1.421_511_758_316_446e-7, 1.846_318_317_510_054_8e-5, 7.868_691_311_456_133e-4,
     1.487_536_129_085_061_5e-2, 1.369_298_809_227_358e-1, 5.998_322_065_558_88e-1, 1.0],
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_law() {
        for (p, x) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.158_655_253_931_457_05, -1.0),
            (1e-10, -6.361_340_902_404_056),
            (1e-15, -7.941_345_326_170_997),
        ] {
            assert!((normal_quantile(p) - x).abs() <= 1e-13 * (1.0 + x.abs()), "{p}");
        }
    }

    #[test]
    fn streams_do_not_depend_on_the_order_or_length_of_draws() {
        let stream = Stream::root(7).child(3);
        let mut long = [0.0; 40];
        let mut short = [0.0; 5];
        stream.fill_normal(9, &mut long);
        stream.fill_normal(8, &mut [0.0; 3]);
        stream.fill_normal(9, &mut short);
        assert_eq!(long[..5], short);
        assert_ne!(stream.child(0), stream.child(1));
        assert_ne!(Stream::root(7), Stream::root(8));
    }

    #[test]
    fn permutations_hold_every_index_once() {
        let mut order = Stream::root(1).permutation(1000);
        assert_ne!(order[..5], [0, 1, 2, 3, 4]);
        order.sort_unstable();
        assert!(order.iter().copied().eq(0..1000));
    }
}
