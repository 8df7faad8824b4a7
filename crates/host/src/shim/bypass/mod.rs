//! Sockets that a program's processes have in the kernel, where they should be
//! the stack's.
//!
//! A process that lost the library (`env -i`, a static or setuid program), or
//! that makes system calls past it (Go's, io_uring), is on the kernel's TCP and
//! notices nothing. [`Watcher`] finds such sockets, about once a second;
//! [`Detector`] decides which they are, from a snapshot of processes and sockets.
//! A socket that the library leaves to the kernel (loopback, addresses where the
//! device does not lead) is none of them.
//!
//! Not found: a socket that is gone before the next look, and sockets in other
//! network namespaces than the stack's.
//! Source: sock_diag(7), proc_pid_fd(5), proc_pid_maps(5).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

use super::Routes;

mod message;
mod processes;
mod sockets;
#[cfg(test)]
mod tests;
mod watcher;

pub use message::Event;
pub use watcher::Watcher;

/// A process of the program's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// As `ps` shows it.
    pub name: String,
    /// Why the library is not loaded into it; none where it is.
    pub without: Option<String>,
    /// It has a ring of io_uring.
    pub uses_io_uring: bool,
    /// The numbers of its sockets, where they were looked for.
    pub sockets: BTreeSet<u32>,
}

/// A socket of the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// It takes connections.
    pub listens: bool,
    /// Its address.
    pub local: SocketAddr,
    /// Its peer's; none where it has no peer.
    pub remote: Option<SocketAddr>,
    /// Its number in `/proc/PID/fd`.
    pub inode: u32,
    /// Identity among all sockets since boot.
    pub cookie: u64,
}

/// TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Bound to all addresses or to one of the stack's, for what comes.
    Listens,
    /// Connected to an address where the device leads.
    Connects,
}

/// A socket that should be the stack's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A process that has it.
    pub process: u32,
    /// The process's name.
    pub name: String,
    /// The socket's protocol.
    pub protocol: Protocol,
    /// Use.
    pub used: Use,
    /// The address that it is bound to, or connected to.
    pub addr: SocketAddr,
    /// Why the library did not take it.
    pub why: String,
}

/// Why a program's socket is the kernel's although the library is loaded into its process.
const BY_IO_URING: &str = "by io_uring, which libgreenwave.so does not see";
const BY_CALLS: &str = "past libgreenwave.so (system calls of its own, MPTCP), or given to it";

/// Looks after which a verdict is final for a socket that no process has, or only processes
/// with the library: at the first one it may be on its way from a process to another.
const LOOKS: u8 = 2;

/// Decides which sockets should be the stack's; told of each once.
#[derive(Debug)]
pub struct Detector {
    place: Routes,
    /// Ports that the kernel chooses.
    chosen: RangeInclusive<u16>,
    /// Candidates that are there.
    known: BTreeMap<u64, Known>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    looks: u8,
    is_done: bool,
}

impl Detector {
    /// For a stack at `place`; `chosen` are the ports that the kernel chooses
    /// where a program names none.
    #[must_use]
    pub fn new(place: Routes, chosen: RangeInclusive<u16>) -> Self {
        Self { place, chosen, known: BTreeMap::new() }
    }

    /// True if sockets other than listeners matter: the library decides about the
    /// connections of a process that has it.
    #[must_use]
    pub fn wants_all(processes: &[Process]) -> bool {
        processes.iter().any(|process| process.without.is_some() || process.uses_io_uring)
    }

    /// True if it has to be known which process has which of `sockets`. Forgets those that are gone.
    #[must_use]
    pub fn wants_owners(&mut self, sockets: &[Socket]) -> bool {
        let candidates: BTreeSet<u64> = self.candidates(sockets).map(|(socket, _)| socket.cookie).collect();
        self.known.retain(|cookie, _| candidates.contains(cookie));
        candidates.iter().any(|cookie| self.known.get(cookie).is_none_or(|known| !known.is_done))
    }

    /// The sockets that should be the stack's and were not told of; `processes`
    /// have their sockets.
    #[must_use]
    pub fn judge(&mut self, sockets: &[Socket], processes: &[Process]) -> Vec<Finding> {
        let candidates: Vec<_> = self.candidates(sockets).collect();
        let mut findings = Vec::new();
        for (socket, used) in candidates {
            let mut known = self.known.get(&socket.cookie).copied().unwrap_or_default();
            if known.is_done {
                continue;
            }
            known.looks += 1;
            known.is_done = known.looks >= LOOKS;
            let owners: Vec<_> =
                processes.iter().filter(|process| process.sockets.contains(&socket.inode)).collect();
            if let Some((process, why)) = self.fault(&socket, used, &owners, known.is_done) {
                known.is_done = true;
                let addr = socket.remote.unwrap_or(socket.local);
                let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
                let (id, name) = (process.id, process.name.clone());
                let (protocol, why) = (socket.protocol, why.to_owned());
                findings.push(Finding { process: id, name, protocol, used, addr, why });
            }
            self.known.insert(socket.cookie, known);
        }
        findings
    }

    /// The process because of which a candidate is not the stack's, and the reason.
    /// `is_last`: the candidate was there at the look before, and is not judged again.
    fn fault<'a>(
        &self,
        socket: &Socket,
        used: Use,
        owners: &[&'a Process],
        is_last: bool,
    ) -> Option<(&'a Process, &'a str)> {
        let without = |process: &&'a Process| Some((*process, process.without.as_deref()?));
        if used == Use::Listens && socket.protocol == Protocol::Tcp {
            if let Some(found) = owners.iter().find_map(without) {
                return Some(found);
            }
            // What the library leaves to the kernel when no port is named.
            let is_left = socket.local.ip().to_canonical().is_unspecified()
                && self.chosen.contains(&socket.local.port());
            let first = owners.first().filter(|_| is_last && !is_left)?;
            let by_ring = owners.iter().find(|process| process.uses_io_uring);
            return Some(by_ring.map_or((*first, BY_CALLS), |process| (*process, BY_IO_URING)));
        }
        // A process that has the library may have made it, and knows why.
        if owners.iter().any(|process| process.without.is_none() && !process.uses_io_uring) {
            return None;
        }
        let by_ring = || owners.iter().find(|process| process.uses_io_uring && used == Use::Connects);
        owners.iter().find_map(without).or_else(|| Some((*by_ring()?, BY_IO_URING)))
    }

    fn candidates(&self, sockets: &[Socket]) -> impl Iterator<Item = (Socket, Use)> {
        let listening: BTreeSet<u16> =
            sockets.iter().filter(|socket| socket.listens).map(|socket| socket.local.port()).collect();
        // One question for each peer: the answer is read from /proc.
        let mut leads = BTreeMap::<IpAddr, bool>::new();
        sockets
            .iter()
            .filter(|socket| socket.inode != 0)
            .filter_map(move |socket| {
                let local = SocketAddr::new(socket.local.ip().to_canonical(), socket.local.port());
                let is_for = || self.place.is_for(local);
                let used = match (socket.protocol, socket.remote.map(|remote| remote.ip().to_canonical())) {
                    // A kernel's client of the stack is meant to be one.
                    (_, Some(remote)) if self.place.has(remote) => false,
                    // It was accepted: its listener is what there is to be said of.
                    (Protocol::Tcp, Some(_)) if listening.contains(&local.port()) => false,
                    (_, Some(remote)) => *leads.entry(remote).or_insert_with(|| self.place.leads_to(remote)),
                    (Protocol::Tcp, None) => socket.listens && is_for(),
                    // Without a port of its own it is a client; its peers are unknown.
                    (Protocol::Udp, None) => {
                        is_for() && !(local.ip().is_unspecified() && self.chosen.contains(&local.port()))
                    }
                };
                used.then_some((*socket, if socket.remote.is_some() { Use::Connects } else { Use::Listens }))
            })
            .collect::<Vec<_>>()
            .into_iter()
    }
}

impl Protocol {
    /// As metrics and messages call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl Use {
    /// As metrics call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Listens => "listen",
            Self::Connects => "connect",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process, name, addr, why, .. } = self;
        let does = match self.used {
            Use::Listens => "listens on",
            Use::Connects => "is connected to",
        };
        let protocol = self.protocol.name().to_uppercase();
        write!(f, "{name} (process {process}) {does} {addr} by the kernel's {protocol}: {why}")
    }
}
