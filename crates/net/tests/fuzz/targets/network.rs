//! Fuzz target: a stack below TCP, with random frames, and with packets of each protocol that have
//! valid headers and checksums and random contents.
//!
//! Properties: no panic; every frame of the stack parses and fits the MTU; no input stops the
//! stack's time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use net::stack::{Config, Ecn, Ipv6, ListenOptions, UdpId, UdpOptions};
use queueing::{Span, Time};
use wire::dhcp::{Message, MessageType};
use wire::ip::{self, Protocol};
use wire::tcp::{Flags, Options, Segment, Seq};
use wire::{arp, checksum, icmpv6, ipv6, udp};

use super::input::Input;
use crate::host::{Host, MAC, PAIRS, PEER4, PEER6, STACK_MAC, STACK4, STACK6, frame};
use crate::world::{config, meta};

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const SOURCES: [Ipv6Addr; 4] =
    [PEER6, ROUTER, Ipv6Addr::UNSPECIFIED, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)];

/// Random frames in sequence.
pub fn frames(data: &[u8]) {
    let mut stack = super::stack();
    for (at, bytes) in data.chunks(90).enumerate() {
        let now = Time::from_nanos(1_000_000 * at as u64);
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        frame.extend(bytes);
        let meta = meta(now, &frame);
        stack.ingress(now, &frame, &meta);
        stack.handle_timeout(now);
        while stack.poll_event().is_some() {}
        super::sent(&mut stack, now, usize::MAX);
    }
}

/// Host configured by routers and, depending on the first byte, by DHCP.
pub fn network(data: &[u8]) {
    let mut input = Input(data);
    let Some(kind) = input.below(4) else { return };
    let ipv6 = Ipv6 { addrs: vec![(STACK6, 64)], probes: (kind >> 1) as u8, ..Ipv6::default() };
    let (addr, prefix) = if kind & 1 == 0 { (STACK4, 24) } else { (Ipv4Addr::UNSPECIFIED, 0) };
    let dhcp = kind & 1 == 1;
    let mut host = Host::new(Config { addr, prefix, dhcp, ipv6: Some(ipv6), ecn: Ecn::Classic, ..config(1) });
    host.stack.handle_timeout(host.now);
    let socket = host.stack.bind_udp(53, UdpOptions::default()).expect("a free port");
    let mut transaction = 0;
    for _ in 0..400 {
        if step(&mut host, &mut input, transaction).is_none() {
            break;
        }
        // Sending triggers address resolution, and errors can quote its ports.
        let _ = host.stack.send_to(host.now, socket, (PEER4, 9).into(), b"anyone?");
        let _ = host.stack.send_to(host.now, socket, (SOURCES[3], 9).into(), b"anyone?");
        listen(&mut host, &mut transaction);
        while host.stack.receive_from(host.now, socket).is_some() {}
        while host.stack.take_udp_error(socket).is_some() {}
        while host.stack.poll_event().is_some() {}
    }
    let mut same = 0;
    for _ in 0..300 {
        let Some(next) = host.stack.poll_timeout() else { break };
        same = if next <= host.now { same + 1 } else { 0 };
        assert!(same < 50, "time stands still");
        host.now = host.now.max(next);
        host.stack.handle_timeout(host.now);
        listen(&mut host, &mut transaction);
    }
}

/// Reads the stack's packets and the transaction id of its DHCP request.
fn listen(host: &mut Host, transaction: &mut u32) {
    for sent in host.receive() {
        assert!(sent.packet.len() <= 1500, "a packet of {} bytes", sent.packet.len());
        let datagram = udp::Datagram::parse(&sent.payload, sent.source, sent.target, true);
        let Ok(datagram) = datagram.and_then(|datagram| Message::parse(datagram.payload)) else { continue };
        *transaction = datagram.transaction;
    }
}

/// Sends one packet, or advances time; `None` at the end of the input.
fn step(host: &mut Host, input: &mut Input<'_>, transaction: u32) -> Option<()> {
    let byte = input.byte()?;
    let (kind, more) = (byte % 8, byte >= 128);
    let len = usize::from(input.byte()?);
    match kind {
        0 | 1 => {
            let source = input.one_of(&SOURCES)?;
            let groups = [STACK6, ipv6::ALL_NODES, ipv6::solicited_node(STACK6)];
            let target = input.one_of(&groups)?;
            let mut bytes = input.bytes(len.max(4));
            bytes.resize(bytes.len().max(4), 0);
            bytes[2..4].fill(0);
            icmpv6::finish_checksum(&mut bytes, source, target);
            host.send(source.into(), target.into(), Protocol::Icmpv6, &bytes);
        }
        2 => {
            let mut bytes = input.bytes(len.max(4));
            bytes.resize(bytes.len().max(4), 0);
            bytes[2..4].fill(0);
            let sum = checksum::of(&bytes);
            bytes[2..4].copy_from_slice(&sum);
            host.send(PEER4.into(), STACK4.into(), Protocol::Icmp, &bytes);
        }
        3 => {
            let protocol = Protocol::new(input.byte()?);
            let bytes = input.bytes(len);
            host.send(PEER6.into(), STACK6.into(), protocol, &bytes);
        }
        4 => {
            let port = input.one_of(&[53, 68, 9])?;
            let bytes = input.bytes(len);
            send(host, PEER4.into(), STACK4.into(), [9, port], &bytes);
        }
        5 => {
            let kind = input.one_of(&[
                MessageType::Offer,
                MessageType::Ack,
                MessageType::Nak,
                MessageType::Request,
            ])?;
            let yours = input.one_of(&[STACK4, PEER4, Ipv4Addr::BROADCAST])?;
            let answer = Message {
                yours,
                server: Some(PEER4),
                prefix: Some(24),
                ..Message::new(kind, transaction, STACK_MAC)
            };
            let mut bytes = Vec::new();
            answer.emit(&mut bytes);
            // Random options replace the end mark.
            bytes.truncate(bytes.iter().rposition(|byte| *byte == 255)?);
            bytes.extend(input.bytes(len));
            send(host, PEER4.into(), Ipv4Addr::BROADCAST.into(), [67, 68], &bytes);
        }
        6 if more => {
            // Opens and closes sockets and listeners.
            let port = input.one_of(&[54, 68, 80])?;
            if len.is_multiple_of(2) {
                let _ = host.stack.bind_udp(port, UdpOptions::default());
                let _ = host.stack.listen(port, ListenOptions::default());
            } else {
                host.stack.close_udp(UdpId(port));
                host.stack.unlisten(port);
            }
        }
        7 if more => {
            // A SYN to one of the stack's addresses, with ECN bits from the length.
            let pair = input.one_of(&PAIRS)?;
            syn(host, pair, (len % 4) as u8);
        }
        6 => {
            let operation = input.one_of(&[arp::Operation::Request, arp::Operation::Reply])?;
            let sender = input.one_of(&[PEER4, STACK4, Ipv4Addr::UNSPECIFIED])?;
            host.arp(operation, sender, input.one_of(&[MAC, STACK_MAC, [6; 6]])?, STACK4);
        }
        _ => {
            let ms = input.one_of(&[1, 40, 1000, 60_000, 4_000_000])?;
            host.now += Span::from_millis(ms) * len as u64;
            host.stack.handle_timeout(host.now);
        }
    }
    Some(())
}

/// Sends the SYN of an ECN-capable peer in a packet with the ECN bits `ecn`.
fn syn(host: &mut Host, (stack, peer): (IpAddr, IpAddr), ecn: u8) {
    let syn = Segment {
        source_port: 7000,
        target_port: 80,
        seq: Seq(1),
        ack: Seq(0),
        flags: Flags::SYN | Flags::ECE | Flags::CWR,
        window: 1000,
        options: Options::NONE,
        payload: &[],
    };
    let mut bytes = vec![0; syn.header_len()];
    syn.emit(peer, stack, &mut bytes);
    let (protocol, payload_len) = (Protocol::Tcp, bytes.len());
    let header = ip::Header {
        source: peer,
        target: stack,
        protocol,
        dscp: 0,
        ecn,
        hops: protocol.hops(),
        payload_len,
    };
    let mut packet = vec![0; header.len()];
    header.emit(&mut packet);
    let mut frame = frame(peer, stack, protocol, &bytes);
    frame[14..14 + packet.len()].copy_from_slice(&packet);
    host.raw(&frame);
}

/// Sends a datagram between `ports`.
fn send(host: &mut Host, source: IpAddr, target: IpAddr, ports: [u16; 2], payload: &[u8]) {
    let datagram = udp::Datagram { source_port: ports[0], target_port: ports[1], payload };
    let mut bytes = vec![0; datagram.len()];
    datagram.emit(source, target, &mut bytes);
    let mut frame = frame(source, target, Protocol::Udp, &bytes);
    if target == IpAddr::V4(Ipv4Addr::BROADCAST) {
        frame[..6].fill(0xff);
    }
    host.raw(&frame);
}
