//! Named control socket of a process, with peer credentials from the kernel.
//!
//! A Unix socket in the abstract namespace of a network namespace: it exists as long as its process,
//! leaves nothing behind however that ends, and needs no directory writable by the process. Any user
//! may connect, so neither end trusts the other's claims: SO_PEERCRED gives user and process of the
//! connecting and of the listening end. The protocol is the caller's.
//!
//! Source: unix(7), `Abstract` and `SO_PEERCRED`.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, send, socket_with,
};

use crate::sockopt;

/// Credentials of a peer, from when it connected or listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User, in this process's user namespace.
    pub user: u32,
    /// Process; 0 if that is in a PID namespace not visible here.
    pub process: u32,
}

/// Listening control socket; closed on drop.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// Connection to a client, non-blocking.
#[derive(Debug)]
pub struct Peer {
    socket: OwnedFd,
    /// Credentials of the client.
    pub credentials: Credentials,
}

impl Listener {
    /// Listens on `name`, 1 to 64 bytes, in this network namespace.
    ///
    /// # Errors
    /// The kernel's error; `AddrInUse` if another process has the name.
    pub fn open(name: &str) -> io::Result<Self> {
        let socket = socket(SocketFlags::NONBLOCK)?;
        bind(&socket, &address(name)?)?;
        listen(&socket, WAITING)?;
        Ok(Self(socket))
    }

    /// Next pending connection, if there is one. Without a free descriptor, it stays pending.
    pub fn accept(&self) -> Option<Peer> {
        let socket = accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()?;
        let credentials = peer_credentials(&socket).ok()?;
        Some(Peer { socket, credentials })
    }
}

impl Peer {
    /// Reads into `buffer`; 0 at the end of input.
    ///
    /// # Errors
    /// `WouldBlock`, or the connection is broken.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.socket, buffer, RecvFlags::DONTWAIT)?.1)
    }

    /// Writes as many of `bytes` as fit; their number.
    ///
    /// # Errors
    /// `WouldBlock`, or the connection is broken.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }
}

/// Connects to the process that listens on `name`; the connection, and the peer's credentials. Each
/// operation on it times out after `timeout`.
///
/// # Errors
/// The kernel's error; `ConnectionRefused` if there is no listener, `WouldBlock` if its backlog is full.
pub fn ask(name: &str, timeout: Duration) -> io::Result<(UnixStream, Credentials)> {
    let socket = socket(SocketFlags::empty())?;
    for direction in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, direction, Some(timeout))?;
    }
    connect(&socket, &address(name)?)?;
    let peer = peer_credentials(&socket)?;
    Ok((socket.into(), peer))
}

/// Names of listening processes in this network namespace, sorted.
#[must_use]
pub fn names() -> Vec<String> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut names: Vec<String> = sockets.lines().filter_map(listening).map(str::to_owned).collect();
    names.sort();
    names
}

/// Name in a line of /proc/net/unix, if it is a listener's.
fn listening(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let (flags, name) = (words.nth(3)?, words.nth(3)?);
    (u32::from_str_radix(flags, 16).ok()? & LISTENS != 0)
        .then(|| name.strip_prefix('@')?.strip_prefix(OURS))?
}

/// Prefix of all names, which other programs do not use.
const OURS: &str = "greenwave/";
/// Backlog; further connects block.
const WAITING: i32 = 128;
/// `__SO_ACCEPTCON` of linux/net.h.
const LISTENS: u32 = 1 << 16;

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None)?)
}

fn address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("{OURS}{name}").as_bytes())?)
}

fn peer_credentials(socket: impl AsFd) -> io::Result<Credentials> {
    // SAFETY: three integers, for which any bytes are valid.
    let found = unsafe { sockopt::get::<libc::ucred>(socket, libc::SOL_SOCKET, libc::SO_PEERCRED)? };
    Ok(Credentials { user: found.uid, process: found.pid.unsigned_abs() })
}

//~ operations: a control name is unique in a network namespace and leaves nothing behind
#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};

    use super::*;
    use crate::soon::soon;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn a_name_is_had_once_and_is_free_when_its_process_lets_go() {
        let name = format!("test-once-{}", std::process::id());
        let outcome = ask(&name, TIMEOUT).map(|_| ()).map_err(|e| e.kind());
        assert_eq!(outcome, Err(ErrorKind::ConnectionRefused));
        let first = Listener::open(&name).expect("the name is free");
        assert!(names().contains(&name));
        let second = Listener::open(&name).map(|_| ()).map_err(|e| e.kind());
        assert_eq!(second, Err(ErrorKind::AddrInUse));
        drop(first);
        soon(|| !names().contains(&name));
        // It is free again.
        soon(|| Listener::open(&name).is_ok());
    }

    #[test]
    fn both_ends_know_the_others_credentials_and_neither_blocks() {
        let name = format!("test-who-{}", std::process::id());
        let us = Credentials { user: rustix::process::geteuid().as_raw(), process: std::process::id() };
        let listener = Listener::open(&name).expect("the name is free");
        assert!(listener.accept().is_none(), "no client has connected");
        let (mut asks, answers) = ask(&name, TIMEOUT).expect("there is a listener");
        let peer = listener.accept().expect("a client has connected");
        assert_eq!((peer.credentials, answers), (us, us));
        let mut buffer = [0; 8];
        assert_eq!(peer.receive(&mut buffer).map_err(|e| e.kind()), Err(ErrorKind::WouldBlock));
        asks.write_all(b"who?").expect("the peer is open");
        assert_eq!(peer.receive(&mut buffer).ok(), Some(4));
        assert_eq!(peer.send(b"we").ok(), Some(2));
        drop(peer);
        let mut answer = String::new();
        asks.read_to_string(&mut answer).expect("text");
        assert_eq!(answer, "we");
        assert!(asks.write_all(b"and?").is_err(), "the peer is closed");
    }

    #[test]
    fn a_listener_under_another_name_is_not_ours() {
        let of = |flags: &str, name: &str| {
            listening(&format!("0000000000000000: 00000002 00000000 {flags} 0001 01 29 {name}"))
                .map(str::to_owned)
        };
        assert_eq!(of("00010000", "@greenwave/web").as_deref(), Some("web"));
        assert_eq!(of("00000000", "@greenwave/web"), None, "a connection");
        assert_eq!(of("00010000", "/greenwave/web"), None, "a path");
        assert_eq!(of("00010000", "@another/web"), None);
        assert_eq!(listening("Num       RefCount Protocol Flags    Type St Inode Path"), None);
    }
}
