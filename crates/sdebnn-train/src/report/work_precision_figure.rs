//! What every way of solving pays for an error.

use std::sync::Arc;

use kuva::prelude::*;
use kuva::render::layout::TickFormat;
use sdebnn::controller::Controller;
use sdebnn::method::Method;

use crate::bench::SolvePoint;
use crate::error::Error;
use crate::run_directory::RunDirectory;

const CONTROLLERS: [Controller; 3] = [Controller::Fixed, Controller::StepDoubling, Controller::Embedded];

/// Space for the labels at the left and right, in pixels: the layout reserves too little for logarithmic axes.
const MARGINS: (f64, f64) = (84.0, 28.0);

/// A colour a method. Colour-blind readers tell them apart (Tol's vibrant scheme).
fn color(method: Method) -> &'static str {
    match method {
        Method::Euler => "#777777",
        Method::Midpoint => "#0077BB",
        Method::Heun => "#EE7733",
        Method::Sra1 => "#CC3311",
    }
}

/// A kind of line a controller.
fn style(controller: Controller) -> LineStyle {
    match controller {
        Controller::Fixed => LineStyle::Solid,
        Controller::StepDoubling => LineStyle::Custom("2 5".into()),
        Controller::Embedded => LineStyle::Custom("11 6".into()),
    }
}

/// Writes the error over drift evaluations and over seconds, as `NAME-evaluations` and `NAME-seconds`, SVG and PNG.
pub fn write(title: &str, points: &[SolvePoint], directory: &RunDirectory, file: &str) -> Result<(), Error> {
    for axis in ["evaluations", "seconds"] {
        let (label, work): (_, fn(&SolvePoint) -> f64) = match axis {
            "evaluations" => ("drift evaluations of a solve", |point| point.evaluations),
            _ => ("seconds of a solve", |point| point.seconds),
        };
        let mut plots = Vec::new();
        for method in Method::ALL {
            for controller in CONTROLLERS {
                let of = |p: &&SolvePoint| (p.method, p.controller) == (method, controller) && p.error > 0.0;
                let data: Vec<(f64, f64)> = points.iter().filter(of).map(|p| (work(p), p.error)).collect();
                if data.is_empty() {
                    continue;
                }
                let dots = ScatterPlot::new().with_data(data.iter().copied()).with_color(color(method)).with_size(3.0);
                let line = LinePlot::new().with_data(data).with_color(color(method)).with_stroke_width(2.0);
                plots.push(Plot::Line(line.with_line_style(style(controller))));
                plots.push(Plot::Scatter(dots));
            }
        }
        let methods = Method::ALL.map(|method| super::line_entry(method.key(), color(method), &LineStyle::Solid));
        let controllers =
            CONTROLLERS.map(|controller| super::line_entry(controller.key(), "#000000", &style(controller)));
        let layout = Layout::auto_from_plots(&plots)
            .with_title(title)
            .with_x_label(label)
            .with_y_label("error of h(T), root mean square")
            .with_width(760.0)
            .with_height(560.0)
            .with_log_x()
            .with_log_y()
            .with_y_tick_format(TickFormat::Custom(Arc::new(|value| format!("{value:.0e}"))))
            .with_force_margins(MARGINS.0, MARGINS.1)
            .with_legend_entries(methods.into_iter().chain(controllers).collect())
            .with_legend_col_limit(Method::ALL.len())
            .with_legend_position(LegendPosition::OutsideBottomColumns)
            .with_legend_box(false);
        super::write(directory, &format!("{file}-{axis}"), plots, layout)?;
    }
    Ok(())
}
