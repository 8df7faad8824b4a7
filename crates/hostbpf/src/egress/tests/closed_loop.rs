//! The policy beside one FIFO, for flows that send again when their packets leave.
//!
//! Levels by the model, queues by the disciplines that simulated switches use, a line at a rate. Bulk
//! flows keep two packets in the queue, as the kernel's TCP does beneath its limit (TSQ), so each is
//! silent while its packets wait. Short requests come beside them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use queueing::{Discipline, Entry, FairQueue, FlowId, Label, PushResult, Strict};

use super::*;

/// Bytes of a short request.
const REQUEST: u64 = 20_000;
/// Interval of requests.
const PERIOD: Span = Span::from_millis(150);

/// Pause of a connection that sank: longer than 64 full queues of 240 frames take at 100 Mbit/s.
const PAUSE: Span = Span::from_secs(3);

#[derive(Clone, Copy, Debug)]
struct Case {
    bulk: u32,
    rate: Rate,
    /// Bytes of the packets that bulk flows enqueue.
    packet: u64,
    /// Bytes of a queue's quantum.
    quantum: u64,
    /// Time until the bulk flows have passed the last threshold; requests count from then on.
    warm_up: Span,
}

#[derive(Clone, Copy)]
struct Packet {
    source: Source,
    level: Priority,
    bucket: u16,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Source {
    Bulk(u32),
    /// A packet of the request that started at this time.
    Request(Time),
}

impl Entry for Packet {
    fn label(&self) -> Label {
        Label::new(self.level)
    }

    fn flow(&self) -> FlowId {
        FlowId(self.bucket.into())
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes)
    }
}

/// Outcome of a run.
#[derive(Debug)]
struct Outcome {
    /// Completion times of requests, sorted.
    requests: Vec<Span>,
    /// Bulk packets that arrived after every bulk flow had reached the last level, and those of them at
    /// the last level.
    bulk: [u64; 2],
    /// Share of the line's time in use.
    utilisation: f64,
}

/// Bulk flows, a request on a new connection per [`PERIOD`], and, unless `sunk_until` is zero, a
/// connection that sends like bulk until then and requests after a pause.
fn run(
    case: Case,
    policy: &Policy,
    queue: &mut dyn Discipline<Packet>,
    duration: Span,
    sunk_until: Span,
) -> Outcome {
    let mut model = Model::new(
        policy,
        backlog::line(policy, case.rate, SHAPE, [case.quantum, 1_514].map(Bytes::new)),
        SEED,
    );
    let frame = |flow: u32| ipv4((flow >> 12) as u8, 6, 0, 0, 0, &ports((flow & 0xfff) as u16 + 1, 80));
    let sunk = case.bulk;
    // Others come on connections of their own.
    let mut fresh = sunk;
    let mut sunk_flows = vec![false; case.bulk as usize + 1];
    let (mut requests, mut bulk, mut busy) = (Vec::new(), [0, 0], Span::ZERO);
    let mut free_at = Time::ZERO;
    let mut starts: BinaryHeap<Reverse<(Time, u32)>> = BinaryHeap::new();
    starts.push(Reverse((Time::ZERO + PERIOD, u32::MAX)));
    if sunk_until > Span::ZERO {
        starts.push(Reverse((Time::ZERO + sunk_until + PAUSE + PERIOD / 2, sunk)));
    }
    let mut queued: std::collections::HashMap<u64, usize> = std::collections::HashMap::new();
    let mut push = |now: Time, flow: u32, bytes: u64, source: Source, queue: &mut dyn Discipline<Packet>| {
        let verdict = model.decide(now, &frame(flow), Bytes::new(bytes), 0);
        if let Source::Bulk(flow) = source {
            let all_sunk = sunk_flows[..case.bulk as usize].iter().all(|&is_sunk| is_sunk);
            sunk_flows[flow as usize] |= verdict.level.index() + 1 == policy.levels();
            if all_sunk && flow < case.bulk {
                bulk[0] += 1;
                bulk[1] += u64::from(verdict.level.index() + 1 == policy.levels());
            }
        }
        let packet = Packet { source, level: verdict.level, bucket: verdict.bucket, bytes };
        assert!(matches!(queue.push(now, packet), PushResult::Queued), "the queue is large enough");
    };
    for flow in 0..=case.bulk {
        (0..2).for_each(|_| push(Time::ZERO, flow, case.packet, Source::Bulk(flow), queue));
    }
    let end = Time::ZERO + duration;
    loop {
        let next_start = starts.peek().map_or(Time::MAX, |Reverse((at, _))| *at);
        let waits = !queue.is_empty();
        if waits && free_at <= next_start {
            let now = free_at;
            if now >= end {
                break;
            }
            let packet = queue.pop(now).expect("it has entries");
            let span = case.rate.time_for(Bytes::new(packet.bytes));
            free_at = now + span;
            busy += span;
            match packet.source {
                Source::Bulk(flow) if flow < case.bulk || now.since(Time::ZERO) < sunk_until => {
                    // The kernel frees the packet when the line has it.
                    push(now, flow, case.packet, Source::Bulk(flow), queue);
                }
                Source::Bulk(_) => {}
                Source::Request(start) => {
                    let left = queued.get_mut(&start.as_nanos()).expect("it was queued");
                    *left -= 1;
                    if *left == 0 && start >= Time::ZERO + case.warm_up {
                        requests.push(free_at.since(start));
                    }
                }
            }
            continue;
        }
        let Some(Reverse((at, flow))) = starts.pop() else { break };
        if at >= end {
            break;
        }
        starts.push(Reverse((at + PERIOD, flow)));
        free_at = free_at.max(at);
        let count = REQUEST.div_ceil(case.packet);
        // Starts differ, so they identify a request.
        queued.insert(at.as_nanos(), count as usize);
        fresh += 1;
        let flow = if flow == sunk { sunk } else { fresh };
        for n in 0..count {
            let bytes = case.packet.min(REQUEST - n * case.packet);
            push(at, flow, bytes, Source::Request(at), queue);
        }
    }
    requests.sort_unstable();
    let utilisation = busy.as_secs_f64() / free_at.since(Time::ZERO).as_secs_f64();
    Outcome { requests, bulk, utilisation }
}

/// Four levels of 64 queues, idle after 100 ms as in the built-in policies.
fn levels() -> Policy {
    Policy {
        thresholds: vec![100_000, 200_000, 400_000],
        buckets: 64,
        queue: 240,
        idle: Span::from_millis(100),
        ..policy()
    }
}

//~ egress: backlogged flows stay at their level; requests on new connections never wait longer than in one FIFO
#[test]
fn backlogged_flows_stay_low_and_requests_are_faster_than_in_one_fifo() {
    let policy = levels();
    for bulk in [1, 4, 40, 120, 300] {
        for mbit in [10, 100, 1_000, 10_000] {
            for packet in [1_514, 12_500, 68_000] {
                // As attach limits them: two frames, or 0.1 ms of the line with headers.
                if packet > 3_406_u64.max(mbit * 25 / 2 * 9 / 8) {
                    continue;
                }
                for quantum in [1_514, 14_062, 73_728].into_iter().filter(|&quantum| quantum >= packet) {
                    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
                    let warm_up = rate.time_for(Bytes::new(u64::from(bulk + 1) * 600_000)) + PERIOD;
                    let case = Case { bulk, rate, packet, quantum, warm_up };
                    let duration = warm_up + PERIOD * 12;
                    // A bound on the work.
                    if rate.bits_per_sec() as f64 / 8.0 * duration.as_secs_f64() / packet as f64 > 60_000.0 {
                        continue;
                    }
                    let fair = || FairQueue::new(1 << 20).by_bytes(Bytes::new(quantum));
                    let outcome =
                        run(case, &policy, &mut Strict::new(1 << 20, |_| fair()), duration, Span::ZERO);
                    let fifo = run(case, &policy, &mut queueing::Fifo::new(1 << 20), duration, Span::ZERO);
                    assert!(outcome.requests.len() >= 10, "{case:?}: {}", outcome.requests.len());
                    let [all, lowest] = outcome.bulk;
                    assert_eq!(lowest, all, "{case:?}: bulk packets at the last level");
                    // No request was served at all where a FIFO is too long.
                    let p99 = |outcome: &Outcome| {
                        outcome.requests.get(outcome.requests.len() * 99 / 100).copied().unwrap_or(Span::MAX)
                    };
                    assert!(p99(&outcome) <= p99(&fifo), "{case:?}: {} and {}", p99(&outcome), p99(&fifo));
                    assert!(outcome.utilisation >= 0.98 * fifo.utilisation, "{case:?}");
                }
            }
        }
    }
}

//~ egress: a flow that sank and then pauses starts again at the top, while others keep its level busy
#[test]
fn a_flow_that_sank_and_pauses_starts_again_while_its_level_is_busy() {
    let policy = levels();
    for bulk in [4, 40, 60] {
        for packet in [1_514, 12_500] {
            let rate = Rate::from_bits_per_sec(100_000_000);
            let sunk = rate.time_for(Bytes::new(u64::from(bulk + 1) * 600_000)) + PERIOD;
            let case = Case { bulk, rate, packet, quantum: 14_062, warm_up: sunk };
            let fair = || FairQueue::new(1 << 20).by_bytes(Bytes::new(case.quantum));
            // The connection sends less than the last threshold after its pause.
            let duration = sunk + PAUSE + PERIOD * 18;
            let outcome = run(case, &policy, &mut Strict::new(1 << 20, |_| fair()), duration, sunk);
            // Alone at the top, beside a packet on the line and another request.
            let most = rate.time_for(Bytes::new(2 * REQUEST + 2 * packet));
            let worst = outcome.requests.last().copied().unwrap_or_default();
            assert!(worst <= most, "{case:?}: {worst} exceeds {most}");
            assert!(outcome.requests.len() > 40, "{case:?}: {}", outcome.requests.len());
        }
    }
}
