//! The published data sets, where they are at hand: `SDEBNN_DATA` says where.

use std::path::PathBuf;

use sdebnn_data::fetch::catalogue::DataSet;
use sdebnn_data::fetch::{list, verify};
use sdebnn_data::{cifar, idx, walker};

fn data() -> Option<PathBuf> {
    let dir = std::env::var_os("SDEBNN_DATA").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    if dir.is_none() {
        eprintln!("skipped: SDEBNN_DATA is not set");
    }
    dir
}

#[test]
fn all_published_data_are_read() {
    let Some(dir) = data() else { return };
    for (set, contents) in list(&dir) {
        let contents = contents.unwrap_or_else(|error| panic!("{set:?}: {error}"));
        assert!(contents.complete, "{contents:?}");
    }
    // MNIST is the original however it was compressed; of CIFAR-10 there are copies that were compressed with loss.
    assert_eq!(verify(&dir, DataSet::Mnist).unwrap().original, Some(true));
}

#[test]
fn images_have_their_labels() {
    let Some(dir) = data() else { return };
    let mnist = idx::load(&dir).unwrap();
    assert_eq!(mnist.train.labels()[..10], [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]);
    assert_eq!(mnist.test.labels()[..5], [7, 2, 1, 0, 4]);
    let cifar = cifar::load(&dir).unwrap();
    for class in 0..10 {
        assert_eq!(cifar.train.labels().iter().filter(|&&label| label == class).count(), 5000);
        assert_eq!(cifar.test.labels().iter().filter(|&&label| label == class).count(), 1000);
    }
    for sets in [mnist, cifar] {
        for channel in 0..sets.train.channels {
            let plane = sets.train.height * sets.train.width;
            let pixels = (0..sets.train.len()).flat_map(|i| &sets.train.image(i)[channel * plane..][..plane]);
            let values = pixels.map(|&pixel| f64::from(pixel) / 255.0);
            let n = (sets.train.len() * plane) as f64;
            let mean = values.clone().sum::<f64>() / n;
            let std = (values.map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt();
            assert!((mean - f64::from(sets.normalisation.mean[channel])).abs() < 2e-3, "{mean}");
            assert!((std - f64::from(sets.normalisation.std[channel])).abs() < 2e-3, "{std}");
        }
    }
}

#[test]
fn walks_have_seventeen_features() {
    let Some(dir) = data() else { return };
    let walks = walker::load(&dir).unwrap();
    assert_eq!(walks.len(), 400);
    assert!(walks.iter().all(|walk| walk.features() == 17 && walk.len() > 100));
}
