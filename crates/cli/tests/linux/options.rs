//! The kernel may lack any option of TCP, and use any congestion control.

use crate::ours::Stream;
use crate::port::Kind;
use crate::streams::{BAD, both_ways};
use crate::world::{World, converse, dial, noise, same};

/// A world over a bad path.
fn bad(test: &str) -> Option<World> {
    World::over(test, Kind::Tap, BAD.parse().expect("the faults are well formed"))
}

/// What the kernel can be made to do without.
const OPTIONS: [&str; 3] = ["tcp_sack", "tcp_timestamps", "tcp_window_scaling"];

fn without(test: &str, options: &[&str]) {
    for ours_dials in [false, true] {
        let Some(mut world) = bad(test) else { return };
        for option in options {
            world.kernel.sysctl(&format!("net.ipv4.{option}"), "0").expect("the kernel has this parameter");
        }
        both_ways(&mut world, 2 << 20, ours_dials);
    }
}

#[test]
fn streams_are_whole_without_selective_acknowledgements() {
    without("streams_are_whole_without_selective_acknowledgements", &OPTIONS[..1]);
}

#[test]
fn streams_are_whole_without_timestamps() {
    without("streams_are_whole_without_timestamps", &OPTIONS[1..2]);
}

#[test]
fn streams_are_whole_without_window_scaling() {
    without("streams_are_whole_without_window_scaling", &OPTIONS[2..]);
}

#[test]
fn streams_are_whole_without_any_option() {
    without("streams_are_whole_without_any_option", &OPTIONS);
}

#[test]
fn streams_are_whole_whatever_the_kernels_congestion_control() {
    let test = "streams_are_whole_whatever_the_kernels_congestion_control";
    for algorithm in ["reno", "cubic", "bbr"] {
        let Some(mut world) = bad(test) else { return };
        let (there, here) = (noise(2 << 20, 1), noise(1000, 2));
        world.ours.accepts = Stream { outbox: here.clone(), finishes: true, ..Stream::default() };
        let received = world.meet(
            || {
                let stream = dial();
                rustix::net::sockopt::set_tcp_congestion(&stream, algorithm)?;
                converse(&stream, &there)
            },
            |ours| ours.streams.values().any(|s| s.peer_closed),
        );
        same(algorithm, &received.expect("the kernel has this algorithm"), &here);
        same(algorithm, &world.ours.only().inbox, &there);
    }
}
