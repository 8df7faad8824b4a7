//! Address resolution: ARP and neighbour discovery messages received.
//!
//! Source: RFC 826, RFC 5227, RFC 4861 §6.1, §7 and §8, RFC 4862 §5.4.

use std::net::{IpAddr, Ipv6Addr};

use queueing::Time;
use wire::ethernet::Mac;
use wire::mld::Query;
use wire::ndp::{Message, NeighborAdvertisement};
use wire::{Malformed, arp, ipv6};

use super::discovery;
use crate::stack::Stack;
use crate::stack::egress::Reply;
use crate::stack::neighbors::UnsolicitedPolicy;

/// Hop limit of a packet that no router forwarded (RFC 4861 §3.1).
const HOPS_ON_LINK: u8 = 255;

impl Stack {
    pub(in crate::stack) fn on_arp(&mut self, now: Time, packet: &[u8]) -> Result<(), Malformed> {
        let packet = arp::Packet::parse(packet)?;
        let is_group = packet.sender.is_multicast() || packet.sender.is_broadcast();
        if packet.sender == self.config.addr || is_group || packet.sender_mac[0] & 1 != 0 {
            return Err(Malformed::BadAddress);
        }
        let is_request = packet.operation == arp::Operation::Request && self.has(packet.target.into());
        // A sender without an address probes for duplicates, and one with several may ask with an
        // address of another subnet: both are answered, and neither is cached.
        if self.config.is_local(packet.sender) {
            let unsolicited =
                if is_request { UnsolicitedPolicy::Welcome } else { UnsolicitedPolicy::Ignored };
            self.learn(now, packet.sender.into(), packet.sender_mac, unsolicited);
        } else if !is_request {
            return Err(Malformed::BadAddress);
        }
        if is_request && self.config.answers_for_host() {
            self.reply(Reply::Arp(arp::Packet {
                operation: arp::Operation::Reply,
                sender_mac: self.config.mac,
                sender: self.config.addr,
                target_mac: packet.sender_mac,
                target: packet.sender,
            }));
        }
        Ok(())
    }

    /// Records that `addr` has `mac` and wakes connections that waited for it.
    fn learn(&mut self, now: Time, addr: IpAddr, mac: Mac, unsolicited: UnsolicitedPolicy) {
        let before = self.neighbors.known(addr);
        self.neighbors.learn(now, addr, mac, unsolicited);
        let moved = before.is_some_and(|before| before != mac) && self.neighbors.known(addr) == Some(mac);
        self.wake(now, addr, moved);
    }

    /// Handles a neighbour discovery message received with `hops` left.
    pub(super) fn on_discovery(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        target: Ipv6Addr,
        hops: u8,
        message: &Message<'_>,
    ) -> Result<(), Malformed> {
        if hops != HOPS_ON_LINK {
            return Err(Malformed::BadAddress);
        }
        match message {
            Message::RouterSolicitation { .. } => {}
            Message::RouterAdvertisement(advertisement) => {
                if !source.is_unicast_link_local() {
                    return Err(Malformed::BadAddress);
                }
                if let Some(mac) = advertisement.mac {
                    self.learn(now, source.into(), mac, UnsolicitedPolicy::Welcome);
                }
                if let Some(v6) = &mut self.ip.v6 {
                    v6.on_advertisement(now, source, advertisement);
                }
            }
            Message::NeighborSolicitation { target: wanted, source: mac } => {
                self.on_solicitation(now, source, *wanted, *mac)?;
            }
            Message::NeighborAdvertisement(advertisement) => {
                if advertisement.solicited && target.is_multicast() {
                    return Err(Malformed::BadAddress);
                }
                self.on_neighbor(now, advertisement);
            }
            Message::Redirect { target: better, destination, mac } => {
                self.on_redirect(now, source, *better, *destination, *mac);
            }
        }
        self.watch_ip_clock();
        Ok(())
    }

    fn on_solicitation(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        wanted: Ipv6Addr,
        mac: Option<Mac>,
    ) -> Result<(), Malformed> {
        let Some(v6) = &mut self.ip.v6 else { return Ok(()) };
        let checks = source.is_unspecified();
        if checks && mac.is_some() {
            return Err(Malformed::BadOption);
        }
        if v6.is_tentative(wanted) {
            // Another host claims the tentative address; a mere lookup of it is ignored (RFC 4862
            // §5.4.3).
            if checks && v6.on_conflict(now, wanted) {
                self.counters.duplicate_addresses += 1;
            }
            return Ok(());
        }
        if !v6.owns(wanted) {
            return Ok(());
        }
        if !self.config.answers_for_host() {
            if let (Some(mac), false) = (mac, checks) {
                self.learn(now, source.into(), mac, UnsolicitedPolicy::Welcome);
            }
            return Ok(());
        }
        let answer = Message::NeighborAdvertisement(NeighborAdvertisement {
            target: wanted,
            mac: Some(self.config.mac),
            router: false,
            solicited: !checks,
            replaces: true,
        });
        if checks {
            let group = ipv6::ALL_NODES;
            self.reply(discovery(&answer, ipv6::multicast_mac(group), wanted, group));
            return Ok(());
        }
        // A solicitation without a hardware address is answered only if the sender's is cached.
        if let Some(mac) = mac {
            self.learn(now, source.into(), mac, UnsolicitedPolicy::Welcome);
            self.reply(discovery(&answer, mac, wanted, source));
        } else if let Some(mac) = self.neighbors.known(source.into()) {
            self.reply(discovery(&answer, mac, wanted, source));
        }
        Ok(())
    }

    /// Handles a router's redirect; connections follow it with their next segment.
    fn on_redirect(
        &mut self,
        now: Time,
        from: Ipv6Addr,
        target: Ipv6Addr,
        destination: Ipv6Addr,
        mac: Option<Mac>,
    ) {
        let Some(v6) = &mut self.ip.v6 else { return };
        if !v6.on_redirect(now, from, target, destination) {
            self.counters.redirects_ignored += 1;
            return;
        }
        self.counters.redirects += 1;
        if let Some(mac) = mac {
            self.learn(now, target.into(), mac, UnsolicitedPolicy::Welcome);
        }
    }

    /// Handles a querier's request for multicast listeners (RFC 3810 §6.2).
    pub(super) fn on_query(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        hops: u8,
        query: &Query,
    ) -> Result<(), Malformed> {
        if hops != 1 || !source.is_unicast_link_local() {
            return Err(Malformed::BadAddress);
        }
        // One shard answers for all that share the hardware address.
        if let Some(v6) = self.ip.v6.as_mut().filter(|_| self.config.answers_for_host()) {
            v6.on_query(now, query);
            self.watch_ip_clock();
        }
        Ok(())
    }

    fn on_neighbor(&mut self, now: Time, advertisement: &NeighborAdvertisement) {
        let Some(v6) = &mut self.ip.v6 else { return };
        if v6.on_conflict(now, advertisement.target) || v6.owns(advertisement.target) {
            self.counters.duplicate_addresses += 1;
            return;
        }
        let Some(mac) = advertisement.mac else { return };
        let addr = advertisement.target.into();
        // A sender that may not override the entry can still make it doubted (RFC 4861 §7.2.5).
        if advertisement.replaces || self.neighbors.agrees(addr, mac) {
            self.learn(now, addr, mac, UnsolicitedPolicy::Ignored);
        } else {
            self.neighbors.doubt(addr);
        }
    }
}
