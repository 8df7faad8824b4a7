//! Plot as data in a result, so that a page rendered later shows the same curves.
//!
//! Deliberately has no style, and no scale except where only the writer knows it; rendering is in
//! [`super::plots`].

use serde::{Deserialize, Serialize};

use super::html::{escape, wide};
use super::plots::{cdf_plot, line_plot, stacked_bars};

/// A plot that a result carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "plot", rename_all = "lowercase")]
pub enum Plot {
    /// Distributions of latency: points are µs and the share of requests answered within, 0..=1.
    Cdf {
        /// Title.
        title: String,
        /// Curves.
        series: Vec<Series>,
    },
    /// Lines over a parameter or over time.
    Line {
        /// Title.
        title: String,
        /// Title of the x axis, with its unit.
        x: String,
        /// Title of the y axis, with its unit.
        y: String,
        /// True if the y axis is logarithmic.
        log_y: bool,
        /// Lines.
        series: Vec<Series>,
    },
    /// Stacked bars.
    Bars {
        /// Title.
        title: String,
        /// Unit of the lengths.
        unit: String,
        /// Bars from top to bottom; the points of a bar are its parts.
        bars: Vec<Bar>,
    },
}

/// A curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

/// A bar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    name: String,
    parts: Vec<(String, f64)>,
}

/// Name and points of a curve, as callers pass them.
type Curve = (String, Vec<(f64, f64)>);

/// Keeps finite points only: JSON has no other numbers.
fn series(curves: impl IntoIterator<Item = Curve>) -> Vec<Series> {
    let finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
    let one = |(name, points): Curve| Series { name, points: points.into_iter().filter(finite).collect() };
    curves.into_iter().map(one).collect()
}

fn curves(series: &[Series]) -> Vec<Curve> {
    series.iter().map(|series| (series.name.clone(), series.points.clone())).collect()
}

impl Plot {
    /// Creates distributions; points are µs and shares.
    pub fn cdf(title: impl Into<String>, curves: impl IntoIterator<Item = Curve>) -> Self {
        Self::Cdf { title: title.into(), series: series(curves) }
    }

    /// Creates lines; `axes` are the titles of x and y.
    pub fn line(
        title: impl Into<String>,
        axes: (&str, &str),
        log_y: bool,
        lines: impl IntoIterator<Item = Curve>,
    ) -> Self {
        let (x, y) = (axes.0.to_owned(), axes.1.to_owned());
        Self::Line { title: title.into(), x, y, log_y, series: series(lines) }
    }

    /// Creates a plot of stacked bars, whose parts are in `unit`.
    pub fn bars(
        title: impl Into<String>,
        unit: &str,
        bars: impl IntoIterator<Item = (String, Vec<(String, f64)>)>,
    ) -> Self {
        let bar = |(name, mut parts): (String, Vec<(String, f64)>)| {
            parts.retain(|part| part.1.is_finite());
            Bar { name, parts }
        };
        Self::Bars { title: title.into(), unit: unit.to_owned(), bars: bars.into_iter().map(bar).collect() }
    }

    /// Title.
    #[must_use]
    pub fn title(&self) -> &str {
        match self {
            Self::Cdf { title, .. } | Self::Line { title, .. } | Self::Bars { title, .. } => title,
        }
    }

    /// Stand-alone SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        match self {
            Self::Cdf { title, series } => cdf_plot(title, &curves(series)),
            Self::Line { title, x, y, log_y, series } => line_plot(title, x, y, *log_y, &curves(series)),
            Self::Bars { title, unit, bars } => {
                let bars: Vec<_> = bars.iter().map(|bar| (bar.name.clone(), bar.parts.clone())).collect();
                stacked_bars(title, unit, &bars)
            }
        }
    }

    /// SVG for an HTML page.
    #[must_use]
    pub fn html(&self) -> String {
        let label = format!("<svg role=\"img\" aria-label=\"{}\" ", escape(self.title()));
        wide(self.title(), &self.svg().replacen("<svg ", &label, 1))
    }

    /// One plot with the curves of `a` and `b`, which have the same title. None for bars, whose
    /// parts have colours already, and for more curves than can be distinguished.
    #[must_use]
    pub fn overlay(a: &Self, b: &Self) -> Option<Self> {
        let both = |a: &[Series], b: &[Series]| {
            let of = |run: &'static str, series: &[Series]| {
                series
                    .iter()
                    .map(move |s| Series { name: format!("{run} {}", s.name), points: s.points.clone() })
                    .collect::<Vec<_>>()
            };
            let all = [of("A", a), of("B", b)].concat();
            (all.len() <= CURVES_MAX).then_some(all)
        };
        match (a, b) {
            (Self::Cdf { title, series }, Self::Cdf { title: other, series: other_series })
                if title == other =>
            {
                Some(Self::Cdf { title: title.clone(), series: both(series, other_series)? })
            }
            (
                Self::Line { title, x, y, log_y, series },
                Self::Line { title: other, series: other_series, .. },
            ) if title == other => {
                let (title, x, y, series) =
                    (title.clone(), x.clone(), y.clone(), both(series, other_series)?);
                Some(Self::Line { title, x, y, log_y: *log_y, series })
            }
            _ => None,
        }
    }
}

/// Largest number of curves that can be distinguished in one plot.
const CURVES_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str) -> Curve {
        (name.to_owned(), vec![(5.0, 0.5), (f64::NAN, 0.7), (80.0, 1.0)])
    }

    #[test]
    fn a_plot_is_the_same_after_it_was_written_and_read() {
        let bars = [("adps".to_owned(), vec![("nic".to_owned(), 3.0), ("tcp".to_owned(), f64::NAN)])];
        let plots = [
            Plot::cdf("LS", [curve("none")]),
            Plot::line("p99", ("load", "µs"), true, [curve("none")]),
            Plot::bars("stages", "µs", bars),
        ];
        for plot in plots {
            let text = serde_json::to_string(&plot).unwrap();
            assert_eq!(serde_json::from_str::<Plot>(&text).unwrap(), plot, "{text}");
            assert!(plot.html().contains("<svg role=\"img\" aria-label="), "{text}");
        }
    }

    #[test]
    fn two_runs_curves_share_one_plot_if_they_show_the_same() {
        let (a, b) = (Plot::cdf("LS", [curve("none")]), Plot::cdf("LS", [curve("none")]));
        let Some(Plot::Cdf { series, .. }) = Plot::overlay(&a, &b) else { panic!("not a distribution") };
        assert_eq!(series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["A none", "B none"]);
        assert_eq!(Plot::overlay(&a, &Plot::cdf("BE", [curve("none")])), None);
    }
}
