//! What a runner is told and what it says: `spec/testbed.md`, this side of it.
//!
//! Lines of text, so that a run can be read, replayed by hand and compared
//! over languages. This file parses what comes in and writes what goes out;
//! the other direction of both is `greenwave exp`'s.

use std::fmt;
use std::io::BufRead;

use queueing::{Span, UnknownName};
use serde::Deserialize;

use crate::Error;

/// The first line: what to start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// Who goes next, by name.
    pub order: String,
    /// Who is dropped, by name.
    pub shedding: String,
    /// How long a request may be passed over, ns.
    pub patience_ns: u64,
    /// Requests that wait at one server.
    pub capacity: usize,
    /// The services, in the order of calls.
    pub stages: Vec<Stage>,
    /// What users expect.
    pub slos: Vec<Slo>,
}

/// A service, or a parallel unit of some.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Its name.
    pub name: String,
    /// Requests it works on at once (each worker of a unit).
    pub threads: usize,
    /// Workers among whom each request is split; 1 is a service.
    pub parts: usize,
    /// Kept for the aggregate phase and what comes after it, ns.
    pub reserve_ns: u64,
    /// Whether the unit answers with the parts it has once their time is up.
    pub partial: bool,
}

/// A class of users.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Its name.
    pub name: String,
    /// `expected_deadline`, ns.
    pub slo_ns: u64,
}

/// A request of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When it is born, since `ready`.
    pub birth: Span,
    /// Its class of users.
    pub class: usize,
    /// What it takes at each part of each stage, in their order.
    pub service: Vec<Span>,
    /// Which query it is, where the services search.
    pub query: Option<usize>,
}

impl Setup {
    /// Reads the first line.
    ///
    /// # Errors
    /// One line: what was given, and what would be valid.
    pub fn parse(line: &str) -> Result<Self, Error> {
        let bad = |what: String| Error::new(what, SPEC);
        let setup: Self = serde_json::from_str(line).map_err(|e| bad(format!("line 1: {e}")))?;
        setup.settings().map_err(|e| bad(e.to_string()))?;
        if !(1..=CAPACITY_MAX).contains(&setup.capacity) {
            return Err(bad(format!("capacity {} is outside 1..={CAPACITY_MAX}", setup.capacity)));
        }
        if setup.stages.is_empty() || setup.slos.is_empty() {
            return Err(bad("stages or slos is empty, not 1 and more".to_owned()));
        }
        for Stage { name, threads, parts, .. } in &setup.stages {
            if !(1..=1_000).contains(threads) || !(1..=1_000).contains(parts) {
                return Err(bad(format!("stage {name}: threads {threads}, parts {parts}: not 1..=1000")));
            }
        }
        Ok(setup)
    }

    /// The queue that stands before each server.
    ///
    /// # Panics
    /// When a name is none; [`parse`](Self::parse) says so first.
    #[must_use]
    pub fn queue(&self) -> deadline::Settings {
        self.settings().expect("a parsed set-up")
    }

    fn settings(&self) -> Result<deadline::Settings, UnknownName> {
        let (order, shedding) = (self.order.parse()?, self.shedding.parse()?);
        let age_max = Span::from_nanos(self.patience_ns);
        Ok(deadline::Settings { capacity: self.capacity, order, shedding, age_max })
    }

    /// Times that each request of the plan brings: one per part.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.stages.iter().map(|stage| stage.parts).sum()
    }
}

impl Planned {
    /// Reads one request's line for `setup`.
    ///
    /// # Errors
    /// What is wrong with it; the line's number is the caller's to add.
    pub fn parse(line: &str, setup: &Setup) -> Result<Self, String> {
        let numbers = line.split(',').map(|text| {
            let bad = |e| format!("{text:?}: {e}, not a whole number of nanoseconds");
            text.trim().parse::<u64>().map_err(bad)
        });
        let numbers: Vec<u64> = numbers.collect::<Result<_, _>>()?;
        let parts = setup.parts();
        let [birth_ns, class, rest @ ..] = &numbers[..] else {
            return Err("no birth and class".to_owned());
        };
        let class = *class as usize;
        if class >= setup.slos.len() {
            return Err(format!("class {class} is none of {}", setup.slos.len()));
        }
        if rest.len() != parts && rest.len() != parts + 1 {
            return Err(format!("{} columns, not {} (and a query)", numbers.len(), parts + 2));
        }
        let service = rest[..parts].iter().copied().map(Span::from_nanos).collect();
        let query = rest.get(parts).map(|&number| number as usize);
        Ok(Self { birth: Span::from_nanos(*birth_ns), class, service, query })
    }
}

/// Reads all that a runner is told.
///
/// # Errors
/// Where the text stops making sense, and what would be valid.
pub fn read(input: impl BufRead) -> Result<(Setup, Vec<Planned>), Error> {
    let mut lines = input.lines();
    let mut line = || lines.next().transpose().map_err(|e| Error::new(format!("stdin: {e}"), SPEC));
    let setup = Setup::parse(&line()?.unwrap_or_default())?;
    let mut plan: Vec<Planned> = Vec::new();
    while let Some(text) = line()? {
        let bad = |what: String| Error::new(format!("line {}: {what}", plan.len() + 2), SPEC);
        let planned = Planned::parse(&text, &setup).map_err(bad)?;
        if plan.last().is_some_and(|before| before.birth > planned.birth) {
            return Err(bad("it is born before the one above it".to_owned()));
        }
        if plan.len() == REQUESTS_MAX {
            return Err(bad(format!("more than {REQUESTS_MAX} requests")));
        }
        plan.push(planned);
    }
    Ok((setup, plan))
}

/// What a runner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// All services serve; births count from here.
    Ready,
    /// A part of a request left a stage: served or dropped there.
    Stage {
        /// The request's place in the plan.
        request: usize,
        /// The stage's place in the set-up.
        stage: usize,
        /// Which part; 0 of a service.
        part: usize,
        /// Served, not dropped.
        served: bool,
        /// Since its planned birth.
        elapsed: Span,
        /// In the queue there.
        queue: Span,
        /// Being served there.
        service: Span,
    },
    /// A request is over: said once of each.
    End {
        /// The request's place in the plan.
        request: usize,
        /// Answered, in time or not.
        answered: bool,
        /// Since its planned birth, as its user sees it.
        elapsed: Span,
        /// Parts whose answers were used at the last unit.
        used: usize,
        /// Parts that unit has.
        parts: usize,
    },
    /// Last of all: the latest that a request was sent after its birth.
    Late(Span),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("ready"),
            Self::Stage { request, stage, part, served, elapsed, queue, service } => {
                let how = if *served { "served" } else { "dropped" };
                let [elapsed, queue, service] = [elapsed, queue, service].map(|span| span.as_nanos());
                write!(f, "stage,{request},{stage},{part},{how},{elapsed},{queue},{service}")
            }
            Self::End { request, answered, elapsed, used, parts } => {
                let how = if *answered { "answered" } else { "failed" };
                write!(f, "end,{request},{how},{},{used},{parts}", elapsed.as_nanos())
            }
            Self::Late(span) => write!(f, "late,{}", span.as_nanos()),
        }
    }
}

/// What explains every mistake in what a runner is told.
const SPEC: &str = "spec/testbed.md says what a runner is told";
/// A plan is held in memory.
const REQUESTS_MAX: usize = 10_000_000;
/// As many as the simulator lets wait.
const CAPACITY_MAX: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use deadline::Order;

    use super::*;

    const SETUP: &str = r#"{"order":"edf","shedding":"infeasible","patience_ns":1000000000,"capacity":10,
        "stages":[{"name":"S1","threads":1,"parts":1,"reserve_ns":0,"partial":false},
                  {"name":"W","threads":1,"parts":2,"reserve_ns":5,"partial":true}],
        "slos":[{"name":"all","slo_ns":100000000}]}"#;

    fn setup() -> String {
        SETUP.replace('\n', "")
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let text = format!("{}\n5,0,10,20,30\n5,0,1,2,3,7\n", setup());
        let (setup, plan) = read(text.as_bytes()).unwrap();
        assert_eq!((setup.parts(), setup.queue().order), (3, Order::Edf));
        assert_eq!(plan[0].service, [10, 20, 30].map(Span::from_nanos));
        assert_eq!((plan[1].birth, plan[1].class, plan[1].query), (Span::from_nanos(5), 0, Some(7)));
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        let check = |text: String, says: &str| {
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("error: ") && error.contains("\n  try: "), "{error}");
            assert!(error.contains(says), "{says:?} is not in {error}");
        };
        check(String::new(), "line 1: EOF");
        check(setup().replace("\"capacity\"", "\"cap\""), "unknown field `cap`");
        check(setup().replace("edf", "first"), "order \"first\" is none of fifo");
        check(setup().replace("\"threads\":1", "\"threads\":0"), "threads 0");
        check(format!("{}\n5,0,1,2,x", setup()), "line 2: \"x\"");
        check(format!("{}\n5,0,1,2,3\n4,0,1,2,3", setup()), "line 3: it is born before");
        check(format!("{}\n5,1,1,2,3", setup()), "class 1 is none of 1");
        check(format!("{}\n5,0,1,2", setup()), "4 columns, not 5");
        check(format!("{}\n-5,0,1,2,3", setup()), "\"-5\"");
    }

    #[test]
    fn lines_are_those_of_the_specification() {
        let ns = Span::from_nanos;
        let stage = Line::Stage {
            request: 3,
            stage: 1,
            part: 0,
            served: false,
            elapsed: ns(7),
            queue: ns(5),
            service: ns(0),
        };
        assert_eq!(stage.to_string(), "stage,3,1,0,dropped,7,5,0");
        let end = Line::End { request: 3, answered: true, elapsed: ns(9), used: 17, parts: 18 };
        assert_eq!(end.to_string(), "end,3,answered,9,17,18");
        assert_eq!(
            (Line::Ready.to_string(), Line::Late(ns(4)).to_string()),
            ("ready".into(), "late,4".into())
        );
    }
}
