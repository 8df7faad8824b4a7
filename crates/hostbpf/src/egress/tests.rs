//! Classification of frames, compared between the model and the loaded program.

use proptest::prelude::*;
use queueing::{Bytes, Priority, Span, Time};

use super::policy::tests::policy;
use super::program::{
    COUNTED_LARGE, COUNTED_OTHER, COUNTED_PINNED, LAST, NEXT_FILTER, SENT, SERVED, WAITING,
};
use super::*;
use queueing::egress::{Backlog, FlowBacklog, LevelState, Line};

mod closed_loop;

const SEED: u64 = 0x0123_4567_89ab_cdef;
const SHAPE: Shape = Shape::Classes;
const QUANTUM: QueueQuantum = QueueQuantum { bytes: 14_062, frame: 1_514, gso: None };

fn rate() -> Rate {
    Rate::from_bits_per_sec(100_000_000)
}

fn choice() -> Choice {
    Choice { shape: SHAPE, quantum: QUANTUM, missing: Vec::new() }
}

/// Constants of the estimate for `policy`.
fn line(policy: &Policy) -> Line {
    backlog::line(policy, rate(), SHAPE, QUANTUM.amounts())
}

/// Prints a skipped test, past the test harness, which captures the output of passing tests.
fn skipped(test: &str, why: &FabricError) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("skipped: {test}: no BPF here: {why}\n").as_bytes());
}

/// The loaded program of `policy`; `None`, with `test` skipped, if BPF is not available.
fn load(test: &str, policy: &Policy) -> Option<Loaded> {
    match Loaded::new(policy, rate(), &choice(), SEED, None) {
        Ok(loaded) => Some(loaded),
        Err(e @ FabricError::NoPermission(_)) => {
            skipped(test, &e);
            None
        }
        Err(e) => panic!("the verifier rejects: {e}"),
    }
}

/// Result of the program for a frame.
struct Made {
    level: usize,
    bucket: u16,
    frame: Vec<u8>,
}

impl Loaded {
    /// Runs the program on `frame`, sent as `segments` segments of `wire` bytes in total.
    fn run(&self, policy: &Policy, frame: &[u8], priority: u32, wire: u32, segments: u32) -> Made {
        let mut context = [0_u8; 192];
        for (at, value) in [(32, priority), (160, wire), (164, segments)] {
            context[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let mut out = vec![0; 4096];
        let (verdict, len) =
            bpf::run(&self.program, frame, &mut context, &mut out).expect("the kernel runs it");
        assert_eq!(verdict.cast_signed(), NEXT_FILTER);
        let class = u32::from_ne_bytes(context[32..36].try_into().unwrap());
        assert_eq!(class >> 16, u32::from(qdisc_plan::ROOT), "{class:x}");
        let (classes, minor) = (SHAPE.classes(policy.buckets), class as u16);
        let level = classes.level(minor).expect("a class of ours");
        out.truncate(len);
        Made { level, bucket: minor - classes.minor(level, 0), frame: out }
    }

    fn counter(&self, at: i32) -> [u64; 2] {
        let value = self.counts.get(&at.to_ne_bytes()).unwrap().unwrap();
        let (words, _) = value.as_chunks::<8>();
        [u64::from_ne_bytes(words[0]), u64::from_ne_bytes(words[1])]
    }
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12], &kind.to_be_bytes()[..], payload].concat()
}

/// The frame with a VLAN tag inserted before its payload.
fn tagged(kind: u16, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &kind.to_be_bytes()[..], &[0, 5], &frame[12..]].concat()
}

/// An IPv4 packet from 10.0.0.`from` with a correct checksum.
fn ipv4(from: u8, protocol: u8, tos: u8, fragment: u16, options: usize, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 20 + options];
    header[0] = 0x45 + (options / 4) as u8;
    header[1] = tos;
    header[2..4].copy_from_slice(&((20 + options + payload.len()) as u16).to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[8] = 64;
    header[9] = protocol;
    header[12..16].copy_from_slice(&[10, 0, 0, from]);
    header[16..20].copy_from_slice(&[10, 0, 0, 1]);
    let sum = !checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    ethernet(0x0800, &[&header, payload].concat())
}

fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

fn ipv6(from: u8, next: u8, class: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 40];
    header[0] = 0x60 | class >> 4;
    header[1] = class << 4 | 5;
    header[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    header[6] = next;
    header[8] = 0xfd;
    header[23] = from;
    header[24] = 0xfd;
    header[39] = 1;
    ethernet(0x86dd, &[&header, payload].concat())
}

/// A transport header with these ports.
fn ports(source: u16, target: u16) -> Vec<u8> {
    [&source.to_be_bytes()[..], &target.to_be_bytes(), &[0; 16]].concat()
}

/// Frames with a flow number; frames of one flow have the same number.
fn vectors() -> Vec<(&'static str, Vec<u8>, u32)> {
    let cut = |mut frame: Vec<u8>, len: usize| {
        frame.truncate(len);
        frame
    };
    let wrong = |mut frame: Vec<u8>, at: usize, byte: u8| {
        frame[at] = byte;
        frame
    };
    let tcp = |source| ipv4(2, 6, 0, 0, 0, &ports(source, 80));
    vec![
        ("tcp", tcp(1000), 1),
        ("tcp with options in its header", ipv4(2, 6, 0, 0, 40, &ports(1000, 80)), 1),
        ("tcp that may not be fragmented", ipv4(2, 6, 0, 0x4000, 0, &ports(1000, 80)), 1),
        ("tcp of another urgency", ipv4(2, 6, 0xb8, 0, 0, &ports(1000, 80)), 1),
        ("tcp with a tag", tagged(0x8100, &tcp(1000)), 1),
        ("tcp with a provider's tag", tagged(0x88a8, &tcp(1000)), 1),
        ("tcp from another port", tcp(1001), 2),
        ("tcp from another host", ipv4(3, 6, 0, 0, 0, &ports(1000, 80)), 3),
        ("udp between the same ports", ipv4(2, 17, 0, 0, 0, &ports(1000, 80)), 4),
        ("sctp", ipv4(2, 132, 0, 0, 0, &ports(1000, 80)), 5),
        ("a first fragment", ipv4(2, 17, 0, 0x2000, 0, &ports(1000, 80)), 6),
        ("a later fragment", ipv4(2, 17, 0, 0x00b9, 0, &ports(7, 7)), 6),
        ("udp without ports", ipv4(2, 17, 0, 0, 0, &[1, 2]), 6),
        ("icmp", ipv4(2, 1, 0, 0, 0, &[8, 0, 1, 1, 1, 1]), 7),
        ("another icmp", ipv4(2, 1, 0, 0, 0, &[0, 0, 2, 2, 2, 2]), 7),
        ("tcp over ipv6", ipv6(2, 6, 0, &ports(1000, 80)), 8),
        ("tcp over ipv6, urgent, with a tag", tagged(0x8100, &ipv6(2, 6, 0xb8, &ports(1000, 80))), 8),
        ("tcp over ipv6 from another port", ipv6(2, 6, 0, &ports(1001, 80)), 9),
        ("an ipv6 fragment", ipv6(2, 44, 0, &[6, 0, 0, 1, 0, 0, 0, 1]), 10),
        ("a later ipv6 fragment", ipv6(2, 44, 0, &[6, 0, 5, 8, 0, 0, 0, 1]), 10),
        ("ipv6 options", ipv6(2, 0, 0, &[6, 0, 1, 4, 0, 0, 0, 0]), 11),
        // Untagged, the kernel's test run rejects a frame shorter than its header.
        ("ipv4 cut short", cut(tagged(0x8100, &tcp(1000)), 37), 12),
        ("ipv4 of another version", wrong(tcp(1000), 14, 0x65), 12),
        ("ipv4 with a header too short", wrong(tcp(1000), 14, 0x44), 12),
        ("ipv6 cut short", cut(tagged(0x8100, &ipv6(2, 6, 0, &[])), 57), 13),
        ("ipv6 of another version", wrong(ipv6(2, 6, 0, &ports(1000, 80)), 14, 0x40), 13),
        ("lldp", ethernet(0x88cc, &[0; 60]), 14),
        ("pppoe", ethernet(0x8864, &[0x11; 60]), 15),
        ("two tags", tagged(0x88a8, &tagged(0x8100, &tcp(1000))), 16),
        ("a tag and no more", ethernet(0x8100, &[0, 5]), 17),
    ]
}

#[test]
fn frames_of_one_flow_have_one_key_and_no_other_has_it() {
    for (what, frame, flow) in vectors() {
        for (other, frame_of_other, its) in vectors() {
            let same = Read::frame(&frame).key == Read::frame(&frame_of_other).key;
            assert_eq!(same, flow == its, "{what} and {other}");
        }
    }
}

/// Compares both on `frames` in order; each takes its length on the wire. The time of a frame is the
/// program's, which its flow keeps.
fn agree(policy: &Policy, loaded: &Loaded, frames: impl IntoIterator<Item = (String, Vec<u8>, u32)>) {
    let mut model = Model::new(policy, line(policy), SEED);
    let mut now = Time::ZERO;
    for (n, (what, frame, priority)) in frames.into_iter().enumerate() {
        let len = frame.len() as u32;
        let made = loaded.run(policy, &frame, priority, len, 0);
        if let Some(flow) = loaded.flows.get(&Read::frame(&frame).key.0).unwrap() {
            now =
                now.max(Time::from_nanos(u64::from_ne_bytes(*flow[LAST as usize..].first_chunk().unwrap())));
        }
        let predicted = model.decide(now, &frame, Bytes::new(len.into()), priority);
        let expected = (predicted.level.index(), predicted.bucket);
        assert_eq!((made.level, made.bucket), expected, "{what}, frame {n}: {frame:x?}");
        match (predicted.dscp, Read::frame(&frame).kind, Read::frame(&made.frame).kind) {
            (None, ..) => assert_eq!(made.frame, frame, "{what}, frame {n}"),
            (Some(new), Kind::Ip { at, version, .. }, Kind::Ip { dscp, .. }) => {
                assert_eq!(dscp, new, "{what}, frame {n}");
                let header = at..at + if version == 4 { usize::from(frame[at] & 15) * 4 } else { 2 };
                let is_right =
                    |frame: &[u8]| header.end <= frame.len() && checksum(&frame[header.clone()]) == 0xffff;
                assert_eq!(
                    version == 4 && is_right(&made.frame),
                    version == 4 && is_right(&frame),
                    "{what}: checksum"
                );
                let ecn =
                    |frame: &[u8]| if version == 4 { frame[at + 1] & 3 } else { frame[at + 1] >> 4 & 3 };
                assert_eq!(ecn(&made.frame), ecn(&frame), "{what}: congestion marks stay");
            }
            (_, before, after) => panic!("{what}, frame {n}: {before:?} became {after:?}"),
        }
    }
}

/// A policy that uses every feature.
fn full() -> Policy {
    let level = |level| Priority::new(level).unwrap();
    Policy {
        buckets: 16,
        pin_priority: vec![(6, level(0)), (u32::MAX, level(3))],
        pin_dscp: vec![(46, level(1)), (1, level(2))],
        dscp: vec![10, 63, 0, 8],
        ..policy()
    }
}

//~ egress: the BPF program assigns levels as its model does, for any mix of frames
#[test]
fn the_kernel_levels_flows_as_the_model_does() {
    let flat = Policy { thresholds: vec![], buckets: 1, ..policy() };
    let deep = (1..8).map(|n| n << 33).collect();
    let deep = Policy { thresholds: deep, buckets: 256, dscp: (20..28).collect(), ..full() };
    for policy in [policy(), full(), flat, deep] {
        let Some(loaded) = load("the_kernel_levels_flows_as_the_model_does", &policy) else { return };
        // Fifty rounds take some flows through all levels.
        let frames = (0..50).flat_map(|_| vectors());
        agree(&policy, &loaded, frames.map(|(what, frame, _)| (what.to_owned(), frame, 0)));
    }
}

//~ egress: senders can pin the level of their packets; a paused flow starts again at the top
#[test]
fn a_sender_that_says_the_level_is_believed_and_not_counted() {
    let policy = full();
    let Some(loaded) = load("a_sender_that_says_the_level_is_believed_and_not_counted", &policy) else {
        return;
    };
    let tcp = |tos| ipv4(2, 6, tos, 0, 0, &ports(1000, 80));
    let check = |frame: &[u8], priority: u32, level: usize| {
        assert_eq!(loaded.run(&policy, frame, priority, 30_000, 0).level, level, "priority {priority}");
    };
    check(&tcp(0), 6, 0);
    check(&tcp(0), u32::MAX, 3);
    check(&tcp(46 << 2), 0, 1);
    check(&tcp(46 << 2), 6, 0);
    check(&ipv6(2, 6, 1 << 2 | 1, &ports(1, 2)), 0, 2);
    assert_eq!(loaded.counter(COUNTED_PINNED), [5, 5 * 30_000]);
    // If these had been counted, the next would be at the last level.
    check(&tcp(0), 0, 0);
    check(&tcp(0), 7, 3);
}

//~ egress: the BPF program assigns levels as its model does, for any mix of frames
#[test]
fn arp_goes_first_and_what_is_no_ip_sinks_like_a_flow() {
    let policy = policy();
    let Some(loaded) = load("arp_goes_first_and_what_is_no_ip_sinks_like_a_flow", &policy) else { return };
    let (arp, pppoe) = (ethernet(0x0806, &[0; 28]), ethernet(0x8864, &[0; 60]));
    for _ in 0..5 {
        assert_eq!(loaded.run(&policy, &arp, 0, 30_000, 0).level, 0);
    }
    let levels = [(); 6].map(|_| loaded.run(&policy, &pppoe, 0, 3_000, 0).level);
    assert_eq!(levels, [0, 1, 2, 2, 2, 2], "before each: 0, 3000, 6000, … bytes");
    assert_eq!(loaded.counter(COUNTED_OTHER), [11, 5 * 30_000 + 6 * 3_000]);
    let tagged_arp = tagged(0x8100, &arp);
    assert_eq!(loaded.run(&policy, &tagged_arp, 0, 30_000, 0).level, 0);
}

#[test]
fn a_packet_counts_for_what_it_is_on_the_wire() {
    let policy = policy();
    let Some(loaded) = load("a_packet_counts_for_what_it_is_on_the_wire", &policy) else { return };
    let frame = ipv4(2, 6, 0, 0, 0, &ports(1000, 80));
    // Three segments of one GSO packet, then a small packet.
    assert_eq!(loaded.run(&policy, &frame, 0, 4_542, 3).level, 0);
    assert_eq!(loaded.run(&policy, &frame, 0, 60, 0).level, 1);
    assert_eq!((loaded.counter(0), loaded.counter(1)), ([3, 4_542], [1, 60]));
    assert_eq!(loaded.counter(COUNTED_LARGE), [0, 0], "none is larger than a quantum");
    loaded.run(&policy, &ipv4(3, 6, 0, 0, 0, &ports(1000, 80)), 0, QUANTUM.bytes + 1, 10);
    assert_eq!(loaded.counter(COUNTED_LARGE), [10, u64::from(QUANTUM.bytes) + 1]);
    let sent = loaded.flows.get(&Read::frame(&frame).key.0).unwrap().expect("the flow is remembered");
    assert_eq!(sent[..8], 4_602_u64.to_ne_bytes());
}

/// A state before a packet, and whether its flow is idle. Times are relative to the packet's, in ms.
struct IdleVector {
    what: &'static str,
    /// Time of the flow's last packet.
    last: i64,
    /// Transmission time of its packets that may wait, and service of its level since the last.
    waiting: i64,
    served: i64,
    /// Times at which the level and all above will be empty, and were.
    drained: i64,
    empty: i64,
    /// Time at which the levels above are empty.
    above: i64,
    is_idle: bool,
}

/// Vectors for an idle time of 2 s, 4 queues in a level and a quantum of about 1.2 ms. A margin of 100 ms
/// hides the time that the test itself takes.
fn idle_vectors() -> Vec<IdleVector> {
    let vector = |what, last, [waiting, served]: [i64; 2], [drained, empty]: [i64; 2], above, is_idle| {
        IdleVector { what, last, waiting, served, drained, empty, above, is_idle }
    };
    vec![
        vector("the queue was empty all the time", -3_000, [100, 0], [-2_900, -3_000], -5_000, true),
        vector("silent for a shorter time", -1_900, [0, 0], [-4_000, -4_500], -5_000, false),
        vector("its packets wait", -3_000, [100, 0], [500, -4_000], -5_000, false),
        vector("the queue emptied only now", -3_000, [900, 0], [-100, -4_000], -5_000, false),
        vector("the queue emptied long ago", -3_000, [900, 0], [-2_100, -4_000], -5_000, true),
        vector("the queue was empty since, and again", -5_000, [900, 0], [500, -500], -5_000, true),
        vector("the queue was empty since", -3_000, [900, 0], [500, -2_100], -5_000, true),
        vector("it was empty since, but recently", -3_000, [900, 0], [500, -1_900], -5_000, false),
        vector("a busy period that the flow began", -3_000, [900, 0], [500, -3_000], -5_000, false),
        vector("others had all their turns since", -9_000, [100, 2_600], [500, -9_500], -5_000, true),
        vector("others may still have turns", -9_000, [100, 2_300], [500, -9_500], -5_000, false),
        vector("the levels above take the line", -9_000, [100, 0], [500, -9_500], 400, false),
        vector("other packets came since", -3_000, [0, 0], [3_000, -2_900], -5_000, true),
        vector("a later time on another processor", 60_000, [0, 0], [-4_000, -4_500], -5_000, false),
        vector("less service on another processor", -3_000, [0, -500], [500, -4_000], -5_000, false),
    ]
}

/// The last level's state and the flow's at `now_ns`.
fn states(vector: &IdleVector, now_ns: u64) -> (Backlog, FlowBacklog) {
    let at =
        |ms: i64| now_ns.checked_add_signed(ms * 1_000_000).expect("the machine has been up for that long");
    let mut backlog = Backlog::default();
    let state = |drained: i64| LevelState {
        drained_ns: at(drained),
        empty_ns: [at(vector.empty), at(vector.empty - 2_000)],
        arrived_ns: 1_000_000_000_000,
    };
    backlog.0[2] = state(vector.above);
    backlog.0[3] = state(vector.drained);
    let served_ns = backlog.served_ns(now_ns, 3).wrapping_add_signed(-vector.served * 1_000_000);
    let waiting_ns = vector.waiting as u64 * 1_000_000;
    (backlog, FlowBacklog { last_ns: at(vector.last), waiting_ns, served_ns })
}

/// Four levels; a flow is idle after 2 s.
fn idle_policy() -> Policy {
    Policy { idle: Span::from_secs(2), ..policy() }
}

//~ egress: a flow is idle only when nothing of it waits and it has been silent since
#[test]
fn a_flow_whose_packets_wait_is_not_idle() {
    let policy = idle_policy();
    for vector in idle_vectors() {
        let now_ns = 100_000_000_000;
        let (backlog, flow) = states(&vector, now_ns);
        let is_idle = flow.is_idle(&backlog, now_ns, 3, &line(&policy));
        assert_eq!(is_idle, vector.is_idle, "{}", vector.what);
    }
}

impl Loaded {
    /// Sets the states, sends one frame of `bytes`, and compares program and model exactly: the
    /// program's time is that of the flow's last packet afterwards. Result: true if the flow was idle.
    fn compare(&self, policy: &Policy, before: &Backlog, sent: u64, flow: FlowBacklog, bytes: u32) -> bool {
        let frame = ipv4(2, 6, 0, 0, 0, &ports(1000, 80));
        let key = Read::frame(&frame).key.0;
        let words = [sent, flow.last_ns, 2, flow.waiting_ns, flow.served_ns];
        self.flows.set(&key, &words.map(u64::to_ne_bytes).concat()).unwrap();
        self.backlog.set(&0_u32.to_ne_bytes(), &backlog::bytes(before)).unwrap();
        let made = self.run(policy, &frame, 0, bytes, 0);
        assert_eq!(made.bucket, 2, "it keeps its queue");
        let entry = self.flows.get(&key).unwrap().expect("the flow is remembered");
        let (words, _) = entry.as_chunks::<8>();
        let word = |at: i16| u64::from_ne_bytes(words[at as usize / 8]);
        let (now_ns, line) = (word(LAST), line(policy));
        let rule = policy.rule().unwrap();
        let level = |sent: u64| rule.level(Bytes::new(sent)).index();
        let is_idle = flow.is_idle(before, now_ns, level(sent), &line);
        let steady = line.steady(now_ns.saturating_sub(flow.last_ns)).get();
        let kept = sent.saturating_sub(steady).max(rule.floor(Bytes::new(sent)).get());
        let sent_after = if is_idle { 0 } else { kept } + u64::from(bytes);
        let (mut flow, mut backlog) = (flow, before.clone());
        let cost_ns = line.cost_ns(Bytes::new(bytes.into()));
        flow.on_arrival(&backlog, now_ns, level(sent_after), cost_ns, &line);
        let chosen = if is_idle { 0 } else { level(sent) };
        for (at, state) in backlog.0.iter_mut().enumerate().skip(policy.levels()) {
            *state = before.0[at];
        }
        backlog.on_arrival(now_ns, chosen, cost_ns, &line);
        let got = FlowBacklog { last_ns: now_ns, waiting_ns: word(WAITING), served_ns: word(SERVED) };
        assert_eq!((made.level, word(SENT), got), (chosen, sent_after, flow), "{before:?}");
        let kept: Vec<u8> =
            self.backlog.get(&0_u32.to_ne_bytes()).unwrap().expect("an array has its entries");
        let kept = backlog::read(&kept);
        assert_eq!(kept.0[..policy.levels()], backlog.0[..policy.levels()], "{before:?}");
        is_idle
    }
}

//~ egress: a flow is idle only when nothing of it waits and it has been silent since
//~ egress: senders can pin the level of their packets; a paused flow starts again at the top
#[test]
fn the_kernel_finds_the_same_flows_idle_as_the_model() {
    let policy = idle_policy();
    let Some(loaded) = load("the_kernel_finds_the_same_flows_idle_as_the_model", &policy) else { return };
    for vector in idle_vectors() {
        let (backlog, flow) = states(&vector, uptime_ns());
        assert_eq!(loaded.compare(&policy, &backlog, 30_000, flow, 100), vector.is_idle, "{}", vector.what);
    }
}

//~ egress: a flow is idle only when nothing of it waits and it has been silent since
#[test]
fn any_backlog_is_estimated_alike_by_model_and_kernel() {
    let policy = idle_policy();
    let times = || -6_000_i64..4_000;
    let level = (times(), times(), 0_u64..20_000);
    let levels = prop::collection::vec(level, 4);
    let flow = (0_u64..40_000, times(), 0_u64..3_000, -1_000_i64..20_000);
    proptest!(ProptestConfig::with_cases(200), |(levels in levels, flow in flow, bytes in 60_u32..65_536)| {
        let test = "any_backlog_is_estimated_alike_by_model_and_kernel";
        let Some(loaded) = load(test, &policy) else { return Ok(()) };
        let now_ns = uptime_ns();
        let at = |ms: i64| now_ns.checked_add_signed(ms * 1_000_000).expect("the machine has been up for that long");
        let mut backlog = Backlog::default();
        for (state, (drained, empty, arrived)) in backlog.0.iter_mut().zip(levels) {
            *state = LevelState {
                drained_ns: at(drained),
                empty_ns: [at(empty), at(empty - 2_500)],
                arrived_ns: 10_000_000_000 + arrived * 1_000_000,
            };
        }
        let (sent, last, waiting, served) = flow;
        let served_ns = (10_000_000_000_i64 + served * 1_000_000) as u64;
        let flow = FlowBacklog { last_ns: at(last), waiting_ns: waiting * 1_000_000, served_ns };
        loaded.compare(&policy, &backlog, sent, flow, bytes);
    });
}

//~ egress: the BPF program assigns levels as its model does, for any mix of frames
#[test]
fn any_mix_of_flows_is_levelled_alike_by_model_and_kernel() {
    let policy = full();
    let frames: Vec<Vec<u8>> = vectors().into_iter().map(|(_, frame, _)| frame).collect();
    let (any, byte) = (any::<prop::sample::Index>(), any::<u8>());
    let damage = prop::collection::vec((any.clone(), byte), 0..2);
    let priority = prop::sample::select(vec![0, 1, 6, 7, u32::MAX]);
    let frame = (any.clone(), damage, priority, any);
    let mixes = prop::collection::vec(frame, 1..120);
    proptest!(ProptestConfig::with_cases(24), |(mix in mixes)| {
        let test = "any_mix_of_flows_is_levelled_alike_by_model_and_kernel";
        let Some(loaded) = load(test, &policy) else { return Ok(()) };
        let damaged = mix.into_iter().map(|(frame, bytes, priority, len)| {
            let mut frame = frames[frame.index(frames.len())].clone();
            for (at, byte) in bytes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            // One in four is truncated. The kernel's test run rejects a frame with an Ethernet header
            // only, and untagged IP without its header.
            frame.truncate(15 + len.index(4 * frame.len()));
            let header = match frame[12..14] {
                [0x08, 0x00] => 20,
                [0x86, 0xdd] => 40,
                _ => 0,
            };
            if frame.len() < 14 + header {
                frame = tagged(0x8100, &frame);
            }
            ("a damaged frame".to_owned(), frame, priority)
        });
        agree(&policy, &loaded, damaged);
    });
}

#[test]
fn pinned_flows_spread_over_queues_evenly_and_by_seed() {
    let frames: Vec<Vec<u8>> = (0..4_000).map(|port| ipv4(2, 6, 0, 0, 0, &ports(port, 80))).collect();
    let spread = |seed: u64| frames.iter().map(move |frame| Read::frame(frame).key.bucket(seed, 16));
    let mut counts = [0; 16];
    spread(SEED).for_each(|bucket| counts[usize::from(bucket)] += 1);
    // 250 each, with a standard deviation of 15.
    assert!(counts.iter().all(|n| (170..330).contains(n)), "{counts:?}");
    let moved = spread(SEED).zip(spread(SEED + 1)).filter(|(a, b)| a != b).count();
    assert!(moved > 3_500, "another seed spreads anew: {moved} of 4000");
}

#[test]
fn flows_that_start_together_are_in_queues_of_their_own() {
    let policy = Policy { buckets: 16, ..policy() };
    let Some(loaded) = load("flows_that_start_together_are_in_queues_of_their_own", &policy) else { return };
    let queue = |port: u16| loaded.run(&policy, &ipv4(2, 6, 0, 0, 0, &ports(port, 80)), 0, 100, 0).bucket;
    let queues: Vec<u16> = (0..40).map(queue).collect();
    let expected: Vec<u16> = (0..40).map(|n| n % 16).collect();
    assert_eq!(queues, expected);
    assert_eq!((0..40).map(queue).collect::<Vec<_>>(), expected, "and stay there");
}

#[test]
fn the_largest_policy_is_verified_too() {
    let most = Policy {
        thresholds: (1..8).collect(),
        buckets: 256,
        flows: 16,
        pin_priority: (0..64).map(|n| (n, Priority::new(n as u8 % 8).unwrap())).collect(),
        pin_dscp: (0..64).map(|n| (n, Priority::new(n % 8).unwrap())).collect(),
        dscp: (0..8).collect(),
        ..policy()
    };
    let none = Policy { thresholds: Vec::new(), buckets: 1, ..policy() };
    for policy in [most, none] {
        policy.check().unwrap();
        if load("the_largest_policy_is_verified_too", &policy).is_none() {
            return;
        }
    }
}
