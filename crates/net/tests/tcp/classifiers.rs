//! Tests of classification: verdicts at the four levels, and classifiers that fail.

use std::any::Any;
use std::sync::{Arc, Mutex};

use classify::scenarios::{self, SpanAt, span};
use classify::{ConnectionState, FlowContext, FlowState, Policy, TransportClassifier, Verdict};
use net::stack::{Config, Event, ListenOptions};
use net::{EventKind, Stack};
use proptest::prelude::*;
use queueing::{Priority, Span, Time};
use wire::tcp::{Flags, Options};

use crate::peer::{Peer, Seg, frame};
use crate::world::{Dice, Faults, World, config, meta};

fn always(level: u8) -> Option<TransportClassifier> {
    Some(Arc::new(move |_: &mut FlowContext<'_>| Verdict::Level(level)))
}

/// Priorities of all readable events, in order.
fn levels(events: &[Event]) -> Vec<u8> {
    let readable = events.iter().filter(|e| matches!(e.kind, EventKind::Readable { .. }));
    readable.map(|e| e.label.priority.level()).collect()
}

/// Sends `payload` in order.
fn send(peer: &mut Peer, payload: &[u8]) {
    let s = peer.data(0, payload);
    peer.seq += payload.len() as u32;
    peer.exchange(s);
}

//~ mechanisms: M3: the classifier nearest to the connection decides: connection, listener, stack, driver
#[test]
fn nearest_classifier_decides_and_the_driver_only_without_one() {
    let mut with_default = config(1);
    with_default.classifier = always(5);
    let mut peer = Peer::new(with_default);
    peer.stack.listen(81, ListenOptions { classifier: always(3), ..ListenOptions::default() }).unwrap();
    let conn = peer.open(Options::NONE);
    send(&mut peer, b"default");
    peer.stack.set_classifier(conn, always(1));
    send(&mut peer, b"own");
    peer.stack.set_classifier(conn, None);
    send(&mut peer, b"default again");
    assert_eq!(levels(&peer.events), [5, 1, 5]);
}

//~ mechanisms: M3: accepted connections inherit their listener's classifier
#[test]
fn accepted_connections_inherit_their_listeners_classifier() {
    let mut with_default = config(1);
    with_default.classifier = always(5);
    let mut world = crate::world::World::new([with_default, config(2)], Default::default(), 1);
    let options = ListenOptions { classifier: always(3), ..ListenOptions::default() };
    world.stacks[0].listen(80, options).unwrap();
    let (_, client) = world.connect();
    world.stacks[1].send(world.now, client, b"hello").unwrap();
    let events = world.run_for(queueing::Span::from_millis(1));
    assert_eq!(levels(&events[0]), [3]);
}

//~ mechanisms: M3: a classifier can name its successor
#[test]
fn classifier_may_name_its_successor() {
    let (mut peer, conn) = Peer::established();
    let first: TransportClassifier = Arc::new(|cx: &mut FlowContext<'_>| {
        cx.successor = always(2);
        Verdict::Level(6)
    });
    peer.stack.set_classifier(conn, Some(first));
    send(&mut peer, b"one");
    send(&mut peer, b"two");
    send(&mut peer, b"three");
    assert_eq!(levels(&peer.events), [6, 2, 2]);
}

//~ mechanisms: M2: the driver's verdict stands unless the transport classifier overrules it
#[test]
fn drivers_verdict_stands_unless_overruled() {
    let (mut peer, conn) = Peer::established();
    let with_verdict = |peer: &mut Peer, s: Seg| {
        let frame = frame(&s);
        let mut meta = meta(peer.now, &frame);
        meta.priority = Some(Priority::HIGHEST);
        peer.stack.ingress(peer.now, &frame, &meta);
        peer.events.extend(std::iter::from_fn(|| peer.stack.poll_event()));
    };
    let s = peer.data(0, b"a");
    with_verdict(&mut peer, s);
    peer.stack.set_classifier(conn, Some(Arc::new(|_: &mut FlowContext<'_>| Verdict::NoVerdict)));
    let s = peer.data(1, b"b");
    with_verdict(&mut peer, s);
    peer.stack.set_classifier(conn, always(4));
    let s = peer.data(2, b"c");
    with_verdict(&mut peer, s);
    assert_eq!(levels(&peer.events), [0, 0, 4]);
}

//~ input: a panicking classifier costs one verdict and is counted
#[test]
fn failing_classifier_costs_one_verdict_and_is_counted() {
    let (mut peer, conn) = Peer::established();
    let failing: TransportClassifier = Arc::new(|cx: &mut FlowContext<'_>| match cx.payload[0] {
        b'p' => panic!("a classifier's own panic"),
        b'r' => Verdict::Level(8),
        _ => Verdict::Level(0),
    });
    peer.stack.set_classifier(conn, Some(failing));
    send(&mut peer, b"panic");
    send(&mut peer, b"range");
    send(&mut peer, b"fine");
    assert_eq!(levels(&peer.events), [7, 7, 0]);
    assert_eq!(peer.stack.received(conn), b"panicrangefine");
    let counters = peer.stack.counters();
    assert_eq!((counters.classifier_panics, counters.classifier_out_of_range), (1, 1));
}

//~ classifiers: service times are learned from responses, by kind
#[test]
fn classifier_memory_is_notified_of_responses() {
    let rules = "[[rule]]\nlayer = \"transport\"\npriority = 6\nresp = \"any\"\nservice = \"> 1ms\"\n";
    let policy = Policy::parse(rules).expect("a policy");
    let (mut peer, conn) = Peer::established();
    peer.stack.set_classifier(conn, policy.transport());
    for _ in 0..9 {
        send(&mut peer, b"EVAL x 0\r\n");
        peer.now += Span::from_millis(2);
        assert_eq!(peer.stack.send(peer.now, conn, b"+OK\r\n"), Ok(5));
        assert_eq!(peer.stack.send(peer.now, conn, b"more"), Ok(4));
    }
    assert_eq!(policy.observed().learned.kinds(), [("EVAL".to_owned(), Span::from_millis(2))]);
    assert_eq!(levels(&peer.events).last(), Some(&6));
}

/// Memory that panics on an application write.
struct Puppet;

impl ConnectionState for Puppet {
    fn on_answer(&mut self, _: Time) {
        panic!("a classifier's own panic");
    }
}

#[test]
fn a_panic_in_a_classifiers_notification_is_counted() {
    let (mut peer, conn) = Peer::established();
    let classifier: TransportClassifier = Arc::new(|cx: &mut FlowContext<'_>| {
        if let Some(memory) = cx.memory.as_deref_mut() {
            *memory = Some(Box::new(Puppet));
        }
        Verdict::NoVerdict
    });
    peer.stack.set_classifier(conn, Some(classifier));
    send(&mut peer, b"question");
    assert_eq!(peer.stack.send(peer.now, conn, b"answer"), Ok(6));
    assert_eq!(peer.stack.counters().classifier_panics, 1);
}

#[test]
fn dropped_segment_counts_as_lost() {
    let (mut peer, conn) = Peer::established();
    peer.stack.set_classifier(conn, Some(Arc::new(|_: &mut FlowContext<'_>| Verdict::Drop)));
    let s = peer.data(0, b"again");
    assert_eq!(peer.exchange(s.clone()), []);
    peer.stack.set_classifier(conn, None);
    assert_eq!(peer.exchange(s)[0].ack, peer.seq + 5);
    assert_eq!(peer.stack.received(conn), b"again");
    assert_eq!(peer.stack.counters().classifier_drops, 1);
}

//~ stack: priority never reorders the bytes or the responses of one connection
#[test]
fn most_urgent_of_released_segments_labels_the_event() {
    let (mut peer, conn) = Peer::established();
    let by_digit: TransportClassifier =
        Arc::new(|cx: &mut FlowContext<'_>| Verdict::Level(cx.payload[0] - b'0'));
    peer.stack.set_classifier(conn, Some(by_digit));
    for (offset, text) in [(2, b"1b"), (4, b"6c"), (0, b"5a")] {
        let s = peer.data(offset, text);
        peer.exchange(s);
    }
    assert_eq!(levels(&peer.events), [1]);
    assert_eq!(peer.stack.received(conn), b"5a1b6c");
}

//~ mechanisms: M5: a private area can point to application memory
#[test]
fn private_area_is_shared_by_classifier_and_application() {
    let (mut peer, conn) = Peer::established();
    let counting: TransportClassifier = Arc::new(|cx: &mut FlowContext<'_>| {
        cx.private[0] += 1;
        let limit = cx.app.and_then(|app| app.downcast_ref::<u8>()).copied().unwrap_or(0);
        assert_eq!(cx.tuple.local_port, 80);
        Verdict::Level(if cx.private[0] > limit && cx.private[1] == 0 { 7 } else { 1 })
    });
    peer.stack.set_classifier(conn, Some(counting));
    let memory: Arc<dyn Any + Send + Sync> = Arc::new(2_u8);
    peer.stack.attach(conn, Some(memory));
    for _ in 0..3 {
        send(&mut peer, b"x");
    }
    assert_eq!(peer.stack.private(conn).unwrap()[0], 3);
    peer.stack.private_mut(conn).unwrap()[1] = 1;
    send(&mut peer, b"x");
    assert_eq!(levels(&peer.events), [1, 1, 7, 1]);
}

//~ mechanisms: M4: a classifier sees metadata, bytes received, loss and recovery of its flow
#[test]
fn classifier_reads_the_state_of_the_flow() {
    let (mut peer, conn) = Peer::established();
    let by_bytes: TransportClassifier =
        Arc::new(|cx: &mut FlowContext<'_>| Verdict::Level(if cx.flow.received.get() > 4 { 6 } else { 1 }));
    peer.stack.set_classifier(conn, Some(by_bytes));
    send(&mut peer, b"1234");
    send(&mut peer, b"5");
    assert_eq!(levels(&peer.events), [1, 6]);
    let flow = Stack::flow(&peer.stack, conn).unwrap();
    assert_eq!((flow.received.get(), flow.loss, flow.recovering), (5, 0.0, false));
}

/// Logs the flow states that a connection's classifier receives.
fn watch(peer: &mut Peer, conn: net::ConnId) -> Arc<Mutex<Vec<FlowState>>> {
    let seen = Arc::<Mutex<Vec<FlowState>>>::default();
    let log = Arc::clone(&seen);
    let classifier: TransportClassifier = Arc::new(move |cx: &mut FlowContext<'_>| {
        log.lock().unwrap().push(cx.flow);
        Verdict::NoVerdict
    });
    peer.stack.set_classifier(conn, Some(classifier));
    seen
}

//~ mechanisms: M4: loss rate, window, RTT and bytes sent of a lossy flow have the right values
#[test]
fn classifier_reads_the_loss_of_a_lossy_flow() {
    let (mut peer, conn) = Peer::established();
    let seen = watch(&mut peer, conn);
    send(&mut peer, b"before");
    peer.stack.send(peer.now, conn, &[7; 8000]).unwrap();
    let segments = peer.receive();
    assert_eq!(segments.len(), 8);
    peer.pass(Span::from_micros(800));
    // The first segment arrives, the second is lost, the others are out of order.
    peer.ack += 1000;
    (0..4).for_each(|_| drop(peer.exchange(peer.seg(Flags::ACK))));
    assert_eq!(peer.stack.counters().retransmissions, 1);
    send(&mut peer, b"lost");
    peer.ack += 7000;
    peer.exchange(peer.seg(Flags::ACK));
    send(&mut peer, b"repaired");

    let seen = seen.lock().unwrap();
    let bytes = |flow: &FlowState| (flow.received.get(), flow.sent.get());
    assert_eq!(seen.iter().map(bytes).collect::<Vec<_>>(), [(6, 0), (10, 1000), (18, 8000)]);
    assert_eq!(seen.iter().map(|flow| flow.recovering).collect::<Vec<_>>(), [false, true, false]);
    // One retransmission among ten: the SYN-ACK, eight segments, and the retransmission.
    assert_eq!(seen.iter().map(|flow| flow.loss).collect::<Vec<_>>(), [0.0, 0.1, 0.1]);
    let [before, lost] = [seen[0], seen[1]];
    assert!(before.cwnd.get() >= 10_000 && lost.cwnd < before.cwnd, "{before:?} {lost:?}");
    assert!((7_600..=7_700).contains(&lost.cwnd.get()), "seven tenths of 11 segments: {lost:?}");
    // No time passed between SYN and answer; the new sample has weight 1/8.
    let srtt = lost.srtt.unwrap();
    assert!(Span::from_micros(99) < srtt && srtt < Span::from_micros(102), "{srtt}");
}

//~ classifiers: scenario 3: connections with long RTT or loss get low priority
#[test]
fn far_and_lossy_peers_are_low() {
    let level = |delay: Span, loss: u64| {
        let classifier = Some(scenarios::network(Span::from_millis(20), 0.02));
        let mut world = World::new([Config { classifier, ..config(1) }, config(2)], Faults::default(), 3);
        let (server, client) = world.connect();
        (world.delay, world.faults.loss) = (delay, loss);
        for _ in 0..30 {
            world.stacks[0].send(world.now, server, &[1; 3000]).unwrap();
            world.run_for(Span::from_millis(200));
            world.stacks[1].consume(world.now, client, 3000);
        }
        world.faults.loss = 0;
        world.stacks[1].send(world.now, client, b"request").unwrap();
        let events = world.run_for(Span::from_millis(500));
        levels(&events[0])
    };
    assert_eq!(level(Span::from_micros(50), 0), [0]);
    assert_eq!(level(Span::from_millis(30), 0), [7], "far");
    assert_eq!(level(Span::from_micros(50), 20), [7], "lossy");
}

/// Synthetic request of `len` bytes.
fn request(level: u8, len: usize) -> Vec<u8> {
    let mut bytes = b"GW\x01\x00".to_vec();
    bytes.extend([level, 0, 0, 0]);
    bytes.extend((len as u32).to_be_bytes());
    bytes.resize(len, 0);
    bytes
}

/// Calls of a classifier: stream offset of the end of the bytes, the bytes, the verdict.
type Seen = Arc<Mutex<Vec<(u64, Vec<u8>, Verdict)>>>;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    //~ mechanisms: M2: the transport classifier sees each new piece of payload in stream order
    //~ input: overlapping segments keep the stream and its labels
    #[test]
    fn bytes_get_their_requests_level_for_any_order_of_segments(
        requests in prop::collection::vec((0u8..8, 12usize..400), 1..12),
        cuts in prop::collection::vec(1usize..300, 1..40),
        drops in 0u64..20,
        seed in any::<u64>(),
    ) {
        let stream: Vec<u8> = requests.iter().flat_map(|&(level, len)| request(level, len)).collect();
        let (mut peer, conn) = Peer::established();
        let mut dice = Dice(seed);
        let seen = Seen::default();
        let at = SpanAt { magic: (0, b"GW"), level_at: 4, length_at: 8 };
        let (span, log, luck) = (span(at), Arc::clone(&seen), Mutex::new(Dice(!seed)));
        let classifier: TransportClassifier = Arc::new(move |cx: &mut FlowContext<'_>| {
            let verdict = span(cx);
            if luck.lock().unwrap().percent(drops) {
                return Verdict::Drop;
            }
            log.lock().unwrap().push((cx.flow.received.get(), cx.payload.to_vec(), verdict));
            verdict
        });
        peer.stack.set_classifier(conn, Some(classifier));
        let mut segments = Vec::new();
        let (mut start, mut cuts) = (0, cuts.iter().cycle());
        while start < stream.len() {
            // Sometimes with bytes of the previous segment.
            let from = start - dice.below(1 + start.min(20) as u64) as usize;
            let end = (start + cuts.next().unwrap()).min(stream.len());
            segments.push((from, end));
            start = end;
        }
        let base = peer.seq;
        while peer.stack.received(conn).len() < stream.len() {
            let (from, end) = segments[dice.below(segments.len() as u64) as usize];
            let s = Seg { seq: base + from as u32, ..peer.data(0, &stream[from..end]) };
            peer.inject(&s);
            if dice.percent(10) {
                peer.receive();
            }
        }
        prop_assert_eq!(peer.stack.received(conn), &stream[..]);
        let mut next = 0;
        for (end, bytes, verdict) in seen.lock().unwrap().iter() {
            let (start, end) = (*end as usize - bytes.len(), *end as usize);
            prop_assert_eq!(start, next, "in order, each byte once");
            prop_assert_eq!(&bytes[..], &stream[start..end]);
            next = end;
            let mut begin = 0;
            let expected = requests.iter().filter_map(|&(level, len)| {
                let range = begin..begin + len;
                begin += len;
                let touched = range.start < end && range.end > start && end > range.start + at.level_at;
                touched.then_some(level)
            }).min();
            // After a drop the classifier has already parsed the segment.
            if drops == 0 {
                prop_assert_eq!(*verdict, expected.map_or(Verdict::NoVerdict, Verdict::Level));
            }
        }
        prop_assert_eq!(next, stream.len());
    }
}
