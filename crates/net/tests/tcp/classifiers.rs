//! Who is urgent: verdicts at the four levels, and classifiers that fail.

use std::any::Any;
use std::sync::Arc;

use net::classify::{FlowContext, TransportClassifier, Verdict};
use net::stack::{Event, ListenOptions};
use net::wire::tcp::Options;
use net::{EventKind, Stack};
use queueing::Priority;

use crate::peer::{Peer, Seg, frame};
use crate::world::{config, meta};

fn always(level: u8) -> Option<TransportClassifier> {
    Some(Arc::new(move |_: &mut FlowContext<'_>| Verdict::Level(level)))
}

/// The priorities of all bytes that became readable.
fn levels(events: &[Event]) -> Vec<u8> {
    let readable = events.iter().filter(|e| matches!(e.kind, EventKind::Readable { .. }));
    readable.map(|e| e.label.priority.level()).collect()
}

/// Sends `payload` in order.
fn send(peer: &mut Peer, payload: &[u8]) {
    let s = peer.data(0, payload);
    peer.seq += payload.len() as u32;
    peer.say(s);
}

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
    peer.stack.set_classifier(conn, Some(Arc::new(|_: &mut FlowContext<'_>| Verdict::Keep)));
    let s = peer.data(1, b"b");
    with_verdict(&mut peer, s);
    peer.stack.set_classifier(conn, always(4));
    let s = peer.data(2, b"c");
    with_verdict(&mut peer, s);
    assert_eq!(levels(&peer.events), [0, 0, 4]);
}

#[test]
fn failing_classifier_costs_one_verdict_and_is_counted() {
    let (mut peer, conn) = Peer::established();
    let failing: TransportClassifier = Arc::new(|cx: &mut FlowContext<'_>| match cx.payload[0] {
        b'p' => panic!("a classifier's own fault"),
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

#[test]
fn dropped_segment_counts_as_lost() {
    let (mut peer, conn) = Peer::established();
    peer.stack.set_classifier(conn, Some(Arc::new(|_: &mut FlowContext<'_>| Verdict::Drop)));
    let s = peer.data(0, b"again");
    assert_eq!(peer.say(s.clone()), []);
    peer.stack.set_classifier(conn, None);
    assert_eq!(peer.say(s)[0].ack, peer.seq + 5);
    assert_eq!(peer.stack.received(conn), b"again");
    assert_eq!(peer.stack.counters().classifier_drops, 1);
}

#[test]
fn most_urgent_of_released_segments_labels_the_event() {
    let (mut peer, conn) = Peer::established();
    let by_digit: TransportClassifier =
        Arc::new(|cx: &mut FlowContext<'_>| Verdict::Level(cx.payload[0] - b'0'));
    peer.stack.set_classifier(conn, Some(by_digit));
    for (offset, text) in [(2, b"1b"), (4, b"6c"), (0, b"5a")] {
        let s = peer.data(offset, text);
        peer.say(s);
    }
    assert_eq!(levels(&peer.events), [1]);
    assert_eq!(peer.stack.received(conn), b"5a1b6c");
}

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

#[test]
fn classifier_sees_what_the_flow_has_been_like() {
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
