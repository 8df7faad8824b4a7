//! Bound sockets, listeners, and delivery of new connections.
//!
//! A listener's pair carries connections to its program. Those that do not fit wait in the
//! listener, which is refilled when the pair has space.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socketpair};

use super::super::conn_pair::{ConnPair, READABLE};
use super::super::listener_table::{BACKLOG_MAX, Listener, Stack};
use super::super::protocol::Answer;
use super::super::socket_name::{LEN, Name, SocketKind};
use super::super::tcp_sockopt::{self, TcpSockopt};
use super::reply::{no, refused, say};
use super::{AcceptError, COOKIES_MAX, LISTENER, MAILBOX, RefusalKind, SocketEvent, SocketServer};

impl SocketServer {
    /// Binds a socket to `addr`; `end` is the server's end of the pair whose other end the program
    /// holds.
    pub(super) fn bind(&mut self, mut addr: SocketAddr, end: OwnedFd, change: impl FnOnce(&mut Listener)) {
        if !self.routes.is_for(addr) {
            return say(&end, Answer::NotOurs);
        }
        self.made += 1;
        if addr.port() == 0 {
            self.ports.expire(Instant::now());
            let Some(port) = self.listeners.free_port(&self.ports, &self.key, self.made) else {
                return no(&end, Errno::ADDRINUSE);
            };
            addr.set_port(port);
        }
        let id = LISTENER | self.made;
        let mut listener = Listener::new(id, addr, end);
        change(&mut listener);
        let unspecified = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let name = self.name(SocketKind::Listener, id, listener.six, addr, unspecified);
        if let Err(listener) = self.listeners.add(listener) {
            return no(&listener.end, Errno::ADDRINUSE);
        }
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let named = rustix::io::ioctl_fionbio(&listener.end, true).and_then(|()| bind(&listener.end, &name?));
        let data = epoll::EventData::new_u64(id);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        match named.and_then(|()| epoll::add(&self.watches[0], &listener.end, data, flags)) {
            Ok(()) => say(&listener.end, Answer::Done),
            Err(errno) => {
                no(&listener.end, errno);
                self.listeners.remove(id);
            }
        }
    }

    /// Records that the kernel socket `cookie` is `bound` here; otherwise refuses it if another
    /// process has bound it.
    pub(super) fn on_cookie(&mut self, cookie: u64, bound: bool) -> Answer {
        if bound {
            if self.cookies.len() >= COOKIES_MAX {
                self.cookies.pop_front();
            }
            self.cookies.push_back(cookie);
            return Answer::Done;
        }
        if !self.cookies.contains(&cookie) {
            return Answer::Done;
        }
        self.refuse(RefusalKind::Cookie);
        refused(Errno::INVAL)
    }

    /// Makes socket `id` listen with `backlog`.
    pub(super) fn listen(&mut self, id: u64, backlog: u32, into: &mut Vec<SocketEvent>) -> Answer {
        // The kernel socket is already in the pair: it listens, too, once listen(2) has returned.
        if self.listeners.get(id).is_some_and(|listener| listener.half.is_none()) {
            self.take_half(id);
        }
        let Some(listener) = self.listeners.get_mut(id) else { return refused(Errno::INVAL) };
        listener.listen(backlog);
        let port = listener.addr.port();
        into.push(self.listens(port));
        self.open_half(id);
        Answer::Done
    }

    /// Sets the TCP_FASTOPEN queue length of listener `id` (tcp(7)).
    pub(super) fn set_fast_open(&mut self, id: u64, most: i32, into: &mut Vec<SocketEvent>) -> Answer {
        let (Some(listener), Ok(most)) = (self.listeners.get_mut(id), usize::try_from(most)) else {
            return refused(Errno::INVAL);
        };
        listener.fast_open = most.min(BACKLOG_MAX);
        if listener.backlog > 0 {
            let port = listener.addr.port();
            into.push(self.listens(port));
        }
        Answer::Done
    }

    /// Sets an option for future connections of listener `id`.
    pub(super) fn set_listener(&mut self, id: u64, setting: TcpSockopt, into: &mut Vec<SocketEvent>) {
        let Some(listener) = self.listeners.get_mut(id) else { return };
        let before = tcp_sockopt::hop_limits(listener.settings());
        listener.set(setting);
        // The stack needs hop limits before there is a connection.
        if listener.backlog > 0 && tcp_sockopt::hop_limits(listener.settings()) != before {
            let port = listener.addr.port();
            into.push(self.listens(port));
        }
    }

    /// Event for the listeners on `port`.
    fn listens(&self, port: u16) -> SocketEvent {
        let listening: Vec<_> = self.listeners.at(port).filter(|listener| listener.backlog > 0).collect();
        // Data in a SYN may be duplicated, so every listener must have enabled it.
        let fast_open = listening.iter().map(|listener| listener.fast_open).min().unwrap_or(0);
        let mut limits = listening.iter().map(|listener| tcp_sockopt::hop_limits(listener.settings()));
        let first = limits.next().unwrap_or_default();
        let hops = if limits.all(|other| other == first) { first } else { Default::default() };
        SocketEvent::Listen { port, fast_open, hops }
    }

    /// Handles an event on listener `id`: its program is gone, has sent a message, or the pair has
    /// space.
    pub(super) fn on_listener(&mut self, id: u64, flags: epoll::EventFlags, into: &mut Vec<SocketEvent>) {
        use epoll::EventFlags as F;
        if flags.intersects(F::HUP | F::ERR | F::RDHUP) {
            if let Some((Listener { addr, end, half, .. }, last)) = self.listeners.remove(id) {
                half.iter().chain([&end]).for_each(|file| self.unwatch(file));
                into.extend(last.then_some(SocketEvent::Unlisten(addr.port())));
            }
            return;
        }
        if flags.contains(F::IN) {
            self.take_half(id);
        }
        let Some(listener) = self.listeners.get_mut(id) else { return };
        listener.refill();
        let _ = self.watch_listener(id);
        self.accept_half(id);
    }

    /// Registers listener `id` for its end, and for space if connections wait.
    fn watch_listener(&self, id: u64) -> io::Result<()> {
        use epoll::EventFlags as F;
        let Some(listener) = self.listeners.get(id) else { return Ok(()) };
        let room = if listener.is_full() { F::OUT } else { F::empty() };
        let (flags, data) = (F::IN | F::RDHUP | room, epoll::EventData::new_u64(id));
        epoll::modify(&self.watches[0], &listener.end, data, flags)?;
        Ok(())
    }

    /// Queues a connection to listener `id`; returns it if the queue is full.
    pub(super) fn hand_over(
        &mut self,
        id: u64,
        name: [u8; LEN],
        program_end: OwnedFd,
    ) -> Result<(), OwnedFd> {
        let Some(listener) = self.listeners.get_mut(id) else { return Err(program_end) };
        let before = listener.is_full();
        listener.hand_over(name, program_end)?;
        if listener.is_full() && !before {
            let _ = self.watch_listener(id);
        }
        Ok(())
    }

    /// Offers a new connection from `remote` to `local` to the program that listens there. `id` is
    /// its number: below 2⁶², and not in use by a connection that a program may still have.
    ///
    /// # Errors
    /// [`AcceptError`]; the program does not see the connection.
    pub fn offer(&mut self, id: u64, local: SocketAddr, remote: SocketAddr) -> Result<ConnPair, AcceptError> {
        assert!(id < MAILBOX, "connection {id} has the number of a listener or a UDP socket");
        let stack = Stack { number: self.stack_of(id), of: self.watches.len() };
        let (run, watch) = (self.run, self.watches[stack.number].clone());
        let listener = self.listeners.taker(local, stack).ok_or(AcceptError::NoListener)?;
        let name = Name { run, kind: SocketKind::Connection, six: listener.six, id, local, remote };
        let (name, listener) = (name.encode(), listener.id);
        let none = |_: Errno| AcceptError::NoDescriptor;
        let (ours, program_end) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(none)?;
        bind(&ours, &SocketAddrUnix::new_abstract_name(&name).map_err(none)?).map_err(none)?;
        epoll::add(&watch, &ours, epoll::EventData::new_u64(id), READABLE).map_err(none)?;
        // Made before the program has the connection, so that its label exists.
        let pipe = ConnPair::new(ours, id, watch, self.shared.clone());
        self.hand_over(listener, name, program_end).map_err(|_| AcceptError::Full)?;
        let settings = self.listeners.get(listener).map(|listener| listener.settings().to_vec());
        self.inherited = settings.unwrap_or_default();
        Ok(pipe)
    }
}
