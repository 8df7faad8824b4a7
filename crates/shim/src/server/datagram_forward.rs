//! Forwarding of datagrams between programs and the stack.
//!
//! The pair buffers datagrams in both directions. One that does not fit stays with the stack
//! ([`Delivered::Full`]) or is lost. Datagrams between programs do not pass the device. Decision:
//! ADR 0049.

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
use super::{QUIET, RefusalKind, SocketServer};

/// IP metadata of a datagram received, or sent from one program to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Destination: address and port of the stack.
    pub local: SocketAddr,
    /// Source.
    pub remote: SocketAddr,
    /// Traffic class.
    pub class: u8,
    /// Hop limit.
    pub hops: u8,
}

/// Result of delivering a datagram to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// Delivered to this socket.
    To(u64),
    /// The socket is full; [`SocketEvent::DatagramWritable`](super::SocketEvent::DatagramWritable)
    /// follows.
    Full,
    /// Lost: the socket is full and shares its port, or its buffer is too small for the datagram.
    Lost,
    /// No socket matches.
    NoSocket,
}

/// A message from a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuedDatagram {
    /// Datagrams to send.
    Out {
        /// Source; an unspecified address means any of the stack.
        from: SocketAddr,
        /// Destination.
        to: SocketAddr,
        /// Bytes of payload.
        len: usize,
        /// Bytes of each datagram; the last may be shorter.
        segment: usize,
        /// Traffic class of each; a DSCP of 0 is replaced according to its label.
        class: u8,
        /// Do not fragment.
        dont_fragment: bool,
        /// Hop limit of each.
        hops: u8,
    },
    /// Delivered to a program of this server, or malformed.
    Settled(Delivered),
    /// For the kernel: the stack does not route there.
    Elsewhere,
    /// Nothing to read now.
    Nothing,
    /// The socket is closed.
    End {
        /// Port of the socket.
        port: u16,
        /// No other socket is bound to the port.
        last: bool,
    },
}

/// Sends a message over a pair, with ancillary data.
pub(super) fn put(end: &OwnedFd, envelope: DatagramHeader, cmsg: Cmsg, payload: &[u8]) -> Result<(), Errno> {
    let envelope = envelope.encode_with(cmsg);
    let both = [IoSlice::new(&envelope), IoSlice::new(payload)];
    sendmsg(end, &both, &mut SendAncillaryBuffer::default(), QUIET).map(|_| ())
}

impl SocketServer {
    /// Delivers a datagram of priority `level`, 0..=7, to the matching socket. If `segment` is not
    /// 0, `payload` is several datagrams of this length: one message if the socket has UDP_GRO.
    pub fn deliver(&mut self, arrived: Arrived, level: u8, payload: &[u8], segment: usize) -> Delivered {
        let Arrived { local, remote, class, hops } = arrived;
        let Some(mailbox) = self.mailboxes.taker(local, remote) else { return Delivered::NoSocket };
        // Set before the program can read the datagram.
        self.shared.label_table.tell(of_mailbox(mailbox.id), level, &[0; PRIVATE]);
        let interface = self.routes.interface;
        let DatagramOptions { info, told_class, told_hops, gro, .. } = mailbox.options;
        let segment = if segment == 0 || segment >= payload.len() { payload.len() } else { segment };
        let cmsg = Cmsg {
            local: info.then_some(PktInfo { addr: local.ip(), interface }),
            class: told_class[usize::from(remote.is_ipv6())].then_some(class),
            hops: told_hops[usize::from(remote.is_ipv6())].then_some(hops),
            segment: 0,
        };
        let (mut rest, mut first) = (payload, true);
        let mut at_once = gro && segment < payload.len();
        loop {
            let (len, cmsg) = match at_once {
                true => (rest.len(), Cmsg { segment: segment as u16, ..cmsg }),
                false => (segment.min(rest.len()), cmsg),
            };
            let (next, after) = rest.split_at(len);
            match put(&mailbox.end, DatagramHeader::Peer(remote), cmsg, next) {
                Ok(()) if after.is_empty() => return Delivered::To(mailbox.id),
                Ok(()) => (rest, first) = (after, false),
                // Larger than the socket's buffer; single datagrams may fit.
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

    /// Reads the next message of socket `id` into `bytes`. `level` is its priority.
    pub fn next_datagram(&mut self, id: u64, level: u8, bytes: &mut [u8]) -> QueuedDatagram {
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
                // Closed with unread messages, which is reported once; messages sent before can
                // still be read.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                got => break got,
            }
        };
        if got.as_ref().is_ok_and(|got| got.bytes == KernelSocketInfo::BYTES) {
            self.set_mail_half(id, &head[..KernelSocketInfo::BYTES], scm_rights::brought(&mut control));
            return QueuedDatagram::Elsewhere;
        }
        let (len, is_complete) = match got {
            Ok(got) if got.bytes > 0 => (got.bytes, !got.flags.contains(ReturnFlags::TRUNC)),
            // The program has shut its end down, but not closed it.
            Ok(_) if !mailbox.gone => return QueuedDatagram::Nothing,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return QueuedDatagram::Nothing,
            Ok(_) | Err(_) => {
                mailbox.half.iter().chain([&mailbox.end]).for_each(|file| self.unwatch(file));
                let (port, last) = self.mailboxes.remove(id);
                return QueuedDatagram::End { port, last };
            }
        };
        let envelope =
            if is_complete { DatagramHeader::decode(&head[..len.min(datagram_header::LEN)]) } else { None };
        let to = match (envelope, mailbox.peer) {
            (Some(DatagramHeader::Peer(to)), _) | (Some(DatagramHeader::Connected), Some(to)) => to,
            (Some(DatagramHeader::Connected), None) => {
                let _ = put(&mailbox.end, failed(Errno::DESTADDRREQ), Cmsg::default(), &[]);
                return QueuedDatagram::Settled(Delivered::NoSocket);
            }
            _ => {
                self.refuse(RefusalKind::Malformed);
                return QueuedDatagram::Settled(Delivered::NoSocket);
            }
        };
        let len = len - datagram_header::LEN;
        if !mailbox.bound.reaches(to.ip()) {
            // The kernel returns it at once; here the next call does.
            let _ = put(&mailbox.end, failed(Errno::NETUNREACH), Cmsg::default(), &[]);
            return QueuedDatagram::Settled(Delivered::NoSocket);
        }
        let Cmsg { local, class, hops, segment } = Cmsg::decode(&head);
        let local = local.filter(|local| !local.addr.is_unspecified());
        if local.is_some_and(|PktInfo { addr, .. }| !self.routes.has(addr) || addr.is_ipv4() != to.is_ipv4())
        {
            // The kernel returns EINVAL at once; here the next call does.
            let _ = put(&mailbox.end, failed(Errno::INVAL), Cmsg::default(), &[]);
            return QueuedDatagram::Settled(Delivered::NoSocket);
        }
        let class = class.unwrap_or(mailbox.options.class[usize::from(to.is_ipv6())]);
        let segment = if segment == 0 { mailbox.options.segment } else { segment };
        // An empty datagram is one datagram.
        let segment = if segment == 0 { len.max(1) } else { segment.into() };
        if len.div_ceil(segment) > datagram_header::SEGMENTS_MAX {
            let _ = put(&mailbox.end, failed(Errno::INVAL), Cmsg::default(), &[]);
            return QueuedDatagram::Settled(Delivered::NoSocket);
        }
        if let Some(half) = mailbox.half.as_ref().filter(|_| !self.routes.leads_to(to.ip())) {
            let six = mailbox.bound.addr.is_ipv6();
            if let Err(errno) = sent((half, six), to, &bytes[..len], segment) {
                let _ = put(&mailbox.end, failed(errno), Cmsg::default(), &[]);
            }
            return QueuedDatagram::Elsewhere;
        }
        let from = SocketAddr::new(local.map_or(mailbox.local, |info| info.addr), mailbox.bound.addr.port());
        let hops = hops.unwrap_or(mailbox.options.hops[usize::from(to.is_ipv6())]);
        match self.routes.has(to.ip()) {
            true => {
                // The peer sees a socket bound to all addresses under the address that it writes
                // to.
                let ip = if from.ip().is_unspecified() { to.ip() } else { from.ip() };
                let remote = SocketAddr::new(ip, from.port());
                let arrived = Arrived { local: to, remote, class, hops };
                QueuedDatagram::Settled(self.between(arrived, level, (&bytes[..len], segment)))
            }
            false => {
                let dont_fragment = mailbox.options.dont_fragment(to.is_ipv6());
                QueuedDatagram::Out { from, to, len, segment, class, dont_fragment, hops }
            }
        }
    }

    /// Delivers datagrams of `segment` bytes from one program to another.
    fn between(&mut self, arrived: Arrived, level: u8, (payload, segment): (&[u8], usize)) -> Delivered {
        match self.deliver(arrived, level, payload, segment) {
            Delivered::Full => Delivered::Lost,
            Delivered::NoSocket => {
                self.undelivered(arrived.remote.port(), arrived.local, Errno::CONNREFUSED);
                Delivered::NoSocket
            }
            delivered => delivered,
        }
    }

    /// Reports the error `why` for datagrams from `port` to `remote` to sockets connected to it.
    pub fn undelivered(&mut self, port: u16, remote: SocketAddr, why: Errno) {
        for mailbox in self.mailboxes.connected(port, remote) {
            // A socket that is full has other messages to read.
            let _ = put(&mailbox.end, failed(why), Cmsg::default(), &[]);
        }
    }
}

fn failed(errno: Errno) -> DatagramHeader {
    DatagramHeader::Failed(errno.raw_os_error() as u16)
}
