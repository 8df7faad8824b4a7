//! Streams, a client's stack on the same wire, and programs of memory.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use net::classify::Verdict;
use net::device::memory::{MemoryDevice, pair};
use net::stack::{CloseReason, Config, EventKind};
use proptest::prelude::*;
use sched::dispatch::{Params, Steering};

use super::*;
use crate::mode::{Classifiers, Mode};

/// A program's end of a connection, in its hands and ours.
#[derive(Default)]
struct End {
    conn: Option<ConnId>,
    /// Bytes that wait for the program, and how many may.
    inbound: VecDeque<u8>,
    room: usize,
    /// Bytes that it has written.
    outbound: VecDeque<u8>,
    /// It writes no more; it reads no more; it is gone, perhaps with bytes unread.
    shut: bool,
    deaf: bool,
    gone: bool,
    unread: bool,
    /// It knows that nothing more comes.
    finished: bool,
    /// We have let go.
    dropped: bool,
    wanted: bool,
}

struct Half(Rc<RefCell<End>>);

impl Drop for Half {
    fn drop(&mut self) {
        self.0.borrow_mut().dropped = true;
    }
}

impl Pipe for Half {
    fn write(&mut self, bytes: &[u8]) -> Wrote {
        let mut end = self.0.borrow_mut();
        assert!(!bytes.is_empty() && !end.finished, "there is something, and it is not over");
        if end.deaf || end.gone {
            return Wrote::Gone;
        }
        let taken = bytes.len().min(end.room - end.inbound.len());
        end.inbound.extend(&bytes[..taken]);
        if taken == 0 { Wrote::Full } else { Wrote::Some(taken) }
    }

    fn read(&mut self, bytes: &mut [u8]) -> Read {
        let mut end = self.0.borrow_mut();
        let taken = end.outbound.len().min(bytes.len());
        if taken == 0 {
            return match () {
                () if end.gone && end.unread => Read::Reset,
                () if end.gone || end.shut => Read::End,
                () => Read::Nothing,
            };
        }
        end.outbound.drain(..taken).zip(bytes).for_each(|(byte, place)| *place = byte);
        Read::Some(taken)
    }

    fn finish(&mut self) {
        self.0.borrow_mut().finished = true;
    }

    fn want_room(&mut self, wanted: bool) {
        self.0.borrow_mut().wanted = wanted;
    }
}

/// One program that takes every connection, or none.
#[derive(Default)]
struct Program {
    happened: Vec<Happened>,
    ends: Vec<Rc<RefCell<End>>>,
    /// Of the connections that it is offered.
    room: usize,
    refuses: bool,
}

impl Programs for Program {
    type Pipe = Half;

    fn poll(&mut self, into: &mut Vec<Happened>) -> bool {
        into.append(&mut self.happened);
        !into.is_empty()
    }

    fn offer(&mut self, conn: ConnId, local: SocketAddr, _: SocketAddr) -> Option<Half> {
        assert_eq!(local, HERE.parse().unwrap());
        let end = End { conn: Some(conn), room: self.room, ..End::default() };
        let end = Rc::new(RefCell::new(end));
        self.ends.push(end.clone());
        (!self.refuses).then_some(Half(end))
    }
}

const HERE: &str = "10.0.0.1:80";

struct World {
    now: Time,
    streams: Streams<MemoryDevice, Program>,
    near: MemoryDevice,
    client: Stack,
    far: MemoryDevice,
    conns: Vec<ConnId>,
    /// What the client received, and how its connections ended.
    received: Vec<u8>,
    closed: Vec<EventKind>,
}

impl World {
    /// With one connection; `room`: bytes that wait for a program.
    fn new(room: usize) -> Self {
        let mut world = Self::without(room);
        world.connect();
        world
    }

    fn without(room: usize) -> Self {
        let tcp = |host| Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]);
        // A digit is a level.
        let classifiers = Classifiers {
            transport: Some(Arc::new(|flow| match flow.payload.first() {
                Some(digit @ b'0'..=b'7') => Verdict::Level(digit - b'0'),
                _ => Verdict::Keep,
            })),
            driver: None,
        };
        let policy = Mode::Adps.policy(classifiers, &Params::new(1, 64), Steering::all(1));
        let program = Program { room, happened: vec![Happened::Listen(80)], ..Program::default() };
        let (near, far) = pair(256, 1514);
        Self {
            now: Time::from_nanos(1),
            streams: Streams::new(tcp(1), policy, 256, program),
            near,
            client: Stack::new(tcp(2)),
            far,
            conns: Vec::new(),
            received: Vec::new(),
            closed: Vec::new(),
        }
    }

    fn connect(&mut self) {
        self.settle();
        self.conns.push(self.client.connect(self.now, HERE.parse().unwrap(), None).unwrap());
        self.settle();
    }

    fn client_turn(&mut self) -> bool {
        self.client.handle_timeout(self.now);
        let mut busy = false;
        while self.client.ingress_from(self.now, &mut self.far) {
            busy = true;
        }
        while let Some(event) = self.client.poll_event() {
            match event.kind {
                EventKind::Readable { .. } => {
                    let bytes = self.client.received(event.conn);
                    self.received.extend_from_slice(bytes);
                    let len = bytes.len();
                    self.client.consume(self.now, event.conn, len);
                }
                EventKind::PeerClosed | EventKind::Closed(_) => self.closed.push(event.kind),
                _ => {}
            }
        }
        busy | (self.client.egress(self.now, &mut self.far) > 0)
    }

    /// Turns both until nothing moves.
    fn settle(&mut self) {
        loop {
            self.now += Span::from_micros(5);
            let mut busy = self.client_turn();
            busy |= self.streams.turn(self.now, &mut self.near);
            if !busy {
                return;
            }
        }
    }

    fn end(&self, n: usize) -> Rc<RefCell<End>> {
        self.streams.programs.ends[n].clone()
    }

    /// Tells us what the program has done to its `n`th connection.
    fn tell(&mut self, n: usize) {
        let end = self.end(n);
        let end = end.borrow();
        let writable = end.wanted && end.inbound.len() < end.room;
        let conn = end.conn.expect("it was offered");
        self.streams.programs.happened.push(Happened::Pipe {
            conn,
            readable: true,
            writable,
            gone: end.gone,
        });
    }

    fn send(&mut self, n: usize, bytes: &[u8]) -> usize {
        self.client.send(self.now, self.conns[n], bytes).unwrap()
    }
}

#[test]
fn bytes_pass_both_ways_and_ends_are_told() {
    let mut world = World::new(1000);
    world.send(0, b"request");
    world.settle();
    let end = world.end(0);
    assert_eq!(end.borrow().inbound, *b"request");
    end.borrow_mut().outbound.extend(b"response");
    world.tell(0);
    world.settle();
    assert_eq!(world.received, b"response");
    world.client.close(world.now, world.conns[0]);
    world.settle();
    assert!(end.borrow().finished && !end.borrow().dropped, "the program may still answer");
    end.borrow_mut().outbound.extend(b" and more");
    end.borrow_mut().gone = true;
    world.tell(0);
    world.settle();
    assert_eq!(world.received, b"response and more");
    assert!(world.closed.contains(&EventKind::PeerClosed), "{:?}", world.closed);
    assert_eq!((world.streams.connections(), end.borrow().dropped), (0, true));
    assert_eq!((world.streams.counters.reset, world.streams.counters.ended), (0, 1));
}

#[test]
fn a_program_that_only_stops_writing_still_reads() {
    let mut world = World::new(1000);
    let end = world.end(0);
    end.borrow_mut().outbound.extend(b"all");
    end.borrow_mut().shut = true;
    world.tell(0);
    world.settle();
    assert_eq!((&world.received[..], &world.closed[..]), (&b"all"[..], &[EventKind::PeerClosed][..]));
    world.send(0, b"late");
    world.settle();
    assert_eq!(end.borrow().inbound, *b"late");
}

#[test]
fn a_killed_program_frees_its_connections() {
    let mut world = World::new(4);
    (0..7).for_each(|_| world.connect());
    // Two with bytes that nobody read, one with more than there was room for.
    world.send(0, b"four");
    world.send(1, b"more than four");
    world.settle();
    assert_eq!((world.streams.connections(), world.streams.stack.connections()), (8, 8));
    for n in 0..8 {
        let end = world.end(n);
        let unread = !end.borrow().inbound.is_empty();
        end.borrow_mut().unread = unread;
        end.borrow_mut().gone = true;
        world.tell(n);
    }
    world.settle();
    assert_eq!(world.streams.connections(), 0);
    assert_eq!(world.streams.counters.reset, 2);
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
    assert_eq!(world.streams.stack.connections(), 0, "nothing is kept of them");
}

#[test]
fn what_a_program_answered_before_it_closed_in_haste_goes_out() {
    let mut world = World::new(100);
    world.send(0, b"a long story");
    world.settle();
    let end = world.end(0);
    end.borrow_mut().outbound.extend(b"denied");
    end.borrow_mut().gone = true;
    end.borrow_mut().unread = true;
    world.tell(0);
    world.settle();
    assert_eq!((&world.received[..], world.streams.connections()), (&b"denied"[..], 0));
    assert_eq!(world.closed, [EventKind::Closed(CloseReason::Reset)]);
}

#[test]
fn what_comes_for_a_closed_program_resets() {
    let mut world = World::new(100);
    world.end(0).borrow_mut().gone = true;
    world.tell(0);
    world.settle();
    world.send(0, b"anybody there?");
    world.settle();
    assert_eq!(world.closed, [EventKind::PeerClosed, EventKind::Closed(CloseReason::Reset)]);
}

#[test]
fn what_a_program_does_not_hear_is_counted() {
    let mut world = World::new(100);
    let end = world.end(0);
    end.borrow_mut().deaf = true;
    world.send(0, b"hello");
    world.settle();
    end.borrow_mut().outbound.extend(b"talking");
    world.tell(0);
    world.settle();
    assert_eq!((&world.received[..], world.streams.counters.bytes_unheard), (&b"talking"[..], 5));
}

#[test]
fn a_connection_that_nobody_takes_is_reset() {
    let mut world = World::without(100);
    world.streams.programs.refuses = true;
    world.connect();
    assert_eq!(world.closed, [EventKind::Closed(CloseReason::Reset)]);
    assert_eq!((world.streams.counters.untaken, world.streams.connections()), (1, 0));
    world.streams.programs.happened.push(Happened::Unlisten(80));
    world.connect();
    assert_eq!((world.closed.len(), world.streams.counters.untaken), (2, 1), "refused at once");
}

#[test]
fn closing_resets_where_that_was_asked_for() {
    let mut world = World::new(100);
    let end = world.end(0);
    let conn = end.borrow().conn.unwrap();
    world.streams.programs.happened.push(Happened::Set(conn, Setting::ResetOnClose(true)));
    end.borrow_mut().gone = true;
    world.tell(0);
    world.settle();
    assert_eq!(world.closed, [EventKind::Closed(CloseReason::Reset)]);
}

#[test]
fn a_peer_that_resets_takes_the_pipe_along() {
    let mut world = World::new(100);
    world.client.abort(world.now, world.conns[0]);
    world.settle();
    assert!(world.end(0).borrow().dropped);
    assert_eq!((world.streams.connections(), world.streams.counters.ended), (0, 1));
}

#[test]
fn the_most_urgent_is_handed_over_first() {
    let mut world = World::new(100);
    (0..3).for_each(|_| world.connect());
    let levels = [b"5", b"7", b"0", b"5"];
    for (n, level) in levels.iter().enumerate() {
        world.send(n, *level);
        world.client.egress(world.now, &mut world.far);
    }
    // All four are through TCP before any is handed over.
    world.streams.drive(world.now, &mut world.near);
    world.streams.transport(world.now, &mut world.near);
    world.streams.take_events(world.now);
    let queued: Vec<usize> = world.streams.inbound.iter().map(VecDeque::len).collect();
    assert_eq!(queued, [1, 0, 0, 0, 0, 2, 0, 1]);
    // A program that is full keeps nobody else waiting.
    world.end(2).borrow_mut().room = 0;
    world.streams.hand_over(world.now);
    let got: Vec<usize> = (0..4).map(|n| world.end(n).borrow().inbound.len()).collect();
    assert_eq!(got, [1, 1, 0, 1]);
    assert!(world.end(2).borrow().wanted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The model: what one side writes is what the other reads, however small
    /// the pipe and however slow the program.
    #[test]
    fn streams_arrive_whole_and_in_order(
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
            world.tell(0);
            world.settle();
        }
        prop_assert!(read == to_program && world.received == to_client);
        let Counters { bytes_in, bytes_out, .. } = *world.streams.counters();
        prop_assert_eq!((bytes_in, bytes_out), (inbound as u64, outbound as u64));
    }
}
