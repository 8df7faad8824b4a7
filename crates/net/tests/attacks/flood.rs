//! Tests of SYN floods.
//!
//! Bounds: a flood of ten backlogs per 100 ms (102,400 SYNs/s at a backlog of 1024) leaves
//! established traffic ≥ 90 % of its goodput and keeps ≤ 1024 half-open connections, and new
//! clients still connect.

//~ attacks: a SYN flood leaves 90 % of the goodput, and guessed cookies open nothing

use std::net::Ipv4Addr;

use net::stack::{Config, SynCookies};
use queueing::Span;
use wire::tcp::{Flags, Options, Seq, Timestamps};

use crate::peer::Seg;
use crate::wire::{Wire, frame_from};
use crate::world::{Dice, config};

const BACKLOG: u64 = 1024;
const SYNS_PER_SECOND: u64 = 10 * BACKLOG * 10;

/// SYN as Linux sends it, from a random address.
fn syn(dice: &mut Dice) -> Vec<u8> {
    let options = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: dice.roll() as u32, echo: 0 }),
        ..Options::NONE
    };
    let source = Ipv4Addr::from_bits(0x5000_0000 | dice.below(1 << 28) as u32);
    let s = Seg {
        from: 1024 + dice.below(60_000) as u16,
        to: 80,
        seq: Seq(dice.roll() as u32),
        ack: Seq(0),
        flags: Flags::SYN,
        window: 64_000,
        options,
        payload: Vec::new(),
        ecn: 0,
    };
    frame_from(source, &s)
}

/// Bytes that an established connection delivers in 300 ms during `per_second` SYNs/s.
fn goodput(config: Config, per_second: u64) -> (u64, Wire) {
    let (mut wire, mut dice) = (Wire::new(config), Dice(7));
    wire.connect();
    wire.run(Span::from_millis(100), 0, |_| Vec::new());
    assert_eq!(wire.connected, 1);
    let before = wire.read;
    wire.run(Span::from_millis(300), per_second, |_| syn(&mut dice));
    (wire.read - before, wire)
}

#[test]
fn established_traffic_keeps_nine_tenths_of_its_goodput() {
    let (quiet, _) = goodput(config(1), 0);
    assert!(quiet > 25_000_000, "the line is full without the flood: {quiet}");
    for cookies in [SynCookies::WhenFull, SynCookies::Off, SynCookies::Always] {
        let (flooded, wire) = goodput(Config { syn_cookies: cookies, ..config(1) }, SYNS_PER_SECOND);
        let kept = flooded * 100 / quiet;
        let counters = wire.victim.counters();
        println!("{cookies:?}: {kept} % of {quiet} bytes kept; {} cookies", counters.cookies_sent);
        assert!(kept >= 90, "{cookies:?}: {kept} %");
        assert!(wire.victim.connections() as u64 <= BACKLOG + 1);
        let seen = counters.cookies_sent + counters.backlog_drops + counters.replies_dropped + BACKLOG;
        assert!(seen >= SYNS_PER_SECOND * 3 / 10 * 9 / 10, "the flood reached the stack: {seen}");
    }
}

#[test]
fn new_clients_connect_during_a_flood() {
    let (mut wire, mut dice) = (Wire::new(config(1)), Dice(8));
    wire.run(Span::from_millis(50), SYNS_PER_SECOND, |_| syn(&mut dice));
    assert_eq!(wire.victim.connections() as u64, BACKLOG, "the backlog is full");
    for _ in 0..20 {
        wire.connect();
    }
    wire.run(Span::from_millis(100), SYNS_PER_SECOND, |_| syn(&mut dice));
    assert_eq!((wire.connected, wire.accepted.len()), (20, 20));
    assert_eq!(wire.victim.counters().cookies_accepted, 20);
}

//~ attacks: guessed acknowledgements open no connection during a flood
#[test]
fn guessed_acknowledgements_open_nothing_during_a_flood() {
    let (mut wire, mut dice) = (Wire::new(config(1)), Dice(9));
    wire.run(Span::from_millis(20), SYNS_PER_SECOND, |_| syn(&mut dice));
    let before = wire.victim.connections();
    wire.run(Span::from_millis(300), 400_000, |_| {
        let s = Seg {
            from: 1024 + dice.below(60_000) as u16,
            to: 80,
            seq: Seq(dice.roll() as u32),
            ack: Seq(dice.roll() as u32),
            flags: Flags::ACK,
            window: 64_000,
            options: Options::NONE,
            payload: Vec::new(),
            ecn: 0,
        };
        frame_from(Ipv4Addr::from_bits(0x5000_0000 | dice.below(1 << 28) as u32), &s)
    });
    let counters = wire.victim.counters();
    assert!(counters.cookies_refused > 100_000, "{}", counters.cookies_refused);
    assert_eq!(counters.cookies_accepted, 0, "one guess in 2^28 is right");
    assert!(wire.victim.connections() <= before);
}
