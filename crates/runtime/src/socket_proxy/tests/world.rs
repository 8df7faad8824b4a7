//! A socket proxy, a client's stack on the same wire, and in-memory programs.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use classify::{PacketMeta, PacketView, Private, Verdict};
use net::device::ReceivedFrame;
use net::device::memory::{MemoryDevice, pair};
use net::stack::{Config, EventKind, Info, UdpDatagram, Unreachable};
use queueing::Span;
use sched::dispatch::{Params, Steering};
use wire::ip::TrafficClass;
use wire::tcp::Flags;

use super::super::*;
use crate::mode::{Classifiers, Mode};
use crate::shard::Slow;

/// Application end of a connection, shared between proxy and test.
#[derive(Default)]
pub(super) struct End {
    pub(super) conn: Option<ConnId>,
    /// Bytes that wait for the program, and their maximum.
    pub(super) inbound: VecDeque<u8>,
    pub(super) room: usize,
    /// Bytes that the program has written.
    pub(super) outbound: VecDeque<u8>,
    /// True if more follows the last write.
    pub(super) more: bool,
    /// Writing ended; reading ended; closed; closed with unread bytes.
    pub(super) shut: bool,
    pub(super) read_shut: bool,
    pub(super) gone: bool,
    pub(super) unread: bool,
    /// True once the input has ended.
    pub(super) finished: bool,
    /// True once the proxy has dropped its end.
    pub(super) dropped: bool,
    /// True during the handshake.
    pub(super) opening: bool,
    pub(super) wanted: bool,
    /// Published levels, with the number of waiting bytes at that time.
    pub(super) levels: Vec<(Priority, usize)>,
    /// Rank among all ends by first read.
    pub(super) read_as: Option<u32>,
    reads: Rc<Cell<u32>>,
}

pub(super) struct Half(pub(super) Rc<RefCell<End>>);

impl Drop for Half {
    fn drop(&mut self) {
        self.0.borrow_mut().dropped = true;
    }
}

impl AppStream for Half {
    fn publish(&mut self, level: Priority, _: &Private) {
        let mut end = self.0.borrow_mut();
        let had = end.inbound.len();
        end.levels.push((level, had));
    }

    fn write(&mut self, bytes: &[u8]) -> WriteResult {
        let mut end = self.0.borrow_mut();
        assert!(!bytes.is_empty() && !end.finished, "there is something, and it is not over");
        if end.read_shut || end.gone {
            return WriteResult::Closed;
        }
        let taken = bytes.len().min(end.room - end.inbound.len());
        end.inbound.extend(&bytes[..taken]);
        if taken == 0 { WriteResult::Full } else { WriteResult::Some(taken) }
    }

    fn read(&mut self, bytes: &mut [u8]) -> ReadResult {
        let mut end = self.0.borrow_mut();
        assert!(!end.opening, "nothing is collected before the handshake is complete");
        let taken = end.outbound.len().min(bytes.len());
        if taken == 0 {
            return match () {
                () if end.gone && end.unread => ReadResult::Reset,
                () if end.gone || end.shut => ReadResult::End,
                () => ReadResult::Nothing,
            };
        }
        if end.read_as.is_none() {
            end.read_as = Some(end.reads.replace(end.reads.get() + 1));
        }
        end.outbound.drain(..taken).zip(bytes).for_each(|(byte, slot)| *slot = byte);
        ReadResult::Some(taken)
    }

    fn take_more(&mut self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().more)
    }

    fn finish(&mut self) {
        self.0.borrow_mut().finished = true;
    }

    fn want_space(&mut self, wanted: bool) {
        self.0.borrow_mut().wanted = wanted;
    }

    fn is_unread(&self) -> bool {
        !self.0.borrow().inbound.is_empty()
    }
}

/// One program that accepts every connection, or none.
#[derive(Default)]
pub(super) struct Program {
    pub(super) events: Vec<AppEvent>,
    /// Events that another stack has left for this one.
    pub(super) posted: Vec<AppEvent>,
    pub(super) ends: Vec<Rc<RefCell<End>>>,
    /// Pipe size of offered connections.
    pub(super) room: usize,
    pub(super) refuses: bool,
    /// Options that each new connection inherits.
    pub(super) inherited: Vec<SocketOption>,
    /// Failed active opens.
    pub(super) connects_failed: Vec<ConnectFailure>,
    /// Answers to queries of connections.
    pub(super) answers: Vec<(u64, Option<Info>, KeepAlive)>,
    /// Input of the first connection when the last request was answered.
    pub(super) inbound_at_answer: Vec<u8>,
    reads: Rc<Cell<u32>>,
    pub(super) mail: Mail,
}

/// UDP sockets.
#[derive(Default)]
pub(super) struct Mail {
    /// Socket that gets deliveries.
    pub(super) taker: u64,
    /// Deliveries, the marks of the last, their maximum, and true if several sockets share the
    /// port.
    pub(super) delivered: Vec<Vec<u8>>,
    pub(super) marked: TrafficClass,
    pub(super) room: usize,
    pub(super) shared: bool,
    /// True if no socket receives deliveries.
    pub(super) unwanted: bool,
    /// Output with destination and socket; below, the sockets in the order in which they were read.
    pub(super) sent: VecDeque<(u64, SocketAddr, Vec<u8>)>,
    /// Segment length, marks, and the don't-fragment setting of the output.
    pub(super) segment: Option<usize>,
    pub(super) marks: TrafficClass,
    pub(super) dont_fragment: bool,
    pub(super) taken: Vec<u64>,
    /// True with UDP_GRO, and the number of deliveries.
    pub(super) merges: bool,
    pub(super) calls: usize,
    /// True once the sockets are closed.
    pub(super) gone: bool,
    /// Undeliverable output.
    pub(super) undelivered: Vec<(u16, SocketAddr)>,
}

impl AppSockets for Program {
    type Pipe = Half;

    fn poll(&mut self, into: &mut Vec<AppEvent>) -> bool {
        into.append(&mut self.events);
        !into.is_empty()
    }

    fn poll_other_stacks(&mut self, into: &mut Vec<AppEvent>) -> bool {
        into.append(&mut self.posted);
        !into.is_empty()
    }

    fn offer(&mut self, conn: ConnId, local: SocketAddr, _: SocketAddr) -> Option<Half> {
        assert_eq!(local, HERE.parse().unwrap());
        let end = End { conn: Some(conn), room: self.room, reads: self.reads.clone(), ..End::default() };
        let end = Rc::new(RefCell::new(end));
        self.ends.push(end.clone());
        (!self.refuses).then_some(Half(end))
    }

    fn inherited(&mut self, into: &mut Vec<SocketOption>) {
        into.extend(&self.inherited);
    }

    fn answer(&mut self, call: u64, info: Option<&Info>, keep_alive: KeepAlive) {
        self.answers.push((call, info.copied(), keep_alive));
        self.inbound_at_answer =
            self.ends.first().map_or(vec![], |end| end.borrow().inbound.iter().copied().collect());
    }

    fn opening(&mut self, _: u64, conn: ConnId, local: SocketAddr, remote: SocketAddr) -> Option<Half> {
        assert_eq!((local.ip(), remote), ([10, 0, 0, 1].into(), THERE.parse().unwrap()));
        let end = End { conn: Some(conn), room: self.room, opening: true, ..End::default() };
        let end = Rc::new(RefCell::new(end));
        self.ends.push(end.clone());
        (!self.refuses).then_some(Half(end))
    }

    fn refuse(&mut self, _: u64, why: ConnectFailure) {
        self.connects_failed.push(why);
    }

    fn opened(&mut self, _: ConnId, pipe: &mut Half) {
        assert!(std::mem::take(&mut pipe.0.borrow_mut().opening), "once");
    }

    fn failed(&mut self, _: ConnId, why: ConnectFailure) {
        self.connects_failed.push(why);
    }

    fn merges(&mut self, _: u16) -> bool {
        self.mail.merges
    }

    fn deliver(&mut self, port: u16, datagram: &UdpDatagram, segment: usize) -> DeliveryResult {
        assert_eq!(SocketAddr::new(datagram.local, port), MAIL.parse().unwrap());
        assert!(segment == 0 || self.mail.merges, "it does not want that");
        let mail = &mut self.mail;
        if mail.unwanted {
            return DeliveryResult::NoSocket;
        }
        if mail.delivered.len() >= mail.room {
            return if mail.shared { DeliveryResult::Dropped } else { DeliveryResult::Full };
        }
        let all = &datagram.payload;
        let segment = if segment == 0 { all.len().max(1) } else { segment };
        match all.is_empty() {
            true => mail.delivered.push(Vec::new()),
            false => mail.delivered.extend(all.chunks(segment).map(<[u8]>::to_vec)),
        }
        mail.calls += 1;
        mail.marked = datagram.marks;
        DeliveryResult::Delivered(mail.taker)
    }

    fn next_datagram(&mut self, socket: u64, _: Priority, bytes: &mut [u8]) -> OutgoingDatagram {
        let mail = &mut self.mail;
        let Some(at) = mail.sent.iter().position(|(from, ..)| *from == socket) else {
            return if mail.gone {
                OutgoingDatagram::End { port: 53, last: true }
            } else {
                OutgoingDatagram::Nothing
            };
        };
        let (_, to, payload) = mail.sent.remove(at).unwrap();
        mail.taken.push(socket);
        bytes[..payload.len()].copy_from_slice(&payload);
        OutgoingDatagram::Out {
            from: MAIL.parse().unwrap(),
            to,
            len: payload.len(),
            segment: mail.segment.unwrap_or(payload.len()),
            marks: mail.marks,
            dont_fragment: mail.dont_fragment,
            hops: 64,
        }
    }

    fn undelivered(&mut self, port: u16, remote: SocketAddr, _: Unreachable) {
        self.mail.undelivered.push((port, remote));
    }
}

/// Payload and level of a packet with payload, or of a SYN.
fn level_of(packet: &PacketView<'_>) -> Option<(Vec<u8>, u8)> {
    let ip = packet.ip()?;
    let level = Config::DSCP.iter().position(|dscp| *dscp == ip.dscp())?;
    let (.., payload) = ip.transport()?;
    let opens = ip.tcp_flags().is_some_and(|flags| flags.contains(Flags::SYN));
    (opens || !payload.is_empty()).then(|| (payload.to_vec(), level as u8))
}

pub(super) const HERE: &str = "10.0.0.1:80";
/// Address of the program's UDP socket.
pub(super) const MAIL: &str = "10.0.0.1:53";
/// Address of the client's listener.
pub(super) const THERE: &str = "10.0.0.2:90";

pub(super) struct World {
    pub(super) now: Time,
    pub(super) proxy: SocketProxy<MemoryDevice, Program>,
    pub(super) near: MemoryDevice,
    pub(super) client: Stack,
    pub(super) far: MemoryDevice,
    pub(super) conns: Vec<ConnId>,
    /// Bytes that the client received, and the ends of its connections.
    pub(super) received: Vec<u8>,
    pub(super) closed: Vec<EventKind>,
    /// True if the client leaves input unread.
    pub(super) read_shut: bool,
    /// Payload and level, by DSCP, of the frames that the client received, SYNs included.
    pub(super) frames: Vec<(Vec<u8>, u8)>,
}

impl World {
    /// A world with one connection; `room`: pipe size in bytes.
    pub(super) fn new(room: usize) -> Self {
        let mut world = Self::without(room);
        world.connect();
        world
    }

    pub(super) fn without(room: usize) -> Self {
        let tcp = |host| Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]);
        // A digit is a level.
        let classifiers = Classifiers {
            transport: Some(Arc::new(|flow| match flow.payload.first() {
                Some(digit @ b'0'..=b'7') => Verdict::Level(digit - b'0'),
                _ => Verdict::NoVerdict,
            })),
            ..Classifiers::default()
        };
        let policy = Mode::Adps.policy(classifiers, &Params::new(1, 64), Steering::all(1));
        let program = Program {
            room,
            events: vec![AppEvent::Listen { port: 80, fast_open: 0, hops: Default::default() }],
            ..Program::default()
        };
        let (near, far) = pair(256, 1514);
        Self {
            now: Time::from_nanos(1),
            proxy: SocketProxy::new(tcp(1), policy, 256, program),
            near,
            client: Stack::new(Config { fast_open_cookies: 8, ..tcp(2) }),
            far,
            conns: Vec::new(),
            received: Vec::new(),
            closed: Vec::new(),
            read_shut: false,
            frames: Vec::new(),
        }
    }

    pub(super) fn connect(&mut self) {
        self.settle();
        self.conns.push(self.client.connect(self.now, HERE.parse().unwrap(), None).unwrap());
        self.settle();
    }

    pub(super) fn client_turn(&mut self) -> bool {
        self.client.handle_timeout(self.now);
        let mut busy = false;
        while let Some(ReceivedFrame { frame, .. }) = self.far.receive(self.now) {
            let meta = PacketMeta::new(self.now, frame.as_ref().len());
            self.frames.extend(level_of(&PacketView::new(frame.as_ref(), &meta)));
            self.client.ingress(self.now, frame.as_ref(), &meta);
            self.far.recycle(frame);
            busy = true;
        }
        while let Some(event) = self.client.poll_event() {
            match event.kind {
                EventKind::Readable { .. } if self.read_shut => {}
                EventKind::Readable { .. } => {
                    let bytes = self.client.received(event.conn);
                    self.received.extend_from_slice(bytes);
                    let len = bytes.len();
                    self.client.consume(self.now, event.conn, len);
                }
                EventKind::Accepted(_) => self.conns.push(event.conn),
                EventKind::PeerClosed | EventKind::Closed(_) => self.closed.push(event.kind),
                _ => {}
            }
        }
        busy | (self.client.egress(self.now, &mut self.far) > 0)
    }

    /// Opens a connection to [`THERE`] from the program.
    pub(super) fn open(&mut self) {
        let (to, port) = (THERE.parse().unwrap(), None);
        self.proxy.programs.events.push(AppEvent::Connect { call: 1, to, port, hops: HopLimits::default() });
    }

    /// Runs both sides until nothing moves.
    pub(super) fn settle(&mut self) {
        loop {
            self.now += Span::from_micros(5);
            let mut busy = self.client_turn();
            busy |= self.proxy.step(self.now, &mut self.near);
            if !busy {
                return;
            }
        }
    }

    pub(super) fn end(&self, n: usize) -> Rc<RefCell<End>> {
        self.proxy.programs.ends[n].clone()
    }

    /// Reports the program's actions on its `n`th connection to the proxy.
    pub(super) fn notify(&mut self, n: usize) {
        let end = self.end(n);
        let end = end.borrow();
        let writable = end.wanted && end.inbound.len() < end.room;
        let conn = end.conn.expect("it was offered");
        if end.shut {
            self.proxy.programs.events.push(AppEvent::Shut(conn));
        }
        self.proxy.programs.events.push(AppEvent::Pipe { conn, readable: true, writable, gone: end.gone });
    }

    pub(super) fn send(&mut self, n: usize, bytes: &[u8]) -> usize {
        self.client.send(self.now, self.conns[n], bytes).unwrap()
    }

    /// Sends `bytes` from the client and runs until they are received.
    pub(super) fn ask(&mut self, n: usize, bytes: &[u8]) {
        assert_eq!(self.send(n, bytes), bytes.len());
        self.settle();
    }

    /// Output of the program on its `n`th connection.
    pub(super) fn answer(&mut self, n: usize, bytes: &[u8]) {
        self.end(n).borrow_mut().outbound.extend(bytes);
        self.notify(n);
        self.settle();
    }

    /// Closes the program's end of its `n`th connection.
    pub(super) fn leave(&mut self, n: usize) {
        self.end(n).borrow_mut().gone = true;
        self.notify(n);
        self.settle();
    }

    /// Slow requests since the last snapshot, and the number that waited together so far.
    pub(super) fn slow(&mut self) -> (Vec<Slow>, u64) {
        let mut seen = ProxySnapshot::default();
        self.proxy.show(&mut seen);
        (seen.slow.take(), seen.together)
    }
}
