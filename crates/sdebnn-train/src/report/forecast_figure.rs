//! How a sequence goes on: a panel a feature.

use kuva::prelude::*;
use kuva::render::figure::Figure;

use crate::error::Error;
use crate::experiment::sequences::Forecast;
use crate::run_directory::RunDirectory;

/// Features that are drawn, spread over all of them.
const PANELS: usize = 6;
const COLUMNS: usize = 2;

/// Grey for what is known, a red that colour-blind readers tell from it (Tol's vibrant scheme) for what is forecast.
const KNOWN: &str = "#222222";
const FORECAST: &str = "#CC3311";
/// How strongly the band is drawn, and its colour on white for the legend, which has no opacity.
const BAND_OPACITY: f64 = 0.25;
const BAND: &str = "#F2CCC4";

/// Writes `forecast.svg` and `forecast.png`.
pub(crate) fn write(forecast: &Forecast, directory: &RunDirectory) -> Result<(), Error> {
    let features = forecast.observed.first().map_or(0, Vec::len);
    let panels = features.min(PANELS);
    let shown: Vec<usize> = (0..panels).map(|i| i * features / panels).collect();
    let plots: Vec<Vec<Plot>> = shown.iter().map(|&feature| plots(forecast, feature)).collect();
    let bottom = panels.saturating_sub(COLUMNS);
    let layout = |(i, plots): (usize, &Vec<Plot>)| {
        let layout = Layout::auto_from_plots(plots).with_y_label(format!("feature {}", shown[i]));
        if i >= bottom { layout.with_x_label("time, frames") } else { layout }
    };
    let layouts = plots.iter().enumerate().map(layout).collect();
    let title = format!("Forecast of {} frames, {} weight paths", forecast.bands.len(), forecast.samples);
    let scene = Figure::new(panels.div_ceil(COLUMNS), COLUMNS.min(panels))
        .with_title(title)
        .with_cell_size(440.0, 220.0)
        .with_plots(plots)
        .with_layouts(layouts)
        .with_shared_legend_bottom()
        .with_shared_legend_entries(legend())
        .render();
    super::write_scene(directory, "forecast", &scene).map(drop)
}

fn plots(forecast: &Forecast, feature: usize) -> Vec<Plot> {
    let times = |count: usize| (0..count).map(|step| (forecast.first + step) as f64);
    let values = |rows: &[Vec<f64>]| rows.iter().map(|row| row[feature]).collect::<Vec<_>>();
    let bands = || forecast.bands.iter().map(|bands| bands[feature]);
    let count = forecast.bands.len();
    let observed = forecast.observed_times.iter().map(|&time| time as f64).zip(values(&forecast.observed));
    // From the last observed frame on, so that there is no hole between what was and what was to come.
    let truth = observed.clone().next_back().into_iter().chain(times(count).zip(values(&forecast.truth)));
    let line = |color: &str| LinePlot::new().with_color(color).with_stroke_width(2.0);
    vec![
        Plot::Band(
            BandPlot::new(times(count), bands().map(|b| b.low), bands().map(|b| b.high))
                .with_color(FORECAST)
                .with_opacity(BAND_OPACITY),
        ),
        Plot::Line(line(KNOWN).with_data(truth).with_dotted()),
        Plot::Line(line(FORECAST).with_data(times(count).zip(bands().map(|b| b.mean)))),
        Plot::Scatter(ScatterPlot::new().with_data(observed).with_color(KNOWN).with_size(2.0)),
    ]
}

fn legend() -> Vec<LegendEntry> {
    let entry = |label: &str, color: &str, shape| LegendEntry {
        label: label.into(),
        color: color.into(),
        shape,
        dasharray: None,
    };
    vec![
        entry("observed", KNOWN, LegendShape::Circle),
        super::line_entry("truth", KNOWN, &LineStyle::Dotted),
        super::line_entry("forecast, mean", FORECAST, &LineStyle::Solid),
        entry("forecast, 5 % to 95 %", BAND, LegendShape::Rect),
    ]
}
