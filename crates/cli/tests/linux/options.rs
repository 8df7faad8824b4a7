//! The kernel may lack any option of TCP, and use any congestion control.

use std::net::Ipv6Addr;
use std::process::Command;

use net::stack::{Ecn, Ipv6};

use crate::ours::{PORT, Stream};
use crate::port::Kind;
use crate::streams::{BAD, both_ways};
use crate::world::{World, converse, dial, dial_to, noise, same};

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

#[test]
fn both_agree_on_congestion_notification() {
    let test = "both_agree_on_congestion_notification";
    let Some(mut world) = World::with(test, |config| config.ecn = Ecn::Classic) else { return };
    world.kernel.sysctl("net.ipv4.tcp_ecn", "1").expect("the kernel has this parameter");
    let (there, here) = (noise(2 << 20, 1), noise(2 << 20, 2));
    world.ours.accepts = Stream { outbox: here.clone(), finishes: true, ..Stream::default() };
    let talk = || {
        let stream = dial();
        // `ss` shows what the kernel agreed to.
        let agreed = Command::new("ss").args(["--tcp", "--info", "--numeric"]).output();
        (converse(&stream, &there), agreed.expect("ss comes with ip"))
    };
    let (received, agreed) = world.meet(talk, |ours| ours.streams.values().any(|s| s.peer_closed));
    same("what the kernel received", &received.expect("the kernel's socket works"), &here);
    same("what we received", &world.ours.only().inbox, &there);
    let agreed = String::from_utf8_lossy(&agreed.stdout).into_owned();
    assert!(agreed.split_whitespace().any(|word| word == "ecn"), "{agreed}");
}

#[test]
fn streams_are_whole_over_ipv6() {
    let test = "streams_are_whole_over_ipv6";
    let host = |n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
    let ours = Ipv6 { addrs: vec![(host(2), 64)], slaac: false, probes: 0, ..Ipv6::default() };
    let Some(mut world) = World::with(test, |config| config.ipv6 = Some(ours)) else { return };
    world.kernel.address("gw0", host(1).into(), 64).expect("the address is free");
    let (there, here) = (noise(8 << 20, 1), noise(8 << 20, 2));
    world.ours.accepts = Stream { outbox: here.clone(), finishes: true, ..Stream::default() };
    let talk = || converse(&dial_to((host(2), PORT).into()), &there);
    let received = world.meet(talk, |ours| ours.streams.values().any(|s| s.peer_closed));
    same("what the kernel received", &received.expect("the kernel's socket works"), &here);
    same("what we received", &world.ours.only().inbox, &there);
}
