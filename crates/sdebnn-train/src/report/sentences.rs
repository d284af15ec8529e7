//! What to see in a figure, said from its numbers.

use super::curve_figure::Curve;
use super::section::{Group, Section};
use super::spread::Spread;
use crate::experiment::grid::SolverName;

/// Which numbers are better.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    Higher,
    Lower,
}

/// How a difference between two models compares with what seeds alone do.
fn weight(difference: f64, a: &Spread, b: &Spread, decimals: usize) -> String {
    match (a.std, b.std) {
        (Some(a), Some(b)) => {
            let spread = a.max(b);
            let relation = if difference.abs() > 2.0 * spread { "more than twice" } else { "not beyond twice" };
            format!("{relation} the standard deviation over seeds, {spread:.decimals$}")
        }
        _ => "one seed cannot tell how much of it is chance".into(),
    }
}

/// "Nesterov-SDEBNN 99.00 %, SDE-BNN 98.92 %: Nesterov-SDEBNN is better by 0.08; …"
fn contrast(
    pair: (&Group, &Group),
    numbers: impl Fn(&Group) -> Spread,
    unit: &str,
    decimals: usize,
    better: Better,
) -> String {
    let (baseline, nesterov) = pair;
    let (a, b) = (numbers(baseline), numbers(nesterov));
    let difference = b.mean - a.mean;
    let (base, other) = (baseline.model.title(), nesterov.model.title());
    let values = format!("{base} {}{unit}, {other} {}{unit}", a.text(decimals), b.text(decimals));
    if !difference.is_finite() {
        return values;
    }
    let shown = format!("{:.decimals$}", difference.abs());
    if shown.chars().all(|c| matches!(c, '0' | '.')) {
        return format!("{values}: no difference");
    }
    let winner = if (difference > 0.0) == (better == Better::Higher) { other } else { base };
    format!("{values}: {winner} is better by {shown}, {}", weight(difference, &a, &b, decimals))
}

/// In how many of the epochs that both have the Nesterov model is ahead.
fn ahead(pair: (&Group, &Group), key: &str, better: Better) -> String {
    let mean = |numbers: Vec<f64>| Spread::of(&numbers).mean;
    let epochs = pair.0.epochs(key).into_iter().zip(pair.1.epochs(key));
    let (mut count, mut won) = (0, 0);
    for (a, b) in epochs.map(|(a, b)| (mean(a), mean(b))) {
        count += 1;
        won += usize::from(if better == Better::Higher { b > a } else { b < a });
    }
    format!("{} is ahead in {won} of {count} epochs", pair.1.model.title())
}

/// A sentence for every pair.
fn of_pairs(pairs: &[(&Group, &Group)], sentence: impl Fn((&Group, &Group)) -> String) -> String {
    let say = |pair: &(&Group, &Group)| format!("With {}: {}.", pair.0.condition(), sentence(*pair));
    match pairs.is_empty() {
        true => "There is no pair of models to compare.".into(),
        false => pairs.iter().map(say).collect::<Vec<_>>().join(" "),
    }
}

/// Of the predictive posterior of one model.
pub(super) fn toy(group: &Group) -> String {
    let [data, gap, inside] =
        [("band_data", 1.0), ("band_gap", 1.0), ("coverage95", 100.0)].map(|(k, f)| group.last_times(k, f));
    let ratio = gap.mean / data.mean;
    let opens = if ratio >= 1.5 { "opens" } else { "hardly opens" };
    let seeds = if group.runs.len() > 1 {
        format!(", means of {} seeds; the figure shows the first", group.runs.len())
    } else {
        String::new()
    };
    format!(
        "The posterior's band {opens} where there is no data: {gap:.3} wide in the gap, {data:.3} elsewhere, {ratio:.1} times. \
         {inside:.1} % of held-out points lie inside their 95 % intervals{seeds}.",
        gap = gap.mean,
        data = data.mean,
        inside = inside.mean
    )
}

/// Of test accuracy by epoch.
pub(super) fn accuracy(section: &Section) -> String {
    of_pairs(&section.pairs(), |pair| {
        let end = contrast(pair, |group| group.last_times("accuracy", 100.0), " %", 2, Better::Higher);
        format!("{end}; {}", ahead(pair, "test_accuracy", Better::Higher))
    })
}

/// Of function evaluations by epoch.
pub(super) fn nfe(section: &Section, key: &str) -> String {
    let last = |group: &Group| Spread::of(&group.epochs(key).pop().unwrap_or_default());
    of_pairs(&section.pairs(), |pair| {
        let (a, b) = (last(pair.0), last(pair.1));
        let values = format!("{} needs {}, {} {}", pair.0.model.title(), a.text(1), pair.1.model.title(), b.text(1));
        let share = 100.0 * (b.mean - a.mean) / a.mean;
        let relation = match share {
            _ if share.abs() < 0.5 => "as many".into(),
            _ if share < 0.0 => format!("{:.0} % fewer", -share),
            _ => format!("{share:.0} % more"),
        };
        let papers = section.paper.filter(|_| pair.0.solver == SolverName::Adaptive).and_then(|paper| {
            let [a, b] = [pair.0.model, pair.1.model].map(|model| paper.paper_nfe(model));
            Some(format!("; the paper has about {:.0} and {:.0}", a? / 2.0, b? / 2.0))
        });
        format!("{values} in the last epoch, {relation}{}", papers.unwrap_or_default())
    })
}

/// Of reliability diagrams.
pub(super) fn reliability(section: &Section) -> String {
    of_pairs(&section.pairs(), |pair| {
        format!("expected calibration error {}", contrast(pair, |group| group.last("ece"), "", 4, Better::Lower))
    })
}

/// Of the test loss by epoch.
pub(super) fn test_loss(section: &Section, solver: SolverName) -> String {
    let mse = |group: &Group| group.last("mse");
    let share = |group: &Group| 100.0 * mse(group).mean / group.last("no_change").mean;
    let pairs: Vec<_> = section.pairs().into_iter().filter(|pair| pair.0.solver == solver).collect();
    of_pairs(&pairs, |pair| {
        format!(
            "{}; that is {:.0} % and {:.0} % of the error of predicting no change. {}",
            contrast(pair, mse, "", 4, Better::Lower),
            share(pair.0),
            share(pair.1),
            ahead(pair, "test_mse", Better::Lower)
        )
    })
}

/// Of gradient norms by `T − t`.
pub(super) fn gradient_norms(curves: &[Curve]) -> String {
    let say = |curve: &Curve| {
        let by_time = |a: &&super::curve_figure::Point, b: &&super::curve_figure::Point| a.x.total_cmp(&b.x);
        let ends = curve.points.iter().min_by(by_time).zip(curve.points.iter().max_by(by_time))?;
        let (near, far) = ends;
        let orders = near.mean - far.mean;
        let verb = if orders >= 0.0 { "falls" } else { "grows" };
        Some(format!(
            "{} {verb} by {:.1} orders of magnitude over {:.0} frames",
            curve.legend,
            orders.abs(),
            far.x - near.x
        ))
    };
    let all: Vec<String> = curves.iter().filter_map(say).collect();
    match all.is_empty() {
        true => "No gradient is large enough for 32 bits.".into(),
        false => format!("From the end of a window to its beginning, the gradient of {}.", all.join("; that of ")),
    }
}
