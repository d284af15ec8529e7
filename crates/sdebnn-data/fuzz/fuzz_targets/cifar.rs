//! Any bytes as a file of CIFAR-10 with one record or two.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdebnn_data::cifar;

fuzz_target!(|bytes: &[u8]| {
    for records in [1, 2] {
        if let Ok(images) = cifar::read_batch(bytes, records) {
            assert_eq!((images.len(), records * 3073), (records, bytes.len()));
        }
    }
});
