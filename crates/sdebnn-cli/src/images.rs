//! Runs on images: what is said of them.

use anyhow::Result;
use sdebnn_train::experiment::images::{self, ImagesSummary, RunEvaluation};
use sdebnn_train::trainer::Split;
use serde_json::{Map, Value, json};

use crate::arguments::EvalArguments;
use crate::data_directory;
use crate::train::report;

/// What is said of a finished run.
pub fn summary_text(s: &ImagesSummary) -> String {
    format!(
        "\naccuracy {:.2} %   NLL {:.4}   Brier {:.4}   ECE {:.4}   AUC {:.2} %   NFE {:.0}\n\
         {} epochs in {:.0} s, {} parameters, {} weight paths\n",
        100.0 * s.accuracy,
        s.nll,
        s.brier,
        s.ece,
        100.0 * s.auc,
        s.nfe_drift,
        s.epochs,
        s.cost.seconds,
        s.parameters,
        s.samples
    )
}

/// `sdebnn eval` of a run on images.
pub fn evaluate(arguments: &EvalArguments, split: Split) -> Result<()> {
    let images_of = match split {
        Split::Test => "test images",
        Split::Validation => "validation images",
    };
    let data = data_directory(arguments.data.as_ref());
    let samples = arguments.samples.map(|s| s as usize);
    let found = images::evaluate(&arguments.run, &arguments.set, data.as_deref(), split, samples)?;
    let RunEvaluation { classification, values, nfe, samples } = &found;
    let bins: Vec<Value> = classification
        .reliability()
        .iter()
        .map(|bin| json!({"count": bin.count, "confidence": bin.confidence, "accuracy": bin.accuracy}))
        .collect();
    let mut json =
        Map::from_iter([("split".into(), split.key().into()), ("count".into(), classification.count().into())]);
    json.extend(values.iter().map(|(key, value)| (key.to_string(), Value::from(*value))));
    json.extend([("nfe_drift".into(), nfe.nfe_drift.into()), ("samples".into(), (*samples).into())]);
    json.insert("reliability".into(), bins.into());
    report(&arguments.common, &Value::Object(json), || {
        let mut text =
            format!("{} {images_of}, {samples} weight paths, NFE {:.0}\n", classification.count(), nfe.nfe_drift);
        for (key, value) in values {
            text += &format!("  {key:<9} {value:.4}\n");
        }
        text += "\nconfidence   images   mean confidence   accuracy\n";
        for (i, bin) in classification.reliability().iter().enumerate().filter(|(_, bin)| bin.count > 0) {
            let edge = |i: usize| i as f64 / classification.reliability().len() as f64;
            text += &format!(
                "{:.2} to {:.2} {:>8} {:>17.3} {:>10.3}\n",
                edge(i),
                edge(i + 1),
                bin.count,
                bin.confidence,
                bin.accuracy
            );
        }
        text
    })
}
