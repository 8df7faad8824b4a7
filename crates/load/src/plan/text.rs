//! Plans as text: spans, distributions and arrivals with units.
//!
//! A deserialised plan is valid.

use std::fmt::Display;
use std::str::FromStr;

use queueing::{Arrivals, Distribution, Span};
use serde::de::{Deserialize, Deserializer, Error};

use super::{Plan, RequestClass, Spread};

/// Value parsed from a string.
struct Text<T>(T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanText {
    connections: u32,
    #[serde(default)]
    spread: Spread,
    arrivals: Text<Arrivals>,
    requests: Option<u64>,
    duration: Option<Text<Span>>,
    warmup: Option<Text<Span>>,
    classes: Vec<ClassText>,
    seed: Option<u64>,
    late_after: Option<Text<Span>>,
    timeout: Option<Text<Span>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassText {
    name: String,
    share: f64,
    service: Text<Distribution>,
    #[serde(default = "shortest")]
    length: usize,
    #[serde(default)]
    kind: u8,
    #[serde(default = "least_urgent")]
    priority: u8,
}

const fn shortest() -> usize {
    super::REQUEST_LEN_MIN
}

const fn least_urgent() -> u8 {
    queueing::Priority::LOWEST.level()
}

impl<'de> Deserialize<'de> for Plan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = PlanText::deserialize(from)?;
        let class = |c: ClassText| RequestClass {
            name: c.name,
            share: c.share,
            service: c.service.0,
            length: c.length,
            kind: c.kind,
            priority: c.priority,
        };
        let defaults =
            Self::new(text.connections, text.arrivals.0, text.classes.into_iter().map(class).collect());
        let or = |given: Option<Text<Span>>, default| given.map_or(default, |text| text.0);
        let plan = Self {
            spread: text.spread,
            requests: text.requests,
            duration: text.duration.map(|text| text.0),
            warmup: or(text.warmup, defaults.warmup),
            seed: text.seed.unwrap_or(defaults.seed),
            late_after: or(text.late_after, defaults.late_after),
            timeout: or(text.timeout, defaults.timeout),
            ..defaults
        };
        plan.validate().map_err(D::Error::custom)?;
        Ok(plan)
    }
}
