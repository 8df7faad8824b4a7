//! Datagrams between tasks: ordered by label, bounded, answered to their sender.

//~ tasks: the most urgent datagrams are received first and answered with their label

use std::io::ErrorKind;
use std::net::SocketAddr;

use net::stack::UdpOptions;
use queueing::{Label, Priority};
use runtime::task::{UdpSocket, label, spawn, yield_now};

use crate::world::{PORT, World, address, level};

/// Answers each datagram with the task's level.
async fn tells_its_level() {
    let mut socket = UdpSocket::bind(PORT).expect("a free port");
    let mut buf = [0; 64];
    loop {
        let received = socket.recv_from(&mut buf).await;
        let text = format!("{} at {}", received.len, label().priority.level());
        socket.answer(&received, text.as_bytes()).expect("room");
    }
}

async fn ask(text: &'static [u8]) -> (String, SocketAddr) {
    let mut socket = UdpSocket::bind(0).expect("a free port");
    socket.send_to(text, address()).expect("room");
    let mut buf = [0; 64];
    let received = socket.recv_from(&mut buf).await;
    (String::from_utf8_lossy(&buf[..received.len]).into_owned(), received.remote)
}

#[test]
fn a_datagram_is_answered_by_a_task_with_its_label() {
    let mut world = World::new();
    world.server.spawn(tells_its_level());
    for (text, answer) in [(b"2 pay".as_slice(), "5 at 2"), (b"7", "1 at 7"), (b"", "0 at 7")] {
        let asked = world.client.spawn(ask(text));
        assert_eq!(world.finish(&asked), (answer.to_owned(), address()));
    }
}

#[test]
fn waiting_datagrams_are_received_by_urgency() {
    let mut world = World::new();
    let received_digits = world.server.spawn(async {
        let mut socket = UdpSocket::bind(PORT).expect("a free port");
        let mut digits = Vec::new();
        let mut buf = [0; 8];
        for _ in 0..5 {
            let received = socket.recv_from(&mut buf).await;
            digits.extend_from_slice(&buf[..received.len]);
        }
        digits
    });
    world.settle();
    world.client.spawn(async {
        let socket = UdpSocket::bind(0).expect("a free port");
        for digit in [b"5", b"7", b"0", b"3", b"5"] {
            socket.send_to(digit, address()).expect("room");
        }
    });
    // The first datagram on the wire waits for ARP; all arrive together.
    assert_eq!(world.finish(&received_digits), *b"03557");
}

#[test]
fn an_urgent_datagram_raises_a_queued_task() {
    let mut world = World::new();
    world.server.spawn(tells_its_level());
    world.client.spawn(async {
        let mut socket = UdpSocket::bind(0).expect("a free port");
        socket.send_to(b"7 there", address()).expect("room");
        socket.recv_from(&mut [0; 64]).await;
        socket.send_to(b"6", address()).expect("room");
        socket.send_to(b"1", address()).expect("room");
    });
    // Both have arrived by the first poll.
    let mut turns = Vec::new();
    world.settle_with(|levels| turns.extend(levels));
    let after = turns.iter().rposition(|&level| level == 1).expect("a poll at level 1");
    assert!(turns[after..].iter().all(|&level| level != 6), "{turns:?}: one task, raised");
}

#[test]
fn unsupported_udp_operations_are_errors() {
    let mut world = World::new();
    let service = world.server.spawn(async {
        let socket = UdpSocket::bind(9).expect("a free port");
        let kind = |result: std::io::Result<()>| result.map_err(|e| e.kind());
        let taken = UdpSocket::bind(9).err().map(|e| e.kind());
        let long = kind(socket.send_to(&[0; 65_508], address()));
        let nowhere = kind(socket.send_to(b"?", "[2001:db8::1]:9".parse().expect("an address")));
        drop(socket);
        let again = UdpSocket::bind(9).is_ok();
        (taken, long, nowhere, again)
    });
    let results = world.finish(&service);
    let expected =
        (Some(ErrorKind::AddrInUse), Err(ErrorKind::InvalidInput), Err(ErrorKind::NetworkUnreachable), true);
    assert_eq!(results, expected);
}

#[test]
fn an_unread_socket_keeps_the_most_urgent_datagrams() {
    let mut world = World::new();
    let options = UdpOptions { capacity: 2, ..UdpOptions::default() };
    let mut socket = world.server.handle().bind_udp(PORT, options).expect("a free port");
    world.client.spawn(async {
        let socket = UdpSocket::bind(0).expect("a free port");
        for digit in [b"6", b"7", b"1", b"0", b"5"] {
            socket.send_to(digit, address()).expect("room");
            yield_now().await;
        }
    });
    world.settle();
    let received = world.server.spawn(async move {
        let mut levels = Vec::new();
        for _ in 0..2 {
            socket.recv_from(&mut [0; 8]).await;
            levels.push(label().priority);
        }
        // Spawned tasks inherit the level.
        (levels, spawn(async { label() }).await)
    });
    let (levels, spawned) = world.finish(&received);
    assert_eq!(levels, [Priority::HIGHEST, level(1)]);
    assert_eq!(spawned, Ok(Label::new(level(1))));
}
