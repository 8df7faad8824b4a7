//! Tests of hop limits: set on outgoing packets, enforced on incoming segments.

//~ programs: packets carry the hop limit of their socket; segments below IP_MINTTL are dropped (RFC 5082)

use net::stack::{ConnId, HopLimits, ListenOptions, SynCookies};
use net::{EventKind, Stack};
use queueing::{Span, Time};
use wire::ip::HOPS;

use crate::world::{SERVER, config, meta, sent};

/// Hop limit of a frame with TCP.
fn hops(frame: &[u8]) -> Option<u8> {
    match (frame[12..14] == [8, 0], frame[12..14] == [0x86, 0xdd]) {
        (true, _) if frame[14 + 9] == 6 => Some(frame[14 + 8]),
        (_, true) if frame[14 + 6] == 6 => Some(frame[14 + 7]),
        _ => None,
    }
}

/// Server with these hop limits for both IP versions, and a client.
struct Pair {
    now: Time,
    stacks: [Stack; 2],
    /// Hop limits of TCP frames that each side has sent since the last `take`.
    sent: [Vec<u8>; 2],
}

impl Pair {
    fn new(cookies: SynCookies, limits: [HopLimits; 2]) -> Self {
        let server = net::stack::Config { syn_cookies: cookies, ..config(1) };
        let mut stacks = [server, config(2)].map(Stack::new);
        stacks[0].listen(80, ListenOptions { hops: limits, ..ListenOptions::default() }).unwrap();
        Self { now: Time::from_nanos(1_000_000_000), stacks, sent: Default::default() }
    }

    /// Exchanges frames in both directions for 400 ms.
    fn pass(&mut self) {
        for _ in 0..20 {
            self.now += Span::from_millis(20);
            for side in 0..2 {
                self.stacks[side].handle_timeout(self.now);
                for frame in sent(&mut self.stacks[side], self.now) {
                    self.sent[side].extend(hops(&frame));
                    self.stacks[1 - side].ingress(self.now, &frame, &meta(self.now, &frame));
                }
            }
        }
    }

    /// Hop limits with which `side` has sent, without repeats.
    fn take(&mut self, side: usize) -> Vec<u8> {
        let mut sent = std::mem::take(&mut self.sent[side]);
        sent.dedup();
        sent
    }

    fn connect(&mut self, to: &str, limits: HopLimits) -> (Option<ConnId>, ConnId) {
        let to = to.parse().unwrap();
        let client = self.stacks[1].connect_with_hops(self.now, to, None, limits).unwrap();
        self.pass();
        let mut events = std::iter::from_fn(|| self.stacks[0].poll_event());
        let accepted = events.find(|event| matches!(event.kind, EventKind::Accepted(_)));
        (accepted.map(|event| event.conn), client)
    }
}

fn limits(sent: u8, received_min: u8) -> HopLimits {
    HopLimits { sent, received_min }
}

#[test]
fn all_segments_of_a_connection_have_its_hop_limit() {
    for cookies in [SynCookies::Off, SynCookies::Always] {
        for (to, server_hops) in [(SERVER[0], 5), (SERVER[1], 7)] {
            let mut pair = Pair::new(cookies, [limits(5, 0), limits(7, 0)]);
            let (server, client) = pair.connect(to, limits(255, 0));
            let conns = [server.expect("accepted"), client];
            assert_eq!([pair.take(0), pair.take(1)], [vec![server_hops], vec![255]], "the handshake");
            for (side, conn) in conns.into_iter().enumerate() {
                // One segment, and more than the window allows at once.
                for len in [10, 60_000] {
                    pair.stacks[side].send(pair.now, conn, &vec![1; len]).unwrap();
                    pair.pass();
                }
            }
            assert_eq!([pair.take(0), pair.take(1)], [vec![server_hops], vec![255]], "data");
            pair.stacks[0].set_hops(pair.now, conns[0], |hops| hops.sent = 9);
            pair.stacks[0].send(pair.now, conns[0], b"x").unwrap();
            // Lost data is retransmitted.
            let again: Vec<_> = (0..40)
                .flat_map(|_| {
                    pair.now += Span::from_millis(20);
                    pair.stacks[0].handle_timeout(pair.now);
                    sent(&mut pair.stacks[0], pair.now)
                })
                .filter_map(|frame| hops(&frame))
                .collect();
            assert!(again.len() > 1 && again.iter().all(|hops| *hops == 9), "{again:?}");
            pair.stacks[0].abort(pair.now, conns[0]);
            pair.stacks[1].close(pair.now, conns[1]);
            pair.pass();
            assert_eq!(pair.take(0)[0], 9, "the reset");
            assert_eq!(pair.take(1), [255], "the last");
        }
    }
}

#[test]
fn a_connection_has_the_default_hop_limit_unless_configured() {
    for to in SERVER {
        let mut pair = Pair::new(SynCookies::Off, [HopLimits::default(); 2]);
        let (server, _) = pair.connect(to, HopLimits::default());
        pair.stacks[0].send(pair.now, server.unwrap(), b"x").unwrap();
        pair.pass();
        assert_eq!([pair.take(0), pair.take(1)], [[HOPS], [HOPS]]);
    }
}

/// RFC 5082 §3: a hop limit of 255 proves that no router was on the path.
#[test]
fn segments_with_too_few_hops_left_are_dropped_and_counted() {
    let near = limits(255, 255);
    for cookies in [SynCookies::Off, SynCookies::Always] {
        for to in SERVER {
            for (client, comes) in [(limits(255, 0), true), (limits(254, 0), false)] {
                let mut pair = Pair::new(cookies, [near; 2]);
                let (server, conn) = pair.connect(to, client);
                assert_eq!(server.is_some(), comes, "{client:?}");
                assert_eq!(pair.stacks[0].counters().hops_min_drops > 0, !comes);
                if let Some(server) = server {
                    pair.stacks[1].set_hops(pair.now, conn, |hops| hops.sent = 254);
                    pair.stacks[1].send(pair.now, conn, b"from afar").unwrap();
                    pair.pass();
                    assert_eq!(pair.stacks[0].received(server), b"");
                    assert!(pair.stacks[0].counters().hops_min_drops > 0);
                    pair.stacks[0].set_hops(pair.now, server, |hops| hops.received_min = 254);
                    for _ in 0..10 {
                        pair.pass();
                    }
                    assert_eq!(pair.stacks[0].received(server), b"from afar");
                }
            }
            let mut pair = Pair::new(cookies, [HopLimits::default(); 2]);
            assert_eq!(pair.connect(to, near).0, None, "the answer to the SYN came from afar");
            assert!(pair.stacks[1].counters().hops_min_drops > 0);
        }
    }
}
