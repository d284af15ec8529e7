//! A number against epochs or time, one line a group of runs.

use std::sync::Arc;

use kuva::prelude::*;
use kuva::render::layout::TickFormat;

use super::{LEVEL, color};
use crate::error::Error;
use crate::experiment::ModelName;
use crate::run_directory::RunDirectory;

/// More points than this are drawn as a line without dots.
const DOTS: usize = 40;

/// A line of the legend, and the rest of a figure.
const LEGEND_LINE: f64 = 24.0;
const HEIGHT: f64 = 350.0;

fn style(dashed: bool) -> LineStyle {
    if dashed { LineStyle::Dashed } else { LineStyle::Solid }
}

/// A point over seeds: where it is, the mean, the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Point {
    /// A number of each seed at one place.
    pub(super) fn of(x: f64, numbers: &[f64]) -> Self {
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let fold = |pick: fn(f64, f64) -> f64| numbers.iter().copied().fold(f64::NAN, pick);
        Self { x, mean, low: fold(f64::min), high: fold(f64::max) }
    }
}

/// One line of a figure, with a band if the seeds differ.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// The model, which decides the colour.
    pub(super) model: ModelName,
    pub(super) dashed: bool,
    pub(super) legend: String,
    pub(super) points: Vec<Point>,
}

/// What lines are compared with.
#[derive(Clone, Debug)]
pub(super) enum Level {
    /// A value.
    Value(&'static str, f64),
    /// The diagonal from (0, 0) to (1, 1).
    Diagonal(&'static str),
}

/// Lines in one system of axes.
#[derive(Debug)]
pub(super) struct CurveFigure {
    pub(super) title: String,
    /// What is along the axes, with units.
    pub(super) x_label: &'static str,
    pub(super) y_label: &'static str,
    pub(super) log_y: bool,
    pub(super) curves: Vec<Curve>,
    pub(super) level: Option<Level>,
}

impl CurveFigure {
    /// Writes `NAME.svg` and `NAME.png`, and returns the former.
    pub(super) fn write(&self, directory: &RunDirectory, name: &str) -> Result<String, Error> {
        super::write(directory, name, self.plots(), self.layout())
    }

    fn plots(&self) -> Vec<Plot> {
        let mut plots = Vec::new();
        for Curve { model, dashed, points, .. } in &self.curves {
            let points: Vec<Point> = points.iter().copied().filter(|point| point.mean.is_finite()).collect();
            let line = || points.iter().map(|point| (point.x, point.mean));
            if points.iter().any(|point| point.low < point.high) {
                let [x, low, high] =
                    [|p: &Point| p.x, |p: &Point| p.low, |p: &Point| p.high].map(|of| points.iter().map(of));
                let band = BandPlot::new(x, low, high);
                plots.push(Plot::Band(band.with_color(color(*model)).with_opacity(0.18)));
            }
            let plot = LinePlot::new().with_data(line()).with_color(color(*model));
            plots.push(Plot::Line(plot.with_stroke_width(2.5).with_line_style(style(*dashed))));
            if points.len() <= DOTS {
                let dots = ScatterPlot::new().with_data(line());
                plots.push(Plot::Scatter(dots.with_color(color(*model)).with_size(3.0)));
            }
        }
        if let Some(level) = &self.level {
            let xs = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.x));
            let ends = match level {
                Level::Value(_, level) => {
                    [xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max)].map(|x| (x, *level))
                }
                Level::Diagonal(_) => [(0.0, 0.0), (1.0, 1.0)],
            };
            let line = LinePlot::new().with_data(ends).with_color(LEVEL).with_dotted();
            plots.push(Plot::Line(line.with_stroke_width(2.0)));
        }
        plots
    }

    /// Whole epochs from tick to tick.
    fn epoch_step(&self) -> f64 {
        let epochs = self.curves.iter().map(|curve| curve.points.len()).max().unwrap_or(1);
        let steps = [1, 2, 5, 10, 20, 50, 100, 200, 500];
        steps.into_iter().find(|step| epochs <= 6 * step).unwrap_or(1000) as f64
    }

    fn layout(&self) -> Layout {
        // The legend is listed here, because only so its height is known to the layout.
        let curves = self.curves.iter();
        let mut legend: Vec<LegendEntry> =
            curves.map(|c| super::line_entry(&c.legend, color(c.model), &style(c.dashed))).collect();
        legend.extend(self.level.as_ref().map(|level| {
            let (Level::Value(text, _) | Level::Diagonal(text)) = level;
            super::line_entry(text, LEVEL, &LineStyle::Dotted)
        }));
        let height = HEIGHT + LEGEND_LINE * legend.len() as f64;
        let layout = super::readable(Layout::auto_from_plots(&self.plots()), height)
            .with_title(&self.title)
            .with_x_label(self.x_label)
            .with_y_label(self.y_label)
            .with_legend_entries(legend)
            .with_legend_position(LegendPosition::OutsideBottomColumns)
            .with_legend_box(false);
        let layout = match self.x_label {
            "epoch" => layout.with_x_tick_step(self.epoch_step()),
            _ => layout,
        };
        match self.log_y {
            // Not 1e-1 beside 0.50.
            true => layout.with_log_y().with_y_tick_format(TickFormat::Custom(Arc::new(|value| format!("{value}")))),
            false => layout,
        }
    }
}
