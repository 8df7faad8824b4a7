//! Long streams arrive complete, in both directions, over any bad path.

//~ interop: 8 MB each way arrive intact over TAP, packet rings and AF_XDP, also over a bad path

use net::device::fault_injector::Rates;

use crate::greenwave_host::Stream;
use crate::port::Kind;
use crate::world::{World, accept, converse, dial, listener, noise, same};

const MB: usize = 1 << 20;

/// Eight megabytes in each direction at once, on one connection; `ours_dials` selects the side that
/// opens it.
#[track_caller]
pub fn both_ways(world: &mut World, length: usize, ours_dials: bool) {
    let (request, reply) = (noise(length, 1), noise(length, 2));
    let stream = Stream { outbox: reply.clone(), finishes: true, ..Stream::default() };
    world.ours.streams.clear();
    let received = if ours_dials {
        let listener = world.kernel.enter(listener);
        world.ours.connect(listener.local_addr().expect("it is bound"), stream);
        let serve = || converse(&accept(&listener), &request);
        world.meet(serve, |ours| ours.only().peer_closed)
    } else {
        world.ours.accepts = stream;
        world.meet(|| converse(&dial(), &request), |ours| ours.streams.values().any(|s| s.peer_closed))
    };
    same("what the kernel received", &received.expect("the kernel's socket works"), &reply);
    same("what we received", &world.ours.only().inbox, &request);
}

#[test]
fn eight_megabytes_arrive_whole_both_ways() {
    for kind in Kind::ALL {
        for ours_dials in [false, true] {
            let test = "eight_megabytes_arrive_whole_both_ways";
            let Some(mut world) = World::over(test, kind, Rates::NONE) else { continue };
            both_ways(&mut world, 8 * MB, ours_dials);
        }
    }
}

/// Fault rates of a bad radio link.
pub const BAD: &str = "loss=1%,reorder=2%,late=1ms,duplicate=0.5%,corrupt=0.1%";

#[test]
fn eight_megabytes_arrive_whole_over_a_bad_path() {
    let runs = [(Kind::Tap, false, 8), (Kind::Tap, true, 8), (Kind::Xdp, true, 8)];
    for (kind, ours_dials, length) in
        runs.into_iter().chain([(Kind::XdpNative, false, 2), (Kind::Packet, true, 2)])
    {
        let test = "eight_megabytes_arrive_whole_over_a_bad_path";
        let faults = BAD.parse().expect("the faults are well formed");
        let Some(mut world) = World::over(test, kind, faults) else { continue };
        both_ways(&mut world, length * MB, ours_dials);
        let counters = world.ours.stack().counters();
        assert!(counters.retransmissions > 0 && counters.out_of_order > 0, "{counters:?}");
    }
}
