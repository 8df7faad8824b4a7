//! Properties of a port's compositions: shares, bounds, and marks.

mod packet;

use packet::{Packet, drain, fill, packet};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};
use queueing::{
    Aqm, AqmQueue, Bytes, CoDel, Discipline, Drr, DrrConfig, FairQueue, Fifo, FlowPifo, PushResult,
    QueueLength, Span, Strict, Time,
};

const QUANTUM: u64 = 1500;
const MTU: u64 = 1500;

fn fair_by_bytes(capacity: usize) -> FairQueue<Packet> {
    FairQueue::new(capacity).by_bytes(Bytes::new(QUANTUM))
}

/// Max-min fair shares of `supply` in bytes: no flow gets more than its demand,
/// and flows that get less all get the same.
fn max_min(demands: &[u64], supply: u64) -> Vec<u64> {
    let (mut level, mut left) = (0, supply);
    let mut wants = demands.to_vec();
    wants.sort_unstable();
    for (n, want) in wants.iter().enumerate() {
        let share = left / (wants.len() - n) as u64;
        level = share.max(level);
        left -= share.min(*want);
    }
    demands.iter().map(|&demand| demand.min(level)).collect()
}

#[test]
fn max_min_agrees_with_examples() {
    assert_eq!(max_min(&[2, 8, 10], 12), [2, 5, 5]);
    assert_eq!(max_min(&[4, 4], 12), [4, 4]);
    assert_eq!(max_min(&[9, 1, 3, 9], 12), [4, 1, 3, 4]);
}

proptest! {
    //~ fabric: turns by bytes are fair within a quantum and a packet, and max-min fair
    /// Flows that are backlogged together have been served equal bytes, within a
    /// quantum and a packet.
    #[test]
    fn turns_of_bytes_are_fair_within_a_quantum_and_a_packet(
        sizes in vec(vec(40..=MTU, 200), 2..6),
        quantum in 100..4_000_u64,
    ) {
        let mut queue = FairQueue::new(10_000).by_bytes(Bytes::new(quantum));
        for (flow, sizes) in sizes.iter().enumerate() {
            fill(&mut queue, sizes.iter().map(|&bytes| Packet { bytes, ..packet(0, flow as u64) }));
        }
        let (mut sent, mut left) = (vec![0; sizes.len()], vec![200; sizes.len()]);
        while left.iter().all(|&left| left > 0) {
            let packet = queue.pop(Time::ZERO).expect("all wait");
            // A packet larger than the quantum counts as the quantum.
            sent[packet.flow as usize] += packet.bytes.min(quantum);
            left[packet.flow as usize] -= 1;
            let (least, most) = (sent.iter().min().expect("flows"), sent.iter().max().expect("flows"));
            prop_assert!(most - least <= quantum + MTU, "{sent:?}");
        }
    }

    //~ fabric: turns by bytes are fair within a quantum and a packet, and max-min fair
    /// Flows with steady rates through a slower link get max-min fair shares.
    #[test]
    fn turns_of_bytes_are_max_min_fair(rates in vec(0..4_000_u64, 2..7), sizes in vec(200..=MTU, 6)) {
        const SLOTS: u64 = 400;
        let mut queue = fair_by_bytes(100_000);
        let (mut sent, mut offered) = (vec![0; rates.len()], vec![0; rates.len()]);
        let mut link = 0;
        for slot in 1..=SLOTS {
            for (flow, &rate) in rates.iter().enumerate() {
                while offered[flow] + sizes[flow % sizes.len()] <= rate * slot {
                    let bytes = sizes[flow % sizes.len()];
                    offered[flow] += bytes;
                    fill(&mut queue, [Packet { bytes, ..packet(0, flow as u64) }]);
                }
            }
            while link < slot * 3_000 {
                let Some(packet) = queue.pop(Time::ZERO) else {
                    link = slot * 3_000;
                    break;
                };
                link += packet.bytes;
                sent[packet.flow as usize] += packet.bytes;
            }
        }
        let fair = max_min(&offered, SLOTS * 3_000);
        // A flow may lag by a quantum and a packet for each flow in the round.
        let slack = (rates.len() as u64 + 1) * (QUANTUM + MTU);
        for (flow, (&sent, &fair)) in sent.iter().zip(&fair).enumerate() {
            prop_assert!(sent.abs_diff(fair) <= slack, "flow {flow}: {sent} of {fair}");
        }
    }

    //~ fabric: SRPT has the least mean of all orders and keeps each flow's order
    /// On a link of one packet per tick, with all packets of a flow queued at once,
    /// no order of flows has a lower mean than shortest remaining first.
    #[test]
    fn shortest_remaining_first_has_the_least_mean(flows in flows()) {
        let srpt = mean_time(&flows, &mut FlowPifo::new(10_000, |packet: &Packet| packet.bytes));
        let las = FlowPifo::new(10_000, |packet: &Packet| packet.number as u64);
        let others: [(&str, Box<dyn Discipline<Packet>>); 5] = [
            ("fifo", Box::new(Fifo::new(10_000))),
            ("flows", Box::new(FairQueue::new(10_000))),
            ("pias", Box::new(Strict::new(10_000, |_| Fifo::new(10_000)))),
            ("fish", Box::new(Strict::new(10_000, |_| FairQueue::new(10_000)))),
            ("las", Box::new(las)),
        ];
        for (name, mut queue) in others {
            let other = mean_time(&flows, queue.as_mut());
            prop_assert!(srpt <= other, "{srpt} ticks, {name} {other}");
        }
    }

    //~ fabric: an arrival is marked exactly when the queue with it exceeds the threshold
    /// DCTCP's rule, in both units.
    #[test]
    fn an_arrival_is_marked_exactly_when_more_than_the_threshold_waits_with_it(
        steps in vec((40..=MTU, any::<bool>(), 0..3_u8), 1..200),
        most in 1..20_000_u64,
    ) {
        for most in [QueueLength::Bytes(most), QueueLength::Entries(most / MTU)] {
            let mut queue = AqmQueue::new(Fifo::new(30), Aqm::Above(most));
            let mut waiting = std::collections::VecDeque::new();
            for (number, &(bytes, markable, pops)) in steps.iter().enumerate() {
                let with: u64 = waiting.iter().map(|&(bytes, _)| bytes).sum::<u64>() + bytes;
                let too_long = most.measure(waiting.len() as u64 + 1, with) > most.amount();
                match queue.push(Time::ZERO, Packet { bytes, markable, ..packet(number, 0) }) {
                    PushResult::Queued => waiting.push_back((bytes, too_long && markable)),
                    outcome => prop_assert!(matches!(outcome, PushResult::Refused(_)) && waiting.len() == 30),
                }
                for _ in 0..pops {
                    let popped = queue.pop(Time::ZERO).map(|packet| (packet.bytes, packet.marked));
                    prop_assert_eq!(popped, waiting.pop_front());
                }
            }
        }
    }
}

/// Flows: arrival tick and number of packets.
fn flows() -> impl Strategy<Value = Vec<(usize, usize)>> {
    vec((0..60_usize, 1..30_usize), 1..20)
}

/// Sum over the flows of the ticks from arrival until the last packet is served.
/// A packet's number is what its flow sent before it, its bytes what the flow has
/// left including it; flows are demoted at 5 and 15.
fn mean_time(flows: &[(usize, usize)], queue: &mut (impl Discipline<Packet> + ?Sized)) -> usize {
    let mut total = 0;
    let mut left: Vec<usize> = flows.iter().map(|&(_, packets)| packets).collect();
    for tick in 0.. {
        for (flow, &(_, packets)) in flows.iter().enumerate().filter(|(_, (arrival, _))| *arrival == tick) {
            for number in 0..packets {
                let level = u8::from(number >= 5) + u8::from(number >= 15);
                let packet =
                    Packet { level, bytes: (packets - number) as u64, ..packet(number, flow as u64) };
                assert_eq!(queue.push(Time::ZERO, packet), PushResult::Queued);
            }
        }
        if let Some(packet) = queue.pop(Time::ZERO) {
            let flow = packet.flow as usize;
            left[flow] -= 1;
            if left[flow] == 0 {
                total += tick + 1 - flows[flow].0;
            }
        }
        if left.iter().all(|&left| left == 0) {
            return total;
        }
    }
    unreachable!("every tick serves a packet")
}

//~ fabric: SRPT has the least mean of all orders and keeps each flow's order
#[test]
fn the_flow_of_least_rank_goes_first_and_keeps_its_order() {
    let left = |number, flow, bytes| Packet { bytes, ..packet(number, flow) };
    let mut queue = FlowPifo::new(9, |packet: &Packet| packet.bytes);
    fill(&mut queue, [left(0, 1, 5), left(1, 1, 4), left(2, 2, 4), left(3, 2, 3), left(4, 1, 3)]);
    assert_eq!(drain(&mut queue), [2, 3, 0, 1, 4]);
    let mut las = FlowPifo::new(9, |packet: &Packet| packet.bytes);
    fill(&mut las, [left(0, 1, 0), left(1, 1, 1), left(2, 2, 0), left(3, 2, 1), left(4, 3, 0)]);
    assert_eq!(drain(&mut las), [0, 2, 4, 1, 3], "equals take turns");
}

//~ fabric: SRPT has the least mean of all orders and keeps each flow's order
#[test]
fn the_flow_of_greatest_rank_drops_its_newest() {
    let left = |number, flow, bytes| Packet { bytes, ..packet(number, flow) };
    let mut queue = FlowPifo::new(4, |packet: &Packet| packet.bytes);
    fill(&mut queue, [left(0, 1, 9), left(1, 1, 8), left(2, 2, 5), left(3, 2, 4)]);
    assert_eq!(queue.push(Time::ZERO, left(4, 1, 7)), PushResult::Refused(left(4, 1, 7)), "its own flow");
    assert_eq!(queue.push(Time::ZERO, left(5, 3, 9)), PushResult::Refused(left(5, 3, 9)), "equal rank");
    assert_eq!(queue.push(Time::ZERO, left(6, 3, 6)), PushResult::PushedOut(left(1, 1, 8)));
    assert_eq!(queue.push(Time::ZERO, left(7, 4, 1)), PushResult::PushedOut(left(0, 1, 9)));
    assert_eq!(queue.push(Time::ZERO, left(8, 4, 0)), PushResult::PushedOut(left(6, 3, 6)));
    assert_eq!(drain(&mut queue), [7, 8, 2, 3]);
}

//~ fabric: weighted levels share the bytes, and flows share their level
/// DRR between levels, round robin between the flows of each.
#[test]
fn levels_share_the_bytes_and_flows_share_their_level() {
    let shares = DrrConfig::by_bytes([4, 2, 1, 1, 1, 1, 1, 1], Bytes::new(MTU), Span::MAX);
    let mut queue = Drr::new(10_000, shares, |_| fair_by_bytes(10_000));
    // Two flows at each of three levels, of large and of small packets.
    for flow in 0..6 {
        let (level, bytes) = ((flow / 2) as u8, if flow % 2 == 0 { 1500 } else { 300 });
        fill(&mut queue, (0..1_500).map(|number| Packet { level, bytes, ..packet(number, flow) }));
    }
    let mut sent = [0_u64; 6];
    while sent.iter().sum::<u64>() < 700_000 {
        let packet = queue.pop(Time::ZERO).expect("all flows are backlogged");
        sent[packet.flow as usize] += packet.bytes;
    }
    for (flow, expected) in [200_000_u64, 200_000, 100_000, 100_000, 50_000, 50_000].into_iter().enumerate() {
        assert!(sent[flow].abs_diff(expected) <= 4 * MTU + MTU, "flow {flow}: {sent:?}");
    }
}

//~ fabric: weighted levels share the bytes, and flows share their level
#[test]
fn a_level_that_others_would_starve_gets_its_share_and_the_others_the_rest() {
    let shares = DrrConfig::by_bytes([8, 1, 1, 1, 1, 1, 1, 1], Bytes::new(MTU), Span::MAX);
    let mut queue = Drr::new(100, shares, |_| FairQueue::new(100));
    fill(&mut queue, (0..50).map(|number| Packet { level: 7, ..packet(number, 9) }));
    let mut low = 0;
    for number in 0..450 {
        let _ = queue.push(Time::ZERO, packet(number, number as u64));
        low += u32::from(queue.pop(Time::ZERO).is_some_and(|packet| packet.level == 7));
    }
    assert_eq!(low, 50, "one in nine");
}

//~ fabric: FQ-CoDel serves new flows first, and CoDel marks only the flow that waits
/// RFC 8290 §4.2.
#[test]
fn a_new_flow_goes_first_and_one_that_pauses_does_not() {
    let mut queue = fair_by_bytes(100).with_new_flows_first();
    fill(&mut queue, (0..4).map(|number| packet(number, 1)));
    fill(&mut queue, (10..14).map(|number| packet(number, 2)));
    let next = |queue: &mut FairQueue<Packet>| queue.pop(Time::ZERO).map(|packet| packet.number);
    assert_eq!([next(&mut queue), next(&mut queue), next(&mut queue)], [Some(0), Some(10), Some(1)]);
    fill(&mut queue, [packet(20, 3)]);
    assert_eq!(next(&mut queue), Some(20), "a new flow goes first");
    fill(&mut queue, [packet(21, 3)]);
    assert_eq!(next(&mut queue), Some(11), "the third flow had emptied, and is not new again");
    assert_eq!(drain(&mut queue), [21, 2, 12, 3, 13]);
}

//~ fabric: FQ-CoDel serves new flows first, and CoDel marks only the flow that waits
/// New flows precede the others at every turn, so the others' turns never come.
#[test]
fn flows_of_one_packet_in_lasting_overload_leave_no_empty_queues() {
    const CAPACITY: usize = 8;
    let mut queue: FairQueue<Packet> = FairQueue::new(CAPACITY).with_new_flows_first();
    let mut pushed = 0;
    for popped in 0..1_000 {
        while queue.len() < CAPACITY {
            fill(&mut queue, [packet(pushed, pushed as u64)]);
            pushed += 1;
        }
        assert_eq!(queue.pop(Time::ZERO).map(|packet| packet.number), Some(popped));
        assert!(queue.flow_count() <= CAPACITY + 1, "{} flows are active", queue.flow_count());
    }
}

proptest! {
    /// For any arrivals, departures and push-outs.
    #[test]
    fn active_flows_are_bounded_by_twice_the_capacity(
        steps in vec((0..60_u64, 1..=MTU, 0..3_u8), 1..400),
    ) {
        const CAPACITY: usize = 6;
        let mut queue = fair_by_bytes(CAPACITY).with_new_flows_first().with_push_out();
        for (number, (flow, bytes, pops)) in steps.into_iter().enumerate() {
            let _ = queue.push(Time::ZERO, Packet { bytes, ..packet(number, flow) });
            for _ in 0..pops {
                let _ = queue.pop(Time::ZERO);
            }
            let flows = queue.flow_count();
            prop_assert!(flows <= 2 * CAPACITY + 2, "{} flows are active", flows);
        }
    }
}

//~ fabric: FQ-CoDel serves new flows first, and CoDel marks only the flow that waits
/// Each flow's wait counts for that flow alone. Entries that are not ECN-capable
/// are returned to be dropped, and do not use their flow's turn.
#[test]
fn codel_marks_the_waiting_flow_and_no_other() {
    let codel = CoDel::new(Span::from_micros(5), Span::from_micros(100), Bytes::new(MTU));
    let flows = FairQueue::over(10_000, AqmQueue::new(Fifo::new(10_000), Aqm::CoDel(codel)));
    let mut queue = flows.by_bytes(Bytes::new(QUANTUM)).with_new_flows_first();
    for number in 0..1_000 {
        let bulk = Packet { markable: number >= 500, ..packet(number, 1) };
        assert_eq!(queue.push(Time::ZERO, bulk), PushResult::Queued);
    }
    let (mut marked, mut doomed) = (0, 0);
    for tick in 1..=900_u64 {
        let now = Time::ZERO + Span::from_micros(tick);
        if tick % 3 == 0 {
            assert_eq!(queue.push(now, packet(0, 2)), PushResult::Queued);
        }
        while let Some(packet) = queue.pop(now) {
            assert!(packet.flow == 1 || (!packet.marked && !packet.doomed), "at {tick}");
            assert!(!packet.doomed || packet.number < 500);
            marked += u32::from(packet.marked);
            doomed += u32::from(packet.doomed);
            if !packet.doomed {
                break;
            }
        }
    }
    assert!(marked > 0 && doomed > 0, "{marked} marked, {doomed} dropped");
}
