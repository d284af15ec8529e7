//! What every way of solving pays for an error.

use kuva::prelude::*;
use sdebnn::controller::Controller;
use sdebnn::method::Method;

use crate::bench::SolvePoint;
use crate::error::Error;
use crate::run_directory::RunDirectory;

/// A colour a method, a kind of line a controller. Colour-blind readers tell the colours apart (Tol's vibrant scheme).
fn look(method: Method, controller: Controller) -> (&'static str, LineStyle) {
    let color = match method {
        Method::Euler => "#777777",
        Method::Midpoint => "#0077BB",
        Method::Heun => "#EE7733",
        Method::Sra1 => "#CC3311",
    };
    let style = match controller {
        Controller::Fixed => LineStyle::Solid,
        Controller::StepDoubling => LineStyle::Dotted,
        Controller::Embedded => LineStyle::Dashed,
    };
    (color, style)
}

/// Writes the error over drift evaluations and over seconds, as `NAME-evaluations` and `NAME-seconds`, SVG and PNG.
pub fn write(title: &str, points: &[SolvePoint], directory: &RunDirectory, file: &str) -> Result<(), Error> {
    for axis in ["evaluations", "seconds"] {
        let (label, work): (_, fn(&SolvePoint) -> f64) = match axis {
            "evaluations" => ("drift evaluations of a solve", |point| point.evaluations),
            _ => ("seconds of a solve", |point| point.seconds),
        };
        let (mut plots, mut legend) = (Vec::new(), Vec::new());
        for method in Method::ALL {
            for controller in [Controller::Fixed, Controller::StepDoubling, Controller::Embedded] {
                let of = |p: &&SolvePoint| (p.method, p.controller) == (method, controller) && p.error > 0.0;
                let data: Vec<(f64, f64)> = points.iter().filter(of).map(|p| (work(p), p.error)).collect();
                if data.is_empty() {
                    continue;
                }
                let (color, style) = look(method, controller);
                legend.push(super::line_entry(&format!("{}, {}", method.key(), controller.key()), color, &style));
                let dots = ScatterPlot::new().with_data(data.iter().copied()).with_color(color).with_size(3.0);
                let line = LinePlot::new().with_data(data).with_color(color).with_stroke_width(2.0);
                plots.push(Plot::Line(line.with_line_style(style)));
                plots.push(Plot::Scatter(dots));
            }
        }
        let layout = Layout::auto_from_plots(&plots)
            .with_title(title)
            .with_x_label(label)
            .with_y_label("error of h(T), root mean square")
            .with_width(760.0)
            .with_height(560.0)
            .with_log_x()
            .with_log_y()
            .with_legend_entries(legend)
            .with_legend_position(LegendPosition::OutsideBottomColumns)
            .with_legend_box(false);
        super::write(directory, &format!("{file}-{axis}"), plots, layout)?;
    }
    Ok(())
}
