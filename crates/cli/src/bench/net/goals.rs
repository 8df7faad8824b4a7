//! What was aimed at, held against the figures.
//!
//! A goal is held against every case that it speaks of; the worst decides, and
//! the best is shown beside it.

use std::fmt;

use load::exchange::Pace;
use serde_json::{Value, json};

use super::cases::Case;
use super::figures::{Figures, Row};
use super::systems::{Device, Stack};

/// A goal and what became of it.
pub struct Goal {
    what: &'static str,
    /// The ratio that was aimed at.
    target: f64,
    /// Less is better.
    is_limit: bool,
    /// The worst ratio and its case, and the best.
    found: Option<[(f64, String); 2]>,
    /// Whether it holds; none when it could not be measured.
    pub holds: Option<bool>,
}

/// A server: whose, and on what.
type Server = (Stack, Device);

const KERNEL: Server = (Stack::Kernel, Device::Veth);
const OURS: Server = (Stack::Greenwave, Device::Xdp);

/// All goals.
pub fn goals(rows: &[Row]) -> Vec<Goal> {
    let exchanges = |case: &Case| !case.is_stream();
    let closed = |case: &Case| !case.is_stream() && matches!(case.pace, Pace::Closed { .. });
    let tap = |stack| (stack, Device::Tap);
    vec![
        Goal::new("requests per second and server core over AF_XDP, ÷ the kernel's on veth", 3.0, false)
            .over(rows, OURS, KERNEL, closed, |f| f.per_core()),
        Goal::new("p99 over AF_XDP, ÷ the kernel's on veth", 1.0, true).over(
            rows,
            OURS,
            KERNEL,
            exchanges,
            |f| f.p99.as_nanos() as f64,
        ),
        Goal::new("requests per second and server core on TAP, ÷ gVisor's", 4.0, false).over(
            rows,
            tap(Stack::Greenwave),
            tap(Stack::Gvisor),
            closed,
            |f| f.per_core(),
        ),
        Goal::new("throughput of one connection over AF_XDP, ÷ the kernel's on veth", 0.8, false).over(
            rows,
            OURS,
            KERNEL,
            Case::is_stream,
            |f| f.bytes_per_s,
        ),
    ]
}

impl Goal {
    fn new(what: &'static str, target: f64, is_limit: bool) -> Self {
        Self { what, target, is_limit, found: None, holds: None }
    }

    /// Compares `ours` with `theirs` in all cases that `fits`.
    fn over(
        mut self,
        rows: &[Row],
        ours: Server,
        theirs: Server,
        fits: impl Fn(&Case) -> bool,
        figure: impl Fn(&Figures) -> f64,
    ) -> Self {
        let find = |(stack, device): Server, case: &str| {
            let mut rows = rows.iter();
            let row =
                rows.find(|r| (r.system.stack, r.system.device) == (stack, device) && r.case.name == case);
            row.and_then(|row| row.figures().ok()).map(|figures| figure(&figures))
        };
        let ratio = |row: &Row| Some(find(ours, &row.case.name)? / find(theirs, &row.case.name)?);
        let ours = rows.iter().filter(|r| (r.system.stack, r.system.device) == ours && fits(&r.case));
        let mut found: Vec<_> = ours.filter_map(|r| Some((ratio(r)?, r.case.name.clone()))).collect();
        found.retain(|(ratio, _)| ratio.is_finite());
        found.sort_by(|a, b| a.0.total_cmp(&b.0));
        if self.is_limit {
            found.reverse();
        }
        if let (Some(worst), Some(best)) = (found.first().cloned(), found.last().cloned()) {
            let met = if self.is_limit { worst.0 <= self.target } else { worst.0 >= self.target };
            self.holds = Some(met);
            self.found = Some([worst, best]);
        }
        self
    }

    pub fn json(&self) -> Value {
        let [worst, best] = self.found.clone().map_or([None, None], |found| found.map(Some));
        json!({
            "goal": self.what,
            "target": self.target,
            "at_most": self.is_limit,
            "worst": worst,
            "best": best,
            "holds": self.holds,
        })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, target, is_limit, found, holds } = self;
        let sign = if *is_limit { '≤' } else { '≥' };
        let verdict = match holds {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "not measured",
        };
        write!(f, "{verdict}: {what} {sign} {target}")?;
        if let Some([(worst, at_worst), (best, at_best)]) = found {
            write!(f, ": {worst:.2} at worst ({at_worst}), {best:.2} at best ({at_best})")?;
        }
        Ok(())
    }
}
