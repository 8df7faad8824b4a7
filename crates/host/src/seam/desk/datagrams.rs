//! Sockets for datagrams that programs have.
//!
//! The pair's other end is the program's descriptor for as long as it lives:
//! connecting changes what the stack hands over, and nothing in the program. A
//! pair keeps what is on its way, in both directions, up to its buffers; what
//! finds no room comes back to the stack ([`Delivered::Full`]), or is lost.
//! From program to program there is no wire. Decision: ADR 0049.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_broadcast, set_socket_send_buffer_size};
use rustix::net::{
    RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer, bind, recvmsg, send, sendmsg,
};

use super::super::bound::Bound;
use super::super::datagram_options::DatagramOptions;
use super::super::envelope::{self, Envelope, Here, Said};
use super::super::labels::{PRIVATE, of_mailbox};
use super::super::mailboxes::{Mailbox, Reuse};
use super::super::name::Kind;
use super::super::pass;
use super::super::pipe::READABLE;
use super::super::request::{Answer, Half};
use super::half::datagrams::sent;
use super::opening::{no, say};
use super::{Desk, Happened, QUIET, Refusal};

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
    /// There is no room; [`Happened::Room`] follows when there is.
    Full,
    /// There is none, and others share the port; or the socket's buffer is
    /// too small for it.
    Lost,
    /// Nobody wants it.
    Nobody,
}

/// What a program has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letter {
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

/// What [`Request::Datagrams`](super::Request::Datagrams) asks for.
pub(super) struct Wanted {
    pub addr: SocketAddr,
    pub six: bool,
    pub v6_only: bool,
    pub reuse: Reuse,
    pub options: DatagramOptions,
    pub to: Option<SocketAddr>,
    pub connects: bool,
}

fn refused(errno: Errno) -> Answer {
    Answer::No(errno.raw_os_error())
}

/// Puts a message into a pair, with what else is said.
pub(super) fn put(end: &OwnedFd, envelope: Envelope, said: Said, payload: &[u8]) -> Result<(), Errno> {
    let envelope = envelope.encode_with(said);
    let both = [IoSlice::new(&envelope), IoSlice::new(payload)];
    sendmsg(end, &both, &mut SendAncillaryBuffer::default(), QUIET).map(|_| ())
}

impl Desk {
    /// Gives what is wanted to the socket whose other end is `end`.
    pub(super) fn bind_mailbox(&mut self, wanted: Wanted, end: OwnedFd, into: &mut Vec<Happened>) {
        self.notice_leavers(wanted.addr.port(), into);
        let bound = match self.place_mailbox(&wanted) {
            Ok(Some(bound)) => bound,
            Ok(None) => return say(&end, Answer::NotOurs),
            Err(errno) => return no(&end, errno),
        };
        let Wanted { six, reuse, options, to, connects, .. } = wanted;
        let id = self.mailboxes.number(bound.addr.port());
        if let Err(errno) = self.watch_mailbox(id, bound.addr, six, &end) {
            return no(&end, errno);
        }
        self.shared.board.begin(of_mailbox(id));
        let (local, peer, stack, gone) = (bound.addr.ip(), None, 0, false);
        self.mailboxes.add(Mailbox { id, bound, reuse, local, peer, stack, options, end, half: None, gone });
        if connects {
            self.aim(id, to);
        }
        into.push(Happened::Bound(bound.addr.port()));
        self.mailboxes.get(id).into_iter().for_each(|mailbox| say(&mailbox.end, Answer::Done));
    }

    /// Where a socket is to be; `None` where that is the kernel's affair.
    fn place_mailbox(&mut self, wanted: &Wanted) -> Result<Option<Bound>, Errno> {
        let Wanted { mut addr, v6_only, reuse, to, .. } = *wanted;
        let ours = match to {
            Some(to) => addr.ip().is_unspecified() && self.place.leads_to(to.ip()),
            None => self.place.is_for(addr),
        };
        if !ours {
            return Ok(None);
        }
        let free = self.mailboxes.is_free(&Bound { addr, v6_only }, reuse);
        if addr.port() == 0 || (to.is_some() && !free) {
            let port = self.mailboxes.free_port(&self.key).ok_or(Errno::ADDRINUSE)?;
            addr.set_port(port);
        } else if !free {
            return Err(Errno::ADDRINUSE);
        }
        Ok(Some(Bound { addr, v6_only }))
    }

    /// Names the end of socket `id`, and watches it.
    fn watch_mailbox(&self, id: u64, addr: SocketAddr, six: bool, end: &OwnedFd) -> Result<(), Errno> {
        let nobody = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let name = self.name(Kind::Datagrams, id, six, addr, nobody)?;
        rustix::io::ioctl_fionbio(end, true)?;
        bind(end, &name)?;
        epoll::add(&self.watches[0], end, epoll::EventData::new_u64(id), READABLE)
    }

    /// Connects socket `id` with `to`, or with nobody.
    pub(super) fn aim(&mut self, id: u64, to: Option<SocketAddr>) -> Answer {
        if to.is_some_and(|to| !self.place.leads_to(to.ip())) {
            self.expect_mail_half(id);
        }
        let Some(mailbox) = self.mailboxes.get_mut(id) else { return refused(Errno::INVAL) };
        let bound = mailbox.bound.addr.ip();
        match to {
            Some(to) if !self.place.leads_to(to.ip()) => {
                if mailbox.half.is_none() {
                    self.refuse(Refusal::Connect);
                    return refused(Errno::NETUNREACH);
                }
                // Which of its addresses that is from the kernel decides.
                (mailbox.local, mailbox.peer) = (bound, Some(to));
                Answer::Done
            }
            Some(to) => {
                let source = if bound.is_unspecified() { self.place.source(to.ip()) } else { Some(bound) };
                mailbox.local = source.unwrap_or(bound);
                mailbox.peer = Some(to);
                Answer::Done
            }
            None => {
                (mailbox.local, mailbox.peer) = (bound, None);
                Answer::Done
            }
        }
    }

    /// Tells the addresses of socket `id`.
    pub(super) fn tell_ends(&self, id: u64, reply: &OwnedFd) {
        let Some(Mailbox { bound, local, peer, .. }) = self.mailboxes.get(id) else {
            return no(reply, Errno::INVAL);
        };
        let local = Envelope::Peer(SocketAddr::new(*local, bound.addr.port()));
        let peer = peer.map_or(Envelope::Connected, Envelope::Peer);
        say(reply, Answer::Done);
        let _ = send(reply, &[local.encode(), peer.encode()].concat(), QUIET);
    }

    /// What option of socket `id` is, if it is the desk's.
    pub(super) fn mailbox_option(&self, id: u64, level: i32, name: i32) -> Option<i32> {
        let Mailbox { bound, options, .. } = self.mailboxes.get(id)?;
        match (level, name) {
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Some(bound.v6_only.into()),
            _ => options.get(level, name),
        }
    }

    /// Sets an option of socket `id`: how much may wait for its program, or one that is kept here.
    pub(super) fn set_mailbox(&mut self, id: u64, (level, name): (i32, i32), value: i32) -> Answer {
        if (level, name) == (libc::SOL_SOCKET, libc::SO_BROADCAST) {
            self.expect_mail_half(id);
        }
        let (mailbox, bytes) = (self.mailboxes.get_mut(id), usize::try_from(value));
        let set = match (level, name, mailbox, bytes) {
            (libc::SOL_SOCKET, libc::SO_BROADCAST, Some(Mailbox { half: Some(half), .. }), _) => {
                set_socket_broadcast(half, value != 0)
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF, Some(mailbox), Ok(bytes)) => {
                // What waits there the kernel counts as sent by this end.
                set_socket_send_buffer_size(&mailbox.end, bytes)
            }
            (level, name, Some(mailbox), _) => mailbox.options.set(level, name, value),
            _ => Err(Errno::NOPROTOOPT),
        };
        if set == Err(Errno::NOPROTOOPT) {
            self.refuse(Refusal::SetOption { level, name });
        }
        set.map_or_else(refused, |()| Answer::Done)
    }

    pub(super) fn on_mailbox(&mut self, id: u64, flags: epoll::EventFlags, into: &mut Vec<Happened>) {
        use epoll::EventFlags as F;
        let Some(mailbox) = self.mailboxes.get_mut(id) else { return };
        mailbox.gone |= flags.intersects(F::HUP | F::ERR);
        if mailbox.gone || flags.intersects(F::IN | F::RDHUP) {
            into.push(Happened::Mail(id));
        }
        if flags.contains(F::OUT) {
            let _ = epoll::modify(&self.watches[0], &mailbox.end, epoll::EventData::new_u64(id), READABLE);
            into.push(Happened::Room(mailbox.bound.addr.port()));
        }
    }

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
        let said = Said {
            here: info.then_some(Here { addr: local.ip(), interface }),
            class: told_class[usize::from(remote.is_ipv6())].then_some(class),
            segment: 0,
        };
        let (mut rest, mut first) = (payload, true);
        let mut at_once = gro && segment < payload.len();
        loop {
            let (len, said) = match at_once {
                true => (rest.len(), Said { segment: segment as u16, ..said }),
                false => (segment.min(rest.len()), said),
            };
            let (next, after) = rest.split_at(len);
            match put(&mailbox.end, Envelope::Peer(remote), said, next) {
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

    /// Whether a program that wants what comes to `port` takes several datagrams at once.
    #[must_use]
    pub fn merges(&self, port: u16) -> bool {
        self.mailboxes.at(port).any(|mailbox| mailbox.options.gro)
    }

    /// Which stack sends for socket `id`: the one that handed it something last.
    pub(in crate::seam) fn sender(&self, id: u64) -> u16 {
        self.mailboxes.get(id).map_or(0, |mailbox| mailbox.stack)
    }

    /// Stack `number` has handed something to socket `id`.
    pub(in crate::seam) fn set_sender(&mut self, id: u64, number: u16) {
        self.mailboxes.get_mut(id).into_iter().for_each(|mailbox| mailbox.stack = number);
    }

    /// Takes what the program has sent from socket `id`, as urgent as `level`, into `bytes`.
    pub fn letter(&mut self, id: u64, level: u8, bytes: &mut [u8]) -> Letter {
        let Some(mailbox) = self.mailboxes.get(id) else {
            return Letter::End { port: 0, last: false };
        };
        let mut head = [0; envelope::LEN];
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
        if got.as_ref().is_ok_and(|got| got.bytes == Half::BYTES) {
            self.set_mail_half(id, &head[..Half::BYTES], pass::brought(&mut control));
            return Letter::Elsewhere;
        }
        let (len, whole) = match got {
            Ok(got) if got.bytes > 0 => (got.bytes, !got.flags.contains(ReturnFlags::TRUNC)),
            // It has shut its end down, and may open no other.
            Ok(_) if !mailbox.gone => return Letter::Nothing,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => return Letter::Nothing,
            Ok(_) | Err(_) => {
                let (port, last) = self.mailboxes.remove(id);
                return Letter::End { port, last };
            }
        };
        let envelope = if whole { Envelope::decode(&head[..len.min(envelope::LEN)]) } else { None };
        let to = match (envelope, mailbox.peer) {
            (Some(Envelope::Peer(to)), _) | (Some(Envelope::Connected), Some(to)) => to,
            (Some(Envelope::Connected), None) => {
                let _ = put(&mailbox.end, failed(Errno::DESTADDRREQ), Said::default(), &[]);
                return Letter::Settled(Delivered::Nobody);
            }
            _ => {
                self.refuse(Refusal::Nonsense);
                return Letter::Settled(Delivered::Nobody);
            }
        };
        let len = len - envelope::LEN;
        let Said { here, class, segment } = Said::decode(&head);
        let here = here.filter(|here| !here.addr.is_unspecified());
        if here.is_some_and(|Here { addr, .. }| !self.place.has(addr) || addr.is_ipv4() != to.is_ipv4()) {
            // The kernel's would say so at once; this is its next call's error.
            let _ = put(&mailbox.end, failed(Errno::INVAL), Said::default(), &[]);
            return Letter::Settled(Delivered::Nobody);
        }
        let class = class.unwrap_or(mailbox.options.class[usize::from(to.is_ipv6())]);
        let segment = if segment == 0 { mailbox.options.segment } else { segment };
        // A datagram of nothing is one.
        let segment = if segment == 0 { len.max(1) } else { segment.into() };
        if len.div_ceil(segment) > envelope::SEGMENTS_MAX {
            let _ = put(&mailbox.end, failed(Errno::INVAL), Said::default(), &[]);
            return Letter::Settled(Delivered::Nobody);
        }
        if let Some(half) = mailbox.half.as_ref().filter(|_| !self.place.leads_to(to.ip())) {
            let six = mailbox.bound.addr.is_ipv6();
            if let Err(errno) = sent((half, six), to, &bytes[..len], segment) {
                let _ = put(&mailbox.end, failed(errno), Said::default(), &[]);
            }
            return Letter::Elsewhere;
        }
        let from = SocketAddr::new(here.map_or(mailbox.local, |here| here.addr), mailbox.bound.addr.port());
        match self.place.has(to.ip()) {
            true => {
                // A socket of all addresses is known by the one that it writes to.
                let ip = if from.ip().is_unspecified() { to.ip() } else { from.ip() };
                let remote = SocketAddr::new(ip, from.port());
                let arrived = Arrived { local: to, remote, class };
                Letter::Settled(self.between(arrived, level, (&bytes[..len], segment)))
            }
            false => {
                let whole = mailbox.options.whole(to.is_ipv6());
                Letter::Out { from, to, len, segment, class, whole }
            }
        }
    }

    /// Hands what one program sends, in datagrams of `segment` bytes, to another.
    fn between(&mut self, arrived: Arrived, level: u8, (payload, segment): (&[u8], usize)) -> Delivered {
        match self.deliver(arrived, level, payload, segment) {
            Delivered::Full => Delivered::Lost,
            Delivered::Nobody => {
                self.undelivered(arrived.remote.port(), arrived.local);
                Delivered::Nobody
            }
            delivered => delivered,
        }
    }

    /// Nobody listens at `remote`, to which something was sent from `port`:
    /// who is connected with it is told.
    pub fn undelivered(&mut self, port: u16, remote: SocketAddr) {
        for mailbox in self.mailboxes.connected(port, remote) {
            // Who has no room for it has something else to read.
            let _ = put(&mailbox.end, failed(Errno::CONNREFUSED), Said::default(), &[]);
        }
    }
}

fn failed(errno: Errno) -> Envelope {
    Envelope::Failed(errno.raw_os_error() as u16)
}
