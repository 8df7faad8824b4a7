//! The kernel's half of a socket that is bound to all addresses.
//!
//! `0.0.0.0` and `::` mean every address there is, those of the kernel too:
//! 127.0.0.1, by which a program's own tools and its probes come. So the library
//! binds the socket that the program made to the same port in the kernel, and
//! hands it over, as the program has ours in its place. What connects to it is
//! the kernel's connection, with nothing of ours: it is accepted here and handed
//! on as it is, in the same line as the stack's own.
//!
//! Bound: none is taken from the kernel while as many wait as the program wants.

pub(super) mod kernel_udp;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SocketFlags, acceptfrom_with, listen};

use super::{MAILBOX, Refusal, SocketServer};
use crate::shim::protocol::KernelSocketInfo;
use crate::shim::scm_rights;
use crate::shim::socket_name::{Kind, Name};

/// Numbers of halves have this bit beside that of their listener.
pub(super) const HALF: u64 = MAILBOX;

impl SocketServer {
    /// Listener `id` was sent something: its half, or why there is none.
    pub(super) fn take_half(&mut self, id: u64) {
        let Some(listener) = self.listeners.get(id) else { return };
        let mut bytes = [0; KernelSocketInfo::BYTES];
        let Ok(message) = scm_rights::receive_now(&listener.end, &mut bytes) else { return };
        let port = listener.addr.port();
        if listener.half.is_some() {
            // The first is watched, and stays.
            return self.refuse(Refusal::Malformed);
        }
        if let Some(half) = self.half(port, &bytes[..message.len], message.fd)
            && let Some(listener) = self.listeners.get_mut(id)
        {
            listener.half = Some(half);
            self.open_half(id);
        }
    }

    /// The half that a program's `said` of `port` brings; that there is none is counted.
    fn half(&mut self, port: u16, said: &[u8], fd: Option<OwnedFd>) -> Option<OwnedFd> {
        match (KernelSocketInfo::decode(said), fd) {
            (Some(KernelSocketInfo::Here), Some(half)) if ioctl_fionbio(&half, true).is_ok() => {
                return Some(half);
            }
            (Some(KernelSocketInfo::None { errno }), None) => self.refuse(Refusal::Half { port, errno }),
            // A program of somebody who knows better.
            _ => self.refuse(Refusal::Malformed),
        }
        None
    }

    /// Listener `id` takes what comes to its half, if it takes connections.
    pub(super) fn open_half(&mut self, id: u64) {
        let Some(listener) = self.listeners.get(id).filter(|listener| listener.backlog > 0) else { return };
        let Some(half) = &listener.half else { return };
        let backlog = i32::try_from(listener.backlog).unwrap_or(i32::MAX);
        // Told once for all that have come: who is not taken then is taken when there is room.
        let (data, flags) =
            (epoll::EventData::new_u64(id | HALF), epoll::EventFlags::IN | epoll::EventFlags::ET);
        let watched = || match epoll::add(&self.watches[0], half, data, flags) {
            // It listens already, and has another backlog now.
            Err(Errno::EXIST) => Ok(()),
            added => added,
        };
        if let Err(e) = listen(half, backlog).and_then(|()| watched()) {
            let (port, errno) = (listener.addr.port(), e.raw_os_error());
            self.refuse(Refusal::Half { port, errno });
        }
    }

    /// Hands over what has come to the half of listener `id`, as far as there is room.
    pub(super) fn accept_half(&mut self, id: u64) {
        while let Some(listener) = self.listeners.get(id).filter(|listener| listener.has_room())
            && let Some(half) = &listener.half
            && let Some((connection, remote)) = accepted(half)
        {
            // For who accepts it to know the peer; the socket itself has no name of ours.
            let (run, six, local) = (self.run, listener.six, listener.addr);
            let name = Name { run, kind: Kind::Connection, six, id: 0, local, remote };
            if self.hand_over(id, name.encode(), connection).is_err() {
                // There was room: the program takes none any more.
                return;
            }
        }
    }
}

/// The next connection, and who it is. Until a program accepts it, closing it resets it: it may end in the queue.
fn accepted(half: &OwnedFd) -> Option<(OwnedFd, SocketAddr)> {
    while comes(half) {
        match acceptfrom_with(half, SocketFlags::CLOEXEC) {
            Ok((connection, peer)) => {
                if let Some(remote) = peer.and_then(|peer| SocketAddr::try_from(peer).ok()) {
                    let _ = set_socket_linger(&connection, Some(Duration::ZERO));
                    return Some((connection, remote));
                }
            }
            // It was gone before it was accepted.
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            // There is no other; or no descriptor for it, and the next one that comes brings it along.
            Err(_) => return None,
        }
    }
    None
}

/// Whether a connection waits to be accepted, which does not block then. Whether the file blocks is for all to
/// say who have it, and whoever is left with the socket may: so it is said again for each, and nothing is
/// accepted that does not wait. A program would have to take that and unsay this between two calls.
fn comes(half: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(half, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Where poll cannot say, accepting does.
    poll(&mut fds, Some(&now)) != Ok(0) && ioctl_fionbio(half, true).is_ok()
}
