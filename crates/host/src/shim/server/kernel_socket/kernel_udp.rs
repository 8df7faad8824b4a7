//! The same for datagrams: what comes to the kernel's half is put into the pair as
//! if it came by the stack, and what goes to where the device does not lead goes
//! out by it, so a resolver on all addresses reaches servers beyond the kernel's
//! ways, and broadcasts are the kernel's.
//!
//! It is told of as long as there is something, so nothing may stay there that nobody takes: of
//! what the kernel says of datagrams that were sent nobody wants to know. The program may
//! have the socket's file still, by another descriptor, and do to it what it likes.
//!
//! To which of the kernel's addresses a datagram came is not told.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, recvfrom, sendto};

use super::super::datagram_forward::put;
use super::super::{Refusal, SocketServer};
use crate::shim::datagram_header::{Cmsg, DatagramHeader, mapped};
use crate::shim::protocol::KernelSocketInfo;
use crate::shim::scm_rights;
use crate::shim::udp_table::MAILBOX;
use crate::sockopt;

/// Numbers of these halves have this bit beside that of their socket, whose own has it never.
pub(in super::super) const HALF: u64 = MAILBOX >> 1;
/// Datagrams that are taken at once; what is left is told of again.
const BATCH: usize = 64;
/// The longest there is.
const LONGEST: usize = 65_535;

impl SocketServer {
    /// Socket `id` was sent something that is no letter: its half, or why there is none.
    pub(in super::super) fn set_mail_half(&mut self, id: u64, said: &[u8], half: Option<OwnedFd>) {
        let Some(mailbox) = self.mailboxes.get(id) else { return };
        let port = mailbox.bound.addr.port();
        if mailbox.half.is_some() {
            // The first is watched, and stays.
            return self.refuse(Refusal::Malformed);
        }
        let Some(half) = self.half(port, said, half) else { return };
        if !is_for_datagrams(&half) {
            return self.refuse(Refusal::Malformed);
        }
        be_told_nothing(&half);
        let data = epoll::EventData::new_u64(id | HALF);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        if let Err(e) = epoll::add(&self.watches[0], &half, data, flags) {
            self.refuse(Refusal::Half { port, errno: e.raw_os_error() });
        } else if let Some(mailbox) = self.mailboxes.get_mut(id) {
            mailbox.half = Some(half);
        }
    }

    /// Looks whether the half of socket `id` waits in the pair: it is the first that is sent.
    pub(in super::super) fn expect_mail_half(&mut self, id: u64) {
        let Some(mailbox) = self.mailboxes.get(id).filter(|mailbox| mailbox.half.is_none()) else { return };
        let mut bytes = [0; KernelSocketInfo::BYTES];
        let look = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        if recv(&mailbox.end, &mut bytes[..], look).is_ok_and(|(_, len)| len == KernelSocketInfo::BYTES)
            && let Ok(message) = scm_rights::receive_now(&mailbox.end, &mut bytes)
        {
            self.set_mail_half(id, &bytes[..message.len], message.fd);
        }
    }

    /// Hands over what has come to the half of socket `id`, of which `flags` are told.
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
                    return self.refuse(Refusal::KernelSocketOverflow { port });
                }
                // The program is gone.
                Err(_) => return,
            }
        }
    }

    /// Somebody who has the half of socket `id`, too, has shut it down: nothing comes by it any more.
    fn close_half(&mut self, id: u64) {
        let Some(mailbox) = self.mailboxes.get_mut(id) else { return };
        let port = mailbox.bound.addr.port();
        let Some(half) = mailbox.half.take() else { return };
        self.unwatch(&half);
        self.refuse(Refusal::Half { port, errno: Errno::SHUTDOWN.raw_os_error() });
    }
}

/// Whether it is what the library sends: of other files it is not known when they are empty.
fn is_for_datagrams(half: &OwnedFd) -> bool {
    let inet = [AddressFamily::INET, AddressFamily::INET6];
    socket_domain(half).is_ok_and(|domain| inet.contains(&domain))
        && socket_type(half) == Ok(SocketType::DGRAM)
}

/// What the program has set before it bound the socket holds for it no more: nobody reads there what became of
/// datagrams, or when they left.
fn be_told_nothing(half: &OwnedFd) {
    for (level, name) in [
        (libc::IPPROTO_IP, libc::IP_RECVERR),
        (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
        (libc::SOL_SOCKET, libc::SO_TIMESTAMPING),
    ] {
        // A socket of IPv4 knows nothing of IPv6.
        let _ = sockopt::set(half, level, name, &0_i32);
    }
}

/// Takes what the kernel says of datagrams that were sent (recvmsg(2), MSG_ERRQUEUE), where somebody
/// has asked for that since; what is left is told of again.
fn take_errors(half: &OwnedFd) {
    for _ in 0..BATCH {
        if recv(half, &mut [0_u8; 1][..], RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT).is_err() {
            return;
        }
    }
}

/// The next datagram, in place of what `bytes` were, and from whom it is.
fn received(half: &OwnedFd, bytes: &mut Vec<u8>) -> Option<SocketAddr> {
    loop {
        bytes.clear();
        match recvfrom(half, spare_capacity(bytes), RecvFlags::DONTWAIT) {
            Ok((_, _, remote)) => {
                let remote = SocketAddr::try_from(remote?).ok()?;
                return Some(SocketAddr::new(remote.ip().to_canonical(), remote.port()));
            }
            // What became of one that was sent; there may be others.
            Err(Errno::INTR | Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH) => {}
            Err(_) => return None,
        }
    }
}

/// Sends `payload`, in datagrams of `segment` bytes, from `half`, which speaks IPv6 or not.
pub(in super::super) fn sent(
    (half, six): (&OwnedFd, bool),
    to: SocketAddr,
    payload: &[u8],
    segment: usize,
) -> Result<(), Errno> {
    let to = if six { SocketAddr::new(mapped(to.ip()).into(), to.port()) } else { to };
    // A datagram of nothing is one.
    for at in (0..payload.len().max(1)).step_by(segment) {
        let piece = &payload[at..payload.len().min(at + segment)];
        match sendto(half, piece, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &to) {
            // As the kernel loses it where there is no room on its way.
            Ok(_) | Err(Errno::AGAIN | Errno::NOBUFS) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
