//! Byte streams between tasks: complete, bounded, closed by halves.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use net::stack::ListenOptions;
use queueing::Span;
use runtime::task::{TcpListener, TcpStream, set_label, sleep, spawn, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::sync::Notify;

use crate::world::{PORT, World, address, level, strict};

/// Echoes until the peer has closed its half.
async fn echo(stream: TcpStream) {
    let (mut reader, mut writer) = split(stream);
    copy(&mut reader, &mut writer).await.expect("an echo");
    writer.shutdown().await.expect("a polite end");
}

fn serve_echo(world: &World) {
    world.server.spawn(async {
        let mut listener = TcpListener::bind(PORT).expect("a free port");
        loop {
            let (stream, _) = listener.accept().await;
            spawn(echo(stream));
        }
    });
}

/// Echo of `bytes`.
async fn ask(bytes: Vec<u8>) -> Vec<u8> {
    let (mut reader, mut writer) = split(TcpStream::connect(address()).await.expect("a server"));
    let sent = bytes.len();
    let sending = spawn(async move {
        writer.write_all(&bytes).await.expect("room, sooner or later");
        writer.shutdown().await.expect("an open half");
    });
    let mut got = Vec::with_capacity(sent);
    reader.read_to_end(&mut got).await.expect("an answer");
    sending.await.expect("all is sent");
    got
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251 + seed) as u8).collect()
}

#[test]
fn written_bytes_of_any_length_are_read_in_order() {
    let mut world = World::new();
    serve_echo(&world);
    for len in [1, 1459, 1461, 100_000, 3_000_000] {
        let sent = pattern(len, 1);
        let asked = world.client.spawn(ask(sent.clone()));
        assert!(world.finish(&asked) == sent, "{len} bytes");
    }
}

#[test]
fn many_connections_are_served_side_by_side() {
    let mut world = World::new();
    serve_echo(&world);
    let asked: Vec<_> = (0..500).map(|n| world.client.spawn(ask(pattern(2_000, n)))).collect();
    for (n, asked) in asked.iter().enumerate() {
        assert_eq!(world.finish(asked), pattern(2_000, n));
    }
    world.settle();
    assert_eq!((world.server.tasks(), world.client.tasks()), (1, 0), "all but the listener's are over");
}

#[test]
fn a_peer_that_does_not_read_stops_the_writer_and_nothing_is_lost() {
    let mut world = World::new();
    let (go, written) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let reading = world.server.spawn({
        let go = go.clone();
        async move {
            let (mut stream, _) = TcpListener::bind(PORT).expect("a free port").accept().await;
            go.notified().await;
            let mut got = Vec::new();
            stream.read_to_end(&mut got).await.expect("the rest");
            got
        }
    });
    let sent = pattern(4 << 20, 3);
    world.client.spawn({
        let (sent, written) = (sent.clone(), written.clone());
        async move {
            let mut stream = TcpStream::connect(address()).await.expect("a server");
            let mut rest = &sent[..];
            while !rest.is_empty() {
                let n = stream.write(rest).await.expect("an open connection");
                written.fetch_add(n, Ordering::Relaxed);
                rest = &rest[n..];
            }
        }
    });
    world.pass(Span::from_secs(1));
    let stuck_at = written.load(Ordering::Relaxed);
    assert!(stuck_at < 2 << 20, "two buffers take {stuck_at} bytes");
    world.pass(Span::from_secs(1));
    assert_eq!(written.load(Ordering::Relaxed), stuck_at, "the peer does not read");
    go.notify_one();
    assert!(world.finish(&reading) == sent);
}

#[test]
fn closing_one_half_leaves_the_other_open() {
    let mut world = World::new();
    let served = world.server.spawn(async {
        let (mut stream, _) = TcpListener::bind(PORT).expect("a free port").accept().await;
        let mut question = String::new();
        stream.read_to_string(&mut question).await.expect("a question");
        assert_eq!(stream.read(&mut [0; 8]).await.expect("the end, again"), 0);
        sleep(Span::from_millis(30)).await;
        stream.write_all(format!("{question}? yes").as_bytes()).await.expect("our half is open");
        stream.shutdown().await.expect("open");
        stream.write_all(b"more").await.expect_err("it is closed").kind()
    });
    let asked = world.client.spawn(async {
        let mut stream = TcpStream::connect(address()).await.expect("a server");
        stream.write_all(b"half").await.expect("room");
        stream.shutdown().await.expect("open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    });
    assert_eq!(world.finish(&asked), "half? yes");
    assert_eq!(world.finish(&served), ErrorKind::BrokenPipe);
}

#[test]
fn connecting_to_a_closed_port_is_refused() {
    let mut world = World::new();
    let asked = world.client.spawn(async { TcpStream::connect(address()).await.map(|_| ()) });
    assert_eq!(world.finish(&asked).expect_err("no listener").kind(), ErrorKind::ConnectionRefused);
    let asked = world.client.spawn(async { TcpStream::connect(([10, 9, 9, 9], 1).into()).await.map(|_| ()) });
    assert_eq!(world.finish(&asked).expect_err("no route").kind(), ErrorKind::NetworkUnreachable);
}

#[test]
fn a_connection_dropped_with_bytes_unread_is_reset() {
    let mut world = World::new();
    world.server.spawn(async {
        let (stream, _) = TcpListener::bind(PORT).expect("a free port").accept().await;
        sleep(Span::from_millis(5)).await;
        drop(stream);
    });
    let asked = world.client.spawn(async {
        let mut stream = TcpStream::connect(address()).await.expect("a server");
        stream.write_all(b"nobody reads this").await.expect("room");
        stream.read(&mut [0; 8]).await.expect_err("a reset").kind()
    });
    assert_eq!(world.finish(&asked), ErrorKind::ConnectionReset);
}

#[test]
fn a_port_is_listened_on_once() {
    let mut world = World::new();
    let tried = world.server.spawn(async {
        let first = TcpListener::bind(PORT).expect("a free port");
        let kind = |port| TcpListener::bind(port).err().map(|e| e.kind());
        let refused = (kind(PORT), kind(0));
        drop(first);
        (refused, kind(PORT))
    });
    let refused = (Some(ErrorKind::AddrInUse), Some(ErrorKind::InvalidInput));
    assert_eq!(world.finish(&tried), (refused, None), "a listener that is gone leaves its port");
}

#[test]
fn beyond_the_backlog_connections_are_reset_and_counted() {
    let mut world = World::new();
    let options = ListenOptions { backlog: 2, ..ListenOptions::default() };
    let mut listener = world.server.handle().listen(PORT, options).expect("a free port");
    let asked: Vec<_> = (0..3)
        .map(|_| {
            world.client.spawn(async {
                let mut stream = TcpStream::connect(address()).await.expect("a handshake");
                let read = timeout(Span::from_millis(50), stream.read(&mut [0; 8])).await;
                read.map(|read| read.expect_err("a reset").kind())
            })
        })
        .collect();
    let results: Vec<_> = asked.iter().map(|asked| world.finish(asked)).collect();
    let reset = results.iter().filter(|r| **r == Ok(ErrorKind::ConnectionReset)).count();
    assert_eq!((reset, world.server.counters().overflows), (1, 1), "{results:?}");
    let taken = world.server.spawn(async move {
        let waiting = timeout(Span::from_millis(1), listener.accept()).await.is_ok();
        let more = timeout(Span::from_millis(1), listener.accept()).await.is_ok();
        (waiting, more, timeout(Span::from_millis(1), listener.accept()).await.is_ok())
    });
    assert_eq!(world.finish(&taken), (true, true, false));
}

#[test]
fn remaining_connections_are_accepted_in_order_after_others_close() {
    let mut world = World::new();
    let options = ListenOptions { backlog: 2, ..ListenOptions::default() };
    let mut listener = world.server.handle().listen(PORT, options).expect("a free port");
    let connect = |world: &mut World| {
        let asked = world.client.spawn(TcpStream::connect(address()));
        world.finish(&asked).expect("a handshake")
    };
    let first = connect(&mut world);
    // With the first one's, as many entries as two connections can have on eight levels.
    for _ in 0..15 {
        let gone = connect(&mut world);
        world.client.with_stack(|stack| stack.abort(world.now, gone.id()));
        world.settle();
    }
    let last = connect(&mut world);
    let taken = world.server.spawn(async move {
        let mut peers = Vec::new();
        while let Ok((_stream, peer)) = timeout(Span::from_millis(1), listener.accept()).await {
            peers.push(peer);
        }
        peers
    });
    assert_eq!(world.finish(&taken), [first.local_addr(), last.local_addr()]);
    assert_eq!(world.server.counters().overflows, 0);
}

#[test]
fn the_most_urgent_waiting_connection_is_accepted_first() {
    let mut world = World::with(strict(1), strict(2));
    let mut listener = world.server.handle().listen(PORT, ListenOptions::default()).expect("a free port");
    for request in ["5 later", "1 soon", "0 now", "nobody knows"] {
        world.client.spawn(async move {
            let mut stream = TcpStream::connect(address()).await.expect("a server");
            stream.write_all(request.as_bytes()).await.expect("room");
            sleep(Span::from_secs(9)).await;
        });
        world.settle();
    }
    let accepted = world.server.spawn(async move {
        let mut order = Vec::new();
        for _ in 0..4 {
            set_label(queueing::Label::new(level(3)));
            let _stream = listener.accept().await;
            order.push(runtime::task::label().priority.level());
        }
        order
    });
    assert_eq!(world.finish(&accepted), [0, 1, 5, 7]);
}
