//! An echo server on our own stack, and a kernel client that checks each byte.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use host::Monotonic;
use host::lab::{Lab, Namespace, Veth};
use net::stack::{Config, ListenOptions};
use net::{ConnId, Device, EventKind, Stack};
use queueing::{Clock, Span, Time};
use rustix::net::ipproto::ICMP;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// The kernel's address in the namespace that we share an interface with.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);
/// Our stack's, on the same interface.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);
/// The client's, at the other end of the cable.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 9);
/// Where our stack echoes.
pub const PORT: u16 = 7;

/// A cable between a namespace that shares its end `gw0` with our stack and
/// one where clients run, at `eth0`.
pub struct Cable {
    pub ours: Namespace,
    pub clients: Namespace,
}

impl Cable {
    pub fn new(name: &str, veth: &Veth) -> Self {
        let lab = Lab::new(name).expect("the laboratory is available");
        let (ours, clients) = (lab.namespace("ours").unwrap(), lab.namespace("clients").unwrap());
        lab.veth((&ours, "gw0"), (&clients, "eth0"), veth).unwrap();
        ours.address("gw0", HOST.into(), 24).unwrap();
        clients.address("eth0", CLIENT.into(), 24).unwrap();
        Self { ours, clients }
    }

    /// Whether the kernel's own address behind our interface answers clients.
    pub fn host_answers(&self) {
        self.clients.enter(|| ping(HOST));
        let listener = self.ours.enter(|| std::net::TcpListener::bind((HOST, 0)).unwrap());
        let to = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"still here").unwrap();
        });
        let mut said = String::new();
        self.clients.enter(|| connect(to).read_to_string(&mut said).unwrap());
        assert_eq!(said, "still here");
        server.join().unwrap();
    }

    /// Sends `len` bytes to the echo from a kernel socket and compares.
    pub fn echoes(&self, len: usize) {
        self.clients.enter(|| what_is_sent_comes_back((IpAddr::from(OURS), PORT).into(), len));
    }
}

/// Asks `host` for an ICMP echo and waits for it.
pub fn ping(host: Ipv4Addr) {
    const REQUEST: [u8; 8] = [8, 0, 0xf7, 0xfd, 0, 1, 0, 1];
    let socket = socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ICMP)).unwrap();
    set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(10))).unwrap();
    sendto(&socket, &REQUEST, SendFlags::empty(), &SocketAddrV4::new(host, 0)).unwrap();
    let mut packet = [0; 128];
    loop {
        let (len, _) = recv(&socket, &mut packet, RecvFlags::empty()).expect("the host answers pings");
        // A reply (type 0) behind the IP header, from the one that was asked.
        if len >= 28 && packet[12..16] == host.octets() && packet[20..22] == [0, 0] {
            return;
        }
    }
}

/// A connection from a kernel socket that gives up after 30 s.
pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, Duration::from_secs(30)).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("30 s is a valid timeout");
    stream
}

/// `len` bytes that differ from any shifted copy of themselves.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect()
}

/// Sends `len` bytes to the echo at `to` from a kernel socket and compares.
pub fn what_is_sent_comes_back(to: SocketAddr, len: usize) {
    let sent = noise(len);
    let stream = connect(to);
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).expect("the server takes all");
            stream.shutdown(Shutdown::Write).expect("the connection stands");
        });
        (&stream).read_to_end(&mut received).expect("the server sends all back");
    });
    assert_eq!(received.len(), sent.len());
    assert!(received == sent, "the echo is what was sent");
}

/// An echo server on a device; ends and gives the device back when stopped.
pub struct Server<D> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(D, Stack)>,
}

impl<D: Device + Send + 'static> Server<D> {
    pub fn on(device: D, mac: [u8; 6]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut stack = Stack::new(Config::new(mac, OURS, 24, [7; 16]));
        stack.listen(PORT, ListenOptions::default()).unwrap();
        let thread = std::thread::spawn(move || serve(stack, device, &stopped));
        Self { stop, thread }
    }

    pub fn stop(self) -> (D, Stack) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the server does not panic")
    }
}

fn serve<D: Device>(mut stack: Stack, mut device: D, stop: &AtomicBool) -> (D, Stack) {
    let clock = Monotonic::new();
    let mut conns: Vec<(ConnId, bool)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        let mut idle = true;
        while stack.ingress_from(now, &mut device) {
            idle = false;
        }
        stack.handle_timeout(now);
        while let Some(event) = stack.poll_event() {
            match event.kind {
                EventKind::Accepted(_) => conns.push((event.conn, false)),
                EventKind::PeerClosed => {
                    conns
                        .iter_mut()
                        .filter(|(conn, _)| *conn == event.conn)
                        .for_each(|(_, closed)| *closed = true);
                }
                EventKind::Closed(_) => conns.retain(|(conn, _)| *conn != event.conn),
                _ => {}
            }
        }
        conns.retain(|&(conn, closed)| echo(&mut stack, now, conn, closed));
        stack.egress(now, &mut device);
        if idle {
            device.wait(Span::from_millis(1));
        }
    }
    (device, stack)
}

/// Sends back what can be; whether the connection goes on.
fn echo(stack: &mut Stack, now: Time, conn: ConnId, closed: bool) -> bool {
    let bytes = stack.received(conn).to_vec();
    let sent = stack.send(now, conn, &bytes).unwrap_or(0);
    stack.consume(now, conn, sent);
    if closed && sent == bytes.len() {
        stack.close(now, conn);
        return false;
    }
    true
}
