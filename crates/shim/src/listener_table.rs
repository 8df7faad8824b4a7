//! Table of listeners.
//!
//! An address belongs to one socket, or to several with SO_REUSEPORT. These share connections
//! evenly; with several stacks, each stack has its own listeners if there are enough, so a worker
//! with its own listener serves one stack, which may share its core. The most specific address
//! matches first. Connections not yet accepted are queued in the kernel, as messages of the
//! listener's pair; then here, up to the backlog. Source: socket(7).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use super::bind_addr::BindAddr;
use super::ephemeral_ports::{self, EPHEMERAL, UsedPorts};
use super::scm_rights;
use super::socket_name::LEN;
use super::tcp_sockopt::TcpSockopt;

/// A socket that is bound, and may listen.
#[derive(Debug)]
pub(super) struct Listener {
    pub id: u64,
    pub addr: SocketAddr,
    /// IPv6 socket.
    pub six: bool,
    /// IPv6 only.
    pub v6_only: bool,
    pub reuse_port: bool,
    /// Maximum length of the queue here; 0: it does not listen yet.
    pub backlog: usize,
    /// Maximum number of connections with data in their SYN, as
    /// [`ListenOptions::fast_open`](net::stack::ListenOptions::fast_open).
    pub fast_open: usize,
    /// The server's end of the pair.
    pub end: OwnedFd,
    /// The kernel socket on the same port, if the listener is bound to all addresses.
    pub half: Option<OwnedFd>,
    /// Accept queue beyond the pair's capacity.
    waiting: VecDeque<([u8; LEN], OwnedFd)>,
    /// Number of connections assigned to the listener.
    given: u64,
    /// Options that the listener's connections inherit.
    settings: Vec<TcpSockopt>,
}

/// Maximum backlog.
pub(super) const BACKLOG_MAX: usize = 4096;

impl Listener {
    pub fn new(id: u64, addr: SocketAddr, end: OwnedFd) -> Self {
        Self {
            id,
            addr,
            six: addr.is_ipv6(),
            v6_only: false,
            reuse_port: false,
            backlog: 0,
            fast_open: 0,
            end,
            half: None,
            waiting: VecDeque::new(),
            given: 0,
            settings: Vec::new(),
        }
    }

    /// Sets an option for future connections.
    pub fn set(&mut self, setting: TcpSockopt) {
        let kind = std::mem::discriminant(&setting);
        self.settings.retain(|before| std::mem::discriminant(before) != kind);
        self.settings.push(setting);
    }

    /// Options of its connections, in the order in which they were set.
    pub fn settings(&self) -> &[TcpSockopt] {
        &self.settings
    }

    /// Starts listening.
    pub fn listen(&mut self, backlog: u32) {
        self.backlog = (backlog as usize).clamp(1, BACKLOG_MAX);
    }

    /// True if both cannot be bound at once.
    fn conflicts_with(&self, other: &Self) -> bool {
        self.bound().overlaps(&other.bound()) && !(self.reuse_port && other.reuse_port)
    }

    pub(super) fn bound(&self) -> BindAddr {
        BindAddr { addr: self.addr, v6_only: self.v6_only }
    }

    /// Queues a connection; returns it if the queue is full or the program has shut the listener
    /// down.
    pub fn hand_over(&mut self, name: [u8; LEN], program_end: OwnedFd) -> Result<(), OwnedFd> {
        self.given += 1;
        if self.waiting.is_empty() {
            match scm_rights::hand(&self.end, &name, program_end.as_fd()) {
                Ok(()) => return Ok(()),
                Err(e) if is_shut(&e) => return Err(program_end),
                Err(_) => {}
            }
        }
        if !self.has_room() {
            return Err(program_end);
        }
        self.waiting.push_back((name, program_end));
        Ok(())
    }

    #[cfg(test)]
    pub fn waits(&self) -> usize {
        self.waiting.len()
    }

    /// True if one more connection may be queued.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.backlog
    }

    /// True if connections wait for space in the pair.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Moves queued connections to the pair, which may have space again.
    pub fn refill(&mut self) {
        while let Some((name, program_end)) = self.waiting.front() {
            match scm_rights::hand(&self.end, name, program_end.as_fd()) {
                Ok(()) => {
                    self.waiting.pop_front();
                }
                // As the kernel does when a listener is shut down.
                Err(e) if is_shut(&e) => self.waiting.clear(),
                Err(_) => return,
            }
        }
    }
}

/// True if the program has shut down its end for good.
fn is_shut(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::BrokenPipe
}

/// Stack by which a connection arrived, and the number of stacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub number: usize,
    pub of: usize,
}

impl Stack {
    /// No particular stack.
    pub const ANY: Self = Self { number: 0, of: 1 };
}

/// All bound sockets, bounded by programs' descriptors.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<Listener>);

impl Listeners {
    /// Adds a listener; returns it if its address is in use.
    pub fn add(&mut self, listener: Listener) -> Result<(), Box<Listener>> {
        if self.0.iter().any(|other| other.conflicts_with(&listener)) {
            return Err(Box::new(listener));
        }
        self.0.push(listener);
        Ok(())
    }

    /// A free port, if possible none of `used`; `turn` counts the calls.
    pub fn free_port(&self, used: &UsedPorts, secret: &[u8], turn: u64) -> Option<u16> {
        let is_taken = |port| self.0.iter().any(|listener| listener.addr.port() == port);
        ephemeral_ports::free(EPHEMERAL, secret, turn, |port| used.has(port) || is_taken(port))
            .or_else(|| ephemeral_ports::free(EPHEMERAL, secret, turn, is_taken))
    }

    /// Sockets bound to this port.
    pub fn at(&self, port: u16) -> impl Iterator<Item = &Listener> {
        self.0.iter().filter(move |listener| listener.addr.port() == port)
    }

    pub fn get(&self, id: u64) -> Option<&Listener> {
        self.0.iter().find(|listener| listener.id == id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Listener> {
        self.0.iter_mut().find(|listener| listener.id == id)
    }

    /// Removes a listener; true if no other listens on its port.
    pub fn remove(&mut self, id: u64) -> Option<(Listener, bool)> {
        let at = self.0.iter().position(|listener| listener.id == id)?;
        let gone = self.0.remove(at);
        let last = !self.0.iter().any(|other| other.backlog > 0 && other.addr.port() == gone.addr.port());
        Some((gone, last))
    }

    /// Listener for a connection to `local`: the most specific address; of equals, those of
    /// `stack`; of these, the one with the fewest connections so far.
    pub fn taker(&mut self, local: SocketAddr, stack: Stack) -> Option<&mut Listener> {
        let hears = |listener: &&mut Listener| {
            listener.backlog > 0 && listener.addr.port() == local.port() && listener.bound().hears(local.ip())
        };
        let distance = |listener: &Listener| listener.bound().distance(local.ip());
        let nearest = self.0.iter_mut().filter(hears).map(|listener| distance(listener)).min()?;
        let equal = |listener: &&mut Listener| hears(listener) && distance(listener) == nearest;
        // Each stack has at least one listener, and each listener a stack.
        let shares = self.0.iter_mut().filter(equal).count().min(stack.of);
        let candidates = self.0.iter_mut().filter(equal).enumerate();
        let candidates = candidates.filter(|(index, _)| index % shares == stack.number % shares);
        candidates.map(|(_, listener)| listener).min_by_key(|listener| listener.given)
    }
}

//~ run: a connection goes to the exact listener first; SO_REUSEPORT takes turns; IPV6_V6ONLY and backlog hold
#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

    use super::*;

    fn listener(id: u64, addr: &str, change: impl FnOnce(&mut Listener)) -> (Listener, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (end, program_end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut listener = Listener::new(id, addr.parse().unwrap(), end);
        change(&mut listener);
        (listener, program_end)
    }

    /// An address, and a change to its listener.
    type Wanted = (&'static str, fn(&mut Listener));

    /// Adds listeners; asserts which are accepted.
    fn check(addresses: &[Wanted], expected: &[bool]) -> Listeners {
        let mut all = Listeners::default();
        let taken: Vec<bool> = (0..)
            .zip(addresses)
            .map(|(id, (addr, change))| {
                let (mut listener, _) = listener(id, addr, change);
                listener.listen(8);
                all.add(listener).is_ok()
            })
            .collect();
        assert_eq!(taken, expected, "{:?}", addresses.iter().map(|(addr, _)| addr).collect::<Vec<_>>());
        all
    }

    fn taker(all: &mut Listeners, local: &str) -> Option<u64> {
        all.taker(local.parse().unwrap(), Stack::ANY).map(|listener| listener.id)
    }

    #[test]
    fn an_address_has_one_listener_or_several_that_share() {
        check(
            &[("10.0.0.1:80", |_| ()), ("10.0.0.1:80", |_| ()), ("10.0.0.1:81", |_| ())],
            &[true, false, true],
        );
        check(&[("0.0.0.0:80", |_| ()), ("10.0.0.1:80", |_| ())], &[true, false]);
        check(&[("10.0.0.1:80", |_| ()), ("[::]:80", |_| ())], &[true, false]);
        check(&[("0.0.0.0:80", |_| ()), ("[::]:80", |l| l.v6_only = true)], &[true, true]);
        check(&[("0.0.0.0:80", |_| ()), ("[::]:80", |_| ())], &[true, false]);
        let share: fn(&mut Listener) = |l| l.reuse_port = true;
        check(&[("0.0.0.0:80", share), ("0.0.0.0:80", share), ("0.0.0.0:80", |_| ())], &[true, true, false]);
    }

    #[test]
    fn the_most_exact_address_gets_the_connection_and_sharing_listeners_take_turns() {
        let share: fn(&mut Listener) = |l| l.reuse_port = true;
        let exact = [("[::]:80", share), ("10.0.0.1:80", share), ("0.0.0.0:80", share)];
        let mut all = check(&exact, &[true, true, true]);
        assert_eq!(taker(&mut all, "10.0.0.1:80"), Some(1));
        assert_eq!(taker(&mut all, "10.0.0.2:80"), Some(2));
        assert_eq!(taker(&mut all, "[fd00::1]:80"), Some(0));
        assert_eq!(taker(&mut all, "10.0.0.1:81"), None);
        let mut all = check(&[("0.0.0.0:80", share), ("0.0.0.0:80", share)], &[true, true]);
        assert_eq!(turns(&mut all, &[Stack::ANY; 4]), [0, 1, 0, 1]);
    }

    /// Listeners of successive connections from these stacks.
    fn turns(all: &mut Listeners, stacks: &[Stack]) -> Vec<u64> {
        let turn = |&stack: &Stack| {
            let listener = all.taker("10.0.0.1:80".parse().unwrap(), stack).unwrap();
            listener.given += 1;
            listener.id
        };
        stacks.iter().map(turn).collect()
    }

    //~ run: listeners with SO_REUSEPORT are divided among the stacks
    #[test]
    fn each_of_several_stacks_has_listeners_for_itself() {
        let check = |listeners: usize, stacks: &[usize], of: usize, expected: &[u64]| {
            let share: fn(&mut Listener) = |l| l.reuse_port = true;
            let mut all = check(&vec![("0.0.0.0:80", share); listeners], &vec![true; listeners]);
            let stacks: Vec<_> = stacks.iter().map(|&number| Stack { number, of }).collect();
            assert_eq!(turns(&mut all, &stacks), expected, "{listeners} listeners, {of} stacks");
        };
        check(2, &[0, 0, 1, 0, 1], 2, &[0, 0, 1, 0, 1]);
        check(4, &[0, 0, 1, 1, 0], 2, &[0, 2, 1, 3, 0]);
        check(2, &[0, 1, 2, 3, 2], 4, &[0, 1, 0, 1, 0]);
        check(1, &[0, 1, 2], 3, &[0, 0, 0]);
    }

    #[test]
    fn what_a_program_does_not_accept_waits_up_to_its_backlog() {
        let (mut listener, program_end) = listener(1, "10.0.0.1:80", |_| ());
        listener.listen(3);
        let connection = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        // A bound far above the kernel's limit for one socket pair.
        let given =
            (0..100_000).take_while(|_| listener.hand_over([b'x'; LEN], connection()).is_ok()).count();
        assert!(given < 100_000 && listener.is_full());
        let mut bytes = [0; LEN];
        let mut accepted = 0;
        while let Ok(message) = scm_rights::receive(&program_end, &mut bytes, true) {
            assert!(message.fd.is_some());
            accepted += 1;
            listener.refill();
        }
        assert_eq!(accepted, given, "each is accepted once");
        assert!(!listener.is_full());
    }

    #[test]
    fn nothing_waits_for_a_program_that_has_shut_its_listener_down() {
        let (mut listener, program_end) = listener(1, "10.0.0.1:80", |_| ());
        listener.listen(3);
        let connection = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        while !listener.is_full() {
            listener.hand_over([b'x'; LEN], connection()).expect("the queue has space for three");
        }
        shutdown(&program_end, Shutdown::Read).unwrap();
        listener.refill();
        assert_eq!(listener.waits(), 0);
        assert!(listener.hand_over([b'x'; LEN], connection()).is_err());
        assert!(!listener.is_full(), "the queue was cleared");
    }
}
