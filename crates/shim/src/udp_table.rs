//! Table of UDP sockets.
//!
//! An address belongs to one socket, or to several that all have SO_REUSEADDR or all have
//! SO_REUSEPORT. A connected socket matches before one that is not, and a specific address before
//! all addresses. Of equal sockets with SO_REUSEPORT, each peer always matches the same one; of
//! others, the newest matches, as on Linux. Source: socket(7), udp(7), ip(7), ipv6(7).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::{set_ip_ttl, set_ipv6_unicast_hops};

use super::bind_addr::BindAddr;
use super::ephemeral_ports::{self, EPHEMERAL};
use super::udp_sockopt::DatagramOptions;

/// Address sharing of a UDP socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reuse {
    /// SO_REUSEADDR.
    pub addr: bool,
    /// SO_REUSEPORT.
    pub port: bool,
}

/// A bound UDP socket.
#[derive(Debug)]
pub(super) struct UdpSocketEntry {
    pub id: u64,
    pub bound: BindAddr,
    pub reuse: Reuse,
    /// Local address; for a socket bound to all addresses the one towards the peer, once connected.
    pub local: IpAddr,
    /// Connected peer.
    pub peer: Option<SocketAddr>,
    /// Stack that last delivered a datagram to the socket.
    pub stack: u16,
    /// Option values.
    pub options: DatagramOptions,
    /// The server's end of the pair.
    pub end: OwnedFd,
    /// The kernel socket on the same port, if the socket is bound to all addresses.
    pub half: Option<OwnedFd>,
    /// The program has closed its end; messages sent before may be unread.
    pub gone: bool,
}

impl UdpSocketEntry {
    /// Sets an option kept here; hop limits are set on the kernel socket, too.
    pub fn set(&mut self, level: i32, name: i32, value: i32) -> Result<(), Errno> {
        self.options.set(level, name, value)?;
        let [four, six] = self.options.hops;
        match ((level, name), &self.half) {
            ((libc::IPPROTO_IP, libc::IP_TTL), Some(half)) => set_ip_ttl(half, four.into()),
            ((libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS), Some(half)) => {
                set_ipv6_unicast_hops(half, Some(six))
            }
            _ => Ok(()),
        }
    }

    fn conflicts_with(&self, bound: &BindAddr, reuse: Reuse) -> bool {
        let share = self.reuse.addr && reuse.addr || self.reuse.port && reuse.port;
        !self.gone && !share && self.bound.overlaps(bound)
    }

    fn hears(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        !self.gone && self.bound.hears(local.ip()) && self.peer.is_none_or(|peer| peer == remote)
    }
}

/// All UDP sockets by port, bounded by programs' descriptors.
#[derive(Debug, Default)]
pub(super) struct UdpTable {
    ports: BTreeMap<u16, Vec<UdpSocketEntry>>,
    /// Number of sockets made, and of searches for a port.
    made: u64,
}

/// Bit in the numbers of UDP sockets; connections do not have it.
pub(super) const MAILBOX: u64 = 1 << 62;

/// Port of socket `id`: its lowest bits.
fn port(id: u64) -> u16 {
    id as u16
}

/// Sequence number of socket `id`.
pub(super) fn made(id: u64) -> u64 {
    (id & (MAILBOX - 1)) >> 16
}

impl UdpTable {
    /// Number for a new socket on `port`.
    pub fn number(&mut self, port: u16) -> u64 {
        self.made += 1;
        MAILBOX | (self.made << 16 & (MAILBOX - 1)) | u64::from(port)
    }

    /// True if a socket may bind to this address.
    pub fn is_free(&self, bound: &BindAddr, reuse: Reuse) -> bool {
        self.at(bound.addr.port()).all(|other| !other.conflicts_with(bound, reuse))
    }

    /// A free port.
    pub fn free_port(&mut self, secret: &[u8]) -> Option<u16> {
        self.made += 1;
        ephemeral_ports::free(EPHEMERAL, secret, self.made, |port| self.ports.contains_key(&port))
    }

    pub fn add(&mut self, mailbox: UdpSocketEntry) {
        self.ports.entry(port(mailbox.id)).or_default().push(mailbox);
    }

    /// Sockets on this port.
    pub fn at(&self, port: u16) -> impl Iterator<Item = &UdpSocketEntry> {
        self.ports.get(&port).into_iter().flatten()
    }

    pub fn get(&self, id: u64) -> Option<&UdpSocketEntry> {
        self.ports.get(&port(id))?.iter().find(|mailbox| mailbox.id == id)
    }

    pub fn get_mut(&mut self, id: u64) -> Option<&mut UdpSocketEntry> {
        self.ports.get_mut(&port(id))?.iter_mut().find(|mailbox| mailbox.id == id)
    }

    /// Removes a socket; returns its port, and true if it was the last there.
    pub fn remove(&mut self, id: u64) -> (u16, bool) {
        let at = port(id);
        let Some(there) = self.ports.get_mut(&at) else { return (at, false) };
        let before = there.len();
        there.retain(|mailbox| mailbox.id != id);
        let last = there.is_empty() && before > 0;
        if last {
            self.ports.remove(&at);
        }
        (at, last)
    }

    /// Sockets on this port that are connected to `peer`.
    pub fn connected(&self, port: u16, peer: SocketAddr) -> impl Iterator<Item = &UdpSocketEntry> {
        self.at(port).filter(move |mailbox| mailbox.peer == Some(peer) && !mailbox.gone)
    }

    /// True if several sockets have this port.
    pub fn is_shared(&self, port: u16) -> bool {
        self.at(port).filter(|mailbox| !mailbox.gone).count() > 1
    }

    /// Socket for a datagram from `remote` to `local`.
    pub fn taker(&self, local: SocketAddr, remote: SocketAddr) -> Option<&UdpSocketEntry> {
        let there = self.ports.get(&local.port())?;
        let rank = |of: &&UdpSocketEntry| (of.peer.is_none(), of.bound.distance(local.ip()));
        let candidates = || there.iter().filter(|mailbox| mailbox.hears(local, remote));
        let best = candidates().map(|mailbox| rank(&mailbox)).min()?;
        let equals: Vec<&UdpSocketEntry> = candidates().filter(|mailbox| rank(mailbox) == best).collect();
        if equals.iter().all(|mailbox| mailbox.reuse.port) {
            let mut hasher = DefaultHasher::new();
            (local, remote).hash(&mut hasher);
            return equals.get((hasher.finish() % equals.len() as u64) as usize).copied();
        }
        equals.last().copied()
    }
}

//~ datagrams: a datagram goes to the connected socket, then the exact address, then any
#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    const NONE: Reuse = Reuse { addr: false, port: false };
    const ADDR: Reuse = Reuse { addr: true, port: false };
    const PORT: Reuse = Reuse { addr: false, port: true };

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    /// Adds the sockets that may bind, as `expected`; returns their numbers.
    fn check(wanted: &[(&str, Reuse)], expected: &[bool]) -> (UdpTable, Vec<u64>) {
        let (mut all, mut ids) = (UdpTable::default(), Vec::new());
        let taken: Vec<bool> = wanted
            .iter()
            .map(|(text, reuse)| {
                let bound = BindAddr { addr: addr(text), v6_only: false };
                let free = all.is_free(&bound, *reuse);
                if free {
                    let id = all.number(bound.addr.port());
                    ids.push(id);
                    let end = std::io::stderr().as_fd().try_clone_to_owned().unwrap();
                    let (local, reuse, peer, stack) = (bound.addr.ip(), *reuse, None, 0);
                    let (options, gone) = (DatagramOptions::default(), false);
                    all.add(UdpSocketEntry {
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
                }
                free
            })
            .collect();
        assert_eq!(taken, expected, "{wanted:?}");
        (all, ids)
    }

    fn taker(all: &UdpTable, local: &str, remote: &str) -> Option<u64> {
        all.taker(addr(local), addr(remote)).map(|mailbox| mailbox.id)
    }

    #[test]
    fn an_address_has_one_socket_or_several_that_share_it_in_the_same_way() {
        let (exact, all) = ("10.0.0.1:53", "0.0.0.0:53");
        check(&[(exact, NONE), (exact, NONE), ("10.0.0.1:54", NONE)], &[true, false, true]);
        check(&[(all, ADDR), (exact, ADDR), (exact, PORT), (exact, NONE)], &[true, true, false, false]);
        check(&[(exact, PORT), (exact, PORT), ("[::]:53", NONE)], &[true, true, false]);
    }

    #[test]
    fn a_connected_socket_goes_first_then_the_exact_address_then_the_newest() {
        let wanted = [("0.0.0.0:53", ADDR), ("10.0.0.1:53", ADDR), ("10.0.0.1:53", ADDR), ("[::]:53", ADDR)];
        let (mut all, ids) = check(&wanted, &[true; 4]);
        let (exact, peer) = ("10.0.0.1:53", "10.0.0.9:7");
        assert_eq!(taker(&all, exact, peer), Some(ids[2]));
        assert_eq!(taker(&all, "10.0.0.2:53", peer), Some(ids[0]));
        assert_eq!(taker(&all, "[fd00::1]:53", "[fd00::9]:7"), Some(ids[3]));
        assert_eq!(taker(&all, "10.0.0.1:54", peer), None);
        all.get_mut(ids[0]).unwrap().peer = Some(addr(peer));
        assert_eq!(taker(&all, exact, peer), Some(ids[0]));
        assert_eq!(taker(&all, exact, "10.0.0.9:8"), Some(ids[2]), "another peer");
        assert_eq!(all.connected(53, addr(peer)).count(), 1);
        all.get_mut(ids[2]).unwrap().gone = true;
        assert_eq!(taker(&all, exact, "10.0.0.9:8"), Some(ids[1]));
        let last: Vec<(u16, bool)> = ids.iter().map(|id| all.remove(*id)).collect();
        assert_eq!(last, [(53, false), (53, false), (53, false), (53, true)]);
        assert!(!all.is_shared(53));
    }

    #[test]
    fn sockets_that_share_a_port_divide_the_peers() {
        let (all, ids) = check(&[("10.0.0.1:53", PORT); 4], &[true; 4]);
        let peers = (1..200).map(|port| format!("10.0.0.9:{port}"));
        let taken: Vec<u64> = peers.map(|peer| taker(&all, "10.0.0.1:53", &peer).unwrap()).collect();
        assert!(
            ids.iter().all(|id| taken.iter().filter(|taken| *taken == id).count() > 10),
            "each socket has some peers"
        );
        assert_eq!(taker(&all, "10.0.0.1:53", "10.0.0.9:1"), Some(taken[0]), "a peer keeps its socket");
    }
}
