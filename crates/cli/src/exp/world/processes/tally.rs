//! Aggregation of a runner's lines into the outcome of a simulation.

use deadline::{Budget, StageTime};
use queueing::Span;
use sim::world::services::{Config, Outcome, TraceRequest};

use super::super::Noise;
use crate::error::Error;

/// Aggregate of the lines so far.
pub struct LineStats<'a> {
    config: &'a Config,
    trace: &'a [TraceRequest],
    outcome: Outcome,
    has_ended: Vec<bool>,
    late: Option<Span>,
    /// Total excess of service times over the plan, and the number of services.
    excess: (Span, u64),
    lines: u64,
}

impl<'a> LineStats<'a> {
    /// Creates an empty aggregate of `trace`.
    pub fn new(config: &'a Config, trace: &'a [TraceRequest]) -> Self {
        let mut outcome = Outcome::new(config);
        for (request, arrival) in trace.iter().enumerate() {
            outcome.count_arrival(arrival.at, arrival.class, counted(config, request));
        }
        let has_ended = vec![false; trace.len()];
        Self { config, trace, outcome, has_ended, late: None, excess: (Span::ZERO, 0), lines: 0 }
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The line does not follow the protocol, or contradicts the request.
    pub fn add(&mut self, line: &str) -> Result<(), String> {
        self.lines += 1;
        let words: Vec<&str> = line.split(',').collect();
        let result = match words[..] {
            ["stage", request, stage, part, status, elapsed, queue, service] => {
                self.stage([request, stage, part], status, [elapsed, queue, service])
            }
            ["end", request, status, elapsed, used, parts] => {
                self.end(request, status, elapsed, [used, parts])
            }
            ["late", ns] => span(ns).map(|late| self.late = Some(late)),
            _ => None,
        };
        result.ok_or_else(|| format!("{line:?} is not a runner's line by spec/testbed.md"))
    }

    fn stage(&mut self, at: [&str; 3], status: &str, times: [&str; 3]) -> Option<()> {
        let (request, stage, part) = (self.request(at[0])?, number(at[1])?, number(at[2])?);
        if part >= self.config.stages.get(stage)?.parts {
            return None;
        }
        let planned_part = self.trace[request].parts[self.config.parts(stage).start + part];
        let (elapsed, queue, service) = (span(times[0])?, span(times[1])?, span(times[2])?);
        if !counted(self.config, request) {
            return Some(());
        }
        match status {
            "served" => {
                self.outcome.served(stage, &StageTime { network: Span::ZERO, queue, service }, elapsed);
                self.excess =
                    (self.excess.0 + service.saturating_sub(planned_part.service), self.excess.1 + 1);
            }
            "dropped" => self.outcome.dropped(stage),
            _ => return None,
        }
        Some(())
    }

    fn end(&mut self, request: &str, status: &str, elapsed: &str, parts: [&str; 2]) -> Option<()> {
        let request = self.request(request)?;
        let (elapsed, used, parts) = (span(elapsed)?, number(parts[0])?, number(parts[1])?);
        let answered = match status {
            "answered" => true,
            "failed" => false,
            _ => return None,
        };
        if std::mem::replace(&mut self.has_ended[request], true) {
            return None;
        }
        let class = self.trace[request].class;
        if counted(self.config, request) {
            let budget = Budget::restored(self.config.slos[class].slo, elapsed, &[]);
            match answered {
                true => self.outcome.answered(class, &budget, (used, parts)),
                false => self.outcome.failed(class),
            }
        }
        Some(())
    }

    /// Outcome, noise and number of lines.
    ///
    /// # Errors
    /// Lines are missing.
    pub fn finish(self) -> Result<(Outcome, Noise, u64), Error> {
        if let Some(request) = self.has_ended.iter().position(|has_ended| !has_ended) {
            return Err(Error::new(format!("request {request} of {} never completed", self.has_ended.len())));
        }
        let late = self.late.ok_or_else(|| Error::new("the runner did not report its delay"))?;
        let (excess, served) = self.excess;
        let excess = Span::from_nanos(excess.as_nanos().checked_div(served).unwrap_or(0));
        Ok((self.outcome, Noise { late, excess }, self.lines))
    }

    fn request(&self, text: &str) -> Option<usize> {
        number(text).filter(|&request| request < self.trace.len())
    }
}

/// True if `request` counts and does not only fill the queues.
fn counted(config: &Config, request: usize) -> bool {
    request as u64 >= config.warmup
}

fn number(text: &str) -> Option<usize> {
    text.parse().ok()
}

fn span(text: &str) -> Option<Span> {
    text.parse().ok().map(Span::from_nanos)
}

#[cfg(test)]
mod tests {
    use sim::world::services::Trace;

    use super::*;

    fn config() -> Config {
        Config::from_toml(
            r#"
            arrivals = "uniform 100"
            requests = 2
            warmup = 1
            order = "edf"
            shedding = "infeasible"
            slos = [{ name = "all", share = 1.0, slo = "20ms" }]
            stages = [{ name = "S1", service = "2us" }, { name = "S2", service = "3us" }]
            "#,
        )
        .unwrap()
    }

    /// Result of `lines`, or the error.
    fn aggregate(lines: &str) -> Result<(Outcome, Noise, u64), String> {
        let config = config();
        let trace: Vec<_> = Trace::new(&config).collect();
        let mut tally = LineStats::new(&config, &trace);
        lines.lines().try_for_each(|line| tally.add(line))?;
        tally.finish().map_err(|e| e.to_string())
    }

    #[test]
    fn lines_add_up_to_the_outcome_of_a_simulation() {
        let lines = "stage,0,0,0,served,9000,1,9000\nend,0,answered,9,1,1\n\
            stage,1,0,0,served,5000000,2000,2600\nstage,2,0,0,dropped,7,7,0\nend,2,failed,8,0,1\n\
            stage,1,1,0,served,6000000,0,3400\nend,1,answered,7000000,1,1\nlate,4";
        let (outcome, noise, lines) = aggregate(lines).unwrap();
        let class = &outcome.classes[0];
        assert_eq!((class.requests, class.on_time, class.late, class.dropped), (2, 1, 0, 1));
        assert_eq!(
            outcome.stages.iter().map(|s| (s.elapsed.count(), s.dropped)).collect::<Vec<_>>(),
            [(1, 1), (1, 0)]
        );
        assert_eq!(outcome.stages[0].busy, Span::from_nanos(2_600), "the first request is warm-up");
        assert_eq!((noise.late, noise.excess, lines), (Span::from_nanos(4), Span::from_nanos(500), 8));
    }

    #[test]
    fn impossible_lines_are_refused() {
        let ends = "end,0,answered,9,1,1\nend,1,answered,9,1,1\nend,2,answered,30000000,1,1\n";
        let late = aggregate(&format!("{ends}late,4")).unwrap().0.classes[0].late;
        assert_eq!(late, 1, "answered, but not in time");
        let check = |lines: &str, says: &str| {
            let error = aggregate(lines).map(|_| ()).unwrap_err();
            assert!(error.contains(says), "{says:?} is not in {error:?}");
        };
        check(ends, "did not report its delay");
        check("late,4", "request 0 of 3 never completed");
        for line in [
            "",
            "hello",
            "end,3,answered,9,1,1",
            "end,0,perhaps,9,1,1",
            "end,0,answered,-9,1,1",
            "stage,0,2,0,served,1,1,1",
            "stage,0,0,1,served,1,1,1",
            "stage,1,0,0,lost,1,1,1",
            "stage,1,0,0,served,1,1",
            "late,",
        ] {
            check(&format!("{line}\n"), "spec/testbed.md");
        }
        check("end,1,failed,9,0,1\nend,1,failed,9,0,1", "end,1,failed");
    }
}
