//! Checkpoints open with the Python package. Set `SDEBNN_PYTHON` to a Python with `safetensors` and `numpy`.

use std::collections::BTreeMap;
use std::process::Command;

use sdebnn_train::checkpoint::{Checkpoint, CheckpointStore, Tensor};

const SCRIPT: &str = r#"
import hashlib, json, sys
import numpy
from safetensors import safe_open

path = sys.argv[1]
with safe_open(path, framework="numpy") as file:
    assert list(file.keys()) == ["bias", "weight"], list(file.keys())
    weight, bias = file.get_tensor("weight"), file.get_tensor("bias")
    entry = json.loads(file.metadata()["sdebnn"])
assert weight.dtype == numpy.float32 and weight.tolist() == [[1, 2, 3], [4, 5, 6.5]], weight
assert bias.shape == () and bias == -0.25, bias
assert entry["metadata"] == {"step": "12", "trainer": '{"µ": [1, "x\\n"]}'}, entry
digest, bytes = entry["sha256"], open(path, "rb").read()
assert hashlib.sha256(bytes.replace(digest.encode(), b"", 1)).hexdigest() == digest
print("read", path, weight.tolist(), bias.tolist(), entry)
"#;

#[test]
fn python_reads_a_checkpoint() {
    let Some(python) = std::env::var_os("SDEBNN_PYTHON") else {
        println!("skipped: SDEBNN_PYTHON is not set");
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let tensor = |name: &str, shape: &[usize], values: &[f32]| Tensor {
        name: name.into(),
        shape: shape.into(),
        values: values.into(),
    };
    let checkpoint = Checkpoint {
        tensors: vec![tensor("weight", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.5]), tensor("bias", &[], &[-0.25])],
        metadata: BTreeMap::from([("step".into(), "12".into()), ("trainer".into(), r#"{"µ": [1, "x\n"]}"#.into())]),
    };
    CheckpointStore::new(directory.path()).unwrap().save(&checkpoint, 12, |_| true).unwrap();
    let path = directory.path().join("step-00000012.safetensors");
    let output = Command::new(python).args(["-c", SCRIPT]).arg(path).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
