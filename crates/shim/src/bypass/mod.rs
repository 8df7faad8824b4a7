//! Detection of a program's kernel sockets that should be on the stack.
//!
//! A process without the library (`env -i`, a static or setuid program), or one that makes direct
//! system calls (Go, io_uring), silently uses the kernel's TCP. [`Watcher`] looks for such sockets
//! up to ten times a second, for 1 % of the time at most; [`Detector`] selects them from a snapshot
//! of processes and sockets. Sockets that the library leaves to the kernel (loopback, destinations
//! that the stack does not route) are not reported.
//!
//! Not detected: sockets closed before the next snapshot, and sockets in other network namespaces.
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

pub use message::WatcherEvent;
pub use watcher::Watcher;

/// A process of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Process ID.
    pub id: u32,
    /// Process name, as `ps` shows it.
    pub name: String,
    /// Reason why the library is not loaded; none if it is.
    pub without: Option<String>,
    /// The process uses io_uring.
    pub uses_io_uring: bool,
    /// Inodes of its sockets, if they were read.
    pub sockets: BTreeSet<u32>,
}

/// A kernel socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket {
    /// TCP or UDP.
    pub protocol: SocketProtocol,
    /// The socket listens.
    pub listens: bool,
    /// Local address.
    pub local: SocketAddr,
    /// Peer's address, if it has a peer.
    pub remote: Option<SocketAddr>,
    /// Inode number, as in `/proc/PID/fd`.
    pub inode: u32,
    /// Identity among all sockets since boot.
    pub cookie: u64,
}

/// TCP or UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SocketProtocol {
    /// Streams.
    Tcp,
    /// Datagrams.
    Udp,
}

/// Use of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// Bound to all addresses or to one of the stack's, to receive.
    Listens,
    /// Connected to a destination that the stack routes.
    Connects,
}

/// A kernel socket that should be on the stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BypassingSocket {
    /// ID of a process that has it.
    pub process: u32,
    /// Name of the process.
    pub name: String,
    /// The socket's protocol.
    pub protocol: SocketProtocol,
    /// Use of the socket.
    pub used: Use,
    /// Address to which the socket is bound or connected.
    pub addr: SocketAddr,
    /// Reason why the library did not take it.
    pub why: String,
}

/// Reasons for a socket of a process with the library.
const BY_IO_URING: &str = "by io_uring, which libgreenwave.so does not see";
const BY_CALLS: &str = "past libgreenwave.so (system calls of its own, MPTCP), or given to it";

/// Snapshots after which a verdict is final for a socket without a process, or only of processes
/// with the library: at the first one it may be in transit between processes.
const SNAPSHOTS_FINAL: u8 = 2;

/// Selects sockets that should be the stack's; reports each once.
#[derive(Debug)]
pub struct Detector {
    routes: Routes,
    /// Ephemeral ports of the kernel.
    chosen: RangeInclusive<u16>,
    /// Open candidates, by cookie.
    known: BTreeMap<u64, Known>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    snapshots: u8,
    is_done: bool,
}

impl Detector {
    /// Creates a detector for a stack with `routes`; `chosen` are the kernel's ephemeral ports.
    #[must_use]
    pub fn new(routes: Routes, chosen: RangeInclusive<u16>) -> Self {
        Self { routes, chosen, known: BTreeMap::new() }
    }

    /// True if sockets other than listeners are needed: in a process with the library, the library
    /// decides about connections.
    #[must_use]
    pub fn wants_all(processes: &[Process]) -> bool {
        processes.iter().any(|process| process.without.is_some() || process.uses_io_uring)
    }

    /// True if the owners of `sockets` are needed. Forgets closed sockets.
    #[must_use]
    pub fn wants_owners(&mut self, sockets: &[Socket]) -> bool {
        let candidates: BTreeSet<u64> = self.candidates(sockets).map(|(socket, _)| socket.cookie).collect();
        self.known.retain(|cookie, _| candidates.contains(cookie));
        candidates.iter().any(|cookie| self.known.get(cookie).is_none_or(|known| !known.is_done))
    }

    /// New sockets that should be the stack's; `processes` have their sockets.
    #[must_use]
    pub fn judge(&mut self, sockets: &[Socket], processes: &[Process]) -> Vec<BypassingSocket> {
        let candidates: Vec<_> = self.candidates(sockets).collect();
        let mut findings = Vec::new();
        for (socket, used) in candidates {
            let mut known = self.known.get(&socket.cookie).copied().unwrap_or_default();
            if known.is_done {
                continue;
            }
            known.snapshots += 1;
            known.is_done = known.snapshots >= SNAPSHOTS_FINAL;
            let owners: Vec<_> =
                processes.iter().filter(|process| process.sockets.contains(&socket.inode)).collect();
            if let Some((process, why)) = self.fault(&socket, used, &owners, known.is_done) {
                known.is_done = true;
                let addr = socket.remote.unwrap_or(socket.local);
                let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
                let (id, name) = (process.id, process.name.clone());
                let (protocol, why) = (socket.protocol, why.to_owned());
                findings.push(BypassingSocket { process: id, name, protocol, used, addr, why });
            }
            self.known.insert(socket.cookie, known);
        }
        findings
    }

    /// Process and reason why a candidate is not the stack's. `is_last`: the candidate was in the
    /// last snapshot, and is not judged again.
    fn fault<'a>(
        &self,
        socket: &Socket,
        used: Use,
        owners: &[&'a Process],
        is_last: bool,
    ) -> Option<(&'a Process, &'a str)> {
        let without = |process: &&'a Process| Some((*process, process.without.as_deref()?));
        if used == Use::Listens && socket.protocol == SocketProtocol::Tcp {
            if let Some(found) = owners.iter().find_map(without) {
                return Some(found);
            }
            // The library leaves sockets without a chosen port to the kernel.
            let is_left = socket.local.ip().to_canonical().is_unspecified()
                && self.chosen.contains(&socket.local.port());
            let first = owners.first().filter(|_| is_last && !is_left)?;
            let by_ring = owners.iter().find(|process| process.uses_io_uring);
            return Some(by_ring.map_or((*first, BY_CALLS), |process| (*process, BY_IO_URING)));
        }
        // A process with the library may have left it to the kernel.
        if owners.iter().any(|process| process.without.is_none() && !process.uses_io_uring) {
            return None;
        }
        let by_ring = || owners.iter().find(|process| process.uses_io_uring && used == Use::Connects);
        owners.iter().find_map(without).or_else(|| Some((*by_ring()?, BY_IO_URING)))
    }

    fn candidates(&self, sockets: &[Socket]) -> impl Iterator<Item = (Socket, Use)> {
        let listening: BTreeSet<u16> =
            sockets.iter().filter(|socket| socket.listens).map(|socket| socket.local.port()).collect();
        // One query per peer: the answer is read from /proc.
        let mut leads = BTreeMap::<IpAddr, bool>::new();
        sockets
            .iter()
            .filter(|socket| socket.inode != 0)
            .filter_map(move |socket| {
                let local = SocketAddr::new(socket.local.ip().to_canonical(), socket.local.port());
                let is_for = || self.routes.is_for(local);
                let used = match (socket.protocol, socket.remote.map(|remote| remote.ip().to_canonical())) {
                    // A client of the stack is intended to use the kernel.
                    (_, Some(remote)) if self.routes.has(remote) => false,
                    // Accepted: its listener is reported instead.
                    (SocketProtocol::Tcp, Some(_)) if listening.contains(&local.port()) => false,
                    (_, Some(remote)) => *leads.entry(remote).or_insert_with(|| self.routes.leads_to(remote)),
                    (SocketProtocol::Tcp, None) => socket.listens && is_for(),
                    // A socket with an ephemeral port is a client with unknown peers.
                    (SocketProtocol::Udp, None) => {
                        is_for() && !(local.ip().is_unspecified() && self.chosen.contains(&local.port()))
                    }
                };
                used.then_some((*socket, if socket.remote.is_some() { Use::Connects } else { Use::Listens }))
            })
            .collect::<Vec<_>>()
            .into_iter()
    }
}

impl SocketProtocol {
    /// Name in metrics and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl Use {
    /// Name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Listens => "listen",
            Self::Connects => "connect",
        }
    }
}

impl fmt::Display for BypassingSocket {
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
