//! Explicit one-step methods for additive noise.

use serde::{Deserialize, Serialize};

/// A method as its tableau. With stages `i`, step `Δt`, increment `ΔB` and space–time Lévy area `H`
/// ([`increment_and_area`](crate::brownian::BrownianPath::increment_and_area)),
///
/// ```text
/// yᵢ = y + Δt Σⱼ aᵢⱼ f(tⱼ, yⱼ) + cᵢ σ (ΔB + eᵢ H)        tᵢ = t + cᵢ Δt
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
    /// The factors `eᵢ` of the Lévy area; all 0 in methods that do not ask for it.
    pub areas: &'static [f64],
}

/// Euler–Maruyama: `y⁺ = y + f(t, y) Δt + σ ΔB`.
pub const EULER: Tableau = Tableau { nodes: &[0.0], stages: &[&[]], weights: &[1.0], areas: &[0.0] };

/// Stratonovich midpoint: `y' = y + ½ f(t, y) Δt + ½ σ ΔB`, `y⁺ = y + f(t + ½Δt, y') Δt + σ ΔB`.
pub const MIDPOINT: Tableau =
    Tableau { nodes: &[0.0, 0.5], stages: &[&[], &[0.5]], weights: &[0.0, 1.0], areas: &[0.0, 0.0] };

/// Stratonovich Heun: `y' = y + f(t, y) Δt + σ ΔB`, `y⁺ = y + ½ (f(t, y) + f(t + Δt, y')) Δt + σ ΔB`.
pub const HEUN: Tableau =
    Tableau { nodes: &[0.0, 1.0], stages: &[&[], &[1.0]], weights: &[0.5, 0.5], areas: &[0.0, 0.0] };

/// SRA1 (Rößler, 2010), of strong order 1.5: `y' = y + ¾ f(t, y) Δt + (3/2) σ I₁₀/Δt`, `y⁺ = y + (⅓ f(t, y) + ⅔ f(t + ¾Δt, y')) Δt + σ ΔB`,
/// where `I₁₀ = ∫ (B(r) − B(t)) dr = Δt (½ΔB + H)`, so that `(3/2) I₁₀/Δt = ¾ (ΔB + 2H)`.
pub const SRA1: Tableau =
    Tableau { nodes: &[0.0, 0.75], stages: &[&[], &[0.75]], weights: &[1.0 / 3.0, 2.0 / 3.0], areas: &[0.0, 2.0] };

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
    /// [`SRA1`], two drift evaluations a step, and strong order 1.5 where the others have 1.
    Sra1,
}

impl Method {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Euler, Self::Midpoint, Self::Heun, Self::Sra1];

    /// Its name in configurations and tables.
    pub fn key(self) -> &'static str {
        match self {
            Self::Euler => "euler",
            Self::Midpoint => "midpoint",
            Self::Heun => "heun",
            Self::Sra1 => "sra1",
        }
    }

    /// The method's coefficients.
    pub fn tableau(self) -> &'static Tableau {
        match self {
            Self::Euler => &EULER,
            Self::Midpoint => &MIDPOINT,
            Self::Heun => &HEUN,
            Self::Sra1 => &SRA1,
        }
    }
}

impl Tableau {
    /// Whether the method wants to know the space–time Lévy area of the path.
    pub fn asks_for_areas(&self) -> bool {
        self.areas.iter().any(|&e| e != 0.0)
    }

    /// Rows of noise a step: `ΔB`, or, with areas, `ΔB + eᵢ H` of every stage after the first and then `ΔB`.
    pub(crate) fn increments(&self) -> usize {
        if self.asks_for_areas() { self.nodes.len() } else { 1 }
    }

    /// The time of stage `i` in the step from `t0` to `t1`.
    pub(crate) fn time(&self, i: usize, t0: f64, t1: f64) -> f64 {
        if self.nodes[i] == 1.0 { t1 } else { t0 + self.nodes[i] * (t1 - t0) }
    }
}
