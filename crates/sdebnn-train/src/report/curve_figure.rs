//! A number against epochs or time, one line a run.

use kuva::prelude::*;

use crate::error::Error;
use crate::experiment::ModelName;
use crate::run_directory::RunDirectory;

/// More points than this are drawn as a line without dots.
const DOTS: usize = 40;

/// A blue and a red that colour-blind readers tell apart (Tol's vibrant scheme): the models' colours in every figure.
fn color(model: ModelName) -> &'static str {
    match model {
        ModelName::SdeBnn => "#0077BB",
        ModelName::Nesterov => "#CC3311",
    }
}

const LEVEL: &str = "#777777";

fn style(dashed: bool) -> LineStyle {
    if dashed { LineStyle::Dashed } else { LineStyle::Solid }
}

/// One line of a figure.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The model, which decides the colour.
    pub model: ModelName,
    /// Whether the line is dashed.
    pub dashed: bool,
    /// What the legend says.
    pub legend: String,
    /// Its points.
    pub points: Vec<(f64, f64)>,
}

/// Lines in one system of axes.
#[derive(Debug)]
pub struct CurveFigure<'a> {
    /// The title.
    pub title: &'a str,
    /// What is along the horizontal axis, with its unit.
    pub x_label: &'a str,
    /// What is along the vertical axis, with its unit.
    pub y_label: &'a str,
    /// Whether the vertical axis is logarithmic.
    pub log_y: bool,
    /// The lines.
    pub curves: Vec<Curve>,
    /// A value to compare with, and what the legend says of it.
    pub level: Option<(&'a str, f64)>,
}

impl CurveFigure<'_> {
    /// Writes `NAME.svg` and `NAME.png`.
    pub fn write(&self, directory: &RunDirectory, name: &str) -> Result<(), Error> {
        super::write(directory, name, self.plots(), self.layout())
    }

    fn plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        for Curve { model, dashed, points, .. } in &self.curves {
            let line = LinePlot::new().with_data(points.iter().copied()).with_color(color(*model));
            plots.push(Plot::Line(line.with_stroke_width(2.5).with_line_style(style(*dashed))));
            if points.len() <= DOTS {
                let dots = ScatterPlot::new().with_data(points.iter().copied());
                plots.push(Plot::Scatter(dots.with_color(color(*model)).with_size(3.0)));
            }
        }
        if let Some((_, level)) = self.level {
            let xs = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|(x, _)| *x));
            let ends = [xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max)];
            let line = LinePlot::new().with_data(ends.map(|x| (x, level))).with_color(LEVEL).with_dotted();
            plots.push(Plot::Line(line.with_stroke_width(2.0)));
        }
        plots
    }

    fn layout(&self) -> Layout {
        // The legend is listed here, because only so its height is known to the layout.
        let curves = self.curves.iter();
        let mut legend: Vec<LegendEntry> =
            curves.map(|c| super::line_entry(&c.legend, color(c.model), &style(c.dashed))).collect();
        legend.extend(self.level.map(|(level, _)| super::line_entry(level, LEVEL, &LineStyle::Dotted)));
        let height = 380.0 + 20.0 * legend.len() as f64;
        let layout = Layout::auto_from_plots(&self.plots())
            .with_title(self.title)
            .with_x_label(self.x_label)
            .with_y_label(self.y_label)
            .with_width(760.0)
            .with_height(height)
            .with_legend_entries(legend)
            .with_legend_position(LegendPosition::OutsideBottomColumns)
            .with_legend_box(false);
        if self.log_y { layout.with_log_y() } else { layout }
    }
}
