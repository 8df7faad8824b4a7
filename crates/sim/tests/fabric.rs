//! Fabric against invariants and hand-calculated cases.

//~ fabric: the simulated fabric's times and bounds are exact for single packets, trains and windows

use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use queueing::{Span, Time};
use sim::fabric::{
    ACK_BYTES, Config, FlowOutcome, INSTANTS, Outcome, SCHEDULERS, SEGMENT_BYTES, TraceFlow, run,
};

const STAR: &str = r#"{ kind = "star", hosts = 3, host = { gbps = 10, delay = "20200ns" } }"#;
const LEAF_SPINE: &str = r#"{ kind = "leaf-spine", leaves = 2, spines = 3, hosts_per_leaf = 2,
    host = { gbps = 10, delay = "20200ns" }, core = { gbps = 20, delay = "200ns" } }"#;

const DUMBBELL: &str = r#"{ kind = "dumbbell", hosts_per_side = 2,
    host = { gbps = 10, delay = "20200ns" }, core = { gbps = 40, delay = "200ns" } }"#;
const FAT_TREE: &str = r#"{ kind = "fat-tree", k = 4,
    host = { gbps = 10, delay = "20200ns" }, core = { gbps = 10, delay = "200ns" } }"#;

fn config(topology: &str, scheduler: &str, more: &str) -> Config {
    let text = format!("scheduler = \"{scheduler}\"\ntopology = {}\n{more}", topology.replace('\n', " "));
    Config::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// One flow of `segments` from the first host to the second.
fn alone(topology: &str, segments: u32, more: &str) -> Outcome {
    let bytes = segments * 1460;
    let flows = "buffer_size = 1000\nflows = 1\narrivals = \"uniform 1000\"\nsenders = \"first\"";
    run(&config(topology, "fish", &format!("sizes = \"list {bytes}\"\n{flows}\n{more}")))
}

fn took(outcome: &Outcome) -> Span {
    outcome.flows[0].took.expect("a flow alone arrives")
}

fn line(bytes: u32, gbps: u64) -> Span {
    Span::from_nanos(u64::from(bytes) * 8 / gbps)
}

#[test]
fn one_segment_and_its_ack_take_their_links_delays() {
    let delay = Span::from_nanos(2 * 20_200);
    let expected = line(SEGMENT_BYTES, 10) * 2 + line(ACK_BYTES, 10) * 2 + delay * 2;
    assert_eq!(took(&alone(STAR, 1, "")), expected);
}

#[test]
fn across_a_dumbbell_a_segment_also_takes_the_core_link() {
    let there = line(SEGMENT_BYTES, 10) * 2 + line(SEGMENT_BYTES, 40);
    let back = line(ACK_BYTES, 10) * 2 + line(ACK_BYTES, 40);
    let delay = Span::from_nanos(2 * 20_200 + 200);
    assert_eq!(took(&alone(DUMBBELL, 1, "")), there + back + delay * 2);
}

#[test]
fn a_train_takes_its_segments_time_on_the_slowest_link() {
    let one = took(&alone(STAR, 1, ""));
    assert_eq!(took(&alone(STAR, 50, "")), one + line(SEGMENT_BYTES, 10) * 49);
}

#[test]
fn a_full_window_waits_for_its_acks() {
    let settings = "transport = { kind = \"ns2\", window = 4, window_max = 4 }";
    let one = took(&alone(STAR, 1, ""));
    assert_eq!(took(&alone(STAR, 12, settings)), one * 3 + line(SEGMENT_BYTES, 10) * 3);
}

#[test]
fn two_flows_of_a_host_share_its_link_round_robin_or_fifo() {
    let both = "buffer_size = 1000\nflows = 2\nsizes = \"list 73000\"\narrivals = \"burst 2 1s 0ns\"\nsenders = \"first\"";
    let took = |scheduler| {
        let outcome = run(&config(STAR, scheduler, both));
        [0, 1].map(|flow: usize| outcome.flows[flow].took.expect("it arrives"))
    };
    let one = self::took(&alone(STAR, 50, ""));
    let segment = line(SEGMENT_BYTES, 10);
    assert_eq!(took("fifo"), [one, one + segment * 50], "one after the other");
    // Two segments of the first flow leave before the second flow has any.
    assert_eq!(took("flows"), [one + segment * 48, one + segment * 50], "in turns");
}

//~ fabric: an urgent packet waits only for the one on the line; no line is idle while packets wait
/// The second flow starts 20 µs after the first, whose seventeenth segment occupies the line
/// for another 0.4 µs. It meets that segment at no later hop, since it follows directly behind
/// it.
#[test]
fn an_urgent_packet_waits_only_for_the_one_in_transmission() {
    let flows = "thresholds = [1]\nbuffer_size = 1000\nflows = 2\nsizes = \"list 146000*1 1460*1\"\n\
                 arrivals = \"uniform 50000\"\nsenders = \"first\"";
    let one = took(&alone(STAR, 1, ""));
    let took = |scheduler| run(&config(STAR, scheduler, flows)).flows[1].took.expect("it arrives");
    for scheduler in ["pias", "fish", "fish-plus", "las", "srpt"] {
        assert_eq!(took(scheduler), one + Span::from_nanos(400), "{scheduler}");
    }
    // 70 segments fill the first window; 53 of them remain.
    assert_eq!(took("fifo"), one + Span::from_nanos(400) + line(SEGMENT_BYTES, 10) * 53);
}

//~ fabric: an urgent packet waits only for the one on the line; no line is idle while packets wait
/// Senders enqueue everything at once, so that idle time would show: the last byte leaves when
/// all bytes have had the line, in any order.
#[test]
fn links_are_work_conserving() {
    let flows = "thresholds = [5, 20]\nbuffer_size = 10000\nflows = 12\nsizes = \"list 14600*3 146000*2 1460\"\n\
                 arrivals = \"burst 12 1s 0ns\"\nsenders = \"first\"\n\
                 transport = { window = 1000, window_max = 1000, rto = \"1s\" }";
    let segments: u32 = run(&config(STAR, "fifo", flows)).flows.iter().map(|flow| flow.segments).sum();
    let one = took(&alone(STAR, 1, ""));
    for (scheduler, _) in SCHEDULERS {
        let outcome = run(&config(STAR, scheduler, flows));
        let last = outcome.flows.iter().filter_map(|flow| flow.took).max();
        assert_eq!(last, Some(one + line(SEGMENT_BYTES, 10) * u64::from(segments - 1)), "{scheduler}");
    }
}

//~ fabric: levels counted at switches are those that senders count
/// Without losses and pauses, ports count the same bytes as senders.
#[test]
fn switches_assign_the_levels_that_senders_would() {
    for scheduler in ["pias", "fish", "fish-plus"] {
        for (topology, ways) in [(STAR, "flow"), (LEAF_SPINE, "spray"), (FAT_TREE, "flow")] {
            let outcome = |tagging| {
                let more = format!(
                    "{LEVELS}\nmultipath = \"{ways}\"\ntagging = \"{tagging}\"\nidle = \"10s\"\n\
                     transport = {{ rto = \"1s\" }}"
                );
                run(&many_flows(topology, scheduler, "20000", 30, 3, &more))
            };
            let (host, switch) = (outcome("host"), outcome("switch"));
            assert_eq!(host.counters.dropped, 0);
            assert_eq!(host, switch, "{scheduler}");
        }
    }
}

//~ fabric: hosts alone, or switches alone, assign levels
/// A large flow and a small one behind it. Each tagger alone puts the small flow first; switches whose
/// ports never see a flow pass its threshold do not, whatever hosts would count.
#[test]
fn each_tagger_assigns_levels_without_the_other() {
    let small = |tagging: &str, thresholds: &str, idle: &str| {
        let flows = format!(
            "thresholds = [{thresholds}]\ntagging = \"{tagging}\"\nidle = \"{idle}\"\nroom = 1000\nflows = 2\n\
             sizes = \"list 292000*1 1460*1\"\narrivals = \"uniform 50000\"\nsenders = \"first\"\n\
             transport = {{ window = 1000, window_max = 1000, rto = \"1s\" }}"
        );
        run(&config(STAR, "pias", &flows)).flows[1].took.expect("it arrives")
    };
    let alone = took(&alone(STAR, 1, ""));
    for tagging in ["host", "switch"] {
        assert!(small(tagging, "1", "10s") < alone + Span::from_micros(2), "{tagging}");
        assert!(small(tagging, "1000", "10s") > alone + Span::from_micros(100), "{tagging}: one level");
        // Its packets wait for up to 240 us, so the large flow is not idle.
        assert!(small(tagging, "1", "1us") < alone + Span::from_micros(2), "{tagging}: waiting is not idle");
    }
}

//~ fabric: limits by packets or bytes, per port, level or switch, and marks by port, level or flow agree
/// In the direction of the data only full segments are queued.
#[test]
fn byte_and_packet_buffers_agree_for_equal_packets() {
    for (scheduler, _) in SCHEDULERS {
        let outcome = |room: &str, mark: &str| {
            let flows = "flows = 30\nsenders = \"first\"\narrivals = \"poisson 20000\"\n\
                         sizes = \"list 2000*2 40000*3 400000\"";
            run(&config(
                STAR,
                scheduler,
                &format!("{LEVELS}\nbuffer_size = {room}\necn_threshold = {mark}\n{flows}"),
            ))
        };
        let packets = outcome("60", "20");
        assert!(packets.counters.dropped > 0, "{scheduler} drops");
        assert_eq!(packets, outcome("\"90KB\"", "\"30KB\""), "{scheduler}");
    }
}

//~ fabric: limits by packets or bytes, per port, level or switch, and marks by port, level or flow agree
#[test]
fn a_single_flow_is_marked_alike_by_port_queue_and_flow_thresholds() {
    let outcome = |scheduler: &str, marking: &str| {
        let flow =
            "buffer_size = 500\necn_threshold = 30\nflows = 1\nsizes = \"list 3000000\"\nsenders = \"first\"";
        let more = format!("{flow}\narrivals = \"uniform 10\"\nmarking = \"{marking}\"");
        run(&config(STAR, scheduler, &more))
    };
    for scheduler in ["flows", "fish", "fish-plus", "ps"] {
        let port = outcome(scheduler, "port");
        assert!(port.counters.marked > 0);
        assert!(["queue", "flow"].iter().all(|marking| outcome(scheduler, marking) == port), "{scheduler}");
    }
}

//~ fabric: limits by packets or bytes, per port, level or switch, and marks by port, level or flow agree
#[test]
fn ports_of_a_switch_share_its_buffer() {
    let outcome = |senders: &str, buffer: &str| {
        let flows =
            "buffer_size = 60\nflows = 30\narrivals = \"poisson 20000\"\nsizes = \"list 40000*3 400000\"";
        let more = format!("{LEVELS}\n{flows}\nsenders = \"{senders}\"\nbuffer = \"{buffer}\"");
        run(&config(STAR, "fish", &more))
    };
    assert!(outcome("all", "switch").counters.dropped > outcome("all", "port").counters.dropped);
    // With one sender nothing queues at the switch.
    assert_eq!(outcome("first", "switch"), outcome("first", "port"));
}

//~ fabric: a flow alone is exactly as fast as its ideal
#[test]
fn a_single_flow_achieves_its_ideal_time() {
    for topology in [STAR, LEAF_SPINE] {
        for segments in [1, 2, 50, 3_000] {
            for ways in ["multipath = \"spray\"", "multipath = \"ecmp\""] {
                let flow = alone(topology, segments, ways).flows[0];
                assert_eq!(
                    (flow.took, flow.slowdown()),
                    (Some(flow.ideal), Some(1.0)),
                    "{segments} segments"
                );
            }
        }
    }
}

//~ fabric: planned flows start when and where the plan says
#[test]
fn trace_flows_start_at_their_time_and_host() {
    let mut config = config(
        STAR,
        "fifo",
        "buffer_size = 100\nflows = 2\nsizes = \"websearch\"\narrivals = \"uniform 1\"\nsenders = \"all\"",
    );
    let at = |us| Time::ZERO + Span::from_micros(us);
    let planned = [
        TraceFlow { start: at(5), from: 2, to: 0, bytes: 1 },
        TraceFlow { start: at(400), from: 1, to: 2, bytes: 2_921 },
    ];
    config.planned = Some(planned.into());
    let flows = run(&config).flows;
    let found: Vec<_> = flows.iter().map(|flow| (flow.began, flow.from, flow.to, flow.segments)).collect();
    assert_eq!(found, [(at(5), 2, 0, 1), (at(400), 1, 2, 3)]);
    assert!(flows.iter().all(|flow| flow.slowdown() == Some(1.0)));
    config.flows = 3;
    assert!(config.check().unwrap_err().to_string().contains("planned, 2"));
}

//~ fabric: load is the share of a host's line that segments take
#[test]
fn load_is_the_share_of_a_hosts_link_used_by_segments() {
    let load = |senders: &str, sizes: &str, arrivals: &str| {
        let more = format!(
            "buffer_size = 9\nflows = 1\nsenders = {senders}\nsizes = \"{sizes}\"\narrivals = \"{arrivals}\""
        );
        config(STAR, "fifo", &more).load()
    };
    // 1,500 bytes on the wire at 10 Gbit/s take 1.2 us.
    for (senders, share) in
        [("\"first\"", 1.0), ("\"all\"", 1.0), ("{ incast = 2 }", 2.0 / 3.0), ("\"all-to-all\"", 2.0)]
    {
        let found = load(senders, "list 1460 2920", "poisson 100000");
        assert!((found - 0.18 * share).abs() < 1e-9, "{senders}: {found}");
    }
}

//~ fabric: sampling of queue lengths changes nothing
#[test]
fn occupancy_sampling_changes_no_outcome() {
    let more = format!("{LEVELS}\noccupancy = true");
    let plain = run(&many_flows(LEAF_SPINE, "fish", "40", 0, 7, LEVELS));
    let mut seen = run(&many_flows(LEAF_SPINE, "fish", "40", 0, 7, &more));
    let occupancy = std::mem::take(&mut seen.occupancy);
    assert_eq!(seen, plain);
    let ports: Vec<_> = occupancy.queues.iter().map(|queue| queue.ports).collect();
    assert_eq!(ports, [4, 4, 12]);
    for queue in &occupancy.queues {
        assert!(queue.quantile(1.0) <= 40 && queue.series.len() < INSTANTS, "{queue:?}");
        let most = queue.series.iter().map(|&(_, most)| most).max();
        assert!(most <= Some(queue.quantile(1.0)), "{most:?}");
        let covered = occupancy.interval * queue.series.len() as u64;
        assert!(
            covered + occupancy.interval >= plain.elapsed
                && covered <= plain.elapsed + occupancy.interval * 2
        );
    }
    assert_eq!(occupancy.queues[0].quantile(1.0), 40, "hosts' own queues fill");
}

/// Many flows at small buffers.
fn many_flows(topology: &str, scheduler: &str, room: &str, mark: usize, seed: u64, more: &str) -> Config {
    config(
        topology,
        scheduler,
        &format!(
            "buffer_size = {room}\necn_threshold = {mark}\nseed = {seed}\nflows = 60\nsenders = \"all\"\n\
             arrivals = \"poisson 20000\"\nsizes = \"list 2000*2 40000*3 400000\"\n{more}"
        ),
    )
}

const LEVELS: &str = "thresholds = [5, 20, 60]";

fn schedulers() -> impl Strategy<Value = &'static str> {
    select(SCHEDULERS.map(|(name, _)| name).to_vec())
}

fn done(flow: &FlowOutcome) -> bool {
    flow.took.is_some()
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]

    //~ fabric: every packet is delivered, dropped or still queued, and nothing is faster than its line
    #[test]
    fn every_packet_is_delivered_dropped_or_queued_and_every_flow_completes(
        scheduler in schedulers(),
        topology in select(vec![STAR, DUMBBELL, LEAF_SPINE, FAT_TREE]),
        (room, bytes) in (3..200_usize, any::<bool>()),
        (mark, marking) in (0..100_usize, select(vec!["port", "queue"])),
        seed in 0..1_000_u64,
        ways in select(vec!["ecmp", "spray"]),
        (buffer, tagging) in (select(vec!["port", "queue", "switch"]), select(vec!["host", "switch"])),
        parts in any::<bool>(),
    ) {
        let parts = match scheduler {
            "pias" if parts => "shares = [8, 4, 2, 1, 1, 1, 1, 1]",
            "fish" | "fish-plus" if parts => "shares = [8, 4, 2, 1, 1, 1, 1, 1]\nquantum = 3000",
            "flows" | "drr" if parts => "marking = \"flow\"",
            _ => "",
        };
        let marking = if parts.contains("marking") { String::new() } else { format!("marking = \"{marking}\"") };
        let room = if bytes { format!("\"{}B\"", room * 1_500) } else { room.to_string() };
        let more = format!(
            "{LEVELS}\nmultipath = \"{ways}\"\nbuffer = \"{buffer}\"\ntagging = \"{tagging}\"\n{parts}\n{marking}"
        );
        let config = many_flows(topology, scheduler, &room, mark, seed, &more);
        let outcome = run(&config);
        let counters = outcome.counters;
        prop_assert_eq!(counters.sent, counters.delivered + counters.dropped + counters.left);
        prop_assert!(outcome.flows.iter().all(done), "{:?}", outcome.flows.iter().find(|flow| !done(flow)));
        for flow in &outcome.flows {
            let line = Span::from_nanos(u64::from(flow.segments) * 1_200);
            prop_assert!(flow.took >= Some(line), "nothing is faster than its line: {flow:?}");
            prop_assert!(flow.took >= Some(flow.ideal), "nothing is faster than alone: {flow:?}");
        }
        let marks = mark > 0 || ["red", "fq-codel"].contains(&scheduler);
        prop_assert!(marks || counters.marked == 0);
        prop_assert_eq!(&run(&config), &outcome, "a seed replays");
    }

    //~ fabric: FISH with one flow per level is PIAS; without thresholds it takes turns
    /// Without thresholds there is one level, hence levels have no effect.
    #[test]
    fn without_thresholds_fish_is_round_robin_and_pias_is_fifo(
        room in 10..200_usize,
        seed in 0..1_000_u64,
    ) {
        let outcome = |scheduler| run(&many_flows(LEAF_SPINE, scheduler, &room.to_string(), 20, seed, ""));
        prop_assert_eq!(outcome("fish"), outcome("flows"));
        prop_assert_eq!(outcome("pias"), outcome("fifo"));
    }
}

//~ fabric: schedulers agree where no two flows meet
#[test]
fn schedulers_agree_where_no_two_flows_meet() {
    let flows = SCHEDULERS.map(|(scheduler, _)| {
        let more = format!(
            "{LEVELS}\nred = {{ min = 400, max = 450 }}\ncodel = {{ target = \"1s\", interval = \"2s\" }}\nbuffer_size = 500\nflows = 20\nsenders = \"first\"\narrivals = \"uniform 20\"\nsizes = \"list 2000 90000 9000000\""
        );
        run(&config(LEAF_SPINE, scheduler, &more)).flows
    });
    assert!(flows.windows(2).all(|pair| pair[0] == pair[1]), "{flows:?}");
}

//~ fabric: invalid settings are refused with their value
#[test]
fn invalid_settings_are_refused_with_their_value() {
    let good = "topology = { kind = \"star\", hosts = 2, host = { gbps = 10, delay = \"1us\" } }\nscheduler = \"fish\"\n\
                thresholds = [3, 9]\nbuffer_size = 240\nflows = 10\nsizes = \"websearch\"\n\
                arrivals = \"poisson 10\"\nsenders = \"first\"\n";
    assert!(Config::from_toml(good).is_ok());
    let refused = [
        ("hosts = 2", "hosts = 1", "one host"),
        ("gbps = 10", "gbps = 0", "gbps 0"),
        ("\"fish\"", "\"shark\"", "fish-plus"),
        ("[3, 9]", "[9, 3]", "not above"),
        ("[3, 9]", "[1, 2, 3, 4, 5, 6, 7, 8]", "8 thresholds"),
        ("buffer_size = 240", "buffer_size = 0", "buffer_size 0"),
        ("flows = 10", "flows = 0", "flows 0"),
        ("websearch", "weibull", "weibull"),
        ("poisson 10", "poisson 0", "more than 0"),
        ("buffer_size = 240", "rooom = 240", "rooom"),
        ("\"first\"", "\"all\"\nrng_streams = \"ns2\"", "senders first"),
        ("\"first\"", "{ incast = 2 }", "incast 2"),
        ("\"first\"", "\"first\"\ntransport = { kind = \"ns2\", rto = \"0s\" }", "rto"),
        ("\"first\"", "\"first\"\ntransport = { kind = \"quic\" }", "modern"),
        ("\"first\"", "\"first\"\ntransport = { kind = \"modern\", congestion = \"vegas\" }", "newreno"),
        ("\"first\"", "\"first\"\ntransport = { kind = \"modern\", rto_min = \"0s\" }", "1us"),
        ("\"first\"", "\"first\"\ntransport = { kind = \"modern\", window = 70 }", "window"),
        ("buffer_size = 240", "buffer_size = \"360\"", "360KB"),
        ("buffer_size = 240", "buffer_size = \"40B\"", "buffer_size 40B"),
        ("buffer_size = 240", "buffer_size = -1", "number of packets"),
        ("buffer_size = 240", "buffer_size = 240\nbuffer = \"rack\"", "rack"),
        ("buffer_size = 240", "buffer_size = 240\nquantum = 1", "quantum 1"),
        ("buffer_size = 240", "buffer_size = 240\nshares = [1, 2]", "length"),
        ("buffer_size = 240", "buffer_size = 240\nshares = [0, 1, 1, 1, 1, 1, 1, 1]", "shares: 0"),
        ("buffer_size = 240", "buffer_size = 240\nred = { min = 9, max = 9 }", "max is not above"),
        ("buffer_size = 240", "buffer_size = 240\nred = { chance = 2.0 }", "chance 2"),
        ("buffer_size = 240", "buffer_size = 240\ncodel = { target = \"0s\" }", "codel: target"),
        ("buffer_size = 240", "buffer_size = 240\nidle = \"0s\"", "idle 0s"),
        (
            "kind = \"star\", hosts = 2",
            "kind = \"fat-tree\", k = 3, core = { gbps = 1, delay = \"1us\" }",
            "k 3",
        ),
    ];
    for (from, to, expected) in refused {
        let error = Config::from_toml(&good.replace(from, to)).map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}
