//! Fuzz target: a socket server and its programs in one process, with requests, datagrams and bytes
//! in any order, and hostile shared memory.
//!
//! Properties: no panic and no blocking call. Each request with a pair is answered, at once or by
//! the stack. A stream arrives complete and in order by either path, unless the shared memory was
//! corrupted. A datagram arrives as it was sent. Start and end of listening are reported. Once all
//! programs are gone, no event follows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use net::stack::HopLimits;
use rustix::io::{Errno, pwrite};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, recv, send,
    shutdown, socket_with, socketpair,
};

use super::super::server::{Arrived, Delivered, QueuedDatagram, SocketEvent, SocketServer};
use super::super::{
    ANSWER_BYTES, AccessKey, Answer, Cmsg, ConnPair, DatagramHeader, DatagramOptions, KernelSocketInfo, Name,
    ProgramRead, Request, Reuse, Routes, ShmSendBuffers, SocketInfo, Wrote, client, datagram_header,
    scm_rights, shm_send, socket_name,
};
use crate::fuzz::input::{Input, pattern};

const SECRET: AccessKey = *b"programs know it";
const QUIET: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
/// Addresses that programs bind or connect to: local, on the subnet, beyond it.
const ADDRS: [&str; 8] = [
    "10.0.0.1:80",
    "10.0.0.1:0",
    "0.0.0.0:80",
    "[fd00::1]:80",
    "[::]:53",
    "10.0.0.1:53",
    "10.0.0.9:80",
    "203.0.113.9:80",
];
/// Maximum number of files of each kind.
const FILES_MAX: usize = 12;

/// A connection, with both ends.
struct Stream {
    id: u64,
    pipe: Option<ConnPair>,
    /// The program's end, once received.
    end: Option<OwnedFd>,
    /// Bytes written by the program, and read by the stack.
    written: u32,
    read: u32,
}

struct World {
    socket_server: SocketServer,
    control: OwnedFd,
    to: SocketAddrUnix,
    /// Programs' ends: of listeners, of UDP sockets, and of pending requests.
    listeners: Vec<OwnedFd>,
    mailboxes: Vec<OwnedFd>,
    questions: Vec<OwnedFd>,
    streams: Vec<Stream>,
    made: u64,
    /// Requests that the stack has not answered.
    connects: Vec<u64>,
    asked: Vec<u64>,
    pending_datagrams: BTreeSet<u64>,
    listens: BTreeMap<u16, bool>,
    file: OwnedFd,
    outboxes: ShmSendBuffers,
    /// True once the shared memory was corrupted.
    is_corrupted: bool,
}

pub(crate) fn requests(data: &[u8]) {
    let Some(mut world) = World::new() else { return };
    let mut input = Input(data);
    for _ in 0..300 {
        if world.step(&mut input).is_none() {
            break;
        }
        world.poll();
    }
    world.end();
}

impl World {
    /// `None` if the process has no descriptor or no memory left.
    fn new() -> Option<Self> {
        let addrs = vec!["10.0.0.1".parse().ok()?, "fd00::1".parse().ok()?];
        let mut socket_server = SocketServer::open(SECRET).ok()?;
        socket_server.set_routes(Routes { subnets: vec![(addrs[0], 24)], addrs, ..Routes::default() });
        let control = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).ok()?;
        let run = u32::from_be_bytes([SECRET[0], SECRET[1], SECRET[2], SECRET[3]]) ^ std::process::id();
        let to = SocketAddrUnix::new_abstract_name(client::server_name(run).as_bytes()).ok()?;
        let mut world = Self {
            // Replaced below by the server's files.
            file: control.try_clone().ok()?,
            outboxes: ShmSendBuffers::new(1).ok()?.0,
            socket_server,
            control,
            to,
            listeners: Vec::new(),
            mailboxes: Vec::new(),
            questions: Vec::new(),
            streams: Vec::new(),
            made: 0,
            connects: Vec::new(),
            asked: Vec::new(),
            pending_datagrams: BTreeSet::new(),
            listens: BTreeMap::new(),
            is_corrupted: false,
        };
        let (answer, end) = world.ask(&Request::Outboxes)?;
        assert_eq!(answer, Some(Answer::Done));
        world.file = scm_rights::receive_now(&end, &mut [0; 16]).ok()?.fd.expect("the send buffers");
        world.outboxes = ShmSendBuffers::map(world.file.as_fd()).ok()?;
        let (answer, end) = world.ask(&Request::Labels)?;
        assert_eq!(answer, Some(Answer::Done));
        let labels = scm_rights::receive_now(&end, &mut [0; 16]).ok()?.fd.expect("the label table");
        assert!(pwrite(&labels, &[1], 200).is_err(), "programs must not write labels");
        Some(world)
    }

    /// Sends a request and polls the server; returns the answer, if there is one yet.
    fn ask(&mut self, request: &Request) -> Option<(Option<Answer>, OwnedFd)> {
        self.ask_bytes(&request.encode(&SECRET), &[])
    }

    fn ask_bytes(&mut self, bytes: &[u8], more: &[u8]) -> Option<(Option<Answer>, OwnedFd)> {
        let (end, server_end) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).ok()?;
        if !more.is_empty() {
            let _ = send(&end, more, QUIET);
        }
        scm_rights::send(&self.control, Some(&self.to), bytes, server_end.as_fd()).ok()?;
        drop(server_end);
        self.poll();
        let mut answer = [0; ANSWER_BYTES];
        let answer = match recv(&end, &mut answer, RecvFlags::DONTWAIT | RecvFlags::PEEK) {
            Ok((len, _)) => Answer::decode(&answer[..len]),
            Err(_) => None,
        };
        if answer.is_some() {
            // A descriptor in the answer is a connection.
            let opened =
                scm_rights::receive_now(&end, &mut [0; ANSWER_BYTES]).ok().and_then(|message| message.fd);
            if let Some(opened) = opened {
                self.take_end(opened);
            }
        }
        Some((answer, end))
    }

    /// Stores the program's end of a connection that it has opened or accepted.
    fn take_end(&mut self, end: OwnedFd) {
        let id = Name::of(end.as_fd()).map(|name| name.id);
        if let Some(stream) = self.streams.iter_mut().find(|stream| Some(stream.id) == id) {
            stream.end = Some(end);
        }
    }

    /// Polls the server and checks its events.
    fn poll(&mut self) {
        let mut happened = Vec::new();
        for _ in 0..8 {
            if !self.socket_server.poll(&mut happened) {
                break;
            }
        }
        self.desk_told(&happened);
        let kinds = self.socket_server.refused().count();
        assert!(kinds <= 1024, "{kinds} kinds of refusals");
        self.socket_server.outboxes().written(0, |_| ());
    }

    fn desk_told(&mut self, happened: &[SocketEvent]) {
        for what in happened {
            match *what {
                SocketEvent::Listen { port, .. } => {
                    self.listens.insert(port, true);
                }
                SocketEvent::Unlisten(port) => {
                    self.listens.insert(port, false);
                }
                SocketEvent::Connect { call, .. } => self.connects.push(call),
                SocketEvent::Asked { call, .. } => self.asked.push(call),
                SocketEvent::DatagramReadable(id) => {
                    self.pending_datagrams.insert(id);
                }
                SocketEvent::Pipe { id, readable, gone, .. } => {
                    let stream = self.streams.iter_mut().find(|stream| stream.id == id);
                    if let Some(pipe) = stream.and_then(|stream| stream.pipe.as_mut()).filter(|_| readable) {
                        pipe.arrived(gone);
                    }
                }
                _ => {}
            }
        }
    }

    /// One action; `None` at the end of the input.
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.below(16)? {
            0..=3 => self.request(input)?,
            4 => self.nonsense(input)?,
            5 => self.offer(input)?,
            6 => self.accept(input)?,
            7 => self.write(input)?,
            8 => self.read(input)?,
            9 => self.hand(input)?,
            10 => self.corrupt(input)?,
            11 => self.answer(input)?,
            12 => self.deliver(input)?,
            13 => self.send_datagram(input)?,
            14 => self.drain_datagrams(input)?,
            _ => self.close(input)?,
        }
        Some(())
    }

    fn id(&self, input: &mut Input<'_>) -> Option<u64> {
        let (kind, at) = (input.below(4)?, usize::from(input.byte()?));
        let of = |ends: &[OwnedFd]| {
            let end = ends.get(at % ends.len().max(1))?;
            Name::of(end.as_fd()).map(|name| name.id)
        };
        let known = match kind {
            0 => of(&self.listeners),
            1 => of(&self.mailboxes),
            2 => self.streams.get(at % self.streams.len().max(1)).map(|stream| stream.id),
            _ => None,
        };
        Some(known.unwrap_or(u64::from(input.u16()?) << (at % 49)))
    }

    fn addr(input: &mut Input<'_>) -> Option<SocketAddr> {
        let mut addr: SocketAddr = input.one_of(&ADDRS)?.parse().expect("an address");
        let byte = input.byte()?;
        if byte >= 192 {
            addr.set_port(byte.into());
        }
        Some(addr)
    }

    fn request(&mut self, input: &mut Input<'_>) -> Option<()> {
        let flag = |bits: u8, bit: u8| bits >> bit & 1 == 1;
        let mut more = Vec::new();
        let request = match input.below(13)? {
            0 => {
                let (addr, bits) = (Self::addr(input)?, input.byte()?);
                let (v6_only, reuse_port) = (flag(bits, 0), flag(bits, 1));
                Request::Bind { addr, six: addr.is_ipv6(), v6_only, reuse_port }
            }
            1 => Request::Listen { id: self.id(input)?, backlog: input.one_of(&[0, 1, 2, 5, u32::MAX])? },
            2 => {
                let (to, bits) = (Self::addr(input)?, input.byte()?);
                let from = if flag(bits, 1) { self.id(input)? } else { 0 };
                let send_buffer = if flag(bits, 2) { 4096 } else { 0 };
                let hops = HopLimits { sent: bits, received_min: bits >> 4 };
                let (six, waits, low_water) = (to.is_ipv6(), flag(bits, 0), u32::from(bits >> 3));
                Request::Connect { to, six, waits, from, send_buffer, low_water, hops }
            }
            3 => {
                let (addr, bits) = (Self::addr(input)?, input.byte()?);
                let to = if flag(bits, 0) { Some(Self::addr(input)?) } else { None };
                let (v6_only, connects) = (flag(bits, 2), flag(bits, 3));
                let reuse = Reuse { addr: flag(bits, 4), port: flag(bits, 5) };
                let mut options = [0; DatagramOptions::LEN];
                if flag(bits, 6) {
                    options.iter_mut().zip(input.bytes(22)).for_each(|(to, byte)| *to = byte);
                }
                let (six, options) = (addr.is_ipv6(), DatagramOptions::decode(options));
                Request::Datagrams { addr, six, v6_only, reuse, options, to, connects }
            }
            4 => {
                let id = self.id(input)?;
                Request::Aim { id, to: if input.byte()? % 2 == 0 { Some(Self::addr(input)?) } else { None } }
            }
            5 => Request::Ends { id: self.id(input)? },
            6 => Request::Opening { id: self.id(input)? },
            7 => {
                let (id, len) = (self.id(input)?, usize::from(input.byte()?));
                more = input.bytes(len);
                Request::Rules { id }
            }
            8 | 9 => {
                let id = self.id(input)?;
                let (level, name) = Self::option(input)?;
                let value = [i32::from(input.byte()?) - 1, i32::from(input.byte()? % 2)];
                Request::Option { id, level, name, value }
            }
            10 => {
                let (level, name) = Self::option(input)?;
                Request::GetOption { id: self.id(input)?, level, name }
            }
            11 if input.byte()? % 2 == 0 => Request::Late {
                id: self.id(input)?,
                len: u32::from(input.u16()?) << 2,
                peek: input.byte()? % 2 == 0,
            },
            11 => Request::Private { id: self.id(input)?, bytes: [input.byte()?; 48] },
            _ => input.one_of(&[Request::Labels, Request::Outboxes, Request::Interface])?,
        };
        self.ask_and_check(request, &more)
    }

    fn option(input: &mut Input<'_>) -> Option<(i32, i32)> {
        let known = [
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            (libc::SOL_SOCKET, libc::SO_RCVBUF),
            (libc::SOL_SOCKET, libc::SO_BROADCAST),
            (libc::IPPROTO_TCP, libc::TCP_FASTOPEN),
            (libc::IPPROTO_TCP, libc::TCP_INFO),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
            (libc::IPPROTO_IP, libc::IP_TOS),
            (libc::SOL_UDP, libc::UDP_SEGMENT),
        ];
        let at = usize::from(input.byte()?);
        Some(known.get(at % 9).copied().unwrap_or((at as i32, i32::from(input.byte()?))))
    }

    /// Sends a request; asserts that it is answered or pending at the stack.
    fn ask_and_check(&mut self, request: Request, more: &[u8]) -> Option<()> {
        let open = self.connects.len() + self.asked.len();
        let (answer, end) = self.ask_bytes(&request.encode(&SECRET), more)?;
        if self.connects.len() + self.asked.len() > open {
            assert_eq!(answer, None, "{request:?} is answered by the stack");
            self.questions.push(end);
            self.questions.truncate(FILES_MAX);
            return Some(());
        }
        assert!(answer.is_some(), "{request:?} has no answer");
        let done = answer == Some(Answer::Done);
        match request {
            Request::Bind { .. } | Request::Datagrams { .. } => {
                let named = Name::of(end.as_fd());
                assert_eq!(named.is_some(), done, "{request:?} has a name if it succeeded");
                let ends = match request {
                    Request::Bind { .. } => &mut self.listeners,
                    _ => &mut self.mailboxes,
                };
                if done && ends.len() < FILES_MAX {
                    ends.push(end);
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Sends a malformed request, or a descriptor that is no pair.
    fn nonsense(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (kind, len) = (input.below(3)?, usize::from(input.byte()?));
        let bytes = input.bytes(len.min(120));
        let before: u64 = self.socket_server.refused().map(|(_, count)| count).sum();
        match kind {
            0 => {
                let _ = self.ask_bytes(&bytes, &[]);
                let after = self.socket_server.refused().map(|(_, count)| count).sum::<u64>();
                assert!(after > before || bytes.starts_with(&SECRET), "without the key");
            }
            1 => drop(self.ask_bytes(&[&SECRET[..], &bytes].concat(), &[])),
            // The server's answer goes to a socket that is not read.
            _ => {
                let request = Request::Interface.encode(&SECRET);
                let _ = scm_rights::send(&self.control, Some(&self.to), &request, self.control.as_fd());
            }
        }
        Some(())
    }

    /// A connection arrives from the network.
    fn offer(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (local, slot) = (Self::addr(input)?, u64::from(input.byte()? % 8));
        self.streams.retain(|stream| stream.pipe.is_some() || stream.end.is_some());
        // As in the stack, which reuses a slot once its connection is gone.
        let taken = self.streams.iter().any(|stream| stream.id >> 32 == slot && stream.pipe.is_some());
        if self.streams.len() >= FILES_MAX || taken {
            return Some(());
        }
        self.made += 1;
        let id = slot << 32 | self.made;
        let remote = if local.is_ipv4() { "10.0.0.9:4242" } else { "[fd00::9]:4242" };
        if let Ok(pipe) = self.socket_server.offer(id, local, remote.parse().expect("an address")) {
            self.streams.push(Stream { id, pipe: Some(pipe), end: None, written: 0, read: 0 });
        }
        Some(())
    }

    fn accept(&mut self, input: &mut Input<'_>) -> Option<()> {
        let at = usize::from(input.byte()?);
        let Some(listener) = self.listeners.get(at % self.listeners.len().max(1)) else { return Some(()) };
        let mut bytes = [0; socket_name::LEN];
        if let Ok(message) = scm_rights::receive_now(listener, &mut bytes)
            && let Some(end) = message.fd
        {
            assert!(Name::decode(&bytes[..message.len]).is_some(), "a connection comes with its name");
            self.take_end(end);
        }
        Some(())
    }

    /// The program writes to a connection: to its send buffer, or to the pair.
    fn write(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (at, ending) = (usize::from(input.byte()?), input.below(3)?);
        let len = input.one_of(&[1u32, 10, 500, 5000, 70_000])?;
        let (count, outboxes) = (self.streams.len().max(1), &self.outboxes);
        let Some(stream) = self.streams.get_mut(at % count) else { return Some(()) };
        let Some(end) = &stream.end else { return Some(()) };
        let bytes: Vec<u8> = (0..len).map(|i| pattern(stream.written.wrapping_add(i))).collect();
        let is_alone = || rustix::io::ioctl_fionread(end).is_ok() && !is_unsent(end);
        let put = ending != 0 && outboxes.put(stream.id, bytes.chunks(3000), is_alone);
        let taken = if put { bytes.len() } else { send(end, &bytes, QUIET).unwrap_or(0) };
        stream.written = stream.written.wrapping_add(taken as u32);
        Some(())
    }

    /// The stack reads from the program.
    fn read(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (at, len) = (usize::from(input.byte()?), input.one_of(&[1usize, 100, 8192, 200_000])?);
        let (count, is_corrupted) = (self.streams.len().max(1), self.is_corrupted);
        let Some(stream) = self.streams.get_mut(at % count) else { return Some(()) };
        let Some(pipe) = &mut stream.pipe else { return Some(()) };
        let mut bytes = vec![0; len];
        match pipe.read(&mut bytes) {
            ProgramRead::Some(taken) => {
                assert!((1..=len).contains(&taken), "{taken} bytes of {len}");
                let wanted = |i: usize| pattern(stream.read.wrapping_add(i as u32));
                let is_intact = (0..taken).all(|i| bytes[i] == wanted(i));
                assert!(is_corrupted || is_intact, "the program's bytes, in order");
                stream.read = stream.read.wrapping_add(taken as u32);
                assert!(is_corrupted || stream.read <= stream.written, "more bytes read than written");
            }
            ProgramRead::End | ProgramRead::Reset => stream.pipe = None,
            ProgramRead::Nothing => {}
        }
        Some(())
    }

    /// The stack writes to the program.
    fn hand(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (at, level) = (usize::from(input.byte()?), input.byte()?);
        let count = self.streams.len().max(1);
        let Some(stream) = self.streams.get_mut(at % count) else { return Some(()) };
        let Some(pipe) = &mut stream.pipe else { return Some(()) };
        pipe.tell(level, &[level; 48]);
        pipe.want_room(level % 2 == 0);
        match pipe.write(&[level; 300]) {
            Wrote::Some(taken) => assert!((1..=300).contains(&taken)),
            Wrote::Full => {}
            Wrote::Gone => stream.pipe = None,
        }
        Some(())
    }

    /// A hostile program writes anywhere in the memory of the send buffers.
    fn corrupt(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (which, slot) = (input.below(4)?, u64::from(input.byte()? % 8));
        let (at, word) = (u64::from(input.u16()?), u64::from(input.u16()?) << (input.byte()? % 64));
        // The stack's page, or a send buffer's words, or its bytes.
        let slots = 2 * 4096 + slot * (shm_send::BYTES as u64 + 64);
        let offset = match which {
            0 => at % 4096,
            1 => 4096 + at % 4096,
            2 => slots + at % 4 * 8,
            _ => slots + at,
        };
        let word = if word == 0 { u64::MAX } else { word };
        self.is_corrupted |= pwrite(&self.file, &word.to_ne_bytes(), offset / 8 * 8).is_ok();
        Some(())
    }

    /// The stack answers its pending requests.
    fn answer(&mut self, input: &mut Input<'_>) -> Option<()> {
        let how = input.below(4)?;
        if let Some(call) = self.asked.pop() {
            self.socket_server.answer(call, &SocketInfo::gone());
        }
        let Some(call) = self.connects.pop() else { return Some(()) };
        if how == 0 || self.streams.len() >= FILES_MAX {
            self.socket_server.refuse_opening(call, Errno::ADDRNOTAVAIL);
            return Some(());
        }
        self.made += 1;
        let id = (8 + self.made % 8) << 32 | self.made;
        if self.streams.iter().any(|stream| stream.id >> 32 == id >> 32 && stream.pipe.is_some()) {
            self.socket_server.refuse_opening(call, Errno::ADDRNOTAVAIL);
            return Some(());
        }
        let ends: [SocketAddr; 2] = ["10.0.0.1:40000", "10.0.0.9:80"].map(|end| end.parse().expect("an end"));
        let Some(mut pipe) = self.socket_server.opening(call, id, ends[0], ends[1]) else { return Some(()) };
        match how {
            1 => self.socket_server.opened(id, &mut pipe),
            2 => {
                self.socket_server.failed(id, Errno::CONNREFUSED);
                return Some(());
            }
            _ => {}
        }
        let stream = Stream { id, pipe: Some(pipe), end: None, written: 0, read: 0 };
        self.streams.push(stream);
        // The client receives the program's end with the answer, which stays in its pair.
        if how == 3 {
            self.socket_server.opened(id, self.streams.last_mut()?.pipe.as_mut()?);
        }
        let handed: Vec<_> = self.questions.iter().filter_map(received).collect();
        handed.into_iter().for_each(|end| self.take_end(end));
        Some(())
    }

    /// A datagram arrives from the network.
    fn deliver(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (local, class, level) = (Self::addr(input)?, input.byte()?, input.byte()?);
        let len = input.one_of(&[0usize, 1, 1200, 9000, 65_000])?;
        let segment = input.one_of(&[0usize, 1, 1200, 70_000])?;
        if len / segment.max(1) > 128 && segment > 0 {
            return Some(());
        }
        let remote = if local.is_ipv4() { "10.0.0.9:7" } else { "[fd00::9]:7" };
        let arrived = Arrived { local, remote: remote.parse().expect("an address"), class, hops: class };
        let payload: Vec<u8> = (0..len as u32).map(pattern).collect();
        let delivered = self.socket_server.deliver(arrived, level, &payload, segment);
        if let Delivered::To(id) = delivered {
            assert!(self.mailboxes.is_empty() || id != 0);
        }
        Some(())
    }

    /// A program sends a datagram or a malformed message, or receives one.
    fn send_datagram(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (at, kind) = (usize::from(input.byte()?), input.below(5)?);
        let Some(end) = self.mailboxes.get(at % self.mailboxes.len().max(1)) else { return Some(()) };
        let to = Self::addr(input)?;
        let byte = input.byte()?;
        let hops = if byte % 2 == 0 { Some(byte) } else { None };
        let cmsg = Cmsg { local: None, class: None, hops, segment: u16::from(byte / 64) * 400 };
        match kind {
            0 => {
                let len = usize::from(input.byte()?);
                let _ = send(end, &input.bytes(len), QUIET);
            }
            1 => {
                let head = DatagramHeader::Connected.encode_with(cmsg);
                let _ = send(end, &[&head[..], &[7; 1000]].concat(), QUIET);
            }
            2 => drop(send(end, &KernelSocketInfo::Here.encode(), QUIET)),
            3 => {
                let mut bytes = vec![0; datagram_header::LEN + 65_600];
                if let Ok((len @ 1.., _)) = recv(end, &mut bytes[..], RecvFlags::DONTWAIT) {
                    let head = &bytes[..len.min(datagram_header::LEN)];
                    let envelope = DatagramHeader::decode(head).expect("a message to a program has a header");
                    if matches!(envelope, DatagramHeader::Peer(_)) {
                        let (rest, cut) = (&bytes[datagram_header::LEN..len.min(bytes.len())], 1200);
                        let matches_at =
                            |from: usize| rest.iter().zip(from as u32..).all(|(b, i)| *b == pattern(i));
                        let sent = rest.iter().all(|byte| *byte == 7);
                        assert!(
                            sent || (0..64).any(|n| matches_at(n * cut)) || rest.len() <= 1,
                            "as it was sent"
                        );
                    }
                }
            }
            _ => {
                let head = DatagramHeader::Peer(to).encode_with(cmsg);
                let _ = send(end, &[&head[..], &[7; 1000]].concat(), QUIET);
            }
        }
        Some(())
    }

    /// The stack takes datagrams from programs.
    fn drain_datagrams(&mut self, input: &mut Input<'_>) -> Option<()> {
        let level = input.byte()?;
        let Some(id) = self.pending_datagrams.pop_first() else { return Some(()) };
        let mut bytes = vec![0; 65_600];
        for _ in 0..20 {
            match self.socket_server.next_datagram(id, level, &mut bytes) {
                QueuedDatagram::Out { len, segment, .. } => {
                    assert!(len <= bytes.len() && segment > 0, "{len} bytes in segments of {segment}");
                    assert!(len.div_ceil(segment) <= datagram_header::SEGMENTS_MAX);
                }
                QueuedDatagram::Settled(_) | QueuedDatagram::Elsewhere => {}
                QueuedDatagram::Nothing | QueuedDatagram::End { .. } => break,
            }
        }
        Some(())
    }

    /// A program closes a descriptor, or its write side.
    fn close(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (kind, at) = (input.below(5)?, usize::from(input.byte()?));
        let take = |ends: &mut Vec<OwnedFd>| (!ends.is_empty()).then(|| ends.swap_remove(at % ends.len()));
        match kind {
            0 => drop(take(&mut self.listeners)),
            1 => drop(take(&mut self.mailboxes)),
            2 => drop(take(&mut self.questions)),
            3 => {
                let count = self.streams.len().max(1);
                self.streams.get_mut(at % count).into_iter().for_each(|stream| stream.end = None);
            }
            _ => {
                let ends = self.streams.iter().filter_map(|stream| stream.end.as_ref());
                let ends: Vec<_> = ends.chain(&self.listeners).chain(&self.mailboxes).collect();
                if let Some(end) = ends.get(at % ends.len().max(1)) {
                    let _ = shutdown(*end, Shutdown::Write);
                }
            }
        }
        Some(())
    }

    /// All programs end, and the stack closes their connections.
    fn end(mut self) {
        self.listeners.clear();
        self.mailboxes.clear();
        self.questions.clear();
        self.streams.clear();
        let are_open = |all: &Self| all.listens.values().any(|listens| *listens);
        for round in 0..1_000_000 {
            // A child forked by another test has all descriptors until it calls exec.
            if round >= 4 && !are_open(&self) {
                break;
            }
            std::thread::yield_now();
            self.poll();
            while let Some(id) = self.pending_datagrams.pop_first() {
                let mut bytes = vec![0; 65_600];
                while !matches!(
                    self.socket_server.next_datagram(id, 7, &mut bytes),
                    QueuedDatagram::End { .. } | QueuedDatagram::Nothing
                ) {}
            }
        }
        let open: Vec<_> = self.listens.iter().filter(|(_, listens)| **listens).collect();
        assert!(open.is_empty(), "no program is left, and ports {open:?} are open");
        let mut happened = Vec::new();
        assert!(
            !self.socket_server.poll(&mut happened),
            "no program is left, and there are events: {happened:?}"
        );
    }
}

/// Descriptor received with the next answer on `question`.
fn received(question: &OwnedFd) -> Option<OwnedFd> {
    scm_rights::receive_now(question, &mut [0; ANSWER_BYTES]).ok()?.fd
}

/// True if bytes written to `end` are unread at the peer.
fn is_unsent(end: &OwnedFd) -> bool {
    use std::os::fd::AsRawFd;
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the kernel writes one int to `bytes`.
    let done = unsafe { libc::ioctl(end.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    done != 0 || bytes > 0
}
