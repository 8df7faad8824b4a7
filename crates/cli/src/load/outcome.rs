//! Outcome of a load run: was its plan kept, and is a `--fail-if` true.

use ::load::{ClassReport, FailCondition, Plan, PlanCheck, Report};
use queueing::Span;
use serde_json::{Value, json};

/// Exit status of a run whose load was not offered, and of which no condition is true.
const NOT_OFFERED: u8 = 3;

/// The outcome.
pub struct Outcome {
    check: PlanCheck,
    /// Conditions, and true for those that failed the run.
    conditions: Vec<(FailCondition, bool)>,
}

impl Outcome {
    /// Outcome of `report` by its `plan` and `conditions`.
    pub fn of(report: &Report, plan: &Plan, conditions: &[FailCondition]) -> Self {
        let measured = plan.duration.unwrap_or(Span::ZERO).saturating_sub(plan.warmup);
        let judge = |condition: &FailCondition| (condition.clone(), condition.is_met(report, measured));
        Self { check: PlanCheck::of(report, plan), conditions: conditions.iter().map(judge).collect() }
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        match (self.conditions.iter().any(|(_, is_met)| *is_met), self.check.is_kept()) {
            (true, _) => 1,
            (false, false) => NOT_OFFERED,
            (false, true) => 0,
        }
    }

    /// Lines of text: the plan, if it was not kept or the generator was late, and every condition.
    pub fn lines(&self) -> Vec<String> {
        let check = &self.check;
        let mut lines = Vec::new();
        if !check.is_kept() {
            lines.push(format!(
                "the plan was not kept: {:.0} of {:.0} requests per second were sent",
                check.sent_per_s, check.planned_per_s
            ));
        }
        if check.is_generator_late() {
            lines.push(format!(
                "this load generator was the bottleneck: it came late to {:.1} % of the requests (p99 {}); \
                 use a lower rate, or more machines",
                100.0 * check.lagging,
                check.lag_p99
            ));
        } else if !check.is_kept() {
            lines.push(
                "the load generator was on time: the server, or the network, did not take them".to_owned(),
            );
        }
        let condition = |(condition, is_met): &(FailCondition, bool)| {
            format!("--fail-if '{condition}': {}", if *is_met { "FAILED" } else { "passed" })
        };
        lines.extend(self.conditions.iter().map(condition));
        lines
    }

    /// Planned and offered load.
    pub fn plan_json(&self) -> Value {
        let check = &self.check;
        json!({
            "kept": check.is_kept(), "planned_per_s": check.planned_per_s, "sent_per_s": check.sent_per_s,
            "generator_late": check.is_generator_late(), "lagging": check.lagging,
            "lag_p99_ns": check.lag_p99.as_nanos(),
        })
    }

    /// The conditions, and if they failed the run.
    pub fn conditions_json(&self) -> Value {
        let one = |(condition, is_met): &(FailCondition, bool)| json!({ "condition": condition.to_string(), "failed": is_met });
        self.conditions.iter().map(one).collect()
    }
}

/// Latencies of a class from the send time, not corrected for coordinated omission.
pub fn from_send(class: &ClassReport) -> Value {
    let latency = &class.latency_from_send;
    let ns = |span: Span| (latency.count() > 0).then(|| span.as_nanos());
    json!({
        "class": class.name, "errors": class.errors,
        "p50_ns": ns(latency.quantile(0.5)), "p99_ns": ns(latency.quantile(0.99)),
        "p999_ns": ns(latency.quantile(0.999)), "max_ns": ns(latency.max()),
    })
}
