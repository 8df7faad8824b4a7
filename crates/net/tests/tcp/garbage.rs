//! Tests with random segments: no panic and no leak.

use classify::PacketMeta;
use net::stack::{Counters, ListenOptions};
use net::{EventKind, Stack};
use proptest::prelude::*;
use queueing::Span;
use wire::checksum::Checksum;
use wire::tcp::{Flags, Options, SackBlocks, Timestamps};
use wire::{Malformed, ethernet, icmp, ipv4};

use crate::closing::in_state;
use crate::peer::{Peer, Seg, frame};
use crate::world::{Dice, config, meta, sent};

/// Random segment near the connection's sequence numbers.
fn any_segment(peer: &Peer, dice: &mut Dice) -> Seg {
    let near = |dice: &mut Dice| match dice.below(8) {
        0 => dice.roll() as u32,
        1 => (dice.below(200_000) as u32).wrapping_sub(100_000),
        2 => (dice.below(2_000) as u32).wrapping_sub(1_000),
        n => (n as u32).wrapping_sub(4),
    };
    let mut sack = SackBlocks::NONE;
    for _ in 0..dice.below(4) {
        let start = peer.ack + near(dice);
        sack.push(start, start + dice.below(3000) as u32);
    }
    let stamps = Timestamps { value: near(dice), echo: near(dice) };
    Seg {
        seq: peer.seq + near(dice),
        ack: peer.ack + near(dice),
        flags: match dice.below(4) {
            0 => Flags::from_bits(dice.roll() as u8),
            1 => Flags::ACK | Flags::FIN,
            _ => Flags::ACK,
        },
        window: if dice.percent(30) { dice.below(3) as u16 } else { dice.roll() as u16 },
        options: Options { sack, timestamps: dice.percent(30).then_some(stamps), ..Options::NONE },
        payload: vec![0x55; if dice.percent(50) { dice.below(1400) as usize } else { 0 }],
        ..peer.seg(Flags::ACK)
    }
}

#[test]
fn a_checksum_is_verified_unless_the_device_has_verified_it() {
    for (checked, malformed, answers) in [(false, 1, 0), (true, 0, 1)] {
        let mut peer = Peer::new(config(1));
        let mut syn = frame(&peer.seg(Flags::SYN));
        let at = ethernet::HEADER_LEN + ipv4::HEADER_LEN + 16;
        syn[at] ^= 0xff;
        let meta = PacketMeta { checked, ..meta(peer.now, &syn) };
        peer.stack.ingress(peer.now, &syn, &meta);
        let counted = peer.stack.counters().malformed[Malformed::BadChecksum.index()];
        assert_eq!((counted, sent(&mut peer.stack, peer.now).len()), (malformed, answers), "{checked}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    //~ input: random segments in any state cause no panic or leak, and close once
    #[test]
    fn any_segments_in_any_state_violate_no_promise(state in 0usize..8, seed in any::<u64>()) {
        let (mut peer, conn) = in_state(state);
        let mut dice = Dice(seed);
        for _ in 0..80 {
            let s = any_segment(&peer, &mut dice);
            let received = peer.exchange(s);
            // Follow the stack, so that later segments stay near its sequence numbers.
            if let Some(last) = received.last().filter(|s| s.flags.contains(Flags::ACK)) {
                peer.seq = last.ack;
                peer.ack = last.seq + last.payload.len() as u32;
            }
            if let Some(conn) = conn {
                let now = peer.now;
                match dice.below(12) {
                    0..4 => drop(peer.stack.send(now, conn, &[1; 700])),
                    4..7 => peer.stack.consume(now, conn, dice.below(3000) as usize),
                    7 if dice.percent(10) => peer.stack.close(now, conn),
                    8 if dice.percent(5) => peer.stack.abort(now, conn),
                    9 => peer.pass(Span::from_micros(dice.below(20_000))),
                    10 => drop(peer.wait()),
                    _ => {}
                }
            }
            let accepted = peer.kinds().iter().filter(|k| matches!(k, EventKind::Accepted(_))).count();
            prop_assert!(peer.closed().len() <= accepted, "closed at most once for each accepted");
        }
        // After any input, silence and a reset leave nothing behind.
        let ids: Vec<_> = peer.events.iter().map(|e| e.conn).collect();
        ids.into_iter().for_each(|id| peer.stack.abort(peer.now, id));
        for _ in 0..100_000 {
            peer.receive();
            let Some(next) = peer.stack.poll_timeout() else { break };
            peer.now = peer.now.max(next);
            peer.stack.handle_timeout(peer.now);
        }
        peer.receive();
        prop_assert_eq!(peer.stack.connections(), 0);
        let accepted = peer.kinds().iter().filter(|k| matches!(k, EventKind::Accepted(_))).count();
        prop_assert_eq!(peer.closed().len(), accepted, "each was closed exactly once");
    }

    //~ input: random segments in any state cause no panic or leak, and close once
    #[test]
    fn any_frame_violates_no_promise(frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..20)) {
        let mut stack = Stack::new(config(1));
        stack.listen(80, ListenOptions::default()).unwrap();
        let now = queueing::Time::ZERO;
        for mut frame in frames {
            if frame.len() > 14 {
                frame[..6].copy_from_slice(&config(1).mac);
                (frame[12], frame[13]) = (8, frame[12] & 6);
            }
            let meta = meta(now, &frame);
            stack.ingress(now, &frame, &meta);
            sent(&mut stack, now);
        }
    }

    //~ input: malformed packets are counted by reason and dropped
    #[test]
    fn damaged_segments_are_counted_and_dropped(at in 14usize..74, bit in 0u8..8) {
        let (mut peer, conn) = Peer::established();
        let mut frame = frame(&peer.data(0, &[9; 20]));
        frame[at] ^= 1 << bit;
        peer.raw(&frame);
        prop_assert!(peer.stack.received(conn).is_empty());
        let counters = peer.stack.counters();
        prop_assert_eq!(counters.malformed.iter().sum::<u64>() + counters.not_for_us + counters.fragments, 1);
    }
}

/// Offset of a frame's TCP segment.
const TCP: usize = ethernet::HEADER_LEN + ipv4::HEADER_LEN;

/// Corrects a segment's checksum.
fn seal(frame: &mut [u8]) {
    frame[TCP + 16..TCP + 18].fill(0);
    let sum = Checksum::pseudo(config(2).addr, config(1).addr, 6, frame.len() - TCP).with(&frame[TCP..]);
    frame[TCP + 16..TCP + 18].copy_from_slice(&sum.finish());
}

/// Changes a valid segment's frame so that it is rejected for `reason`.
fn spoil(frame: &mut Vec<u8>, reason: Malformed) {
    match reason {
        Malformed::Truncated => frame.truncate(40),
        Malformed::BadLength => frame[14] = 0x44,
        Malformed::BadChecksum => frame[TCP + 20] ^= 1,
        Malformed::BadVersion => frame[14] = 0x65,
        Malformed::BadOption => {
            // The payload becomes an option longer than the header.
            frame[TCP + 12] = 0x60;
            frame[TCP + 20..].copy_from_slice(&[8, 10, 1, 1]);
            seal(frame);
        }
        Malformed::BadAddress => {
            frame[TCP..TCP + 2].fill(0);
            seal(frame);
        }
        // ARP packet for hardware other than Ethernet.
        Malformed::Unsupported => frame[12..].copy_from_slice(&[&[8, 6][..], &[0; 44]].concat()),
    }
}

//~ input: malformed packets are counted by reason and dropped
#[test]
fn each_reason_is_counted() {
    for reason in Malformed::ALL {
        let (mut peer, conn) = Peer::established();
        let before = *peer.stack.counters();
        let mut frame = frame(&peer.data(0, b"abcd"));
        spoil(&mut frame, reason);
        peer.raw(&frame);
        let mut expected = Counters { frames_received: before.frames_received + 1, ..before };
        expected.malformed[reason.index()] = 1;
        assert_eq!(*peer.stack.counters(), expected, "{reason}");
        assert!(peer.stack.received(conn).is_empty() && peer.receive().is_empty(), "{reason}");
    }
}

//~ tcp: urgent data is delivered as ordinary data (RFC 9293 §3.8.5)
#[test]
fn urgent_data_is_delivered_in_the_stream() {
    let (mut peer, conn) = Peer::established();
    for (pointer, text) in [(1_u16, b"one"), (0, b"two"), (u16::MAX, b"six")] {
        let urgent = Seg { flags: Flags::ACK | Flags::URG, ..peer.data(0, text) };
        let mut frame = frame(&urgent);
        frame[TCP + 18..TCP + 20].copy_from_slice(&pointer.to_be_bytes());
        seal(&mut frame);
        peer.raw(&frame);
        peer.seq += 3;
        let answers = peer.receive();
        assert_eq!((answers[0].ack, answers[0].flags), (peer.seq, Flags::ACK));
    }
    // Urgent pointer without the flag, and the flag without data.
    let mut frame = frame(&Seg { flags: Flags::ACK | Flags::URG, ..peer.seg(Flags::ACK) });
    frame[TCP + 18] = 1;
    seal(&mut frame);
    peer.raw(&frame);
    assert_eq!(peer.stack.received(conn), b"onetwosix");
    assert_eq!((peer.closed(), peer.stack.counters().malformed.iter().sum::<u64>()), (vec![], 0));
}

//~ ip: TCP packets carry DF and identification 0 (RFC 6864)
#[test]
fn packets_are_never_fragmented_and_have_no_identification() {
    let (mut peer, conn) = Peer::established();
    peer.stack.send(peer.now, conn, &[1; 5000]).unwrap();
    let ping = echo();
    peer.raw(&ping);
    let frames = sent(&mut peer.stack, peer.now);
    assert!(frames.len() > 5, "segments and an answer");
    for frame in frames {
        assert_eq!(frame[18..22], [0, 0, 0x40, 0], "identification 0, DF and no fragment (RFC 6864)");
    }
}

const ECHO: icmp::EchoMessage<'static> =
    icmp::EchoMessage { reply: false, ident: 7, sequence: 9, payload: b"hello" };

/// Frame of an echo request.
fn echo() -> Vec<u8> {
    let mut ping = vec![0; TCP + ECHO.len()];
    ethernet::emit_header(&mut ping, config(1).mac, config(2).mac, ethernet::EtherType::Ipv4);
    let (source, target) = (config(2).addr, config(1).addr);
    let header = ipv4::Header {
        source,
        target,
        protocol: ipv4::Protocol::Icmp,
        dscp: 0,
        ecn: 0,
        ttl: ipv4::TTL,
        payload_len: ECHO.len(),
    };
    header.emit(&mut ping[ethernet::HEADER_LEN..]);
    ECHO.emit(&mut ping[TCP..]);
    ping
}

#[test]
fn ping_is_answered() {
    let mut peer = Peer::new(config(1));
    peer.raw(&echo());
    let answers = sent(&mut peer.stack, peer.now);
    let packet = ipv4::Packet::parse(&answers[0][ethernet::HEADER_LEN..]).unwrap();
    assert_eq!(packet.target, config(2).addr);
    assert_eq!(icmp::EchoMessage::parse(packet.payload), Ok(icmp::EchoMessage { reply: true, ..ECHO }));
}

//~ input: replies to garbage are bounded
#[test]
fn replies_are_bounded() {
    let mut peer = Peer::new(config(1));
    for port in 0..1000 {
        peer.inject(&Seg { from: 2000 + port, to: 9, ..peer.seg(Flags::SYN) });
    }
    assert_eq!((peer.receive().len(), peer.stack.counters().replies_dropped), (256, 744));
}

#[test]
fn full_device_loses_nothing() {
    let (mut peer, conn) = Peer::established();
    peer.stack.send(peer.now, conn, &[3; 5000]).unwrap();
    let mut outbox = crate::world::Outbox { frames: Vec::new(), space: 2 };
    assert_eq!(peer.stack.egress(peer.now, &mut outbox), 2);
    assert!(peer.stack.wants_egress());
    assert_eq!(peer.receive().iter().map(|s| s.payload.len()).sum::<usize>(), 3000);
    assert!(!peer.stack.wants_egress());
}
