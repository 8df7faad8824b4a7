//! The same for datagrams: what comes to the kernel's half is put into the pair as
//! if it came by the stack, and what goes to where the device does not lead goes
//! out by it, so a resolver on all addresses reaches servers beyond the kernel's
//! ways, and broadcasts are the kernel's.
//!
//! To which of the kernel's addresses a datagram came is not told.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, recvfrom, sendto};

use super::super::letters::put;
use super::super::{Desk, Refusal};
use crate::seam::envelope::{Envelope, Said, mapped};
use crate::seam::mailboxes::MAILBOX;
use crate::seam::pass;
use crate::seam::request::Half;

/// Numbers of these halves have this bit beside that of their socket, whose own has it never.
pub(in super::super) const HALF: u64 = MAILBOX >> 1;
/// Datagrams that are taken at once; what is left is told of again.
const BATCH: usize = 64;
/// The longest there is.
const LONGEST: usize = 65_535;

impl Desk {
    /// Socket `id` was sent something that is no letter: its half, or why there is none.
    pub(in super::super) fn set_mail_half(&mut self, id: u64, said: &[u8], half: Option<OwnedFd>) {
        let Some(port) = self.mailboxes.get(id).map(|mailbox| mailbox.bound.addr.port()) else { return };
        let Some(half) = self.half(port, said, half) else { return };
        let data = epoll::EventData::new_u64(id | HALF);
        if let Err(e) = epoll::add(&self.watches[0], &half, data, epoll::EventFlags::IN) {
            self.refuse(Refusal::Half { port, errno: e.raw_os_error() });
        } else if let Some(mailbox) = self.mailboxes.get_mut(id) {
            mailbox.half = Some(half);
        }
    }

    /// Looks whether the half of socket `id` waits in the pair: it is the first that is sent.
    pub(in super::super) fn expect_mail_half(&mut self, id: u64) {
        let Some(mailbox) = self.mailboxes.get(id).filter(|mailbox| mailbox.half.is_none()) else { return };
        let mut bytes = [0; Half::BYTES];
        let look = RecvFlags::PEEK | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        if recv(&mailbox.end, &mut bytes[..], look).is_ok_and(|(_, len)| len == Half::BYTES)
            && let Ok(message) = pass::receive(&mailbox.end, &mut bytes, true)
        {
            self.set_mail_half(id, &bytes[..message.len], message.fd);
        }
    }

    /// Hands over what has come to the half of socket `id`.
    pub(in super::super) fn deliver_half(&mut self, id: u64) {
        let Some(mailbox) = self.mailboxes.get(id) else { return };
        let Some(half) = &mailbox.half else { return };
        let mut bytes = Vec::with_capacity(LONGEST);
        for _ in 0..BATCH {
            let Some(remote) = received(half, &mut bytes) else { return };
            if mailbox.peer.is_some_and(|peer| peer != remote) {
                continue;
            }
            match put(&mailbox.end, Envelope::Peer(remote), Said::default(), &bytes) {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::MSGSIZE) => {
                    let port = mailbox.bound.addr.port();
                    return self.refuse(Refusal::HalfFull { port });
                }
                // The program is gone.
                Err(_) => return,
            }
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
