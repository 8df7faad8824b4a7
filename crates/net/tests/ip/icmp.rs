//! Tests of ICMP: echo, errors for connections, forged errors, errors that the stack sends.

//~ ip: ICMP echo is answered and the stack's own ICMP errors are rate-limited (RFC 792, 4443)

use std::net::IpAddr;

use net::EventKind;
use net::stack::{CloseReason, Config, HopLimits, Unreachable};
use queueing::Span;
use wire::icmp::{Cause, EchoMessage, IcmpError, Message};
use wire::ip::Protocol;
use wire::{icmpv6, udp};

use crate::host::{Host, PAIRS, Sent};
use crate::world::config;

/// Sends the stack an ICMP error about `quoted`.
pub fn complain(host: &mut Host, (stack, peer): (IpAddr, IpAddr), cause: Cause, quoted: &[u8]) {
    let mut bytes = Vec::new();
    let error = IcmpError { cause, quoted };
    let protocol = match (peer, stack) {
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            icmpv6::emit_error(&error, source, target, &mut bytes);
            Protocol::Icmpv6
        }
        _ => {
            error.emit(&mut bytes);
            Protocol::Icmp
        }
    };
    host.send(peer, stack, protocol, &bytes);
}

/// ICMP error in a packet of the stack.
fn error(sent: &Sent) -> Option<(Cause, Vec<u8>)> {
    match (sent.protocol, sent.source, sent.target) {
        (Protocol::Icmp, ..) => match Message::parse(&sent.payload) {
            Ok(Message::Error(error)) => Some((error.cause, error.quoted.to_vec())),
            _ => None,
        },
        (Protocol::Icmpv6, IpAddr::V6(source), IpAddr::V6(target)) => {
            match icmpv6::Message::parse(&sent.payload, source, target) {
                Ok(icmpv6::Message::Error(error)) => Some((error.cause, error.quoted.to_vec())),
                _ => None,
            }
        }
        _ => None,
    }
}

#[test]
fn a_ping_is_answered_in_both_families() {
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        let echo = EchoMessage { reply: false, ident: 7, sequence: 9, payload: &[5; 3000] };
        let mut bytes = vec![0; echo.len()];
        let protocol = match (peer, stack) {
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                icmpv6::emit_echo(&echo, source, target, &mut bytes);
                Protocol::Icmpv6
            }
            _ => {
                echo.emit(&mut bytes);
                Protocol::Icmp
            }
        };
        host.send(peer, stack, protocol, &bytes);
        let received = host.receive();
        assert_eq!(received.len(), 3, "fragments, since it is larger than the MTU");
        assert_eq!(received.iter().map(|s| s.payload.len()).sum::<usize>(), bytes.len());
        assert!(received.iter().all(|s| s.target == peer && s.fragment.is_some()));
    }
}

//~ ip: an ICMP error ends an attempt to connect; a forged one is ignored (RFC 1122 §4.2.3.9, 5927)
#[test]
fn an_error_about_our_syn_ends_the_attempt() {
    for pair in PAIRS {
        let v6 = pair.1.is_ipv6();
        for (cause, ends, soft) in [
            (Cause::Port, Some(Unreachable::Port)),
            (Cause::Protocol, Some(Unreachable::Protocol)),
            (Cause::Prohibited, Some(Unreachable::Prohibited { v6 })),
            (Cause::Network, Some(Unreachable::Network)),
            (Cause::Unreachable, Some(Unreachable::Host)),
            (Cause::Hops, Some(Unreachable::Host)),
            (Cause::Reassembly, None),
            (Cause::Parameter, None),
        ]
        .into_iter()
        .flat_map(|(cause, ends)| [(cause, ends, false), (cause, ends, true)])
        {
            let soft_errors_end_opening = soft;
            let ends = ends.filter(|_| soft || cause.is_hard());
            let mut host = Host::introduced(Config { soft_errors_end_opening, ..config(1) });
            let conn = host.stack.connect(host.now, (pair.1, 80).into(), None).unwrap();
            let syn = host.receive().remove(0);
            complain(&mut host, pair, cause, &syn.packet);
            let event = host.stack.poll_event().map(|e| (e.conn, e.kind));
            let expected = ends.map(|why| (conn, EventKind::Closed(CloseReason::Unreachable(why))));
            assert_eq!(event, expected, "{cause:?}");
        }
    }
}

//~ ip: an ICMP error ends an attempt to connect; a forged one is ignored (RFC 1122 §4.2.3.9, 5927)
#[test]
fn forged_errors_are_ignored() {
    for pair in PAIRS {
        let mut host = Host::introduced(config(1));
        host.stack.connect(host.now, (pair.1, 80).into(), Some(5000)).unwrap();
        let syn = host.receive().remove(0);
        let start = syn.packet.len() - syn.payload.len();
        // Another sequence number; another port; too few bytes of the packet.
        let mut other_seq = syn.packet.clone();
        other_seq[start + 4] ^= 0x80;
        let mut other_port = syn.packet.clone();
        other_port[start + 1] ^= 1;
        for quoted in [&other_seq[..], &other_port, &syn.packet[..start + 7], &syn.packet[..start - 1], &[]] {
            complain(&mut host, pair, Cause::Port, quoted);
            assert_eq!(host.stack.poll_event(), None);
        }
        assert_eq!(host.stack.counters().icmp_errors, 5);
    }
}

//~ programs: ICMP errors that quote a packet with fewer hops left than IP_MINTTL are ignored, as in Linux
#[test]
fn an_error_of_a_router_too_far_away_is_ignored() {
    for pair in PAIRS {
        let mut host = Host::introduced(config(1));
        let near = HopLimits { sent: 255, received_min: 254 };
        host.stack.connect_with_hops(host.now, (pair.1, 80).into(), None, near).unwrap();
        let mut quoted = host.receive().remove(0).packet;
        let at = if pair.1.is_ipv6() { 7 } else { 8 };
        assert_eq!(quoted[at], 255, "the hop limit");
        for (left, ends) in [(1, false), (253, false), (254, true)] {
            quoted[at] = left;
            complain(&mut host, pair, Cause::Port, &quoted);
            assert_eq!(host.stack.poll_event().is_some(), ends, "{left} hops left");
        }
        assert_eq!(host.stack.counters().hops_min_drops, 2);
    }
}

#[test]
fn an_established_connection_survives_a_hard_error() {
    for pair in PAIRS {
        let mut host = Host::introduced(config(1));
        let conn = host.connect(pair, 1200);
        host.stack.send(host.now, conn, b"hello").unwrap();
        let data = host.receive().pop().unwrap();
        complain(&mut host, pair, Cause::Port, &data.packet);
        assert_eq!(host.stack.poll_event(), None);
        // If no other answer arrives, the error becomes the reason of the timeout.
        host.stack.set_user_timeout(host.now, conn, Some(Span::from_millis(300)));
        while host.stack.connections() > 0
            && let Some(next) = host.stack.poll_timeout()
        {
            host.now = next;
            host.stack.handle_timeout(host.now);
            host.receive();
        }
        let event = host.stack.poll_event().map(|e| (e.conn, e.kind));
        let why = CloseReason::Unreachable(Unreachable::Port);
        assert_eq!(event, Some((conn, EventKind::Closed(why))));
    }
}

#[test]
fn a_datagram_for_no_socket_is_answered_at_a_bounded_rate() {
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(Config { icmp_errors_per_second_max: 3, ..config(1) });
        let datagram = udp::Datagram { source_port: 9, target_port: 10, payload: b"anyone?" };
        let mut bytes = vec![0; datagram.len()];
        datagram.emit(peer, stack, &mut bytes);
        let mut answers = Vec::new();
        for _ in 0..10 {
            host.send(peer, stack, Protocol::Udp, &bytes);
            answers.extend(host.receive().iter().filter_map(error));
        }
        assert_eq!(answers.len(), 3);
        assert_eq!(answers[0].0, Cause::Port);
        assert!(answers[0].1.ends_with(b"anyone?"));
        host.now += Span::from_secs(1);
        host.send(peer, stack, Protocol::Udp, &bytes);
        assert_eq!(host.receive().iter().filter_map(error).count(), 1);
        assert_eq!(host.stack.counters().icmp_suppressed, 7);
    }
}

#[test]
fn an_unknown_protocol_is_refused() {
    for (stack, peer) in PAIRS {
        let mut host = Host::introduced(config(1));
        host.send(peer, stack, Protocol::Other(132), b"sctp?");
        let received = host.receive();
        assert_eq!(received.iter().filter_map(error).map(|e| e.0).collect::<Vec<_>>(), [Cause::Protocol]);
    }
}

#[test]
fn an_error_is_never_answered() {
    for pair in PAIRS {
        let mut host = Host::introduced(config(1));
        complain(&mut host, pair, Cause::Port, &[0x45; 60]);
        assert!(host.frames().is_empty());
    }
}
