//! The network layer of a stack: which way a packet goes, who we are, and the
//! clock of everything below transport.
//!
//! Both versions of IP meet here; above, an address is an address. What has a
//! clock (neighbours, our addresses, pieces of packets) says when it is due;
//! the earliest is the stack's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use queueing::Time;

use super::egress::Reply;
use super::neighbors;
use super::{Config, Stack, Unreachable};
use crate::wire::ethernet::{BROADCAST, Mac};
use crate::wire::ip::Protocol;
use crate::wire::{arp, icmpv6, ipv6, mld as mld_wire, ndp};

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

/// What the network layer knows.
pub(super) struct Ip {
    pub(super) v6: Option<Box<Interface>>,
    /// Nothing below transport is due before.
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

    /// The host to hand a packet for `target` to.
    #[inline]
    pub(super) fn next_hop(&self, config: &Config, target: IpAddr) -> Option<IpAddr> {
        match target {
            IpAddr::V4(target) => config.next_hop(target).map(IpAddr::V4),
            IpAddr::V6(target) => self.v6.as_ref()?.next_hop(target).map(IpAddr::V6),
        }
    }

    /// The address that a packet for `target` comes from; `None` when there
    /// is no way there.
    pub(super) fn source(&self, config: &Config, target: IpAddr) -> Option<IpAddr> {
        self.next_hop(config, target)?;
        match target {
            IpAddr::V4(_) => Some(config.addr).filter(|addr| !addr.is_unspecified()).map(IpAddr::V4),
            IpAddr::V6(target) => self.v6.as_ref()?.source(target).map(IpAddr::V6),
        }
    }

    /// Whether nothing may be sent from `addr` yet, since someone may have it.
    #[inline]
    pub(super) fn holds_back(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(_) => false,
            IpAddr::V6(addr) => self.v6.as_ref().is_some_and(|v6| v6.is_tentative(addr)),
        }
    }

    /// The largest packet that gets through to `target`, as far as known.
    pub(super) fn mtu(&self, now: Time, config: &Config, target: IpAddr) -> u16 {
        self.paths.mtu(now, target, self.link_mtu(config, target))
    }

    /// The largest packet that the link takes.
    pub(super) fn link_mtu(&self, config: &Config, target: IpAddr) -> u16 {
        match (&self.v6, target) {
            (Some(v6), IpAddr::V6(_)) => v6.mtu(config.mtu),
            _ => config.mtu,
        }
    }
}

/// Who has `target`? `None` when we have no address to ask from.
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

/// A message of neighbour discovery.
fn discovery(message: &ndp::Message<'_>, mac: Mac, source: Ipv6Addr, target: Ipv6Addr) -> Reply {
    let mut payload = Vec::new();
    message.emit(&mut payload);
    icmpv6::finish_checksum(&mut payload, source, target);
    Reply::packet(mac, source.into(), target.into(), Protocol::Icmpv6, payload)
}

impl Stack {
    /// Does what is due below transport.
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

    /// Makes sure that the clock runs when the network layer wants it.
    pub(super) fn watch_ip_clock(&mut self) {
        let v6 = self.ip.v6.as_ref().map_or(Time::MAX, |v6| v6.deadline());
        let fragments = self.ip.fragments.deadline();
        let dhcp = self.ip.dhcp.as_ref().map_or(Time::MAX, |client| client.deadline());
        self.ip.due = self.ip.due.min(v6).min(dhcp).min(fragments).min(self.neighbors.deadline());
    }

    fn on_interface(&mut self, now: Time, due: Due) {
        let mac = self.config.mac;
        match due {
            // The shard that speaks for the host asks; all hear the answer.
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
                // A source that is being checked may not be shown (RFC 3590).
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

    /// Who waited for `addr` may try again; if it has `moved`, what was sent
    /// again meanwhile went astray and goes at once.
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

    /// Nobody has `addr`: what waits for it is told (RFC 1122 §2.3.2.2).
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

    /// Whether `addr` is one of ours and in use.
    pub(super) fn has(&self, addr: IpAddr) -> bool {
        match addr {
            IpAddr::V4(addr) => addr == self.config.addr && addr != Ipv4Addr::UNSPECIFIED,
            IpAddr::V6(addr) => self.ip.v6.as_ref().is_some_and(|v6| v6.owns(addr)),
        }
    }

    /// Whether the link is being asked if somebody has `addr`, which is to be
    /// ours (RFC 4862 §5.4).
    #[must_use]
    pub fn is_checking(&self, addr: IpAddr) -> bool {
        self.ip.holds_back(addr)
    }

    /// Our addresses, those that are still being checked apart: the one of
    /// IPv4 first.
    pub fn addrs(&self) -> impl Iterator<Item = IpAddr> {
        let v4 = Some(self.config.addr).filter(|addr| *addr != Ipv4Addr::UNSPECIFIED);
        let v6 = self.ip.v6.iter().flat_map(|v6| v6.addrs());
        v4.into_iter().map(IpAddr::V4).chain(v6.map(IpAddr::V6))
    }
}

/// Whether nobody in particular has `mac`.
pub(super) fn is_group(mac: Mac) -> bool {
    mac == BROADCAST || mac[0] & 1 == 1
}
