//! Tests of an off-path attacker that knows the addresses and ports.
//!
//! Bounds: of 100,000 blind resets, SYNs, FINs and data segments with guessed numbers none ends the
//! connection or injects a byte. The victim answers at most 4 of those without data per half
//! second. One guess in 65,536 is within 64 KiB of a sequence number.

//~ tcp: blind RST, SYN and data change nothing (RFC 5961)
//~ attacks: blind RST, SYN, FIN and data end and change no connection

use net::ConnId;
use queueing::Span;
use wire::tcp::{Flags, Options, Seq};

use crate::peer::{Peer, Seg};
use crate::world::{Dice, config};

/// Sends `n` segments from `make` over 10 s; returns the number of answers.
fn guess(n: u64, mut make: impl FnMut(&Peer, &mut Dice) -> Seg) -> (Peer, ConnId, u64) {
    let (mut peer, conn) = Peer::established_with(config(1), Options { mss: Some(1000), ..Options::NONE });
    let (mut dice, mut answers) = (Dice(3), 0);
    for _ in 0..n {
        let s = make(&peer, &mut dice);
        answers += peer.exchange(s).len() as u64;
        peer.pass(Span::from_nanos(10_000_000_000 / n));
    }
    assert_eq!((peer.closed(), peer.stack.connections()), (vec![], 1));
    // Both streams continue.
    let data = peer.data(0, b"still here");
    let ack = peer.exchange(data).pop().expect("an answer").ack;
    assert_eq!((ack, peer.stack.received(conn)), (peer.seq + 10, &b"still here"[..]));
    peer.stack.send(peer.now, conn, b"and so are we").unwrap();
    assert_eq!(peer.receive()[0].payload, b"and so are we");
    (peer, conn, answers)
}

#[test]
fn blind_resets_syns_and_fins_end_nothing() {
    for flags in [Flags::RST, Flags::RST | Flags::ACK, Flags::SYN, Flags::FIN | Flags::ACK] {
        let (peer, _, answers) = guess(100_000, |peer, dice| {
            let ack = Seq(dice.roll() as u32);
            Seg { seq: Seq(dice.roll() as u32), ack, ..peer.seg(flags) }
        });
        assert!(answers <= 4 * 21, "{flags:?}: {answers} answers in 10 s");
        assert!(peer.stack.counters().challenge_acks <= 4 * 21);
    }
}

#[test]
fn reset_within_the_window_is_not_enough() {
    // The best wrong guesses: every number in the window but the right one.
    let (peer, _, answers) = guess(60_000, |peer, dice| {
        let offset = 1 + dice.below(60_000) as u32;
        Seg { seq: peer.seq + offset, ..peer.seg(Flags::RST) }
    });
    assert!(answers <= 4 * 21 && answers == peer.stack.counters().challenge_acks, "{answers} answers");
}

#[test]
fn data_within_the_window_needs_an_acknowledgement_within_ours() {
    let (peer, _, _) = guess(20_000, |peer, dice| {
        // The right sequence number with an invalid acknowledgement: 2^32 less the largest window
        // that the peer ever offered.
        let span = (1_u64 << 32) - 2 * u64::from(peer.window);
        let ack = peer.ack + u32::from(peer.window) + dice.below(span) as u32;
        Seg { ack, ..peer.data(0, b"injected") }
    });
    assert!(peer.stack.counters().bad_acks >= 20_000);
}

#[test]
fn injected_data_beyond_the_window_is_not_kept() {
    let (peer, _, answers) = guess(20_000, |peer, dice| {
        let offset = (1 << 20) + dice.below((1 << 31) - (1 << 21)) as u32;
        peer.data(offset, b"injected")
    });
    // Data is always answered, but with at most one segment each.
    assert!(answers <= 20_000 && peer.stack.buffer_bytes() <= 2048 * 64);
}

//~ attacks: sequence numbers of other tuples cannot be predicted
#[test]
fn sequence_numbers_of_other_tuples_cannot_be_foreseen() {
    // The attacker sees the numbers of its own connections and predicts those of a neighbour's; the
    // best prediction is that they are equal.
    let mut peer = Peer::new(config(1));
    let mut number = |port: u16| {
        peer.port = port;
        let number = peer.exchange(peer.seg(Flags::SYN))[0].seq;
        let reset = Seg { seq: peer.seq + 1, ..peer.seg(Flags::RST) };
        peer.exchange(reset);
        number
    };
    let numbers: Vec<Seq> = (1024..21_024).map(&mut number).collect();
    let near = |a: Seq, b: Seq| a.distance(b).unsigned_abs() < 1 << 15;
    let by_last = numbers.windows(2).filter(|w| near(w[0], w[1])).count();
    let by_step = numbers.windows(3).filter(|w| near(w[1] + (w[1] - w[0]), w[2])).count();
    println!("of 20,000 numbers {by_last} and {by_step} were guessed within 64 KiB");
    // 20,000 / 65,536 are expected by chance.
    assert!(by_last <= 3 && by_step <= 3, "{by_last} {by_step}");
    // All bits vary: each is set in half of the numbers.
    for bit in 0..32 {
        let set = numbers.iter().filter(|n| n.0 >> bit & 1 == 1).count();
        assert!((9_500..10_500).contains(&set), "bit {bit} is set in {set}");
    }
}
