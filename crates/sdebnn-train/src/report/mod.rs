//! Figures.

pub(crate) mod toy_figure;
