//! Conditions on a report, such as `p99>5ms`: true if the run failed by them.

use std::fmt;
use std::str::FromStr;

use queueing::{Histogram, Span};

use crate::report::Report;

/// A condition: metric, comparison and limit.
#[derive(Clone, Debug, PartialEq)]
pub struct FailCondition {
    metric: Metric,
    comparison: Comparison,
    limit: Limit,
}

/// Metrics by name: of latency, counts, and rates.
const METRICS: [(&str, Metric); 8] = [
    ("p50", Metric::Quantile(0.5)),
    ("p90", Metric::Quantile(0.9)),
    ("p99", Metric::Quantile(0.99)),
    ("p999", Metric::Quantile(0.999)),
    ("p99.9", Metric::Quantile(0.999)),
    ("max", Metric::Max),
    ("errors", Metric::Errors),
    ("rate", Metric::Rate),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Metric {
    /// Quantile of latency, from the due time.
    Quantile(f64),
    /// Longest latency.
    Max,
    /// Requests without a good response.
    Errors,
    /// Good responses per second.
    Rate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Comparisons by their text, the longer first.
const COMPARISONS: [(&str, Comparison); 4] = [
    (">=", Comparison::AtLeast),
    ("<=", Comparison::AtMost),
    (">", Comparison::Above),
    ("<", Comparison::Below),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    Span(Span),
    Count(f64),
    /// Share of all requests, 0.0..=1.0.
    Share(f64),
}

impl FromStr for FailCondition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not METRIC>LIMIT or METRIC<LIMIT, such as p99>5ms");
        let parts = |&(sign, comparison)| {
            let (name, limit) = text.split_once(sign)?;
            Some((name.trim(), comparison, limit.trim()))
        };
        let (name, comparison, limit) = COMPARISONS.iter().find_map(parts).ok_or_else(bad)?;
        let metric = METRICS.iter().find(|(known, _)| *known == name).map(|(_, metric)| *metric);
        let names = || METRICS.map(|(name, _)| name).join(", ");
        let metric = metric.ok_or_else(|| format!("metric {name:?} is not one of {}", names()))?;
        let limit = metric.limit(limit).map_err(|why| format!("{text:?}: {why}"))?;
        Ok(Self { metric, comparison, limit })
    }
}

impl Metric {
    /// Parses a limit of this metric.
    fn limit(self, text: &str) -> Result<Limit, String> {
        let number = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        match (self, text.strip_suffix('%')) {
            (Self::Quantile(_) | Self::Max, _) => text.parse().map(Limit::Span).map_err(|e| format!("{e}")),
            (Self::Errors, Some(share)) => number(share)
                .filter(|share| *share <= 100.0)
                .map(|share| Limit::Share(share / 100.0))
                .ok_or_else(|| format!("{text:?} is not a share of 0% to 100%")),
            (Self::Errors | Self::Rate, _) => {
                number(text).map(Limit::Count).ok_or_else(|| format!("{text:?} is not a number of 0 or more"))
            }
        }
    }
}

impl FailCondition {
    /// True if `report`, whose requests were due within `measured`, fails by this condition. Without any
    /// response every condition on latency is true.
    #[must_use]
    pub fn is_met(&self, report: &Report, measured: Span) -> bool {
        let (errors, requests) = (report.errors() as f64, report.requests() as f64);
        let value = match (self.metric, self.limit) {
            (Metric::Quantile(_) | Metric::Max, _) => {
                let mut all = Histogram::new();
                report.classes.iter().for_each(|class| all.merge(&class.latency));
                if all.count() == 0 {
                    return true;
                }
                match self.metric {
                    Metric::Quantile(q) => all.quantile(q).as_secs_f64(),
                    _ => all.max().as_secs_f64(),
                }
            }
            (Metric::Errors, Limit::Share(_)) => errors / requests.max(1.0),
            (Metric::Errors, _) => errors,
            (Metric::Rate, _) => (requests - errors) / measured.as_secs_f64().max(1e-9),
        };
        let limit = match self.limit {
            Limit::Span(span) => span.as_secs_f64(),
            Limit::Count(limit) | Limit::Share(limit) => limit,
        };
        match self.comparison {
            Comparison::Above => value > limit,
            Comparison::AtLeast => value >= limit,
            Comparison::Below => value < limit,
            Comparison::AtMost => value <= limit,
        }
    }
}

impl fmt::Display for FailCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metric = METRICS.iter().find(|(_, metric)| *metric == self.metric).map_or("", |(name, _)| *name);
        let sign = COMPARISONS.iter().find(|(_, of)| *of == self.comparison).map_or("", |(sign, _)| *sign);
        match self.limit {
            Limit::Span(span) => write!(f, "{metric}{sign}{span}"),
            Limit::Count(limit) => write!(f, "{metric}{sign}{limit}"),
            Limit::Share(share) => write!(f, "{metric}{sign}{}%", share * 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ClassReport;

    /// 1000 requests in 10 s: 990 answered after 1 to 990 ms, 5 of them by errors; 10 unanswered.
    fn report(answered: u64) -> Report {
        let mut latency = Histogram::new();
        (1..=answered).for_each(|ms| latency.record(Span::from_millis(ms)));
        let unanswered = 1000 - answered;
        let class = ClassReport { requests: 1000, unanswered, errors: 5, latency, ..ClassReport::default() };
        Report { classes: vec![class], ..Report::default() }
    }

    //~ load: `--fail-if` compares latencies, errors and rates of a run with limits
    #[test]
    fn a_condition_is_met_or_not() {
        let report = report(990);
        for (text, expected) in [
            ("p50>400ms", true),
            ("p50>600ms", false),
            ("p50 < 600ms", true),
            ("p90>900ms", false),
            ("p99>970ms", true),
            ("p999>1s", false),
            ("p99.9>980ms", true),
            ("max>=990ms", true),
            ("max>1s", false),
            ("errors>14", true),
            ("errors>15", false),
            ("errors>=1.5%", true),
            ("errors>2%", false),
            ("rate<98.6", true),
            ("rate<98.4", false),
            ("rate<=98.5", true),
        ] {
            let condition: FailCondition = text.parse().expect(text);
            assert_eq!(condition.is_met(&report, Span::from_secs(10)), expected, "{text}");
        }
    }

    #[test]
    fn without_a_response_no_latency_is_good() {
        let none = report(0);
        for text in ["p99>1s", "p99<1s", "max>1s"] {
            assert!(text.parse::<FailCondition>().unwrap().is_met(&none, Span::from_secs(10)), "{text}");
        }
    }

    #[test]
    fn an_invalid_condition_is_refused_with_the_valid_form() {
        let refused = |text: &str, says: &str| {
            let e = text.parse::<FailCondition>().expect_err(text);
            assert!(e.contains(says), "{e}");
        };
        refused("p99", "is not METRIC>LIMIT or METRIC<LIMIT, such as p99>5ms");
        refused("p98>5ms", "metric \"p98\" is not one of p50, p90, p99, p999, ");
        refused("p99>5", "number with a unit");
        refused("errors>101%", "is not a share of 0% to 100%");
        refused("rate<many", "is not a number of 0 or more");
        assert_eq!("p99.9 >= 5ms".parse::<FailCondition>().unwrap().to_string(), "p999>=5.00 ms");
        assert_eq!("errors>0.1%".parse::<FailCondition>().unwrap().to_string(), "errors>0.1%");
    }
}
