//! Tests of memory: a warm exchange allocates nothing, and an idle connection takes at most 640
//! bytes.

mod counting;
#[path = "../benches/stack/ours.rs"]
mod ours;

use counting::allocations;
use ours::Pair;

/// Size in bytes of a request and of a response.
const MESSAGE: usize = 64;

//~ stack: the warm fast path allocates nothing, and an idle connection takes at most 640 bytes
#[test]
fn warm_stack_allocates_nothing_and_idle_connections_are_small() {
    const CONNECTIONS: usize = 3000;
    let mut pair = Pair::new(CONNECTIONS);
    (0..10_000).for_each(|_| pair.exchange());
    let before = allocations();
    (0..20_000).for_each(|_| pair.exchange());
    assert_eq!(allocations() - before, 0, "allocations in 20,000 exchanges");

    let each = pair.server().connection_bytes() / CONNECTIONS;
    assert!(each <= 640, "{each} bytes for each idle connection");
    println!("{each} bytes for each idle connection");
}
