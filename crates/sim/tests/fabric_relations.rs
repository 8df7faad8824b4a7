//! Relations between two runs of a fabric, or between flows of one run.

use std::sync::Arc;

use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use queueing::{Arrivals, Rng, Span, Time};
use sim::fabric::{Config, FlowOutcome, Outcome, SCHEDULERS, TraceFlow, run};

const SEGMENT: u64 = 1460;

fn star(hosts: u32) -> String {
    format!("{{ kind = \"star\", hosts = {hosts}, host = {{ gbps = 10, delay = \"20us\" }} }}")
}

fn outcome(topology: &str, scheduler: &str, more: &str, flows: &[TraceFlow]) -> Outcome {
    let text = format!(
        "topology = {topology}\nscheduler = \"{scheduler}\"\nflows = {}\nsizes = \"websearch\"\n\
         arrivals = \"uniform 1\"\nsenders = \"first\"\n{more}",
        flows.len()
    );
    let mut config = Config::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    config.planned = Some(Arc::from(flows));
    run(&config)
}

fn took(flow: &FlowOutcome) -> Span {
    flow.took.unwrap_or_else(|| panic!("it arrives: {flow:?}"))
}

fn at_once(from: u32, to: u32, segments: u64) -> TraceFlow {
    TraceFlow { start: Time::ZERO, from, to, bytes: segments * SEGMENT }
}

/// `count` flows of 1 to 200 segments between random pairs of `hosts`.
fn many_flows(seed: u64, hosts: u32, count: usize) -> Vec<TraceFlow> {
    let mut rng = Rng::seeded(seed);
    let times = Arrivals::Poisson { rate_per_s: 100_000.0 }.times(Time::ZERO, Rng::seeded(seed).fork(1));
    let flow = |start| {
        let from = rng.below(hosts.into()) as u32;
        let to = (from + 1 + rng.below(u64::from(hosts) - 1) as u32) % hosts;
        TraceFlow { start, from, to, bytes: (1 + rng.below(200)) * SEGMENT }
    };
    times.take(count).map(flow).collect()
}

//~ fabric: turns by bytes on a dumbbell give flows of unequal paths their max-min shares
/// Five flows share one host's line of 10 Gbit/s: four cross a core of 16 Gbit/s, one starts
/// beside the receiver. A sixth crosses the core to another host. The host's line gives each of
/// the five 2 Gbit/s, which leaves the sixth 8 of the core.
#[test]
fn drr_on_a_dumbbell_gives_flows_their_max_min_shares() {
    const DUMBBELL: &str = r#"{ kind = "dumbbell", hosts_per_side = 5,
        host = { gbps = 10, delay = "20us" }, core = { gbps = 16, delay = "5us" } }"#;
    // Even hosts are on one side, odd ones on the other.
    let share = |from| at_once(from, 1, 4_000);
    let flows = [share(0), share(2), share(4), share(6), share(5), at_once(8, 3, 16_000)];
    for more in ["", "transport = { kind = \"modern\" }\n"] {
        let more = format!("buffer_size = 2000\necn_threshold = 30\nmarking = \"flow\"\n{more}");
        let found = outcome(DUMBBELL, "drr", &more, &flows);
        // 4,000 segments of 1,500 bytes at 2 Gbit/s.
        let fair = 24e-3;
        for flow in &found.flows {
            let off = took(flow).as_secs_f64() / fair - 1.0;
            assert!((-0.01..0.06).contains(&off), "off by {off:.3}: {flow:?}");
        }
    }
}

//~ fabric: ns-2's transport retransmits a timeout after the last answer, to the nanosecond
#[test]
fn a_lost_packet_is_retransmitted_exactly_one_rto_after_the_last_ack() {
    let took_of = |segments, room: u32| {
        let more = format!("buffer_size = {room}\ntransport = {{ rto = \"2ms\" }}");
        took(&outcome(&star(2), "fifo", &more, &[at_once(0, 1, segments)]).flows[0])
    };
    // One segment on the line, one queued; the third is dropped.
    assert_eq!(took_of(3, 1), took_of(2, 1) + Span::from_millis(2) + took_of(1, 1));
}

fn schedulers() -> impl Strategy<Value = &'static str> {
    // RED draws random numbers, and CoDel has time constants.
    let drawn = |name: &&str| !matches!(*name, "red" | "fq-codel");
    select(SCHEDULERS.iter().map(|&(name, _)| name).filter(drawn).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]

    //~ fabric: half the speed takes twice as long; host names do not matter; more buffer loses no more
    /// Only lines, delays and the timer have a time scale.
    #[test]
    fn a_fabric_at_half_the_speed_takes_twice_as_long(scheduler in schedulers(), seed in 0..1_000_u64) {
        let slower = |times: u64| {
            let topology = format!(
                "{{ kind = \"leaf-spine\", leaves = 2, spines = 2, hosts_per_leaf = 3, \
                 host = {{ gbps = {}, delay = \"{}us\" }}, core = {{ gbps = {}, delay = \"{}ns\" }} }}",
                8 / times, 20 * times, 16 / times, 200 * times,
            );
            let mut flows = many_flows(seed, 6, 60);
            for flow in &mut flows {
                flow.start = Time::ZERO + flow.start.since(Time::ZERO) * times;
            }
            let more = format!(
                "buffer_size = 60\necn_threshold = 20\nthresholds = [5, 20, 60]\ntransport = {{ rto = \"{}ms\" }}", 2 * times
            );
            outcome(&topology, scheduler, &more, &flows)
        };
        let (fast, slow) = (slower(1), slower(2));
        prop_assert_eq!(fast.counters, slow.counters);
        for (fast, slow) in fast.flows.iter().zip(&slow.flows) {
            prop_assert_eq!(took(fast) * 2, took(slow));
        }
    }

    //~ fabric: half the speed takes twice as long; host names do not matter; more buffer loses no more
    #[test]
    fn renumbering_hosts_changes_nothing(scheduler in schedulers(), shift in 1..6_u32, seed in 0..1_000_u64) {
        let renamed = |shift| {
            let mut flows = many_flows(seed, 6, 60);
            for flow in &mut flows {
                (flow.from, flow.to) = ((flow.from + shift) % 6, (flow.to + shift) % 6);
            }
            let found = outcome(&star(6), scheduler, "buffer_size = 60\necn_threshold = 20\nthresholds = [5, 20, 60]", &flows);
            (found.flows.iter().map(took).collect::<Vec<_>>(), found.counters)
        };
        prop_assert_eq!(renamed(0), renamed(shift));
    }

    //~ fabric: half the speed takes twice as long; host names do not matter; more buffer loses no more
    /// Open loop: lost segments are not resent before the end. One queue: with two in series, a
    /// larger first buffer can cost more drops in the second.
    #[test]
    fn fifo_with_twice_the_buffer_loses_no_more(room in 1..40_u32, seed in 0..1_000_u64) {
        let dropped = |room: u32| {
            let more = format!(
                "buffer_size = {room}\nlimit = \"400s\"\n\
                 transport = {{ window = 1e9, window_max = 1e9, rto = \"500s\" }}"
            );
            let mut flows = many_flows(seed, 4, 40);
            flows.iter_mut().for_each(|flow| (flow.from, flow.to) = (0, 1));
            outcome(&star(4), "fifo", &more, &flows).counters.dropped
        };
        prop_assert!(dropped(2 * room) <= dropped(room));
    }
}
