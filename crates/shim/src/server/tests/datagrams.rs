//! Tests of datagrams between programs and the stack.

use super::super::super::{Arrived, Cmsg, DatagramHeader, DatagramOptions, PktInfo, datagram_header};
use super::*;

const MAIL: &str = "10.0.0.1:53";
const PEER: &str = "10.0.0.9:7";
/// Traffic class of datagrams received.
const CLASS: u8 = 46 << 2 | 1;
/// Hop limit of datagrams received.
const HOPS: u8 = 61;
const ALONE: Reuse = Reuse { addr: false, port: false };

fn no(errno: Errno) -> Answer {
    Answer::No(errno.raw_os_error())
}

/// A program's UDP socket, and its number.
struct Socket(OwnedFd, u64);

impl Socket {
    fn send(&self, envelope: DatagramHeader, payload: &[u8]) {
        let bytes = [&envelope.encode()[..], payload].concat();
        assert_eq!(send(&self.0, &bytes, SendFlags::empty()), Ok(bytes.len()));
    }

    /// Sends `payload` to `to`, with ancillary data.
    fn say(&self, to: &str, cmsg: Cmsg, payload: &[u8]) {
        let bytes = [&DatagramHeader::Peer(end(to)).encode_with(cmsg)[..], payload].concat();
        assert_eq!(send(&self.0, &bytes, SendFlags::empty()), Ok(bytes.len()));
    }

    /// Ancillary data of the next datagram.
    fn cmsg(&self) -> Cmsg {
        let mut bytes = [0; 2000];
        recv(&self.0, &mut bytes[..], RecvFlags::DONTWAIT).expect("a datagram");
        Cmsg::decode(bytes.first_chunk().unwrap())
    }

    /// The next message.
    fn get(&self) -> Option<(DatagramHeader, Vec<u8>)> {
        let mut bytes = vec![0; 2000];
        let (len, _) = recv(&self.0, &mut bytes[..], RecvFlags::DONTWAIT).ok()?;
        Some((DatagramHeader::decode(&bytes)?, bytes[datagram_header::LEN..len].to_vec()))
    }
}

/// A datagram to `local`.
fn arrived(local: &str, remote: &str) -> Arrived {
    Arrived { local: end(local), remote: end(remote), class: CLASS, hops: HOPS }
}

/// A datagram sent to `to` without ancillary data.
fn out(from: &str, to: &str, len: usize) -> QueuedDatagram {
    QueuedDatagram::Out {
        from: end(from),
        to: end(to),
        len,
        segment: len.max(1),
        class: 0,
        dont_fragment: false,
        hops: 64,
    }
}

impl World {
    fn wants(&mut self, addr: &str, reuse: Reuse, to: Option<&str>, connects: bool) -> (Answer, OwnedFd) {
        let addr = end(addr);
        let (six, v6_only, to) = (addr.is_ipv6(), false, to.map(end));
        let (answer, socket, happened) = self.ask(Request::Datagrams {
            addr,
            six,
            v6_only,
            reuse,
            options: DatagramOptions::default(),
            to,
            connects,
        });
        // Events of sockets that were closed before may come with it.
        let is_told = happened.iter().any(|what| matches!(what, SocketEvent::Bound(_)));
        assert_eq!(is_told, answer == Answer::Done, "{happened:?}");
        (answer, socket)
    }

    fn socket(&mut self, addr: &str, reuse: Reuse) -> Socket {
        let (answer, socket) = self.wants(addr, reuse, None, false);
        assert_eq!(answer, Answer::Done, "{addr}");
        let name = Name::of(socket.as_fd()).expect("a socket has a name");
        assert_eq!((name.kind, name.local), (SocketKind::Datagrams, end(addr)));
        Socket(socket, name.id)
    }

    fn aim(&mut self, socket: &Socket, to: Option<&str>) -> Answer {
        self.ask(Request::Aim { id: socket.1, to: to.map(end) }).0
    }

    fn ends(&mut self, socket: &Socket) -> (SocketAddr, Option<SocketAddr>) {
        let (shim_client, id) = (self.shim_client, socket.1);
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || shim_client.ends(id).expect("the server is alive"));
            while !asking.is_finished() {
                self.socket_server.poll(&mut Vec::new());
                std::thread::yield_now();
            }
            asking.join().unwrap()
        })
    }

    fn deliver(&mut self, from: &str, payload: &[u8]) -> Delivered {
        self.socket_server.deliver(arrived(MAIL, from), 7, payload, 0)
    }

    fn next_datagram(&mut self, socket: &Socket) -> (QueuedDatagram, Vec<u8>) {
        let mut bytes = vec![0; 2000];
        let datagram = self.socket_server.next_datagram(socket.1, 7, &mut bytes);
        let len = if let QueuedDatagram::Out { len, .. } = datagram { len } else { 0 };
        (datagram, bytes[..len].to_vec())
    }
}

#[test]
fn datagrams_pass_with_their_addresses() {
    let mut world = World::new(40);
    let socket = world.socket(MAIL, ALONE);
    for payload in [&b"question"[..], b""] {
        assert_eq!(world.deliver(PEER, payload), Delivered::To(socket.1));
        assert_eq!(socket.get(), Some((DatagramHeader::Peer(end(PEER)), payload.to_vec())));
        socket.send(DatagramHeader::Peer(end(PEER)), payload);
        assert_eq!(world.poll(), [SocketEvent::DatagramReadable(socket.1)]);
        let out = out(MAIL, PEER, payload.len());
        assert_eq!(world.next_datagram(&socket), (out, payload.to_vec()));
        assert_eq!(world.next_datagram(&socket).0, QueuedDatagram::Nothing);
    }
    assert_eq!(world.socket_server.deliver(arrived("10.0.0.1:54", PEER), 7, b"x", 0), Delivered::NoSocket);
}

#[test]
fn a_socket_is_ours_by_its_address_or_by_whom_its_first_datagram_is_for() {
    let mut world = World::new(41);
    for addr in ["127.0.0.1:53", "10.0.0.2:53", "0.0.0.0:0", "[::1]:53"] {
        assert_eq!(world.wants(addr, ALONE, None, false).0, Answer::NotOurs, "{addr}");
    }
    assert_eq!(world.wants("0.0.0.0:0", ALONE, Some("192.0.2.1:7"), true).0, Answer::NotOurs);
    assert_eq!(world.wants("10.0.0.1:0", ALONE, Some(PEER), true).0, Answer::NotOurs, "the socket is bound");
    let socket = world.socket("0.0.0.0:53", ALONE);
    assert_eq!(world.wants(MAIL, ALONE, None, false).0, no(Errno::ADDRINUSE));
    assert_eq!(world.ends(&socket), (end("0.0.0.0:53"), None));
    // The port is a preference.
    let (answer, fd) = world.wants("0.0.0.0:53", ALONE, Some(PEER), true);
    let name = Name::of(fd.as_fd()).unwrap();
    assert!(answer == Answer::Done && name.local.port() >= EPHEMERAL, "{name:?}");
    let connected = Socket(fd, name.id);
    let local = SocketAddr::new("10.0.0.1".parse().unwrap(), name.local.port());
    assert_eq!(world.ends(&connected), (local, Some(end(PEER))));
    connected.send(DatagramHeader::Connected, b"hello");
    let out = out(&local.to_string(), PEER, 5);
    assert_eq!(world.next_datagram(&connected), (out, b"hello".to_vec()));
}

#[test]
fn a_connected_socket_receives_from_its_peer_only() {
    let mut world = World::new(42);
    let shared = Reuse { addr: true, port: false };
    let (server, client) = (world.socket("0.0.0.0:53", shared), world.socket("0.0.0.0:53", shared));
    assert_eq!(world.aim(&client, Some(PEER)), Answer::Done);
    assert_eq!(world.deliver(PEER, b"x"), Delivered::To(client.1));
    assert_eq!(world.deliver("10.0.0.9:8", b"x"), Delivered::To(server.1));
    assert_eq!(world.ends(&client), (end(MAIL), Some(end(PEER))));
    assert_eq!(world.aim(&client, Some("192.0.2.1:7")), no(Errno::NETUNREACH));
    assert_eq!(world.aim(&client, None), Answer::Done);
    assert_eq!(world.ends(&client), (end("0.0.0.0:53"), None));
    assert_eq!(world.deliver(PEER, b"x"), Delivered::To(client.1), "the newest matches");
    client.get();
    client.get();
    client.send(DatagramHeader::Connected, b"to whom?");
    assert_eq!(world.next_datagram(&client).0, QueuedDatagram::Settled(Delivered::NoSocket));
    assert_eq!(client.get(), Some((DatagramHeader::Failed(libc::EDESTADDRREQ as u16), vec![])));
}

#[test]
fn a_full_socket_reports_when_it_has_space() {
    let mut world = World::new(43);
    let socket = world.socket(MAIL, ALONE);
    let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUF);
    let set = |value| Request::Option { id: socket.1, level, name, value: [value, 0] };
    assert_eq!(world.ask(set(5000)).0, Answer::Done);
    assert_eq!(world.deliver(PEER, &[b'x'; 30_000]), Delivered::Lost, "larger than the buffer");
    let given = (0..1000).take_while(|_| world.deliver(PEER, b"x") == Delivered::To(socket.1)).count();
    assert!((1..100).contains(&given), "{given} of some ten");
    assert_eq!(world.deliver(PEER, b"x"), Delivered::Full);
    assert_eq!(world.poll(), [], "no space yet");
    while socket.get().is_some() {}
    assert_eq!(world.poll(), [SocketEvent::DatagramWritable(53)]);
    assert_eq!(world.deliver(PEER, b"x"), Delivered::To(socket.1));
    let other = Request::Option { id: socket.1, level, name: libc::SO_BROADCAST, value: [1, 0] };
    assert_eq!(world.ask(other).0, no(Errno::NOPROTOOPT));
}

#[test]
fn a_full_socket_does_not_delay_others_on_a_shared_port() {
    let mut world = World::new(44);
    let shared = Reuse { addr: false, port: true };
    let _sockets = [world.socket(MAIL, shared), world.socket(MAIL, shared)];
    let outcomes: Vec<_> = (0..3000).map(|_| world.deliver(PEER, b"x")).collect();
    assert!(!outcomes.contains(&Delivered::Full) && outcomes.contains(&Delivered::Lost));
    assert_eq!(world.poll(), []);
}

#[test]
fn programs_send_to_each_other_without_a_wire() {
    let mut world = World::new(45);
    let server = world.socket("0.0.0.0:53", ALONE);
    let client = world.socket("10.0.0.1:4000", ALONE);
    client.send(DatagramHeader::Peer(end(MAIL)), b"question");
    assert_eq!(world.next_datagram(&client).0, QueuedDatagram::Settled(Delivered::To(server.1)));
    assert_eq!(server.get(), Some((DatagramHeader::Peer(end("10.0.0.1:4000")), b"question".to_vec())));
    server.send(DatagramHeader::Peer(end("10.0.0.1:4000")), b"answer");
    world.next_datagram(&server);
    assert_eq!(client.get(), Some((DatagramHeader::Peer(end(MAIL)), b"answer".to_vec())));
    // A connected socket receives the error; others do not.
    let unbound = "10.0.0.1:4001";
    for connected in [false, true] {
        assert_eq!(world.aim(&client, connected.then_some(unbound)), Answer::Done);
        client.send(DatagramHeader::Peer(end(unbound)), b"anybody there?");
        assert_eq!(world.next_datagram(&client).0, QueuedDatagram::Settled(Delivered::NoSocket));
        let refused = (DatagramHeader::Failed(libc::ECONNREFUSED as u16), vec![]);
        assert_eq!(client.get(), connected.then_some(refused));
    }
    world.aim(&client, Some(PEER));
    world.socket_server.undelivered(4000, end(PEER), Errno::CONNREFUSED);
    assert!(matches!(client.get(), Some((DatagramHeader::Failed(_), _))));
}

#[test]
fn what_a_program_sent_before_it_ended_is_collected() {
    let mut world = World::new(46);
    let socket = world.socket(MAIL, ALONE);
    world.deliver(PEER, b"never read");
    socket.send(DatagramHeader::Peer(end(PEER)), b"the last");
    let Socket(fd, id) = socket;
    world.poll();
    drop(fd);
    soon(|| world.poll().contains(&SocketEvent::DatagramReadable(id)));
    assert_eq!(world.deliver(PEER, b"late"), Delivered::NoSocket);
    // The address may be bound again already.
    let next = world.socket(MAIL, ALONE);
    let mut bytes = [0; 100];
    let out = out(MAIL, PEER, 8);
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), out);
    assert_eq!(
        world.socket_server.next_datagram(id, 7, &mut bytes),
        QueuedDatagram::End { port: 53, last: false }
    );
    assert_eq!(world.deliver(PEER, b"x"), Delivered::To(next.1));
    let Socket(fd, id) = next;
    drop(fd);
    soon(|| world.poll().contains(&SocketEvent::DatagramReadable(id)));
    assert_eq!(
        world.socket_server.next_datagram(id, 7, &mut bytes),
        QueuedDatagram::End { port: 53, last: true }
    );
}

//~ datagrams: IP_PKTINFO reports and sets the local address
#[test]
fn a_socket_receives_and_sets_the_local_address_by_pktinfo() {
    let mut world = World::new(49);
    let addrs = ["10.0.0.1", "10.0.0.2"].map(|addr| addr.parse().unwrap());
    let interface = 7;
    world.socket_server.set_routes(Routes {
        addrs: addrs.to_vec(),
        subnets: vec![(addrs[0], 24)],
        interface,
        ..Routes::default()
    });
    let socket = world.socket("0.0.0.0:53", ALONE);
    let option = |world: &mut World, value| {
        let (level, name) = (libc::IPPROTO_IP, libc::IP_PKTINFO);
        world.ask(Request::Option { id: socket.1, level, name, value: [value, 0] }).0
    };
    for (value, expected) in [(1, Some(PktInfo { addr: addrs[1], interface })), (0, None)] {
        assert_eq!(option(&mut world, value), Answer::Done);
        let told_by_option = world.while_polled(
            |shim_client| shim_client.option(socket.1, libc::IPPROTO_IP, libc::IP_PKTINFO).unwrap(),
            |_, _| (),
        );
        assert_eq!(told_by_option.0, value.to_ne_bytes());
        assert_eq!(
            world.socket_server.deliver(arrived("10.0.0.2:53", PEER), 7, b"x", 0),
            Delivered::To(socket.1)
        );
        assert_eq!(socket.cmsg().local, expected);
    }
    let send_from = |addr: &str, to: &str| {
        let local = Some(PktInfo { addr: addr.parse().unwrap(), interface: 0 });
        socket.say(to, Cmsg { local, ..Cmsg::default() }, b"y");
    };
    for (from, expected) in [("10.0.0.2", "10.0.0.2:53"), ("0.0.0.0", "0.0.0.0:53")] {
        send_from(from, PEER);
        assert_eq!(world.next_datagram(&socket).0, out(expected, PEER, 1));
    }
    for from in ["10.0.0.9", "fd00::1"] {
        send_from(from, PEER);
        assert_eq!(
            world.next_datagram(&socket).0,
            QueuedDatagram::Settled(Delivered::NoSocket),
            "{from} is no address of the stack, or of another family"
        );
        assert_eq!(socket.get(), Some((DatagramHeader::Failed(libc::EINVAL as u16), vec![])));
    }
}

//~ datagrams: UDP_SEGMENT cuts up to 128 datagrams, by option or control data
#[test]
fn what_is_sent_at_once_is_cut_as_the_message_says_or_the_socket_does() {
    let mut world = World::new(48);
    let socket = world.socket(MAIL, ALONE);
    let option = |world: &mut World, value| {
        let (level, name) = (libc::SOL_UDP, libc::UDP_SEGMENT);
        world.ask(Request::Option { id: socket.1, level, name, value: [value, 0] }).0
    };
    let send_to = |to: &str, segment, len: usize| {
        socket.say(to, Cmsg { segment, ..Cmsg::default() }, &vec![b'y'; len]);
    };
    for (set, sent, len, segment) in
        [(0, 0, 1000, 1000), (0, 300, 1000, 300), (400, 0, 1000, 400), (400, 30, 90, 30)]
    {
        assert_eq!(option(&mut world, set), Answer::Done);
        send_to(PEER, sent, len);
        let out = QueuedDatagram::Out {
            from: end(MAIL),
            to: end(PEER),
            len,
            segment,
            class: 0,
            dont_fragment: false,
            hops: 64,
        };
        assert_eq!(world.next_datagram(&socket).0, out);
    }
    let reply = world.while_polled(
        |shim_client| shim_client.option(socket.1, libc::SOL_UDP, libc::UDP_SEGMENT).unwrap(),
        |_, _| (),
    );
    assert_eq!(reply.0, 400_i32.to_ne_bytes());
    for wrong in [-1, 65_536] {
        assert_eq!(option(&mut world, wrong), no(Errno::INVAL));
    }
    // Too many segments; and to a program of this server.
    send_to(PEER, 7, 129 * 7);
    assert_eq!(world.next_datagram(&socket).0, QueuedDatagram::Settled(Delivered::NoSocket));
    assert_eq!(socket.get(), Some((DatagramHeader::Failed(libc::EINVAL as u16), vec![])));
    let other = world.socket("10.0.0.1:54", ALONE);
    send_to("10.0.0.1:54", 40, 100);
    assert_eq!(world.next_datagram(&socket).0, QueuedDatagram::Settled(Delivered::To(other.1)));
    let lens = std::iter::from_fn(|| other.get()).map(|(_, payload)| payload.len());
    assert_eq!(lens.collect::<Vec<_>>(), [40, 40, 20]);
}

//~ datagrams: IP_TOS and IPV6_TCLASS are set and reported, with ECN bits
/// Each IP version has its own options; ancillary data overrides the socket's.
#[test]
fn a_socket_receives_and_sets_the_traffic_class() {
    let mut world = World::new(50);
    let (socket, six) = ("[::]:53", "[fd00::9]:7");
    let socket = world.socket(socket, ALONE);
    let (v4, v6) = (libc::IPPROTO_IP, libc::IPPROTO_IPV6);
    let set = |world: &mut World, (level, name), value| {
        let request = Request::Option { id: socket.1, level, name, value: [value, 0] };
        assert_eq!(world.ask(request).0, Answer::Done);
    };
    let delivered_classes = |world: &mut World| {
        [(MAIL, PEER), ("[fd00::1]:53", six)].map(|(local, remote)| {
            let delivered = world.socket_server.deliver(arrived(local, remote), 7, b"x", 0);
            assert_eq!(delivered, Delivered::To(socket.1));
            socket.cmsg().class
        })
    };
    assert_eq!(delivered_classes(&mut world), [None, None]);
    set(&mut world, (v4, libc::IP_RECVTOS), 1);
    assert_eq!(delivered_classes(&mut world), [Some(CLASS), None]);
    set(&mut world, (v6, libc::IPV6_RECVTCLASS), 1);
    assert_eq!(delivered_classes(&mut world), [Some(CLASS), Some(CLASS)]);

    let leaves = |world: &mut World, class| {
        [PEER, six].map(|to| {
            socket.say(to, Cmsg { class, ..Cmsg::default() }, b"y");
            match world.next_datagram(&socket).0 {
                QueuedDatagram::Out { class, .. } => class,
                other => panic!("{other:?}"),
            }
        })
    };
    assert_eq!(leaves(&mut world, None), [0, 0]);
    set(&mut world, (v4, libc::IP_TOS), 2);
    assert_eq!(leaves(&mut world, None), [2, 0]);
    set(&mut world, (v6, libc::IPV6_TCLASS), 10 << 2);
    assert_eq!(leaves(&mut world, None), [2, 10 << 2]);
    assert_eq!(leaves(&mut world, Some(1)), [1, 1]);
    // Between programs the class is passed on.
    let other = world.socket("10.0.0.1:54", ALONE);
    let request = Request::Option { id: other.1, level: v4, name: libc::IP_RECVTOS, value: [1, 0] };
    assert_eq!(world.ask(request).0, Answer::Done);
    socket.say("10.0.0.1:54", Cmsg { class: Some(3), ..Cmsg::default() }, b"y");
    assert_eq!(world.next_datagram(&socket).0, QueuedDatagram::Settled(Delivered::To(other.1)));
    assert_eq!(other.cmsg().class, Some(3));
}

//~ datagrams: IP_RECVTTL and IPV6_RECVHOPLIMIT report the hop limit of each datagram
#[test]
fn a_socket_receives_the_hop_limit() {
    let mut world = World::new(50);
    let socket = world.socket("[::]:53", ALONE);
    let (v4, v6) = (libc::IPPROTO_IP, libc::IPPROTO_IPV6);
    let hops = |world: &mut World| {
        [(MAIL, PEER), ("[fd00::1]:53", "[fd00::9]:7")].map(|(local, remote)| {
            let delivered = world.socket_server.deliver(arrived(local, remote), 7, b"x", 0);
            assert_eq!(delivered, Delivered::To(socket.1));
            socket.cmsg().hops
        })
    };
    let set = |world: &mut World, id, level, name, value| {
        assert_eq!(world.ask(Request::Option { id, level, name, value: [value, 0] }).0, Answer::Done);
    };
    assert_eq!(hops(&mut world), [None, None]);
    set(&mut world, socket.1, v4, libc::IP_RECVTTL, 1);
    assert_eq!(hops(&mut world), [Some(HOPS), None]);
    set(&mut world, socket.1, v6, libc::IPV6_RECVHOPLIMIT, 1);
    assert_eq!(hops(&mut world), [Some(HOPS), Some(HOPS)]);
    set(&mut world, socket.1, v4, libc::IP_RECVTTL, 0);
    assert_eq!(hops(&mut world), [None, Some(HOPS)]);
    // Between programs it is the sender's.
    let other = world.socket("10.0.0.1:54", ALONE);
    set(&mut world, other.1, v4, libc::IP_RECVTTL, 1);
    set(&mut world, socket.1, v4, libc::IP_TTL, 7);
    for (of_message, expected) in [(None, 7), (Some(3), 3)] {
        socket.say("10.0.0.1:54", Cmsg { hops: of_message, ..Cmsg::default() }, b"y");
        assert_eq!(world.next_datagram(&socket).0, QueuedDatagram::Settled(Delivered::To(other.1)));
        assert_eq!(other.cmsg().hops, Some(expected));
    }
}

//~ datagrams: UDP_GRO delivers several datagrams of one length in one call
#[test]
fn datagrams_are_handed_over_at_once_to_a_socket_that_takes_them_so() {
    let mut world = World::new(52);
    let socket = world.socket(MAIL, ALONE);
    let (level, name) = (libc::SOL_UDP, libc::UDP_GRO);
    for (value, expected) in [(0, vec![40, 40, 20]), (1, vec![100])] {
        assert_eq!(
            world.ask(Request::Option { id: socket.1, level, name, value: [value, 0] }).0,
            Answer::Done
        );
        assert_eq!(world.socket_server.merges(53), value == 1);
        for remote in [PEER, "10.0.0.1:54"] {
            let delivered = world.socket_server.deliver(arrived(MAIL, remote), 7, &[b'x'; 100], 40);
            assert_eq!(delivered, Delivered::To(socket.1));
            let lens = std::iter::from_fn(|| socket.get()).map(|(_, payload)| payload.len());
            assert_eq!(lens.collect::<Vec<_>>(), expected);
        }
        // A single datagram has no segment size.
        for (len, segment, reported) in [(100, 40, if value == 1 { 40 } else { 0 }), (40, 40, 0), (40, 0, 0)]
        {
            world.socket_server.deliver(arrived(MAIL, PEER), 7, &vec![b'x'; len], segment);
            assert_eq!(socket.cmsg().segment, reported, "{len} in {segment}");
            while socket.get().is_some() {}
        }
    }
    assert!(!world.socket_server.merges(54), "no socket");
}

/// The socket's buffer may be smaller than the merged datagrams.
#[test]
fn what_is_too_much_at_once_is_handed_over_one_by_one() {
    let mut world = World::new(53);
    let socket = world.socket(MAIL, ALONE);
    for (level, name, value) in
        [(libc::SOL_UDP, libc::UDP_GRO, 1), (libc::SOL_SOCKET, libc::SO_RCVBUF, 10_000)]
    {
        let request = Request::Option { id: socket.1, level, name, value: [value, 0] };
        assert_eq!(world.ask(request).0, Answer::Done);
    }
    let payload: Vec<u8> = (0..30_000).map(|n| n as u8).collect();
    // Some do not fit, which counts as all lost.
    assert_eq!(world.socket_server.deliver(arrived(MAIL, PEER), 7, &payload, 1000), Delivered::Lost);
    let datagrams: Vec<_> = std::iter::from_fn(|| socket.get()).map(|(_, one)| one).collect();
    assert!(datagrams.len() > 1, "{} of 30", datagrams.len());
    assert!(datagrams.iter().map(Vec::as_slice).eq(payload.chunks(1000).take(datagrams.len())));
}

//~ datagrams: with IP_MTU_DISCOVER a datagram longer than the link is dropped and not fragmented
#[test]
fn a_socket_that_probes_for_the_mtu_sends_nothing_that_may_be_cut() {
    let mut world = World::new(51);
    let socket = world.socket("[::]:53", ALONE);
    for (value, expected) in [(libc::IP_PMTUDISC_PROBE, true), (libc::IP_PMTUDISC_WANT, false)] {
        let (level, name) = (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
        let request = Request::Option { id: socket.1, level, name, value: [value, 0] };
        assert_eq!(world.ask(request).0, Answer::Done);
        // Options of IPv4 do not apply to IPv6.
        for (to, expected) in [(PEER, expected), ("[fd00::9]:7", false)] {
            socket.say(to, Cmsg::default(), b"x");
            let QueuedDatagram::Out { dont_fragment, .. } = world.next_datagram(&socket).0 else {
                panic!("sent to a peer")
            };
            assert_eq!(dont_fragment, expected, "{to}");
        }
    }
    let (level, name) = (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG);
    let request = Request::Option { id: socket.1, level, name, value: [1, 0] };
    assert_eq!(world.ask(request).0, Answer::Done);
    for (to, expected) in [(PEER, false), ("[fd00::9]:7", true)] {
        socket.say(to, Cmsg::default(), b"x");
        let QueuedDatagram::Out { dont_fragment, .. } = world.next_datagram(&socket).0 else {
            panic!("sent to a peer")
        };
        assert_eq!(dont_fragment, expected, "{to}");
    }
}

#[test]
fn messages_without_an_envelope_are_dropped_and_counted() {
    let mut world = World::new(47);
    let socket = world.socket(MAIL, ALONE);
    for nonsense in [&b"short"[..], &[b'?'; 60], &DatagramHeader::Failed(1).encode()] {
        send(&socket.0, nonsense, SendFlags::empty()).unwrap();
        assert_eq!(world.next_datagram(&socket).0, QueuedDatagram::Settled(Delivered::NoSocket));
    }
    // Longer than the buffer.
    socket.send(DatagramHeader::Peer(end(PEER)), &[b'x'; 3000]);
    assert_eq!(world.next_datagram(&socket).0, QueuedDatagram::Settled(Delivered::NoSocket));
    assert_eq!(world.socket_server.refused().collect::<Vec<_>>(), [(RefusalKind::Malformed, 4)]);
}
