//! The accept queues of guarded ports, and how many connections they have, asked of the kernel by netlink.
//! Source: sock_diag(7), linux/inet_diag.h.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, netlink, socket_with};

/// Bytes of `struct nlmsghdr`, of `struct inet_diag_req_v2`, and of `struct inet_diag_msg`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const ANSWER: usize = 72;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// A request, for all there are.
const FLAGS: u16 = 0x1 | 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const TCP: u8 = 6;
const LISTEN: u32 = 1 << 10;
/// ESTABLISHED and CLOSE-WAIT: those that are served, or wait for that.
const SERVED: u32 = 1 << 1 | 1 << 8;
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

/// One listener: where it is, how many connections wait to be accepted, how many may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// Its address; of IPv4 in the last four bytes.
    pub target: [u8; 16],
    pub is_v6: bool,
    pub port: u16,
    /// The device that it is bound to, or 0.
    pub device: u32,
    pub waiting: u32,
    pub room: u32,
}

/// Asks for listeners of this thread's network namespace, as it was at the start.
#[derive(Debug)]
pub(super) struct Listeners {
    socket: File,
    bytes: Vec<u8>,
}

impl Listeners {
    pub fn new() -> io::Result<Self> {
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket: File::from(socket), bytes: vec![0; 32 * 1024] })
    }

    /// Calls `each` for every listener on `port`, or on any.
    pub fn each(&mut self, port: Option<u16>, each: impl FnMut(Listener)) -> io::Result<()> {
        self.dump(port.unwrap_or(0), LISTEN, each)
    }

    /// How many connections of `port` are served, or wait for that.
    pub fn connections(&mut self, port: u16) -> io::Result<u32> {
        let mut there = 0;
        self.dump(port, SERVED, |_| there += 1)?;
        Ok(there)
    }

    /// Calls `each` for every socket on `port`, or on any if it is 0, that is in one of `states`.
    fn dump(&mut self, port: u16, states: u32, mut each: impl FnMut(Listener)) -> io::Result<()> {
        for family in FAMILIES {
            self.socket.write_all(&request(family, port, states))?;
            loop {
                let len = self.socket.read(&mut self.bytes)?;
                match read(&self.bytes[..len], &mut each) {
                    Some(end) => break end?,
                    None if len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    None => {}
                }
            }
        }
        Ok(())
    }
}

fn request(family: u8, port: u16, states: u32) -> [u8; HEADER + REQUEST] {
    let mut bytes = [0; HEADER + REQUEST];
    bytes[..4].copy_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
    bytes[HEADER] = family;
    bytes[HEADER + 1] = TCP;
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&states.to_ne_bytes());
    bytes[HEADER + 8..HEADER + 10].copy_from_slice(&port.to_be_bytes());
    bytes
}

/// Reads one answer; how the dump ended, if it did.
fn read(mut bytes: &[u8], each: &mut impl FnMut(Listener)) -> Option<io::Result<()>> {
    while let Some(&len) = bytes.first_chunk() {
        let len = u32::from_ne_bytes(len) as usize;
        let message = bytes.get(..len).filter(|message| message.len() >= HEADER)?;
        match u16::from_ne_bytes([message[4], message[5]]) {
            NLMSG_DONE => return Some(Ok(())),
            NLMSG_ERROR => {
                let error =
                    message.get(HEADER..)?.first_chunk().map_or(0, |error| i32::from_ne_bytes(*error));
                return Some(Err(io::Error::from_raw_os_error(-error)));
            }
            SOCK_DIAG_BY_FAMILY if message.len() >= HEADER + ANSWER => {
                let body = &message[HEADER..];
                let word = |at: usize| body[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
                let is_v6 = body[0] == FAMILIES[1];
                let mut target = [0; 16];
                match is_v6 {
                    true => target.copy_from_slice(&body[8..24]),
                    false => target[12..].copy_from_slice(&body[8..12]),
                }
                let port = u16::from_be_bytes([body[4], body[5]]);
                let (device, waiting, room) = (word(40), word(56), word(60));
                each(Listener { target, is_v6, port, device, waiting, room });
            }
            _ => {}
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_listener_tells_how_many_wait() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has nothing to show.
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let addr = listener.local_addr().unwrap();
            let waits: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();
            let mut found = Vec::new();
            Listeners::new().unwrap().each(Some(addr.port()), |listener| found.push(listener)).unwrap();
            let [listener] = found[..] else { panic!("{found:?}") };
            assert_eq!((listener.port, listener.waiting, listener.device), (addr.port(), 3, 0));
            assert!(listener.room >= 128, "{listener:?}");
            let target = match addr.is_ipv4() {
                true => std::net::Ipv4Addr::LOCALHOST.to_ipv6_compatible(),
                false => std::net::Ipv6Addr::LOCALHOST,
            };
            assert_eq!((listener.target, listener.is_v6), (target.octets(), addr.is_ipv6()));
            assert_eq!(
                Listeners::new().unwrap().connections(addr.port()).unwrap(),
                3,
                "though nobody took them"
            );
            drop(waits);
        }
    }

    #[test]
    fn nonsense_ends_a_dump_or_is_passed_over() {
        let mut none = |listener: Listener| panic!("{listener:?}");
        assert!(read(&[], &mut none).is_none());
        assert!(read(&[0; 64], &mut none).is_none(), "a message of length 0");
        assert!(read(&[200, 0, 0, 0, 20, 0], &mut none).is_none(), "longer than there is");
        let mut error = [0; 20];
        error[0] = 20;
        error[4] = 2;
        error[16..].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        assert!(read(&error, &mut none).unwrap().is_err());
    }
}
