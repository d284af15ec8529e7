//! What holds for any input of the readers.

use proptest::prelude::*;
use sdebnn_data::{Sequence, cifar, idx, npy};

fn idx_file(magic: u32, sizes: &[u32], data: &[u8]) -> Vec<u8> {
    std::iter::once(&magic).chain(sizes).flat_map(|n| n.to_be_bytes()).chain(data.iter().copied()).collect()
}

fn npy_file(version: u8, fortran: bool, len: usize, features: usize, values: &[f64]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '<f8', 'fortran_order': {order}, 'shape': ({len}, {features}), }}\n");
    let size = header.len() as u32;
    let size = if version == 1 { (size as u16).to_le_bytes().to_vec() } else { size.to_le_bytes().to_vec() };
    let value = |i: usize| if fortran { values[i % len * features + i / len] } else { values[i] };
    let data: Vec<u8> = (0..values.len()).flat_map(|i| value(i).to_le_bytes()).collect();
    [&b"\x93NUMPY"[..], &[version, 0], &size, header.as_bytes(), &data].concat()
}

prop_compose! {
    fn array()(len in 1usize..6, features in 1usize..6)
        (values in prop::collection::vec(-1e300f64..1e300, len * features), len in Just(len), features in Just(features))
        -> (usize, usize, Vec<f64>) {
        (len, features, values)
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = idx::read_images(&bytes[..]);
        let _ = idx::read_labels(&bytes[..]);
        let _ = cifar::read_batch(&bytes[..], 1);
        let _ = npy::parse(&bytes);
    }

    #[test]
    fn no_header_makes_a_reader_panic(sizes in prop::collection::vec(any::<u32>(), 0..4), header in ".{0,80}") {
        let _ = idx::read_images(&idx_file(0x803, &sizes, &[])[..]);
        let _ = idx::read_labels(&idx_file(0x801, &sizes, &[])[..]);
        let len = (header.len() as u32).to_le_bytes();
        let _ = npy::parse(&[&b"\x93NUMPY\x02\0"[..], &len, header.as_bytes()].concat());
    }

    #[test]
    fn changed_arrays_never_make_the_reader_panic(
        (len, features, values) in array(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut file = npy_file(1, false, len, features, &values);
        let at = at.index(file.len());
        file[at] = byte;
        let _ = npy::parse(&file);
    }

    #[test]
    fn labels_come_back_and_no_part_of_their_file_is_read(labels in prop::collection::vec(0u8..10, 1..60)) {
        let file = idx_file(0x801, &[labels.len() as u32], &labels);
        prop_assert_eq!(idx::read_labels(&file[..]), Ok(labels));
        for len in 0..file.len() {
            prop_assert!(idx::read_labels(&file[..len]).is_err());
        }
        prop_assert!(idx::read_labels(&[file, vec![0]].concat()[..]).is_err());
    }

    #[test]
    fn arrays_come_back_and_no_part_of_their_file_is_read(
        (len, features, values) in array(), version in 1u8..=3, fortran in any::<bool>(),
    ) {
        let file = npy_file(version, fortran, len, features, &values);
        prop_assert_eq!(npy::parse(&file), Ok(Sequence::new(features, values)));
        for len in 0..file.len() {
            prop_assert!(npy::parse(&file[..len]).is_err());
        }
        prop_assert!(npy::parse(&[file, vec![0]].concat()).is_err());
    }
}

proptest! {
    // Images are larger, so fewer of them will do.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn images_come_back_and_no_part_of_their_file_is_read(
        pixels in prop::collection::vec(any::<u8>(), 784), cut in any::<prop::sample::Index>(),
    ) {
        let file = idx_file(0x803, &[1, 28, 28], &pixels);
        prop_assert_eq!(idx::read_images(&file[..]), Ok(pixels));
        prop_assert!(idx::read_images(&file[..cut.index(file.len())]).is_err());
        prop_assert!(idx::read_images(&[file, vec![0]].concat()[..]).is_err());
    }

    #[test]
    fn records_come_back_and_no_part_of_their_file_is_read(
        pixels in prop::collection::vec(any::<u8>(), 2 * 3072), labels in any::<[bool; 2]>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let labels = labels.map(u8::from);
        let file = [&labels[..1], &pixels[..3072], &labels[1..], &pixels[3072..]].concat();
        let images = cifar::read_batch(&file[..], 2).unwrap();
        prop_assert_eq!(images.labels(), &labels);
        prop_assert_eq!([images.image(0), images.image(1)].concat(), pixels);
        prop_assert!(cifar::read_batch(&file[..cut.index(file.len())], 2).is_err());
        prop_assert!(cifar::read_batch(&[file, vec![0]].concat()[..], 2).is_err());
    }
}
