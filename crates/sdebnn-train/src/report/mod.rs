//! Figures.

pub mod curve_figure;
pub(crate) mod forecast_figure;
pub(crate) mod toy_figure;
pub mod work_precision_figure;

use kuva::backend::png::PngBackend;
use kuva::backend::svg::SvgBackend;
use kuva::prelude::{Layout, LegendEntry, LegendShape, LineStyle, Plot};
use kuva::render::render::{Scene, render_multiple};

use crate::error::Error;
use crate::run_directory::RunDirectory;

/// Writes a figure as `NAME.svg` and `NAME.png`.
fn write(directory: &RunDirectory, name: &str, plots: Vec<Plot>, layout: Layout) -> Result<(), Error> {
    write_scene(directory, name, &render_multiple(plots, layout))
}

fn write_scene(directory: &RunDirectory, name: &str, scene: &Scene) -> Result<(), Error> {
    directory.write(&format!("{name}.svg"), SvgBackend.render_scene(scene).as_bytes())?;
    let png = PngBackend::new()
        .render_scene(scene)
        .map_err(|message| Error::Figure { name: format!("{name}.png"), message })?;
    directory.write(&format!("{name}.png"), &png)
}

/// What a legend says of a line.
fn line_entry(label: &str, color: &str, style: &LineStyle) -> LegendEntry {
    LegendEntry { label: label.into(), color: color.into(), shape: LegendShape::Line, dasharray: style.dasharray() }
}
