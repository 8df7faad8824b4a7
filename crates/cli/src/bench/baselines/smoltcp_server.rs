//! smoltcp on a TAP device, tuned as far as it allows: one listening socket per expected
//! connection, no Nagle, and sockets are polled only after the interface reports a change.

use std::cell::RefCell;

use drivers::Tap;
use host::Monotonic;
use net::Device as _;
use queueing::{Clock, Span, Time};
use smoltcp::iface::{Config, Interface, PollResult, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

use super::{Args, PORT, Serves, page, ready, requests};
use crate::Error;

/// Size of the buffer of each socket per direction: four responses of 16 KiB.
const BUFFER: usize = 64 * 1024;

struct Port(RefCell<Tap>);
type Frame = <Tap as net::Device>::Frame;
struct Rx<'a>(&'a Port, Frame);
struct Tx<'a>(&'a Port);

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
        let mut tap = self.0.0.borrow_mut();
        while result.is_none() {
            // Waits while the device is full: the token must be used.
            let sent = tap.transmit(Time::ZERO, len, &mut |buffer| result = f.take().map(|f| f(buffer)));
            if sent.is_err() {
                tap.wait(Span::from_micros(50));
            }
        }
        result.expect("the loop ends with a result")
    }
}

impl Device for Port {
    type RxToken<'a> = Rx<'a>;
    type TxToken<'a> = Tx<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Rx<'_>, Tx<'_>)> {
        let frame = self.0.borrow_mut().receive(Time::ZERO)?.frame;
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

/// Serves until killed.
pub fn serve(args: &Args) -> Result<(), Error> {
    let name =
        args.device.strip_prefix("tap:").ok_or_else(|| Error::new("smoltcp is served on tap: only"))?;
    if !matches!(args.app, Serves::Echo | Serves::Http) {
        return Err(Error::new("smoltcp serves echo and http"));
    }
    let clock = Monotonic::new();
    let now = || Instant::from_micros((clock.now().as_nanos() / 1000) as i64);
    let mut port = Port(RefCell::new(Tap::create(name)?));
    let mut interface =
        Interface::new(Config::new(EthernetAddress([2, 0, 0, 0, 0, 2]).into()), &mut port, now());
    interface.update_ip_addrs(|addrs| {
        addrs.push(IpCidr::new(IpAddress::Ipv4(args.addr), 24)).expect("space for an address");
    });
    let mut sockets = SocketSet::new(Vec::new());
    // A few more than connections: a SYN may be retransmitted.
    for _ in 0..args.connections + 8 {
        let buffer = || SocketBuffer::new(vec![0; BUFFER]);
        let mut socket = Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        socket.set_ack_delay(None);
        socket.listen(PORT).map_err(|e| Error::new(e.to_string()))?;
        sockets.add(socket);
    }
    let (page, mut scratch) = (page(), vec![0; BUFFER]);
    ready();
    loop {
        if interface.poll(now(), &mut port, &mut sockets) == PollResult::SocketStateChanged {
            for (_, socket) in sockets.iter_mut() {
                let smoltcp::socket::Socket::Tcp(socket) = socket;
                if socket.can_recv() {
                    answer(socket, args.app, &page, &mut scratch);
                } else if socket.state() == State::CloseWait {
                    socket.close();
                }
            }
            continue;
        }
        let delay = interface.poll_delay(now(), &sockets).map_or(1_000, |d| d.total_micros().min(1_000));
        port.0.borrow_mut().wait(Span::from_micros(delay));
    }
}

fn answer(socket: &mut Socket<'_>, app: Serves, page: &[u8], scratch: &mut [u8]) {
    let room = socket.send_capacity() - socket.send_queue();
    if app == Serves::Echo {
        let n = room.min(scratch.len());
        let taken = socket.recv_slice(&mut scratch[..n]).unwrap_or(0);
        let _ = socket.send_slice(&scratch[..taken]);
        return;
    }
    // Copied: a request may wrap around the end of the ring.
    let seen = socket.peek_slice(scratch).unwrap_or(0);
    let (count, end) = requests(&scratch[..seen]);
    let _ = socket.recv_slice(&mut scratch[..end]);
    for _ in 0..count {
        let _ = socket.send_slice(page);
    }
}
