//! Tests with two stacks at one socket server, and a client.

//~ run: several stacks share listeners; each connection belongs to one stack

use std::io::Write as _;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use net::stack::HopLimits;
use net::steer::FlowHash;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{SendFlags, send};

use super::super::{
    Answer, DatagramHeader, DatagramOptions, Name, Reply, Request, Reuse, ShimClient, TcpSockopt, scm_rights,
    socket_name,
};
use super::*;
use crate::soon::soon;

const HERE: &str = "10.0.0.1:80";
const PEER: &str = "10.0.0.9:4242";

struct World {
    windows: [StackHandle; 2],
    shim_client: ShimClient,
}

fn end(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

impl World {
    fn new(secret: u8) -> Self {
        let steering = FlowSteering::new(2, FlowHash::Keyed([secret; 16]));
        let windows = StackHandle::open([secret; 16], steering).unwrap();
        let Ok(windows) = <[StackHandle; 2]>::try_from(windows) else { panic!("a window for each stack") };
        let addrs: Vec<IpAddr> = vec!["10.0.0.1".parse().unwrap()];
        windows[0].set_routes(Routes { subnets: vec![(addrs[0], 24)], addrs, ..Routes::default() });
        let shim_client = ShimClient::parse(&windows[0].variable()).unwrap();
        Self { windows, shim_client }
    }

    /// Sends a request from a thread; returns each stack's events until the reply. It must not
    /// connect.
    fn ask(&mut self, request: Request) -> (Reply, [Vec<SocketEvent>; 2]) {
        let (shim_client, mut events) = (self.shim_client, [Vec::new(), Vec::new()]);
        let asked = std::thread::scope(|scope| {
            let asking = scope.spawn(move || shim_client.ask(&request).expect("the server is alive"));
            while !asking.is_finished() {
                self.poll(&mut events);
                std::thread::yield_now();
            }
            asking.join().unwrap()
        });
        self.poll(&mut events);
        (asked, events)
    }

    fn poll(&mut self, events: &mut [Vec<SocketEvent>; 2]) {
        for (window, into) in self.windows.iter_mut().zip(events) {
            window.poll(into);
        }
    }

    /// Events of each stack now.
    fn poll_all(&mut self) -> [Vec<SocketEvent>; 2] {
        let mut events = [Vec::new(), Vec::new()];
        self.poll(&mut events);
        events
    }

    /// Asserts that each stack soon receives exactly the `expected` events.
    #[track_caller]
    fn told_soon(&mut self, expected: [Vec<SocketEvent>; 2]) {
        let mut events = [Vec::new(), Vec::new()];
        soon(|| {
            self.poll(&mut events);
            let begins = events.iter().zip(&expected).all(|(seen, expected)| expected.starts_with(seen));
            assert!(begins, "{events:?} is not {expected:?}");
            events == expected
        });
    }

    fn bind(&mut self, addr: &str) -> (u64, OwnedFd) {
        let request = Request::Bind { addr: end(addr), six: false, v6_only: false, reuse_port: false };
        let (Reply { answer, end, .. }, _) = self.ask(request);
        assert_eq!(answer, Answer::Done);
        (Name::of(end.as_fd()).expect("it has a name").id, end)
    }

    fn listener(&mut self) -> (u64, OwnedFd) {
        let (id, listener) = self.bind(HERE);
        let (asked, events) = self.ask(Request::Listen { id, backlog: 8 });
        assert_eq!(
            (asked.answer, events),
            (
                Answer::Done,
                [
                    vec![SocketEvent::Listen { port: 80, fast_open: 0, hops: Default::default() }],
                    vec![SocketEvent::Listen { port: 80, fast_open: 0, hops: Default::default() }]
                ]
            )
        );
        (id, listener)
    }

    /// True if the readiness descriptor of this stack is readable.
    fn is_awake(&self, stack: usize) -> bool {
        let epoll = self.windows[stack].readiness().unwrap();
        let mut ends = [PollFd::new(&epoll, PollFlags::IN)];
        rustix::event::poll(&mut ends, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
    }
}

fn accept(listener: &OwnedFd) -> (Name, UnixStream) {
    let mut bytes = [0; socket_name::LEN];
    let message = scm_rights::receive(listener, &mut bytes, true).unwrap();
    let stream = UnixStream::from(message.fd.expect("a connection comes with its descriptor"));
    (Name::decode(&bytes[..message.len]).expect("and its name"), stream)
}

#[test]
fn a_connection_belongs_to_one_stack_and_a_listener_to_all() {
    let mut world = World::new(1);
    let (_, listener) = world.listener();
    let conn = ConnId { index: 3, generation: 5 };
    for stack in [1, 0] {
        let _pipe = world.windows[stack].offer(conn, end(HERE), end(PEER)).unwrap();
        let (name, mut stream) = accept(&listener);
        assert_eq!((name.id, world.windows[stack].conn(name.id)), (world.windows[stack].number(conn), conn));
        assert!(!world.is_awake(0) && !world.is_awake(1));
        stream.write_all(b"request").unwrap();
        assert!(world.is_awake(stack) && !world.is_awake(1 - stack));
        let pipe = SocketEvent::Pipe { id: name.id, readable: true, writable: false, gone: false };
        let mut events = world.poll_all();
        assert_eq!((std::mem::take(&mut events[stack]), events), (vec![pipe], [vec![], vec![]]));
    }
    assert_ne!(world.windows[0].number(conn), world.windows[1].number(conn));
    drop(listener);
    world.told_soon([vec![SocketEvent::Unlisten(80)], vec![SocketEvent::Unlisten(80)]]);
}

#[test]
fn a_listener_is_known_before_the_next_frame_is_processed() {
    let mut world = World::new(5);
    let (id, _listener) = world.bind(HERE);
    let shim_client = world.shim_client;
    let mut first = Vec::new();
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || {
            shim_client.ask(&Request::Listen { id, backlog: 8 }).expect("the server is alive")
        });
        while !asking.is_finished() {
            world.windows[0].poll(&mut first);
            std::thread::yield_now();
        }
    });
    // The program has its answer, and the second stack has not been polled since.
    let mut events = Vec::new();
    assert!(world.windows[1].poll_posted(&mut events));
    assert_eq!(
        (events, first),
        (
            vec![SocketEvent::Listen { port: 80, fast_open: 0, hops: Default::default() }],
            vec![SocketEvent::Listen { port: 80, fast_open: 0, hops: Default::default() }]
        )
    );
    assert!(!world.windows[1].poll_posted(&mut Vec::new()));
}

#[test]
fn a_request_on_a_connection_reaches_its_stack() {
    let mut world = World::new(2);
    let (id, _listener) = world.listener();
    let option =
        |id| Request::Option { id, level: libc::SOL_SOCKET, name: libc::SO_KEEPALIVE, value: [1, 0] };
    let setting = TcpSockopt::KeepAlive(true);
    // Connections of both stacks inherit it from the listener.
    assert_eq!(world.ask(option(id)).1, [vec![], vec![]]);
    let conn = ConnId { index: 0, generation: 1 };
    for stack in [0, 1] {
        let _pipe = world.windows[stack].offer(conn, end(HERE), end(PEER)).unwrap();
        assert_eq!(world.windows.each_mut().map(StackHandle::take_inherited)[stack], [setting], "{stack}");
        let id = world.windows[stack].number(conn);
        let set = vec![SocketEvent::Set { id, setting }];
        let mut events = world.ask(option(id)).1;
        assert_eq!((std::mem::take(&mut events[stack]), events), (set, [vec![], vec![]]), "{stack}");
    }
}

/// Index of the stack that receives the request to open a connection to `to`, and rejects it.
fn opener(world: &mut World, from: u64, to: &str) -> usize {
    let request = Request::Connect {
        to: end(to),
        six: false,
        waits: false,
        from,
        send_buffer: 0,
        low_water: 1,
        hops: HopLimits::default(),
    };
    let (shim_client, mut opener) = (world.shim_client, None);
    std::thread::scope(|scope| {
        let asking = scope.spawn(move || shim_client.ask(&request).expect("the server is alive"));
        while !asking.is_finished() {
            for (stack, events) in world.poll_all().into_iter().enumerate() {
                for what in events {
                    let SocketEvent::Connect { call, .. } = what else { panic!("{what:?}") };
                    assert_eq!(opener.replace(stack), None, "one stack receives it");
                    world.windows[stack].refuse_opening(call, Errno::ADDRNOTAVAIL);
                }
            }
            std::thread::yield_now();
        }
    });
    opener.expect("one stack receives it")
}

#[test]
fn a_connection_is_opened_by_the_owner_of_its_flow_or_by_each_in_turn() {
    let mut world = World::new(3);
    let turns: Vec<usize> = (0..4).map(|_| opener(&mut world, 0, PEER)).collect();
    assert!(turns == [0, 1, 0, 1] || turns == [1, 0, 1, 0], "{turns:?}");
    let mut owners = [0; 2];
    for port in 4000..4016 {
        let (from, _socket) = world.bind(&format!("10.0.0.1:{port}"));
        let [local, peer] = ["10.0.0.1", "10.0.0.9"].map(|addr| addr.parse::<IpAddr>().unwrap());
        let flow = FourTuple { local, remote: peer, local_port: port, remote_port: 4242 };
        let owner = usize::from(world.windows[0].steering.of_flow(&flow));
        assert_eq!(opener(&mut world, from, PEER), owner, "port {port}");
        owners[owner] += 1;
    }
    assert!(owners[0] > 0 && owners[1] > 0, "{owners:?}");
}

#[test]
fn datagrams_leave_by_the_stack_that_delivered_last() {
    let mut world = World::new(4);
    let (udp_addr, alone) = (end("10.0.0.1:53"), Reuse { addr: false, port: false });
    let request = Request::Datagrams {
        addr: udp_addr,
        six: false,
        v6_only: false,
        reuse: alone,
        options: DatagramOptions::default(),
        to: None,
        connects: false,
    };
    let (Reply { answer, end: socket, .. }, events) = world.ask(request);
    assert_eq!(
        (answer, events),
        (Answer::Done, [vec![SocketEvent::Bound(53)], vec![SocketEvent::Bound(53)]])
    );
    let id = Name::of(socket.as_fd()).expect("a socket has a name").id;
    let answers = [&DatagramHeader::Peer(end(PEER)).encode()[..], b"answer"].concat();
    let mut bytes = [0; 64];
    let arrived = Arrived { local: udp_addr, remote: end(PEER), class: 0, hops: 64 };
    for stack in [1, 0, 1] {
        assert_eq!(world.windows[stack].deliver(arrived, 2, b"question", 0), Delivered::To(id));
        send(&socket, &answers, SendFlags::empty()).unwrap();
        let mut events = world.poll_all();
        // The first stack receives the event, and posts it to its recipient.
        events.iter_mut().zip(world.poll_all()).for_each(|(seen, later)| seen.extend(later));
        assert_eq!(
            (std::mem::take(&mut events[stack]), events),
            (vec![SocketEvent::DatagramReadable(id)], [vec![], vec![]])
        );
        let out = QueuedDatagram::Out {
            from: udp_addr,
            to: end(PEER),
            len: 6,
            segment: 6,
            class: 0,
            dont_fragment: false,
            hops: 64,
        };
        assert_eq!(world.windows[stack].next_datagram(id, 2, &mut bytes), out);
    }
    drop(socket);
    world.told_soon([vec![], vec![SocketEvent::DatagramReadable(id)]]);
    assert_eq!(
        world.windows[1].next_datagram(id, 2, &mut bytes),
        QueuedDatagram::End { port: 53, last: true }
    );
    assert_eq!(world.poll_all(), [vec![SocketEvent::Closed { socket: id, port: 53, last: true }], vec![]]);
}
