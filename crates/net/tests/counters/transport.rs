//! Inputs for the counters of TCP.

use std::sync::Arc;

use classify::{PacketMeta, Verdict};
use net::ConnId;
use net::congestion::NewReno;
use net::stack::{Config, Counters, Ecn, HopLimits, KeepAlive, ListenOptions, SynCookies};
use queueing::Span;
use wire::tcp::{FastOpen, Flags, Options, SackBlocks, Timestamps};

use crate::Case;
use crate::peer::{Peer, Seg, frame};
use crate::world::config;

const PLAIN: Options = Options { mss: Some(1000), ..Options::NONE };
const SACK: Options = Options { sack_permitted: true, ..PLAIN };
const RTT: Span = Span::from_millis(20);

pub const CASES: &[Case] = &[
    (&["frames_received", "frames_sent", "accepted"], || counted(&Peer::established().0)),
    (&["no_listener", "refusals"], || after(|peer| Seg { to: 81, ..peer.seg(Flags::SYN) })),
    (&["no_connection"], || after(|peer| Seg { from: 999, ..peer.seg(Flags::ACK) })),
    (&["resets_received"], || after(|peer| peer.seg(Flags::RST))),
    (&["bad_acks"], || after(|peer| Seg { ack: peer.ack + 1_000_000, ..peer.seg(Flags::ACK) })),
    (&["out_of_window"], || after(|peer| peer.data(1_000_000, b"x"))),
    (&["challenge_acks"], || after(|peer| peer.seg(Flags::SYN))),
    (&["out_of_order"], || after(|peer| peer.data(10, b"x"))),
    (&["resets"], resets),
    (&["duplicates"], || twice(|peer| peer.data(0, b"x"))),
    (&["duplicates"], || twice(|peer| peer.data(10, b"early"))),
    (&["answers_withheld"], answers_withheld),
    (&["hops_min_drops"], hops_min_drops),
    (&["replies_dropped"], replies_dropped),
    (&["backlog_drops"], || {
        syns(SynCookies::Off, ListenOptions { half_open: 1, ..ListenOptions::default() })
    }),
    (&["cookies_sent"], || syns(SynCookies::Always, ListenOptions::default())),
    (&["cookies_accepted"], || {
        let config = Config { syn_cookies: SynCookies::Always, ..config(1) };
        counted(&Peer::established_with(config, PLAIN).0)
    }),
    (&["cookies_refused"], cookies_refused),
    (&["accept_drops"], accept_drops),
    (&["connections_max_drops"], connections_max_drops),
    (&["fast_opens", "accepted"], fast_opens),
    (&["time_wait_reused", "time_wait_resets"], time_wait),
    (&["fin_wait_timeouts"], fin_wait_timeouts),
    (&["delayed_acks"], delayed_acks),
    (&["paws"], paws),
    (&["memory_refusals"], memory_refusals),
    (&["memory_drops"], memory_drops),
    (&["retransmissions", "timeouts"], timeouts),
    (&["tail_probes", "fast_retransmits"], tail_probes),
    (&["duplicates_reported", "recoveries_undone"], undone),
    (&["probes"], probes),
    (&["marks_received", "ecn_reductions"], marks),
    (&["classifier_drops"], || classified(|| Verdict::Drop)),
    (&["classifier_out_of_range"], || classified(|| Verdict::Level(8))),
    (&["classifier_panics"], || classified(|| panic!("a classifier of this test"))),
];

fn counted(peer: &Peer) -> Counters {
    *peer.stack.counters()
}

/// Counters after one segment for an open connection.
fn after(segment: impl Fn(&Peer) -> Seg) -> Counters {
    let (mut peer, _) = Peer::established();
    peer.exchange(segment(&peer));
    counted(&peer)
}

/// Counters after the same segment twice.
fn twice(segment: impl Fn(&Peer) -> Seg) -> Counters {
    let (mut peer, _) = Peer::established();
    let segment = segment(&peer);
    peer.exchange(segment.clone());
    peer.exchange(segment);
    counted(&peer)
}

/// Connection to which `n` segments were sent one round-trip time ago.
fn flight(config: Config, options: Options, n: usize) -> (Peer, ConnId, Vec<Seg>) {
    let (mut peer, conn) = Peer::established_with(config, options);
    peer.pass(RTT);
    peer.stack.send(peer.now, conn, &vec![7; 1000 * n]).unwrap();
    let sent = peer.receive();
    peer.pass(RTT);
    (peer, conn, sent)
}

fn resets() -> Counters {
    let (mut peer, conn) = Peer::established();
    peer.stack.abort(peer.now, conn);
    peer.receive();
    counted(&peer)
}

fn answers_withheld() -> Counters {
    let (mut peer, _) = Peer::established();
    for i in 0..100 {
        peer.exchange(Seg { seq: peer.seq + 1_000_000 + i, ..peer.seg(Flags::ACK) });
    }
    counted(&peer)
}

fn hops_min_drops() -> Counters {
    let (mut peer, conn) = Peer::established();
    peer.stack.set_hops(peer.now, conn, |hops| *hops = HopLimits { received_min: 255, ..*hops });
    peer.exchange(peer.data(0, b"x"));
    counted(&peer)
}

fn replies_dropped() -> Counters {
    let mut peer = Peer::new(config(1));
    for from in 0..300 {
        peer.inject(&Seg { from: 1000 + from, to: 81, ..peer.seg(Flags::SYN) });
    }
    counted(&peer)
}

/// Counters after two SYNs for a listener.
fn syns(syn_cookies: SynCookies, options: ListenOptions) -> Counters {
    let mut peer = Peer::new(Config { syn_cookies, ..config(1) });
    peer.stack.listen(81, options).unwrap();
    for from in [2000, 2001] {
        peer.exchange(Seg { from, to: 81, options: PLAIN, ..peer.seg(Flags::SYN) });
    }
    counted(&peer)
}

fn cookies_refused() -> Counters {
    let mut peer = Peer::new(Config { syn_cookies: SynCookies::Always, ..config(1) });
    peer.exchange(Seg { options: PLAIN, ..peer.seg(Flags::SYN) });
    peer.exchange(Seg { ack: peer.seq + 77, ..peer.seg(Flags::ACK) });
    counted(&peer)
}

fn accept_drops() -> Counters {
    let mut peer = Peer::new(config(1));
    peer.stack.listen(81, ListenOptions { backlog: 1, half_open: 9, ..ListenOptions::default() }).unwrap();
    // The owner does not poll, so it accepts nothing.
    let inject = |peer: &mut Peer, s: &Seg| {
        let frame = frame(s);
        peer.stack.ingress(peer.now, &frame, &PacketMeta::new(peer.now, frame.len()));
    };
    for from in [2000, 2001] {
        let syn = Seg { from, to: 81, options: PLAIN, ..peer.seg(Flags::SYN) };
        inject(&mut peer, &syn);
        let answers = crate::world::sent(&mut peer.stack, peer.now);
        let Some(answer) = answers.first() else { continue };
        let ack = u32::from_be_bytes(answer[14 + 20 + 4..][..4].try_into().unwrap());
        let (seq, ack) = (peer.seq + 1, wire::tcp::Seq(ack) + 1);
        let last = Seg { from, to: 81, seq, ack, ..peer.seg(Flags::ACK) };
        inject(&mut peer, &last);
    }
    counted(&peer)
}

fn connections_max_drops() -> Counters {
    let (mut peer, _) = Peer::established_with(Config { connections_max: 1, ..config(1) }, PLAIN);
    peer.exchange(Seg { from: 999, options: PLAIN, ..peer.seg(Flags::SYN) });
    counted(&peer)
}

fn fast_opens() -> Counters {
    let mut peer = Peer::new(config(1));
    peer.stack.listen(81, ListenOptions { fast_open: 8, ..ListenOptions::default() }).unwrap();
    let syn = |peer: &Peer, from, cookie, payload: &[u8]| {
        let options = Options { fast_open: Some(cookie), ..PLAIN };
        Seg { from, to: 81, options, payload: payload.to_vec(), ..peer.seg(Flags::SYN) }
    };
    let requests = syn(&peer, 2000, FastOpen::REQUEST, b"");
    let cookie = peer.exchange(requests)[0].options.fast_open.expect("a cookie");
    let brings = syn(&peer, 3000, cookie, b"question");
    peer.exchange(brings);
    counted(&peer)
}

fn time_wait() -> Counters {
    let (mut peer, conn) = Peer::established();
    peer.stack.close(peer.now, conn);
    peer.receive();
    peer.ack += 1;
    peer.exchange(peer.seg(Flags::FIN | Flags::ACK));
    peer.seq += 1;
    peer.exchange(peer.seg(Flags::RST));
    peer.seq += 1000;
    peer.pass(Span::from_millis(1));
    peer.open(Options::NONE);
    counted(&peer)
}

fn fin_wait_timeouts() -> Counters {
    let (mut peer, conn) = Peer::established();
    peer.stack.detach(peer.now, conn);
    peer.receive();
    peer.ack += 1;
    peer.exchange(peer.seg(Flags::ACK));
    for _ in 0..1000 {
        if peer.stack.connections() == 0 {
            break;
        }
        for _ in peer.wait() {
            peer.exchange(peer.seg(Flags::ACK));
        }
    }
    counted(&peer)
}

fn delayed_acks() -> Counters {
    let delayed_ack = Some(Span::from_millis(40));
    let (mut peer, conn) = Peer::established_with(Config { delayed_ack, ..config(1) }, PLAIN);
    // No delayed ACKs at the start.
    for _ in 0..17 {
        peer.exchange(peer.data(0, &[1; 1000]));
        peer.seq += 1000;
        peer.stack.consume(peer.now, conn, 1000);
    }
    peer.wait();
    counted(&peer)
}

fn paws() -> Counters {
    let stamp = |value| Options { timestamps: Some(Timestamps { value, echo: 0 }), ..PLAIN };
    let (mut peer, _) = Peer::established_with(config(1), stamp(10));
    let options = Options { mss: None, ..stamp(9) };
    peer.exchange(Seg { options, ..peer.data(0, b"old") });
    counted(&peer)
}

fn memory_refusals() -> Counters {
    let (mut peer, conn) = Peer::established_with(Config { memory_max: 12_000, ..config(1) }, PLAIN);
    let accepted = peer.stack.send(peer.now, conn, &[0; 64 * 1024]).unwrap();
    assert!(accepted < 12_000);
    counted(&peer)
}

fn memory_drops() -> Counters {
    let (mut peer, _) = Peer::established_with(Config { memory_max: 12_000, ..config(1) }, PLAIN);
    for i in 0..60 {
        let data = peer.data(i * 1000, &[0; 1000]);
        peer.inject(&data);
    }
    counted(&peer)
}

fn timeouts() -> Counters {
    let (mut peer, _, _) = flight(Config { rack: false, ..config(1) }, PLAIN, 1);
    peer.wait();
    counted(&peer)
}

/// Loss of the tail.
fn tail_probes() -> Counters {
    let (mut peer, _, sent) = flight(config(1), SACK, 5);
    peer.ack = sent[3].seq;
    peer.exchange(peer.seg(Flags::ACK));
    peer.wait();
    peer.pass(RTT);
    let sack: SackBlocks = [(sent[4].seq, sent[4].seq + 1000)].into_iter().collect();
    peer.exchange(Seg { options: Options { sack, ..Options::NONE }, ..peer.seg(Flags::ACK) });
    counted(&peer)
}

/// The first segment was late, not lost, and the peer reports a duplicate.
fn undone() -> Counters {
    let (mut peer, _, sent) = flight(Config { rack: false, ..config(1) }, SACK, 8);
    for n in 2..=4 {
        let sack: SackBlocks = [(sent[1].seq, sent[n].seq)].into_iter().collect();
        peer.exchange(Seg { options: Options { sack, ..Options::NONE }, ..peer.seg(Flags::ACK) });
    }
    peer.pass(RTT);
    peer.ack = sent[7].seq + 1000;
    peer.exchange(peer.seg(Flags::ACK));
    let sack: SackBlocks = [(sent[0].seq, sent[0].seq + 1000)].into_iter().collect();
    peer.exchange(Seg { options: Options { sack, ..Options::NONE }, ..peer.seg(Flags::ACK) });
    counted(&peer)
}

fn probes() -> Counters {
    let (mut peer, conn) = Peer::established();
    let requested = KeepAlive { idle: Span::from_secs(1), interval: Span::from_secs(1), count: 5 };
    peer.stack.set_keep_alive(peer.now, conn, Some(requested));
    peer.wait();
    counted(&peer)
}

/// Congestion marks in both directions.
fn marks() -> Counters {
    let congestion: fn(u16) -> _ = |mss| Box::new(NewReno::new(mss)) as _;
    let mut peer = Peer::new(Config { ecn: Ecn::Classic, congestion: Some(congestion), ..config(1) });
    let requests = Flags::SYN | Flags::ECE | Flags::CWR;
    let answer = peer.exchange(Seg { options: PLAIN, ack: wire::tcp::Seq(0), ..peer.seg(requests) });
    peer.seq += 1;
    peer.ack = answer[0].seq + 1;
    peer.exchange(peer.seg(Flags::ACK));
    let conn = peer.events[0].conn;
    peer.exchange(Seg { ecn: 3, ..peer.data(0, b"x") });
    peer.seq += 1;
    peer.stack.send(peer.now, conn, &[1; 4000]).unwrap();
    peer.receive();
    peer.ack += 1000;
    peer.exchange(peer.seg(Flags::ACK | Flags::ECE));
    counted(&peer)
}

fn classified(verdict: fn() -> Verdict) -> Counters {
    let classifier = Some(Arc::new(move |_: &mut classify::FlowContext<'_>| verdict()) as _);
    let (mut peer, _) = Peer::established_with(Config { classifier, ..config(1) }, PLAIN);
    peer.exchange(peer.data(0, b"x"));
    counted(&peer)
}
