//! Figures, tables, and the page that shows them.

pub(crate) mod curve_figure;
pub mod figures;
pub(crate) mod forecast_figure;
pub mod page;
pub mod run;
pub mod section;
pub mod sentences;
pub mod spread;
pub mod table;
pub mod tables;
pub(crate) mod toy_figure;
pub mod work_precision_figure;

use kuva::backend::png::PngBackend;
use kuva::backend::svg::SvgBackend;
use kuva::prelude::{Layout, LegendEntry, LegendShape, LineStyle, Plot};
use kuva::render::render::{Scene, render_multiple};

use crate::error::Error;
use crate::experiment::ModelName;
use crate::run_directory::RunDirectory;

/// A blue and a red that colour-blind readers tell apart (Tol's vibrant scheme): the models' colours in every figure.
fn color(model: ModelName) -> &'static str {
    match model {
        ModelName::SdeBnn => "#0077BB",
        ModelName::Nesterov => "#CC3311",
    }
}

/// What lines are compared with.
const LEVEL: &str = "#777777";

/// Writes a figure as `NAME.svg` and `NAME.png`, and returns the former.
fn write(directory: &RunDirectory, name: &str, plots: Vec<Plot>, layout: Layout) -> Result<String, Error> {
    write_scene(directory, name, &render_multiple(plots, layout))
}

fn write_scene(directory: &RunDirectory, name: &str, scene: &Scene) -> Result<String, Error> {
    let svg = SvgBackend.render_scene(scene);
    directory.write(&format!("{name}.svg"), svg.as_bytes())?;
    let png = PngBackend::new()
        .render_scene(scene)
        .map_err(|message| Error::Figure { name: format!("{name}.png"), message })?;
    directory.write(&format!("{name}.png"), &png)?;
    Ok(svg)
}

/// Sizes that can be read on a phone, where a figure is shrunk to two thirds.
fn readable(layout: Layout, height: f64) -> Layout {
    layout
        .with_width(560.0)
        .with_height(height)
        .with_title_size(17)
        .with_label_size(15)
        .with_tick_size(14)
        .with_body_size(14)
}

/// What a legend says of a line.
fn line_entry(label: &str, color: &str, style: &LineStyle) -> LegendEntry {
    LegendEntry { label: label.into(), color: color.into(), shape: LegendShape::Line, dasharray: style.dasharray() }
}
