//! The same exchange through smoltcp in its best configuration: small buffers, no Nagle, and the
//! application knows which socket to poll.

use std::cell::RefCell;

use net::Device as _;
use net::device::ReceivedFrame;
use net::device::memory::{self, MemoryDevice, MemoryFrame};
use queueing::Time;
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

struct End(RefCell<MemoryDevice>);

struct Rx<'a>(&'a End, MemoryFrame);

struct Tx<'a>(&'a End);

impl RxToken for Rx<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(self.1.as_ref());
        self.0.0.borrow_mut().recycle(self.1);
        result
    }
}

impl TxToken for Tx<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let (mut f, mut result) = (Some(f), None);
        let fill = &mut |buf: &mut [u8]| result = f.take().map(|f| f(buf));
        self.0.0.borrow_mut().transmit(Time::ZERO, len, fill).expect("the link has space");
        result.expect("fill was called")
    }
}

impl Device for End {
    type RxToken<'a> = Rx<'a>;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Rx<'_>, Tx<'_>)> {
        let ReceivedFrame { frame, .. } = self.0.borrow_mut().receive(Time::ZERO)?;
        Some((Rx(self, frame), Tx(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Tx<'_>> {
        Some(Tx(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = 1514;
        capabilities.medium = Medium::Ethernet;
        capabilities
    }
}

struct Host {
    interface: Interface,
    end: End,
    sockets: SocketSet<'static>,
    handles: Vec<SocketHandle>,
}

impl Host {
    fn new(host: u8, end: MemoryDevice, n: usize) -> Self {
        let mut end = End(RefCell::new(end));
        let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, host]).into());
        let mut interface = Interface::new(config, &mut end, Instant::ZERO);
        interface.update_ip_addrs(|addrs| {
            addrs.push(IpCidr::new(IpAddress::v4(10, 0, 0, host), 24)).expect("space for an address");
        });
        let mut sockets = SocketSet::new(Vec::with_capacity(n));
        let handles = (0..n).map(|_| sockets.add(socket())).collect();
        Self { interface, end, sockets, handles }
    }

    fn receive(&mut self, now: Instant) {
        let Self { interface, end, sockets, .. } = self;
        while interface.poll_ingress_single(now, end, sockets) != PollIngressSingleResult::None {}
    }

    fn send(&mut self, now: Instant) {
        self.interface.poll_egress(now, &mut self.end, &mut self.sockets);
    }
}

fn socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; 256]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket
}

/// Server and client with `n` connections.
pub struct Pair {
    server: Host,
    client: Host,
    now_us: i64,
    next: usize,
}

impl Pair {
    pub fn new(n: usize) -> Self {
        let (a, b) = memory::pair(256, 1514);
        let (server, client) = (Host::new(1, a, n), Host::new(2, b, n));
        let mut pair = Self { server, client, now_us: 1, next: 0 };
        // In groups of 32, each connection with its own ports on both sides.
        let all: Vec<usize> = (0..n).collect();
        for group in all.chunks(32) {
            for &i in group {
                let (remote_port, local_port) = (2000 + i as u16, 20_000 + i as u16);
                let socket = pair.server.sockets.get_mut::<Socket<'_>>(pair.server.handles[i]);
                socket.listen(remote_port).expect("a free port");
                let socket = pair.client.sockets.get_mut::<Socket<'_>>(pair.client.handles[i]);
                let remote = (IpAddress::v4(10, 0, 0, 1), remote_port);
                socket.connect(pair.client.interface.context(), remote, local_port).expect("a free port");
            }
            while !group.iter().all(|i| pair.is_open(*i)) {
                pair.now_us += 100_000;
                let now = Instant::from_micros(pair.now_us);
                pair.client.send(now);
                pair.server.receive(now);
                pair.server.send(now);
                pair.client.receive(now);
            }
        }
        pair
    }

    fn is_open(&self, i: usize) -> bool {
        self.client.sockets.get::<Socket<'_>>(self.client.handles[i]).may_send()
            && self.server.sockets.get::<Socket<'_>>(self.server.handles[i]).may_send()
    }

    /// One request and one response on the next connection.
    pub fn exchange(&mut self) {
        self.now_us += 1;
        let now = Instant::from_micros(self.now_us);
        let i = self.next;
        self.next = (self.next + 1) % self.client.handles.len();
        let Self { server, client, .. } = self;
        client
            .sockets
            .get_mut::<Socket<'_>>(client.handles[i])
            .send_slice(&[2; super::MESSAGE])
            .expect("open");
        client.send(now);
        server.receive(now);
        let socket = server.sockets.get_mut::<Socket<'_>>(server.handles[i]);
        socket.recv(|bytes| (bytes.len(), ())).expect("open");
        socket.send_slice(&[1; super::MESSAGE]).expect("open");
        server.send(now);
        client.receive(now);
        let socket = client.sockets.get_mut::<Socket<'_>>(client.handles[i]);
        let received = socket.recv(|bytes| (bytes.len(), bytes.len())).expect("open");
        assert_eq!(received, super::MESSAGE, "one response");
    }
}
