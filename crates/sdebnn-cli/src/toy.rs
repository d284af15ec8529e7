//! Runs of the toy experiment: what is said of them.

use sdebnn_train::experiment::toy::ToySummary;

/// What is said of a finished run.
pub fn summary_text(s: &ToySummary) -> String {
    format!(
        "\nRMSE {:.4} (noise {})   NLL {:.3}   inside 95 %: {:.1} %   band: {:.3} at data, {:.3} in the gap   NFE {:.0}\n\
         {} epochs in {:.0} s, {} parameters, {} weight paths\n",
        s.fit.rmse,
        s.noise,
        s.fit.nll,
        100.0 * s.fit.coverage95,
        s.fit.band_data,
        s.fit.band_gap,
        s.nfe_drift,
        s.epochs,
        s.cost.seconds,
        s.parameters,
        s.samples
    )
}
