//! Order of requests that carry a budget, under policies that order by deadline.

use net::stack::UdpOptions;
use sched::dispatch::by_name;

use super::*;

fn world_of(policy: &str) -> World {
    world(1, |config| config.dispatch = by_name(policy, &Params::new(1, 64)).expect("a policy"))
}

/// Checks the order of service under `policy` of requests that arrive on connections of their own
/// while the only worker is busy.
fn check(policy: &str, requests: &[&str], expected: &[&str]) {
    let mut world = world_of(policy);
    let busy = world.connect();
    let ids: Vec<_> = requests.iter().map(|_| world.connect()).collect();
    world.send(busy, "busy\n");
    for (id, text) in ids.iter().zip(requests) {
        world.send(*id, text);
    }
    assert_eq!(world.serve_one(), "busy\n");
    assert_eq!(world.serve_all(), expected, "{policy}");
}

const MIX: [&str; 5] = ["3 none\n", "3 D9000\n", "0 D5000\n", "3 D2000\n", "7 D1000\n"];

//~ runtime: a policy that orders by deadline reads the budgets of requests; the others do not
#[test]
fn the_earliest_deadline_is_served_first() {
    check("edf", &MIX, &["7 D1000\n", "3 D2000\n", "0 D5000\n", "3 D9000\n", "3 none\n"]);
}

//~ runtime: a policy that orders by deadline reads the budgets of requests; the others do not
#[test]
fn a_deadline_orders_requests_within_their_level() {
    check("strict-edf", &MIX, &["0 D5000\n", "3 D2000\n", "3 D9000\n", "3 none\n", "7 D1000\n"]);
}

//~ runtime: a policy that orders by deadline reads the budgets of requests; the others do not
#[test]
fn other_policies_do_not_read_budgets() {
    // In `budget`, `X` panics.
    check("strict", &["3 D9000\n", "3 D2000\n"], &["3 D9000\n", "3 D2000\n"]);
    let mut world = world_of("strict");
    let id = world.connect();
    world.send(id, "X\n");
    assert_eq!((world.serve_all(), world.counters().panics), (vec!["X\n".to_owned()], 0));
}

//~ runtime: a budget counts from the request's first segment, and after it the handler sees what is left
#[test]
fn a_budget_in_a_later_segment_counts_for_its_request() {
    let mut world = world_of("edf");
    let (busy, other, torn) = (world.connect(), world.connect(), world.connect());
    world.send(busy, "busy\n");
    world.send(torn, "3 first, ");
    world.send(other, "3 D2000\n");
    world.send(torn, " D1000\n");
    assert_eq!(world.serve_all(), ["busy\n", "3 first,  D1000\n", "3 D2000\n"]);
}

//~ runtime: a budget counts from the request's first segment, and after it the handler sees what is left
#[test]
fn a_head_that_was_parsed_in_part_keeps_its_budget() {
    let mut world = world_of("edf");
    let (busy, other, torn) = (world.connect(), world.connect(), world.connect());
    // The idle worker parses the first segment.
    world.send(torn, "3 D1000 ");
    world.send(busy, "busy\n");
    world.send(other, "3 D2000\n");
    world.send(torn, "end\n");
    assert_eq!(world.serve_all(), ["busy\n", "3 D1000 end\n", "3 D2000\n"]);
}

//~ runtime: a budget counts from the request's first segment, and after it the handler sees what is left
#[test]
fn the_handler_sees_the_time_left() {
    let mut world = world_of("edf");
    let (busy, id) = (world.connect(), world.connect());
    world.send(busy, "7 for 100 us\n");
    world.send(id, "3 D150\n");
    world.serve_one();
    let left = world.jobs[0].label.deadline.expect("it has a budget");
    assert!((Span::from_micros(40)..Span::from_micros(50)).contains(&left), "{left:?}");
}

#[test]
fn a_datagram_is_ordered_by_its_budget() {
    let mut world = world_of("edf");
    world.shard.stack().bind_udp(53, UdpOptions::default()).unwrap();
    let socket = world.client.bind_udp(9, UdpOptions::default()).unwrap();
    let busy = world.connect();
    world.send(busy, "busy\n");
    for text in ["none\n", "D9000\n", "D2000\n"] {
        let remote = SocketAddr::new(SERVER.into(), 53);
        world.client.send_to(world.clock.now(), socket, remote, text.as_bytes()).unwrap();
        world.settle();
    }
    assert_eq!(world.serve_all(), ["busy\n", "D2000\n", "D9000\n", "none\n"]);
}

//~ input: a panic while a budget is read costs the budget, and is counted
#[test]
fn a_panic_while_a_budget_is_read_costs_the_budget() {
    let mut world = world_of("edf");
    let id = world.connect();
    world.send(id, "X\n");
    assert_eq!((world.serve_all(), world.counters().panics), (vec!["X\n".to_owned()], 1));
}
