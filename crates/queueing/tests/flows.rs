//! Switch port: round robin between flows, demotion between levels, push-out.

mod packet;

use packet::{Packet, drain, fill, packet};
use proptest::collection::vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use queueing::{
    Bytes, Discipline, FairQueue, Fifo, FlowId, Mlfq, PushResult, Span, Strict, Thresholds, ThresholdsError,
    Time,
};

fn thresholds(bytes: &[u64]) -> Result<Thresholds, ThresholdsError> {
    Thresholds::new(bytes.iter().copied().map(Bytes::new).collect())
}

/// FISH's queue: strict priority over round robin between flows.
fn fish(capacity: usize) -> Strict<FairQueue<Packet>> {
    Strict::new(capacity, |_| FairQueue::new(capacity))
}

//~ fabric: packets depart in the order of the paper's Fig. 3
/// FISH, Fig. 3: the large flow is demoted after five packets, the small one has two.
#[test]
fn packets_depart_in_the_order_of_the_papers_figure() {
    let mut mlfq = Mlfq::new(thresholds(&[4 * 1500]).unwrap(), Span::from_secs(1), 100);
    let mut queue = fish(100);
    let arrivals = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (8, 1), (9, 1), (10, 1), (6, 2), (7, 2)];
    for (number, flow) in arrivals {
        let level = mlfq.level(Time::ZERO, FlowId(flow), Bytes::new(1500)).level();
        fill(&mut queue, [Packet { level, ..packet(number, flow) }]);
    }
    assert_eq!(drain(&mut queue), [1, 6, 2, 7, 3, 4, 5, 8, 9, 10]);
}

//~ fabric: the most urgent level is checked again whenever a packet arrives there
#[test]
fn the_most_urgent_level_is_served_again_after_each_arrival_there() {
    let mut queue = fish(9);
    fill(&mut queue, [Packet { level: 1, ..packet(0, 0) }, Packet { level: 1, ..packet(1, 0) }]);
    assert_eq!(queue.pop(Time::ZERO).map(|packet| packet.number), Some(0));
    fill(&mut queue, [packet(2, 5)]);
    assert_eq!(drain(&mut queue), [2, 1]);
}

//~ fabric: turns are fair by packets, and by bytes within a quantum and a packet
#[test]
fn turns_by_bytes_serve_the_same_bytes_to_every_flow_for_any_packet_size() {
    let quantum = 1500;
    let mut queue = FairQueue::new(10_000).by_bytes(Bytes::new(quantum));
    let sizes = [64, 333, 1500];
    for (flow, &bytes) in sizes.iter().enumerate() {
        fill(&mut queue, (0..3_000).map(|number| Packet { bytes, ..packet(number, flow as u64) }));
    }
    let mut sent = [0_u64; 3];
    for _ in 0..2_500 {
        let packet = queue.pop(Time::ZERO).unwrap();
        sent[packet.flow as usize] += packet.bytes;
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least < quantum + 1500, "a flow is ahead by more than a turn: {sent:?}");
    }
}

//~ fabric: a new flow waits one turn of each flow, not for their queues
#[test]
fn a_flow_that_appears_waits_one_turn_of_each_and_not_for_their_queues() {
    let mut queue = FairQueue::new(1_000);
    for flow in 0..3 {
        fill(&mut queue, (0..200).map(|number| packet(number, flow)));
    }
    assert_eq!(queue.pop(Time::ZERO), Some(packet(0, 0)));
    fill(&mut queue, [packet(777, 9)]);
    let before = (0..).find(|_| queue.pop(Time::ZERO).is_some_and(|packet| packet.number == 777));
    assert_eq!(before, Some(2), "the two others had a turn");
}

#[test]
fn a_full_queue_evicts_the_newest_of_the_flow_with_most_service() {
    let mut queue = FairQueue::new(4).with_push_out();
    fill(&mut queue, [packet(0, 1), packet(1, 1), packet(2, 1), packet(3, 2)]);
    assert_eq!(queue.push(Time::ZERO, packet(4, 3)), PushResult::PushedOut(packet(2, 1)));
    assert_eq!(
        queue.push(Time::ZERO, packet(5, 1)),
        PushResult::Refused(packet(5, 1)),
        "its own flow has most"
    );
    assert_eq!(
        queue.push(Time::ZERO, packet(6, 2)),
        PushResult::Refused(packet(6, 2)),
        "its flow would have as much"
    );
    assert_eq!(drain(&mut queue), [0, 3, 4, 1]);
}

//~ fabric: push-out drops from the least urgent level, and there from the largest flow
#[test]
fn the_least_urgent_level_is_evicted_first_and_in_it_the_flow_with_most_service() {
    let mut queue = Strict::new(4, |_| FairQueue::new(4).with_push_out()).with_push_out();
    let low = |number, flow| Packet { level: 7, ..packet(number, flow) };
    fill(&mut queue, [packet(0, 1), low(1, 2), low(2, 2), low(3, 2)]);
    assert_eq!(queue.push(Time::ZERO, low(4, 3)), PushResult::PushedOut(low(3, 2)));
    assert_eq!(queue.push(Time::ZERO, packet(5, 1)), PushResult::PushedOut(low(2, 2)));
    assert_eq!(queue.len(), 4);
    assert_eq!(drain(&mut queue), [0, 5, 1, 4]);
}

proptest! {
    //~ fabric: FISH with one flow per level is PIAS; without thresholds it takes turns
    /// With one flow per level, round robin is order of arrival: FISH equals PIAS.
    #[test]
    fn with_one_flow_a_level_fish_is_pias(steps in vec((0..8_u8, 0..3_u8), 1..300)) {
        let mut pias = Strict::new(20, |_| Fifo::new(20));
        let mut fish = fish(20);
        for (number, (level, pops)) in steps.into_iter().enumerate() {
            let packet = Packet { level, ..packet(number, level.into()) };
            prop_assert_eq!(pias.push(Time::ZERO, packet), fish.push(Time::ZERO, packet));
            for _ in 0..pops {
                prop_assert_eq!(pias.pop(Time::ZERO), fish.pop(Time::ZERO));
            }
        }
        prop_assert_eq!(drain(&mut pias), drain(&mut fish));
    }

    //~ fabric: turns are fair by packets, and by bytes within a quantum and a packet
    /// Flows that are backlogged together are served equally often, each in order.
    #[test]
    fn every_waiting_flow_is_served_equally_often(lens in vec(1..40_usize, 2..9)) {
        let mut queue = FairQueue::new(1_000);
        for (flow, &len) in lens.iter().enumerate() {
            fill(&mut queue, (0..len).map(|number| packet(number, flow as u64)));
        }
        let mut served = vec![0; lens.len()];
        while let Some(packet) = queue.pop(Time::ZERO) {
            let flow = packet.flow as usize;
            prop_assert_eq!(packet.number, served[flow], "a flow's packets keep their order");
            served[flow] += 1;
            for (other, &len) in lens.iter().enumerate() {
                prop_assert!(served[other] == len || served[flow] <= served[other] + 1);
            }
        }
        prop_assert_eq!(served, lens);
    }

    //~ fabric: push-out drops from the least urgent level, and there from the largest flow
    /// With push-out, a flow loses an entry only to a flow with less attained and
    /// queued service, and no entry is refused that could have one.
    #[test]
    fn flows_with_more_service_yield_to_flows_with_less(
        steps in vec((0..6_u64, 0..3_u8), 1..300),
    ) {
        let mut queue = FairQueue::new(10).with_push_out();
        let (mut service, mut waiting) = ([0_usize; 6], [0_usize; 6]);
        for (number, (flow, pops)) in steps.into_iter().enumerate() {
            let own = flow as usize;
            let service_max = *service.iter().max().expect("there are flows");
            let full = queue.len() == 10;
            match queue.push(Time::ZERO, packet(number, flow)) {
                PushResult::Queued => prop_assert!(!full),
                PushResult::PushedOut(evicted) => {
                    let evicted = evicted.flow as usize;
                    prop_assert!(full && service[evicted] == service_max && service_max > service[own] + 1);
                    (service[evicted], waiting[evicted]) = (service[evicted] - 1, waiting[evicted] - 1);
                }
                PushResult::Refused(_) => {
                    prop_assert!(full && service_max <= service[own] + 1);
                    continue;
                }
            }
            (service[own], waiting[own]) = (service[own] + 1, waiting[own] + 1);
            for _ in 0..pops {
                let Some(served) = queue.pop(Time::ZERO) else { break };
                waiting[served.flow as usize] -= 1;
            }
            for flow in (0..6).filter(|&flow| waiting[flow] == 0) {
                service[flow] = 0;
            }
        }
    }

    //~ fabric: flows sink as their bytes pass thresholds; a pause resets a flow; memory is bounded
    /// The level is the number of thresholds below the flow's bytes so far.
    #[test]
    fn a_flow_is_demoted_as_its_bytes_pass_the_thresholds(
        sizes in vec(1..3_000_u64, 1..100),
        steps in vec(1..9_000_u64, 0..8),
    ) {
        let thresholds: Vec<Bytes> =
            steps.iter().scan(0, |sum, step| { *sum += step; Some(Bytes::new(*sum)) }).take(7).collect();
        let mut mlfq = Mlfq::new(Thresholds::new(thresholds.clone()).unwrap(), Span::MAX, 10);
        let mut sent = 0;
        for bytes in sizes {
            let passed = thresholds.iter().filter(|threshold| threshold.get() < sent).count();
            prop_assert_eq!(mlfq.level(Time::ZERO, FlowId(1), Bytes::new(bytes)).index(), passed);
            sent += bytes;
        }
    }
}

//~ fabric: flows sink as their bytes pass thresholds; a pause resets a flow; memory is bounded
#[test]
fn a_pause_resets_a_flow_and_the_longest_paused_is_evicted() {
    let idle = Span::from_micros(500);
    let mut mlfq = Mlfq::new(thresholds(&[1000]).unwrap(), idle, 2);
    let mut level = |at: u64, flow| {
        let (at, flow) = (Time::ZERO + Span::from_micros(at), FlowId(flow));
        let level = mlfq.level(at, flow, Bytes::new(1500)).level();
        mlfq.on_departure(at, flow);
        level
    };
    assert_eq!([level(0, 1), level(0, 1)], [0, 1]);
    assert_eq!(level(499, 1), 1, "not long enough");
    assert_eq!(level(999, 1), 0, "long enough");
    assert_eq!([level(999, 2), level(999, 3)], [0, 0]);
    assert_eq!(level(999, 1), 0, "evicted by two others");
    assert_eq!(mlfq.flows(), 2);
}

//~ fabric: a flow is idle only when none of its packets waits and it has been silent since
/// One packet arrives at 0 µs, another at `second`; the first leaves at `left`.
#[test]
fn a_flow_whose_packets_wait_is_not_idle_however_long_it_is_silent() {
    let at = |us: u64| Time::ZERO + Span::from_micros(us);
    let second = |left: Option<u64>, second: u64| {
        let mut mlfq = Mlfq::new(thresholds(&[1000]).unwrap(), Span::from_micros(500), 2);
        mlfq.level(at(0), FlowId(1), Bytes::new(1500));
        if let Some(left) = left {
            mlfq.on_departure(at(left), FlowId(1));
        }
        mlfq.level(at(second), FlowId(1), Bytes::new(1500)).level()
    };
    for left in (0..=3_000).step_by(100) {
        for arrival in (left..=4_000).step_by(100) {
            let restarts = arrival - left >= 500;
            assert_eq!(second(Some(left), arrival), u8::from(!restarts), "left at {left}, then {arrival}");
        }
    }
    assert!((0..=4_000).step_by(100).all(|arrival| second(None, arrival) == 1), "the first still waits");
}

//~ fabric: flows sink as their bytes pass thresholds; a pause resets a flow; memory is bounded
#[test]
fn invalid_thresholds_are_refused_with_their_value() {
    assert_eq!(thresholds(&[5, 7, 7]), Err(ThresholdsError::NotIncreasing { threshold: Bytes::new(7) }));
    assert_eq!(thresholds(&[1, 2, 3, 4, 5, 6, 7, 8]), Err(ThresholdsError::TooMany { given: 8 }));
    assert_eq!(thresholds(&[]), Ok(Thresholds::default()));
}
