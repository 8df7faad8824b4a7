//! Levels and queues from what the kernel has.
//!
//! Best is a qdisc that is made for levels, prio or ets, with one inside each
//! that keeps flows apart by itself, fq or sfq. Where one of them is missing,
//! HTB is both: its priorities are the levels, its leaves, which it serves by
//! deficit round robin, the queues that flows take in turn. The class between
//! the rate's and the leaves holds the share that a level is guaranteed,
//! however many of its queues want it. Either way HTB is
//! at the root, for the rate. DRR inside prio is not among them: flows would
//! have to be told apart a second time, and HTB's leaves are the same.

use queueing::Rate;

use super::policy::Policy;
use super::program::Classes;

/// The handle of our root qdisc, and of what is below it.
pub(super) const ROOT: u16 = 0x0fab;
const BANDS: u16 = 0x0fac;

/// What levels and queues are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// HTB's priorities and leaves.
    Classes,
    /// A qdisc of strict bands, and one in each band.
    Bands {
        /// `prio` or `ets`.
        levels: &'static str,
        /// `fq` or `sfq`; `pfifo` where flows are not kept apart.
        queues: &'static str,
    },
}

/// Qdiscs that hold levels, and that keep flows apart; best first.
const LEVELS: [&str; 2] = ["prio", "ets"];
const QUEUES: [&str; 2] = ["fq", "sfq"];

/// What was chosen, and what would have been better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What is used.
    pub shape: Shape,
    /// Kinds of qdisc that were looked for and are not there.
    pub missing: Vec<&'static str>,
}

/// The best shape for `policy` of the qdiscs that the kernel `has`.
pub(super) fn choose(policy: &Policy, has: impl Fn(&str) -> bool) -> Choice {
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
        (Some(levels), Some(queues)) => Choice { shape: Shape::Bands { levels, queues }, missing },
        _ => Choice { shape: Shape::Classes, missing },
    }
}

/// The words in which the kernel is asked whether it has `kind`: ets is no
/// qdisc without its bands.
pub(super) fn tried(kind: &str) -> String {
    if kind == "ets" { levels(kind) } else { kind.to_owned() }
}

/// A qdisc of strict bands in `tc`'s words.
fn levels(kind: &str) -> String {
    let strict = if kind == "ets" { " strict 16" } else { "" };
    format!("{kind} bands 16{strict}")
}

impl Shape {
    /// In a word or two: `htb`, `prio of fq`.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Classes => "htb".to_owned(),
            Self::Bands { levels, queues } => format!("{levels} of {queues}"),
        }
    }

    /// The shape of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let queues = QUEUES.into_iter().chain(["pfifo"]);
        let bands = queues.flat_map(|queues| LEVELS.map(|levels| Self::Bands { levels, queues }));
        [Self::Classes].into_iter().chain(bands).find(|shape| shape.name() == name)
    }

    /// How its classes are numbered for `buckets` queues a level.
    ///
    /// Bands start at the ninth of sixteen: fq reads the lowest four bits of
    /// `skb->priority` too, and 7 there (`TC_PRIO_CONTROL`) has it keep no
    /// flows apart.
    pub(super) fn classes(self, buckets: u16) -> Classes {
        match self {
            Self::Classes => Classes { major: ROOT, base: 0x100, step: 0x100, buckets },
            Self::Bands { .. } => Classes { major: BANDS, base: 9, step: 1, buckets: 1 },
        }
    }

    /// What `tc -batch` makes of `device`, whose frames carry `mtu` bytes.
    pub(super) fn commands(self, device: &str, rate: Rate, policy: &Policy, mtu: u16) -> Vec<String> {
        let frame = u64::from(mtu) + 14;
        let (bits, burst) = (rate.bits_per_sec(), burst(rate, frame));
        let classes = self.classes(policy.buckets);
        let last = match self {
            Self::Classes => classes.minor(policy.levels() - 1, 0),
            Self::Bands { .. } => 1,
        };
        let mut lines = vec![
            format!("qdisc replace dev {device} root handle {ROOT:x}: htb default {last:x}"),
            format!(
                "class add dev {device} parent {ROOT:x}: classid {ROOT:x}:1 htb rate {bits}bit ceil {bits}bit \
                 burst {burst} cburst {burst} quantum {frame}"
            ),
        ];
        if let Self::Bands { levels: kind, .. } = self {
            let levels = levels(kind);
            lines.push(format!("qdisc add dev {device} parent {ROOT:x}:1 handle {BANDS:x}: {levels}"));
        }
        let queue = self.queue(policy, frame);
        for level in 0..policy.levels() {
            let share = format!("{ROOT:x}:{:x}", level + 2);
            if self == Self::Classes {
                lines.push(format!(
                    "class add dev {device} parent {ROOT:x}:1 classid {share} htb rate {}bit ceil {bits}bit \
                     burst {frame} cburst {burst} quantum {frame}",
                    guaranteed(rate, policy)
                ));
            }
            for bucket in 0..classes.buckets {
                let class = format!("{:x}:{:x}", classes.major, classes.minor(level, bucket));
                if self == Self::Classes {
                    lines.push(format!(
                        "class add dev {device} parent {share} classid {class} htb prio {level} rate {LEAST}bit \
                         ceil {bits}bit burst {frame} cburst {burst} quantum {frame}"
                    ));
                }
                lines.push(format!("qdisc add dev {device} parent {class} {queue}"));
            }
        }
        lines
    }

    /// The qdisc that holds packets.
    fn queue(self, policy: &Policy, frame: u64) -> String {
        let (queue, all) = (policy.queue, u64::from(policy.queue) * u64::from(policy.buckets));
        match self {
            Self::Bands { queues: "fq", .. } => {
                format!("fq limit {all} flow_limit {queue} quantum {frame} initial_quantum {frame} nopacing")
            }
            Self::Bands { queues: "sfq", .. } => {
                format!("sfq limit {} depth {} quantum {frame}", all.min(65_408), queue.min(127))
            }
            Self::Bands { .. } | Self::Classes => format!("pfifo limit {queue}"),
        }
    }
}

/// What a level gets whatever the others want, in bits per second.
fn guaranteed(rate: Rate, policy: &Policy) -> u64 {
    ((rate.bits_per_sec() as f64 * policy.guaranteed) as u64).max(LEAST)
}

/// The least that a class can be given, in bits per second, and what each
/// queue's is: a full frame in twelve minutes.
const LEAST: u64 = 16;

/// Bytes that may go back to back: half a millisecond's, as the kernel's timer
/// is late now and then, and no less than four frames.
fn burst(rate: Rate, frame: u64) -> u64 {
    (rate.bits_per_sec() / 8 / 2_000).max(4 * frame)
}

#[cfg(test)]
mod tests {
    use super::super::policy::tests::policy;
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_is_used_instead() {
        let check = |has: &[&str], buckets: u16, shape: &str, missing: &[&str]| {
            let policy = Policy { buckets, ..policy() };
            let choice = choose(&policy, |kind| has.contains(&kind));
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
            let lines = Shape::Classes.commands("eth0", Rate::from_gbps(1), &policy, 1500);
            let leaves = policy.levels() * usize::from(policy.buckets);
            assert_eq!(lines.len(), 2 + policy.levels() + 2 * leaves);
            let classes = Shape::Classes.classes(policy.buckets);
            for level in 0..policy.levels() {
                for bucket in [0, policy.buckets - 1] {
                    assert_eq!(classes.level(classes.minor(level, bucket)), Some(level));
                }
            }
            let none = [1, 2, 9, 0xff].map(|minor| classes.level(minor));
            assert_eq!(none, [None; 4], "classes without a queue are of none");
            let unknown = lines[0].rsplit(' ').next().unwrap();
            assert!(lines.last().unwrap().contains(&format!(
                "parent fab:{:x} ",
                classes.minor(policy.levels() - 1, policy.buckets - 1)
            )));
            assert_eq!(u16::from_str_radix(unknown, 16), Ok(classes.minor(policy.levels() - 1, 0)));
        }
    }

    #[test]
    fn bands_avoid_the_number_that_fq_takes_for_control_traffic() {
        let shape = Shape::Bands { levels: "prio", queues: "fq" };
        let eight = Policy { thresholds: (1..8).collect(), ..policy() };
        let lines = shape.commands("eth0", Rate::from_gbps(10), &eight, 1500);
        let expected = "\
            qdisc replace dev eth0 root handle fab: htb default 1\n\
            class add dev eth0 parent fab: classid fab:1 htb rate 10000000000bit ceil 10000000000bit burst 625000 cburst 625000 quantum 1514\n\
            qdisc add dev eth0 parent fab:1 handle fac: prio bands 16\n\
            qdisc add dev eth0 parent fac:9 fq limit 400 flow_limit 100 quantum 1514 initial_quantum 1514 nopacing";
        assert_eq!(lines[..4].join("\n"), expected);
        assert_eq!(lines.len(), 3 + 8);
        let classes = shape.classes(16);
        assert!((0..8).all(|level| classes.minor(level, 0) & 15 != 7 && classes.minor(level, 0) <= 16));
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
