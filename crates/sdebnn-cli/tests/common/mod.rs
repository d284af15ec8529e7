//! What the tests of training share: how a command ended, and what a run directory holds.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[track_caller]
pub fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[track_caller]
pub fn fails(output: &Output, parts: &[&str]) {
    let message = text(&output.stderr);
    assert!(!output.status.success() && !message.contains("panicked"), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

/// Everything in a run directory that must not depend on when, how often interrupted, and on how many threads it was run.
#[allow(dead_code, reason = "not every test looks at run directories")]
pub fn contents(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for directory in ["", "checkpoints"] {
        for entry in std::fs::read_dir(run.join(directory)).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(run).expect("inside").display().to_string();
            if path.is_file() && !name.starts_with("events.") {
                let bytes = std::fs::read(&path).expect("a file");
                files.insert(name.clone(), if name.contains("json") { without_seconds(&bytes) } else { bytes });
            }
        }
    }
    files
}

fn without_seconds(bytes: &[u8]) -> Vec<u8> {
    let rows = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let strip = |row: Result<Value, _>| {
        let mut row = row.expect("JSON");
        let numbers = row.as_object_mut().expect("an object");
        numbers.remove("seconds").expect("seconds");
        numbers.retain(|key, _| !["seconds", "prediction_ms", "peak_memory_mib"].iter().any(|of| key.ends_with(of)));
        row.to_string() + "\n"
    };
    rows.flat_map(|row| strip(row).into_bytes()).collect()
}

/// Starts a command and kills it after a while. Whether it was still at work.
#[allow(dead_code, reason = "not every test kills")]
pub fn killed(command: &mut Command, after: Duration) -> bool {
    let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program runs");
    std::thread::sleep(after);
    let ended = child.try_wait().expect("a child");
    child.kill().expect("a child");
    child.wait().expect("a child");
    ended.is_none()
}

#[track_caller]
pub fn same(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, bytes) in expected {
        assert!(&found[name] == bytes, "{name} differs");
    }
}
