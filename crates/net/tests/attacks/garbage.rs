//! Tests of invalid segments.
//!
//! Bounds: none of 200,000 opens, changes or ends a connection. Each is counted or has no effect.
//! At most one frame is sent per frame received.

//~ attacks: garbage in options, impossible flags and packets from the own address do no harm

use std::net::Ipv4Addr;

use wire::tcp::{Flags, Options, Seq};
use wire::{checksum::Checksum, ethernet, ipv4};

use crate::peer::{Peer, STACK_ADDR, Seg, frame};
use crate::wire::frame_from;
use crate::world::{Dice, config};

const IP: usize = ethernet::HEADER_LEN;
const TCP: usize = IP + ipv4::HEADER_LEN;

/// Segment of `frame` with arbitrary `options` and a correct checksum.
fn with_options(frame: &[u8], options: &[u8]) -> Vec<u8> {
    let (headers, payload) = frame.split_at(TCP + 20);
    let mut frame = [headers, options, payload].concat();
    frame[TCP + 12] = ((20 + options.len()) as u8 / 4) << 4;
    let len = (frame.len() - IP) as u16;
    frame[IP + 2..IP + 4].copy_from_slice(&len.to_be_bytes());
    frame[IP + 10..IP + 12].fill(0);
    let sum = Checksum::new().with(&frame[IP..TCP]).finish();
    frame[IP + 10..IP + 12].copy_from_slice(&sum);
    frame[TCP + 16..TCP + 18].fill(0);
    let address = |at: usize| Ipv4Addr::new(frame[at], frame[at + 1], frame[at + 2], frame[at + 3]);
    let sum = Checksum::pseudo(address(IP + 12), address(IP + 16), 6, frame.len() - TCP).with(&frame[TCP..]);
    frame[TCP + 16..TCP + 18].copy_from_slice(&sum.finish());
    frame
}

#[test]
fn garbage_in_options_changes_nothing() {
    let (mut peer, conn) = Peer::established_with(config(1), Options::NONE);
    let mut dice = Dice(5);
    let (mut opened, frames) = (0, 100_000_u32);
    for i in 0..frames {
        let len = 4 * dice.below(11) as usize;
        // Known kinds are frequent, lengths are often wrong.
        let mut options: Vec<u8> = (0..len).map(|_| dice.roll() as u8 % 36).collect();
        if let Some(last) = options.last_mut().filter(|_| i % 3 == 0) {
            *last = 0;
        }
        let syn = i % 2 == 0;
        let s = match syn {
            true => Seg { from: 20_000 + (i % 500) as u16, ..peer.seg(Flags::SYN) },
            false => peer.data(0, b""),
        };
        peer.raw(&with_options(&frame(&s), &options));
        if i % 100 == 0 {
            opened = opened.max(peer.stack.connections());
            peer.receive();
        }
    }
    assert!(opened <= 501 && peer.closed().is_empty());
    let malformed: u64 = peer.stack.counters().malformed.iter().sum();
    println!("{malformed} of {frames} had options that cannot be");
    assert!(malformed > 20_000);
    let data = peer.data(0, b"fine");
    peer.exchange(data);
    assert_eq!(peer.stack.received(conn), b"fine");
}

#[test]
fn packets_with_our_own_source_address_are_refused() {
    let (mut peer, _) = Peer::established();
    let before = *peer.stack.counters();
    for flags in [Flags::SYN, Flags::SYN | Flags::ACK, Flags::ACK, Flags::RST, Flags::FIN] {
        for port in [80, 5000] {
            // LAND: from the victim's own address and port.
            let land = Seg { from: port, ..peer.seg(flags) };
            peer.raw(&frame_from(STACK_ADDR, &land));
        }
    }
    for source in [[0, 0, 0, 0], [255, 255, 255, 255], [224, 0, 0, 1], [239, 1, 2, 3]] {
        let syn = peer.seg(Flags::SYN);
        peer.raw(&frame_from(source.into(), &syn));
    }
    let refused = peer.stack.counters().malformed.iter().sum::<u64>() - before.malformed.iter().sum::<u64>();
    assert_eq!((refused, peer.receive().len(), peer.stack.connections()), (14, 0, 1));
}

#[test]
fn impossible_flags_open_and_end_nothing() {
    let (mut peer, conn) = Peer::established_with(config(1), Options::NONE);
    let mut dice = Dice(6);
    let mut answers = 0;
    for bits in 0..=255_u8 {
        let flags = Flags::from_bits(bits);
        // No connection: only a SYN opens one, and not with FIN, as on Linux.
        let s = Seg { from: 30_000 + u16::from(bits), ..peer.seg(flags) };
        let before = peer.stack.connections();
        answers += peer.exchange(s).len();
        let opens = flags.contains(Flags::SYN) && !flags.intersects(Flags::ACK | Flags::RST | Flags::FIN);
        assert_eq!(peer.stack.connections() - before, usize::from(opens), "{flags:?}");
        // For the connection, with guessed numbers.
        let s = Seg { seq: Seq(dice.roll() as u32), ack: Seq(dice.roll() as u32), ..peer.seg(flags) };
        answers += peer.exchange(s).len();
    }
    assert!(answers <= 512 && peer.closed().is_empty(), "{answers} answers to 512 segments");
    let data = peer.data(0, b"fine");
    peer.exchange(data);
    assert_eq!(peer.stack.received(conn), b"fine");
}
