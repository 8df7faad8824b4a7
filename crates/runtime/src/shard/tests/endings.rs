//! Ends of connections, and the fate of their last requests.

use super::*;

//~ runtime: an application frames, serves and closes: partial requests wait, invalid bytes reset the connection
#[test]
fn invalid_bytes_reset_their_connection() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    world.send(id, "!\n");
    assert_eq!(world.closed, [id]);
    assert_eq!((world.counters().invalid, world.counters().aborted), (1, 1));
}

//~ runtime: a panic of the application resets its connection only
#[test]
fn an_application_panic_resets_only_its_connection() {
    let mut world = world(1, |_| {});
    let (bad, good) = (world.connect(), world.connect());
    world.send(bad, "P\n");
    world.serve_one();
    world.send(good, "fine\n");
    world.serve_one();
    assert_eq!((world.closed.clone(), world.text(good)), (vec![bad], "fine\n".to_owned()));
    assert_eq!(world.counters().panics, 1);
}

#[test]
fn a_response_to_a_closed_connection_is_dropped_and_counted() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    world.send(id, "late\n");
    world.client.abort(world.clock.now(), id);
    world.settle();
    world.serve_one();
    assert_eq!((world.counters().late, world.counters().responses), (1, 0));
    assert!(world.shard.idle().contains(WorkerId(0)));
}

#[test]
fn a_half_closed_connection_gets_its_responses_before_the_fin() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    world.send(id, "a\nb\ntorso");
    world.client.close(world.clock.now(), id);
    world.settle();
    assert_eq!(world.serve_all(), ["a\n", "b\n"]);
    assert_eq!(world.text(id), "a\nb\n");
    assert_eq!((world.closed.contains(&id), world.counters().truncated), (true, 1));
}

#[test]
fn a_connection_closed_while_its_last_request_is_served_ends_with_the_response() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    world.send(id, "a\n");
    world.client.close(world.clock.now(), id);
    world.settle();
    assert_eq!((world.closed.is_empty(), world.serve_all()), (true, vec!["a\n".to_owned()]));
    assert_eq!((world.text(id), world.closed.contains(&id)), ("a\n".to_owned(), true));
    assert_eq!(world.counters().truncated, 0);
}

//~ runtime: an application frames, serves and closes: partial requests wait, invalid bytes reset the connection
#[test]
fn an_application_close_follows_its_response() {
    let mut world = world(1, |_| {});
    let id = world.connect();
    world.send(id, "C\nmore\n");
    assert_eq!(world.serve_all(), ["C\n"]);
    assert_eq!((world.text(id), world.closed.clone()), ("C\n".to_owned(), vec![id]));
}

//~ runtime: bounded queues lose nothing; a request that exceeds the receive buffer is refused
#[test]
fn a_response_larger_than_the_send_buffer_arrives_whole() {
    let mut world = world(1, |config| config.stack.send_buffer = 8 * 1024);
    let id = world.connect();
    world.send(id, "B\n");
    world.serve_one();
    assert_eq!(world.text(id).len(), 100_002);
}
