//! Who listens where.
//!
//! An address is had by one socket at a time, or by several that all say
//! SO_REUSEPORT: those take connections in turn, and where there are several
//! stacks each of them has some for itself, as far as there are enough. So a
//! worker with a listener of its own hears of one stack, which may share its
//! core. The more exact address goes first. What a program has not accepted yet waits in the kernel, as messages
//! of the listener's pair; beyond that here, so many as its backlog says.
//! Source: socket(7).

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use super::bind_addr::BindAddr;
use super::ephemeral_ports::{self, EPHEMERAL};
use super::scm_rights;
use super::socket_name::LEN;
use super::tcp_sockopt::TcpSockopt;

/// A socket that is bound, and perhaps listens.
#[derive(Debug)]
pub(super) struct Listener {
    pub id: u64,
    pub addr: SocketAddr,
    /// The program's socket speaks IPv6,
    pub six: bool,
    /// and nothing else.
    pub v6_only: bool,
    pub reuse_port: bool,
    /// Connections that may wait here; 0: it does not listen yet.
    pub backlog: usize,
    /// Connections that may have brought data with their SYN, as [`ListenOptions::fast_open`](net::stack::ListenOptions::fast_open).
    pub fast_open: usize,
    /// Our end of the pair.
    pub end: OwnedFd,
    /// The kernel's socket at its port, where it is bound to all addresses.
    pub half: Option<OwnedFd>,
    /// Connections for which the pair had no room.
    waiting: VecDeque<([u8; LEN], OwnedFd)>,
    /// Connections it was given.
    given: u64,
    /// What was set on it, for its connections to have, too.
    settings: Vec<TcpSockopt>,
}

/// Connections that wait for one listener here, at the most.
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

    /// Its connections are to have `setting` from now on.
    pub fn set(&mut self, setting: TcpSockopt) {
        let kind = std::mem::discriminant(&setting);
        self.settings.retain(|before| std::mem::discriminant(before) != kind);
        self.settings.push(setting);
    }

    /// What its connections are to have, in the order in which it was set.
    pub fn settings(&self) -> &[TcpSockopt] {
        &self.settings
    }

    /// It takes connections from now on.
    pub fn listen(&mut self, backlog: u32) {
        self.backlog = (backlog as usize).clamp(1, BACKLOG_MAX);
    }

    /// Whether the two may not have their addresses at once.
    fn quarrels_with(&self, other: &Self) -> bool {
        self.bound().overlaps(&other.bound()) && !(self.reuse_port && other.reuse_port)
    }

    fn bound(&self) -> BindAddr {
        BindAddr { addr: self.addr, v6_only: self.v6_only }
    }

    /// Hands a connection over; gives it back when too many wait, or the program takes none any more.
    pub fn hand_over(&mut self, name: [u8; LEN], theirs: OwnedFd) -> Result<(), OwnedFd> {
        self.given += 1;
        if self.waiting.is_empty() {
            match scm_rights::hand(&self.end, &name, theirs.as_fd()) {
                Ok(()) => return Ok(()),
                Err(e) if is_shut(&e) => return Err(theirs),
                Err(_) => {}
            }
        }
        if !self.has_room() {
            return Err(theirs);
        }
        self.waiting.push_back((name, theirs));
        Ok(())
    }

    #[cfg(test)]
    pub fn waits(&self) -> usize {
        self.waiting.len()
    }

    /// Whether one more may wait.
    pub fn has_room(&self) -> bool {
        self.waiting.len() < self.backlog
    }

    /// Whether connections wait for room.
    pub fn is_full(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The pair may have room again.
    pub fn refill(&mut self) {
        while let Some((name, theirs)) = self.waiting.front() {
            match scm_rights::hand(&self.end, name, theirs.as_fd()) {
                Ok(()) => {
                    self.waiting.pop_front();
                }
                // As the kernel's listener that is shut down.
                Err(e) if is_shut(&e) => self.waiting.clear(),
                Err(_) => return,
            }
        }
    }
}

/// Whether the program has shut its end down, and never takes anything from it again.
fn is_shut(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::BrokenPipe
}

/// By which of how many stacks a connection came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stack {
    pub number: usize,
    pub of: usize,
}

impl Stack {
    /// It came by none in particular.
    pub const ANY: Self = Self { number: 0, of: 1 };
}

/// All that are bound. As many as programs have descriptors.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<Listener>);

impl Listeners {
    /// Takes one in; gives it back when its address is had by another.
    pub fn add(&mut self, listener: Listener) -> Result<(), Box<Listener>> {
        if self.0.iter().any(|other| other.quarrels_with(&listener)) {
            return Err(Box::new(listener));
        }
        self.0.push(listener);
        Ok(())
    }

    /// A port that nobody has; `turn` counts the calls.
    pub fn free_port(&self, secret: &[u8], turn: u64) -> Option<u16> {
        let is_taken = |port| self.0.iter().any(|listener| listener.addr.port() == port);
        ephemeral_ports::free(EPHEMERAL, secret, turn, is_taken)
    }

    /// Those at this port.
    pub fn at(&self, port: u16) -> impl Iterator<Item = &Listener> {
        self.0.iter().filter(move |listener| listener.addr.port() == port)
    }

    pub fn get(&self, id: u64) -> Option<&Listener> {
        self.0.iter().find(|listener| listener.id == id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut Listener> {
        self.0.iter_mut().find(|listener| listener.id == id)
    }

    /// Removes it; whether nobody listens on its port any more.
    pub fn remove(&mut self, id: u64) -> Option<(Listener, bool)> {
        let at = self.0.iter().position(|listener| listener.id == id)?;
        let gone = self.0.remove(at);
        let last = !self.0.iter().any(|other| other.backlog > 0 && other.addr.port() == gone.addr.port());
        Some((gone, last))
    }

    /// Whose a connection to `local` is: the most exact address, of equals
    /// those that are `stack`'s, and of these the one that was given the fewest.
    pub fn taker(&mut self, local: SocketAddr, stack: Stack) -> Option<&mut Listener> {
        let hears = |listener: &&mut Listener| {
            listener.backlog > 0 && listener.addr.port() == local.port() && listener.bound().hears(local.ip())
        };
        let distance = |listener: &Listener| listener.bound().distance(local.ip());
        let nearest = self.0.iter_mut().filter(hears).map(|listener| distance(listener)).min()?;
        let equal = |listener: &&mut Listener| hears(listener) && distance(listener) == nearest;
        // Each stack has one at least, and each of them a stack.
        let shares = self.0.iter_mut().filter(equal).count().min(stack.of);
        let theirs = self.0.iter_mut().filter(equal).enumerate();
        let theirs = theirs.filter(|(place, _)| place % shares == stack.number % shares);
        theirs.map(|(_, listener)| listener).min_by_key(|listener| listener.given)
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

    use super::*;

    fn listener(id: u64, addr: &str, change: impl FnOnce(&mut Listener)) -> (Listener, OwnedFd) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (end, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let mut listener = Listener::new(id, addr.parse().unwrap(), end);
        change(&mut listener);
        (listener, theirs)
    }

    /// An address, and what is done to its listener.
    type Wanted = (&'static str, fn(&mut Listener));

    /// Adds these; whether each was taken.
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
    fn an_address_is_had_by_one_or_by_those_who_share() {
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
    fn the_most_exact_address_takes_the_connection_and_those_who_share_take_turns() {
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

    /// Who takes the connections that come by these stacks, one after the other.
    fn turns(all: &mut Listeners, stacks: &[Stack]) -> Vec<u64> {
        let turn = |&stack: &Stack| {
            let listener = all.taker("10.0.0.1:80".parse().unwrap(), stack).unwrap();
            listener.given += 1;
            listener.id
        };
        stacks.iter().map(turn).collect()
    }

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
        let (mut listener, theirs) = listener(1, "10.0.0.1:80", |_| ());
        listener.listen(3);
        let connection = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        // A bound far above what the kernel keeps for one socket pair.
        let given =
            (0..100_000).take_while(|_| listener.hand_over([b'x'; LEN], connection()).is_ok()).count();
        assert!(given < 100_000 && listener.is_full());
        let mut bytes = [0; LEN];
        let mut accepted = 0;
        while let Ok(message) = scm_rights::receive(&theirs, &mut bytes, true) {
            assert!(message.fd.is_some());
            accepted += 1;
            listener.refill();
        }
        assert_eq!(accepted, given, "each is accepted once");
        assert!(!listener.is_full());
    }

    #[test]
    fn nothing_waits_for_a_program_that_has_shut_its_listener_down() {
        let (mut listener, theirs) = listener(1, "10.0.0.1:80", |_| ());
        listener.listen(3);
        let connection = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        while !listener.is_full() {
            listener.hand_over([b'x'; LEN], connection()).expect("there is room for three more");
        }
        shutdown(&theirs, Shutdown::Read).unwrap();
        listener.refill();
        assert_eq!(listener.waits(), 0);
        assert!(listener.hand_over([b'x'; LEN], connection()).is_err());
        assert!(!listener.is_full(), "there is no room to wait for");
    }
}
