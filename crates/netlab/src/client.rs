//! Test clients on the kernel's sockets, which check every byte received.
//!
//! They run on the calling thread, so call them inside [`Namespace::enter`](super::Namespace::enter).
//! They panic if the server misbehaves: they are for tests.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use rustix::net::ipproto::{ICMP, ICMPV6};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Timeout for a response, many times the longest expected one.
const LIMIT: Duration = Duration::from_secs(60);

/// `len` bytes that differ from any shifted copy of themselves.
#[must_use]
pub fn noise(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect()
}

/// A connection with a timeout of one minute.
///
/// # Panics
/// No listener at `to`.
#[must_use]
pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, LIMIT).expect("the server listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a minute is a valid timeout");
    stream
}

/// Sends `len` bytes to the echo at `to` and receives them concurrently, as needed for an echo that
/// stops reading when its writes block.
///
/// # Panics
/// The bytes received differ.
pub fn check_echo(to: SocketAddr, len: usize) {
    let sent = noise(len);
    let stream = connect(to);
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).expect("the server reads all");
            stream.shutdown(Shutdown::Write).expect("the connection is established");
        });
        (&stream).read_to_end(&mut received).expect("the server sends all back");
    });
    assert_eq!(received.len(), sent.len());
    assert!(received == sent, "the echo equals the bytes sent");
}

/// Sends a datagram of each length to the echo at `to`, from a connected socket, and waits for each. A
/// lost one is sent again.
///
/// # Panics
/// The bytes received differ, or none arrive.
pub fn check_datagram_echo(to: SocketAddr, lens: &[usize]) {
    const TRIES: u32 = 10;
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).expect("a port is free");
    socket.connect(to).expect("there is a route");
    socket.set_read_timeout(Some(LIMIT / TRIES)).expect("a valid timeout");
    let mut buffer = vec![0; 65_536];
    for &len in lens {
        let sent = noise(len);
        let mut tries = (0..TRIES).map(|_| {
            socket.send(&sent).expect("the kernel sends it");
            socket.recv(&mut buffer)
        });
        let got = tries.find_map(Result::ok).unwrap_or_else(|| panic!("{len} bytes to {to}: no answer"));
        assert!(buffer[..got] == sent, "{len} bytes to {to}: {got} came back, or others");
    }
}

/// Sends an ICMP echo request to `host` and waits for the reply.
///
/// # Panics
/// No reply within 10 s.
pub fn ping(host: IpAddr) {
    let (family, protocol, request) = match host {
        IpAddr::V4(_) => (AddressFamily::INET, ICMP, [8, 0, 0xf7, 0xfd, 0, 1, 0, 1]),
        // The kernel fills in the checksum.
        IpAddr::V6(_) => (AddressFamily::INET6, ICMPV6, [128, 0, 0, 0, 0, 1, 0, 1]),
    };
    let socket =
        socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(protocol)).expect("we are root");
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(10))).expect("a valid timeout");
    sendto(&socket, &request, SendFlags::empty(), &SocketAddr::new(host, 0)).expect("a route exists");
    let mut packet = [0; 128];
    loop {
        let (len, _) = recv(&socket, &mut packet, RecvFlags::empty()).expect("the host answers pings");
        // IPv4 packets include their header, the only place with the source address.
        let answers = match host {
            IpAddr::V4(host) => len >= 28 && packet[12..16] == host.octets() && packet[20..22] == [0, 0],
            IpAddr::V6(_) => len >= 8 && packet[..8] == [129, 0, packet[2], packet[3], 0, 1, 0, 1],
        };
        if answers {
            return;
        }
    }
}
