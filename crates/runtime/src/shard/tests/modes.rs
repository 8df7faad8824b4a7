//! Order of service of queued requests, by mode.

use classify::{DriverClassifier, TransportClassifier};

use super::*;

/// Classifiers whose level is a request's first digit. Later segments of a request have no level at
/// the driver, and the request's own at the transport.
fn by_request() -> Classifiers {
    let level =
        |byte: Option<&u8>| byte.filter(|digit| matches!(digit, b'0'..=b'7')).map(|digit| digit - b'0');
    let driver: DriverClassifier = Arc::new(move |packet| {
        level(packet.tcp_payload().and_then(<[u8]>::first)).map_or(Verdict::NoVerdict, Verdict::Level)
    });
    let transport: TransportClassifier = Arc::new(move |flow| {
        if let Some(level) = level(flow.payload.first()) {
            flow.private[0] = level;
        }
        Verdict::Level(flow.private[0])
    });
    Classifiers { driver: Some(driver), transport: Some(transport), ..Classifiers::default() }
}

fn world_in(mode: Mode, workers: usize) -> World {
    let mut params = Params::new(workers, 64);
    params.darc.samples = 4;
    let policy = mode.policy(by_request(), &params, Steering::all(workers));
    world(workers, |config| {
        *config = Config::new(net::stack::Config::new(MAC, SERVER, 24, [7; 16]), policy, workers);
    })
}

/// Checks the order of service of requests that arrive together while the only worker is busy.
fn check(mode: Mode, requests: &[&str], expected: &[&str]) -> World {
    let mut world = world_in(mode, 1);
    let busy = world.connect();
    let ids: Vec<_> = requests.iter().map(|_| world.connect()).collect();
    world.send(busy, "0 busy\n");
    for (id, text) in ids.iter().zip(requests) {
        world.queue(*id, text);
    }
    world.settle();
    assert_eq!(world.serve_one(), "0 busy\n");
    assert_eq!(world.serve_all(), expected, "{mode}");
    world
}

const MIX: [&str; 5] = ["7 a\n", "0 b\n", "5 c\n", "0 d\n", "3 e\n"];

//~ dispatch: mode `none` serves in order of arrival
#[test]
fn without_priority_requests_are_served_in_arrival_order() {
    check(Mode::None, &MIX, &MIX);
}

//~ mechanisms: M6: the driver's labels order the event queue
#[test]
fn labels_of_the_driver_order_the_event_queue_too() {
    check(Mode::Lns, &MIX, &["0 b\n", "0 d\n", "3 e\n", "5 c\n", "7 a\n"]);
}

//~ dispatch: mode `adps` serves by application-defined priority
#[test]
fn application_defined_priority_goes_first() {
    check(Mode::Adps, &MIX, &["0 b\n", "0 d\n", "3 e\n", "5 c\n", "7 a\n"]);
}

//~ dispatch: mode `ideal` drops less urgent frames in the driver, or preempts them in the simulator
#[test]
fn the_ideal_mode_drops_less_urgent_packets_in_the_driver() {
    let world = check(Mode::Ideal, &MIX, &["0 b\n", "0 d\n", "3 e\n"]);
    assert_eq!(world.counters().driver.dropped_by_verdict, 2);
}

//~ dispatch: mode `darc` reserves a worker for the short kind
#[test]
fn darc_reserves_a_worker_for_the_short_kind() {
    let mut world = world_in(Mode::Darc, 2);
    let ids: Vec<_> = (0..3).map(|_| world.connect()).collect();
    for text in ["7 long\n", "0 short\n", "7 long\n", "0 short\n"] {
        world.send(ids[0], text);
        world.serve_one();
    }
    world.send(ids[0], "7 x\n");
    world.send(ids[1], "7 y\n");
    assert_eq!(world.workers(), [(1, "7 x\n".to_owned())], "worker 0 stays idle");
    world.send(ids[2], "0 z\n");
    assert_eq!(world.workers()[1..], [(0, "0 z\n".to_owned())]);
    assert_eq!(world.serve_all(), ["7 x\n", "0 z\n", "7 y\n"]);
}

/// Sends the second half of a request after a worker found it incomplete, together with another
/// request of level 3.
fn check_torn(mode: Mode, expected: [&str; 3]) {
    let mut world = world_in(mode, 1);
    let (busy, other, torn) = (world.connect(), world.connect(), world.connect());
    world.send(torn, "0 to");
    world.send(busy, "5 busy\n");
    world.queue(other, "3 other\n");
    world.queue(torn, "rn\n");
    world.settle();
    assert_eq!(world.serve_all(), expected, "{mode}");
}

//~ dispatch: mode `lns` keeps a long request urgent only with a classifier that knows the flow
#[test]
fn only_a_classifier_that_knows_the_flow_keeps_a_long_request_urgent() {
    check_torn(Mode::None, ["5 busy\n", "3 other\n", "0 torn\n"]);
    check_torn(Mode::Lns, ["5 busy\n", "3 other\n", "0 torn\n"]);
    check_torn(Mode::Adps, ["5 busy\n", "0 torn\n", "3 other\n"]);
}
