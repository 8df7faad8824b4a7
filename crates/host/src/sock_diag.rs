//! Sockets of a network namespace, by netlink (sock_diag).
//!
//! Source: sock_diag(7), linux/inet_diag.h.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, netlink, socket_with};

/// Bytes of `struct nlmsghdr`, of `struct inet_diag_req_v2`, and of `struct inet_diag_msg`.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const ANSWER: usize = 72;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// NLM_F_REQUEST and NLM_F_DUMP.
const FLAGS: u16 = 0x1 | 0x300;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const FAMILIES: [u8; 2] = [libc::AF_INET as u8, libc::AF_INET6 as u8];

/// TCP.
pub const TCP: u8 = libc::IPPROTO_TCP as u8;
/// UDP.
pub const UDP: u8 = libc::IPPROTO_UDP as u8;

/// TCP states, selected by the bit `1 << STATE`. A UDP socket counts as established while it is
/// connected, else as closed. Source: linux/tcp_states.h. This one: an established connection.
pub const ESTABLISHED: u8 = 1;
/// A connection that is being opened.
pub const SYN_SENT: u8 = 2;
/// No connection.
pub const CLOSE: u8 = 7;
/// A connection that the peer has ended.
pub const CLOSE_WAIT: u8 = 8;
/// A listener.
pub const LISTEN: u8 = 10;

/// Query of sockets in the network namespace in which it was created.
#[derive(Debug)]
pub struct SockDiag {
    socket: File,
    bytes: Vec<u8>,
}

/// A reply: `struct inet_diag_msg`.
#[derive(Clone, Copy, Debug)]
pub struct InetDiagMessage<'a>(&'a [u8]);

impl SockDiag {
    /// A query socket.
    ///
    /// # Errors
    /// The kernel has no socket diagnosis, or denies the socket.
    pub fn new() -> io::Result<Self> {
        let protocol = Some(netlink::SOCK_DIAG);
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { socket: File::from(socket), bytes: vec![0; 32 * 1024] })
    }

    /// Calls `each` for every socket of `protocol` on `port`, or on any port if it is 0, in one of
    /// `states`.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn dump(
        &mut self,
        protocol: u8,
        port: u16,
        states: u32,
        mut each: impl FnMut(InetDiagMessage<'_>),
    ) -> io::Result<()> {
        for family in FAMILIES {
            self.socket.write_all(&request(family, protocol, port, states))?;
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

impl InetDiagMessage<'_> {
    /// True for a socket of IPv6.
    #[must_use]
    pub fn is_v6(self) -> bool {
        self.0[0] == FAMILIES[1]
    }

    /// TCP state.
    #[must_use]
    pub fn state(self) -> u8 {
        self.0[1]
    }

    /// Local address.
    pub fn local(self) -> SocketAddr {
        self.addr(8, 4)
    }

    /// Peer address.
    pub fn remote(self) -> SocketAddr {
        self.addr(24, 6)
    }

    fn addr(self, at: usize, port: usize) -> SocketAddr {
        let port = u16::from_be_bytes([self.0[port], self.0[port + 1]]);
        let ip = match self.is_v6() {
            true => self.0[at..].first_chunk().map(|octets: &[u8; 16]| IpAddr::from(*octets)),
            false => self.0[at..].first_chunk().map(|octets: &[u8; 4]| IpAddr::from(*octets)),
        };
        SocketAddr::new(ip.expect("a reply holds an address"), port)
    }

    /// Index of the device to which the socket is bound, or 0.
    pub fn device(self) -> u32 {
        self.word(40)
    }

    /// Cookie: unique among all sockets since boot.
    pub fn cookie(self) -> u64 {
        u64::from(self.word(48)) << 32 | u64::from(self.word(44))
    }

    /// Receive queue: bytes, or connections to accept.
    pub fn waiting(self) -> u32 {
        self.word(56)
    }

    /// Send queue: bytes, or the backlog of a listener.
    pub fn room(self) -> u32 {
        self.word(60)
    }

    /// Inode in `/proc/PID/fd`, or 0 if no process has it.
    pub fn inode(self) -> u32 {
        self.word(68)
    }

    fn word(self, at: usize) -> u32 {
        self.0[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word))
    }
}

fn request(family: u8, protocol: u8, port: u16, states: u32) -> [u8; HEADER + REQUEST] {
    let mut bytes = [0; HEADER + REQUEST];
    bytes[..4].copy_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
    bytes[HEADER] = family;
    bytes[HEADER + 1] = protocol;
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&states.to_ne_bytes());
    bytes[HEADER + 8..HEADER + 10].copy_from_slice(&port.to_be_bytes());
    bytes
}

/// Reads one reply; the result of the dump once it has ended.
pub fn read(mut bytes: &[u8], each: &mut impl FnMut(InetDiagMessage<'_>)) -> Option<io::Result<()>> {
    while let Some(&len) = bytes.first_chunk() {
        let len = u32::from_ne_bytes(len) as usize;
        let message = bytes.get(..len).filter(|message| message.len() >= HEADER)?;
        match u16::from_ne_bytes([message[4], message[5]]) {
            // A failed dump ends like a successful one, but with an error number.
            NLMSG_DONE | NLMSG_ERROR => {
                let code = message[HEADER..].first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
                return Some(if code < 0 {
                    Err(io::Error::from_raw_os_error(code.saturating_neg()))
                } else {
                    Ok(())
                });
            }
            SOCK_DIAG_BY_FAMILY if message.len() >= HEADER + ANSWER => {
                each(InetDiagMessage(&message[HEADER..]))
            }
            _ => {}
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_ends_a_dump_or_is_passed_over() {
        let mut none = |answer: InetDiagMessage<'_>| panic!("{answer:?}");
        assert!(read(&[], &mut none).is_none());
        assert!(read(&[0; 64], &mut none).is_none(), "a message of length 0");
        assert!(read(&[200, 0, 0, 0, 20, 0], &mut none).is_none(), "longer than the data");
    }

    #[test]
    fn the_kernel_says_why_it_does_not_answer() {
        // A protocol that the kernel does not list.
        assert!(SockDiag::new().unwrap().dump(254, 0, !0, |_| ()).is_err());
    }

    #[test]
    fn a_connection_is_reported_with_both_ends_and_its_inode() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (local, remote) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let fd = std::os::fd::AsRawFd::as_raw_fd(&stream);
        let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap();
        let mut found = Vec::new();
        let each = |answer: InetDiagMessage<'_>| {
            if (answer.local(), answer.remote()) == (local, remote) {
                found.push((format!("socket:[{}]", answer.inode()), answer.state(), answer.cookie() != 0));
            }
        };
        SockDiag::new().unwrap().dump(TCP, local.port(), 1 << ESTABLISHED, each).unwrap();
        assert_eq!(found, [(link.to_str().unwrap().to_owned(), ESTABLISHED, true)]);
    }
}
