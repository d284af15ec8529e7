//! Explicit one-step methods for additive noise.

use serde::{Deserialize, Serialize};

/// A method as its tableau. With stages `i`, step `Δt` and increment `ΔB`,
///
/// ```text
/// yᵢ = y + Δt Σⱼ aᵢⱼ f(tⱼ, yⱼ) + cᵢ σ ΔB        tᵢ = t + cᵢ Δt
/// y⁺ = y + Δt Σᵢ bᵢ f(tᵢ, yᵢ) + σ ΔB
/// ```
#[derive(Debug, PartialEq)]
pub struct Tableau {
    /// The nodes `cᵢ`.
    pub nodes: &'static [f64],
    /// The rows `aᵢⱼ`, `j < i`.
    pub stages: &'static [&'static [f64]],
    /// The weights `bᵢ`.
    pub weights: &'static [f64],
}

/// Euler–Maruyama: `y⁺ = y + f(t, y) Δt + σ ΔB`.
pub const EULER: Tableau = Tableau { nodes: &[0.0], stages: &[&[]], weights: &[1.0] };

/// Stratonovich midpoint: `y' = y + ½ f(t, y) Δt + ½ σ ΔB`, `y⁺ = y + f(t + ½Δt, y') Δt + σ ΔB`.
pub const MIDPOINT: Tableau = Tableau { nodes: &[0.0, 0.5], stages: &[&[], &[0.5]], weights: &[0.0, 1.0] };

/// Stratonovich Heun: `y' = y + f(t, y) Δt + σ ΔB`, `y⁺ = y + ½ (f(t, y) + f(t + Δt, y')) Δt + σ ΔB`.
pub const HEUN: Tableau = Tableau { nodes: &[0.0, 1.0], stages: &[&[], &[1.0]], weights: &[0.5, 0.5] };

/// The methods by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// [`EULER`], one drift evaluation a step.
    Euler,
    /// [`MIDPOINT`], two drift evaluations a step.
    #[default]
    Midpoint,
    /// [`HEUN`], two drift evaluations a step.
    Heun,
}

impl Method {
    /// Its name in configurations and tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::Euler => "euler",
            Self::Midpoint => "midpoint",
            Self::Heun => "heun",
        }
    }

    /// The method's coefficients.
    pub fn tableau(self) -> &'static Tableau {
        match self {
            Self::Euler => &EULER,
            Self::Midpoint => &MIDPOINT,
            Self::Heun => &HEUN,
        }
    }
}

impl Tableau {
    /// The time of stage `i` in the step from `t0` to `t1`.
    pub(crate) fn time(&self, i: usize, t0: f64, t1: f64) -> f64 {
        if self.nodes[i] == 1.0 { t1 } else { t0 + self.nodes[i] * (t1 - t0) }
    }
}
