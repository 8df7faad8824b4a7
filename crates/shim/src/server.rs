//! Socket server: handles programs' requests, and has the stack's ends of their sockets.
//!
//! One epoll set has the request socket, the listeners and the connections, so that a driver can
//! sleep on it and on its device ([`SocketServer::readiness`]). No call blocks. Each call sets its
//! own non-blocking flag, because programs share many of the files and may clear `O_NONBLOCK`. A
//! reply is dropped if the program has left no space for it. Requests are untrusted until their key
//! is checked; those without it are counted and dropped. A file is removed from the epoll set
//! before it is closed, because another process may still have it open, and the kernel would keep
//! reporting it.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use classify::TransportClassifier;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with};

use super::client;
use super::conn_pair::Shared;
use super::ephemeral_ports::UsedPorts;
use super::ifaddrs::StackInterface;
use super::label_table::LabelTable;
use super::late_data::LateData;
use super::listener_table::{Listener, Listeners};
use super::protocol::{AccessKey, Answer, LATE_BYTES_MAX, REQUEST_BYTES_MAX, Request};
use super::routes::Routes;
use super::scm_rights;
use super::shm_send::ShmSendBuffers;
use super::socket_name::{Name, SocketKind};
use super::tcp_sockopt::TcpSockopt;
use super::udp_table::{MAILBOX, UdpTable};
use host::affinity;

mod connect;
mod datagram_forward;
mod ended;
mod events;
mod getsockopt;
mod kernel_socket;
mod listen;
mod listener_policy;
mod reap;
mod reply;
mod udp;

use connect::{PendingConnect, PendingConnects};
pub use datagram_forward::{Arrived, Delivered, QueuedDatagram};
pub use ended::ConnectionEnd;
use ended::Ended;
pub use events::{AcceptError, RefusalKind, SocketEvent};
use getsockopt::Questions;
use kernel_socket::HALF;
use reply::{give, refused, say, tell};
use udp::Wanted;

/// Server of programs' socket requests.
pub struct SocketServer {
    control: OwnedFd,
    /// Epoll set of each stack's connections; the first one has all other files, too.
    watches: Vec<Arc<OwnedFd>>,
    shared: Shared,
    /// File of the send buffers, for programs.
    outboxes: OwnedFd,
    key: AccessKey,
    run: u32,
    routes: Routes,
    listeners: Listeners,
    mailboxes: UdpTable,
    openings: PendingConnects,
    ports: UsedPorts,
    ended: Ended,
    questions: Questions,
    /// Cookies of kernel sockets that were bound here last, oldest first.
    cookies: VecDeque<u64>,
    /// Number of listeners made.
    made: u64,
    /// Options that the connection made last inherits.
    inherited: Vec<TcpSockopt>,
    refused: BTreeMap<RefusalKind, u64>,
    /// Classifiers that programs set on their listeners, by number.
    rules: BTreeMap<u64, TransportClassifier>,
}

/// Bit in the numbers of listeners; connections have neither it nor [`MAILBOX`].
const LISTENER: u64 = 1 << 63;
/// Number of the control socket.
const CONTROL: u64 = u64::MAX;
/// Number of an eventfd, which only wakes the driver.
pub(super) const EVENTFD: u64 = u64::MAX - 1;
/// Maximum number of events, and of requests, handled per poll.
const EVENTS: usize = 64;
/// Maximum number of distinct refusals; further ones are not counted.
const REFUSALS_MAX: usize = 1024;
/// Maximum number of cookies kept.
const COOKIES_MAX: usize = 4096;
/// Flags for messages to programs: no blocking, no SIGPIPE.
const QUIET: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

impl SocketServer {
    /// Opens a server for a stack without addresses. `secret` must be unpredictable.
    ///
    /// # Errors
    /// No descriptor left, or no abstract sockets in the kernel.
    pub fn open(secret: AccessKey) -> io::Result<Self> {
        Self::of_several(secret, 1)
    }

    /// Opens a server for `stacks` stacks ([`StackHandle`](super::StackHandle)), at least one.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub(super) fn of_several(secret: AccessKey, stacks: u16) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let control = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let run = u32::from_be_bytes([secret[0], secret[1], secret[2], secret[3]]) ^ std::process::id();
        bind(&control, &SocketAddrUnix::new_abstract_name(client::server_name(run).as_bytes())?)?;
        let watch = |_| Ok(Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?));
        let watches: Vec<_> = (0..stacks).map(watch).collect::<io::Result<_>>()?;
        epoll::add(&watches[0], &control, epoll::EventData::new_u64(CONTROL), epoll::EventFlags::IN)?;
        let (outboxes, file) = ShmSendBuffers::new(stacks)?;
        Ok(Self {
            control,
            watches,
            shared: Shared {
                label_table: Arc::new(LabelTable::new()?),
                outboxes: Arc::new(outboxes),
                late: Arc::new(LateData::default()),
            },
            outboxes: file,
            key: secret,
            run,
            routes: Routes::default(),
            listeners: Listeners::default(),
            mailboxes: UdpTable::default(),
            openings: PendingConnects::default(),
            ports: UsedPorts::default(),
            ended: Ended::default(),
            questions: Questions::default(),
            cookies: VecDeque::new(),
            made: 0,
            inherited: Vec::new(),
            refused: BTreeMap::new(),
            rules: BTreeMap::new(),
        })
    }

    /// Sets the addresses and routes of the stack.
    pub fn set_routes(&mut self, routes: Routes) {
        self.routes = routes;
    }

    /// Value of the environment variable [`VARIABLE`](super::VARIABLE).
    #[must_use]
    pub fn variable(&self) -> String {
        client::variable(self.run, &self.key)
    }

    /// Descriptor that is readable while events are pending.
    ///
    /// # Errors
    /// No descriptor left.
    pub fn readiness(&self) -> io::Result<OwnedFd> {
        self.watches[0].try_clone()
    }

    /// Refusals so far, with their counts.
    pub fn refused(&self) -> impl Iterator<Item = (RefusalKind, u64)> + '_ {
        self.refused.iter().map(|(refusal, count)| (*refusal, *count))
    }

    /// Appends new events, at most a batch; true if there were any.
    pub fn poll(&mut self, into: &mut Vec<SocketEvent>) -> bool {
        if let Some(core) = affinity::current_core() {
            self.shared.label_table.on(core);
        }
        self.openings.let_go(std::time::Instant::now);
        let mut asked = false;
        // Ends are handled before requests, which may ask for the same address.
        let some = ready(&self.watches[0].clone(), |id, flags| match id {
            CONTROL => asked = true,
            _ => self.on_event(id, flags, into),
        });
        if asked {
            self.take_requests(into);
        }
        some
    }

    /// Stack of connection `id`.
    pub(super) fn stack_of(&self, id: u64) -> usize {
        (id >> 32) as usize % self.watches.len()
    }

    /// Epoll set of the connections of stack `number`.
    pub(super) fn watch(&self, number: u16) -> &Arc<OwnedFd> {
        &self.watches[usize::from(number)]
    }

    /// Options that the connection of the last [`offer`](Self::offer) or [`opening`](Self::opening)
    /// has from its listener or from the socket that connects. They apply before its first byte.
    pub fn take_inherited(&mut self) -> Vec<TcpSockopt> {
        std::mem::take(&mut self.inherited)
    }

    /// Shared-memory send buffers.
    pub(super) fn outboxes(&self) -> &Arc<ShmSendBuffers> {
        &self.shared.outboxes
    }

    /// Addresses and routes of the stack.
    pub(super) fn routes(&self) -> &Routes {
        &self.routes
    }

    fn on_event(&mut self, id: u64, flags: epoll::EventFlags, into: &mut Vec<SocketEvent>) {
        if id & (LISTENER | MAILBOX) == MAILBOX {
            return match id & kernel_socket::kernel_udp::HALF {
                0 => self.on_mailbox(id, flags, into),
                bit => self.deliver_half(id & !bit, flags),
            };
        }
        if id & LISTENER == 0 {
            return on_pipe(id, flags, into);
        }
        if id & HALF != 0 {
            return self.accept_half(id & !HALF);
        }
        self.on_listener(id, flags, into);
    }

    fn take_requests(&mut self, into: &mut Vec<SocketEvent>) {
        let mut bytes = [0; REQUEST_BYTES_MAX];
        for _ in 0..EVENTS {
            let Ok(message) = scm_rights::receive_now(&self.control, &mut bytes) else { return };
            let request = Request::decode(&bytes[..message.len], &self.key);
            let (Some(request), Some(reply)) = (request, message.fd) else {
                self.refuse(RefusalKind::Malformed);
                continue;
            };
            self.serve(request, reply, into);
        }
    }

    fn serve(&mut self, request: Request, reply: OwnedFd, into: &mut Vec<SocketEvent>) {
        let answer = match request {
            Request::Bind { addr, six, v6_only, reuse_port } => {
                let change = |listener: &mut Listener| {
                    (listener.six, listener.v6_only, listener.reuse_port) = (six, v6_only, reuse_port);
                };
                self.notice_leavers(addr.port(), into);
                return self.bind(addr, reply, change);
            }
            Request::Listen { id, backlog } => self.listen(id, backlog, into),
            Request::Rules { id } => return self.take_rules(id, &reply),
            Request::Datagrams { addr, six, v6_only, reuse, options, to, connects } => {
                let wanted = Wanted { addr, six, v6_only, reuse, options, to, connects };
                return self.bind_mailbox(wanted, reply, into);
            }
            Request::Aim { id, to } => self.aim(id, to),
            Request::Ends { id } => return self.tell_ends(id, &reply),
            Request::Connect { to, six, waits, from, send_buffer, low_water, hops } => {
                // Set before data can arrive.
                let settings = if low_water == 1 { vec![] } else { vec![TcpSockopt::LowWater(low_water)] };
                let asker = PendingConnect { reply, six, waits, send_buffer, hops, settings };
                return self.connect(to, from, asker, into);
            }
            Request::Cookie { cookie, bound } => self.on_cookie(cookie, bound),
            Request::Opening { id } => self.stands(id),
            Request::Error { id, by } => self.error(id, by),
            Request::Late { id, len, peek } => {
                let mut bytes = [0; LATE_BYTES_MAX];
                let wanted = LATE_BYTES_MAX.min(len as usize);
                let len = self.shared.late.read(id, &mut bytes[..wanted], peek);
                return tell(&reply, &bytes[..len]);
            }
            Request::Option { id, level, name, value } if id & (LISTENER | MAILBOX) == MAILBOX => {
                self.set_mailbox(id, (level, name), value[0])
            }
            Request::Option { id, level: libc::IPPROTO_TCP, name: libc::TCP_FASTOPEN, value } => {
                self.set_fast_open(id, value[0], into)
            }
            Request::Option { id, level, name, value } => match TcpSockopt::of(level, name, value) {
                Some(setting) => {
                    match id & LISTENER {
                        0 => into.push(SocketEvent::Set { id, setting }),
                        _ => self.set_listener(id, setting, into),
                    }
                    Answer::Done
                }
                None => {
                    self.refuse(RefusalKind::SetOption { level, name });
                    refused(Errno::NOPROTOOPT)
                }
            },
            Request::GetOption { id, level, name } => {
                return self.take_question(id, (level, name), reply, into);
            }
            Request::Private { id, bytes } => {
                if id & LISTENER == 0 {
                    into.push(SocketEvent::Set { id, setting: TcpSockopt::Private(bytes) });
                }
                Answer::Done
            }
            Request::Interface => return tell(&reply, &StackInterface::of(&self.routes).encode()),
            Request::Labels => return give(&reply, b"labels", self.shared.label_table.file()),
            Request::Outboxes => return give(&reply, b"outboxes", self.outboxes.as_fd()),
        };
        say(&reply, answer);
    }

    fn name(
        &self,
        kind: SocketKind,
        id: u64,
        six: bool,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> rustix::io::Result<SocketAddrUnix> {
        let name = Name { run: self.run, kind, six, id, local, remote };
        SocketAddrUnix::new_abstract_name(&name.encode())
    }

    /// Removes `file` from the epoll set before it is closed.
    fn unwatch(&self, file: &OwnedFd) {
        // The kernel socket of a bound socket that does not listen is not in the set.
        let _ = epoll::delete(&self.watches[0], file);
    }

    fn refuse(&mut self, refusal: RefusalKind) {
        let known = self.refused.len() < REFUSALS_MAX || self.refused.contains_key(&refusal);
        if known {
            *self.refused.entry(refusal).or_default() += 1;
        }
    }
}

/// Calls `tell` for each ready file in `epoll`, at most a batch; true if there are any.
pub(super) fn ready(epoll: &OwnedFd, mut tell: impl FnMut(u64, epoll::EventFlags)) -> bool {
    let mut space = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    let Ok((events, _)) = epoll::wait(epoll, &mut space, Some(&zero)) else { return false };
    events.iter().for_each(|event| tell(event.data.u64(), event.flags));
    !events.is_empty()
}

/// Events of connection `id` for `flags`.
pub(super) fn on_pipe(id: u64, flags: epoll::EventFlags, into: &mut Vec<SocketEvent>) {
    use epoll::EventFlags as F;
    let gone = flags.intersects(F::HUP | F::ERR);
    if flags.contains(F::RDHUP) && !gone {
        into.push(SocketEvent::Shut(id));
    }
    let (readable, writable) = (gone || flags.intersects(F::IN | F::RDHUP), flags.contains(F::OUT));
    into.push(SocketEvent::Pipe { id, readable, writable, gone });
}

#[cfg(test)]
mod tests;
