//! Kernel socket beside a UDP socket that is bound to all addresses.
//!
//! Datagrams are put into the pair as the stack's are. Datagrams to destinations that the stack
//! does not route are sent by it, so a resolver bound to all addresses reaches servers by the
//! kernel's routes, and broadcasts are the kernel's.
//!
//! The socket is level-triggered, so every pending condition must be cleared, the error queue
//! included. The program may still have the socket by another descriptor and change it.
//!
//! The kernel address at which a datagram arrived is not reported.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, recvfrom, sendto};

use super::super::datagram_forward::put;
use super::super::{RefusalKind, SocketServer};
use crate::datagram_header::{Cmsg, DatagramHeader, mapped};
use crate::protocol::KernelSocketInfo;
use crate::scm_rights;
use crate::udp_table::MAILBOX;
use host::sockopt;

/// Bit in the number of a kernel socket, added to its UDP socket's, which never has it.
pub(in super::super) const HALF: u64 = MAILBOX >> 1;
/// Maximum number of datagrams received per event; the rest is reported again.
const BATCH: usize = 64;
/// Longest datagram in bytes.
const LONGEST: usize = 65_535;

impl SocketServer {
    /// Handles a message of socket `id` that is no datagram: its kernel socket, or why there is
    /// none.
    pub(in super::super) fn set_mail_half(&mut self, id: u64, info: &[u8], half: Option<OwnedFd>) {
        let Some(mailbox) = self.mailboxes.get(id) else { return };
        let port = mailbox.bound.addr.port();
        if mailbox.half.is_some() {
            // The first one is in the epoll set, and stays.
            return self.refuse(RefusalKind::Malformed);
        }
        let Some(half) = self.half(port, info, half) else { return };
        if !is_for_datagrams(&half) {
            return self.refuse(RefusalKind::Malformed);
        }
        disable_reports(&half);
        let data = epoll::EventData::new_u64(id | HALF);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        if let Err(e) = epoll::add(&self.watches[0], &half, data, flags) {
            self.refuse(RefusalKind::Half { port, errno: e.raw_os_error() });
        } else if let Some(mailbox) = self.mailboxes.get_mut(id) {
            mailbox.half = Some(half);
        }
    }

    /// Receives the kernel socket of socket `id`, if it is in the pair: it is the first message.
    pub(in super::super) fn expect_mail_half(&mut self, id: u64) {
        let Some(mailbox) = self.mailboxes.get(id).filter(|mailbox| mailbox.half.is_none()) else { return };
        let mut bytes = [0; KernelSocketInfo::BYTES];
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        if recv(&mailbox.end, &mut bytes[..], flags).is_ok_and(|(_, len)| len == KernelSocketInfo::BYTES)
            && let Ok(message) = scm_rights::receive_now(&mailbox.end, &mut bytes)
        {
            self.set_mail_half(id, &bytes[..message.len], message.fd);
        }
    }

    /// Delivers datagrams of socket `id`'s kernel socket, which has `flags`.
    pub(in super::super) fn deliver_half(&mut self, id: u64, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        if flags.intersects(F::HUP | F::RDHUP) {
            return self.close_half(id);
        }
        let Some(mailbox) = self.mailboxes.get(id) else { return };
        let Some(half) = &mailbox.half else { return };
        if flags.contains(F::ERR) {
            take_errors(half);
        }
        let mut bytes = Vec::with_capacity(LONGEST);
        for _ in 0..BATCH {
            let Some(remote) = received(half, &mut bytes) else { return };
            if mailbox.peer.is_some_and(|peer| peer != remote) {
                continue;
            }
            match put(&mailbox.end, DatagramHeader::Peer(remote), Cmsg::default(), &bytes) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::MSGSIZE) => {
                    let port = mailbox.bound.addr.port();
                    return self.refuse(RefusalKind::KernelSocketOverflow { port });
                }
                // The program is gone.
                Err(_) => return,
            }
        }
    }

    /// Drops the kernel socket of socket `id`, which another holder has shut down.
    fn close_half(&mut self, id: u64) {
        let Some(mailbox) = self.mailboxes.get_mut(id) else { return };
        let port = mailbox.bound.addr.port();
        let Some(half) = mailbox.half.take() else { return };
        self.unwatch(&half);
        self.refuse(RefusalKind::Half { port, errno: Errno::SHUTDOWN.raw_os_error() });
    }
}

/// True if it is a UDP socket over IP, as the library sends; other files may never become empty.
fn is_for_datagrams(half: &OwnedFd) -> bool {
    let inet = [AddressFamily::INET, AddressFamily::INET6];
    socket_domain(half).is_ok_and(|domain| inet.contains(&domain))
        && socket_type(half) == Ok(SocketType::DGRAM)
}

/// Disables the error queue and transmit timestamps, which the program may have set: nothing reads
/// them here.
fn disable_reports(half: &OwnedFd) {
    for (level, name) in [
        (libc::IPPROTO_IP, libc::IP_RECVERR),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
    ] {
        // An IPv4 socket has no IPv6 options.
        let _ = sockopt::set(half, level, name, &0_i32);
    }
}

/// Clears the error queue (recvmsg(2), MSG_ERRQUEUE), which a program may have enabled since; the
/// rest is reported again.
fn take_errors(half: &OwnedFd) {
    for _ in 0..BATCH {
        if recv(half, &mut [0_u8; 1][..], RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT).is_err() {
            return;
        }
    }
}

/// Receives the next datagram into `bytes`; returns its sender.
fn received(half: &OwnedFd, bytes: &mut Vec<u8>) -> Option<SocketAddr> {
    loop {
        bytes.clear();
        match recvfrom(half, spare_capacity(bytes), RecvFlags::DONTWAIT) {
            Ok((_, _, remote)) => {
                let remote = SocketAddr::try_from(remote?).ok()?;
                return Some(SocketAddr::new(remote.ip().to_canonical(), remote.port()));
            }
            // Error of a datagram sent earlier; more may be queued.
            Err(Errno::INTR | Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {}
            Err(_) => return None,
        }
    }
}

/// Sends `payload`, in datagrams of `segment` bytes, by the kernel socket `half`; `six`: IPv6.
pub(in super::super) fn sent(
    (half, six): (&OwnedFd, bool),
    to: SocketAddr,
    payload: &[u8],
    segment: usize,
) -> Result<(), Errno> {
    let to = if six { SocketAddr::new(mapped(to.ip()).into(), to.port()) } else { to };
    // An empty datagram is one datagram.
    for at in (0..payload.len().max(1)).step_by(segment) {
        let piece = &payload[at..payload.len().min(at + segment)];
        match sendto(half, piece, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &to) {
            // A full queue drops the datagram, as in the kernel.
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
