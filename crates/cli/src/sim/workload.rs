//! Workload of a simulation, as given on the command line.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use queueing::Arrivals;
use sim::fabric::{Config, Sizes};

/// `websearch`, `datamining`, `list BYTES*TIMES …`, `incast N [BYTES]`,
/// `all-to-all [BYTES]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// The text as given.
    pub text: String,
    /// Flow sizes, as [`Sizes`] reads them.
    pub sizes: String,
    /// Senders and receivers, where the workload sets them.
    pub senders: Option<toml::Value>,
}

/// Default bytes of a flow of an incast or all-to-all.
const ROUND_BYTES: &str = "20000";

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "workload {text:?} is not one of websearch, datamining, \"list BYTES*TIMES …\", \
                 \"incast N [BYTES]\", \"all-to-all [BYTES]\""
            )
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let (sizes, senders) = match words.as_slice() {
            ["incast", senders, bytes @ ..] => {
                let senders: u32 = senders.parse().map_err(|_| bad())?;
                let incast = toml::Table::from_iter([("incast".to_owned(), toml::Value::from(senders))]);
                (round(bytes).ok_or_else(bad)?, Some(toml::Value::Table(incast)))
            }
            ["all-to-all", bytes @ ..] => (round(bytes).ok_or_else(bad)?, Some("all-to-all".into())),
            words => (words.join(" "), None),
        };
        sizes.parse::<Sizes>().map_err(|_| bad())?;
        Ok(Self { text: text.to_owned(), sizes, senders })
    }
}

/// Sizes of flows with equal bytes, as given in `words`.
fn round(words: &[&str]) -> Option<String> {
    match words {
        [] => Some(format!("list {ROUND_BYTES}")),
        [bytes] => bytes.parse().is_ok_and(|bytes: u64| bytes > 0).then(|| format!("list {bytes}")),
        _ => None,
    }
}

/// Spacing of flow starts: a process with its own rate, or one whose rate follows from the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spacing {
    /// `poisson`: exponential gaps.
    Poisson,
    /// `uniform`: equal gaps.
    Uniform,
    /// `burst N`: bursts of N at equal gaps.
    Burst(u64),
    /// As [`Arrivals`] reads it.
    Given(Arrivals),
}

impl Spacing {
    /// The arrivals, at `rate_per_s` unless they have a rate of their own.
    pub fn at(self, rate_per_s: f64) -> Arrivals {
        match self {
            Self::Poisson => Arrivals::Poisson { rate_per_s },
            Self::Uniform => Arrivals::Uniform { rate_per_s },
            Self::Burst(size) => Arrivals::Burst {
                size,
                period: queueing::Span::from_secs_f64(size as f64 / rate_per_s),
                spacing: queueing::Span::ZERO,
            },
            Self::Given(arrivals) => arrivals,
        }
    }
}

impl FromStr for Spacing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["poisson"] => Ok(Self::Poisson),
            ["uniform"] => Ok(Self::Uniform),
            ["burst", size] if size.parse().is_ok_and(|size: u64| size > 0) => {
                Ok(Self::Burst(size.parse().unwrap_or(1)))
            }
            _ => text.parse().map(Self::Given).map_err(|_| {
                format!(
                    "arrivals {text:?} is not one of poisson, uniform, \"burst SIZE\" (at the rate of the load), \
                     \"poisson RATE\", \"uniform RATE\" (per second), \"burst SIZE PERIOD SPACING\""
                )
            }),
        }
    }
}

/// A seed, `7`, or a range with both ends, `1..10`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeds(pub RangeInclusive<u64>);

impl Seeds {
    const MOST: u64 = 10_000;
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "seeds {text:?} are not a number or FIRST..LAST, at most {} of them, such as 1..10",
                Self::MOST
            )
        };
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let (first, last): (u64, u64) = (first.parse().map_err(|_| bad())?, last.parse().map_err(|_| bad())?);
        let few = first <= last && last - first < Self::MOST && last <= i64::MAX as u64;
        few.then_some(Self(first..=last)).ok_or_else(bad)
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.start(), self.0.end()) {
            (first, last) if first == last => write!(f, "seed {first}"),
            (first, last) => write!(f, "seeds {first}..{last}"),
        }
    }
}

/// A load as a share of a host's line rate, above 0: `0.8`.
pub fn load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load: &f64| load.is_finite() && *load > 0.0);
    load.ok_or_else(|| format!("load {text:?} is not a number above 0, such as 0.8"))
}

/// Expected number of flows in a run.
#[must_use]
pub fn flows_expected(config: &Config) -> u64 {
    use sim::fabric::Senders;
    if config.planned.is_some() {
        return config.flows.into();
    }
    let hosts = config.topology.hosts();
    let per_arrival = match config.senders {
        Senders::First => 1.0,
        senders => senders.flows_per_arrival(hosts) * f64::from(hosts),
    };
    let begun = config.arrivals.rate_per_s() * per_arrival * config.limit.as_secs_f64();
    (begun as u64).min(config.flows.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_give_sizes_and_senders() {
        let read = |text: &str| text.parse::<Workload>().map(|w| (w.sizes, w.senders.map(|s| s.to_string())));
        let found = |sizes: &str, senders: Option<&str>| Ok((sizes.to_owned(), senders.map(str::to_owned)));
        assert_eq!(read("websearch"), found("websearch", None));
        assert_eq!(read("list 50000*8 1000"), found("list 50000*8 1000", None));
        assert_eq!(read("incast 8"), found("list 20000", Some("{ incast = 8 }")));
        assert_eq!(read("all-to-all 1000"), found("list 1000", Some("\"all-to-all\"")));
        for text in ["", "web", "incast", "incast x", "incast 8 0", "incast 8 1 2", "all-to-all x", "list"] {
            assert!(read(text).is_err_and(|e| e.contains("not one of websearch")), "{text:?}");
        }
    }

    #[test]
    fn spacing_takes_its_rate_from_the_load_or_has_one() {
        let rate = |text: &str| text.parse::<Spacing>().map(|spacing| spacing.at(50.0).rate_per_s());
        for text in ["poisson", "uniform", "burst 10"] {
            assert_eq!(rate(text), Ok(50.0), "{text}");
        }
        assert_eq!(rate("poisson 7"), Ok(7.0));
        for text in ["", "burst 0", "burst", "poisson 0", "gauss"] {
            assert!(rate(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn seeds_are_one_or_a_range_with_both_ends() {
        let seeds = |text: &str| text.parse::<Seeds>().map(|seeds| seeds.0.collect::<Vec<_>>());
        assert_eq!(seeds("7"), Ok(vec![7]));
        assert_eq!(seeds("1..3"), Ok(vec![1, 2, 3]));
        for text in ["", "3..1", "1..x", "1..99999999", "-1"] {
            assert!(seeds(text).is_err(), "{text:?}");
        }
    }
}
