//! Load plan: settings, and the request sequence that they define.
//!
//! The sequence depends on the seed alone. A slow response delays no later request: the loop is
//! open.

mod text;

use queueing::{ArrivalTimes, Arrivals, Distribution, Priority, Rng, Span, Time};

use crate::protocol::synthetic::{REQUEST_LEN_MAX, REQUEST_LEN_MIN};

/// Maximum number of connections of a plan.
pub const CONNECTIONS_MAX: u32 = 1_000_000;

/// Settings of a run. In a file, spans, distributions and arrivals are text:
/// `timeout = "1s"`, `arrivals = "poisson 10000"`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections, 1..=1000000.
    pub connections: u32,
    /// Assignment of classes to connections.
    pub spread: Spread,
    /// Arrival process.
    pub arrivals: Arrivals,
    /// Number of requests; the run also ends after `duration`, if set.
    pub requests: Option<u64>,
    /// Duration; the run also ends after `requests`, if set.
    pub duration: Option<Span>,
    /// Warm-up: requests due before this are sent but not measured.
    pub warmup: Span,
    /// Request classes, 1..=256; their shares add up to 1.
    pub classes: Vec<RequestClass>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Delay from due to sent above which a request counts as late.
    pub late_after: Span,
    /// Time from due after which an unanswered request is given up.
    pub timeout: Span,
}

/// Class of requests.
#[derive(Clone, Debug)]
pub struct RequestClass {
    /// Name, not empty.
    pub name: String,
    /// Share of all requests, 0.0..=1.0.
    pub share: f64,
    /// Service time distribution.
    pub service: Distribution,
    /// Request length in bytes, 32..=65536.
    pub length: usize,
    /// Request type, for the server's policies.
    pub kind: u8,
    /// Priority tag, 0..=7.
    pub priority: u8,
}

/// Assignment of classes to connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Every connection carries every class.
    #[default]
    Shared,
    /// Each class has connections of its own in proportion to its share, at least one.
    PerClass,
}

/// Invalid plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// Value outside of its range.
    OutOfRange {
        /// Name of the setting.
        name: String,
        /// Value.
        value: String,
        /// Valid range.
        valid: String,
    },
    /// Neither `requests` nor `duration` set.
    NoEnd,
    /// No class.
    NoClasses,
    /// Two classes with this name.
    SameName(String),
}

impl std::fmt::Display for PlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OutOfRange { name, value, valid } => write!(f, "{name} {value} is outside {valid}"),
            Self::NoEnd => write!(f, "the plan has no end: give requests or duration"),
            Self::NoClasses => write!(f, "the plan has no class: give at least one"),
            Self::SameName(name) => write!(f, "class name {name:?} is given twice"),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    /// Plan with defaults: no warm-up, late after 1 ms, timeout 1 s, seed 1. Set `requests` or
    /// `duration` before use.
    #[must_use]
    pub fn new(connections: u32, arrivals: Arrivals, classes: Vec<RequestClass>) -> Self {
        Self {
            connections,
            spread: Spread::default(),
            arrivals,
            requests: None,
            duration: None,
            warmup: Span::ZERO,
            classes,
            seed: 1,
            late_after: Span::from_millis(1),
            timeout: Span::from_secs(1),
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), PlanError> {
        let check = |ok: bool, name: &str, value: &dyn std::fmt::Display, valid: &str| {
            let (name, value, valid) = (name.to_owned(), value.to_string(), valid.to_owned());
            if ok { Ok(()) } else { Err(PlanError::OutOfRange { name, value, valid }) }
        };
        if self.classes.is_empty() {
            return Err(PlanError::NoClasses);
        }
        if self.requests.is_none() && self.duration.is_none() {
            return Err(PlanError::NoEnd);
        }
        let connections = 1..=CONNECTIONS_MAX;
        check(connections.contains(&self.connections), "connections", &self.connections, "1..=1000000")?;
        let rate = self.arrivals.rate_per_s();
        check(rate.is_finite() && rate > 0.0, "arrivals per second", &rate, "0 (excluded) and more")?;
        check(self.requests != Some(0), "requests", &0, "1 and more")?;
        check(self.duration != Some(Span::ZERO), "duration", &Span::ZERO, "1ns and more")?;
        check(self.timeout > Span::ZERO, "timeout", &self.timeout, "1ns and more")?;
        let before_end = self.duration.is_none_or(|d| self.warmup < d);
        check(before_end, "warmup", &self.warmup, "0ns and less than duration")?;
        check(self.classes.len() <= 256, "number of classes", &self.classes.len(), "1..=256")?;
        for (i, class) in self.classes.iter().enumerate() {
            check(!class.name.is_empty(), "class name", &"\"\"", "names of one character and more")?;
            if self.classes[..i].iter().any(|other| other.name == class.name) {
                return Err(PlanError::SameName(class.name.clone()));
            }
            let name = |what: &str| format!("{what} of class {:?}", class.name);
            let level = Priority::new(class.priority).is_some();
            check(level, &name("priority"), &class.priority, "0..=7")?;
            check((0.0..=1.0).contains(&class.share), &name("share"), &class.share, "0..=1")?;
            let length = (REQUEST_LEN_MIN..=REQUEST_LEN_MAX).contains(&class.length);
            check(length, &name("length"), &class.length, "32..=65536")?;
        }
        let shares: f64 = self.classes.iter().map(|c| c.share).sum();
        check((shares - 1.0).abs() < 1e-6, "sum of all shares", &shares, "0.999999..=1.000001")?;
        let needed = if self.spread == Spread::PerClass { self.classes.len() } else { 1 };
        let valid = format!("{needed} and more, one for each class");
        check(self.connections as usize >= needed, "connections", &self.connections, &valid)
    }

    /// Requests in order of due time.
    ///
    /// # Panics
    /// If there is no class; see [`Plan::validate`].
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        let root = Rng::seeded(self.seed);
        let mut below = 0.0;
        let mut first = 0;
        let mut draws = Vec::with_capacity(self.classes.len());
        for (i, class) in self.classes.iter().enumerate() {
            below += class.share;
            let end = match self.spread {
                Spread::Shared => self.connections,
                // Leaves one connection for each later class.
                Spread::PerClass => ((below * f64::from(self.connections)).round() as u32)
                    .max(first + 1)
                    .min(self.connections - (self.classes.len() - 1 - i) as u32),
            };
            draws.push(Draw { below, service: class.service, first, count: end - first });
            if self.spread == Spread::PerClass {
                first = end;
            }
        }
        Sequence {
            arrivals: self.arrivals.times(Time::ZERO, root.fork(0)),
            until: self.duration.map_or(Time::MAX, |d| Time::ZERO + d),
            left: self.requests.unwrap_or(u64::MAX),
            classes: root.fork(1),
            services: root.fork(2),
            connections: root.fork(3),
            draws,
            next_id: 0,
        }
    }
}

/// Request of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Number, from 0.
    pub id: u64,
    /// Index of the class.
    pub class: u16,
    /// Index of the connection.
    pub conn: u32,
    /// Due time, from the start of the run.
    pub intended: Time,
    /// Service time.
    pub service: Span,
}

/// Requests of a plan in order of due time.
///
/// Classes, service times and connections are drawn from separate random streams, so a change
/// of one distribution leaves the other draws unchanged.
pub struct Sequence {
    arrivals: ArrivalTimes,
    until: Time,
    left: u64,
    classes: Rng,
    services: Rng,
    connections: Rng,
    draws: Vec<Draw>,
    next_id: u64,
}

/// Parameters for drawing requests of a class.
struct Draw {
    /// Sum of shares up to and including this class.
    below: f64,
    service: Distribution,
    first: u32,
    count: u32,
}

impl Iterator for Sequence {
    type Item = PlannedRequest;

    fn next(&mut self) -> Option<PlannedRequest> {
        self.left = self.left.checked_sub(1)?;
        let intended = self.arrivals.next().filter(|&t| t < self.until);
        let Some(intended) = intended else {
            self.left = 0;
            return None;
        };
        let point = self.classes.unit();
        let class = self.draws.iter().position(|d| point < d.below).unwrap_or(self.draws.len() - 1);
        let draw = &self.draws[class];
        let request = PlannedRequest {
            id: self.next_id,
            class: class as u16,
            conn: draw.first + self.connections.below(u64::from(draw.count)) as u32,
            intended,
            service: draw.service.sample(&mut self.services),
        };
        self.next_id += 1;
        Some(request)
    }
}

#[cfg(test)]
mod tests;
