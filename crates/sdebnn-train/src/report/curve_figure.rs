//! A metric by epoch, one line a run.

use kuva::prelude::*;

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

/// A metric by epoch, one line a run.
#[derive(Debug)]
pub struct CurveFigure<'a> {
    /// The title.
    pub title: &'a str,
    /// The metric, with its unit.
    pub y_label: &'a str,
    /// Model, legend, and a value after each epoch.
    pub curves: Vec<(ModelName, String, Vec<f64>)>,
}

impl CurveFigure<'_> {
    /// Writes `NAME.svg` and `NAME.png`.
    pub fn write(&self, directory: &RunDirectory, name: &str) -> Result<(), Error> {
        super::write(directory, name, self.plots(), self.layout())
    }

    fn plots(&self) -> Vec<Plot> {
        let line = |(model, legend, values): &(ModelName, String, Vec<f64>)| {
            let points = values.iter().enumerate().map(|(epoch, value)| (epoch as f64 + 1.0, *value));
            let (line, dots) = (LinePlot::new().with_data(points.clone()), ScatterPlot::new().with_data(points));
            [
                Plot::Line(line.with_color(color(*model)).with_stroke_width(2.5).with_legend(legend.as_str())),
                Plot::Scatter(dots.with_color(color(*model)).with_size(3.0)),
            ]
        };
        self.curves.iter().flat_map(line).collect()
    }

    fn layout(&self) -> Layout {
        Layout::auto_from_plots(&self.plots())
            .with_title(self.title)
            .with_x_label("epoch")
            .with_y_label(self.y_label)
            .with_width(760.0)
            .with_height(420.0)
            .with_legend_position(LegendPosition::OutsideBottomColumns)
            .with_legend_box(false)
    }
}
