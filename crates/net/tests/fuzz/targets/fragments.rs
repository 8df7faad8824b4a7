//! Fuzz target: fragments of datagrams in any order and of any size, some repeated, some wrong.
//!
//! Properties: every delivered datagram is one of those sent, whole; after the timeout of all
//! fragments, a valid datagram arrives.

use std::net::IpAddr;

use net::stack::{UdpId, UdpOptions};
use queueing::Span;
use wire::udp;

use super::input::{Input, pattern};
use crate::host::{Host, PAIRS, fragment};
use crate::world::config;

pub fn fragments(data: &[u8]) {
    let mut host = Host::introduced(config(1));
    let socket = host.stack.bind_udp(53, UdpOptions::default()).expect("a free port");
    let mut input = Input(data);
    for _ in 0..1000 {
        if step(&mut host, &mut input).is_none() {
            break;
        }
        read(&mut host, socket);
    }
    host.pass(Span::from_secs(20));
    for (stack, peer) in PAIRS {
        let bytes = datagram(peer, stack, 7);
        host.raw(&fragment(peer, stack, 7, 304, &bytes[304..], false));
        host.raw(&fragment(peer, stack, 7, 0, &bytes[..304], true));
        assert_eq!(read(&mut host, socket), 1, "a datagram arrives in the end");
    }
}

/// Reads datagrams and checks that each was sent.
fn read(host: &mut Host, socket: UdpId) -> usize {
    let mut read = 0;
    while let Some(got) = host.stack.receive_from(host.now, socket) {
        let ident = *got.payload.first().expect("no datagram is empty");
        assert!(got.payload == payload(ident), "datagram {ident} as it was sent");
        read += 1;
    }
    read
}

fn datagram(source: IpAddr, target: IpAddr, ident: u8) -> Vec<u8> {
    let payload = payload(ident);
    let datagram = udp::Datagram { source_port: 9, target_port: 53, payload: &payload };
    let mut bytes = vec![0; datagram.len()];
    datagram.emit(source, target, &mut bytes);
    bytes
}

/// Payload of datagram `ident`; its first byte is the number.
fn payload(ident: u8) -> Vec<u8> {
    let len = 100 + 90 * usize::from(ident);
    let rest = (1..len as u32).map(|at| pattern(at + u32::from(ident)));
    [ident].into_iter().chain(rest).collect()
}

/// Sends one fragment, or advances time; `None` at the end of the input.
fn step(host: &mut Host, input: &mut Input<'_>) -> Option<()> {
    let (stack, peer) = PAIRS[input.below(2)?];
    let ident = input.byte()? % 32;
    let bytes = datagram(peer, stack, ident);
    // A third of the datagram, its rest, or any part of it.
    let third = bytes.len() / 24 * 8;
    let (start, mut end) = match input.below(8)? {
        0 => (0, third),
        1 => (third, 2 * third),
        2 => (2 * third, bytes.len()),
        3 => {
            host.pass(Span::from_millis(100 * u64::from(input.byte()?)));
            return Some(());
        }
        4 => (0, bytes.len()),
        _ => {
            let (start, len) = (8 * usize::from(input.byte()?), 8 * usize::from(input.byte()?));
            (start.min(bytes.len()), (start + len).min(bytes.len()))
        }
    };
    let mut more = end < bytes.len();
    match input.below(16)? {
        // A fragment with a wrong more-fragments flag, or with an invalid end.
        0 => more = !more,
        1 => end -= (end - start).min(3),
        _ => {}
    }
    host.raw(&fragment(peer, stack, ident.into(), start, &bytes[start..end], more));
    Some(())
}
