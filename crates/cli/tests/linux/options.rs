//! The kernel may lack any TCP option, and use any congestion control.

//~ interop: a kernel without SACK, timestamps or window scaling, with ECN, cubic or reno, interoperates

use std::net::Ipv6Addr;

use net::stack::{Ecn, Ipv6};

use crate::greenwave_host::{PORT, Stream};
use crate::port::Kind;
use crate::streams::{BAD, both_ways};
use crate::world::{World, converse, dial, dial_to, noise, same, skipped};

/// A world over a bad path.
fn bad(test: &str) -> Option<World> {
    World::over(test, Kind::Tap, BAD.parse().expect("the faults are well formed"))
}

/// Options that the kernel can disable.
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
        let (request, reply) = (noise(2 << 20, 1), noise(1000, 2));
        world.ours.accepts = Stream { outbox: reply.clone(), finishes: true, ..Stream::default() };
        let received = world.meet(
            || {
                let stream = dial();
                rustix::net::sockopt::set_tcp_congestion(&stream, algorithm)?;
                converse(&stream, &request)
            },
            |ours| ours.streams.values().any(|s| s.peer_closed),
        );
        same(algorithm, &received.expect("the kernel has this algorithm"), &reply);
        same(algorithm, &world.ours.only().inbox, &request);
    }
}

//~ recovery: ECN is negotiated with the kernel's TCP (RFC 3168)
#[test]
fn both_agree_on_congestion_notification() {
    let test = "both_agree_on_congestion_notification";
    let Some(mut world) = World::with(test, |config| config.ecn = Ecn::Classic) else { return };
    world.kernel.sysctl("net.ipv4.tcp_ecn", "1").expect("the kernel has this parameter");
    let (request, reply) = (noise(2 << 20, 1), noise(2 << 20, 2));
    world.ours.accepts = Stream { outbox: reply.clone(), finishes: true, ..Stream::default() };
    // A peer that sets ECT(0) has negotiated ECN; the firewall counts such packets.
    for chain in ["INPUT", "OUTPUT"] {
        if world.kernel.run("iptables", &["-w", "-A", chain, "-m", "ecn", "--ecn-ip-ect", "2"]).is_err() {
            return skipped(test, "iptables cannot count marked packets here");
        }
    }
    let talk = || converse(&dial(), &request);
    let received = world.meet(talk, |ours| ours.streams.values().any(|s| s.peer_closed));
    same("what the kernel received", &received.expect("the kernel's socket works"), &reply);
    same("what we received", &world.ours.only().inbox, &request);
    for chain in ["INPUT", "OUTPUT"] {
        let table = world.kernel.run("iptables", &["-w", "-nvxL", chain]).expect("it was there before");
        let packets = table.lines().nth(2).and_then(|row| row.split_whitespace().next());
        let packets: u64 = packets.and_then(|word| word.parse().ok()).unwrap_or_default();
        assert!(packets > 10, "{chain}: {table}");
    }
}

#[test]
fn streams_are_whole_over_ipv6() {
    let test = "streams_are_whole_over_ipv6";
    let host = |n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
    let ours = Ipv6 { addrs: vec![(host(2), 64)], slaac: false, probes: 0, ..Ipv6::default() };
    let Some(mut world) = World::with(test, |config| config.ipv6 = Some(ours)) else { return };
    world.kernel.address("gw0", host(1).into(), 64).expect("the address is free");
    let (request, reply) = (noise(8 << 20, 1), noise(8 << 20, 2));
    world.ours.accepts = Stream { outbox: reply.clone(), finishes: true, ..Stream::default() };
    let talk = || converse(&dial_to((host(2), PORT).into()), &request);
    let received = world.meet(talk, |ours| ours.streams.values().any(|s| s.peer_closed));
    same("what the kernel received", &received.expect("the kernel's socket works"), &reply);
    same("what we received", &world.ours.only().inbox, &request);
}
