//! Network layer of a stack: next hop and source address of packets, this host's addresses, and the
//! deadline of everything below the transport layer.
//!
//! Joins both IP versions: the layers above use either address. Neighbours, addresses and fragments
//! each have a deadline; the earliest is that of the layer.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use queueing::Time;
use wire::ethernet::{BROADCAST, Mac};
use wire::ip::Protocol;
use wire::{arp, icmpv6, ipv6, mld as mld_wire, ndp};

use super::egress::Reply;
use super::neighbors;
use super::{Config, Stack, Unreachable};

mod arp_ndp;
mod dhcp;

pub(super) mod demux;
mod icmp;
pub(super) mod interface;
mod mld;
pub(super) mod output;
mod plpmtu;
pub(super) mod pmtu_cache;
mod pmtud;
mod reassembly;
mod redirects;

pub use dhcp::Lease;

use dhcp::Client;
use icmp::RateLimit;
use interface::{Due, Interface};
use output::Idents;
use pmtu_cache::PmtuCache;
use reassembly::Fragments;

/// State of the network layer.
pub(super) struct Ip {
    pub(super) v6: Option<Box<Interface>>,
    /// Lower bound of deadlines below the transport layer.
    pub(super) due: Time,
    pub(super) idents: Idents,
    dhcp: Option<Box<Client>>,
    pub(super) paths: PmtuCache,
    fragments: Fragments,
    errors: RateLimit,
}

impl Ip {
    pub(super) fn new(config: &Config) -> Self {
        let interface = |ipv6: &super::Ipv6| Interface::new(config.mac, config.secret, ipv6.clone());
        let v6 = config.ipv6.as_ref().map(|ipv6| Box::new(interface(ipv6)));
        let transaction = Idents::default().next(&config.secret, config.addr.into(), config.addr.into());
        let dhcp =
            config.dhcp.then(|| Box::new(Client::new(config.mac, transaction, config.answers_for_host())));
        let due = v6.as_ref().map_or(Time::MAX, |v6| v6.deadline());
        let due = if config.dhcp { Time::ZERO } else { due };
        Self {
            dhcp,
            v6,
            due,
            idents: Idents::default(),
            paths: PmtuCache::default(),
            fragments: Fragments::default(),
            errors: RateLimit::default(),
        }
    }

    /// Next hop of a packet to `target`.
    #[inline]
    pub(super) fn next_hop(&self, config: &Config, target: IpAddr) -> Option<IpAddr> {
        match target {
            IpAddr::V4(target) => config.next_hop(target).map(IpAddr::V4),
            IpAddr::V6(target) => self.v6.as_ref()?.next_hop(target).map(IpAddr::V6),
        }
    }

    /// Source address of a packet to `target`; `None` without a route.
    pub(super) fn source(&self, config: &Config, target: IpAddr) -> Option<IpAddr> {
        self.next_hop(config, target)?;
        match target {
            IpAddr::V4(_) => Some(config.addr).filter(|addr| !addr.is_unspecified()).map(IpAddr::V4),
            IpAddr::V6(target) => self.v6.as_ref()?.source(target).map(IpAddr::V6),
        }
    }

    /// True if `addr` is tentative: duplicate address detection has not completed.
    #[inline]
    pub(super) fn holds_back(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(_) => false,
            IpAddr::V6(addr) => self.v6.as_ref().is_some_and(|v6| v6.is_tentative(addr)),
        }
    }

    /// Path MTU to `target`, as far as known.
    pub(super) fn mtu(&self, now: Time, config: &Config, target: IpAddr) -> u16 {
        self.paths.mtu(now, target, self.link_mtu(config, target))
    }

    /// MTU of the link.
    pub(super) fn link_mtu(&self, config: &Config, target: IpAddr) -> u16 {
        match (&self.v6, target) {
            (Some(v6), IpAddr::V6(_)) => v6.mtu(config.mtu),
            _ => config.mtu,
        }
    }
}

/// Address resolution request for `target`; `None` without a source address.
pub(super) fn question(config: &Config, ip: &Ip, target: IpAddr) -> Option<Reply> {
    match target {
        IpAddr::V4(target) => Some(Reply::Arp(arp::Packet {
            operation: arp::Operation::Request,
            sender_mac: config.mac,
            sender: config.addr,
            target_mac: [0; 6],
            target,
        })),
        IpAddr::V6(target) => {
            let source = ip.v6.as_ref()?.source(target)?;
            let group = ipv6::solicited_node(target);
            let message = ndp::Message::NeighborSolicitation { target, source: Some(config.mac) };
            Some(discovery(&message, ipv6::multicast_mac(group), source, group))
        }
    }
}

/// A neighbour discovery message.
fn discovery(message: &ndp::Message<'_>, mac: Mac, source: Ipv6Addr, target: Ipv6Addr) -> Reply {
    let mut payload = Vec::new();
    message.emit(&mut payload);
    icmpv6::finish_checksum(&mut payload, source, target);
    Reply::packet(mac, source.into(), target.into(), Protocol::Icmpv6, payload)
}

impl Stack {
    /// Runs due timers below the transport layer.
    pub(super) fn run_ip_clock(&mut self, now: Time) {
        while let Some(due) = self.neighbors.poll(now) {
            match due {
                neighbors::Due::Ask(addr) => {
                    if let Some(question) = question(&self.config, &self.ip, addr) {
                        self.reply(question);
                    }
                }
                neighbors::Due::Silent(addr) => self.on_silent(now, addr),
            }
        }
        while let Some(due) = self.ip.v6.as_mut().and_then(|v6| v6.poll(now)) {
            self.on_interface(now, due);
        }
        self.run_dhcp(now);
        self.expire_fragments(now);
        self.ip.due = Time::MAX;
        self.watch_ip_clock();
    }

    /// Updates the deadline of the network layer.
    pub(super) fn watch_ip_clock(&mut self) {
        let v6 = self.ip.v6.as_ref().map_or(Time::MAX, |v6| v6.deadline());
        let fragments = self.ip.fragments.deadline();
        let dhcp = self.ip.dhcp.as_ref().map_or(Time::MAX, |client| client.deadline());
        self.ip.due = self.ip.due.min(v6).min(dhcp).min(fragments).min(self.neighbors.deadline());
    }

    fn on_interface(&mut self, now: Time, due: Due) {
        let mac = self.config.mac;
        match due {
            // The shard that answers for the host sends it; all shards receive the response.
            Due::Probe(_) | Due::Solicit if !self.config.answers_for_host() => {}
            Due::Probe(addr) => {
                let group = ipv6::solicited_node(addr);
                let message = ndp::Message::NeighborSolicitation { target: addr, source: None };
                self.reply(discovery(&message, ipv6::multicast_mac(group), Ipv6Addr::UNSPECIFIED, group));
            }
            Due::Solicit => {
                let group = ipv6::ALL_ROUTERS;
                let source = self.ip.v6.as_ref().and_then(|v6| v6.addrs().next());
                let message = ndp::Message::RouterSolicitation { source: source.map(|_| mac) };
                let source = source.unwrap_or(Ipv6Addr::UNSPECIFIED);
                self.reply(discovery(&message, ipv6::multicast_mac(group), source, group));
            }
            Due::Ours(addr) => self.wake(now, addr.into(), false),
            Due::Report(..) if !self.config.answers_for_host() => {}
            Due::Report(record, group) => {
                let ours = self.ip.v6.as_ref().and_then(|v6| v6.addrs().find(|a| a.is_unicast_link_local()));
                // A tentative source address may not be used (RFC 3590).
                let source = ours.unwrap_or(Ipv6Addr::UNSPECIFIED);
                let (mac, payload) =
                    (ipv6::multicast_mac(mld_wire::REPORTS), mld_wire::report(record, group, source));
                let (source, target) = (source.into(), mld_wire::REPORTS.into());
                self.reply(Reply::packet(mac, source, target, Protocol::HOP_BY_HOP, payload));
            }
            Due::Gone(addr) => {
                self.counters.addresses_lost += 1;
                self.wake(now, addr.into(), false);
            }
        }
    }

    /// Resumes connections that waited for `addr`. If its hardware address has `moved`, connections
    /// that retransmitted to the old one retransmit at once.
    pub(super) fn wake(&mut self, now: Time, addr: IpAddr, moved: bool) {
        self.udp.outbox.wake(addr);
        for id in self.neighbors.unpark(addr) {
            if let Some((found, connection)) = self.flows.at(id.index)
                && found == id
            {
                connection.flags.parked = false;
                if moved && connection.retries > 0 {
                    connection.resend_first();
                }
                self.settle(now, id.index);
            }
        }
    }

    /// Handles an unresolvable `addr`: connections that wait for it fail (RFC 1122 §2.3.2.2).
    fn on_silent(&mut self, now: Time, addr: IpAddr) {
        self.counters.neighbors_silent += 1;
        if let (IpAddr::V6(addr), Some(v6)) = (addr, &mut self.ip.v6) {
            v6.on_silent(addr);
        }
        self.udp.outbox.on_silent(addr, &mut self.counters);
        for id in self.neighbors.unpark(addr) {
            if let Some((found, connection)) = self.flows.at(id.index)
                && found == id
            {
                connection.flags.parked = false;
                self.on_unreachable(now, id.index, Unreachable::Host);
            }
        }
    }

    /// True if `addr` is assigned to this host.
    pub(super) fn has(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => addr == self.config.addr && addr != Ipv4Addr::UNSPECIFIED,
            IpAddr::V6(addr) => self.ip.v6.as_ref().is_some_and(|v6| v6.owns(addr)),
        }
    }

    /// True if `addr` is tentative: duplicate address detection is running (RFC 4862 §5.4).
    #[must_use]
    pub fn is_checking(&self, addr: IpAddr) -> bool {
        self.ip.holds_back(addr)
    }

    /// Assigned addresses, IPv4 first, without tentative ones.
    pub fn addrs(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = Some(self.config.addr).filter(|addr| *addr != Ipv4Addr::UNSPECIFIED);
        let v6 = self.ip.v6.iter().flat_map(|v6| v6.addrs());
        v4.into_iter().map(IpAddr::V4).chain(v6.map(IpAddr::V6))
    }
}

/// True for a broadcast or multicast address.
pub(super) fn is_group(mac: Mac) -> bool {
    mac == BROADCAST || mac[0] & 1 == 1
}
