//! Behaviour that programs and peers observe of each other.

use net::stack::{CloseReason, EventKind, HopLimits, State, Unreachable};
use proptest::prelude::*;
use queueing::PASSED_IN_A_ROW;
use queueing::Span;

use super::*;

mod calls;
mod counters;
mod datagrams;
mod levels;
mod opening;
mod requests;
mod world;

use world::{HERE, World};

#[test]
fn bytes_and_half_closes_pass_in_both_directions() {
    let mut world = World::new(1000);
    world.send(0, b"request");
    world.settle();
    let end = world.end(0);
    assert_eq!(end.borrow().inbound, *b"request");
    end.borrow_mut().outbound.extend(b"response");
    world.notify(0);
    world.settle();
    assert_eq!(world.received, b"response");
    world.client.close(world.now, world.conns[0]);
    world.settle();
    assert!(end.borrow().finished && !end.borrow().dropped, "the program may still answer");
    end.borrow_mut().outbound.extend(b" and more");
    end.borrow_mut().gone = true;
    world.notify(0);
    world.settle();
    assert_eq!(world.received, b"response and more");
    assert!(world.closed.contains(&EventKind::PeerClosed), "{:?}", world.closed);
    assert_eq!((world.proxy.connections(), end.borrow().dropped), (0, true));
    assert_eq!((world.proxy.counters.reset, world.proxy.counters.ended), (0, 1));
}

#[test]
fn after_shut_wr_a_program_still_reads() {
    let mut world = World::new(1000);
    let end = world.end(0);
    end.borrow_mut().outbound.extend(b"all");
    end.borrow_mut().shut = true;
    world.notify(0);
    world.settle();
    assert_eq!((&world.received[..], &world.closed[..]), (&b"all"[..], &[EventKind::PeerClosed][..]));
    world.send(0, b"late");
    world.settle();
    assert_eq!(end.borrow().inbound, *b"late");
}

//~ programs: the bytes of SO_RCVLOWAT make a connection readable for poll, select, epoll and reads
#[test]
fn less_than_the_low_water_is_withheld_until_the_program_reads_or_the_peer_closes() {
    for how in ["more comes", "it asks", "the peer closes", "it is lowered"] {
        let mut world = World::new(1000);
        let (end, conn) = (world.end(0), world.end(0).borrow().conn.expect("it was offered"));
        let happen = |world: &mut World, what| {
            world.proxy.programs.events.push(what);
            world.settle();
        };
        happen(&mut world, AppEvent::Set(conn, SocketOption::LowWater(10)));
        world.send(0, b"four");
        world.settle();
        assert_eq!(end.borrow().inbound, *b"", "{how}");
        let expected: &[u8] = match how {
            "more comes" => {
                world.send(0, b"sixsix");
                world.settle();
                b"foursixsix"
            }
            "it asks" => {
                happen(&mut world, AppEvent::Set(conn, SocketOption::Withheld(3)));
                assert_eq!(end.borrow().inbound, *b"fou", "no more than it takes");
                happen(&mut world, AppEvent::Set(conn, SocketOption::Withheld(3)));
                b"four"
            }
            "the peer closes" => {
                world.client.close(world.now, world.conns[0]);
                world.settle();
                b"four"
            }
            _ => {
                // The program polls as soon as its next request is answered.
                world.proxy.programs.events.push(AppEvent::Set(conn, SocketOption::LowWater(4)));
                happen(&mut world, AppEvent::GetInfo { call: 1, conn });
                assert_eq!(world.proxy.programs.inbound_at_answer, *b"four");
                b"four"
            }
        };
        assert_eq!(end.borrow().inbound, expected, "{how}");
    }
}

/// The handshake's last segment and the first data arrive in one batch.
#[test]
fn options_of_a_listener_apply_to_the_first_byte() {
    let mut world = World::without(1000);
    world.settle();
    world.proxy.programs.inherited = vec![SocketOption::LowWater(10)];
    world.conns.push(world.client.connect(world.now, HERE.parse().unwrap(), None).unwrap());
    world.client_turn();
    world.proxy.step(world.now, &mut world.near);
    world.client_turn();
    world.send(0, b"four");
    world.client_turn();
    assert!(world.proxy.programs.ends.is_empty(), "no connection yet");
    world.settle();
    assert_eq!(world.end(0).borrow().inbound, *b"");
    world.ask(0, b"sixsix");
    assert_eq!(world.end(0).borrow().inbound, *b"foursixsix");
}

//~ programs: MSG_MORE and TCP_CORK hold small segments for at most 200 ms
#[test]
fn tcp_cork_delays_small_segments() {
    let segments = |world: &World| world.client.counters().frames_received;
    for cork in [false, true] {
        let mut world = World::new(1000);
        let (end, conn) = (world.end(0), world.end(0).borrow().conn.expect("it was offered"));
        let set = |world: &mut World, cork| {
            world.proxy.programs.events.push(AppEvent::Set(conn, SocketOption::Cork(cork)));
            world.settle();
        };
        let before = segments(&world);
        if cork {
            set(&mut world, true);
        }
        end.borrow_mut().more = !cork;
        world.answer(0, b"one ");
        assert_eq!((&world.received[..], segments(&world) - before), (&b""[..], 0));
        if cork {
            world.answer(0, b"two");
            assert_eq!(segments(&world), before, "the segment is held");
            set(&mut world, false);
        } else {
            world.answer(0, b"two");
        }
        assert_eq!((&world.received[..], segments(&world) - before), (&b"one two"[..], 1));
        // Nothing follows; the hold ends.
        if cork {
            set(&mut world, true);
        }
        end.borrow_mut().more = !cork;
        world.answer(0, b" three");
        assert_eq!(world.received, b"one two");
        let since = world.now;
        while world.received.len() < 13 && world.now.since(since) < Span::from_secs(1) {
            world.now = world.proxy.poll_timeout().expect("the segment is held");
            world.settle();
        }
        assert_eq!(world.received, b"one two three");
        assert!((190..=210).contains(&(world.now.since(since).as_nanos() / 1_000_000)));
        // Full segments are not held, nor is a FIN.
        end.borrow_mut().more = !cork;
        world.answer(0, &[b'x'; 2000]);
        assert!((14..2013).contains(&world.received.len()), "{}", world.received.len());
        world.leave(0);
        assert_eq!(world.received.len(), 2013);
        assert!(world.closed.contains(&EventKind::PeerClosed));
    }
}

//~ run: a killed program frees its connections
#[test]
fn a_killed_program_frees_its_connections() {
    let mut world = World::new(4);
    (0..7).for_each(|_| world.connect());
    // Two with unread bytes, one with more than the pipe holds.
    world.send(0, b"four");
    world.send(1, b"more than four");
    world.settle();
    assert_eq!((world.proxy.connections(), world.proxy.stack.connections()), (8, 8));
    for n in 0..8 {
        let end = world.end(n);
        let unread = !end.borrow().inbound.is_empty();
        end.borrow_mut().unread = unread;
        end.borrow_mut().gone = true;
        world.notify(n);
    }
    world.settle();
    assert_eq!(world.proxy.connections(), 0);
    assert_eq!(world.proxy.counters.reset, 2);
    let resets = world.closed.iter().filter(|kind| **kind == EventKind::Closed(CloseReason::Reset)).count();
    let polite = world.closed.iter().filter(|kind| **kind == EventKind::PeerClosed).count();
    assert_eq!((resets, polite), (2, 6));
    for n in 2..8 {
        world.client.close(world.now, world.conns[n]);
    }
    world.settle();
    // TIME-WAIT: we closed first.
    world.now += Span::from_secs(300);
    world.settle();
    assert_eq!(world.proxy.stack.connections(), 0, "no state is left");
}

#[test]
fn bytes_written_before_close_are_sent() {
    let mut world = World::new(100);
    world.send(0, b"a long story");
    world.settle();
    let end = world.end(0);
    end.borrow_mut().outbound.extend(b"denied");
    end.borrow_mut().gone = true;
    end.borrow_mut().unread = true;
    world.notify(0);
    world.settle();
    assert_eq!((&world.received[..], world.proxy.connections()), (&b"denied"[..], 0));
    assert_eq!(world.closed, [EventKind::Closed(CloseReason::Reset)]);
}

//~ programs: a response written before unread bytes reset the connection is sent
#[test]
fn written_bytes_are_sent_before_undelivered_input_resets() {
    let mut world = World::new(4);
    world.send(0, b"more than four");
    world.settle();
    let end = world.end(0);
    end.borrow_mut().inbound.clear();
    end.borrow_mut().outbound.extend(b"denied");
    end.borrow_mut().gone = true;
    world.notify(0);
    world.settle();
    assert_eq!((&world.received[..], world.proxy.connections()), (&b"denied"[..], 0));
    assert_eq!(
        (&world.closed[..], world.proxy.counters.reset),
        (&[EventKind::Closed(CloseReason::Reset)][..], 1)
    );
}

#[test]
fn data_for_a_closed_program_resets() {
    let mut world = World::new(100);
    world.end(0).borrow_mut().gone = true;
    world.notify(0);
    world.settle();
    world.send(0, b"anybody there?");
    world.settle();
    assert_eq!(world.closed, [EventKind::PeerClosed, EventKind::Closed(CloseReason::Reset)]);
}

#[test]
fn undelivered_input_is_counted() {
    let mut world = World::new(100);
    let end = world.end(0);
    end.borrow_mut().read_shut = true;
    world.send(0, b"hello");
    world.settle();
    end.borrow_mut().outbound.extend(b"talking");
    world.notify(0);
    world.settle();
    assert_eq!((&world.received[..], world.proxy.counters.bytes_discarded), (&b"talking"[..], 5));
}

#[test]
fn a_connection_without_an_acceptor_is_reset() {
    let mut world = World::without(100);
    world.proxy.programs.refuses = true;
    world.connect();
    assert_eq!(world.closed, [EventKind::Closed(CloseReason::Reset)]);
    assert_eq!((world.proxy.counters.unaccepted, world.proxy.connections()), (1, 0));
    world.proxy.programs.events.push(AppEvent::Unlisten(80));
    world.connect();
    assert_eq!((world.closed.len(), world.proxy.counters.unaccepted), (2, 1), "refused by TCP");
}

//~ run: a program's answer reaches the stack before the frame that follows
/// With several stacks, one may get the programs' events and answer them before another one
/// receives the next frame.
#[test]
fn connections_handed_over_by_another_stack_precede_later_frames() {
    let mut world = World::without(100);
    world.proxy.programs.events.push(AppEvent::Unlisten(80));
    world.settle();
    world.proxy.programs.posted.push(AppEvent::Listen { port: 80, fast_open: 0, hops: Default::default() });
    world.connect();
    assert_eq!((&world.closed[..], world.proxy.connections()), (&[][..], 1));
}

//~ programs: TCP_FASTOPEN of a listener delivers the request with the SYN
#[test]
fn fast_open_data_is_delivered_if_the_program_enabled_it() {
    let mut world = World::without(100);
    let opens = |world: &mut World| {
        let opened = world.client.connect_with(world.now, HERE.parse().unwrap(), None, b"question");
        assert_eq!(opened.unwrap().1, 8);
        world.settle();
    };
    // The port has a listener already; fast open is enabled later.
    world.proxy.programs.events.push(AppEvent::Listen { port: 80, fast_open: 4, hops: Default::default() });
    world.settle();
    opens(&mut world);
    assert_eq!(world.proxy.stack.counters().fast_opens, 0, "a cookie comes first");
    opens(&mut world);
    assert_eq!(world.proxy.stack.counters().fast_opens, 1);
    for at in 0..2 {
        assert_eq!(world.end(at).borrow().inbound, *b"question", "once");
    }
}

#[test]
fn close_resets_with_so_linger_zero() {
    let mut world = World::new(100);
    let end = world.end(0);
    let conn = end.borrow().conn.unwrap();
    world.proxy.programs.events.push(AppEvent::Set(conn, SocketOption::ResetOnClose(true)));
    end.borrow_mut().gone = true;
    world.notify(0);
    world.settle();
    assert_eq!(world.closed, [EventKind::Closed(CloseReason::Reset)]);
}

#[test]
fn a_peers_reset_closes_the_application_socket() {
    let mut world = World::new(100);
    world.client.abort(world.now, world.conns[0]);
    world.settle();
    assert!(world.end(0).borrow().dropped);
    assert_eq!((world.proxy.connections(), world.proxy.counters.ended), (0, 1));
}

//~ programs: bytes that came before a reset are read before the error
#[test]
fn data_received_before_a_reset_is_read_first() {
    // More bytes than the pipe holds, and the reset in the same round.
    let mut world = World::new(4);
    world.send(0, b"last words");
    world.client.egress(world.now, &mut world.far);
    world.client.abort(world.now, world.conns[0]);
    world.settle();
    let end = world.end(0);
    assert_eq!((end.borrow().inbound.len(), end.borrow().dropped), (4, false));
    // Later output is discarded and does not affect the input.
    end.borrow_mut().outbound.extend(b"answer");
    world.notify(0);
    world.settle();
    let mut read = Vec::new();
    while !end.borrow().dropped {
        let bytes: Vec<u8> = end.borrow_mut().inbound.drain(..).collect();
        assert!(!bytes.is_empty(), "{read:?} is all of its input");
        read.extend(bytes);
        world.notify(0);
        world.settle();
    }
    read.extend(end.borrow_mut().inbound.drain(..));
    assert_eq!(read, b"last words");
    assert_eq!((&world.received[..], world.proxy.connections()), (&b""[..], 0));
}

//~ programs: bytes that a peer does not read stay with the program
#[test]
fn unread_output_stays_in_the_programs_socket() {
    let mut world = World::new(100);
    world.read_shut = true;
    let (written, end) = (4_000_000, world.end(0));
    end.borrow_mut().outbound.extend(vec![b'x'; written]);
    world.notify(0);
    world.settle();
    let conn = end.borrow().conn.unwrap();
    let info = world.proxy.stack.info(world.now, conn).unwrap();
    let in_tcp = info.acknowledged + info.unacknowledged + info.unsent;
    assert_eq!(written - end.borrow().outbound.len(), in_tcp.get() as usize);
    assert!(info.unsent.get() <= 256 * 1024, "{:?}", info.unsent);
    // It continues when the peer reads.
    world.read_shut = false;
    let unread = world.client.received(world.conns[0]).len();
    world.client.consume(world.now, world.conns[0], unread);
    world.settle();
    assert_eq!(unread + world.received.len(), written);
}

//~ programs: bytes are delivered to and collected from programs in the order of labels; every level gets its turn
#[test]
fn the_most_urgent_data_is_delivered_first() {
    let mut world = World::new(100);
    (0..3).for_each(|_| world.connect());
    let levels = [b"5", b"7", b"0", b"5"];
    for (n, level) in levels.iter().enumerate() {
        world.send(n, *level);
        world.client.egress(world.now, &mut world.far);
    }
    // All four go through TCP before any is delivered.
    assert!(world.proxy.receive(world.now, &mut world.near));
    world.proxy.take_events(world.now);
    let queued: Vec<usize> = world.proxy.inbound.iter().map(VecDeque::len).collect();
    assert_eq!(queued, [1, 0, 0, 0, 0, 2, 0, 1]);
    // A full program does not delay the others.
    world.end(2).borrow_mut().room = 0;
    world.proxy.deliver_input(world.now);
    let got: Vec<usize> = (0..4).map(|n| world.end(n).borrow().inbound.len()).collect();
    assert_eq!(got, [1, 1, 0, 1]);
    assert!(world.end(2).borrow().wanted);
}

//~ operations: SIGHUP reloads configuration and policy of `serve` and `run` without dropping a connection
#[test]
fn new_classifiers_apply_to_open_connections() {
    let mut world = World::new(100);
    let last = |world: &mut World| {
        world.send(0, b"3");
        world.settle();
        let end = world.end(0);
        let last_level = end.borrow().levels.last().map(|(level, _)| level.level());
        last_level.expect("it has a level")
    };
    assert_eq!(last(&mut world), 3);
    let driver: classify::DriverClassifier = std::sync::Arc::new(|_| classify::Verdict::Level(2));
    world.proxy.set_classifiers(Classifiers { driver: Some(driver), ..Classifiers::default() });
    assert_eq!(last(&mut world), 2, "the driver's level; no digit is read");
    world.proxy.set_classifiers(Classifiers::default());
    assert_eq!(last(&mut world), Priority::LOWEST.level(), "no classifier");
    assert!(world.closed.is_empty() && world.proxy.connections() == 1);
}

#[test]
fn a_programs_label_is_known_before_it_reads_the_data() {
    let mut world = World::new(100);
    world.send(0, b"3");
    world.settle();
    world.send(0, b"0");
    world.settle();
    world.client.close(world.now, world.conns[0]);
    world.settle();
    let level = |n| Priority::new(n).unwrap();
    // A FIN has the level of the bytes before it.
    assert_eq!(world.end(0).borrow().levels, [(level(3), 0), (level(0), 1), (level(0), 2)]);
    let conn = world.end(0).borrow().conn.unwrap();
    world.proxy.programs.events.push(AppEvent::Set(conn, SocketOption::Level(level(6))));
    world.proxy.programs.events.push(AppEvent::Set(conn, SocketOption::Private([7; 48])));
    world.settle();
    assert_eq!(world.end(0).borrow().levels.last(), Some(&(level(6), 2)));
    assert_eq!(world.proxy.stack.private(conn).unwrap()[16..], [7; 48]);
}

//~ programs: a program reads its connection's round trip, loss and window
#[test]
fn a_program_gets_its_connections_tcp_info() {
    let mut world = World::new(100);
    world.send(0, b"2345");
    world.settle();
    let conn = world.end(0).borrow().conn.unwrap();
    let stale = ConnId { generation: conn.generation + 1, ..conn };
    let idle = Span::from_secs(5);
    let events = &mut world.proxy.programs.events;
    events.push(AppEvent::Set(conn, SocketOption::KeepIdle(idle)));
    events.push(AppEvent::Set(conn, SocketOption::Dscp(10)));
    events.push(AppEvent::GetInfo { call: 1, conn });
    events.push(AppEvent::GetInfo { call: 2, conn: stale });
    world.settle();
    let [(1, Some(info), keep_alive), (2, None, KeepAlive::LINUX)] = world.proxy.programs.answers[..] else {
        panic!("{:?}", world.proxy.programs.answers)
    };
    assert_eq!((info.state, info.received.get(), info.segments[1]), (State::Established, 4, 0));
    assert_eq!((keep_alive.idle, keep_alive.count), (idle, 9), "as set, though it is off");
    assert_eq!(info.dscp, 10);
    assert!(info.cwnd.get() >= 2 * u64::from(info.mss) && info.srtt.is_some(), "{info:?}");
}

/// A world with one connection per level, whose request is that digit and whose program has written
/// `answer`; no output is read yet.
fn answered(levels: &[u8], answer: &[u8]) -> World {
    let mut world = World::new(100);
    (1..levels.len()).for_each(|_| world.connect());
    for (n, level) in levels.iter().enumerate() {
        assert_eq!(world.send(n, &[b'0' + level]), 1);
    }
    world.settle();
    for n in 0..levels.len() {
        world.end(n).borrow_mut().outbound.extend(answer);
        world.notify(n);
    }
    world.proxy.poll_programs(world.now);
    world
}

/// Number of the first `count` connections whose output was read.
fn read(world: &World, count: usize) -> usize {
    (0..count).filter(|&n| world.end(n).borrow().read_as.is_some()).count()
}

//~ programs: bytes are delivered to and collected from programs in the order of labels; every level gets its turn
#[test]
fn program_output_is_collected_in_label_order() {
    let mut world = answered(&[5, 7, 0, 5], b"answer");
    world.proxy.collect(world.now, None);
    let order: Vec<_> = (0..4).map(|n| world.end(n).borrow().read_as).collect();
    assert_eq!(order, [Some(1), Some(3), Some(0), Some(2)]);
}

//~ programs: bytes just delivered to a program go before less urgent ones once
#[test]
fn output_of_a_program_that_just_received_urgent_data_goes_first_once() {
    let mut world = answered(&[5, 7, 0, 5], b"answer");
    let level = Priority::new(5);
    assert!(world.proxy.collect(world.now, level));
    assert_eq!(read(&world, 4), 3, "not the one at level 7");
    assert!(world.proxy.collect(world.now, level), "it was passed over");
    assert_eq!(read(&world, 4), 4);
    assert!(!world.proxy.collect(world.now, level));
}

//~ programs: rounds are short and the program gets the shared core while some connections are more urgent
#[test]
fn rounds_are_short_while_more_urgent_programs_are_runnable() {
    let collected = |first| {
        let mut world = answered(&[first, 7, 7], &[b'x'; 3 * COLLECTED_SHORT / 4]);
        world.proxy.collect(world.now, None);
        (read(&world, 3), world.proxy.gives_way())
    };
    assert_eq!(collected(7), (3, false));
    assert_eq!(collected(6), (2, true), "each level is served once");
}

//~ programs: bytes are delivered to and collected from programs in the order of labels; every level gets its turn
#[test]
fn urgent_bulk_data_goes_first_until_the_less_urgent_quota_is_due() {
    let rounds = 2 * (usize::from(PASSED_IN_A_ROW) + 1);
    let mut levels = vec![0; rounds];
    levels.extend([7, 7]);
    let mut world = answered(&levels, &[b'x'; COLLECTED_SHORT]);
    let left =
        |world: &World| [0, 1].map(|n| world.end(rounds + n).borrow().outbound.len()).iter().sum::<usize>();
    let had_entry = |_: &usize| {
        let before = left(&world);
        world.proxy.collect(world.now, None);
        left(&world) < before
    };
    assert_eq!((1..=rounds).filter(had_entry).collect::<Vec<_>>(), [9, 18]);
}

//~ programs: bytes are delivered to and collected from programs in the order of labels; every level gets its turn
#[test]
fn every_level_sends_in_every_round() {
    let urgent = DELIVERIES_MAX + 6;
    let mut levels = vec![0; urgent];
    levels.push(7);
    let mut world = answered(&levels, b"answer");
    world.proxy.collect(world.now, None);
    assert_eq!(read(&world, levels.len()), DELIVERIES_MAX + 1);
    assert!(world.end(urgent).borrow().read_as.is_some(), "the least urgent is served in a full round");
    world.proxy.collect(world.now, None);
    assert_eq!(read(&world, levels.len()), urgent + 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    //~ programs: streams arrive intact and in order however small the pipe
    /// Model: each side reads what the other wrote, for any pipe size and program speed.
    #[test]
    fn streams_arrive_complete_and_in_order(
        room in 1usize..5000,
        inbound in 0usize..60_000,
        outbound in 0usize..400_000,
        takes in proptest::collection::vec(1usize..9000, 1..12),
    ) {
        let noise = |len: usize, seed: u32| -> Vec<u8> {
            (0..len as u32).map(|i| (i.wrapping_mul(0x9e37_79b9) ^ seed).to_be_bytes()[0]).collect()
        };
        let (to_program, to_client) = (noise(inbound, 1), noise(outbound, 2));
        let mut world = World::new(room);
        let end = world.end(0);
        let (mut sent, mut written, mut read) = (0, 0, Vec::new());
        let mut takes = takes.iter().cycle();
        while read.len() < inbound || world.received.len() < outbound {
            if sent < inbound {
                sent += world.send(0, &to_program[sent..]);
            }
            let take = *takes.next().expect("a cycle has no end");
            {
                let mut end = end.borrow_mut();
                let len = take.min(end.inbound.len());
                read.extend(end.inbound.drain(..len));
                let more = &to_client[written..outbound.min(written + take * 7)];
                end.outbound.extend(more);
                written += more.len();
            }
            world.notify(0);
            world.settle();
        }
        prop_assert!(read == to_program && world.received == to_client);
        let Counters { bytes_in, bytes_out, .. } = *world.proxy.counters();
        prop_assert_eq!((bytes_in, bytes_out), (inbound as u64, outbound as u64));
    }
}

//~ guard: admission control keeps connections from programs
#[test]
fn a_guard_sheds_connections_before_programs() {
    let mut world = World::new(1000);
    let guard = Some(crate::shard::ShardGuard {
        policy: Box::new(crate::pipeline::tests::Says(guard::Limit::Concurrency { max: 1 })),
        period: Span::from_micros(1),
        refusal: crate::shard::Refusal::Reset,
        watches: false,
    });
    world.proxy.set_guard(guard, WaitEnd::Accept);
    world.settle();
    world.connect();
    let refused = world.conns[1];
    assert_eq!(world.closed, [EventKind::Closed(CloseReason::Reset)]);
    assert_ne!(refused, world.conns[0]);
    let of = world.proxy.counters().guard[0];
    assert_eq!((of.seen, of.by_presence, world.proxy.counters().offered), (1, 1, 1));
}

/// Policy that admits every SYN and records its signals.
struct Hears(std::sync::Arc<std::sync::Mutex<Vec<guard::Signals>>>);

impl guard::Policy for Hears {
    fn tick(&mut self, _: Time, signals: &guard::Signals) -> guard::Limit {
        self.0.lock().unwrap().push(*signals);
        guard::Limit::Open
    }
}

/// A world with a recording guard: [`GuardedWorld::sample`] returns waiting connections, delay, and
/// connections served in a millisecond.
struct GuardedWorld {
    world: World,
    signals: std::sync::Arc<std::sync::Mutex<Vec<guard::Signals>>>,
}

impl GuardedWorld {
    fn new(until: WaitEnd) -> Self {
        let (mut world, signals) = (World::new(1000), std::sync::Arc::default());
        let policy = Box::new(Hears(std::sync::Arc::clone(&signals)));
        let (period, refusal) = (Span::from_micros(1), crate::shard::Refusal::Reset);
        let guard = crate::shard::ShardGuard { policy, period, refusal, watches: false };
        world.proxy.set_guard(Some(guard), until);
        world.connect();
        Self { world, signals }
    }

    /// A world with two connections that have sent requests, the second one period later.
    fn asked(until: WaitEnd) -> Self {
        let mut guarded = Self::new(until);
        assert_eq!(guarded.sample(), (0, Span::ZERO, 0), "a silent connection does not wait");
        guarded.world.send(0, b"first");
        guarded.sample();
        guarded.world.send(1, b"second");
        guarded
    }

    fn sample(&mut self) -> (u64, Span, u64) {
        self.world.now += Span::from_millis(1);
        self.signals.lock().unwrap().clear();
        self.world.settle();
        let signals = self.signals.lock().unwrap();
        let served: u64 = signals.iter().map(|signals| signals.served).sum();
        let last = signals.last().expect("it was due");
        (last.waiting, last.delay, served)
    }

    /// Output of the program of connection `n`.
    fn write(&mut self, n: usize, bytes: &[u8]) {
        self.world.end(n).borrow_mut().outbound.extend(bytes);
        self.world.notify(n);
    }

    /// Ends the second connection from the peer's side.
    fn abort(&mut self) {
        self.world.client.abort(self.world.now, self.world.conns[1]);
        self.world.settle();
    }
}

//~ guard: the time until a program reads a connection's first bytes counts as waiting
#[test]
fn a_guard_measures_the_time_to_the_first_read() {
    let mut guarded = GuardedWorld::asked(WaitEnd::Accept);
    let (waiting, delay, served) = guarded.sample();
    assert_eq!((waiting, served), (2, 0));
    assert!(delay >= Span::from_millis(1), "{delay}");
    // The program reads the first, and then the second's peer ends it.
    guarded.world.end(0).borrow_mut().inbound.clear();
    let (waiting, later, served) = guarded.sample();
    assert_eq!((waiting, served), (1, 1));
    assert!(later >= Span::from_millis(1), "{later}");
    guarded.abort();
    assert_eq!(guarded.sample(), (0, Span::ZERO, 0));
    // Only first bytes count: later ones may wait while the program is busy.
    guarded.world.send(0, b"more");
    assert_eq!(guarded.sample().0, 0);
}

//~ guard: `run --measure first-byte` sheds by the time to the first response byte
#[test]
fn a_guard_measures_the_time_to_the_first_write() {
    let mut guarded = GuardedWorld::asked(WaitEnd::Answer);
    for at in [0, 1] {
        guarded.world.end(at).borrow_mut().inbound.clear();
    }
    let (waiting, delay, served) = guarded.sample();
    assert_eq!((waiting, served), (2, 0), "the program has read both");
    assert!(delay >= Span::from_millis(1), "{delay}");
    // The program answers the second, and then the first.
    guarded.write(1, b"answer");
    let (waiting, later, served) = guarded.sample();
    assert_eq!((waiting, served), (1, 1));
    assert!(later > delay, "{later}: the first still waits");
    guarded.write(1, b"and more");
    assert_eq!(guarded.sample().2, 0, "it is answered once");
    guarded.abort();
    assert_eq!(guarded.sample().0, 1, "an answered connection may end");
    guarded.write(0, b"answer");
    assert_eq!(guarded.sample(), (0, Span::ZERO, 1));
    guarded.world.send(0, b"more");
    assert_eq!(guarded.sample().0, 0, "it was admitted before");
}

//~ guard: `run --measure first-byte` takes no long poll for a queue
#[test]
fn a_long_poll_waits_no_longer() {
    let mut guarded = GuardedWorld::asked(WaitEnd::Answer);
    guarded.write(1, b"answer");
    assert_eq!(guarded.sample().0, 1);
    guarded.world.now += Span::from_secs(2);
    assert_eq!(guarded.sample(), (0, Span::ZERO, 0), "it was overtaken long ago");
    let responses = guarded.signals.lock().unwrap().last().and_then(|signals| signals.responses);
    assert!(responses.is_some_and(|responses| responses.time < Span::from_secs(1)), "{responses:?}");
    guarded.write(0, b"an event");
    assert_eq!(guarded.sample().0, 0);
}
