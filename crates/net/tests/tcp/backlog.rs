//! Tests of listener bounds: SYN cookies, half-open connections and connections never accepted.

//~ tcp: SYN cookies replace a full SYN queue and keep options; the accept queue has its own bound (RFC 4987)

use net::EventKind;
use net::stack::{Config, ListenOptions, SynCookies};
use queueing::Span;
use wire::tcp::{Flags, Options, Timestamps};

use crate::peer::{Peer, Seg};
use crate::world::{World, config};

/// Peer of a stack that answers every SYN with a cookie.
fn peer_of_cookies() -> Peer {
    Peer::new(Config { syn_cookies: SynCookies::Always, ..config(1) })
}

fn stamps(value: u32, echo: u32) -> Option<Timestamps> {
    Some(Timestamps { value, echo })
}

/// All options that a SYN of Linux offers.
fn all(value: u32) -> Options {
    Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: stamps(value, 0),
        ..Options::NONE
    }
}

/// Acknowledgement of the SYN-ACK `answer`, with `payload`.
fn last(peer: &mut Peer, answer: &Seg, payload: &[u8]) -> Seg {
    peer.seq += 1;
    peer.ack = answer.seq + 1;
    let options = match answer.options.timestamps {
        Some(t) => Options { timestamps: stamps(t.echo + 1, t.value), ..Options::NONE },
        None => Options::NONE,
    };
    Seg { options, ..peer.data(0, payload) }
}

#[test]
fn a_cookie_keeps_no_state_until_it_is_acknowledged() {
    let mut peer = peer_of_cookies();
    let before = peer.stack.poll_timeout();
    let answer = peer.exchange(Seg { options: all(9), ..peer.seg(Flags::SYN) }).remove(0);
    assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, peer.seq + 1));
    assert_eq!((peer.stack.connections(), peer.stack.poll_timeout()), (0, before));
    let again = peer.exchange(Seg { options: all(9), ..peer.seg(Flags::SYN) }).remove(0);
    assert_eq!(again.seq, answer.seq, "the same SYN gets the same cookie");

    let ack = last(&mut peer, &answer, b"hello");
    let received = peer.exchange(ack);
    assert_eq!(received.last().map(|s| s.ack), Some(peer.seq + 5), "its data is accepted at once");
    let conn = peer.events[0].conn;
    assert!(matches!(peer.kinds()[..], [EventKind::Accepted(_), EventKind::Readable { fresh: 5 }]));
    assert_eq!(peer.stack.received(conn), b"hello");
    let counters = peer.stack.counters();
    assert_eq!((counters.cookies_sent, counters.cookies_accepted, counters.cookies_refused), (2, 1, 0));
}

#[test]
fn cookie_keeps_options_in_the_timestamp() {
    let mut peer = peer_of_cookies();
    peer.window = 1000;
    let answer = peer.exchange(Seg { options: all(9), ..peer.seg(Flags::SYN) }).remove(0);
    assert!(answer.options.window_scale.is_some() && answer.options.sack_permitted);
    let ack = last(&mut peer, &answer, b"");
    peer.exchange(ack);
    let conn = peer.events[0].conn;
    // The peer's window is 1000 << 7; a segment is 1460 less the timestamps.
    assert_eq!(peer.stack.send(peer.now, conn, &[1; 20_000]), Ok(20_000));
    let received = peer.receive();
    assert_eq!(received[0].payload.len(), 1448);
    assert!(received.iter().map(|s| s.payload.len()).sum::<usize>() > 1000);
    assert!(received.iter().all(|s| {
        let [cookie, now] = [&answer, s].map(|s| s.options.timestamps.expect("both have them").value);
        now.wrapping_sub(cookie) < 64
    }));
    // Out-of-order data is reported (SACK).
    let options =
        Options { timestamps: stamps(11, received[0].options.timestamps.unwrap().value), ..Options::NONE };
    let early = Seg { options, ..peer.data(100, b"early") };
    assert_eq!(peer.exchange(early)[0].options.sack.as_slice(), [(peer.seq + 100, peer.seq + 105)]);
}

#[test]
fn cookie_keeps_the_ecn_negotiation() {
    let cookies = Config { syn_cookies: SynCookies::Always, ecn: net::stack::Ecn::Classic, ..config(1) };
    let request = Flags::SYN | Flags::ECE | Flags::CWR;
    let mut peer = Peer::new(cookies);
    let answer = peer.exchange(Seg { options: all(9), ..peer.seg(request) }).remove(0);
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK | Flags::ECE);
    let ack = last(&mut peer, &answer, b"hello");
    peer.exchange(ack);
    let conn = peer.events[0].conn;
    peer.stack.send(peer.now, conn, b"marked").unwrap();
    let frames = crate::world::sent(&mut peer.stack, peer.now);
    assert_eq!(frames[0][15] & 3, 2, "ECT(0)");
    // Without timestamps the cookie cannot encode the option: it is not negotiated.
    peer.port = 5001;
    let answer = peer.exchange(peer.seg(request)).remove(0);
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
}

#[test]
fn peer_without_timestamps_keeps_only_its_mss() {
    let mut peer = peer_of_cookies();
    let offer = Options { mss: Some(1300), window_scale: Some(7), sack_permitted: true, ..Options::NONE };
    let answer = peer.exchange(Seg { options: offer, ..peer.seg(Flags::SYN) }).remove(0);
    assert_eq!(answer.options, Options { mss: Some(1460), ..Options::NONE });
    let ack = last(&mut peer, &answer, b"");
    peer.exchange(ack);
    let conn = peer.events[0].conn;
    peer.stack.send(peer.now, conn, &[1; 5000]).unwrap();
    assert_eq!(peer.receive()[0].payload.len(), 1220, "the largest class that 1300 holds");
}

#[test]
fn cookie_opens_nothing_beyond_the_most_connections() {
    let mut peer = Peer::new(Config { syn_cookies: SynCookies::Always, connections_max: 1, ..config(1) });
    let (first, start) = (peer.exchange(peer.seg(Flags::SYN)).remove(0), peer.seq);
    peer.port = 5001;
    let second = peer.exchange(peer.seg(Flags::SYN)).remove(0);
    let ack = last(&mut peer, &second, b"");
    peer.exchange(ack);
    assert_eq!(peer.stack.connections(), 1);
    (peer.port, peer.seq) = (5000, start);
    let ack = last(&mut peer, &first, b"");
    assert!(peer.exchange(ack).is_empty(), "the peer retries, and the backlog may have space then");
    assert_eq!((peer.stack.connections(), peer.stack.counters().accept_drops), (1, 1));
}

#[test]
fn acknowledgements_are_not_checked_if_no_cookie_was_sent() {
    let mut peer = Peer::new(config(1));
    let received = peer.exchange(peer.seg(Flags::ACK));
    assert_eq!(received.iter().map(|s| s.flags).collect::<Vec<_>>(), [Flags::RST]);
    assert_eq!(peer.stack.counters().cookies_refused, 0);
}

#[test]
fn queued_cookies_leave_space_for_other_replies() {
    let mut peer = peer_of_cookies();
    for port in 1024..5024 {
        peer.port = port;
        peer.inject(&peer.seg(Flags::SYN));
    }
    peer.inject(&Seg { to: 81, ..peer.seg(Flags::SYN) });
    let received = peer.receive();
    let resets = received.iter().filter(|s| s.flags.contains(Flags::RST)).count();
    assert_eq!(resets, 1, "one reset beside {} cookies", received.len() - 1);
    assert_eq!(peer.stack.counters().replies_dropped, 4000 - (received.len() as u64 - 1));
}

#[test]
fn cookie_is_valid_for_a_minute() {
    for (secs, good) in [(60, true), (129, false)] {
        let mut peer = peer_of_cookies();
        let answer = peer.exchange(peer.seg(Flags::SYN)).remove(0);
        peer.pass(Span::from_secs(secs));
        // Another cookie, so that the stack still checks for them.
        peer.inject(&Seg { from: 6000, ..peer.seg(Flags::SYN) });
        peer.receive();
        let ack = last(&mut peer, &answer, b"");
        let received = peer.exchange(ack);
        assert_eq!(peer.stack.connections(), usize::from(good));
        let reset = received.iter().any(|s| s.flags == Flags::RST);
        assert_eq!((reset, peer.stack.counters().cookies_refused), (!good, u64::from(!good)));
    }
}

#[test]
fn wrong_number_is_refused() {
    let mut peer = peer_of_cookies();
    let answer = peer.exchange(peer.seg(Flags::SYN)).remove(0);
    let right = last(&mut peer, &answer, b"");
    for wrong in [Seg { ack: right.ack + 100, ..right.clone() }, Seg { seq: right.seq + 1, ..right.clone() }]
    {
        assert_eq!(peer.exchange(wrong)[0].flags, Flags::RST);
    }
    assert_eq!((peer.stack.connections(), peer.stack.counters().cookies_refused), (0, 2));
    peer.exchange(right);
    assert_eq!(peer.stack.connections(), 1, "the right one still completes");
}

#[test]
fn cookies_begin_at_the_bound_of_half_open_connections() {
    let mut peer = Peer::new(config(1));
    let options = ListenOptions { half_open: 3, ..ListenOptions::default() };
    peer.stack.listen(81, options).unwrap();
    let mut answers = Vec::new();
    for port in 0..10 {
        answers.extend(peer.exchange(Seg { from: 1000 + port, to: 81, ..peer.seg(Flags::SYN) }));
    }
    assert_eq!((answers.len(), peer.stack.connections(), peer.stack.counters().cookies_sent), (10, 3, 7));
    peer.seq += 1;
    for answer in answers {
        peer.exchange(Seg { from: answer.to, to: 81, ack: answer.seq + 1, ..peer.seg(Flags::ACK) });
    }
    let accepted = peer.kinds().iter().filter(|k| matches!(k, EventKind::Accepted(_))).count();
    assert_eq!((accepted, peer.stack.connections()), (10, 10), "all are accepted");
}

#[test]
fn full_accept_queue_drops_syns_and_last_acks_until_an_accept() {
    let mut peer = Peer::new(config(1));
    peer.stack.listen(81, ListenOptions { backlog: 2, half_open: 8, ..ListenOptions::default() }).unwrap();
    let syn = |peer: &Peer, port| Seg { from: port, to: 81, ..peer.seg(Flags::SYN) };
    let frames: Vec<_> = (1000..1003).map(|port| crate::peer::frame(&syn(&peer, port))).collect();
    let inject = |peer: &mut Peer, frame: &[u8]| {
        let meta = crate::world::meta(peer.now, frame);
        peer.stack.ingress(peer.now, frame, &meta);
    };
    frames.iter().for_each(|frame| inject(&mut peer, frame));
    let answers = peer.receive();
    peer.seq += 1;
    // The application polls no events meanwhile.
    let acks: Vec<_> = answers
        .iter()
        .map(|a| crate::peer::frame(&Seg { from: a.to, to: 81, ack: a.seq + 1, ..peer.seg(Flags::ACK) }))
        .collect();
    acks.iter().for_each(|frame| inject(&mut peer, frame));
    let late = crate::peer::frame(&syn(&peer, 1009));
    inject(&mut peer, &late);
    assert_eq!((peer.stack.connections(), peer.stack.counters().accept_drops), (3, 2));
    peer.receive();
    let accepted = |peer: &Peer| peer.kinds().iter().filter(|k| matches!(k, EventKind::Accepted(_))).count();
    assert_eq!(accepted(&peer), 2);
    // The third handshake is retried, and the backlog has space now.
    assert_eq!(peer.wait()[0].flags, Flags::SYN | Flags::ACK);
    inject(&mut peer, &acks[2]);
    peer.receive();
    assert_eq!(accepted(&peer), 3);
}

#[test]
fn two_stacks_talk_through_cookies() {
    let cookies = Config { syn_cookies: SynCookies::Always, ..config(1) };
    let mut world = World::new([cookies, config(2)], crate::world::Faults::default(), 1);
    let (server, client) = world.connect();
    let data: Vec<u8> = (0..200_000).map(|i| (i % 251) as u8).collect();
    let mut sent = 0;
    let mut got = Vec::new();
    world.run_until(100_000, |world| {
        sent += world.stacks[0].send(world.now, server, &data[sent..]).unwrap();
        got.extend_from_slice(world.stacks[1].received(client));
        world.stacks[1].consume(world.now, client, usize::MAX);
        got.len() == data.len()
    });
    assert_eq!(got, data);
    assert_eq!(world.stacks[0].counters().retransmissions, 0);
    assert_eq!(world.stacks[0].counters().cookies_accepted, 1);
}

#[test]
fn a_cookie_with_data_that_a_classifier_drops_is_not_half_open_for_ever() {
    let classifier: classify::TransportClassifier =
        std::sync::Arc::new(|_: &mut classify::FlowContext<'_>| classify::Verdict::Drop);
    let config = Config { syn_cookies: SynCookies::Always, classifier: Some(classifier), ..config(1) };
    let mut peer = Peer::new(config);
    let answer = peer.exchange(Seg { options: all(9), ..peer.seg(Flags::SYN) }).remove(0);
    let ack = last(&mut peer, &answer, b"unwanted");
    peer.exchange(ack);
    assert_eq!(peer.stack.connections(), 1, "the ACK may arrive again, with other data");
    for _ in 0..20 {
        peer.wait();
    }
    assert_eq!(peer.stack.connections(), 0);
}
