//! Connections that programs open.
//!
//! A program asks, the stack begins a handshake, and the program has its
//! descriptor at once, as if its socket were the kernel's: not writable until
//! the peer has answered. Who waits for that is told by a second answer;
//! others learn by `poll`, and where it says that something went wrong, they
//! ask what ([`PendingConnects::stands`]). That nobody waits any more is told when
//! the handshake has taken a while ([`KEPT`]), and then ends it.
//!
//! A connection to an address of ours has two programs' ends and needs no
//! TCP, as the kernel's loopback needs no wire.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use net::stack::HopLimits;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socketpair};

use super::super::conn_pair::{ConnPair, READABLE};
use super::super::ephemeral_ports::EPHEMERAL;
use super::super::listener_table::Stack;
use super::super::protocol::Answer;
use super::super::scm_rights;
use super::super::socket_name::{Kind, Name};
use super::super::tcp_sockopt::{self, TcpSockopt};
use super::ended::End;
use super::reply::{no, refused, say};
use super::{Refusal, SocketEvent, SocketServer};

/// A program that wants a connection.
pub(super) struct PendingConnect {
    /// Where it hears of it.
    pub(super) reply: OwnedFd,
    /// Its socket speaks IPv6.
    pub(super) six: bool,
    /// It waits for the outcome.
    pub(super) waits: bool,
    /// What it wants for `SO_SNDBUF`; 0: nothing.
    pub(super) send_buffer: u32,
    /// Hop limits that were set on the kernel's socket.
    pub(super) hops: HopLimits,
    /// What was set on its socket while that was bound.
    pub(super) settings: Vec<TcpSockopt>,
}

/// What is not decided yet, and what failed lately.
#[derive(Default)]
pub(super) struct PendingConnects {
    /// Questions so far.
    asked: u64,
    /// Those that the stack has not answered: no more than it polls at once.
    askers: BTreeMap<u64, PendingConnect>,
    /// Handshakes: as many as connections.
    under_way: BTreeMap<u64, UnderWay>,
    /// When each of them began, of those whose program's end is kept: as many as begin within [`KEPT`].
    kept: VecDeque<(Instant, u64)>,
    failed: VecDeque<(u64, Errno)>,
}

/// A handshake that is under way.
struct UnderWay {
    /// Who waits for its outcome.
    reply: Option<OwnedFd>,
    /// The program's end once more, so that its buffer can be given its size. While it is kept here, the
    /// kernel does not tell that the program has closed it.
    theirs: Option<OwnedFd>,
}

/// Handshakes that failed and of which it is known why.
const FAILED_MAX: usize = 4096;
/// How long a program's end is kept for its handshake: a SYN, and what follows one or two that were lost (after a
/// second and after three, RFC 6298). A connection that takes longer keeps the smallest buffer.
pub(super) const KEPT: Duration = Duration::from_secs(5);
/// Numbers of connections between programs begin here: above the stack's.
pub(super) const BETWEEN: u64 = 0x3fff_ffff << 32;

impl PendingConnects {
    /// A handshake begins at `now` as connection `id`.
    fn begin(&mut self, now: Instant, id: u64, under_way: UnderWay) {
        self.under_way.insert(id, under_way);
        self.kept.push_back((now, id));
    }

    /// Lets go, at `now`, of programs' ends that were [kept](KEPT) long enough: from then on it is told where
    /// nobody has one any more.
    pub(super) fn let_go(&mut self, now: impl Fn() -> Instant) {
        while let Some(&(since, id)) = self.kept.front() {
            match self.under_way.get_mut(&id) {
                Some(_) if now().duration_since(since) < KEPT => return,
                Some(under_way) => under_way.theirs = None,
                None => {}
            }
            self.kept.pop_front();
        }
    }

    /// How the handshake of connection `id` stands.
    pub(super) fn stands(&self, id: u64) -> Answer {
        if self.under_way.contains_key(&id) {
            return refused(Errno::ALREADY);
        }
        let failed = self.failed.iter().rev().find(|(failed, _)| *failed == id);
        failed.map_or(Answer::Done, |(_, why)| refused(*why))
    }
}

impl SocketServer {
    /// `asker` wants a connection to `to`, from the address of socket `from`
    /// if that is not 0.
    pub(super) fn connect(
        &mut self,
        to: SocketAddr,
        from: u64,
        mut asker: PendingConnect,
        into: &mut Vec<SocketEvent>,
    ) {
        let port = match self.listeners.get(from) {
            Some(bound) if bound.backlog > 0 => return no(&asker.reply, Errno::ISCONN),
            Some(bound) => {
                asker.settings.extend_from_slice(bound.settings());
                Some(bound.addr.port())
            }
            None if from != 0 => return no(&asker.reply, Errno::INVAL),
            None => None,
        };
        match self.place.leads_to(to.ip()) {
            false if port.is_some() => {
                self.refuse(Refusal::Connect);
                no(&asker.reply, Errno::NETUNREACH)
            }
            false => say(&asker.reply, Answer::NotOurs),
            true if to.port() == 0 => no(&asker.reply, Errno::CONNREFUSED),
            true if self.place.has(to.ip()) => {
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

    /// The handshake for question `call` is under way, as connection `id`
    /// (below 2⁶²) from `local` to `remote`. `None`: the program cannot have it.
    pub fn opening(&mut self, call: u64, id: u64, local: SocketAddr, remote: SocketAddr) -> Option<ConnPair> {
        let asker = self.openings.askers.remove(&call)?;
        let name = Name { run: self.run, kind: Kind::Opened, six: asker.six, id, local, remote };
        match self.hand_over_opening(&name, &asker) {
            Ok((pipe, theirs)) => {
                let set = asker.settings.iter().map(|&setting| SocketEvent::Set { id, setting });
                self.inherited.extend(set);
                let reply = asker.waits.then_some(asker.reply);
                self.openings.begin(Instant::now(), id, UnderWay { reply, theirs: Some(theirs) });
                Some(pipe)
            }
            Err(why) => {
                no(&asker.reply, why);
                None
            }
        }
    }

    /// Makes the pair, and gives the program its end; ours, and the program's once more.
    fn hand_over_opening(&self, name: &Name, asker: &PendingConnect) -> Result<(ConnPair, OwnedFd), Errno> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&ours, &SocketAddrUnix::new_abstract_name(&name.encode())?)?;
        let watch = &self.watches[self.stack_of(name.id)];
        epoll::add(watch, &ours, epoll::EventData::new_u64(name.id), READABLE)?;
        let pipe = ConnPair::new(ours, name.id, watch.clone(), self.shared.clone());
        let pipe = pipe.filled(&theirs, asker.send_buffer)?;
        scm_rights::hand(&asker.reply, &Answer::Done.encode(), theirs.as_fd())
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        Ok((pipe, theirs))
    }

    /// There is no handshake for question `call`.
    pub fn refuse_opening(&mut self, call: u64, why: Errno) {
        if let Some(asker) = self.openings.askers.remove(&call) {
            no(&asker.reply, why);
        }
    }

    /// Connection `id` with this pipe is open.
    pub fn opened(&mut self, id: u64, pipe: &mut ConnPair) {
        let under_way = self.openings.under_way.remove(&id);
        pipe.open(under_way.as_ref().and_then(|under_way| under_way.theirs.as_ref()));
        if let Some(UnderWay { reply: Some(reply), .. }) = under_way {
            say(&reply, Answer::Done);
        }
    }

    /// Connection `id` will not be open: drop its pipe after this.
    pub fn failed(&mut self, id: u64, why: Errno) {
        let openings = &mut self.openings;
        if let Some(UnderWay { reply: Some(reply), .. }) = openings.under_way.remove(&id) {
            no(&reply, why);
        }
        if openings.failed.len() >= FAILED_MAX {
            openings.failed.pop_front();
        }
        openings.failed.push_back((id, why));
        self.ended(id, End::error(why));
    }

    /// Connects the program that asks with the one that listens at `to`, an
    /// address of ours.
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
        let (theirs, accepted) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // Each end is called what the other is to be told.
        let name = Name { run, kind: Kind::Opened, six: asker.six, id, local: from, remote: to };
        bind(&accepted, &SocketAddrUnix::new_abstract_name(&name.encode())?)?;
        let name = Name { kind: Kind::Connection, six: listener.six, local: to, remote: from, ..name };
        let (name, listener) = (name.encode(), listener.id);
        bind(&theirs, &SocketAddrUnix::new_abstract_name(&name)?)?;
        self.hand_over(listener, name, accepted).map_err(|_| Errno::CONNREFUSED)?;
        scm_rights::hand(&asker.reply, &Answer::Done.encode(), theirs.as_fd())
            .map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        if asker.waits {
            say(&asker.reply, Answer::Done);
        }
        Ok(())
    }
}
