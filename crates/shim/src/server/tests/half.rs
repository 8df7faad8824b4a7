//! Tests of sockets bound to all addresses, and of their kernel sockets.

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::net::sockopt::{set_socket_linger, socket_linger};

use super::*;
use crate::datagram_header::{self, DatagramHeader};

/// A kernel socket bound by a program, and its address.
fn socket() -> (OwnedFd, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    (socket.into(), addr)
}

/// A program's socket bound to `port` of all addresses, which does not listen yet.
fn bound(world: &mut World, port: u16) -> OwnedFd {
    let (answer, end) = world.bind(&format!("0.0.0.0:{port}"));
    assert_eq!(answer, Answer::Done);
    end
}

fn listens(world: &mut World, end: &OwnedFd, backlog: u32) {
    let id = Name::of(end.as_fd()).unwrap().id;
    assert_eq!(world.ask(Request::Listen { id, backlog }).0, Answer::Done);
}

#[test]
fn what_comes_to_the_kernels_addresses_is_accepted_in_the_same_line() {
    let mut world = World::new(31);
    let (half, at) = socket();
    let listener = bound(&mut world, at.port());
    scm_rights::send(&listener, None, &KernelSocketInfo::Here.encode(), half.as_fd()).unwrap();
    drop(half);
    listens(&mut world, &listener, 4);
    let pipe =
        world.socket_server.offer(7, end(&format!("10.0.0.1:{}", at.port())), end("10.0.0.9:4242")).unwrap();
    let mut client = TcpStream::connect(at).unwrap();
    let (first, _ours) = accept(&listener);
    assert_eq!(first.id, 7, "the first connection");
    drop(pipe);

    let mut bytes = [0; super::super::super::socket_name::LEN];
    let mut second = None;
    soon(|| {
        world.poll();
        second = scm_rights::receive(&listener, &mut bytes, true).ok();
        second.is_some()
    });
    let name = Name::decode(&bytes).expect("the peer's name");
    assert_eq!(name.remote, client.local_addr().unwrap());
    let fd = second.unwrap().fd.expect("with its descriptor");
    assert_eq!(Name::of(fd.as_fd()), None, "a kernel connection");
    // As the library does on accept: until then closing resets, as in an accept queue.
    assert_eq!(socket_linger(&fd).unwrap(), Some(std::time::Duration::ZERO));
    set_socket_linger(&fd, None).unwrap();
    TcpStream::from(fd).write_all(b"hello").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");

    drop(listener);
    soon(|| world.poll().contains(&SocketEvent::Unlisten(at.port())));
    // The kernel socket is closed with the listener. A forked copy accepts nothing, so connecting
    // may time out.
    soon(|| {
        let tried = TcpStream::connect_timeout(&at, Duration::from_secs(1));
        tried.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused)
    });
}

#[test]
fn a_blocking_kernel_socket_stops_no_other() {
    let mut world = World::new(62);
    let (half, at) = socket();
    let other = half.try_clone().unwrap();
    let listener = bound(&mut world, at.port());
    scm_rights::send(&listener, None, &KernelSocketInfo::Here.encode(), half.as_fd()).unwrap();
    let id = Name::of(listener.as_fd()).unwrap().id;
    listens(&mut world, &listener, 4);
    soon(|| {
        world.poll();
        world.socket_server.listeners.get(id).is_some_and(|listener| listener.half.is_some())
    });
    rustix::io::ioctl_fionbio(&other, false).unwrap();
    let _client = TcpStream::connect(at).unwrap();
    soon(|| {
        world.poll();
        scm_rights::receive_now(&listener, &mut [0; 128]).is_ok()
    });
}

#[test]
fn no_connection_is_accepted_from_the_kernel_before_listen_or_while_the_queue_is_full() {
    let mut world = World::new(32);
    let (half, at) = socket();
    let listener = bound(&mut world, at.port());
    let client = TcpStream::connect(at).unwrap();
    scm_rights::send(&listener, None, &KernelSocketInfo::Here.encode(), half.as_fd()).unwrap();
    let waits = |listener: &OwnedFd| scm_rights::receive(listener, &mut [0; 128], true).is_ok();
    (0..5).for_each(|_| drop(world.poll()));
    let id = Name::of(listener.as_fd()).unwrap().id;
    rustix::io::ioctl_fionbio(&listener, true).unwrap();
    assert!(!waits(&listener));
    listens(&mut world, &listener, 8);
    let mut clients = vec![client];
    let waiting = |world: &World| world.socket_server.listeners.get(id).expect("it is bound").waits();
    // The pair takes some; then eight wait in the server and eight in the kernel.
    while waiting(&world) < 8 {
        assert!(clients.len() < 10_000, "a pair takes fewer");
        clients.push(TcpStream::connect(at).unwrap());
        (0..3).for_each(|_| drop(world.poll()));
    }
    clients.extend((0..8).map(|_| TcpStream::connect(at).unwrap()));
    (0..3).for_each(|_| drop(world.poll()));
    assert_eq!(waiting(&world), 8);
    let mut taken = 0;
    soon(|| {
        world.poll();
        taken += usize::from(waits(&listener));
        taken == clients.len()
    });
}

#[test]
fn unavailable_kernel_addresses_are_reported() {
    let mut world = World::new(33);
    let listener = bound(&mut world, 80);
    let errno = Errno::ADDRINUSE.raw_os_error();
    let _ = send(&listener, &KernelSocketInfo::None { errno }.encode(), QUIET).unwrap();
    let refusal = RefusalKind::Half { port: 80, errno };
    soon(|| {
        world.poll();
        world.socket_server.refused().eq([(refusal, 1)])
    });
    listens(&mut world, &listener, 4);
    world.socket_server.offer(7, end(HERE), end("10.0.0.9:4242")).unwrap();
    assert_eq!(accept(&listener).0.id, 7, "the stack's listener works");
}

/// A UDP socket bound to all addresses, whose kernel socket is passed on; and its address in the
/// kernel.
fn mailbox(world: &mut World) -> (OwnedFd, u64, SocketAddr) {
    mailbox_with(world, UdpSocket::bind("127.0.0.1:0").unwrap())
}

/// As [`mailbox`], with this kernel socket.
fn mailbox_with(world: &mut World, half: UdpSocket) -> (OwnedFd, u64, SocketAddr) {
    let at = half.local_addr().unwrap();
    let request = Request::Datagrams {
        addr: SocketAddr::from((Ipv4Addr::UNSPECIFIED, at.port())),
        six: false,
        v6_only: false,
        reuse: Reuse::default(),
        options: DatagramOptions::default(),
        to: None,
        connects: false,
    };
    let (answer, end, _) = world.ask(request);
    assert_eq!(answer, Answer::Done);
    scm_rights::send(&end, None, &KernelSocketInfo::Here.encode(), half.as_fd()).unwrap();
    let id = Name::of(end.as_fd()).unwrap().id;
    (end, id, at)
}

/// Sends a datagram as the program.
fn says(end: &OwnedFd, envelope: DatagramHeader, text: &[u8]) {
    let _ = send(end, &[&envelope.encode()[..], text].concat(), QUIET).unwrap();
}

/// Receives a datagram as the program of `end`: its sender and payload.
fn hears(world: &mut World, end: &OwnedFd) -> (SocketAddr, Vec<u8>) {
    let mut bytes = [0; 2048];
    let mut received = None;
    soon(|| {
        world.poll();
        received = recv(end, &mut bytes[..], RecvFlags::DONTWAIT).ok().map(|(len, _)| len);
        received.is_some()
    });
    let len = received.unwrap();
    match DatagramHeader::decode(&bytes[..datagram_header::LEN]) {
        Some(DatagramHeader::Peer(from)) => (from, bytes[datagram_header::LEN..len].to_vec()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn datagrams_come_by_the_kernels_addresses_and_go_where_the_device_does_not_lead() {
    let mut world = World::new(35);
    let (end, id, at) = mailbox(&mut world);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let client_addr = client.local_addr().unwrap();
    let mut bytes = [0; 100];
    // The kernel socket is the first message.
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::Elsewhere);
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::Nothing);
    client.send_to(b"question", at).unwrap();
    assert_eq!(hears(&mut world, &end), (client_addr, b"question".to_vec()));
    says(&end, DatagramHeader::Peer(client_addr), b"answer");
    assert_eq!(
        world.socket_server.next_datagram(id, 7, &mut bytes),
        QueuedDatagram::Elsewhere,
        "sent by the kernel socket"
    );
    assert_eq!(client.recv(&mut bytes).map(|len| bytes[..len].to_vec()).unwrap(), b"answer");
    // The stack routes to this destination.
    says(&end, DatagramHeader::Peer("10.0.0.9:53".parse().unwrap()), b"out");
    assert!(matches!(
        world.socket_server.next_datagram(id, 7, &mut bytes),
        QueuedDatagram::Out { len: 3, .. }
    ));
    let broadcast = Request::Option { id, level: libc::SOL_SOCKET, name: libc::SO_BROADCAST, value: [1, 0] };
    assert_eq!(world.ask(broadcast).0, Answer::Done, "set on the kernel socket");
    let ttl = Request::Option { id, level: libc::IPPROTO_IP, name: libc::IP_TTL, value: [7, 0] };
    assert_eq!(world.ask(ttl).0, Answer::Done);
    let half = world
        .socket_server
        .mailboxes
        .get(id)
        .and_then(|mailbox| mailbox.half.as_ref())
        .expect("a kernel socket");
    assert_eq!(rustix::net::sockopt::ip_ttl(half), Ok(7));
    says(&end, DatagramHeader::Peer("10.0.0.9:53".parse().unwrap()), b"out");
    assert!(matches!(
        world.socket_server.next_datagram(id, 7, &mut bytes),
        QueuedDatagram::Out { hops: 7, .. }
    ));
    drop(end);
    soon(|| {
        world.poll();
        matches!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::End { .. })
    });
    // The kernel socket is closed with the UDP socket.
    soon(|| UdpSocket::bind(at).is_ok());
}

#[test]
fn a_socket_connected_through_the_kernel_receives_from_that_peer_only() {
    let mut world = World::new(36);
    let (end, id, at) = mailbox(&mut world);
    let [peer, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    // Requested before the server has read the pair.
    let aim = Request::Aim { id, to: Some(peer.local_addr().unwrap()) };
    assert_eq!(world.ask(aim).0, Answer::Done);
    other.send_to(b"not me", at).unwrap();
    peer.send_to(b"me", at).unwrap();
    assert_eq!(hears(&mut world, &end), (peer.local_addr().unwrap(), b"me".to_vec()));
    says(&end, DatagramHeader::Connected, b"you");
    let mut bytes = [0; 100];
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::Elsewhere);
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(peer.recv(&mut bytes).map(|len| bytes[..len].to_vec()).unwrap(), b"you");
}

#[test]
fn the_result_of_datagrams_is_reported_once() {
    let mut world = World::new(63);
    let half = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = half.try_clone().unwrap();
    let wants_errors =
        || host::sockopt::set(&other, libc::IPPROTO_IP, libc::IP_RECVERR, &1_i32).expect("it is a socket");
    wants_errors();
    let (end, id, _) = mailbox_with(&mut world, half);
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut bytes = [0; 100];
    assert_eq!(
        world.socket_server.next_datagram(id, 7, &mut bytes),
        QueuedDatagram::Elsewhere,
        "the kernel socket"
    );
    let mut send_to_unbound = |world: &mut World| {
        says(&end, DatagramHeader::Peer(closed), b"anybody?");
        (0..3).for_each(|_| drop(world.poll()));
        assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::Elsewhere);
    };
    send_to_unbound(&mut world);
    assert!(!world.is_told(), "IP_RECVERR is cleared");
    // Another process that still has the socket enables it again.
    wants_errors();
    send_to_unbound(&mut world);
    soon(|| world.is_told());
    world.poll();
    assert!(!world.is_told());
}

#[test]
fn a_kernel_socket_that_is_open_elsewhere_goes_with_its_socket() {
    let mut world = World::new(64);
    let half = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = half.try_clone().unwrap();
    let (end, id, at) = mailbox_with(&mut world, half);
    let mut bytes = [0; 100];
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::Elsewhere);
    drop(end);
    soon(|| {
        world.poll();
        matches!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::End { .. })
    });
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"anybody?", at).unwrap();
    soon(|| other.peek(&mut bytes).is_ok());
    assert!(!world.is_told());
}

#[test]
fn a_kernel_socket_that_is_shut_down_is_released() {
    let mut world = World::new(65);
    let half = UdpSocket::bind("127.0.0.1:0").unwrap();
    let other = half.try_clone().unwrap();
    let (_end, id, at) = mailbox_with(&mut world, half);
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut [0; 100]), QueuedDatagram::Elsewhere);
    // It returns ENOTCONN, and still shuts down.
    let _ = shutdown(&other, Shutdown::Both);
    let refusal = RefusalKind::Half { port: at.port(), errno: Errno::SHUTDOWN.raw_os_error() };
    soon(|| {
        world.poll();
        world.socket_server.refused().eq([(refusal, 1)])
    });
    assert!(!world.is_told());
}

#[test]
fn a_socket_has_one_half_and_that_is_for_datagrams() {
    let mut world = World::new(66);
    let (end, id, at) = mailbox(&mut world);
    let mut bytes = [0; 100];
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::Elsewhere);
    let second = UdpSocket::bind("127.0.0.1:0").unwrap();
    scm_rights::send(&end, None, &KernelSocketInfo::Here.encode(), second.as_fd()).unwrap();
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::Elsewhere);
    assert_eq!(world.socket_server.refused().collect::<Vec<_>>(), [(RefusalKind::Malformed, 1)]);
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.send_to(b"question", at).unwrap();
    assert_eq!(hears(&mut world, &end).1, b"question", "the first kernel socket stays");

    let request = Request::Datagrams {
        addr: SocketAddr::from((Ipv4Addr::UNSPECIFIED, second.local_addr().unwrap().port())),
        six: false,
        v6_only: false,
        reuse: Reuse::default(),
        options: DatagramOptions::default(),
        to: None,
        connects: false,
    };
    let (answer, end, _) = world.ask(request);
    assert_eq!(answer, Answer::Done);
    let (ours, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(b"nobody takes this").unwrap();
    scm_rights::send(&end, None, &KernelSocketInfo::Here.encode(), ours.as_fd()).unwrap();
    let id = Name::of(end.as_fd()).unwrap().id;
    world.poll();
    assert_eq!(world.socket_server.next_datagram(id, 7, &mut bytes), QueuedDatagram::Elsewhere);
    assert_eq!(world.socket_server.refused().collect::<Vec<_>>(), [(RefusalKind::Malformed, 2)]);
    assert!(!world.is_told());
}
