//! Tests of every scheduler and of every setting.

use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use queueing::{Entry, PushResult, Thresholds, Time};

use super::*;
use crate::fabric::packet::{Packet, PacketKind};

/// Settings valid for a scheduler.
fn settings(scheduler: Scheduler) -> Vec<&'static str> {
    let mut settings =
        vec!["", "ecn_threshold = 5", "ecn_threshold = 5\nmarking = \"queue\"", "red = { min = 2, max = 6 }"];
    if scheduler.is_flow_fair() && scheduler != Scheduler::FqCodel {
        settings.extend(["quantum = 4000", "ecn_threshold = 2\nmarking = \"flow\""]);
    }
    if scheduler.has_levels() {
        settings.push("buffer = \"queue\"");
    }
    settings
}

fn config(scheduler: Scheduler, room: &str, more: &str) -> Config {
    let text = format!(
        "scheduler = \"{}\"\nbuffer_size = {room}\n{more}\nthresholds = [3, 6, 12]\nflows = 1\nsenders = \"first\"\n\
         sizes = \"websearch\"\narrivals = \"poisson 1\"\ncodel = {{ target = \"20us\", interval = \"100us\" }}\n\
         topology = {{ kind = \"star\", hosts = 2, host = {{ gbps = 10, delay = \"1us\" }} }}",
        scheduler.name()
    );
    Config::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn packet(flow: u32, segment: u32, thresholds: &Thresholds) -> Packet {
    Packet {
        flow,
        segment,
        bytes: SEGMENT_BYTES,
        capable: true,
        kind: PacketKind::Data,
        level: thresholds.level(Bytes::new(u64::from(segment) * super::super::MSS)),
        left: 10_000 - segment,
        marked: false,
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(32))]

    //~ fabric: under every scheduler a flow keeps its order and every waiting packet is served
    /// Levels only fall, so a flow stays in order across levels too.
    #[test]
    fn flows_stay_in_order_and_every_queued_packet_is_served(steps in vec((0..5_u32, 1..9_u32, 0..8_u32), 1..80)) {
        for (name, scheduler) in SCHEDULERS {
            for more in settings(scheduler) {
                let config = config(scheduler, "24", more);
                let thresholds = config.thresholds().expect("good ones");
                let mut queue = queue(&config, &Rng::seeded(1));
                let (mut sent, mut served, mut waiting) = ([0; 5], [None; 5], 0);
                for (step, &(flow, packets, pops)) in steps.iter().enumerate() {
                    let now = Time::ZERO + Span::from_micros(step as u64 * 7);
                    for _ in 0..packets {
                        let packet = packet(flow, sent[flow as usize], &thresholds);
                        sent[flow as usize] += 1;
                        match queue.push(now, Queued::new(packet.segment, &packet)) {
                            PushResult::Queued => waiting += 1,
                            PushResult::Refused(_) | PushResult::PushedOut(_) => {}
                        }
                    }
                    for _ in 0..pops {
                        let popped = queue.pop(now);
                        prop_assert_eq!(popped.is_some(), waiting > 0, "{}, {}: idle beside work", name, more);
                        let Some(popped) = popped else { break };
                        waiting -= 1;
                        let last = &mut served[(popped.flow().0 >> 1) as usize];
                        prop_assert!(*last < Some(popped.packet), "{name}, {more}: out of order");
                        *last = Some(popped.packet);
                    }
                    prop_assert_eq!(queue.len(), waiting);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(32))]

    //~ fabric: a packet that may bypass an empty queue comes out unchanged
    /// Packets of several sizes at a line that is free from time to time.
    #[test]
    fn a_bypassing_packet_leaves_the_queue_unchanged(
        steps in vec((0..4_u32, 1..4_usize, 40..1_501_u32, 0..4_usize), 1..80),
    ) {
        for (name, scheduler) in SCHEDULERS {
            for more in settings(scheduler) {
                let config = config(scheduler, "24", more);
                let thresholds = config.thresholds().expect("good ones");
                let (mut through, mut past) = (queue(&config, &Rng::seeded(1)), queue(&config, &Rng::seeded(1)));
                for (step, &(flow, packets, bytes, pops)) in (0_u32..).zip(&steps) {
                    let now = Time::ZERO + Span::from_micros(u64::from(step) * 7);
                    let queued = Queued::new(step, &Packet { bytes, ..packet(flow, step, &thresholds) });
                    let short = Packet { bytes: ACK_BYTES, ..packet(9, step, &thresholds) };
                    let short = Queued::new(step, &short);
                    for _ in 0..packets {
                        if past.is_empty() && past.passes(&queued) {
                            prop_assert!(past.passes(&short), "{}, {}: who is no longer", name, more);
                        }
                        let pushed = through.push(now, queued);
                        if past.is_empty() && past.passes(&queued) {
                            let popped = through.pop(now);
                            prop_assert_eq!(popped.map(|popped| format!("{popped:?}")), Some(format!("{queued:?}")));
                        } else {
                            prop_assert_eq!(format!("{:?}", past.push(now, queued)), format!("{pushed:?}"));
                        }
                    }
                    for _ in 0..pops {
                        let popped = (through.pop(now), past.pop(now));
                        prop_assert_eq!(format!("{:?}", popped.0), format!("{:?}", popped.1), "{}, {}", name, more);
                    }
                }
            }
        }
    }
}

#[test]
fn settings_that_do_not_fit_the_scheduler_are_refused() {
    let error = |scheduler, more| {
        let mut config = config(scheduler, "24", "");
        let other = config_of(more);
        (config.quantum, config.shares, config.marking) = (other.quantum, other.shares, other.marking);
        config.check().map_err(|error| error.to_string())
    };
    let shares = "shares = [8, 7, 6, 5, 4, 3, 2, 1]";
    for (name, scheduler) in SCHEDULERS {
        for (more, fits) in [
            (shares, scheduler.has_levels()),
            ("quantum = 9000", scheduler.is_flow_fair()),
            ("marking = \"flow\"", scheduler.is_flow_fair() && scheduler != Scheduler::FqCodel),
        ] {
            let checked = error(scheduler, more);
            assert_eq!(checked.is_ok(), fits, "{more}: {checked:?}");
            assert!(checked.err().is_none_or(|error| error.contains(name)), "{name}, {more}");
        }
    }
}

/// Configuration with the scheduler `fish`, and the settings `more`.
fn config_of(more: &str) -> Config {
    config(Scheduler::Fish, "24", more)
}
