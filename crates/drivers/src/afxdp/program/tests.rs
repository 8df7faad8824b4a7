//! Claimed frames, compared between the model and the loaded program.

//~ devices: the XDP program decides as its model in Rust does

use std::os::fd::AsRawFd;

use proptest::prelude::*;

use super::*;
use hostbpf::bpf;

const US: [u8; 4] = [10, 0, 0, 2];
const OTHER: [u8; 4] = [10, 0, 0, 1];
const US6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3456);
const OTHER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3457);
/// Result of the program in these tests for a frame of a socket.
const OURS: i32 = 1;

fn claims(ports: &[RangeInclusive<u16>]) -> Claims {
    Claims { addresses: vec![IpAddr::from(US), IpAddr::from(US6)], ports: ports.to_vec() }
}

fn ethernet(kind: u32, payload: &[u8]) -> Vec<u8> {
    [&[2; 12], &(kind as u16).to_be_bytes()[..], payload].concat()
}

fn ipv4(target: [u8; 4], protocol: u8, options: usize, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 20 + options];
    header[0] = 0x45 + (options / 4) as u8;
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[9] = protocol;
    header[12..16].copy_from_slice(&OTHER);
    header[16..20].copy_from_slice(&target);
    ethernet(IPV4, &[&header, payload].concat())
}

fn ipv6(target: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 40];
    header[0] = 0x60;
    header[6] = next;
    header[8..24].copy_from_slice(&OTHER6.octets());
    header[24..].copy_from_slice(&target.octets());
    ethernet(IPV6, &[&header, payload].concat())
}

fn arp(target: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0; 28];
    packet[24..].copy_from_slice(&target);
    ethernet(ARP, &packet)
}

fn solicitation(kind: u8, to: Ipv6Addr, asked: Ipv6Addr) -> Vec<u8> {
    ipv6(to, ICMPV6, &[&[kind, 0, 0, 0, 0, 0, 0, 0], &asked.octets()[..]].concat())
}

/// A transport header to `port`.
fn to(port: u16) -> Vec<u8> {
    [&[1, 2], &port.to_be_bytes()[..], &[0; 16]].concat()
}

/// Frames, and true if they are ours: with all ports, and with 80 and 8000 to 8009.
fn vectors() -> Vec<(&'static str, Vec<u8>, bool, bool)> {
    let cut = |mut frame: Vec<u8>, len: usize| {
        frame.truncate(len);
        frame
    };
    let node = solicited_node(US6);
    vec![
        ("tcp to us", ipv4(US, TCP, 0, 0, &to(80)), true, true),
        ("tcp to another port", ipv4(US, TCP, 0, 0, &to(22)), true, false),
        ("udp at a range's start", ipv4(US, UDP, 0, 0, &to(8000)), true, true),
        ("udp at a range's end", ipv4(US, UDP, 0, 0, &to(8009)), true, true),
        ("udp after a range", ipv4(US, UDP, 0, 0, &to(8010)), true, false),
        ("tcp to the kernel", ipv4(OTHER, TCP, 0, 0, &to(80)), false, false),
        ("tcp behind options", ipv4(US, TCP, 40, 0, &to(80)), true, true),
        ("a port that only seems so without options", ipv4(US, TCP, 4, 0, &to(22)), true, false),
        ("don't fragment is no fragment", ipv4(US, TCP, 0, 0x4000, &to(22)), true, false),
        ("a first fragment", ipv4(US, UDP, 0, 0x2000, &to(22)), true, true),
        ("a later fragment", ipv4(US, UDP, 0, 0x00b9, &to(22)), true, true),
        ("ping", ipv4(US, ICMP, 0, 0, &[8, 0]), true, true),
        ("ping of the kernel", ipv4(OTHER, ICMP, 0, 0, &[8, 0]), false, false),
        ("sctp to us", ipv4(US, 132, 0, 0, &to(80)), false, false),
        ("tcp without a port", ipv4(US, TCP, 0, 0, &[0, 1]), true, false),
        ("a header cut short", cut(ipv4(US, TCP, 0, 0, &[]), 33), false, false),
        ("who has us", arp(US), true, true),
        ("who has the kernel", arp(OTHER), false, false),
        ("arp cut short", cut(arp(US), 41), false, false),
        ("tcp over ipv6", ipv6(US6, TCP, &to(80)), true, true),
        ("tcp over ipv6 to another port", ipv6(US6, TCP, &to(81)), true, false),
        ("tcp over ipv6 to the kernel", ipv6(OTHER6, TCP, &to(80)), false, false),
        ("udp over ipv6 without a port", ipv6(US6, UDP, &[1, 2, 3]), true, false),
        ("icmpv6 to us", ipv6(US6, ICMPV6, &[128, 0]), true, true),
        ("an ipv6 fragment", ipv6(US6, 44, &[6, 0, 0, 1]), true, true),
        ("ipv6 options", ipv6(US6, 0, &[6, 0]), true, true),
        ("sctp over ipv6", ipv6(US6, 132, &to(80)), false, false),
        ("an ipv6 header cut short", cut(ipv6(US6, TCP, &[]), 53), false, false),
        ("who has us, by multicast", solicitation(135, node, US6), true, true),
        ("who has us, asked directly", solicitation(135, US6, US6), true, true),
        ("an advertisement to those who hear with us", solicitation(136, node, US6), false, false),
        ("somebody has our address", solicitation(136, ALL_NODES, US6), true, true),
        ("somebody has another address", solicitation(136, ALL_NODES, OTHER6), false, false),
        ("a solicitation to all nodes", solicitation(135, ALL_NODES, US6), false, false),
        ("a router's advertisement", solicitation(134, ALL_NODES, US6), false, false),
        ("a broadcast of dhcp", ipv4([255; 4], UDP, 0, 0, &to(68)), false, false),
        (
            "who has one that hears with us",
            solicitation(135, node, Ipv6Addr::new(1, 0, 0, 0, 0, 0, 0x12, 0x3456)),
            false,
            false,
        ),
        ("a solicitation cut short", cut(solicitation(135, node, US6), 77), false, false),
        ("a tagged frame", ethernet(0x8100, &ipv4(US, TCP, 0, 0, &to(80))), false, false),
        ("an ethernet header alone", ethernet(IPV4, &[]), false, false),
        ("lldp", ethernet(0x88cc, &[0; 60]), false, false),
    ]
}

const PORTS: [RangeInclusive<u16>; 2] = [80..=80, 8000..=8009];

#[test]
fn what_is_ours_is_what_the_vectors_say() {
    for (what, frame, all, some) in vectors() {
        assert_eq!(claims(&[]).hold(&frame), all, "{what}, all ports");
        assert_eq!(claims(&PORTS).hold(&frame), some, "{what}, some ports");
    }
}

/// Prints a skipped test, past the test harness, which captures the output of passing tests.
fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// The loaded program, or the error.
fn load(claims: &Claims) -> Result<impl Fn(&[u8]) -> bool + use<>, std::io::Error> {
    let sockets = bpf::socket_map(1)?;
    let program = match bpf::load(bpf::Kind::Xdp, "greenwave", &claims.assemble(sockets.as_raw_fd(), OURS)) {
        Err(e) if e.raw_os_error() != Some(libc::EPERM) => panic!("the verifier rejects: {e}"),
        done => done?,
    };
    Ok(move |frame: &[u8]| {
        let _ = &sockets;
        let run = bpf::run(&program, frame, &mut [], &mut []);
        match run.expect("the kernel runs the loaded program").0 {
            1 => true,
            2 => false,
            other => panic!("verdict {other}"),
        }
    })
}

#[test]
fn the_kernel_runs_what_the_model_says() {
    for ports in [&[][..], &PORTS] {
        let claims = claims(ports);
        let program = match load(&claims) {
            Ok(program) => program,
            Err(e) => return skipped("the_kernel_runs_what_the_model_says", &format!("no BPF here: {e}")),
        };
        for (what, frame, all, some) in vectors() {
            let expected = if ports.is_empty() { all } else { some };
            assert_eq!(program(&frame), expected, "{what}, ports {ports:?}");
        }
    }
}

#[test]
fn the_smallest_and_the_largest_claims_are_verified_too() {
    let one = |addr: IpAddr| Claims { addresses: vec![addr], ports: Vec::new() };
    let addresses =
        (0..Claims::ADDRESSES_MAX as u16).map(|n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, n, 7).into());
    let ports = (0..Claims::PORTS_MAX as u16).map(|n| n * 10..=n * 10 + 5);
    let largest = Claims { addresses: addresses.collect(), ports: ports.collect() };
    for claims in [Claims::default(), one(US.into()), one(US6.into()), largest] {
        if let Err(e) = load(&claims) {
            let test = "the_smallest_and_the_largest_claims_are_verified_too";
            return skipped(test, &format!("no BPF here: {e}"));
        }
    }
}

#[test]
fn damaged_frames_are_judged_alike_by_model_and_kernel() {
    let pairs = [claims(&[]), claims(&PORTS)].map(|claims| load(&claims).map(|program| (claims, program)));
    let pairs = match pairs.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(pairs) => pairs,
        Err(e) => {
            return skipped(
                "damaged_frames_are_judged_alike_by_model_and_kernel",
                &format!("no BPF here: {e}"),
            );
        }
    };
    let frames: Vec<Vec<u8>> = vectors().into_iter().map(|(_, frame, ..)| frame).collect();
    let (any, byte) = (any::<prop::sample::Index>(), any::<u8>());
    let damage = (any.clone(), proptest::collection::vec((any.clone(), byte), 0..3), any);
    proptest!(ProptestConfig::with_cases(400), |((frame, bytes, len) in damage)| {
        let mut frame = frames[frame.index(frames.len())].clone();
        for (at, byte) in bytes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        // The kernel's test run rejects a frame without an Ethernet header.
        frame.truncate(14 + len.index(frame.len() - 13));
        for (claims, program) in &pairs {
            prop_assert_eq!(program(&frame), claims.hold(&frame), "{:?}", frame);
        }
    });
}
