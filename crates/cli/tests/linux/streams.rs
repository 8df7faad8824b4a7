//! Long streams arrive whole, in both directions, however bad the cable is.

use crate::ours::Stream;
use crate::world::{World, accept, converse, dial, listener, noise, same, skipped};

const MB: usize = 1 << 20;

/// Eight megabytes each way at once, on one connection; `ours_dials` says who
/// opens it.
#[track_caller]
pub fn both_ways(world: &mut World, length: usize, ours_dials: bool) {
    let (there, here) = (noise(length, 1), noise(length, 2));
    let stream = Stream { outbox: here.clone(), finishes: true, ..Stream::default() };
    world.ours.streams.clear();
    let received = if ours_dials {
        let listener = world.kernel.enter(listener);
        world.ours.connect(listener.local_addr().expect("it is bound"), stream);
        let serve = || converse(&accept(&listener), &there);
        world.meet(serve, |ours| ours.only().peer_closed)
    } else {
        world.ours.accepts = stream;
        world.meet(|| converse(&dial(), &there), |ours| ours.streams.values().any(|s| s.peer_closed))
    };
    same("what the kernel received", &received.expect("the kernel's socket works"), &here);
    same("what we received", &world.ours.only().inbox, &there);
}

#[test]
fn eight_megabytes_arrive_whole_both_ways() {
    let test = "eight_megabytes_arrive_whole_both_ways";
    for ours_dials in [false, true] {
        let Some(mut world) = World::tap(test) else { return };
        both_ways(&mut world, 8 * MB, ours_dials);
    }
}

#[test]
fn eight_megabytes_arrive_whole_over_a_lossy_cable() {
    let test = "eight_megabytes_arrive_whole_over_a_lossy_cable";
    for ours_dials in [false, true] {
        let Some(mut world) = World::tap(test) else { return };
        if !world.lose(0.01) {
            return skipped(test, "iptables cannot drop packets at random here");
        }
        both_ways(&mut world, 8 * MB, ours_dials);
        let counters = world.ours.stack().counters();
        assert!(counters.retransmissions > 0, "the cable was lossy: {counters:?}");
    }
}
