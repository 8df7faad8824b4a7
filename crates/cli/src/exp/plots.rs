//! Plots of an experiment: the figure that its world draws over the points, and the parts of that
//! figure.

use std::collections::BTreeSet;

use queueing::Span;

use super::spec::Experiment;
use super::world::World;
use crate::report::Plot;

/// Largest number of bars in one plot.
const BARS_MAX: usize = 60;

/// Plots of `runs`, in the order of the table, from the `mean` of a figure by point, mode and name.
///
/// One line per mode where the points are numbers or times, else one bar per point and mode; and
/// the breakdown of the time into parts.
#[must_use]
pub fn of(
    experiment: &Experiment,
    world: &World,
    runs: &[(&str, &str)],
    mean: impl Fn(&str, &str, &str) -> Option<f64>,
) -> Vec<Plot> {
    let class = &experiment.class;
    let Some(stat) = world.stats.iter().find(|stat| stat.name == world.plot_stat) else { return Vec::new() };
    let several = runs.iter().any(|run| run.0 != runs[0].0);
    let label = |run: &(&str, &str)| format!("{} {}", run.0, run.1).trim().to_owned();
    let title = format!("{} of {class}", stat.name);
    let mut plots = Vec::new();
    let places: BTreeSet<&str> =
        runs.iter().map(|run| run.0).filter(|point| position(point).is_some()).collect();
    if places.len() > 1 {
        let line = |mode: &String| {
            let of_mode = runs.iter().filter(|run| run.1 == mode.as_str());
            let points = of_mode.filter_map(|run| Some((position(run.0)?, mean(run.0, run.1, stat.name)?)));
            (mode.clone(), points.collect::<Vec<_>>())
        };
        let lines = experiment.modes.iter().map(line).filter(|(_, points)| !points.is_empty());
        let varies = experiment.varies.as_deref().unwrap_or("point");
        let is_time = places.iter().any(|point| point.parse::<Span>().is_ok());
        let axes = (axis(varies, if is_time { "µs" } else { "1" }), axis(stat.name, stat.unit));
        plots.push(Plot::line(title, (&axes.0, &axes.1), stat.unit == "µs", lines));
    } else if several && runs.len() <= BARS_MAX {
        let bar = |run: &(&str, &str)| {
            let parts = mean(run.0, run.1, stat.name).map(|value| (stat.name.to_owned(), value));
            (label(run), parts.into_iter().collect::<Vec<_>>())
        };
        plots.push(Plot::bars(title, stat.unit, runs.iter().map(bar)));
    }
    if !world.parts.is_empty() && runs.len() <= BARS_MAX {
        let bar = |run: &(&str, &str)| {
            let part = |stat: &&str| Some(((*stat).to_owned(), mean(run.0, run.1, stat)?));
            (label(run), world.parts.iter().filter_map(part).collect::<Vec<_>>())
        };
        let title = format!("Where the {} of {class} was spent", stat.name);
        plots.push(Plot::bars(title, stat.unit, runs.iter().map(bar)));
    }
    plots
}

fn axis(name: &str, unit: &str) -> String {
    if unit == "1" { name.to_owned() } else { format!("{name}, {unit}") }
}

/// Position of a point on an axis: a number, a percentage or a time in µs.
fn position(point: &str) -> Option<f64> {
    let number = point.strip_suffix('%').unwrap_or(point).parse::<f64>().ok();
    number.or_else(|| Some(point.parse::<Span>().ok()?.as_micros_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_that_are_numbers_shares_or_times_have_a_place() {
        for (point, place) in
            [("0.5", Some(0.5)), ("80%", Some(80.0)), ("2ms", Some(2_000.0)), ("skewed", None)]
        {
            assert_eq!(position(point), place, "{point}");
        }
    }
}
