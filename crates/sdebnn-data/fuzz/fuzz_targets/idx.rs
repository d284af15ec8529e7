//! Any bytes as IDX files.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdebnn_data::idx;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(pixels) = idx::read_images(bytes) {
        assert_eq!(pixels.len() + 16, bytes.len());
    }
    if let Ok(labels) = idx::read_labels(bytes) {
        assert!(labels.len() + 8 == bytes.len() && labels.iter().all(|&label| label < 10));
    }
});
