//! What is to be sent and when: settings, and the sequence they stand for.
//!
//! The sequence is drawn before anything is sent and from the seed alone, so
//! no answer, however slow, moves a later request: the loop is open.

mod text;

use queueing::{ArrivalTimes, Arrivals, Distribution, Priority, Rng, Span, Time};

use crate::protocol::synthetic::{REQUEST_LEN_MAX, REQUEST_LEN_MIN};

/// Most connections a plan may ask for.
pub const CONNECTIONS_MAX: u32 = 1_000_000;

/// A run's settings. In a file, spans, laws and arrivals are
/// text: `timeout = "1s"`, `arrivals = "poisson 10000"`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Connections, 1..=1000000.
    pub connections: u32,
    /// Which classes share connections.
    pub spread: Spread,
    /// When requests are due.
    pub arrivals: Arrivals,
    /// Requests to send; the run also ends after `duration`, if that is given.
    pub requests: Option<u64>,
    /// How long requests are due; the run also ends after `requests`, if that is given.
    pub duration: Option<Span>,
    /// Requests due before this are sent but not measured.
    pub warmup: Span,
    /// Kinds of requests, 1..=256; their shares add up to 1.
    pub classes: Vec<Class>,
    /// Replays the run.
    pub seed: u64,
    /// A request sent this much after it was due counts as late.
    pub late_after: Span,
    /// A request without an answer this long after it was due is given up.
    pub timeout: Span,
}

/// One kind of requests.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name, not empty.
    pub name: String,
    /// Its share of all requests, 0.0..=1.0.
    pub share: f64,
    /// How long its requests hold a core.
    pub service: Distribution,
    /// Its requests' length in bytes, 32..=65536.
    pub length: usize,
    /// Its type, as the server's policies tell types apart.
    pub kind: u8,
    /// Its priority tag, 0..=7.
    pub priority: u8,
}

/// Which classes share connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Any connection carries any class.
    #[default]
    Shared,
    /// Each class has connections of its own, as many as its share, at least one.
    PerClass,
}

/// A plan that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// A value outside its range.
    OutOfRange {
        /// Which setting.
        name: String,
        /// Its value.
        value: String,
        /// What would be valid.
        valid: String,
    },
    /// Neither `requests` nor `duration` is given.
    NoEnd,
    /// There is no class.
    NoClasses,
    /// Two classes have this name.
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
    /// `classes` arriving by `arrivals` on `connections` connections, with the
    /// defaults for the rest: no warm-up, late after 1 ms, timeout 1 s, seed 1.
    /// Set `requests` or `duration` before use.
    #[must_use]
    pub fn new(connections: u32, arrivals: Arrivals, classes: Vec<Class>) -> Self {
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
    /// The first value that is outside its range.
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

    /// The requests, in the order in which they are due.
    ///
    /// # Panics
    /// When there is no class; [`Plan::validate`] tells.
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
                // Leaves one connection for each class that follows.
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

/// One request of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Counts from 0.
    pub id: u64,
    /// Index of its class.
    pub class: u16,
    /// Which connection carries it, counted from 0.
    pub conn: u32,
    /// When it is due, counted from the run's start.
    pub intended: Time,
    /// How long it holds a core.
    pub service: Span,
}

/// The requests of a plan, in the order in which they are due.
///
/// Classes, services and connections are drawn from streams of their own, so
/// changing one law leaves the others' draws as they were.
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

/// How requests of a class are drawn.
struct Draw {
    /// Shares up to and including this class.
    below: f64,
    service: Distribution,
    first: u32,
    count: u32,
}

impl Iterator for Sequence {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        let intended = self.arrivals.next().filter(|&t| t < self.until);
        let Some(intended) = intended else {
            self.left = 0;
            return None;
        };
        let point = self.classes.unit();
        let class = self.draws.iter().position(|d| point < d.below).unwrap_or(self.draws.len() - 1);
        let draw = &self.draws[class];
        let request = Request {
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
