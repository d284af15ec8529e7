//! Figures.

pub mod curve_figure;
pub(crate) mod toy_figure;
