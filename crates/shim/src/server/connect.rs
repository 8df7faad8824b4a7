//! Connections that programs open.
//!
//! The stack starts a handshake on a program's request, and the program receives its descriptor at
//! once. As a kernel socket, it is not writable until the handshake is complete. A blocking program
//! receives a second answer. Others use `poll`, and request the error if there is one
//! ([`PendingConnects::stands`]). A program that gives up is detected once the handshake has taken
//! [`KEPT`]; the handshake is then aborted.
//!
//! A connection to an address of the stack itself joins two programs' ends without TCP, similar to
//! the kernel's loopback.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use net::stack::HopLimits;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, send, socketpair};

use super::super::conn_pair::{ConnPair, READABLE};
use super::super::ephemeral_ports::EPHEMERAL;
use super::super::listener_table::Stack;
use super::super::protocol::Answer;
use super::super::scm_rights;
use super::super::socket_name::{BETWEEN, Name, SocketKind};
use super::super::tcp_sockopt::{self, TcpSockopt};
use super::ended::ConnectionEnd;
use super::reply::{no, refused, say};
use super::{QUIET, RefusalKind, SocketEvent, SocketServer};

/// A program's request for a connection.
pub(super) struct PendingConnect {
    /// Socket for the answers.
    pub(super) reply: OwnedFd,
    /// IPv6 socket.
    pub(super) six: bool,
    /// The program waits for the result.
    pub(super) waits: bool,
    /// `SO_SNDBUF`; 0: not set.
    pub(super) send_buffer: u32,
    /// Hop limits set on the kernel socket.
    pub(super) hops: HopLimits,
    /// Options set on the bound socket.
    pub(super) settings: Vec<TcpSockopt>,
}

/// Pending handshakes, and recent failures.
#[derive(Default)]
pub(super) struct PendingConnects {
    /// Number of requests so far.
    asked: u64,
    /// Requests that the stack has not answered, at most one poll's.
    askers: BTreeMap<u64, PendingConnect>,
    /// Handshakes in progress, bounded by the number of connections.
    under_way: BTreeMap<u64, UnderWay>,
    /// Start times of handshakes whose program's end is kept: those of the last [`KEPT`].
    kept: VecDeque<(Instant, u64)>,
    failed: VecDeque<(u64, Errno)>,
}

/// A pending handshake.
struct UnderWay {
    /// Socket for the second answer.
    reply: Option<OwnedFd>,
    /// Copy of the program's end, to set its buffer size. While it is kept, the kernel does not
    /// report that the program has closed its own.
    program_end: Option<OwnedFd>,
}

/// Maximum number of failed handshakes whose error is kept.
const FAILED_MAX: usize = 4096;
/// Time for which the program's end is kept: a SYN and two retransmissions (after one and three
/// seconds, RFC 6298). A connection that takes longer keeps the smallest buffer.
pub(super) const KEPT: Duration = Duration::from_secs(5);

impl PendingConnects {
    /// Adds a handshake that begins at `now` as connection `id`.
    fn begin(&mut self, now: Instant, id: u64, under_way: UnderWay) {
        self.under_way.insert(id, under_way);
        self.kept.push_back((now, id));
    }

    /// Closes copies of programs' ends that were kept for [`KEPT`]. From then on the kernel reports
    /// that a program has closed its end.
    pub(super) fn let_go(&mut self, now: impl Fn() -> Instant) {
        while let Some(&(since, id)) = self.kept.front() {
            match self.under_way.get_mut(&id) {
                Some(_) if now().duration_since(since) < KEPT => return,
                Some(under_way) => under_way.program_end = None,
                None => {}
            }
            self.kept.pop_front();
        }
    }

    /// Handshake state of connection `id`.
    pub(super) fn stands(&self, id: u64) -> Answer {
        if self.under_way.contains_key(&id) {
            return refused(Errno::ALREADY);
        }
        let failed = self.failed.iter().rev().find(|(failed, _)| *failed == id);
        failed.map_or(Answer::Done, |(_, why)| refused(*why))
    }
}

impl SocketServer {
    /// Handles the request `asker` for a connection to `to`, from the address of socket `from`
    /// unless 0.
    pub(super) fn connect(
        &mut self,
        to: SocketAddr,
        from: u64,
        mut asker: PendingConnect,
        into: &mut Vec<SocketEvent>,
    ) {
        let port = match self.listeners.get(from) {
            Some(bound) if bound.backlog > 0 => return no(&asker.reply, Errno::ISCONN),
            // Linux, `tcp_v6_connect`.
            Some(bound) if !bound.bound().reaches(to.ip()) => {
                let is_mapped = bound.addr.is_ipv4();
                return no(&asker.reply, if is_mapped { Errno::AFNOSUPPORT } else { Errno::NETUNREACH });
            }
            Some(bound) => {
                asker.settings.extend_from_slice(bound.settings());
                Some(bound.addr.port())
            }
            None if from != 0 => return no(&asker.reply, Errno::INVAL),
            None => None,
        };
        match self.routes.leads_to(to.ip()) {
            false if port.is_some() => {
                self.refuse(RefusalKind::Connect);
                no(&asker.reply, Errno::NETUNREACH)
            }
            false => say(&asker.reply, Answer::NotOurs),
            true if to.port() == 0 => no(&asker.reply, Errno::CONNREFUSED),
            true if self.routes.has(to.ip()) => {
                if let Err(why) = self.connect_programs(to, port, &asker) {
                    no(&asker.reply, why);
                }
            }
            true => {
                self.openings.asked += 1;
                let call = self.openings.asked;
                let hops = match port {
                    Some(_) => tcp_sockopt::hop_limits(&asker.settings)[usize::from(to.is_ipv6())],
                    None => asker.hops,
                };
                self.openings.askers.insert(call, asker);
                into.push(SocketEvent::Connect { call, to, port, hops });
            }
        }
    }

    /// Starts the handshake of request `call`, as connection `id` (below 2⁶²) from `local` to
    /// `remote`. `None` if the program could not receive its end.
    pub fn opening(&mut self, call: u64, id: u64, local: SocketAddr, remote: SocketAddr) -> Option<ConnPair> {
        let asker = self.openings.askers.remove(&call)?;
        let name = Name { run: self.run, kind: SocketKind::Opened, six: asker.six, id, local, remote };
        match self.hand_over_opening(&name, &asker) {
            Ok((pipe, program_end)) => {
                self.inherited.clone_from(&asker.settings);
                let reply = asker.waits.then_some(asker.reply);
                self.ports.open(id, local.port());
                self.openings.begin(Instant::now(), id, UnderWay { reply, program_end: Some(program_end) });
                Some(pipe)
            }
            Err(why) => {
                no(&asker.reply, why);
                None
            }
        }
    }

    /// Makes the pair and sends the program its end; returns the stack's end and a copy of the
    /// program's.
    fn hand_over_opening(&self, name: &Name, asker: &PendingConnect) -> Result<(ConnPair, OwnedFd), Errno> {
        let (ours, program_end) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&ours, &SocketAddrUnix::new_abstract_name(&name.encode())?)?;
        let watch = &self.watches[self.stack_of(name.id)];
        epoll::add(watch, &ours, epoll::EventData::new_u64(name.id), READABLE)?;
        let pipe = ConnPair::new(ours, name.id, watch.clone(), self.shared.clone());
        let pipe = pipe.filled(&program_end, asker.send_buffer)?;
        scm_rights::hand(&asker.reply, &Answer::Done.encode(), program_end.as_fd())
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        Ok((pipe, program_end))
    }

    /// Rejects request `call`.
    pub fn refuse_opening(&mut self, call: u64, why: Errno) {
        if let Some(asker) = self.openings.askers.remove(&call) {
            no(&asker.reply, why);
        }
    }

    /// Reports that the handshake of connection `id` is complete.
    pub fn opened(&mut self, id: u64, pipe: &mut ConnPair) {
        let under_way = self.openings.under_way.remove(&id);
        pipe.open(under_way.as_ref().and_then(|under_way| under_way.program_end.as_ref()));
        if let Some(UnderWay { reply: Some(reply), .. }) = under_way {
            say(&reply, Answer::Done);
        }
    }

    /// Reports that the handshake of connection `id` has failed; the caller then drops the pair's
    /// end.
    pub fn failed(&mut self, id: u64, why: Errno) {
        let openings = &mut self.openings;
        if let Some(UnderWay { reply: Some(reply), .. }) = openings.under_way.remove(&id) {
            no(&reply, why);
        }
        if openings.failed.len() >= FAILED_MAX {
            openings.failed.pop_front();
        }
        openings.failed.push_back((id, why));
        self.ended(id, ConnectionEnd::error(why));
    }

    /// Connects the requesting program to the listener of `to`, an address of the stack.
    fn connect_programs(
        &mut self,
        to: SocketAddr,
        port: Option<u16>,
        asker: &PendingConnect,
    ) -> Result<(), Errno> {
        self.openings.asked += 1;
        let count = self.openings.asked;
        let (run, id) = (self.run, BETWEEN | count & u64::from(u32::MAX));
        let usual = EPHEMERAL + (count % u64::from(u16::MAX - EPHEMERAL)) as u16;
        let from = SocketAddr::new(to.ip(), port.unwrap_or(usual));
        let listener = self.listeners.taker(to, Stack::ANY).ok_or(Errno::CONNREFUSED)?;
        let (program_end, accepted) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The name of each end is read at the other end.
        let name = Name { run, kind: SocketKind::Opened, six: asker.six, id, local: from, remote: to };
        bind(&accepted, &SocketAddrUnix::new_abstract_name(&name.encode())?)?;
        let name = Name { kind: SocketKind::Connection, six: listener.six, local: to, remote: from, ..name };
        let (name, listener) = (name.encode(), listener.id);
        bind(&program_end, &SocketAddrUnix::new_abstract_name(&name)?)?;
        // Unread until accept takes it: a connection that ends in the accept queue is reset.
        send(&program_end, &[0], QUIET)?;
        self.hand_over(listener, name, accepted).map_err(|_| Errno::CONNREFUSED)?;
        scm_rights::hand(&asker.reply, &Answer::Done.encode(), program_end.as_fd())
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        if asker.waits {
            say(&asker.reply, Answer::Done);
        }
        Ok(())
    }
}
