//! Datagrams on their way between programs and the stack.
//!
//! A pair keeps what is on its way, in both directions, up to its buffers; what
//! finds no room comes back to the stack ([`Delivered::Full`]), or is lost.
//! From program to program there is no wire. Decision: ADR 0049.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, recvmsg, sendmsg};

use super::super::conn_pair::READABLE;
use super::super::datagram_header::{self, Cmsg, DatagramHeader, PktInfo};
use super::super::label_table::{PRIVATE, of_mailbox};
use super::super::protocol::KernelSocketInfo;
use super::super::scm_rights;
use super::super::udp_sockopt::DatagramOptions;
use super::kernel_socket::kernel_udp::sent;
use super::{QUIET, Refusal, SocketServer};

/// What IP said of a datagram that came, or that one program sends to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// For which address of ours, and which port.
    pub local: SocketAddr,
    /// From whom.
    pub remote: SocketAddr,
    /// Its traffic class.
    pub class: u8,
}

/// What became of a datagram for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// This socket has it.
    To(u64),
    /// There is no room; [`SocketEvent::Room`](super::Happened::Room) follows when there is.
    Full,
    /// There is none, and others share the port; or the socket's buffer is
    /// too small for it.
    Lost,
    /// Nobody wants it.
    Nobody,
}

/// What a program has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedDatagram {
    /// So many bytes.
    Out {
        /// From here; its address is unspecified where any of ours will do.
        from: SocketAddr,
        /// To whom.
        to: SocketAddr,
        /// Bytes.
        len: usize,
        /// Of each datagram that they are; the last may have less.
        segment: usize,
        /// The traffic class of each; a DSCP of 0 leaves it to its label.
        class: u8,
        /// None of them is to be cut on its way.
        whole: bool,
        /// Hops that each may take.
        hops: u8,
    },
    /// It was for a program of ours, or made no sense.
    Settled(Delivered),
    /// It is the kernel's affair: the device does not lead there.
    Elsewhere,
    /// Nothing now.
    Nothing,
    /// And nothing more: nobody has the socket.
    End {
        /// What it was bound to.
        port: u16,
        /// Nobody else is.
        last: bool,
    },
}

/// Puts a message into a pair, with what else is said.
pub(super) fn put(end: &OwnedFd, envelope: DatagramHeader, said: Cmsg, payload: &[u8]) -> Result<(), Errno> {
    let envelope = envelope.encode_with(said);
    let both = [IoSlice::new(&envelope), IoSlice::new(payload)];
    sendmsg(end, &both, &mut SendAncillaryBuffer::default(), QUIET).map(|_| ())
}

impl SocketServer {
    /// Hands a datagram, as urgent as `level`, 0..=7, to the program that wants it; or,
    /// where `segment` is not 0, datagrams of so many bytes: at once to a program that
    /// takes them so.
    pub fn deliver(&mut self, arrived: Arrived, level: u8, payload: &[u8], segment: usize) -> Delivered {
        let Arrived { local, remote, class } = arrived;
        let Some(mailbox) = self.mailboxes.taker(local, remote) else { return Delivered::Nobody };
        // Before it can be met.
        self.shared.board.tell(of_mailbox(mailbox.id), level, &[0; PRIVATE]);
        let interface = self.place.interface;
        let DatagramOptions { info, told_class, gro, .. } = mailbox.options;
        let segment = if segment == 0 || segment >= payload.len() { payload.len() } else { segment };
        let said = Cmsg {
            here: info.then_some(PktInfo { addr: local.ip(), interface }),
            class: told_class[usize::from(remote.is_ipv6())].then_some(class),
            segment: 0,
        };
        let (mut rest, mut first) = (payload, true);
        let mut at_once = gro && segment < payload.len();
        loop {
            let (len, said) = match at_once {
                true => (rest.len(), Cmsg { segment: segment as u16, ..said }),
                false => (segment.min(rest.len()), said),
            };
            let (next, after) = rest.split_at(len);
            match put(&mailbox.end, DatagramHeader::Peer(remote), said, next) {
                Ok(()) if after.is_empty() => return Delivered::To(mailbox.id),
                Ok(()) => (rest, first) = (after, false),
                // More than the buffer ever holds; one may be less.
                Err(Errno::MSGSIZE) if at_once => at_once = false,
                Err(Errno::AGAIN) if first && !self.mailboxes.is_shared(local.port()) => {
                    let (data, flags) =
                        (epoll::EventData::new_u64(mailbox.id), READABLE | epoll::EventFlags::OUT);
                    let watched = epoll::modify(&self.watches[0], &mailbox.end, data, flags);
                    return watched.map_or(Delivered::Lost, |()| Delivered::Full);
                }
                Err(_) => return Delivered::Lost,
            }
        }
    }

    /// Takes what the program has sent from socket `id`, as urgent as `level`, into `bytes`.
    pub fn letter(&mut self, id: u64, level: u8, bytes: &mut [u8]) -> QueuedDatagram {
        let Some(mailbox) = self.mailboxes.get(id) else {
            return QueuedDatagram::End { port: 0, last: false };
        };
        let mut head = [0; datagram_header::LEN];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let mut both = [IoSliceMut::new(&mut head), IoSliceMut::new(bytes)];
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&mailbox.end, &mut both, &mut control, flags) {
                // It closed with something unread, which is told once; what it
                // sent before is still there.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                got => break got,
            }
        };
        if got.as_ref().is_ok_and(|got| got.bytes == KernelSocketInfo::BYTES) {
            self.set_mail_half(id, &head[..KernelSocketInfo::BYTES], scm_rights::brought(&mut control));
            return QueuedDatagram::Elsewhere;
        }
        let (len, whole) = match got {
            Ok(got) if got.bytes > 0 => (got.bytes, !got.flags.contains(ReturnFlags::TRUNC)),
            // It has shut its end down, and may open no other.
            Ok(_) if !mailbox.gone => return QueuedDatagram::Nothing,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return QueuedDatagram::Nothing,
            Ok(_) | Err(_) => {
                mailbox.half.iter().chain([&mailbox.end]).for_each(|file| self.unwatch(file));
                let (port, last) = self.mailboxes.remove(id);
                return QueuedDatagram::End { port, last };
            }
        };
        let envelope =
            if whole { DatagramHeader::decode(&head[..len.min(datagram_header::LEN)]) } else { None };
        let to = match (envelope, mailbox.peer) {
            (Some(DatagramHeader::Peer(to)), _) | (Some(DatagramHeader::Connected), Some(to)) => to,
            (Some(DatagramHeader::Connected), None) => {
                let _ = put(&mailbox.end, failed(Errno::DESTADDRREQ), Cmsg::default(), &[]);
                return QueuedDatagram::Settled(Delivered::Nobody);
            }
            _ => {
                self.refuse(Refusal::Malformed);
                return QueuedDatagram::Settled(Delivered::Nobody);
            }
        };
        let len = len - datagram_header::LEN;
        let Cmsg { here, class, segment } = Cmsg::decode(&head);
        let here = here.filter(|here| !here.addr.is_unspecified());
        if here.is_some_and(|PktInfo { addr, .. }| !self.place.has(addr) || addr.is_ipv4() != to.is_ipv4()) {
            // The kernel's would say so at once; this is its next call's error.
            let _ = put(&mailbox.end, failed(Errno::INVAL), Cmsg::default(), &[]);
            return QueuedDatagram::Settled(Delivered::Nobody);
        }
        let class = class.unwrap_or(mailbox.options.class[usize::from(to.is_ipv6())]);
        let segment = if segment == 0 { mailbox.options.segment } else { segment };
        // A datagram of nothing is one.
        let segment = if segment == 0 { len.max(1) } else { segment.into() };
        if len.div_ceil(segment) > datagram_header::SEGMENTS_MAX {
            let _ = put(&mailbox.end, failed(Errno::INVAL), Cmsg::default(), &[]);
            return QueuedDatagram::Settled(Delivered::Nobody);
        }
        if let Some(half) = mailbox.half.as_ref().filter(|_| !self.place.leads_to(to.ip())) {
            let six = mailbox.bound.addr.is_ipv6();
            if let Err(errno) = sent((half, six), to, &bytes[..len], segment) {
                let _ = put(&mailbox.end, failed(errno), Cmsg::default(), &[]);
            }
            return QueuedDatagram::Elsewhere;
        }
        let from = SocketAddr::new(here.map_or(mailbox.local, |here| here.addr), mailbox.bound.addr.port());
        match self.place.has(to.ip()) {
            true => {
                // A socket of all addresses is known by the one that it writes to.
                let ip = if from.ip().is_unspecified() { to.ip() } else { from.ip() };
                let remote = SocketAddr::new(ip, from.port());
                let arrived = Arrived { local: to, remote, class };
                QueuedDatagram::Settled(self.between(arrived, level, (&bytes[..len], segment)))
            }
            false => {
                let whole = mailbox.options.whole(to.is_ipv6());
                let hops = mailbox.options.hops[usize::from(to.is_ipv6())];
                QueuedDatagram::Out { from, to, len, segment, class, whole, hops }
            }
        }
    }

    /// Hands what one program sends, in datagrams of `segment` bytes, to another.
    fn between(&mut self, arrived: Arrived, level: u8, (payload, segment): (&[u8], usize)) -> Delivered {
        match self.deliver(arrived, level, payload, segment) {
            Delivered::Full => Delivered::Lost,
            Delivered::Nobody => {
                self.undelivered(arrived.remote.port(), arrived.local, Errno::CONNREFUSED);
                Delivered::Nobody
            }
            delivered => delivered,
        }
    }

    /// What was sent to `remote` from `port` cannot get there: who is connected with it is told `why`.
    pub fn undelivered(&mut self, port: u16, remote: SocketAddr, why: Errno) {
        for mailbox in self.mailboxes.connected(port, remote) {
            // Who has no room for it has something else to read.
            let _ = put(&mailbox.end, failed(why), Cmsg::default(), &[]);
        }
    }
}

fn failed(errno: Errno) -> DatagramHeader {
    DatagramHeader::Failed(errno.raw_os_error() as u16)
}
