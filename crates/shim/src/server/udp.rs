//! UDP sockets of programs.
//!
//! The program's descriptor stays the other end of the pair for the socket's lifetime: connecting
//! changes only what the stack delivers. The datagrams are handled in
//! [`datagram_forward`](super::datagram_forward). Decision: ADR 0049.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::bind;
use rustix::net::sockopt::{set_socket_broadcast, set_socket_send_buffer_size};

use super::super::bind_addr::BindAddr;
use super::super::conn_pair::READABLE;
use super::super::datagram_header::DatagramHeader;
use super::super::label_table::of_mailbox;
use super::super::protocol::Answer;
use super::super::socket_name::SocketKind;
use super::super::udp_sockopt::DatagramOptions;
use super::super::udp_table::{Reuse, UdpSocketEntry};
use super::reply::{no, refused, say, tell};
use super::{RefusalKind, SocketEvent, SocketServer};

/// Fields of [`Request::Datagrams`](super::Request::Datagrams).
pub(super) struct Wanted {
    pub addr: SocketAddr,
    pub six: bool,
    pub v6_only: bool,
    pub reuse: Reuse,
    pub options: DatagramOptions,
    pub to: Option<SocketAddr>,
    pub connects: bool,
}

impl SocketServer {
    /// Binds the socket whose program's end is paired with `end`.
    pub(super) fn bind_mailbox(&mut self, wanted: Wanted, end: OwnedFd, into: &mut Vec<SocketEvent>) {
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
        self.shared.label_table.begin(of_mailbox(id));
        let (local, peer, stack, gone) = (bound.addr.ip(), None, 0, false);
        self.mailboxes.add(UdpSocketEntry {
            id,
            bound,
            reuse,
            local,
            peer,
            stack,
            options,
            end,
            half: None,
            gone,
        });
        if connects {
            self.aim(id, to);
        }
        into.push(SocketEvent::Bound(bound.addr.port()));
        self.mailboxes.get(id).into_iter().for_each(|mailbox| say(&mailbox.end, Answer::Done));
    }

    /// Address to bind to; `None` if the socket stays the kernel's.
    fn place_mailbox(&mut self, wanted: &Wanted) -> Result<Option<BindAddr>, Errno> {
        let Wanted { mut addr, v6_only, reuse, to, .. } = *wanted;
        let ours = match to {
            Some(to) => addr.ip().is_unspecified() && self.routes.leads_to(to.ip()),
            None => self.routes.is_for(addr),
        };
        if !ours {
            return Ok(None);
        }
        let free = self.mailboxes.is_free(&BindAddr { addr, v6_only }, reuse);
        if addr.port() == 0 || (to.is_some() && !free) {
            let port = self.mailboxes.free_port(&self.key).ok_or(Errno::ADDRINUSE)?;
            addr.set_port(port);
        } else if !free {
            return Err(Errno::ADDRINUSE);
        }
        Ok(Some(BindAddr { addr, v6_only }))
    }

    /// Names the server's end of socket `id`, and adds it to the epoll set.
    fn watch_mailbox(&self, id: u64, addr: SocketAddr, six: bool, end: &OwnedFd) -> Result<(), Errno> {
        let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let name = self.name(SocketKind::Datagrams, id, six, addr, unspecified)?;
        rustix::io::ioctl_fionbio(end, true)?;
        bind(end, &name)?;
        epoll::add(&self.watches[0], end, epoll::EventData::new_u64(id), READABLE)
    }

    /// Connects socket `id` to `to`; `None` disconnects it.
    pub(super) fn aim(&mut self, id: u64, to: Option<SocketAddr>) -> Answer {
        let answer = self.connect_mailbox(id, to);
        let connected = self.mailboxes.get(id).is_some_and(|mailbox| mailbox.peer.is_some());
        self.shared.label_table.connect(of_mailbox(id), connected);
        answer
    }

    fn connect_mailbox(&mut self, id: u64, to: Option<SocketAddr>) -> Answer {
        if to.is_some_and(|to| !self.routes.leads_to(to.ip())) {
            self.expect_mail_half(id);
        }
        let Some(mailbox) = self.mailboxes.get_mut(id) else { return refused(Errno::INVAL) };
        let bound = mailbox.bound.addr.ip();
        match to {
            Some(to) if !mailbox.bound.reaches(to.ip()) => refused(Errno::AFNOSUPPORT),
            Some(to) if !self.routes.leads_to(to.ip()) => {
                if mailbox.half.is_none() {
                    self.refuse(RefusalKind::Connect);
                    return refused(Errno::NETUNREACH);
                }
                // The kernel chooses the source address.
                (mailbox.local, mailbox.peer) = (bound, Some(to));
                Answer::Done
            }
            Some(to) => {
                let source = if bound.is_unspecified() { self.routes.source(to.ip()) } else { Some(bound) };
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

    /// Replies with the addresses of socket `id`.
    pub(super) fn tell_ends(&self, id: u64, reply: &OwnedFd) {
        let Some(UdpSocketEntry { bound, local, peer, .. }) = self.mailboxes.get(id) else {
            return no(reply, Errno::INVAL);
        };
        let local = DatagramHeader::Peer(SocketAddr::new(*local, bound.addr.port()));
        let peer = peer.map_or(DatagramHeader::Connected, DatagramHeader::Peer);
        tell(reply, &[local.encode(), peer.encode()].concat());
    }

    /// Value of an option of socket `id`, if the server has it.
    pub(super) fn mailbox_option(&self, id: u64, level: i32, name: i32) -> Option<i32> {
        let UdpSocketEntry { bound, options, .. } = self.mailboxes.get(id)?;
        match (level, name) {
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Some(bound.is_v6_only().into()),
            _ => options.get(level, name),
        }
    }

    /// Sets an option of socket `id`: its receive buffer size, or one that is kept here.
    pub(super) fn set_mailbox(&mut self, id: u64, (level, name): (i32, i32), value: i32) -> Answer {
        let is_half = [
            (libc::SOL_SOCKET, libc::SO_BROADCAST),
            (libc::IPPROTO_IP, libc::IP_TTL),
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        ];
        if is_half.contains(&(level, name)) {
            self.expect_mail_half(id);
        }
        let (mailbox, bytes) = (self.mailboxes.get_mut(id), usize::try_from(value));
        let set = match (level, name, mailbox, bytes) {
            (libc::SOL_SOCKET, libc::SO_BROADCAST, Some(UdpSocketEntry { half: Some(half), .. }), _) => {
                set_socket_broadcast(half, value != 0)
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF, Some(mailbox), Ok(bytes)) => {
                // The kernel accounts the receive queue to the send buffer of this end.
                set_socket_send_buffer_size(&mailbox.end, bytes)
            }
            (level, name, Some(mailbox), _) => mailbox.set(level, name, value),
            _ => Err(Errno::NOPROTOOPT),
        };
        if set == Err(Errno::NOPROTOOPT) {
            self.refuse(RefusalKind::SetOption { level, name });
        }
        set.map_or_else(refused, |()| Answer::Done)
    }

    pub(super) fn on_mailbox(&mut self, id: u64, flags: epoll::EventFlags, into: &mut Vec<SocketEvent>) {
        use epoll::EventFlags as F;
        let Some(mailbox) = self.mailboxes.get_mut(id) else { return };
        mailbox.gone |= flags.intersects(F::HUP | F::ERR);
        if mailbox.gone || flags.intersects(F::IN | F::RDHUP) {
            into.push(SocketEvent::DatagramReadable(id));
        }
        if flags.contains(F::OUT) {
            let _ = epoll::modify(&self.watches[0], &mailbox.end, epoll::EventData::new_u64(id), READABLE);
            into.push(SocketEvent::DatagramWritable(mailbox.bound.addr.port()));
        }
    }

    /// True if a socket on `port` has UDP_GRO.
    #[must_use]
    pub fn merges(&self, port: u16) -> bool {
        self.mailboxes.at(port).any(|mailbox| mailbox.options.gro)
    }

    /// Stack that sends for socket `id`: the one that delivered to it last.
    pub(crate) fn sender(&self, id: u64) -> u16 {
        self.mailboxes.get(id).map_or(0, |mailbox| mailbox.stack)
    }

    /// Records that stack `number` has delivered to socket `id`.
    pub(crate) fn set_sender(&mut self, id: u64, number: u16) {
        self.mailboxes.get_mut(id).into_iter().for_each(|mailbox| mailbox.stack = number);
    }
}
