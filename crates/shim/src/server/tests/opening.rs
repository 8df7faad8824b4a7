//! Tests of connections that programs open.

use net::stack::HopLimits;
use rustix::event::{PollFd, PollFlags, poll};

use super::super::connect::KEPT;
use super::*;

const PEER: &str = "10.0.0.9:80";
const FROM: &str = "10.0.0.1:40000";

fn connect(to: &str) -> Request {
    Request::Connect {
        to: end(to),
        six: false,
        waits: false,
        from: 0,
        send_buffer: 0,
        low_water: 1,
        hops: HopLimits::default(),
    }
}

/// poll(2) flags of `socket` now.
fn ready(socket: &OwnedFd) -> PollFlags {
    let mut fds = [PollFd::new(socket, PollFlags::IN | PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
    fds[0].revents()
}

impl World {
    /// A pending handshake as connection 7: the stack's end, and the program's.
    fn opening(&mut self, waits: bool) -> (ConnPair, OwnedFd, Reply) {
        let mut pipe = None;
        let request = Request::Connect {
            to: end(PEER),
            six: false,
            waits,
            from: 0,
            send_buffer: 0,
            low_water: 1,
            hops: HopLimits::default(),
        };
        let (mut asked, _) = self.ask_stack(request, |socket_server, what| {
            if let SocketEvent::Connect { call, to, port: None, .. } = *what {
                assert_eq!(to, end(PEER));
                pipe = socket_server.opening(call, 7, end(FROM), to);
            }
        });
        assert_eq!(asked.answer, Answer::Done);
        let program_end = asked.brought.take().expect("the connection comes with the answer");
        (pipe.expect("the stack received the request"), program_end, asked)
    }

    fn stands(&mut self) -> Answer {
        self.ask(Request::Opening { id: 7 }).0
    }
}

fn no(errno: Errno) -> Answer {
    Answer::No(errno.raw_os_error())
}

#[test]
fn a_connection_is_writable_once_its_handshake_is_complete() {
    let mut world = World::new(20);
    let (mut pipe, program_end, _) = world.opening(false);
    let name = Name::of(program_end.as_fd()).unwrap();
    assert_eq!((name.kind, name.local, name.remote), (SocketKind::Opened, end(FROM), end(PEER)));
    assert_eq!((ready(&program_end), world.stands()), (PollFlags::empty(), no(Errno::ALREADY)));
    let mut stream = UnixStream::from(program_end.try_clone().unwrap());
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.write(b"early").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    world.socket_server.opened(7, &mut pipe);
    assert_eq!((ready(&program_end), world.stands()), (PollFlags::OUT, Answer::Done));
    let much = vec![b'x'; 100_000];
    assert_eq!(stream.write(&much).unwrap(), much.len(), "the buffer has its full size");
    let mut bytes = vec![0; much.len()];
    let mut got = 0;
    while let ProgramRead::Some(len) = found(&mut pipe, &mut bytes[got..]) {
        got += len;
        if got == bytes.len() {
            break;
        }
    }
    assert!(bytes == much, "no padding");
    drop((program_end, stream));
    soon(|| found(&mut pipe, &mut [0; 8]) == ProgramRead::End);
}

#[test]
fn a_connection_that_could_not_be_opened_is_an_error_with_its_reason() {
    let mut world = World::new(21);
    let (pipe, program_end, _) = world.opening(false);
    world.socket_server.failed(7, Errno::CONNREFUSED);
    drop(pipe);
    soon(|| ready(&program_end).contains(PollFlags::ERR | PollFlags::OUT | PollFlags::IN));
    assert_eq!(world.stands(), no(Errno::CONNREFUSED));
    assert!(Name::of(program_end.as_fd()).is_some(), "the name stays");
}

#[test]
fn a_blocked_connect_gets_the_outcome() {
    let mut world = World::new(22);
    let (mut pipe, _theirs, asked) = world.opening(true);
    let moment = Some(std::time::Duration::from_millis(1));
    assert_eq!(asked.outcome(moment), Err(Errno::AGAIN), "not yet");
    world.socket_server.opened(7, &mut pipe);
    assert_eq!(asked.outcome(None), Ok(Answer::Done));
    let mut world = World::new(23);
    let (_, _theirs, asked) = world.opening(true);
    world.socket_server.failed(7, Errno::TIMEDOUT);
    assert_eq!(asked.outcome(None), Ok(no(Errno::TIMEDOUT)));
    let (_, _theirs, asked) = world.opening(true);
    drop(world);
    assert_eq!(asked.outcome(None), Err(Errno::NETDOWN), "the server is gone");
}

#[test]
fn what_the_stack_cannot_begin_is_refused_with_its_reason() {
    let mut world = World::new(24);
    let (asked, _) = world.ask_stack(connect(PEER), |socket_server, what| {
        if let SocketEvent::Connect { call, .. } = *what {
            socket_server.refuse_opening(call, Errno::ADDRNOTAVAIL);
        }
    });
    assert_eq!((asked.answer, asked.brought.is_none()), (no(Errno::ADDRNOTAVAIL), true));
    assert_eq!(world.ask(connect("192.0.2.1:80")).0, Answer::NotOurs);
}

#[test]
fn a_syn_has_the_hop_limits_of_its_socket() {
    let mut world = World::new(27);
    let (_, bound) = world.bind("10.0.0.1:4444");
    let bound = Name::of(bound.as_fd()).unwrap().id;
    for (name, value) in [(libc::IP_TTL, 5), (libc::IP_MINTTL, 3)] {
        let level = libc::IPPROTO_IP;
        world.ask(Request::Option { id: bound, level, name, value: [value, 0] });
    }
    let kernels = HopLimits { sent: 255, received_min: 254 };
    for (from, expected) in [(0, kernels), (bound, HopLimits { sent: 5, received_min: 3 })] {
        let to = end(PEER);
        let request = Request::Connect {
            to,
            six: false,
            waits: false,
            from,
            send_buffer: 0,
            low_water: 1,
            hops: kernels,
        };
        let mut hop_limits = None;
        world.ask_stack(request, |socket_server, what| {
            if let SocketEvent::Connect { call, hops, .. } = *what {
                hop_limits = Some(hops);
                socket_server.refuse_opening(call, Errno::NETUNREACH);
            }
        });
        assert_eq!(hop_limits, Some(expected), "from {from}");
    }
}

#[test]
fn a_bound_socket_connects_from_its_port_with_what_was_set() {
    let mut world = World::new(25);
    let (_, bound) = world.bind("10.0.0.1:4444");
    let from = Name::of(bound.as_fd()).unwrap().id;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_KEEPALIVE);
    world.ask(Request::Option { id: from, level, name, value: [1, 0] });
    let request = |to| Request::Connect {
        to: end(to),
        six: false,
        waits: false,
        from,
        send_buffer: 0,
        low_water: 1,
        hops: HopLimits::default(),
    };
    let mut pipe = None;
    let mut inherited = Vec::new();
    world.ask_stack(request(PEER), |socket_server, what| {
        if let SocketEvent::Connect { call, to, port, .. } = *what {
            assert_eq!(port, Some(4444));
            pipe = socket_server.opening(call, 7, end("10.0.0.1:4444"), to);
            inherited = socket_server.take_inherited();
        }
    });
    assert_eq!(inherited, [TcpSockopt::KeepAlive(true)]);
    // The socket is bound to the stack, so it cannot be the kernel's.
    assert_eq!(world.ask(request("192.0.2.1:80")).0, no(Errno::NETUNREACH));
    let listener = world.listener(HERE);
    let from = Name::of(listener.as_fd()).unwrap().id;
    let listening = Request::Connect {
        to: end(PEER),
        six: false,
        waits: false,
        from,
        send_buffer: 0,
        low_water: 1,
        hops: HopLimits::default(),
    };
    assert_eq!(world.ask(listening).0, no(Errno::ISCONN));
}

//~ programs: a socket bound to any port gets none of a connection that may be in TIME-WAIT
#[test]
fn a_socket_bound_to_any_port_has_none_of_a_connection() {
    // The same requests of the same server get the same port, unless a connection has it.
    let port = |bound: &OwnedFd| Name::of(bound.as_fd()).expect("a name").local.port();
    let mut world = World::new(95);
    let (_, bound) = world.bind("10.0.0.1:0");
    let first = port(&bound);
    drop((bound, world));
    for closes in [false, true] {
        let mut world = World::new(95);
        let mut pipe = None;
        world.ask_stack(connect(PEER), |socket_server, what| {
            if let SocketEvent::Connect { call, to, .. } = *what {
                pipe = socket_server.opening(call, 7, SocketAddr::new(end(HERE).ip(), first), to);
            }
        });
        assert!(pipe.is_some());
        if closes {
            world.socket_server.ended(7, ConnectionEnd { error: None, is_complete: true, released: true });
        }
        assert_ne!(port(&world.bind("10.0.0.1:0").1), first, "closed: {closes}");
    }
}

#[test]
fn programs_connect_to_each_other_without_a_wire() {
    let mut world = World::new(26);
    assert_eq!(world.ask(connect(HERE)).0, no(Errno::CONNREFUSED));
    let listener = world.listener(HERE);
    let (asked, happened) = world.ask_stack(connect(HERE), |_, _| ());
    assert_eq!((asked.answer, &happened[..]), (Answer::Done, &[][..]));
    let mut ours = UnixStream::from(asked.brought.unwrap());
    let (accepted, mut program_end) = accept(&listener);
    program_end.read_exact(&mut [0; 1]).expect("the mark that accept takes");
    let opened = Name::of(ours.as_fd()).unwrap();
    assert_eq!((opened.kind, accepted.kind), (SocketKind::Opened, SocketKind::Connection));
    assert_eq!((opened.local, opened.remote), (accepted.remote, accepted.local));
    assert_eq!(Name::of(program_end.as_fd()), Some(accepted), "the peer has the same name");
    ours.write_all(b"hello").unwrap();
    let mut bytes = [0; 5];
    program_end.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"hello");
}

//~ programs: a closed listener frees its port and resets its waiting connections
#[test]
fn a_connection_between_programs_that_ends_in_the_accept_queue_is_reset() {
    let mut world = World::new(94);
    let listener = world.listener(HERE);
    let (asked, _) = world.ask_stack(connect(HERE), |_, _| ());
    let mut ours = UnixStream::from(asked.brought.unwrap());
    drop(listener);
    let end = ours.read(&mut [0; 8]).expect_err("no clean end");
    assert_eq!(end.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_connection_in_its_handshake_has_no_outbox_to_write_to() {
    let mut world = World::new(31);
    let (mut pipe, _theirs, _) = world.opening(false);
    let (outboxes, _) = world.while_polled(|shim_client| reached(shim_client, 7), |_, _| ());
    let put = || outboxes.put(7, std::iter::once(&b"hello"[..]), || true);
    assert!(!put());
    world.socket_server.opened(7, &mut pipe);
    assert!(put());
    assert_eq!(pipe.read(&mut [0; 8]), ProgramRead::Some(5));
}

#[test]
fn a_program_that_is_gone_before_its_handshake_is_complete_is_noticed_after_a_while() {
    let mut world = World::new(67);
    let (_pipe, program_end, _asked) = world.opening(false);
    let is_gone = |what: &SocketEvent| matches!(what, SocketEvent::Pipe { id: 7, gone: true, .. });
    drop(program_end);
    assert!(!world.poll().iter().any(is_gone), "the server keeps a copy");
    world.socket_server.openings.let_go(|| std::time::Instant::now() + KEPT);
    soon(|| world.poll().iter().any(is_gone));
}

#[test]
fn a_handshake_that_takes_a_while_ends_as_others_do() {
    let mut world = World::new(68);
    let (mut pipe, program_end, _asked) = world.opening(false);
    world.socket_server.openings.let_go(|| std::time::Instant::now() + KEPT);
    assert_eq!((ready(&program_end), world.stands()), (PollFlags::empty(), no(Errno::ALREADY)));
    world.socket_server.opened(7, &mut pipe);
    assert_eq!((ready(&program_end), world.stands()), (PollFlags::OUT, Answer::Done));
    UnixStream::from(program_end).write_all(b"hello").unwrap();
    let mut bytes = [0; 8];
    assert_eq!(found(&mut pipe, &mut bytes), ProgramRead::Some(5));
    assert_eq!(&bytes[..5], b"hello", "no padding");
}
