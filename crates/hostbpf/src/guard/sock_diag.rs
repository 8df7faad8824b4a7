//! Accept queues and connection counts of guarded ports, by netlink (sock_diag).

use std::io;
use std::net::{IpAddr, Ipv6Addr};

use host::sock_diag::{self, CLOSE_WAIT, ESTABLISHED, LISTEN, SockDiag};

/// States of connections that a server has or has still to accept.
const SERVED: u32 = 1 << ESTABLISHED | 1 << CLOSE_WAIT;

/// A listener: address, accept-queue length and capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// Address; IPv4 in the last four bytes.
    pub target: [u8; 16],
    pub is_v6: bool,
    pub port: u16,
    /// Device it is bound to, or 0.
    pub device: u32,
    pub waiting: u32,
    pub room: u32,
}

impl Listener {
    /// True if it is bound to an address that only this machine reaches.
    pub fn is_loopback(&self) -> bool {
        let v6 = Ipv6Addr::from(self.target);
        match v6.to_ipv4_mapped() {
            Some(mapped) => mapped.is_loopback(),
            None if self.is_v6 => v6.is_loopback(),
            None => self.target[12] == 127,
        }
    }
}

/// Reads listeners of the network namespace in which it was created.
#[derive(Debug)]
pub(super) struct Listeners(SockDiag);

impl Listeners {
    pub fn new() -> io::Result<Self> {
        SockDiag::new().map(Self)
    }

    /// Calls `each` for every listener on `port`, or on any port.
    pub fn each(&mut self, port: Option<u16>, mut each: impl FnMut(Listener)) -> io::Result<()> {
        self.0.dump(sock_diag::TCP, port.unwrap_or(0), 1 << LISTEN, |socket| {
            let local = socket.local();
            let target = match local.ip() {
                IpAddr::V4(addr) => addr.to_ipv6_compatible().octets(),
                IpAddr::V6(addr) => addr.octets(),
            };
            each(Listener {
                target,
                is_v6: socket.is_v6(),
                port: local.port(),
                device: socket.device(),
                waiting: socket.waiting(),
                room: socket.room(),
            });
        })
    }

    /// Connections of `port` that a server has or has still to accept.
    pub fn connections(&mut self, port: u16) -> io::Result<u32> {
        let mut count = 0;
        self.0.dump(sock_diag::TCP, port, SERVED, |_| count += 1)?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_listener_has_its_accept_queue_length() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no such listener.
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let addr = listener.local_addr().unwrap();
            let waits: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();
            let mut found = Vec::new();
            Listeners::new().unwrap().each(Some(addr.port()), |listener| found.push(listener)).unwrap();
            let [listener] = found[..] else { panic!("{found:?}") };
            assert_eq!((listener.port, listener.waiting, listener.device), (addr.port(), 3, 0));
            assert!(listener.room >= 128 && listener.is_loopback(), "{listener:?}");
            let target = match addr.is_ipv4() {
                true => std::net::Ipv4Addr::LOCALHOST.to_ipv6_compatible(),
                false => std::net::Ipv6Addr::LOCALHOST,
            };
            assert_eq!((listener.target, listener.is_v6), (target.octets(), addr.is_ipv6()));
            assert_eq!(
                Listeners::new().unwrap().connections(addr.port()).unwrap(),
                3,
                "though none was accepted"
            );
            drop(waits);
        }
    }

    #[test]
    fn only_addresses_of_this_machine_are_loopback() {
        for (addr, is_loopback) in [
            ("127.0.0.1:0", true),
            ("127.7.7.7:0", true),
            ("0.0.0.0:0", false),
            ("[::1]:0", true),
            ("[::]:0", false),
            ("[::ffff:127.0.0.1]:0", true),
            ("[::ffff:0.0.0.0]:0", false),
        ] {
            let Ok(bound) = TcpListener::bind(addr) else { continue };
            let port = bound.local_addr().unwrap().port();
            let mut found = Vec::new();
            Listeners::new().unwrap().each(Some(port), |listener| found.push(listener)).unwrap();
            assert_eq!(found.iter().map(Listener::is_loopback).collect::<Vec<_>>(), [is_loopback], "{addr}");
        }
    }
}
