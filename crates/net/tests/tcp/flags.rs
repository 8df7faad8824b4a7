//! Tests of every combination of flags in every state, against RFC 9293 §3.10.7.

use net::ConnId;
use net::stack::State;
use wire::tcp::Flags;

use crate::closing::{STATES, in_state};
use crate::peer::{Peer, Seg};
use crate::world::config;

/// States in which no connection is open.
const OTHERS: [&str; 3] = ["CLOSED", "LISTEN", "SYN-SENT"];
const PORT: u16 = 6000;

/// Peer in `state`, its connection if it has an id, and its port.
fn peer_in(state: &str) -> (Peer, Option<ConnId>, u16) {
    if let Some(n) = STATES.iter().position(|known| *known == state) {
        let (peer, conn) = in_state(n);
        return (peer, conn, 80);
    }
    let mut peer = Peer::new(config(1));
    match state {
        "LISTEN" => (peer, None, 80),
        "SYN-SENT" => {
            let remote = "10.0.0.2:5000".parse().unwrap();
            let conn = peer.stack.connect(peer.now, remote, Some(PORT)).unwrap();
            peer.ack = peer.receive()[0].seq + 1;
            (peer, Some(conn), PORT)
        }
        _ => (peer, None, 81),
    }
}

/// Expected answer and next state for a segment without data that is in order. An ACK covers all
/// that was sent, except our FIN in FIN-WAIT-1, CLOSING and LAST-ACK. "" is no answer, "gone" no
/// connection.
fn expected(state: &'static str, flags: Flags) -> (&'static str, &'static str) {
    let [fin, syn, rst, ack] = [Flags::FIN, Flags::SYN, Flags::RST, Flags::ACK].map(|f| flags.contains(f));
    match state {
        "CLOSED" => (if rst { "" } else { "RST" }, "gone"),
        "LISTEN" if rst => ("", "gone"),
        "LISTEN" if ack => ("RST", "gone"),
        // Linux ignores a SYN with FIN; the RFC would accept it.
        "LISTEN" if syn && !fin => ("SYN-ACK", "SYN-RECEIVED"),
        "LISTEN" => ("", "gone"),
        "SYN-SENT" if rst => ("", if ack { "gone" } else { state }),
        "SYN-SENT" if syn && ack => ("ACK", if fin { "CLOSE-WAIT" } else { "ESTABLISHED" }),
        "SYN-SENT" if syn => ("SYN-ACK", "SYN-RECEIVED"),
        "SYN-SENT" => ("", state),
        // RFC 1337.
        "TIME-WAIT" if rst => ("", state),
        _ if rst => ("", "gone"),
        "SYN-RECEIVED" if syn => ("", "gone"),
        // RFC 5961 §4.
        _ if syn => ("ACK", state),
        _ if !ack => ("", state),
        "SYN-RECEIVED" | "ESTABLISHED" if fin => ("ACK", "CLOSE-WAIT"),
        "SYN-RECEIVED" => ("", "ESTABLISHED"),
        "FIN-WAIT-1" if fin => ("ACK", "CLOSING"),
        "FIN-WAIT-2" if fin => ("ACK", "TIME-WAIT"),
        _ => (if fin { "ACK" } else { "" }, state),
    }
}

fn name(state: State) -> &'static str {
    match state {
        State::SynSent => "SYN-SENT",
        State::SynReceived { .. } => "SYN-RECEIVED",
        State::Established => "ESTABLISHED",
        State::FinWait1 => "FIN-WAIT-1",
        State::FinWait2 => "FIN-WAIT-2",
        State::CloseWait => "CLOSE-WAIT",
        State::Closing => "CLOSING",
        State::LastAck => "LAST-ACK",
        State::TimeWait { .. } => "TIME-WAIT",
        State::Closed => "gone",
    }
}

/// State of the only connection.
fn state_of(peer: &Peer, conn: Option<ConnId>) -> &'static str {
    let conn = conn.or_else(|| peer.events.first().map(|event| event.conn));
    match conn.and_then(|conn| peer.stack.info(peer.now, conn)) {
        Some(info) => name(info.state),
        None if peer.stack.connections() == 0 => "gone",
        // Connections without an id: before `Accepted`, and after `Closed`.
        None if conn.is_none() => "SYN-RECEIVED",
        None => "TIME-WAIT",
    }
}

fn kind(s: &Seg) -> &'static str {
    match s.flags.without(Flags::PSH | Flags::ECE | Flags::CWR) {
        flags if flags.contains(Flags::RST) => "RST",
        flags if flags == Flags::SYN | Flags::ACK => "SYN-ACK",
        flags if flags == Flags::ACK => "ACK",
        _ => "another",
    }
}

//~ tcp: every combination of flags in every state has the result of RFC 9293 §3.10.7
#[test]
fn every_combination_of_flags_in_every_state_follows_the_rfc() {
    for state in OTHERS.into_iter().chain(STATES) {
        for bits in 0..=u8::MAX {
            let flags = Flags::from_bits(bits);
            let (mut peer, conn, to) = peer_in(state);
            let (before, events) = (state_of(&peer, conn), peer.events.len());
            assert!([state, "gone"].contains(&before), "{state}: {before}");
            let answers = peer.exchange(Seg { to, ..peer.seg(flags) });
            let kinds: Vec<&str> = answers.iter().map(kind).collect();
            let (answer, after) = expected(state, flags);
            let found = (kinds.join(" "), state_of(&peer, conn));
            assert_eq!(found, (answer.to_owned(), after), "{flags:?} in {state}");
            let quiet = answer.is_empty() && after == before;
            assert!(!quiet || peer.events.len() == events, "{flags:?} in {state}: {:?}", peer.events);
        }
    }
}
