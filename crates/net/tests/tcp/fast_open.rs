//! Tests of TCP Fast Open: data in the SYN of a client with a cookie (RFC 7413).

//~ tcp: Fast Open works on both sides and is off by default (RFC 7413)

use net::stack::{CloseReason, Config, ListenOptions};
use net::{ConnId, EventKind};
use queueing::Span;
use wire::tcp::{FastOpen, Flags, Options, Seq};

use crate::peer::{Peer, Seg};
use crate::world::{Faults, World, config};

/// Server with Fast Open on port 81, and the cookie that the peer received from it.
fn server(fast_open: usize) -> (Peer, FastOpen) {
    let mut peer = Peer::new(config(1));
    peer.stack.listen(81, ListenOptions { fast_open, ..ListenOptions::default() }).unwrap();
    let answer = peer.exchange(syn(&peer, 2000, FastOpen::REQUEST, b""));
    let cookie = answer[0].options.fast_open.expect("a cookie was requested");
    assert_eq!(cookie.as_slice().len(), 8);
    let reset = Seg { from: 2000, to: 81, seq: peer.seq + 1, ..peer.seg(Flags::RST) };
    peer.exchange(reset);
    (peer, cookie)
}

fn syn(peer: &Peer, from: u16, cookie: FastOpen, payload: &[u8]) -> Seg {
    let options = Options { mss: Some(1000), fast_open: Some(cookie), ..Options::NONE };
    Seg { from, to: 81, options, payload: payload.to_vec(), ..peer.seg(Flags::SYN) }
}

#[test]
fn data_with_a_valid_cookie_is_delivered_and_answered_before_the_handshake_ends() {
    let (mut peer, cookie) = server(10);
    let answer = peer.exchange(syn(&peer, 3000, cookie, b"question"));
    assert_eq!((answer[0].flags, answer[0].ack), (Flags::SYN | Flags::ACK, peer.seq + 9));
    assert_eq!(answer[0].options.fast_open, None, "the cookie is still the current one");
    assert!(matches!(peer.kinds()[..], [EventKind::Accepted(_), EventKind::Readable { fresh: 8 }]));
    let conn = peer.events[0].conn;
    assert_eq!(peer.stack.received(conn), b"question");
    peer.stack.send(peer.now, conn, b"answer").unwrap();
    let data = peer.receive();
    assert_eq!((data[0].seq, &data[0].payload[..]), (answer[0].seq + 1, &b"answer"[..]));
    // The final ACK of the handshake also acknowledges the first data.
    peer.seq += 9;
    peer.ack = answer[0].seq + 7;
    peer.exchange(Seg { from: 3000, to: 81, ..peer.seg(Flags::ACK) });
    peer.exchange(Seg { from: 3000, to: 81, flags: Flags::ACK | Flags::FIN, ..peer.data(0, b"bye") });
    assert_eq!(peer.stack.received(conn), b"questionbye");
    assert_eq!(peer.kinds().last(), Some(&EventKind::PeerClosed));
    assert_eq!((peer.stack.counters().retransmissions, peer.stack.buffer_bytes() > 0), (0, true));
}

#[test]
fn response_before_the_handshake_is_retransmitted_until_it_arrives() {
    let (mut peer, cookie) = server(10);
    let answer = peer.exchange(syn(&peer, 3000, cookie, b"question"));
    let conn = peer.events[0].conn;
    peer.stack.send(peer.now, conn, b"answer").unwrap();
    peer.receive();
    let again = peer.wait();
    assert_eq!((again[0].flags, again[0].seq), (Flags::SYN | Flags::ACK, answer[0].seq));
    // The peer received only the SYN-ACK.
    peer.seq += 9;
    peer.ack = answer[0].seq + 1;
    let mut received = peer.exchange(Seg { from: 3000, to: 81, ..peer.seg(Flags::ACK) });
    for _ in 0..3 {
        received.extend(peer.wait());
    }
    assert!(received.iter().any(|s| s.payload == b"answer" && s.seq == peer.ack), "{received:?}");
}

#[test]
fn data_without_a_valid_cookie_waits_for_the_handshake() {
    let (mut peer, cookie) = server(10);
    let wrong = FastOpen::new(&[9; 8]).unwrap();
    let answer = peer.exchange(syn(&peer, 3000, wrong, b"question"));
    assert_eq!((answer[0].ack, answer[0].options.fast_open), (peer.seq + 1, Some(cookie)));
    assert_eq!(peer.kinds(), []);
    peer.seq += 1;
    peer.ack = answer[0].seq + 1;
    peer.exchange(Seg { from: 3000, to: 81, ..peer.data(0, b"question") });
    assert_eq!(peer.stack.received(peer.events[0].conn), b"question", "once");
    // A listener without Fast Open ignores cookies.
    let plain = Seg { to: 80, ..syn(&peer, 3001, cookie, b"question") };
    let answer = peer.exchange(plain);
    assert_eq!((answer[0].ack, answer[0].options.fast_open), (peer.seq + 1, None));
}

#[test]
fn repeated_syn_delivers_its_data_once() {
    let (mut peer, cookie) = server(10);
    let first = syn(&peer, 3000, cookie, b"question");
    let answer = peer.exchange(first.clone());
    let again = peer.exchange(first);
    assert_eq!((again[0].flags, again[0].ack), (Flags::SYN | Flags::ACK, answer[0].ack));
    assert_eq!(peer.stack.received(peer.events[0].conn), b"question");
    assert_eq!(peer.kinds().len(), 2);
}

#[test]
fn early_data_is_bounded_and_freed_when_handshakes_end() {
    let (mut peer, cookie) = server(3);
    let accepted = |answers: &[Seg], peer: &Peer| answers[0].ack == peer.seq + 9;
    let mut answers = Vec::new();
    for port in 3000..3010 {
        answers.extend(peer.exchange(syn(&peer, port, cookie, b"question")));
    }
    assert_eq!(answers.iter().filter(|a| a.ack == peer.seq + 9).count(), 3);
    assert_eq!(peer.stack.counters().fast_opens, 3);
    // One handshake completes, one is reset, one times out.
    let seq = peer.seq;
    peer.exchange(Seg { from: 3000, to: 81, seq: seq + 9, ack: answers[0].seq + 1, ..peer.seg(Flags::ACK) });
    peer.exchange(Seg { from: 3001, to: 81, seq: seq + 9, ..peer.seg(Flags::RST) });
    assert_eq!(peer.closed(), [CloseReason::Reset], "the application had seen it");
    for port in [3020, 3021] {
        let answer = peer.exchange(syn(&peer, port, cookie, b"question"));
        assert!(accepted(&answer, &peer));
    }
    let answer = peer.exchange(syn(&peer, 3022, cookie, b"question"));
    assert!(!accepted(&answer, &peer), "three handshakes are pending");
    let start = peer.now;
    while peer.now.since(start) < Span::from_secs(70) && peer.stack.connections() > 1 {
        peer.wait();
    }
    let answer = peer.exchange(syn(&peer, 3023, cookie, b"question"));
    assert!(accepted(&answer, &peer));
}

#[test]
fn older_cookie_is_valid_for_one_more_hour_and_is_replaced_by_a_newer() {
    let (mut peer, cookie) = server(10);
    peer.pass(Span::from_secs(3600));
    let answer = peer.exchange(syn(&peer, 3000, cookie, b"question"));
    assert_eq!(answer[0].ack, peer.seq + 9);
    assert!(answer[0].options.fast_open.is_some_and(|newer| newer != cookie));
    peer.pass(Span::from_secs(3600));
    let answer = peer.exchange(syn(&peer, 3001, cookie, b"question"));
    assert_eq!(answer[0].ack, peer.seq + 1);
}

/// Client with a cookie cache, and the connection that it opens with `data`.
fn client(peer: &mut Peer, data: &[u8]) -> (ConnId, Seg) {
    let remote = "10.0.0.2:7".parse().unwrap();
    let (conn, accepted) = peer.stack.connect_with(peer.now, remote, None, data).unwrap();
    assert_eq!(accepted, data.len());
    (conn, peer.receive().remove(0))
}

/// SYN-ACK for `syn` that accepts `bytes` of its data.
fn accept(peer: &mut Peer, syn: &Seg, bytes: u32, cookie: Option<FastOpen>) -> Vec<Seg> {
    let options = Options { mss: Some(1000), fast_open: cookie, ..Options::NONE };
    let flags = Flags::SYN | Flags::ACK;
    let ack = syn.seq + 1 + bytes;
    peer.exchange(Seg { from: 7, to: syn.from, seq: Seq(77), ack, options, ..peer.seg(flags) })
}

#[test]
fn client_requests_a_cookie_and_then_sends_data_with_the_syn() {
    let mut peer = Peer::new(Config { fast_open_cookies: 4, ..config(1) });
    let (_, first) = client(&mut peer, b"question");
    assert_eq!((first.options.fast_open, first.payload.len()), (Some(FastOpen::REQUEST), 0));
    let cookie = FastOpen::new(b"a cookie").unwrap();
    let received = accept(&mut peer, &first, 0, Some(cookie));
    assert_eq!(received.iter().map(|s| s.payload.len()).sum::<usize>(), 8, "after the handshake");

    let (conn, second) = client(&mut peer, b"question");
    assert_eq!((second.flags, second.options.fast_open), (Flags::SYN, Some(cookie)));
    assert_eq!(second.payload, b"question");
    let received = accept(&mut peer, &second, 8, None);
    assert!(received.iter().all(|s| s.payload.is_empty() && s.seq == second.seq + 9), "{received:?}");
    assert_eq!(peer.stack.flow(conn).unwrap().sent.get(), 8);
    assert_eq!(peer.stack.fast_open_cookies(), 1, "the server accepted the data: the cookie is kept");

    // Rejected data is retransmitted at once; the cookie is dropped.
    let (_, third) = client(&mut peer, b"question");
    let received = accept(&mut peer, &third, 0, None);
    assert!(received.iter().any(|s| s.payload == b"question" && s.seq == third.seq + 1));
    assert_eq!(peer.stack.fast_open_cookies(), 0);
}

#[test]
fn unanswered_syn_is_retransmitted_without_data() {
    let mut peer = Peer::new(Config { fast_open_cookies: 4, ..config(1) });
    let (_, first) = client(&mut peer, b"");
    accept(&mut peer, &first, 0, FastOpen::new(b"a cookie"));
    let (_, second) = client(&mut peer, &[1; 5000]);
    assert_eq!(second.payload.len(), 960, "the server's MSS, less options");
    let again = peer.wait();
    assert_eq!((again[0].flags, again[0].options.fast_open, again[0].payload.len()), (Flags::SYN, None, 0));
    // The first answer arrives late and counts.
    let received = accept(&mut peer, &second, 960, None);
    let data: Vec<&Seg> = received.iter().filter(|s| !s.payload.is_empty()).collect();
    assert_eq!(data[0].seq, second.seq + 961);
}

#[test]
fn without_a_cookie_cache_no_cookie_is_requested() {
    let mut peer = Peer::new(config(1));
    let (_, syn) = client(&mut peer, b"question");
    assert_eq!((syn.options.fast_open, syn.payload.len()), (None, 0));
}

#[test]
fn two_stacks_need_one_round_trip_the_second_time() {
    let configs = [config(1), Config { fast_open_cookies: 4, ..config(2) }];
    let mut world = World::new(configs, Faults::default(), 1);
    world.stacks[0].listen(80, ListenOptions { fast_open: 10, ..ListenOptions::default() }).unwrap();
    let mut round_trips = || {
        let remote = "10.0.0.1:80".parse().unwrap();
        let start = world.now;
        let (client, _) = world.stacks[1].connect_with(world.now, remote, None, b"question").unwrap();
        while world.stacks[1].received(client).is_empty() {
            while let Some(event) = world.stacks[0].poll_event() {
                if matches!(event.kind, EventKind::Readable { .. }) {
                    world.stacks[0].send(world.now, event.conn, b"answer").unwrap();
                }
            }
            assert!(world.step());
        }
        world.run_for(Span::from_millis(1));
        world.now.since(start + Span::from_millis(1)).as_nanos() / 100_000
    };
    // The first connection also resolves hardware addresses.
    let (_, second, third) = (round_trips(), round_trips(), round_trips());
    assert_eq!((second, third), (1, 1));
}
