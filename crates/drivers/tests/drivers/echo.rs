//! Echo server on greenwave's stack, and a veth pair to the kernel's clients.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use host::Monotonic;
use net::stack::{Config, Ipv6, ListenOptions};
use net::{ConnId, Device, EventKind, Stack};
use netlab::client::{check_echo, connect, ping};
use netlab::{Namespace, NetLab, Veth};
use queueing::{Clock, Span, Time};

/// The kernel's address in the namespace where both stacks share an interface.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 1);
/// Address of greenwave's stack on the same interface.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);
/// The client's address, at the other end of the veth pair.
pub const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 9);
/// The same for IPv6.
pub const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 1);
pub const OURS6: Ipv6Addr = Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 2);
pub const CLIENT6: Ipv6Addr = Ipv6Addr::new(0xfd07, 0, 0, 0, 0, 0, 0, 9);
/// Port of the echo server.
pub const PORT: u16 = 7;

/// A veth pair between a namespace whose end `gw0` greenwave's stack shares, and one with clients, at
/// `eth0`.
pub struct Cable {
    pub ours: Namespace,
    pub clients: Namespace,
}

impl Cable {
    pub fn new(name: &str, veth: &Veth) -> Self {
        let lab = NetLab::new(name).expect("the test bed is available");
        let (ours, clients) = (lab.namespace("ours").unwrap(), lab.namespace("clients").unwrap());
        lab.veth((&ours, "gw0"), (&clients, "eth0"), veth).unwrap();
        for (host, client, prefix) in
            [(IpAddr::from(HOST), IpAddr::from(CLIENT), 24), (HOST6.into(), CLIENT6.into(), 64)]
        {
            ours.address("gw0", host, prefix).unwrap();
            clients.address("eth0", client, prefix).unwrap();
        }
        Self { ours, clients }
    }

    /// Checks that the kernel's own addresses behind our interface answer clients.
    pub fn host_answers(&self) {
        for host in [IpAddr::from(HOST), HOST6.into()] {
            self.clients.enter(|| ping(host));
            let listener = self.ours.enter(|| std::net::TcpListener::bind((host, 0)).unwrap());
            let to = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(b"still here").unwrap();
            });
            let mut answer = String::new();
            self.clients.enter(|| connect(to).read_to_string(&mut answer).unwrap());
            assert_eq!(answer, "still here");
            server.join().unwrap();
        }
    }

    /// Sends `len` bytes to the echo over each family and compares; pings it.
    pub fn echoes(&self, len: usize) {
        for ours in [IpAddr::from(OURS), OURS6.into()] {
            self.clients.enter(|| ping(ours));
            self.clients.enter(|| check_echo((ours, PORT).into(), len));
        }
    }
}

/// An echo server on a device; stopping it returns the device.
pub struct Server<D> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(D, Stack)>,
}

impl<D: Device + Send + 'static> Server<D> {
    pub fn on(device: D, mac: [u8; 6]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let mut config = Config::new(mac, OURS, 24, [7; 16]);
        let addrs = vec![(OURS6, 64)];
        config.ipv6 = Some(Ipv6 { addrs, slaac: false, probes: 0, ..Ipv6::default() });
        let mut stack = Stack::new(config);
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

/// Sends back as much as possible; true while the connection continues.
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
