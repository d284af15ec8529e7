//! Continuous-depth Bayesian neural networks: SDE-BNN and Nesterov-SDEBNN.
//!
//! A network's weights are a stochastic process over depth, its layers a differential equation driven by them:
//!
//! ```text
//! dw = f_q(w, t) dt + σ dB                                      weights: OU prior f_p = −w, learned posterior f_q = f_p + NN_φ
//! dh = f_w(h, t) dt                                             SDE-BNN
//! h = s(k(t)) x,  dx = s(m) dt,  dm = [ −m − s(f_w(h,t) + εξ h_temp) ] dt        Nesterov-SDEBNN
//! ```
//!
//! | concept | where |
//! |---|---|
//! | a model, its loss, its predictions | [`model`], [`sequence`], [`prediction`], [`likelihood`], [`config`] |
//! | what moves the activations | [`dynamics`], [`drift`], [`activation`] |
//! | what moves the weights | [`weights`], [`brownian`], [`random`] |
//! | how it is solved | [`solve`], [`method`], [`controller`], [`engine`], [`nfe`] |
//!
//! The parts are independent: any drift network works with any dynamics, method and controller. Nothing here prints, reads a file or a
//! clock, or keeps a global generator; the same seed gives the same bits.

pub mod activation;
pub mod brownian;
pub mod config;
pub mod controller;
pub mod drift;
pub mod dynamics;
pub mod engine;
pub mod error;
mod fused;
mod joint;
pub mod likelihood;
pub mod method;
pub mod mlp;
pub mod model;
pub mod nfe;
pub mod prediction;
pub mod random;
pub mod sequence;
pub mod solve;
pub mod weights;

pub use burn;
pub use error::{ConfigError, Error, SolveError};
