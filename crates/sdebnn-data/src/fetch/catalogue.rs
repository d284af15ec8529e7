//! The published data sets: where they are, and how to tell that they are whole.

use crate::{cifar, walker};

/// A published data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataSet {
    /// Handwritten digits: 70,000 images of 28 × 28 grey pixels.
    Mnist,
    /// Small photographs in ten classes: 60,000 images of 32 × 32 coloured pixels.
    Cifar10,
    /// The motion of a simulated walker: 400 sequences of 17 features.
    Walker2d,
}

/// What is to be downloaded for a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The data set.
    pub set: DataSet,
    /// Its files.
    pub files: Vec<Remote>,
    /// The folder that the files, as archives, unpack to; `None` if they are used as they are.
    pub unpacks_to: Option<&'static str>,
}

/// A file that one or more addresses have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its path below the directory of the data.
    pub name: String,
    /// Where it is: the addresses are tried in this order.
    pub addresses: Vec<String>,
    /// Its size in bytes, if published.
    pub size: Option<u64>,
    /// Its SHA-256 digest in hexadecimal digits, if known.
    pub sha256: Option<String>,
}

/// Who has the files of MNIST under their own names. The first two are copies; the publisher's own server is often closed.
const MNIST: [&str; 3] = [
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
];

/// The publisher's archive of CIFAR-10 (with the MD5 digest c32a1d4ab5d03f1284b67883e8d87530), and a copy.
const CIFAR10: [&str; 2] = [
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10/cifar-10-binary.tar.gz",
];

/// The authors of liquid time-constant networks published Walker2D at their two institutes, without a digest.
const WALKER2D: [&str; 2] = [
    "https://people.csail.mit.edu/mlechner/datasets/walker.zip",
    "https://pub.ist.ac.at/~mlechner/datasets/walker.zip",
];

impl DataSet {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mnist, Self::Cifar10, Self::Walker2d];

    /// What it is called on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mnist => "mnist",
            Self::Cifar10 => "cifar10",
            Self::Walker2d => "walker2d",
        }
    }

    /// The data set of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// What is to be downloaded for it.
    ///
    /// Walker2D has no published digest: its archive is checked by its own check sums, and every array by the strict reader.
    pub fn entry(self) -> Entry {
        let archive = |name: &str, addresses: &[&str], size, sha256: Option<&str>| Remote {
            name: name.into(),
            addresses: addresses.iter().map(|&address| address.into()).collect(),
            size,
            sha256: sha256.map(str::to_owned),
        };
        let (files, unpacks_to) = match self {
            Self::Mnist => (MNIST_FILES.iter().map(mnist_file).collect(), None),
            Self::Cifar10 => {
                let sum = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd";
                (vec![archive("cifar-10-binary.tar.gz", &CIFAR10, Some(170_052_171), Some(sum))], Some(cifar::FOLDER))
            }
            Self::Walker2d => (vec![archive("walker.zip", &WALKER2D, None, None)], Some(walker::FOLDER)),
        };
        Entry { set: self, files, unpacks_to }
    }

    /// How much of what was published, in the order of [`super::Contents::counts`].
    pub(super) fn published_counts(self) -> Vec<usize> {
        match self {
            Self::Mnist => vec![60_000, 10_000],
            Self::Cifar10 => vec![50_000, 10_000],
            Self::Walker2d => vec![400],
        }
    }

    /// The SHA-256 digests of the published contents, uncompressed, by file name.
    pub(super) fn content_sums(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Mnist => &[
                ("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
                ("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
                ("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
                ("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
            ],
            Self::Cifar10 => &[
                ("data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
                ("data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
                ("data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
                ("data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
                ("data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
                ("test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
            ],
            Self::Walker2d => &[],
        }
    }
}

/// Name, size and SHA-256 digest of the published files of MNIST. Their MD5 digests are f68b3c2dcbeaaa9fbdd348bbdeb94873,
/// d53e105ee54ea40749a09fcbcd1e9432, 9fb629c4189551a2d022fa330f9573f3 and ec29112dd5afa0611ce80d1b7f02629c.
const MNIST_FILES: [(&str, u64, &str); 4] = [
    ("train-images-idx3-ubyte.gz", 9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
    ("train-labels-idx1-ubyte.gz", 28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    ("t10k-images-idx3-ubyte.gz", 1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
    ("t10k-labels-idx1-ubyte.gz", 4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
];

fn mnist_file(&(name, size, sum): &(&str, u64, &str)) -> Remote {
    Remote {
        name: format!("mnist/{name}"),
        addresses: MNIST.iter().map(|address| format!("{address}{name}")).collect(),
        size: Some(size),
        sha256: Some(sum.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_name_their_data_set() {
        assert!(DataSet::ALL.iter().all(|&set| DataSet::from_name(set.name()) == Some(set)));
        assert_eq!(DataSet::from_name("imagenet"), None);
    }

    #[test]
    fn digests_are_whole() {
        for set in DataSet::ALL {
            let files = set.entry().files.into_iter().filter_map(|file| file.sha256);
            let sums = files.chain(set.content_sums().iter().map(|(_, sum)| sum.to_string()));
            assert!(sums.clone().all(|sum| sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_hexdigit())));
        }
    }
}
