//! Runner protocol, the runner's side: `spec/testbed.md`.
//!
//! Lines of text, so that a run can be read, replayed by hand and compared between languages.
//! This file parses input and formats output; `greenwave exp` does the opposite.

use std::fmt;
use std::io::BufRead;

use queueing::{Span, UnknownName};
use serde::Deserialize;

use crate::Error;

/// First line: services to start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupMessage {
    /// Order of queues, by name.
    pub order: String,
    /// Load shedding of queues, by name.
    pub shedding: String,
    /// Maximum time for which a request may be passed over, ns.
    #[serde(alias = "patience_ns")]
    pub age_max_ns: u64,
    /// Capacity of a server's queue.
    pub capacity: usize,
    /// Services, in the order of calls.
    pub stages: Vec<ServiceStage>,
    /// User classes and their objectives.
    pub slos: Vec<UserClass>,
}

/// Service, or parallel unit of services.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceStage {
    /// Name.
    pub name: String,
    /// Concurrency: requests in service at once, per worker for a unit.
    pub threads: usize,
    /// Fan-out: workers among which each request is split; 1: a single service.
    pub parts: usize,
    /// Budget reserved for the aggregate phase and later stages, ns.
    pub reserve_ns: u64,
    /// Answer with the available parts when their time is up.
    pub partial: bool,
}

/// User class.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserClass {
    /// Name.
    pub name: String,
    /// `expected_deadline`, ns.
    pub slo_ns: u64,
}

/// Planned request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Send time, since `ready`.
    pub send_at: Span,
    /// User class, an index of [`SetupMessage::slos`].
    pub class: usize,
    /// Service time of each part of each stage, in order.
    pub service: Vec<Span>,
    /// Query number, for services that search.
    pub query: Option<usize>,
}

impl SetupMessage {
    /// Parses the first line.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn parse(line: &str) -> Result<Self, Error> {
        let bad = |cause: String| Error::new(cause, SPEC);
        let setup: Self = serde_json::from_str(line).map_err(|e| bad(format!("line 1: {e}")))?;
        setup.settings().map_err(|e| bad(e.to_string()))?;
        if !(1..=CAPACITY_MAX).contains(&setup.capacity) {
            return Err(bad(format!("capacity {} is outside 1..={CAPACITY_MAX}", setup.capacity)));
        }
        if setup.stages.is_empty() || setup.slos.is_empty() {
            return Err(bad("stages or slos is empty, at least 1 of each is required".to_owned()));
        }
        for ServiceStage { name, threads, parts, .. } in &setup.stages {
            if !(1..=1_000).contains(threads) || !(1..=1_000).contains(parts) {
                return Err(bad(format!("stage {name}: threads {threads}, parts {parts}: not 1..=1000")));
            }
        }
        Ok(setup)
    }

    /// Settings of each server's queue.
    ///
    /// # Panics
    /// If a name is unknown, which [`parse`](Self::parse) rules out.
    #[must_use]
    pub fn queue(&self) -> deadline::QueueSettings {
        self.settings().expect("a parsed set-up")
    }

    fn settings(&self) -> Result<deadline::QueueSettings, UnknownName> {
        let (order, shedding) = (self.order.parse()?, self.shedding.parse()?);
        let age_max = Span::from_nanos(self.age_max_ns);
        Ok(deadline::QueueSettings { capacity: self.capacity, order, shedding, age_max })
    }

    /// Number of service times per request: one per part.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.stages.iter().map(|stage| stage.parts).sum()
    }
}

impl Planned {
    /// Parses one request's line for `setup`.
    ///
    /// # Errors
    /// The cause; the caller adds the line number.
    pub fn parse(line: &str, setup: &SetupMessage) -> Result<Self, String> {
        let numbers = line.split(',').map(|text| {
            let bad = |e| format!("{text:?}: {e}, not a whole number of nanoseconds");
            text.trim().parse::<u64>().map_err(bad)
        });
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
        let parts = setup.parts();
        let [birth_ns, class, rest @ ..] = &numbers[..] else {
            return Err("no send time and class".to_owned());
        };
        let class = *class as usize;
        if class >= setup.slos.len() {
            return Err(format!("class {class} is outside 0..{}", setup.slos.len()));
        }
        if rest.len() != parts && rest.len() != parts + 1 {
            return Err(format!("{} columns, not {} (and a query)", numbers.len(), parts + 2));
        }
        let service = rest[..parts].iter().copied().map(Span::from_nanos).collect();
        let query = rest.get(parts).map(|&number| number as usize);
        Ok(Self { send_at: Span::from_nanos(*birth_ns), class, service, query })
    }
}

/// Reads a runner's complete input.
///
/// # Errors
/// The first invalid line, and the valid format.
pub fn read(input: impl BufRead) -> Result<(SetupMessage, Vec<Planned>), Error> {
    let mut lines = input.lines();
    let mut line = || lines.next().transpose().map_err(|e| Error::new(format!("stdin: {e}"), SPEC));
    let setup = SetupMessage::parse(&line()?.unwrap_or_default())?;
    let mut plan: Vec<Planned> = Vec::new();
    while let Some(text) = line()? {
        let bad = |cause: String| Error::new(format!("line {}: {cause}", plan.len() + 2), SPEC);
        let planned = Planned::parse(&text, &setup).map_err(bad)?;
        if plan.last().is_some_and(|before| before.send_at > planned.send_at) {
            return Err(bad("its send time is before that of the line above".to_owned()));
        }
        if plan.len() == REQUESTS_MAX {
            return Err(bad(format!("more than {REQUESTS_MAX} requests")));
        }
        plan.push(planned);
    }
    Ok((setup, plan))
}

/// Output line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputLine {
    /// All services are ready; planned times count from here.
    Ready,
    /// A part of a request left a stage: served or dropped.
    Stage {
        /// Index of the request in the plan.
        request: usize,
        /// Index of the stage in the set-up.
        stage: usize,
        /// Part of a unit; 0 for a service.
        part: usize,
        /// True if served, false if dropped.
        served: bool,
        /// Time since the planned send time.
        elapsed: Span,
        /// Queueing delay at the stage.
        queue: Span,
        /// Service time at the stage.
        service: Span,
    },
    /// A request ended; exactly one line per request.
    End {
        /// Index of the request in the plan.
        request: usize,
        /// Answered, in time or late.
        answered: bool,
        /// Time since the planned send time, as seen by the user.
        elapsed: Span,
        /// Parts used by the last unit.
        used: usize,
        /// Parts of the last unit.
        parts: usize,
    },
    /// Last line: largest delay of a request after its planned send time.
    Late(Span),
}

impl fmt::Display for OutputLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Stage { request, stage, part, served, elapsed, queue, service } => {
                let outcome = if *served { "served" } else { "dropped" };
                let [elapsed, queue, service] = [elapsed, queue, service].map(|span| span.as_nanos());
                write!(f, "stage,{request},{stage},{part},{outcome},{elapsed},{queue},{service}")
            }
            Self::End { request, answered, elapsed, used, parts } => {
                let outcome = if *answered { "answered" } else { "failed" };
                write!(f, "end,{request},{outcome},{},{used},{parts}", elapsed.as_nanos())
            }
            Self::Late(span) => write!(f, "late,{}", span.as_nanos()),
        }
    }
}

/// Advice for invalid input.
const SPEC: &str = "see the input of a runner in spec/testbed.md";
/// Maximum number of requests of a plan, which is held in memory.
const REQUESTS_MAX: usize = 10_000_000;
/// Maximum capacity of a queue, the same as in the simulator.
const CAPACITY_MAX: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use deadline::Order;

    use super::*;

    const SETUP: &str = r#"{"order":"edf","shedding":"infeasible","age_max_ns":1000000000,"capacity":10,
        "stages":[{"name":"S1","threads":1,"parts":1,"reserve_ns":0,"partial":false},
                  {"name":"W","threads":1,"parts":2,"reserve_ns":5,"partial":true}],
        "slos":[{"name":"all","slo_ns":100000000}]}"#;

    fn setup() -> String {
        SETUP.replace('\n', "")
    }

    #[test]
    fn a_plan_round_trips() {
        let text = format!("{}\n5,0,10,20,30\n5,0,1,2,3,7\n", setup());
        let (setup, plan) = read(text.as_bytes()).unwrap();
        assert_eq!((setup.parts(), setup.queue().order), (3, Order::Edf));
        assert_eq!(plan[0].service, [10, 20, 30].map(Span::from_nanos));
        assert_eq!((plan[1].send_at, plan[1].class, plan[1].query), (Span::from_nanos(5), 0, Some(7)));
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        let check = |text: String, says: &str| {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("error: ") && error.contains("\n  try: "), "{error}");
            assert!(error.contains(says), "{says:?} is not in {error}");
        };
        check(String::new(), "line 1: EOF");
        check(setup().replace("\"capacity\"", "\"cap\""), "unknown field `cap`");
        check(setup().replace("edf", "first"), "order \"first\" is not one of fifo");
        check(setup().replace("\"threads\":1", "\"threads\":0"), "threads 0");
        check(format!("{}\n5,0,1,2,x", setup()), "line 2: \"x\"");
        check(format!("{}\n5,0,1,2,3\n4,0,1,2,3", setup()), "line 3: its send time is before");
        check(format!("{}\n5,1,1,2,3", setup()), "class 1 is outside 0..1");
        check(format!("{}\n5,0,1,2", setup()), "4 columns, not 5");
        check(format!("{}\n-5,0,1,2,3", setup()), "\"-5\"");
    }

    #[test]
    fn result_lines_match_the_specification() {
        let ns = Span::from_nanos;
        let stage = OutputLine::Stage {
            request: 3,
            stage: 1,
            part: 0,
            served: false,
            elapsed: ns(7),
            queue: ns(5),
            service: ns(0),
        };
        assert_eq!(stage.to_string(), "stage,3,1,0,dropped,7,5,0");
        let end = OutputLine::End { request: 3, answered: true, elapsed: ns(9), used: 17, parts: 18 };
        assert_eq!(end.to_string(), "end,3,answered,9,17,18");
        assert_eq!(
            (OutputLine::Ready.to_string(), OutputLine::Late(ns(4)).to_string()),
            ("ready".into(), "late,4".into())
        );
    }
}
