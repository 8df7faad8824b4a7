//! Kernel socket beside a listener that is bound to all addresses.
//!
//! `0.0.0.0` and `::` include the kernel's addresses, such as 127.0.0.1, used by local tools and
//! health probes. The library therefore binds the program's original socket to the same port in the
//! kernel and passes it to the server. Its connections are plain kernel connections: the server
//! accepts them and passes them on in the same accept queue as the stack's.
//!
//! No connection is accepted from the kernel while the accept queue is full.

pub(super) mod kernel_udp;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SocketFlags, acceptfrom_with, listen};

use super::{MAILBOX, RefusalKind, SocketServer};
use crate::protocol::KernelSocketInfo;
use crate::scm_rights;
use crate::socket_name::{Name, SocketKind};

/// Bit in the number of a kernel socket, added to its listener's.
pub(super) const HALF: u64 = MAILBOX;

impl SocketServer {
    /// Receives the first message on listener `id`: its kernel socket, or why there is none.
    pub(super) fn take_half(&mut self, id: u64) {
        let Some(listener) = self.listeners.get(id) else { return };
        let mut bytes = [0; KernelSocketInfo::BYTES];
        let Ok(message) = scm_rights::receive_now(&listener.end, &mut bytes) else { return };
        let port = listener.addr.port();
        if listener.half.is_some() {
            // The first one is in the epoll set, and stays.
            return self.refuse(RefusalKind::Malformed);
        }
        if let Some(half) = self.half(port, &bytes[..message.len], message.fd)
            && let Some(listener) = self.listeners.get_mut(id)
        {
            listener.half = Some(half);
            self.open_half(id);
        }
    }

    /// Kernel socket in the message `info` for `port`; its absence is counted.
    fn half(&mut self, port: u16, info: &[u8], fd: Option<OwnedFd>) -> Option<OwnedFd> {
        match (KernelSocketInfo::decode(info), fd) {
            (Some(KernelSocketInfo::Here), Some(half)) if ioctl_fionbio(&half, true).is_ok() => {
                return Some(half);
            }
            (Some(KernelSocketInfo::None { errno }), None) => self.refuse(RefusalKind::Half { port, errno }),
            // Not sent by the library.
            _ => self.refuse(RefusalKind::Malformed),
        }
        None
    }

    /// Starts listening on the kernel socket of listener `id`, if the listener listens.
    pub(super) fn open_half(&mut self, id: u64) {
        let Some(listener) = self.listeners.get(id).filter(|listener| listener.backlog > 0) else { return };
        let Some(half) = &listener.half else { return };
        let backlog = i32::try_from(listener.backlog).unwrap_or(i32::MAX);
        // Edge-triggered: connections left in the kernel's queue are accepted once there is space.
        let (data, flags) =
            (epoll::EventData::new_u64(id | HALF), epoll::EventFlags::IN | epoll::EventFlags::ET);
        let watched = || match epoll::add(&self.watches[0], half, data, flags) {
            // It listens already; the backlog is updated.
            Err(Errno::EXIST) => Ok(()),
            added => added,
        };
        if let Err(e) = listen(half, backlog).and_then(|()| watched()) {
            let (port, errno) = (listener.addr.port(), e.raw_os_error());
            self.refuse(RefusalKind::Half { port, errno });
        }
    }

    /// Accepts connections of listener `id`'s kernel socket while there is space.
    pub(super) fn accept_half(&mut self, id: u64) {
        while let Some(listener) = self.listeners.get(id).filter(|listener| listener.has_room())
            && let Some(half) = &listener.half
            && let Some((connection, remote)) = accepted(half)
        {
            // Carries the peer's address to accept(2); the connection itself has no stack name.
            let (run, six, local) = (self.run, listener.six, listener.addr);
            let name = Name { run, kind: SocketKind::Connection, six, id: 0, local, remote };
            if self.hand_over(id, name.encode(), connection).is_err() {
                // There was space, so the program has shut the listener down.
                return;
            }
        }
    }
}

/// Accepts the next connection. Until the program accepts it, closing resets it, because it may end
/// in the queue.
fn accepted(half: &OwnedFd) -> Option<(OwnedFd, SocketAddr)> {
    while comes(half) {
        match acceptfrom_with(half, SocketFlags::CLOEXEC) {
            Ok((connection, peer)) => {
                if let Some(remote) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
                    let _ = set_socket_linger(&connection, Some(Duration::ZERO));
                    return Some((connection, remote));
                }
            }
            // The connection was aborted before it was accepted.
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            // The queue is empty; or no descriptor is left, and the next event retries.
            Err(_) => return None,
        }
    }
    None
}

/// True if a connection is queued, so that accept does not block. Other processes may have the
/// socket and clear `O_NONBLOCK`, so it is set before each call, and accept is called only for a
/// queued connection. To block the server, a program would have to accept it and clear the flag
/// between two calls.
fn comes(half: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(half, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // If poll fails, accept reports the error.
    poll(&mut fds, Some(&now)) != Ok(0) && ioctl_fionbio(half, true).is_ok()
}
