//! Walker2D: recorded motion of a simulated walker, one NumPy file a roll-out.

use std::path::{Path, PathBuf};

use crate::{Error, Flaw, Sequence, npy};

/// Joint positions and velocities in every step.
pub const FEATURES: usize = 17;
/// The folder that the published archive unpacks to.
pub const FOLDER: &str = "walker";

/// Reads all roll-outs in `dir/walker` or in `dir` itself, in the order of their names.
pub fn load(dir: &Path) -> Result<Vec<Sequence>, Error> {
    let folder = folder(dir)?;
    let sequences = npy::load_folder(&folder)?;
    // The files of a folder have equally many features, so the first speaks for all.
    if let Some(first) = sequences.first()
        && first.features() != FEATURES
    {
        let flaw = Flaw::new(0, format!("{} features", first.features()), format!("{FEATURES} features"));
        return Err(Error::Format { path: npy::files(&folder)?.swap_remove(0), flaw });
    }
    Ok(sequences)
}

/// Where the roll-outs lie.
fn folder(dir: &Path) -> Result<PathBuf, Error> {
    let places = [dir.join(FOLDER), dir.into()];
    let has_arrays = |place: &&PathBuf| npy::files(place).is_ok_and(|files| !files.is_empty());
    places.iter().find(has_arrays).cloned().ok_or_else(|| Error::Missing {
        title: "Walker2D",
        name: "walker2d",
        looked_for: format!("files *.npy in {} and in {}", places[0].display(), places[1].display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_folder_says_how_to_get_the_data() {
        let dir = tempfile::tempdir().unwrap();
        let message = load(dir.path()).unwrap_err().to_string();
        assert!(message.contains("walker") && message.contains("sdebnn data fetch walker2d"), "{message}");
    }

    #[test]
    fn roll_outs_have_seventeen_features() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = b"\x93NUMPY\x01\0\x3c\0{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1), }\n".to_vec();
        file.extend(1f64.to_le_bytes());
        std::fs::write(dir.path().join("rollout_000.npy"), file).unwrap();
        let message = load(dir.path()).unwrap_err().to_string();
        assert!(message.contains("rollout_000.npy") && message.contains("found 1 features, expected 17"), "{message}");
    }
}
