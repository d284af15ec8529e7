use kuva::prelude::*;

use crate::error::Error;
use crate::experiment::ModelName;
use crate::experiment::toy::Points;
use crate::run_directory::RunDirectory;

/// The prior is grey, the posterior has the model's colour.
const PRIOR: &str = super::LEVEL;
const DATA: &str = "#222222";

/// A mean line and a 95 % band.
pub(crate) struct Band {
    pub mean: Vec<f64>,
    pub low: Vec<f64>,
    pub high: Vec<f64>,
}

/// The paper's first figure: predictive prior and posterior of one model.
pub(crate) struct ToyFigure<'a> {
    /// The model; `None` if the paper does not have it.
    pub model: Option<ModelName>,
    pub x: &'a [f64],
    pub data: &'a Points,
    pub prior: Band,
    pub posterior: Band,
}

impl ToyFigure<'_> {
    /// Writes `NAME.svg` and `NAME.png`.
    pub fn write(&self, directory: &RunDirectory, name: &str) -> Result<String, Error> {
        super::write(directory, name, self.plots(), self.layout())
    }

    fn plots(&self) -> Vec<Plot> {
        let band = |b: &Band, color: &str, opacity: f64| {
            Plot::Band(
                BandPlot::new(self.x.to_vec(), b.low.clone(), b.high.clone()).with_color(color).with_opacity(opacity),
            )
        };
        let line = |b: &Band, color: &str| {
            let points = self.x.iter().copied().zip(b.mean.iter().copied());
            Plot::Line(LinePlot::new().with_data(points).with_color(color).with_stroke_width(2.5))
        };
        let points = self.data.x.iter().copied().zip(self.data.y.iter().copied());
        vec![
            band(&self.prior, PRIOR, 0.18),
            band(&self.posterior, self.color(), 0.30),
            line(&self.prior, PRIOR),
            line(&self.posterior, self.color()),
            Plot::Scatter(ScatterPlot::new().with_data(points).with_color(DATA).with_size(3.0)),
        ]
    }

    fn color(&self) -> &'static str {
        self.model.map_or(DATA, super::color)
    }

    fn layout(&self) -> Layout {
        super::readable(Layout::auto_from_plots(&self.plots()), 440.0)
            .with_title(format!(
                "{}: predictive prior and posterior",
                self.model.map_or("Heavy ball", ModelName::title)
            ))
            .with_x_label("input x")
            .with_y_label("output y")
            .with_x_axis_min(self.x[0])
            .with_x_axis_max(self.x[self.x.len() - 1])
            .with_legend_entries(vec![
                super::line_entry("prior, mean and 95 % band", PRIOR, &LineStyle::Solid),
                super::line_entry("posterior, mean and 95 % band", self.color(), &LineStyle::Solid),
                LegendEntry { label: "data".into(), color: DATA.into(), shape: LegendShape::Circle, dasharray: None },
            ])
            .with_legend_position(LegendPosition::OutsideBottomColumns)
            .with_legend_box(false)
    }
}
