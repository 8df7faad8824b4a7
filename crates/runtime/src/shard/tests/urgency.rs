//! Priority of connections whose segments differ in level, and of frames without a level.

use classify::DriverClassifier;

use super::*;

//~ runtime: a request becomes as urgent as its most urgent segment
#[test]
fn an_urgent_request_behind_one_in_service_goes_next() {
    let mut world = world(1, |_| {});
    let (id, other) = (world.connect(), world.connect());
    world.send(id, "7 slow\n");
    world.send(other, "3 other\n");
    world.send(id, "0 urgent\n");
    assert_eq!(world.serve_all(), ["7 slow\n", "0 urgent\n", "3 other\n"]);
}

//~ runtime: a request becomes as urgent as its most urgent segment
#[test]
fn a_waiting_request_stays_as_urgent_as_its_most_urgent_segment() {
    let mut world = world(1, |_| {});
    let (busy, id, other) = (world.connect(), world.connect(), world.connect());
    world.send(busy, "7 busy\n");
    world.send(id, "1 to");
    world.send(other, "3 other\n");
    world.send(id, "rn\n");
    assert_eq!(world.serve_all(), ["7 busy\n", "1 torn\n", "3 other\n"]);
    assert_eq!(world.counters().stale, 0, "the less urgent segment made no second task");
}

#[test]
fn a_segment_after_an_incomplete_parse_has_its_own_label() {
    let mut world = world(1, |_| {});
    let (busy, id, other) = (world.connect(), world.connect(), world.connect());
    world.send(id, "1 to");
    world.send(busy, "7 busy\n");
    world.send(id, "rn\n");
    world.send(other, "3 other\n");
    assert_eq!(world.serve_all(), ["7 busy\n", "3 other\n", "1 torn\n"]);
}

/// Levels by digit, at the driver only: packets without payload have no verdict.
fn driven() -> World {
    let driver: DriverClassifier = Arc::new(|packet| match packet.payload_byte(0) {
        Some(digit @ b'0'..=b'7') => Verdict::Level(digit - b'0'),
        _ => Verdict::NoVerdict,
    });
    world(1, |config| config.driver_classifier = Some(driver))
}

/// Steps the shard until nothing moves; for each frame through TCP, true if it carried payload.
fn transported(world: &mut World) -> Vec<bool> {
    let mut payloads = Vec::new();
    loop {
        match world.shard.step(world.clock.now(), &mut world.near) {
            Step::Idle => return payloads,
            Step::Transport { payload } => payloads.push(payload),
            Step::Assign(job) => world.jobs.push(job),
            _ => {}
        }
    }
}

/// Sends three requests of `level` before an acknowledgement of a response, and checks the order in
/// which TCP gets the payloads and the acknowledgement.
fn check_ack(level: u8, expected: [bool; 4]) {
    let mut world = driven();
    let (large, urgent) = (world.connect(), world.connect());
    world.send(large, "B\n");
    let mut job = world.jobs.remove(0);
    job.serve(&Lines, &world.clock);
    world.shard.complete(world.clock.now(), job);
    transported(&mut world);
    for _ in 0..3 {
        world.queue(urgent, &format!("{level} request\n"));
    }
    world.listen();
    assert_eq!(transported(&mut world), expected, "level {level}");
}

#[test]
fn a_bare_ack_is_sent_with_the_most_urgent_data() {
    check_ack(0, [true, true, true, false]);
    check_ack(1, [false, true, true, true]);
    check_ack(7, [false, true, true, true]);
}

/// Order of answers to `a`, `b`, `c` on one connection and then `d` on another without priorities:
/// round robin between connections.
const IN_TURN: [&str; 4] = ["a\n", "d\n", "b\n", "c\n"];
/// Order of answers if TCP got the other connection's frame first.
const OVERTAKEN: [&str; 4] = ["d\n", "a\n", "b\n", "c\n"];

/// Checks the order of answers on two connections whose first requests were `first`: three requests
/// of the first, then one of the second.
fn check_known(mut world: World, first: [&str; 2], expected: [&str; 4]) {
    let (one, other) = (world.connect(), world.connect());
    for (id, text) in [(one, first[0]), (other, first[1])] {
        world.send(id, text);
        assert_eq!(world.serve_all(), [text]);
    }
    for text in ["a\n", "b\n", "c\n"] {
        world.queue(one, text);
    }
    world.queue(other, "d\n");
    world.listen();
    transported(&mut world);
    assert_eq!(world.serve_all(), expected, "after {first:?}");
}

//~ mechanisms: a frame without a verdict takes its connection's last level; frames of a connection keep their order
#[test]
fn a_frame_inherits_its_connections_label() {
    // Only the transport classifies requests, and the dispatch policy is FCFS.
    let new_world = || world(1, |config| config.dispatch = Box::new(fcfs(64)));
    check_known(new_world(), ["7 bulk\n", "0 urgent\n"], OVERTAKEN);
    check_known(new_world(), ["0 urgent\n", "0 urgent\n"], IN_TURN);
    check_known(new_world(), ["0 urgent\n", "7 bulk\n"], IN_TURN);
    // No connection has a priority.
    check_known(new_world(), ["bulk\n", "bulk\n"], IN_TURN);
}

//~ mechanisms: a frame without a verdict takes its connection's last level; frames of a connection keep their order
#[test]
fn a_connections_label_overrides_the_default_and_not_the_classifier() {
    let by = |verdict: fn(Option<u8>) -> Verdict| {
        let driver: DriverClassifier = Arc::new(move |packet| verdict(packet.payload_byte(0)));
        world(1, |config| {
            config.driver_classifier = Some(driver);
            config.dispatch = Box::new(fcfs(64));
        })
    };
    let first = ["7 bulk\n", "0 urgent\n"];
    check_known(by(|_| Verdict::Default(3)), first, OVERTAKEN);
    check_known(by(|_| Verdict::Level(3)), first, IN_TURN);
    let all_but_d = |byte| if byte == Some(b'd') { Verdict::Level(7) } else { Verdict::NoVerdict };
    check_known(by(all_but_d), ["1 bulk\n", "0 urgent\n"], IN_TURN);
}

//~ mechanisms: a frame without a verdict takes its connection's last level; frames of a connection keep their order
#[test]
fn a_fin_does_not_overtake_its_connections_urgent_data() {
    let mut world = driven();
    let id = world.connect();
    world.send(id, "0 urgent\n");
    assert_eq!(world.serve_all(), ["0 urgent\n"]);
    world.queue(id, "5 not any more\n");
    world.client.close(world.clock.now(), id);
    world.client.egress(world.clock.now(), &mut world.far);
    assert_eq!(transported(&mut world), [true, false]);
}

#[test]
fn a_new_connection_does_not_overtake_urgent_data() {
    let mut world = driven();
    let urgent = world.connect();
    let remote = SocketAddr::new(SERVER.into(), 80);
    world.client.connect(world.clock.now(), remote, None).unwrap();
    world.client.egress(world.clock.now(), &mut world.far);
    world.queue(urgent, "0 urgent\n");
    assert_eq!(transported(&mut world), [true, false]);
}

//~ input: a panicking classifier costs one verdict and is counted
#[test]
fn driver_classifier_failures_are_counted_and_the_stack_continues() {
    let driver: DriverClassifier = Arc::new(|packet| match packet.payload_byte(0) {
        Some(b'x') => panic!("a classifier with a bug"),
        Some(b'y') => Verdict::Level(200),
        _ => Verdict::NoVerdict,
    });
    let mut world = world(1, |config| config.driver_classifier = Some(driver));
    let id = world.connect();
    for text in ["x\n", "y\n", "z\n"] {
        world.send(id, text);
        assert_eq!(world.jobs[0].label.priority, Priority::LOWEST);
        assert_eq!(world.serve_all(), [text]);
    }
    let driver = world.counters().driver;
    assert_eq!((driver.panics, driver.out_of_range, driver.dropped_by_verdict), (1, 1, 0));
    assert_eq!(world.text(id), "x\ny\nz\n");
}

//~ mechanisms: M5: classifier and application exchange values in 64 private bytes, both ways
#[test]
fn classifier_and_application_exchange_data_in_the_shared_bytes() {
    // The classifier counts a connection's segments and prefers connections that the application
    // has marked; the application returns the count.
    let transport: classify::TransportClassifier = Arc::new(|flow| {
        flow.private[1] += 1;
        Verdict::Level(if flow.private[9] == 9 { 0 } else { 5 })
    });
    let mut world = world(1, |config| config.stack.classifier = Some(transport));
    let (member, guest) = (world.connect(), world.connect());
    world.send(member, "W\n");
    assert_eq!(world.jobs[0].label.priority.level(), 5);
    world.serve_one();
    let busy = world.connect();
    world.send(busy, "busy\n");
    world.send(guest, "R\n");
    world.send(member, "R\n");
    assert_eq!(world.serve_one(), "busy\n");
    assert_eq!(world.jobs[0].label.priority, Priority::HIGHEST);
    world.serve_all();
    assert_eq!((world.text(member), world.text(guest)), ("W\n2R\n".to_owned(), "1R\n".to_owned()));
}

//~ mechanisms: M3, M5: an application gives one connection its own classifier and memory
#[test]
fn an_application_gives_one_connection_its_own_classifier_and_memory() {
    let mut world = world(1, |_| {});
    let (busy, member, guest) = (world.connect(), world.connect(), world.connect());
    world.send(member, "M\n");
    world.serve_all();
    world.send(busy, "7 busy\n");
    world.send(guest, "3 guest\n");
    world.send(member, "5 member\n");
    assert_eq!(world.serve_all(), ["7 busy\n", "5 member\n", "3 guest\n"]);
    world.send(member, "E\n");
    world.serve_all();
    world.send(busy, "7 busy\n");
    world.send(member, "5 member\n");
    world.send(guest, "3 guest\n");
    assert_eq!(world.serve_all(), ["7 busy\n", "3 guest\n", "5 member\n"]);
}

//~ classifiers: new rules apply from the next request; requests in progress keep theirs
#[test]
fn new_classifiers_apply_to_open_connections_and_queued_requests_keep_their_label() {
    let mut world = world(1, |_| {});
    let (busy, waiting, id) = (world.connect(), world.connect(), world.connect());
    world.send(busy, "7 busy\n");
    world.send(waiting, "3 waits\n");
    let turned: classify::TransportClassifier = Arc::new(|flow| match flow.payload.first() {
        Some(digit @ b'0'..=b'7') => Verdict::Level(b'7' - digit),
        _ => Verdict::NoVerdict,
    });
    world.shard.set_classifiers(Classifiers { transport: Some(turned), ..Classifiers::default() });
    world.send(id, "7 urgent now\n");
    assert_eq!(world.serve_all(), ["7 busy\n", "7 urgent now\n", "3 waits\n"]);
    world.shard.set_classifiers(Classifiers::default());
    world.send(id, "7 nobody asks\n");
    assert_eq!(world.jobs[0].label.priority, Priority::LOWEST);
    assert_eq!(world.serve_all(), ["7 nobody asks\n"]);
    assert_eq!((world.counters().closed, world.counters().aborted), (0, 0));
}
