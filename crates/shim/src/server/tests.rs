//! Tests of the socket server with a client in the same process.

mod datagrams;
mod half;
mod opening;

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use net::stack::HopLimits;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, Shutdown, recv, send, shutdown, socketpair};

use super::super::ephemeral_ports::EPHEMERAL;
use super::super::{
    ANSWER_BYTES, ConnPair, DatagramOptions, KernelSocketInfo, ProgramRead, Reply, Reuse, ShimClient,
    SocketInfo, Wrote, label_table,
};
use super::*;
use crate::soon::soon;

const HERE: &str = "10.0.0.1:80";

struct World {
    socket_server: SocketServer,
    shim_client: ShimClient,
}

/// Sends requests from a thread while the server is polled.
impl World {
    fn new(secret: u8) -> Self {
        let addrs = vec!["10.0.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        let mut socket_server = SocketServer::open([secret; 16]).unwrap();
        socket_server.set_routes(Routes { subnets: vec![(addrs[0], 24)], addrs, ..Routes::default() });
        let shim_client = ShimClient::parse(&socket_server.variable()).expect("a valid variable");
        Self { socket_server, shim_client }
    }

    /// Sends a request; returns the answer, the client's end and the stack's events.
    fn ask(&mut self, request: Request) -> (Answer, OwnedFd, Vec<SocketEvent>) {
        let (asked, happened) = self.ask_stack(request, |_, _| ());
        (asked.answer, asked.end, happened)
    }

    /// Sends a request; `stack` handles each event.
    fn ask_stack(
        &mut self,
        request: Request,
        stack: impl FnMut(&mut SocketServer, &SocketEvent),
    ) -> (Reply, Vec<SocketEvent>) {
        self.while_polled(move |shim_client| shim_client.ask(&request).expect("the server is alive"), stack)
    }

    /// Runs `ask` in a thread while the server is polled.
    fn while_polled<R: Send>(
        &mut self,
        ask: impl FnOnce(ShimClient) -> R + Send,
        mut stack: impl FnMut(&mut SocketServer, &SocketEvent),
    ) -> (R, Vec<SocketEvent>) {
        let (shim_client, mut happened, mut seen) = (self.shim_client, Vec::new(), 0);
        let asked = std::thread::scope(|scope| {
            let asking = scope.spawn(move || ask(shim_client));
            while !asking.is_finished() {
                self.socket_server.poll(&mut happened);
                happened[seen..].iter().for_each(|what| stack(&mut self.socket_server, what));
                seen = happened.len();
                std::thread::yield_now();
            }
            asking.join().unwrap()
        });
        (asked, happened)
    }

    fn bind(&mut self, addr: &str) -> (Answer, OwnedFd) {
        let addr: SocketAddr = addr.parse().unwrap();
        let (six, v6_only) = (addr.is_ipv6(), false);
        let (answer, end, _) = self.ask(Request::Bind { addr, six, v6_only, reuse_port: false });
        (answer, end)
    }

    fn listener(&mut self, addr: &str) -> OwnedFd {
        let (answer, end) = self.bind(addr);
        assert_eq!(answer, Answer::Done, "{addr}");
        let id = Name::of(end.as_fd()).expect("a listener has a name").id;
        let (answer, _, happened) = self.ask(Request::Listen { id, backlog: 4 });
        assert_eq!(
            (answer, &happened[..]),
            (Answer::Done, &[SocketEvent::Listen { port: 80, fast_open: 0, hops: Default::default() }][..])
        );
        end
    }

    fn poll(&mut self) -> Vec<SocketEvent> {
        let mut happened = Vec::new();
        self.socket_server.poll(&mut happened);
        happened
    }

    /// True if epoll reports an event; a level-triggered one repeats until handled.
    fn is_told(&self) -> bool {
        ready(&self.socket_server.watches[0], |_, _| ())
    }
}

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn accept(listener: &OwnedFd) -> (Name, UnixStream) {
    let mut bytes = [0; super::super::socket_name::LEN];
    let message = scm_rights::receive(listener, &mut bytes, true).unwrap();
    let stream = UnixStream::from(message.fd.expect("a connection comes with its descriptor"));
    (Name::decode(&bytes[..message.len]).expect("and its name"), stream)
}

/// Reads after an event that the pair is readable.
fn found(pipe: &mut ConnPair, bytes: &mut [u8]) -> ProgramRead {
    pipe.arrived(false);
    pipe.read(bytes)
}

#[test]
fn a_connection_reaches_the_program_and_bytes_pass_both_ways() {
    let mut world = World::new(1);
    let listener = world.listener(HERE);
    let mut pipe = world.socket_server.offer(7, end(HERE), end("10.0.0.9:4242")).unwrap();
    let (name, mut stream) = accept(&listener);
    world.socket_server.outboxes().accept(name.id);
    assert_eq!((name.id, name.local, name.remote), (7, end(HERE), end("10.0.0.9:4242")));
    assert_eq!(Name::of(stream.as_fd()), Some(name), "the descriptor's peer has the same name");
    assert_eq!(pipe.write(b"request"), Wrote::Some(7));
    let mut bytes = [0; 32];
    assert_eq!(stream.read(&mut bytes).unwrap(), 7);
    assert_eq!(found(&mut pipe, &mut bytes), ProgramRead::Nothing);
    stream.write_all(b"response").unwrap();
    let expected = SocketEvent::Pipe { id: 7, readable: true, writable: false, gone: false };
    assert_eq!(world.poll(), [expected]);
    assert_eq!(found(&mut pipe, &mut bytes), ProgramRead::Some(8));
    pipe.finish();
    assert_eq!(stream.read(&mut bytes).unwrap(), 0, "end of stream");
    stream.write_all(b"late").unwrap();
    drop(stream);
    let expected = SocketEvent::Pipe { id: 7, readable: true, writable: false, gone: true };
    soon(|| world.poll().contains(&expected));
    assert_eq!(
        (found(&mut pipe, &mut bytes), found(&mut pipe, &mut bytes)),
        (ProgramRead::Some(4), ProgramRead::End)
    );
}

#[test]
fn only_the_last_copy_of_a_descriptor_closes() {
    let mut world = World::new(2);
    let listener = world.listener(HERE);
    let mut pipe = world.socket_server.offer(1, end(HERE), end("10.0.0.9:1")).unwrap();
    let (name, stream) = accept(&listener);
    world.socket_server.outboxes().accept(name.id);
    let copy = stream.try_clone().unwrap();
    drop(stream);
    assert_eq!((world.poll(), found(&mut pipe, &mut [0; 8])), (vec![], ProgramRead::Nothing));
    drop(copy);
    soon(|| found(&mut pipe, &mut [0; 8]) == ProgramRead::End);
}

#[test]
fn bytes_that_the_program_never_read_are_a_reset() {
    let mut world = World::new(3);
    let listener = world.listener(HERE);
    let mut pipe = world.socket_server.offer(1, end(HERE), end("10.0.0.9:1")).unwrap();
    assert_eq!(pipe.write(b"never read"), Wrote::Some(10));
    drop(accept(&listener));
    soon(|| found(&mut pipe, &mut [0; 8]) == ProgramRead::Reset);
    assert_eq!(pipe.write(b"more"), Wrote::Gone);
}

#[test]
fn free_space_is_reported_where_it_was_requested() {
    let mut world = World::new(4);
    let listener = world.listener(HERE);
    let pipe = world.socket_server.offer(1, end(HERE), end("10.0.0.9:1")).unwrap();
    let (_, mut stream) = accept(&listener);
    let mut written = 0;
    while let Wrote::Some(n) = pipe.write(&[b'x'; 65_536]) {
        written += n;
    }
    assert_eq!(pipe.write(b"x"), Wrote::Full);
    assert_eq!(world.poll(), []);
    pipe.want_room(true);
    assert_eq!(world.poll(), [], "no space yet");
    let mut bytes = vec![0; written];
    stream.read_exact(&mut bytes).unwrap();
    let expected = SocketEvent::Pipe { id: 1, readable: false, writable: true, gone: false };
    assert_eq!(world.poll(), [expected]);
}

#[test]
fn addresses_that_are_not_ours_are_the_kernels() {
    let mut world = World::new(5);
    for addr in ["127.0.0.1:80", "10.0.0.2:80", "[::1]:80", "0.0.0.0:0"] {
        assert_eq!(world.bind(addr).0, Answer::NotOurs, "{addr}");
    }
    let (answer, first) = world.bind("[fd00::1]:0");
    assert_eq!(answer, Answer::Done);
    let name = Name::of(first.as_fd()).unwrap();
    assert!(name.six && name.local.port() >= EPHEMERAL, "{name:?}");
    let again = format!("[fd00::1]:{}", name.local.port());
    assert_eq!(world.bind(&again).0, Answer::No(Errno::ADDRINUSE.raw_os_error()));
    drop(first);
    // A closed socket frees its address.
    soon(|| world.bind(&again).0 == Answer::Done);
}

//~ run: a closed socket's address is free at once
#[test]
fn a_closed_socket_is_noticed_by_the_request_for_its_address() {
    let mut world = World::new(8);
    let (addr, reuse) = (end(HERE), Reuse::default());
    // Without a poll in between: the requests are served in one round.
    let mut wants = |request: Request| {
        let flags = SocketFlags::CLOEXEC;
        let (end, server_end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        world.socket_server.serve(request, end, &mut Vec::new());
        let mut bytes = [0; ANSWER_BYTES];
        let (len, _) = recv(&server_end, &mut bytes[..], RecvFlags::DONTWAIT).expect("an answer");
        (Answer::decode(&bytes[..len]).unwrap(), server_end)
    };
    let stream = Request::Bind { addr, six: false, v6_only: false, reuse_port: false };
    let (six, v6_only, to, connects) = (false, false, None, false);
    let options = DatagramOptions::default();
    let datagrams = Request::Datagrams { addr, six, v6_only, reuse, options, to, connects };
    for request in [stream, datagrams] {
        let (answer, first) = wants(request);
        assert_eq!(answer, Answer::Done);
        assert_eq!(wants(request).0, Answer::No(Errno::ADDRINUSE.raw_os_error()));
        drop(first);
        soon(|| wants(request).0 == Answer::Done);
    }
}

//~ programs: a closed listener frees its port and resets its waiting connections
#[test]
fn a_closed_listener_releases_its_port() {
    let mut world = World::new(6);
    let listener = world.listener(HERE);
    let mut pipe = world.socket_server.offer(1, end(HERE), end("10.0.0.9:1")).unwrap();
    drop(listener);
    soon(|| world.poll().contains(&SocketEvent::Unlisten(80)));
    // A connection that was not accepted is reset with its listener.
    soon(|| found(&mut pipe, &mut [0; 8]) == ProgramRead::Reset);
    assert_eq!(pipe.read(&mut [0; 8]), ProgramRead::Reset);
    let refused = world.socket_server.offer(2, end(HERE), end("10.0.0.9:2"));
    assert_eq!(refused.err(), Some(AcceptError::NoListener));
}

#[test]
fn a_file_that_is_still_open_elsewhere_is_not_reported_after_its_release() {
    let mut world = World::new(60);
    let flags = SocketFlags::CLOEXEC;
    let (ours, _theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let copy = ours.try_clone().unwrap();
    let request = Request::Bind { addr: end(HERE), six: false, v6_only: false, reuse_port: false };
    world.socket_server.serve(request, ours, &mut Vec::new());
    shutdown(&copy, Shutdown::Both).unwrap();
    assert_eq!(world.poll(), [SocketEvent::Unlisten(80)]);
    assert!(!world.is_told());
}

#[test]
fn a_program_that_leaves_no_room_for_its_answer_is_not_waited_for() {
    let mut world = World::new(61);
    let timeout = std::time::Duration::from_secs(20);
    for request in [Request::Labels, Request::Interface] {
        // Both ends are blocking, which a program may set.
        let flags = SocketFlags::CLOEXEC;
        let (reply, program_end) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        set_socket_timeout(&reply, Timeout::Send, Some(timeout)).unwrap();
        let mut before = 0;
        while send(&reply, b"filler", QUIET).is_ok() {
            before += 1;
        }
        let start = std::time::Instant::now();
        world.socket_server.serve(request, reply, &mut Vec::new());
        assert!(start.elapsed() < timeout, "the server blocked");
        let mut bytes = [0; 16];
        let mut next = || scm_rights::receive(&program_end, &mut bytes, true).unwrap();
        (0..before).for_each(|_| assert_eq!(next().len, 6));
        let last = next();
        assert_eq!((last.len, last.fd.is_none()), (0, true), "no answer, then end of stream");
    }
}

//~ run: socket options are mapped, or refused and counted
#[test]
fn options_are_returned_or_refused_and_counted() {
    let mut world = World::new(7);
    let option = |level, name| Request::Option { id: 3, level, name, value: [1, 0] };
    let (answer, _, happened) = world.ask(option(libc::SOL_SOCKET, libc::SO_KEEPALIVE));
    let set = SocketEvent::Set { id: 3, setting: TcpSockopt::KeepAlive(true) };
    assert_eq!((answer, &happened[..]), (Answer::Done, &[set][..]));
    let unknown = option(libc::IPPROTO_TCP, libc::TCP_MD5SIG);
    let (answer, ..) = world.ask(unknown);
    assert_eq!(answer, Answer::No(Errno::NOPROTOOPT.raw_os_error()));
    let refusal = RefusalKind::SetOption { level: libc::IPPROTO_TCP, name: libc::TCP_MD5SIG };
    assert_eq!(world.socket_server.refused().collect::<Vec<_>>(), [(refusal, 1)]);
}

/// Requests an option; the stack answers for connections that are gone.
fn option(world: &mut World, id: u64, level: i32, name: i32) -> (Result<Vec<u8>, Errno>, Vec<SocketEvent>) {
    world.while_polled(
        move |shim_client| shim_client.option(id, level, name),
        |socket_server, what| {
            if let SocketEvent::Asked { call, .. } = what {
                socket_server.answer(*call, &SocketInfo::gone());
            }
        },
    )
}

//~ programs: socket options report the stack's state: TCP_INFO, SO_ACCEPTCONN and the like
#[test]
fn the_stack_is_asked_what_only_it_knows() {
    let mut world = World::new(16);
    let listener = world.listener(HERE);
    let id = Name::of(listener.as_fd()).unwrap().id;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE);
    world.ask(Request::Option { id, level, name, value: [100, 0] });
    let int = |value: i32| Ok(value.to_ne_bytes().to_vec());
    assert_eq!(option(&mut world, id, level, name), (int(100), vec![]), "the value set");
    let (read, happened) = option(&mut world, 9, level, name);
    assert_eq!(read, int(7200), "the default");
    assert!(matches!(happened[..], [SocketEvent::Asked { id: 9, .. }]), "{happened:?}");
    let (value, _) = option(&mut world, id, level, libc::TCP_INFO);
    assert_eq!(value.map(|info| info[0]), Ok(10), "the state LISTEN");
    let (value, _) = option(&mut world, id, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY);
    assert_eq!(value, int(0), "dual-stack");
    let (_, bound) = world.bind("10.0.0.1:81");
    let bound = Name::of(bound.as_fd()).unwrap().id;
    for (id, listens) in [(id, 1), (bound, 0)] {
        let (value, _) = option(&mut world, id, libc::SOL_SOCKET, libc::SO_ACCEPTCONN);
        assert_eq!(value, int(listens));
    }
    for id in [id, 9, MAILBOX | 1] {
        let (value, _) = option(&mut world, id, level, libc::TCP_MD5SIG);
        assert_eq!(value, Err(Errno::NOPROTOOPT), "{id:x}");
    }
    assert_eq!(world.socket_server.refused().count(), 0, "the kernel's default is read instead");
    world.socket_server.answer(77, &SocketInfo::gone());
}

//~ programs: TCP_FASTOPEN of a listener delivers the request with the SYN
#[test]
fn data_comes_with_a_syn_if_all_listeners_of_the_port_accept_it() {
    let mut world = World::new(34);
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_FASTOPEN);
    let share = |world: &mut World| {
        let request = Request::Bind { addr: end(HERE), six: false, v6_only: false, reuse_port: true };
        let (answer, listener, _) = world.ask(request);
        assert_eq!(answer, Answer::Done);
        (Name::of(listener.as_fd()).unwrap().id, listener)
    };
    let ((first, _one), (second, other)) = (share(&mut world), share(&mut world));
    let says = |world: &mut World, request| {
        let (answer, _, happened) = world.ask(request);
        (answer, happened)
    };
    let ask = |id, most| Request::Option { id, level, name, value: [most, 0] };
    let listen = |id| Request::Listen { id, backlog: 8 };
    let expected = |fast_open| {
        (Answer::Done, vec![SocketEvent::Listen { port: 80, fast_open, hops: Default::default() }])
    };
    assert_eq!(says(&mut world, ask(first, 5)), (Answer::Done, vec![]), "it does not listen yet");
    assert_eq!(says(&mut world, listen(first)), expected(5));
    assert_eq!(says(&mut world, ask(first, 7)), expected(7));
    assert_eq!(option(&mut world, first, level, name).0, Ok(7_i32.to_ne_bytes().to_vec()));
    assert_eq!(says(&mut world, listen(second)), expected(0), "the second listener has it off");
    assert_eq!(says(&mut world, ask(second, 3)), expected(3));
    drop(other);
    let no = (Answer::No(Errno::INVAL.raw_os_error()), vec![]);
    assert_eq!(says(&mut world, ask(3, 5)), no, "a connection is open");
    assert_eq!(says(&mut world, ask(first, -1)), no);
}

//~ programs: packets carry the hop limit of their socket; segments below IP_MINTTL are dropped (RFC 5082)
/// The stack answers SYNs with them, before there is a connection that could inherit options.
#[test]
fn hop_limits_of_listeners_apply_while_all_that_share_a_port_agree() {
    let mut world = World::new(28);
    let share = |world: &mut World| {
        let (addr, six, v6_only, reuse_port) = (end(HERE), false, false, true);
        let (_, listener, _) = world.ask(Request::Bind { addr, six, v6_only, reuse_port });
        (Name::of(listener.as_fd()).unwrap().id, listener)
    };
    let ((first, _one), (second, _other)) = (share(&mut world), share(&mut world));
    let mut says = |request| {
        let (answer, _, happened) = world.ask(request);
        assert_eq!(answer, Answer::Done);
        happened.iter().map(hop_limits).collect::<Vec<_>>()
    };
    fn hop_limits(what: &SocketEvent) -> [HopLimits; 2] {
        let SocketEvent::Listen { hops, .. } = *what else { panic!("{what:?}") };
        hops
    }
    let usual = HopLimits::default();
    let ttl =
        |id, value| Request::Option { id, level: libc::IPPROTO_IP, name: libc::IP_TTL, value: [value, 0] };
    let five = [HopLimits { sent: 5, ..usual }, usual];
    assert_eq!(says(ttl(first, 5)), [[usual; 2]; 0], "it does not listen yet");
    assert_eq!(says(Request::Listen { id: first, backlog: 8 }), [five]);
    assert_eq!(says(ttl(first, 5)), [[usual; 2]; 0], "unchanged");
    assert_eq!(says(Request::Listen { id: second, backlog: 8 }), [[usual; 2]], "they differ");
    assert_eq!(says(ttl(second, 5)), [five]);
    assert_eq!(says(ttl(second, -1)), [[usual; 2]]);
}

#[test]
fn connections_inherit_what_was_set_on_their_listener() {
    let mut world = World::new(15);
    let listener = world.listener(HERE);
    let id = Name::of(listener.as_fd()).unwrap().id;
    for seconds in [100, 200] {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE);
        let (answer, _, happened) = world.ask(Request::Option { id, level, name, value: [seconds, 0] });
        assert_eq!((answer, happened), (Answer::Done, vec![]), "a listener has no peer");
    }
    let _pipe = world.socket_server.offer(9, end(HERE), end("10.0.0.9:1")).unwrap();
    let idle = TcpSockopt::KeepIdle(queueing::Span::from_secs(200));
    assert_eq!(world.socket_server.take_inherited(), [idle], "the last value of each option");
}

//~ programs: a program reads its connections' labels
#[test]
fn a_program_reads_how_urgent_its_connections_are() {
    let mut world = World::new(8);
    let listener = world.listener(HERE);
    let shim_client = world.shim_client;
    let labels = std::thread::scope(|scope| {
        let asking = scope.spawn(move || shim_client.labels().expect("the server is alive"));
        while !asking.is_finished() {
            assert_eq!(world.poll(), []);
            std::thread::yield_now();
        }
        asking.join().unwrap()
    });
    let id = 5 << 32 | 1;
    let pipe = world.socket_server.offer(id, end(HERE), end("10.0.0.9:1")).unwrap();
    let (name, _stream) = accept(&listener);
    assert_eq!(labels.level(name.id), Some(7), "no data received");
    pipe.tell(2, &[9; label_table::PRIVATE]);
    assert_eq!((labels.level(name.id), labels.private(name.id)), (Some(2), Some([9; label_table::PRIVATE])));
    let (answer, _, happened) = world.ask(Request::Private { id, bytes: [4; label_table::PRIVATE] });
    let set = SocketEvent::Set { id, setting: TcpSockopt::Private([4; label_table::PRIVATE]) };
    assert_eq!((answer, &happened[..]), (Answer::Done, &[set][..]));
}

//~ run: requests without the run's key are refused
#[test]
fn requests_without_the_key_are_ignored() {
    let mut world = World::new(8);
    let variable = world.socket_server.variable();
    let parts: Vec<&str> = variable.split(':').collect();
    let stranger = ShimClient::parse(&format!("{}:{}:{}", parts[0], "0".repeat(32), parts[2])).unwrap();
    let asked = std::thread::scope(|scope| {
        let addr = end(HERE);
        let request = Request::Bind { addr, six: false, v6_only: false, reuse_port: false };
        let asking = scope.spawn(move || stranger.ask(&request).map(|asked| asked.answer));
        while !asking.is_finished() {
            world.socket_server.poll(&mut Vec::new());
            std::thread::yield_now();
        }
        asking.join().unwrap()
    });
    assert_eq!(asked, Err(Errno::NETDOWN));
    assert_eq!(world.socket_server.refused().collect::<Vec<_>>(), [(RefusalKind::Malformed, 1)]);
}

#[test]
fn a_desk_that_is_gone_is_the_network_that_is_down() {
    let World { socket_server, shim_client } = World::new(9);
    drop(socket_server);
    let asked = shim_client.ask(&Request::Listen { id: 1, backlog: 1 });
    assert_eq!(asked.err(), Some(Errno::NETDOWN));
}

//~ programs: a listener's own rules are set before it listens
#[test]
fn rules_of_a_listeners_own_are_taken_before_it_listens() {
    const RULES: &[u8] = b"[[rule]]\nlayer = \"transport\"\nrtt = \"> 50ms\"\npriority = 7\n";
    let mut world = World::new(9);
    let (_, end) = world.bind(HERE);
    let id = Name::of(end.as_fd()).expect("a listener has a name").id;
    let give = |world: &mut World, text: &[u8]| {
        let shim_client = world.shim_client;
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || shim_client.rule(id, text));
            while !asking.is_finished() {
                world.socket_server.poll(&mut Vec::new());
                std::thread::yield_now();
            }
            asking.join().unwrap()
        })
    };
    let why = give(&mut world, b"[[rule]]\nlayer = \"transport\"\npriority = 8").unwrap();
    assert_eq!(why.as_deref(), Some("line 3: priority 8 is outside 0..=7"));
    let driver = give(&mut world, b"[[rule]]\nlayer = \"driver\"\npriority = 0").unwrap();
    assert!(driver.is_some_and(|why| why.contains("write layer = \"transport\"")));
    assert!(give(&mut world, b"default = 3").unwrap().is_some_and(|why| why.contains("no [[rule]]")));
    assert!(give(&mut world, b"\xff").unwrap().is_some_and(|why| why.contains("UTF-8")));
    assert_eq!(give(&mut world, &[b'#'; 40_000]), Err(Errno::MSGSIZE));
    assert!(world.socket_server.classifier(80).is_none());
    assert_eq!(give(&mut world, RULES), Ok(None));
    assert!(world.socket_server.classifier(80).is_some() && world.socket_server.classifier(81).is_none());
    world.ask(Request::Listen { id, backlog: 4 });
    assert_eq!(give(&mut world, RULES), Err(Errno::ISCONN), "it listens already");
    drop(end);
    soon(|| {
        world.poll();
        world.socket_server.classifier(80).is_none()
    });
}

/// Send buffers, with that of connection `id` mapped.
fn reached(shim_client: ShimClient, id: u64) -> ShmSendBuffers {
    let outboxes = shim_client.outboxes().unwrap();
    shim_client.reach(&outboxes, id).unwrap();
    outboxes
}

//~ programs: bytes in the shared send buffer go before bytes in the socket pair
#[test]
fn what_is_in_the_outbox_comes_before_what_is_in_the_pair() {
    let mut world = World::new(30);
    let listener = world.listener(HERE);
    let mut pipe = world.socket_server.offer(7, end(HERE), end("10.0.0.9:1")).unwrap();
    let (name, mut stream) = accept(&listener);
    let (outboxes, _) = world.while_polled(|shim_client| reached(shim_client, name.id), |_, _| ());
    let put = |bytes: &'static [u8]| outboxes.put(name.id, std::iter::once(bytes), || true);
    let mut bytes = [0; 64];
    let mut read = |pipe: &mut ConnPair| match pipe.read(&mut bytes) {
        ProgramRead::Some(len) => bytes[..len].to_vec(),
        other => panic!("{other:?}"),
    };
    outboxes.accept(name.id);
    assert!(put(b"one "));
    assert_eq!(read(&mut pipe), b"one ", "the pair is not read");
    assert!(put(b"two "));
    stream.write_all(b"three ").unwrap();
    assert_eq!(read(&mut pipe), b"two ", "no event for the pair");
    assert!(put(b"four "), "by a writer that does not check the pair");
    pipe.arrived(false);
    assert_eq!(read(&mut pipe), b"four three ");
    assert!(put(b"five "), "the pair was read to its end");
    stream.write_all(b"six").unwrap();
    drop(stream);
    let expected = SocketEvent::Pipe { id: 7, readable: true, writable: false, gone: true };
    soon(|| world.poll().contains(&expected));
    pipe.arrived(true);
    assert_eq!(read(&mut pipe), b"five six");
    assert_eq!(pipe.read(&mut [0; 8]), ProgramRead::End, "without another event");
    assert!(!put(b"more"), "the stream has ended");
    let again = world.socket_server.offer(7 + (1 << 32), end(HERE), end("10.0.0.9:2")).unwrap();
    drop(again);
    assert!(!outboxes.put(7 + (1 << 32), std::iter::once(&b"lost"[..]), || true), "the connection has ended");
}
