//! Qdisc plan: levels and queues from the qdiscs that the kernel has.
//!
//! The first choice is a qdisc with strict bands, prio or ets, and inside each band one that isolates
//! flows, fq or sfq. Where one is missing, HTB does both: its priorities are the levels; its leaves,
//! served by deficit round robin, are the queues that flows take in turn. The class between the rate's
//! and the leaves holds the level's guaranteed share, however many of its queues are busy. In both
//! cases HTB is the root, for the rate.
//!
//! Packets that the classifier did not see, because another program passed them on first, have a queue
//! of their own at the last level, so that they are counted.
//!
//! DRR inside prio is not offered: it would have to classify flows a second time, and HTB's leaves do
//! the same.

use queueing::Rate;

use super::policy::Policy;
use super::program::Classes;
use queueing::egress::QueueQuantum;

/// Handle of our root qdisc and of those below it.
pub(super) const ROOT: u16 = 0x0fab;
const BANDS: u16 = 0x0fac;

/// Qdiscs that form levels and queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// HTB's priorities and leaves.
    Classes,
    /// A qdisc with strict bands, and one in each band.
    Bands {
        /// `prio` or `ets`.
        levels: &'static str,
        /// `fq` or `sfq`; `pfifo` where flows are not isolated.
        queues: &'static str,
    },
}

/// Qdiscs for levels, and qdiscs that isolate flows; best first.
const LEVELS: [&str; 2] = ["prio", "ets"];
const QUEUES: [&str; 2] = ["fq", "sfq"];

/// Chosen shape, and better qdiscs that are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Shape in use.
    pub shape: Shape,
    /// Quantum of each queue.
    pub quantum: QueueQuantum,
    /// Qdiscs that the kernel lacks.
    pub missing: Vec<&'static str>,
}

/// Best shape for `policy` from the qdiscs that the kernel `has`.
pub(super) fn choose(policy: &Policy, quantum: QueueQuantum, has: impl Fn(&str) -> bool) -> Choice {
    let mut missing = Vec::new();
    let mut best = |kinds: &[&'static str]| {
        kinds.iter().copied().find(|kind| {
            let there = has(kind);
            if !there {
                missing.push(*kind);
            }
            there
        })
    };
    let levels = best(&LEVELS);
    let queues = if policy.buckets > 1 { best(&QUEUES) } else { Some("pfifo") };
    match (levels, queues) {
        (Some(levels), Some(queues)) => Choice { shape: Shape::Bands { levels, queues }, quantum, missing },
        _ => Choice { shape: Shape::Classes, quantum, missing },
    }
}

/// Arguments that test whether the kernel has `kind`; ets requires its bands.
pub(super) fn tried(kind: &str) -> String {
    if kind == "ets" { levels(kind) } else { kind.to_owned() }
}

/// Arguments of `tc` for a qdisc with strict bands; packets without one go to the last.
fn levels(kind: &str) -> String {
    let strict = if kind == "ets" { " strict 16" } else { "" };
    format!("{kind} bands 16{strict} priomap{}", " 15".repeat(16))
}

/// Minor numbers of the queue of packets that the classifier did not see.
const UNSEEN_CLASS: u16 = 0xff;
const UNSEEN_BAND: u16 = 16;
/// Maximum quantum that sfq and fq accept, in bytes.
const QUANTUM_SFQ: u32 = 262_136;
const QUANTUM_FQ: u32 = 1 << 20;

impl Shape {
    /// Short name: `htb`, `prio of fq`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Classes => "htb".to_owned(),
            Self::Bands { levels, queues } => format!("{levels} of {queues}"),
        }
    }

    /// Shape with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let queues = QUEUES.into_iter().chain(["pfifo"]);
        let bands = queues.flat_map(|queues| LEVELS.map(|levels| Self::Bands { levels, queues }));
        [Self::Classes].into_iter().chain(bands).find(|shape| shape.name() == name)
    }

    /// Numbering of its classes, for `buckets` queues per level.
    ///
    /// Bands start at the eighth of sixteen: fq reads the lowest four bits of `skb->priority` too, and
    /// with 7 there (`TC_PRIO_CONTROL`) it does not isolate flows.
    pub(super) fn classes(self, buckets: u16) -> Classes {
        match self {
            Self::Classes => Classes { major: ROOT, base: 0x100, step: 0x100, buckets },
            Self::Bands { .. } => Classes { major: BANDS, base: 8, step: 1, buckets: 1 },
        }
    }

    /// Minor number of the queue of packets that the classifier did not see; the major one is that of
    /// [`classes`](Self::classes).
    pub(super) fn unseen(self) -> u16 {
        match self {
            Self::Classes => UNSEEN_CLASS,
            Self::Bands { .. } => UNSEEN_BAND,
        }
    }

    /// Lines of `tc -batch` for `device` with MTU `mtu`.
    pub(super) fn commands(
        self,
        device: &str,
        rate: Rate,
        policy: &Policy,
        mtu: u16,
        quantum: QueueQuantum,
    ) -> Vec<String> {
        let frame = u64::from(mtu) + 14;
        let (bits, burst, quantum_bytes) = (rate.bits_per_sec(), burst(rate, frame), quantum.bytes);
        let classes = self.classes(policy.buckets);
        let default = match self {
            Self::Classes => UNSEEN_CLASS,
            Self::Bands { .. } => 1,
        };
        let mut lines = vec![
            format!("qdisc replace dev {device} root handle {ROOT:x}: htb default {default:x}"),
            format!(
                "class add dev {device} parent {ROOT:x}: classid {ROOT:x}:1 htb rate {bits}bit ceil {bits}bit \
                 burst {burst} cburst {burst} quantum {quantum_bytes}"
            ),
        ];
        if let Self::Bands { levels: kind, .. } = self {
            let levels = levels(kind);
            lines.push(format!("qdisc add dev {device} parent {ROOT:x}:1 handle {BANDS:x}: {levels}"));
        }
        let queue = self.queue(policy, quantum);
        let leaf = |parent: &str, class: &str, level: usize| {
            format!(
                "class add dev {device} parent {parent} classid {class} htb prio {level} rate {LEAST}bit \
                 ceil {bits}bit burst {frame} cburst {burst} quantum {quantum_bytes}"
            )
        };
        let unseen = format!("{:x}:{:x}", classes.major, self.unseen());
        if self == Self::Classes {
            lines.push(leaf(&format!("{ROOT:x}:1"), &unseen, policy.levels() - 1));
        }
        lines.push(format!("qdisc add dev {device} parent {unseen} {queue}"));
        for level in 0..policy.levels() {
            let share = format!("{ROOT:x}:{:x}", level + 2);
            if self == Self::Classes {
                lines.push(format!(
                    "class add dev {device} parent {ROOT:x}:1 classid {share} htb rate {}bit ceil {bits}bit \
                     burst {frame} cburst {burst} quantum {quantum_bytes}",
                    guaranteed(rate, policy)
                ));
            }
            for bucket in 0..classes.buckets {
                let class = format!("{:x}:{:x}", classes.major, classes.minor(level, bucket));
                if self == Self::Classes {
                    lines.push(leaf(&share, &class, level));
                }
                lines.push(format!("qdisc add dev {device} parent {class} {queue}"));
            }
        }
        lines
    }

    /// The qdisc that holds packets.
    fn queue(self, policy: &Policy, quantum: QueueQuantum) -> String {
        let (queue, all) = (policy.queue, u64::from(policy.queue) * u64::from(policy.buckets));
        match self {
            Self::Bands { queues: "fq", .. } => {
                let (frame, first) = (quantum.frame, quantum.bytes.min(QUANTUM_FQ));
                format!("fq limit {all} flow_limit {queue} quantum {frame} initial_quantum {first} nopacing")
            }
            Self::Bands { queues: "sfq", .. } => {
                let frame = quantum.frame.min(QUANTUM_SFQ);
                format!("sfq limit {} depth {} quantum {frame}", all.min(65_408), queue.min(127))
            }
            Self::Bands { .. } | Self::Classes => format!("pfifo limit {queue}"),
        }
    }
}

/// Guaranteed rate of a level, bits per second.
fn guaranteed(rate: Rate, policy: &Policy) -> u64 {
    ((rate.bits_per_sec() as f64 * policy.guaranteed) as u64).max(LEAST)
}

/// Minimum rate of a class and rate of each queue, bits per second: one full frame in twelve minutes.
const LEAST: u64 = 16;

/// Burst in bytes: half a millisecond's worth, since the kernel's timer may be late, and at least four
/// frames.
fn burst(rate: Rate, frame: u64) -> u64 {
    (rate.bits_per_sec() / 8 / 2_000).max(4 * frame)
}

//~ egress: qdiscs that the kernel lacks are named with their replacement
#[cfg(test)]
mod tests {
    use super::super::policy::tests::policy;
    use super::*;

    const QUANTUM: QueueQuantum = QueueQuantum { bytes: 14_062, frame: 1_514, gso: None };

    #[test]
    fn what_is_missing_is_named_with_what_is_used_instead() {
        let check = |has: &[&str], buckets: u16, shape: &str, missing: &[&str]| {
            let policy = Policy { buckets, ..policy() };
            let choice = choose(&policy, QUANTUM, |kind| has.contains(&kind));
            assert_eq!((choice.shape.name().as_str(), choice.missing.as_slice()), (shape, missing));
            assert_eq!(Shape::named(shape), Some(choice.shape));
        };
        check(&["prio", "ets", "fq", "sfq"], 16, "prio of fq", &[]);
        check(&["ets", "sfq"], 16, "ets of sfq", &["prio", "fq"]);
        check(&["prio"], 16, "htb", &["fq", "sfq"]);
        check(&["prio"], 1, "prio of pfifo", &[]);
        check(&[], 16, "htb", &["prio", "ets", "fq", "sfq"]);
        check(&["fq"], 1, "htb", &["prio", "ets"]);
    }

    #[test]
    fn every_queue_is_a_class_and_every_class_is_of_its_level() {
        let most = Policy { thresholds: (1..8).collect(), buckets: 256, ..policy() };
        for policy in [policy(), most] {
            let lines = Shape::Classes.commands("eth0", Rate::from_gbps(1), &policy, 1500, QUANTUM);
            let leaves = policy.levels() * usize::from(policy.buckets);
            assert_eq!(lines.len(), 2 + policy.levels() + 2 * (leaves + 1));
            let classes = lines.iter().filter(|line| line.starts_with("class"));
            assert!(classes.clone().all(|line| line.ends_with(" quantum 14062")), "{lines:?}");
            let classes = Shape::Classes.classes(policy.buckets);
            for level in 0..policy.levels() {
                for bucket in [0, policy.buckets - 1] {
                    assert_eq!(classes.level(classes.minor(level, bucket)), Some(level));
                }
            }
            let none = [1, 2, 9, UNSEEN_CLASS].map(|minor| classes.level(minor));
            assert_eq!(none, [None; 4], "classes without a queue are of none");
            let unknown = lines[0].rsplit(' ').next().unwrap();
            assert!(lines.last().unwrap().contains(&format!(
                "parent fab:{:x} ",
                classes.minor(policy.levels() - 1, policy.buckets - 1)
            )));
            assert_eq!(u16::from_str_radix(unknown, 16), Ok(UNSEEN_CLASS));
        }
    }

    #[test]
    fn bands_avoid_the_number_that_fq_takes_for_control_traffic() {
        let shape = Shape::Bands { levels: "prio", queues: "fq" };
        let eight = Policy { thresholds: (1..8).collect(), ..policy() };
        let lines = shape.commands("eth0", Rate::from_gbps(10), &eight, 1500, QUANTUM);
        let expected = "\
            qdisc replace dev eth0 root handle fab: htb default 1\n\
            class add dev eth0 parent fab: classid fab:1 htb rate 10000000000bit ceil 10000000000bit burst 625000 cburst 625000 quantum 14062\n\
            qdisc add dev eth0 parent fab:1 handle fac: prio bands 16 priomap 15 15 15 15 15 15 15 15 15 15 15 15 15 15 15 15\n\
            qdisc add dev eth0 parent fac:10 fq limit 400 flow_limit 100 quantum 1514 initial_quantum 14062 nopacing\n\
            qdisc add dev eth0 parent fac:8 fq limit 400 flow_limit 100 quantum 1514 initial_quantum 14062 nopacing";
        assert_eq!(lines[..5].join("\n"), expected);
        assert_eq!(lines.len(), 4 + 8);
        let classes = shape.classes(16);
        let minors = (0..8).map(|level| classes.minor(level, 0)).chain([shape.unseen()]);
        assert!(minors.clone().all(|minor| minor & 15 != 7 && minor <= 16));
        assert_eq!(minors.collect::<std::collections::BTreeSet<_>>().len(), 9);
        assert_eq!(classes.level(shape.unseen()).filter(|&level| level < 8), None);
    }

    #[test]
    fn shares_add_up_to_less_than_the_rate() {
        for rate in [1_000_000, 9_500_000_000] {
            let rate = Rate::from_bits_per_sec(rate);
            let policy = Policy { buckets: 256, guaranteed: 0.125, ..policy() };
            assert!((guaranteed(rate, &policy) + 256 * LEAST) * 4 <= rate.bits_per_sec());
        }
    }
}
