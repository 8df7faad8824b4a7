//! A name under which a process of this machine can be asked something, and who
//! asks and who answers, as the kernel knows them.
//!
//! A Unix socket in the abstract namespace: it is there while its process is,
//! leaves nothing behind however that ends, and needs no folder that the process could
//! write to. It belongs to a network namespace. Anybody may connect, so neither
//! end believes the other what it is: SO_PEERCRED says the user and process of who
//! connected, and of who listened. What is asked and answered is not known here.
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

/// Who is at the other end, by the kernel's word of when it connected or listened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// Its user, as this process's user namespace numbers it.
    pub user: u32,
    /// Its process; 0 where that is of a namespace whose processes are not seen here.
    pub process: u32,
}

/// Where others ask; gone when this is dropped.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// Somebody who asks. Nothing here waits.
#[derive(Debug)]
pub struct Peer {
    socket: OwnedFd,
    /// Who that is.
    pub who: Who,
}

impl Listener {
    /// Takes `name`, 1 to 64 bytes, in this network namespace.
    ///
    /// # Errors
    /// The kernel's; `AddrInUse` where somebody has it.
    pub fn open(name: &str) -> io::Result<Self> {
        let socket = socket(SocketFlags::NONBLOCK)?;
        bind(&socket, &address(name)?)?;
        listen(&socket, WAITING)?;
        Ok(Self(socket))
    }

    /// The next who has connected, if anybody has; whom the kernel cannot give
    /// us now, as we have no descriptor left, stays there.
    pub fn accept(&self) -> Option<Peer> {
        let socket = accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()?;
        let who = who(&socket).ok()?;
        Some(Peer { socket, who })
    }
}

impl Peer {
    /// Bytes that came, into `buffer`; 0 once no more will.
    ///
    /// # Errors
    /// `WouldBlock`, or the connection is broken.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.socket, buffer, RecvFlags::DONTWAIT)?.1)
    }

    /// Sends of `bytes` as many as there is room for; how many.
    ///
    /// # Errors
    /// `WouldBlock`, or the connection is broken.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }
}

/// A connection to who has `name`, and who that is. No step on it takes longer than `patience`.
///
/// # Errors
/// The kernel's; `ConnectionRefused` where nobody has the name, `WouldBlock` where
/// too many wait to be heard.
pub fn ask(name: &str, patience: Duration) -> io::Result<(UnixStream, Who)> {
    let socket = socket(SocketFlags::empty())?;
    for way in [Timeout::Send, Timeout::Recv] {
        set_socket_timeout(&socket, way, Some(patience))?;
    }
    connect(&socket, &address(name)?)?;
    let who = who(&socket)?;
    Ok((socket.into(), who))
}

/// The names that processes have in this network namespace, in order.
#[must_use]
pub fn names() -> Vec<String> {
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let mut names: Vec<String> = sockets.lines().filter_map(listening).map(str::to_owned).collect();
    names.sort();
    names
}

/// The name that a line of /proc/net/unix is about, if somebody listens there.
fn listening(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let (flags, name) = (words.nth(3)?, words.nth(3)?);
    (u32::from_str_radix(flags, 16).ok()? & LISTENS != 0)
        .then(|| name.strip_prefix('@')?.strip_prefix(OURS))?
}

/// What all names begin with, which others' do not.
const OURS: &str = "greenwave/";
/// Who have connected and wait; the next one's connect waits, too.
const WAITING: i32 = 128;
/// `__SO_ACCEPTCON` of linux/net.h.
const LISTENS: u32 = 1 << 16;

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags | SocketFlags::CLOEXEC, None)?)
}

fn address(name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(format!("{OURS}{name}").as_bytes())?)
}

fn who(socket: impl AsFd) -> io::Result<Who> {
    // SAFETY: three numbers, for which any bytes will do.
    let found = unsafe { sockopt::get::<libc::ucred>(socket, libc::SOL_SOCKET, libc::SO_PEERCRED)? };
    Ok(Who { user: found.uid, process: found.pid.unsigned_abs() })
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};

    use super::*;
    use crate::soon::soon;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn a_name_is_had_once_and_is_free_when_its_process_lets_go() {
        let name = format!("test-once-{}", std::process::id());
        let nobody = ask(&name, PATIENCE).map(|_| ()).map_err(|e| e.kind());
        assert_eq!(nobody, Err(ErrorKind::ConnectionRefused));
        let first = Listener::open(&name).expect("nobody has it");
        assert!(names().contains(&name));
        let second = Listener::open(&name).map(|_| ()).map_err(|e| e.kind());
        assert_eq!(second, Err(ErrorKind::AddrInUse));
        drop(first);
        soon(|| !names().contains(&name));
        // It is free again.
        soon(|| Listener::open(&name).is_ok());
    }

    #[test]
    fn both_ends_know_who_the_other_is_and_neither_waits() {
        let name = format!("test-who-{}", std::process::id());
        let us = Who { user: rustix::process::geteuid().as_raw(), process: std::process::id() };
        let listener = Listener::open(&name).expect("nobody has it");
        assert!(listener.accept().is_none(), "nobody has come");
        let (mut asks, answers) = ask(&name, PATIENCE).expect("it listens");
        let peer = listener.accept().expect("somebody has come");
        assert_eq!((peer.who, answers), (us, us));
        let mut buffer = [0; 8];
        assert_eq!(peer.receive(&mut buffer).map_err(|e| e.kind()), Err(ErrorKind::WouldBlock));
        asks.write_all(b"who?").expect("it is there");
        assert_eq!(peer.receive(&mut buffer).ok(), Some(4));
        assert_eq!(peer.send(b"we").ok(), Some(2));
        drop(peer);
        let mut answer = String::new();
        asks.read_to_string(&mut answer).expect("text");
        assert_eq!(answer, "we");
        assert!(asks.write_all(b"and?").is_err(), "nobody is there any more");
    }

    #[test]
    fn who_listens_and_under_another_name_is_not_ours() {
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
