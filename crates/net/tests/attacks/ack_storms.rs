//! Tests of desynchronized peers (ACK storms).
//!
//! Bounds: one stray segment between two stacks with different states of the same connection causes
//! at most 16 answers, then silence. A persistent peer receives at most 4 answers per half second.

//~ attacks: ACK storms die out and cost at most four answers in half a second

use net::ConnId;
use net::stack::{Config, KeepAlive};
use queueing::Span;
use wire::tcp::{Flags, Options};

use crate::peer::{Peer, Seg};
use crate::world::{Faults, World, config};

/// Two stacks that each have a connection to the other's address and port, but not with each other.
fn strangers(timestamps_apart: Span) -> (World, [ConnId; 2]) {
    let pair = |secret: u8, later: Span| {
        let configs = [1, 2].map(|host| Config { secret: [secret; 16], ..config(host) });
        let mut world = World::new(configs, Faults::default(), 1);
        world.now += later;
        world.stacks[0].listen(80, net::stack::ListenOptions::default()).unwrap();
        let remote = "10.0.0.1:80".parse().unwrap();
        let client = world.stacks[1].connect(world.now, remote, Some(4000)).unwrap();
        let events = world.run_for(Span::from_millis(1));
        (world, events[0][0].conn, client)
    };
    let (mut one, server, _) = pair(1, Span::ZERO);
    let (mut other, _, client) = pair(2, timestamps_apart);
    std::mem::swap(&mut one.stacks[1], &mut other.stacks[1]);
    one.now = one.now.max(other.now);
    (one, [server, client])
}

#[test]
fn mutual_acknowledgements_die_out() {
    let (mut world, [server, _]) = strangers(Span::ZERO);
    let sent = |world: &World| world.stacks.iter().map(|s| s.counters().frames_sent).sum::<u64>();
    let before = sent(&world);
    // One keep-alive probe starts it; the next follows an hour later.
    let hour = Span::from_secs(3600);
    let requested = KeepAlive { idle: Span::from_secs(1), interval: hour, count: 5 };
    world.stacks[0].set_keep_alive(world.now, server, Some(requested));
    world.run_for(Span::from_secs(60));
    let frames = sent(&world) - before;
    println!("one stray segment led to {frames} frames in 60 s");
    assert!((3..=17).contains(&frames), "{frames} frames");
    let withheld: u64 = world.stacks.iter().map(|s| s.counters().answers_withheld).sum();
    assert!(withheld >= 1, "the loop was cut, it did not end by chance");
}

#[test]
fn mutually_unacceptable_data_costs_only_its_retransmissions() {
    let (mut world, [server, client]) = strangers(Span::from_secs(5));
    let sent = |world: &World| world.stacks.iter().map(|s| s.counters().frames_sent).sum::<u64>();
    let before = sent(&world);
    world.stacks[0].send(world.now, server, &[1; 5000]).unwrap();
    world.stacks[1].send(world.now, client, &[1; 5000]).unwrap();
    world.run_for(Span::from_secs(60));
    let frames = sent(&world) - before;
    println!("data between strangers led to {frames} frames in 60 s");
    // First flights, 15 timeouts each, an answer to each segment, and at most 4 answers to answers
    // in each of 121 half seconds.
    assert!(frames <= 2 * (15 + 16) * 2 + 2 * 4 * 121, "{frames} frames");
}

#[test]
fn flood_of_stray_acknowledgements_is_answered_four_times_in_half_a_second() {
    let (mut peer, _) = Peer::established_with(config(1), Options::NONE);
    let mut answers = 0;
    for i in 0..100_000_u32 {
        let stray = Seg { seq: peer.seq + 1_000_000 + i, ..peer.seg(Flags::ACK) };
        answers += peer.exchange(stray).len();
        peer.pass(Span::from_micros(100));
    }
    assert!((80..=84).contains(&answers), "{answers} answers to 100,000 segments in 10 s");
    assert_eq!(peer.stack.counters().answers_withheld, 100_000 - answers as u64);
}
