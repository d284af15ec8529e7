//! Any bytes as a NumPy array.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sdebnn_data::npy;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(sequence) = npy::parse(bytes) {
        assert!(!sequence.is_empty() && sequence.values().iter().all(|value| value.is_finite()));
    }
});
