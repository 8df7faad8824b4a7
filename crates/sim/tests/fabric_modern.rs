//! Fabrics with `net`'s TCP against hand-calculated cases and models of DCTCP and Reno.

//~ fabric: hosts with the stack's TCP complete flows over all schedulers and paths

use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use queueing::Span;
use sim::fabric::{Config, FlowOutcome, Outcome, SCHEDULERS, run};

const STAR: &str = r#"{ kind = "star", hosts = 2, host = { gbps = 10, delay = "20200ns" } }"#;
const LEAF_SPINE: &str = r#"{ kind = "leaf-spine", leaves = 2, spines = 3, hosts_per_leaf = 2, host = { gbps = 10, delay = "20200ns" }, core = { gbps = 20, delay = "200ns" } }"#;

/// Delay of one line of the star.
const DELAY: Span = Span::from_nanos(20_200);

fn config(topology: &str, scheduler: &str, transport: &str, more: &str) -> Config {
    let text = format!(
        "topology = {topology}\nscheduler = \"{scheduler}\"\nmultipath = \"ecmp\"\n\
         transport = {{ kind = \"modern\" {transport} }}\n{more}"
    );
    Config::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// `flows` at once from the first host to the second, of `segments` each.
fn together(flows: u32, segments: u32, transport: &str, more: &str) -> Outcome {
    let text = format!(
        "flows = {flows}\narrivals = \"burst {flows} 1s 0ns\"\nsenders = \"first\"\n\
         sizes = \"list {}\"\n{more}",
        segments * 1460
    );
    run(&config(STAR, "fifo", transport, &text))
}

fn took(flow: &FlowOutcome) -> Span {
    flow.took.unwrap_or_else(|| panic!("it arrives: {flow:?}"))
}

/// Serialisation time of `bytes` at 10 Gbit/s.
fn line(bytes: u64) -> Span {
    Span::from_nanos((bytes * 8).div_ceil(10))
}

/// Lengths with headers: a SYN or SYN-ACK with MSS, window scale, SACK and timestamps; a
/// segment of 1,448 bytes; an acknowledgement.
const SYN: u64 = 64;
const FULL: u64 = 1500;
const ACK: u64 = 52;

/// Time until all of `full` segments and one of `rest` bytes, sent at once after the handshake,
/// are acknowledged: the last one queues at the switch behind the others.
fn after_handshake(full: u64, rest: u64) -> Span {
    let lines = line(SYN) * 4 + line(FULL) * (full + 1) + line(ACK + rest) + line(ACK) * 2;
    lines + DELAY * 8
}

#[test]
fn a_flow_takes_a_handshake_its_links_delays_and_the_last_ack() {
    let alone = |segments| together(1, segments, "", "buffer_size = 1000");
    // A flow's segment of 1,460 bytes becomes one of 1,448 and one of 12.
    assert_eq!(took(&alone(1).flows[0]), after_handshake(1, 12));
    // Nine become nine and one of 108: the initial window of ten.
    assert_eq!(took(&alone(9).flows[0]), after_handshake(9, 108));
    assert_eq!(alone(9).counters.sent, 2 + 10 + 10);
}

//~ fabric: on an open connection a train takes its lines alone, and a lost tail is found in a few round trips
#[test]
fn on_an_open_connection_a_train_takes_only_its_links_delays() {
    let took = |segments| took(&together(1, segments, ", established = true", "buffer_size = 1000").flows[0]);
    let handshake = line(SYN) * 4 + DELAY * 4;
    assert_eq!(took(1), after_handshake(1, 12) - handshake);
    assert_eq!(took(9), after_handshake(9, 108) - handshake);
}

#[test]
fn on_an_open_connection_packets_in_flight_at_a_timestamp_tick_are_no_duplicates() {
    // Timestamps have a resolution of a millisecond: some segments cross a tick in flight.
    let text = "flows = 60\narrivals = \"uniform 52000\"\nsenders = \"first\"\nsizes = \"list 1448\"\nbuffer_size = 1000";
    let outcome = run(&config(STAR, "fifo", ", established = true", text));
    let slowest = outcome.flows.iter().map(took).max().expect("flows");
    assert!(slowest < (line(FULL) + DELAY * 2) * 3, "{slowest}, where a timeout takes 5 ms");
}

//~ fabric: on an open connection a train takes its lines alone, and a lost tail is found in a few round trips
#[test]
fn on_an_open_connection_tail_loss_is_detected_within_a_few_rtts() {
    // The last four of ten segments sent at once are dropped.
    let outcome = together(1, 9, ", established = true", "buffer_size = 5");
    assert!(outcome.counters.dropped >= 4, "{:?}", outcome.counters);
    let trip = line(FULL) * 2 + line(ACK) * 2 + DELAY * 4;
    assert!(took(&outcome.flows[0]) < trip * 6, "{}, where a timeout takes 5 ms", took(&outcome.flows[0]));
}

#[test]
fn in_slow_start_the_window_doubles_per_rtt() {
    // Ten segments, twenty, and the rest: two more round trips.
    let one = took(&together(1, 9, "", "buffer_size = 1000").flows[0]);
    let three = took(&together(1, 40, "", "buffer_size = 1000").flows[0]);
    let trip = line(FULL) * 2 + line(ACK) * 2 + DELAY * 4;
    assert!(three > one + trip * 2 - line(FULL) * 10 && three < one + trip * 2 + line(FULL) * 20, "{three}");
}

const LEVELS: &str = "thresholds = [5, 20, 60]";

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(16))]

    #[test]
    fn every_packet_is_delivered_dropped_or_queued_and_every_flow_completes(
        scheduler in select(SCHEDULERS.map(|(name, _)| name).to_vec()),
        topology in select(vec![STAR, LEAF_SPINE]),
        room in 3..200_usize,
        mark in 0..100_usize,
        seed in 0..1_000_u64,
        ways in select(vec!["ecmp", "spray"]),
        congestion in select(vec!["dctcp", "newreno", "cubic"]),
        established in any::<bool>(),
    ) {
        let config = Config::from_toml(&format!(
            "topology = {topology}\nscheduler = \"{scheduler}\"\nmultipath = \"{ways}\"\n{LEVELS}\n\
             transport = {{ kind = \"modern\", congestion = \"{congestion}\", established = {established} }}\n\
             buffer_size = {room}\necn_threshold = {mark}\nseed = {seed}\nflows = 60\nsenders = \"all\"\n\
             arrivals = \"poisson 20000\"\nsizes = \"list 2000*2 40000*3 400000\"\nlimit = \"1000s\""
        )).unwrap();
        let outcome = run(&config);
        let counters = outcome.counters;
        prop_assert_eq!(counters.sent, counters.delivered + counters.dropped + counters.left);
        for flow in &outcome.flows {
            prop_assert!(flow.took.is_some(), "{:?} of {:?}", flow, counters);
            let line = Span::from_nanos(u64::from(flow.segments) * 1_200);
            prop_assert!(flow.took >= Some(line), "nothing is faster than its line: {flow:?}");
        }
        prop_assert!((mark > 0 && congestion == "dctcp") || counters.marked == 0);
        prop_assert_eq!(&run(&config), &outcome, "a seed replays");
    }
}

#[test]
fn flows_on_one_path_without_drops_never_retransmit() {
    let more = "buffer_size = 100000\necn_threshold = 65\nflows = 40\nsenders = \"all\"\narrivals = \"poisson 20000\"\n\
                sizes = \"list 40000*3 400000\"";
    let outcome = run(&config(LEAF_SPINE, "fifo", "", more));
    assert_eq!(outcome.counters.dropped, 0);
    assert_eq!(outcome.flows.iter().map(|flow| flow.retransmitted + flow.timeouts).sum::<u32>(), 0);
}

/// Steady state: difference between two runs of equal start. Data packets, marks, drops,
/// retransmitted segments, and time.
struct Steady {
    packets: f64,
    marked: f64,
    dropped: u64,
    retransmitted: u32,
    span: Span,
}

fn steady(flows: u32, segments: [u32; 2], transport: &str, more: &str) -> Steady {
    let [short, long] = segments.map(|segments| together(flows, segments, transport, more));
    let slowest = |outcome: &Outcome| outcome.flows.iter().map(took).max().expect("flows");
    let retransmitted = |outcome: &Outcome| outcome.flows.iter().map(|flow| flow.retransmitted).sum::<u32>();
    Steady {
        packets: f64::from(flows * (segments[1] - segments[0])) * 1460.0 / 1448.0,
        marked: (long.counters.marked - short.counters.marked) as f64,
        dropped: long.counters.dropped - short.counters.dropped,
        retransmitted: retransmitted(&long) - retransmitted(&short),
        span: slowest(&long) - slowest(&short),
    }
}

//~ fabric: DCTCP marks as its model predicts and keeps the queue within K + 2N + 2 packets
/// SIGCOMM '10 §3.3: N synchronised flows have α ≈ √(2/W*) with W* = (C·RTT + K)/N, and α
/// estimates the share of marks. The queue never exceeds K + N, and is never empty if K >
/// C·RTT/7.
#[test]
fn dctcp_marking_and_queue_match_its_model() {
    const MARK: u32 = 65;
    // C·RTT: four delays, and a segment and an acknowledgement on each line.
    let pipe = (DELAY * 4 + line(FULL) * 2 + line(ACK) * 2).as_nanos() as f64 / 1200.0;
    for flows in [1_u32, 2, 4, 8] {
        // One segment per flow beyond K + N, since flows are not perfectly synchronised.
        let room = MARK + 2 * flows + 2;
        let more = format!("buffer_size = {room}\necn_threshold = {MARK}");
        let found = steady(flows, [5_000, 25_000], "", &more);
        assert_eq!((found.dropped, found.retransmitted), (0, 0), "{flows} flows in a queue of {room}");
        let window = (pipe + f64::from(MARK)) / f64::from(flows);
        let (alpha, model) = (found.marked / found.packets, (2.0 / window).sqrt());
        assert!((alpha / model - 1.0).abs() < 0.3, "{flows} flows: {alpha}, {model} by the model");
        let busy = found.packets * 1200.0 / found.span.as_nanos() as f64;
        assert!(busy > 0.995, "{flows} flows: the line is never idle, {busy}");
    }
}

//~ fabric: NewReno's throughput follows √(3/2)/√p within 10 %
/// Mathis et al., CCR '97: a window that halves on each loss sends √(3/2)/√p segments per round
/// trip.
#[test]
fn newreno_throughput_matches_its_loss_rate() {
    let found = steady(1, [10_000, 70_000], ", congestion = \"newreno\"", "buffer_size = 4");
    let rtt = (DELAY * 4 + line(FULL) * 2 + line(ACK) * 2).as_nanos() as f64;
    let loss = f64::from(found.retransmitted) / found.packets;
    let a_trip = found.packets / (found.span.as_nanos() as f64 / rtt);
    let model = (1.5 / loss).sqrt();
    assert!((a_trip / model - 1.0).abs() < 0.1, "{a_trip} a round trip, {model} by the model, p = {loss}");
}
