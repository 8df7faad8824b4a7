//! Check of egress scheduling: attached to a veth pair, and detached again.

use queueing::{Rate, Span};

use super::{Finding, tried};
use hostbpf::egress::{self, Choice, Policy, Shape};
use netlab::Namespace;

const AREA: &str = "egress";
const WHAT: &str = "levels and queues";

pub(super) fn examine(unavailable: Option<&str>) -> Vec<Finding> {
    tried(AREA, &[WHAT], unavailable, |netns| vec![attach(netns)])
}

fn attach(netns: &Namespace) -> Finding {
    let rate = Rate::from_bits_per_sec(1_000_000_000);
    match netns.enter(|| egress::attach("gw0", rate, &two_levels(), 0)) {
        Ok(choice) => judge(&choice),
        Err(e) => Finding::absent(AREA, WHAT, e.to_string(), e.advice()),
    }
}

/// Smallest policy that needs everything: levels, and flow isolation in them.
fn two_levels() -> Policy {
    Policy {
        name: "doctor".to_owned(),
        thresholds: vec![100_000],
        buckets: 2,
        queue: 10,
        idle: Span::from_millis(100),
        flows: 16,
        guaranteed: 0.0,
        pin_priority: vec![],
        pin_dscp: vec![],
        dscp: vec![],
    }
}

/// Verdict on the qdiscs found. HTB alone suffices, but with a fixed number of queues that flows share.
fn judge(choice: &Choice) -> Finding {
    let by = format!("by a BPF classifier and {}", choice.shape.name());
    if choice.missing.is_empty() {
        return Finding::works(AREA, WHAT, by);
    }
    let modules = choice.missing.iter().map(|kind| format!("sch_{kind}")).collect::<Vec<_>>().join(" ");
    let less = match choice.shape {
        Shape::Classes => "; flows share queues",
        Shape::Bands { .. } => "",
    };
    let seen = format!("{by}; missing qdiscs: {}{less}", choice.missing.join(", "));
    Finding::limited(AREA, WHAT, seen, [format!("modprobe -a {modules}, or a kernel that has them")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Health;
    use queueing::egress::QueueQuantum;

    #[test]
    fn what_is_missing_is_named_with_what_is_used_instead() {
        let bands = Shape::Bands { levels: "ets", queues: "fq" };
        let quantum = QueueQuantum { bytes: 1_514, frame: 1_514, gso: None };
        let (all, some, none) = (
            judge(&Choice { shape: bands, quantum, missing: vec![] }),
            judge(&Choice { shape: bands, quantum, missing: vec!["prio"] }),
            judge(&Choice { shape: Shape::Classes, quantum, missing: vec!["prio", "ets", "fq", "sfq"] }),
        );
        assert_eq!([all.health, some.health, none.health], [Health::Works, Health::Limited, Health::Limited]);
        assert_eq!(some.remedies, ["modprobe -a sch_prio, or a kernel that has them"]);
        assert!(none.seen.contains("htb; missing qdiscs: prio, ets, fq, sfq; flows share"), "{}", none.seen);
    }
}
