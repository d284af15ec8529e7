//! Event files open with TensorBoard. Set `SDEBNN_PYTHON` to a Python with `tensorboard`.

use std::io::Write;
use std::process::Command;

use sdebnn_train::tensorboard::EventFile;

const SCRIPT: &str = r#"
import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

events = EventAccumulator(sys.argv[1]).Reload()
assert sorted(events.Tags()["scalars"]) == ["accuracy/test", "loss/train"], events.Tags()
loss = [(e.wall_time, e.step, e.value) for e in events.Scalars("loss/train")]
assert loss == [(1700000000.0 + s, s, s / 4) for s in [0, 1, 2, 3, 300]], loss
accuracy = [(e.step, e.value) for e in events.Scalars("accuracy/test")]
assert accuracy == [(s, 0.5) for s in [0, 1, 2, 3, 300]], accuracy
assert events.file_version == 2.0 and events.FirstEventTimestamp() == 1700000000.5
# What the web page shows goes through this loader.
loaded = list(EventFileLoader(sys.argv[1]).Load())
assert len(loaded) == 6 and loaded[0].file_version == "brain.Event:2", loaded
assert loaded[1].summary.value[0].metadata.plugin_data.plugin_name == "scalars", loaded[1]
print("read", loss, accuracy)
"#;

#[test]
fn tensorboard_reads_a_resumed_file() {
    let Some(python) = std::env::var_os("SDEBNN_PYTHON") else {
        println!("skipped: SDEBNN_PYTHON is not set");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let append = |file: &mut EventFile, step: u64| {
        let scalars = [("loss/train", step as f32 / 4.0), ("accuracy/test", 0.5)];
        file.append(1_700_000_000.0 + step as f64, step, &scalars).unwrap();
    };
    let mut file = EventFile::create(directory.path(), 1_700_000_000.5).unwrap();
    (0..9).for_each(|step| append(&mut file, step));
    let path = EventFile::find(directory.path()).unwrap().unwrap();
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"torn").unwrap();
    let mut file = EventFile::resume(&path, Some(2)).unwrap();
    [3, 300].into_iter().for_each(|step| append(&mut file, step));

    let output = Command::new(python).args(["-c", SCRIPT]).arg(path).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
