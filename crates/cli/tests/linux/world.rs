//! Two hosts on one link: the kernel's TCP in a namespace, and ours.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use drivers::afxdp::{self, Claims, Mode, Options};
use drivers::{Tap, packet};
use host::interface::InterfaceError;
use net::device::fault_injector::Rates;
use net::stack::Config;
use netlab::{Namespace, NetLab, Veth};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::greenwave_host::{Host, Ours, PORT};
use crate::port::{Kind, Port};

/// Our address.
pub const OURS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The kernel's address.
pub const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// Reports a skipped test, bypassing the test harness, which hides the output of passing tests.
pub fn skipped(test: &str, why: &str) {
    let _ = io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// Both hosts.
pub struct World {
    pub ours: Ours,
    pub kernel: Namespace,
}

impl World {
    /// A world over a TAP device; `None` where there can be none, and `test` is skipped.
    pub fn tap(test: &str) -> Option<Self> {
        Self::over(test, Kind::Tap, Rates::NONE)
    }

    /// A world over a device of this kind, with these faults on the path.
    pub fn over(test: &str, kind: Kind, faults: Rates) -> Option<Self> {
        let (host, kernel) = Self::bare(test, kind, faults, |_| {})?;
        Some(Self { ours: Ours::new(host), kernel })
    }

    /// A world over a TAP device, with our stack's configuration changed.
    pub fn with(test: &str, change: impl FnOnce(&mut Config)) -> Option<Self> {
        let (host, kernel) = Self::bare(test, Kind::Tap, Rates::NONE, change)?;
        Some(Self { ours: Ours::new(host), kernel })
    }

    /// The same link, without an application at our end.
    pub fn bare(
        test: &str,
        kind: Kind,
        faults: Rates,
        change: impl FnOnce(&mut Config),
    ) -> Option<(Host, Namespace)> {
        let lab = lab(test)?;
        let kernel = lab.namespace("kernel").expect("the test network is available");
        let (port, mac) = match kind {
            Kind::Tap => (Port::Tap(kernel.enter(tap)), [2, 0, 0, 0, 0, 2]),
            _ => match on_veth(&lab, &kernel, kind) {
                Ok(opened) => opened,
                Err(why) => {
                    skipped(test, &format!("its part over {kind:?}: {why}"));
                    return None;
                }
            },
        };
        let mut config = Config::new(mac, OURS, 24, *b"sixteen bytes!!!");
        change(&mut config);
        Some((Host::new(config, port, faults), kernel))
    }

    /// Our address for the kernel's applications.
    pub fn target() -> SocketAddr {
        (OURS, PORT).into()
    }

    /// Runs `there` in the kernel's namespace while our stack runs here, until `there` is done and
    /// `is_over` holds.
    #[track_caller]
    pub fn meet<R: Send>(
        &mut self,
        there: impl FnOnce() -> R + Send,
        mut is_over: impl FnMut(&mut Ours) -> bool,
    ) -> R {
        let Self { ours, kernel } = self;
        let kernel = &*kernel;
        thread::scope(|scope| {
            let peer = scope.spawn(|| kernel.enter(there));
            let end = Instant::now() + LIMIT;
            while !(is_over(ours) & peer.is_finished()) {
                ours.turn();
                assert!(
                    Instant::now() < end,
                    "nothing more happens: peer finished: {}; {:?}; {}",
                    peer.is_finished(),
                    ours.stack().counters(),
                    state(ours),
                );
            }
            peer.join().expect("the kernel's application panicked")
        })
    }
}

/// State of the first few live connections.
fn state(ours: &Ours) -> String {
    let living = ours.streams.iter().filter(|(_, stream)| stream.ended.is_none());
    let line = |(id, s): (&net::ConnId, &crate::greenwave_host::Stream)| {
        format!(
            "{id:?}: open {}, sent {} of {}, received {} (+ {} held), peer closed {}, closed {}",
            s.is_open,
            s.sent,
            s.outbox.len(),
            s.inbox.len(),
            ours.stack().received(*id).len(),
            s.peer_closed,
            s.closed
        )
    };
    living.take(4).map(line).collect::<Vec<_>>().join("; ")
}

/// Time limit of a test, and before that of each call of the kernel's applications; many times what
/// they need.
const LIMIT: Duration = Duration::from_secs(40);
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// A test network with TAP devices.
pub fn lab(test: &str) -> Option<NetLab> {
    if let Some(why) = NetLab::unavailable() {
        skipped(test, &why);
        return None;
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        skipped(test, "this kernel offers no TAP devices");
        return None;
    }
    Some(NetLab::new(test).expect("the test network is available"))
}

/// A device of `kind` at the other end of the kernel's link, and its hardware address.
fn on_veth(lab: &NetLab, kernel: &Namespace, kind: Kind) -> Result<(Port, [u8; 6]), InterfaceError> {
    let ours = lab.namespace("ours").expect("the test network is available");
    lab.veth((&ours, "gw0"), (kernel, "eth0"), &Veth::default()).expect("both are new");
    kernel.address("eth0", KERNEL.into(), 24).expect("the address is free");
    if kind == Kind::Packet {
        let (interface, mut devices) = ours.enter(|| packet::open("gw0", &packet::Options::default()))?;
        return Ok((Port::Packet(devices.pop().expect("there is one")), interface.mac));
    }
    let mode = if kind == Kind::Xdp { Mode::Generic } else { Mode::Native };
    let options = Options { mode: Some(mode), ..Options::default() };
    let claims = Claims { addresses: vec![OURS.into()], ports: Vec::new() };
    let mut opened = ours.enter(|| afxdp::open("gw0", &options, &claims))?;
    Ok((Port::Xdp(opened.devices.pop().expect("a veth has a queue")), opened.interface.mac))
}

/// A TAP device with an address on its kernel end.
fn tap() -> Tap {
    let tap = Tap::create("gw0").expect("the namespace is new and we are root");
    tap.up(KERNEL, 24).expect("the address is free");
    tap
}

/// `length` bytes that differ from any shifted copy of themselves and, by `seed`, from others.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mix = |i: u64| ((i ^ seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8;
    (0..length as u64).map(mix).collect()
}

/// The kernel's application: connects to us.
pub fn dial() -> TcpStream {
    dial_to(World::target())
}

/// The kernel's application: connects to us at this address.
pub fn dial_to(target: SocketAddr) -> TcpStream {
    bounded(TcpStream::connect_timeout(&target, CALL_LIMIT).expect("our end listens"))
}

/// The kernel's application: listens, with a backlog for [`accept`] as large as any test needs.
pub fn listener() -> TcpListener {
    let listener = TcpListener::bind((KERNEL, 0)).expect("the kernel's address");
    rustix::net::listen(&listener, 4096).expect("it listens already");
    listener
}

/// The kernel's application: accepts the next connection.
pub fn accept(listener: &TcpListener) -> TcpStream {
    let limit = Timespec { tv_sec: CALL_LIMIT.as_secs() as _, tv_nsec: 0 };
    let mut fds = [PollFd::new(listener, PollFlags::IN)];
    assert!(poll(&mut fds, Some(&limit)).is_ok_and(|n| n > 0), "no connection");
    bounded(listener.accept().expect("a connection").0)
}

/// Sets timeouts, so that a failing test does not hang.
fn bounded(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(CALL_LIMIT)).expect("a valid timeout");
    stream.set_write_timeout(Some(CALL_LIMIT)).expect("a valid timeout");
    stream
}

/// The kernel's application: sends `bytes`, closes its half, and returns the bytes received until
/// the peer closed its own.
pub fn converse(stream: &TcpStream, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut received = Vec::new();
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            (&mut &*stream).write_all(bytes)?;
            stream.shutdown(Shutdown::Write)
        });
        (&mut &*stream).read_to_end(&mut received)?;
        sender.join().expect("the sender does not panic")
    })?;
    Ok(received)
}

/// Checks that `got` is `expected`; reports the position of a difference, not the contents.
#[track_caller]
pub fn same(what: &str, got: &[u8], expected: &[u8]) {
    let differs = got.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{what}: the first byte that differs");
    assert_eq!(got.len(), expected.len(), "{what}: the length");
}
