//! ICMP and ICMPv6: replies to pings, errors delivered to their connections, and rate-limited
//! errors for packets that cannot be delivered.
//!
//! An error counts only if it quotes data in flight, so that an off-path attacker cannot forge one.
//! It ends only connections that are not established.
//!
//! Source: RFC 1122 §3.2.2 and §4.2.3.9, RFC 4443, RFC 5927.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use queueing::Time;
use wire::ethernet::Mac;
use wire::icmp::{Cause, EchoMessage, IcmpError, Message};
use wire::ip::{Protocol, Quote};
use wire::tcp::Seq;
use wire::{FourTuple, Malformed, be16, be32, icmpv6};

use super::plpmtu::Event;
use super::pmtu_cache::mtu_min;
use crate::stack::egress::Reply;
use crate::stack::{CloseReason, Stack, Unreachable};
use crate::tcp::State;

/// Rate limit: uses in the current second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RateLimit {
    second: u64,
    used: u32,
}

impl RateLimit {
    /// True if one more of `per_second_max` is allowed at `now`; counts it.
    fn take(&mut self, now: Time, per_second_max: u32) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if self.second != second {
            *self = Self { second, used: 0 };
        }
        let allowed = self.used < per_second_max;
        self.used += u32::from(allowed);
        allowed
    }
}

impl Stack {
    #[allow(clippy::too_many_arguments)] // One for each header field that matters.
    pub(in crate::stack) fn on_icmp(
        &mut self,
        now: Time,
        source: Ipv4Addr,
        target: Ipv4Addr,
        message: &[u8],
        from: Mac,
        group: bool,
    ) -> Result<(), Malformed> {
        match Message::parse(message)? {
            Message::Echo(echo) if !echo.reply && !group => {
                self.on_ping(source.into(), target.into(), Protocol::Icmp, echo.len(), from, |buf| {
                    EchoMessage { reply: true, ..echo }.emit(buf);
                });
            }
            Message::Echo(_) => {}
            Message::Error(error) => self.on_error(now, &error),
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // One for each header field that matters.
    pub(in crate::stack) fn on_icmpv6(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        target: Ipv6Addr,
        hops: u8,
        message: &[u8],
        from: Mac,
    ) -> Result<(), Malformed> {
        match icmpv6::Message::parse(message, source, target)? {
            icmpv6::Message::Ndp(message) => self.on_discovery(now, source, target, hops, &message)?,
            icmpv6::Message::Echo(echo) if !echo.reply && !target.is_multicast() => {
                self.on_ping(source.into(), target.into(), Protocol::Icmpv6, echo.len(), from, |buf| {
                    icmpv6::emit_echo(&EchoMessage { reply: true, ..echo }, target, source, buf);
                });
            }
            icmpv6::Message::Echo(_) => {}
            icmpv6::Message::Query(query) => self.on_query(now, source, hops, &query)?,
            icmpv6::Message::Error(error) => self.on_error(now, &error),
        }
        Ok(())
    }

    fn on_ping(
        &mut self,
        source: IpAddr,
        target: IpAddr,
        protocol: Protocol,
        len: usize,
        from: Mac,
        fill: impl Fn(&mut [u8]),
    ) {
        let mut payload = self.pool.take(len);
        payload.resize(len, 0);
        fill(&mut payload);
        self.send_packet(from, target, source, protocol, payload);
    }

    /// Queues a packet to a known hardware address.
    pub(in crate::stack) fn send_packet(
        &mut self,
        mac: Mac,
        source: IpAddr,
        target: IpAddr,
        protocol: Protocol,
        payload: Vec<u8>,
    ) {
        let Reply::Packet(mut packet) = Reply::packet(mac, source, target, protocol, payload) else { return };
        packet.ident = self.ip.idents.next(&self.config.secret, source, target);
        self.reply(Reply::Packet(packet));
    }

    /// Handles an ICMP error about a packet of this host.
    fn on_error(&mut self, now: Time, error: &IcmpError<'_>) {
        self.counters.icmp_errors += 1;
        let Ok(quote) = Quote::parse(error.quoted) else { return };
        match quote.protocol {
            Protocol::Tcp if quote.payload.len() >= 8 => {
                let tuple = FourTuple {
                    local: quote.source,
                    local_port: be16(quote.payload, 0),
                    remote: quote.target,
                    remote_port: be16(quote.payload, 2),
                };
                self.on_segment_error(now, tuple, Seq(be32(quote.payload, 4)), quote.hops, error.cause);
            }
            Protocol::Udp if quote.payload.len() >= 4 => {
                let remote = SocketAddr::new(quote.target, be16(quote.payload, 2));
                if let Cause::TooBig { mtu } = error.cause {
                    self.on_datagram_too_big(now, quote.target, mtu);
                }
                let delivered = self.udp.on_error(be16(quote.payload, 0), remote, error.cause);
                self.counters.icmp_ignored += u64::from(!delivered);
            }
            _ => {}
        }
    }

    /// Handles a router's Packet Too Big about a datagram, in IPv6 only, where routers do not
    /// fragment. A forged one cannot reduce the MTU below the minimum of any path.
    fn on_datagram_too_big(&mut self, now: Time, remote: IpAddr, mtu: u32) {
        let known = self.ip.mtu(now, &self.config, remote);
        if let Ok(mtu) = u16::try_from(mtu)
            && remote.is_ipv6()
            && (mtu_min(remote)..known).contains(&mtu)
        {
            self.counters.paths_limited += 1;
            self.ip.paths.on(now, remote, known, Event::TooBig(mtu));
        }
    }

    /// Handles an error about segment `seq` of `tuple`, whose packet had `hops` left.
    fn on_segment_error(&mut self, now: Time, tuple: FourTuple, seq: Seq, hops: u8, cause: Cause) {
        let Some(index) = self.flows.find(self.hash(&tuple), &tuple) else {
            self.counters.icmp_ignored += 1;
            return;
        };
        let Some((_, connection)) = self.flows.at(index) else { return };
        // As in Linux: the quoted packet has passed no more routers than the peer's may.
        if hops < connection.hops.received_min {
            self.counters.hops_min_drops += 1;
            return;
        }
        let in_flight = seq.at_or_after(connection.snd_una) && seq.before(connection.snd_nxt);
        if !in_flight {
            self.counters.icmp_ignored += 1;
            return;
        }
        if let Cause::TooBig { mtu } = cause {
            return self.on_too_big(now, index, seq, mtu);
        }
        let Some(why) = Unreachable::of(cause, tuple.remote.is_ipv6()) else { return };
        match connection.state {
            State::SynSent if cause.is_hard() || self.config.soft_errors_end_opening => {
                self.on_unreachable(now, index, why);
            }
            // The connection keeps trying; the reason is reported if it times out.
            _ => connection.rare.get_or_insert_default().unreachable = Some(why),
        }
    }

    /// Handles the unreachable peer of connection `index`: a connection attempt ends, any other
    /// state keeps trying.
    pub(super) fn on_unreachable(&mut self, now: Time, index: u32, why: Unreachable) {
        let Some((id, connection)) = self.flows.at(index) else { return };
        if connection.state == State::SynSent {
            let mut cx = context!(self, now, id);
            connection.end(&mut cx, CloseReason::Unreachable(why));
        }
        self.settle(now, index);
    }

    /// Sends an ICMP error to `target` about its packet, whose start is `quoted`. The caller
    /// ensures that the packet was neither an ICMP error nor to a group (RFC 1122 §3.2.2, RFC 4443
    /// §2.4 e).
    pub(in crate::stack) fn send_error(
        &mut self,
        now: Time,
        cause: Cause,
        source: IpAddr,
        target: IpAddr,
        quoted: &[u8],
        mac: Mac,
    ) {
        if !self.ip.errors.take(now, self.config.icmp_errors_per_second_max) {
            self.counters.icmp_suppressed += 1;
            return;
        }
        let error = IcmpError { cause, quoted };
        let mut payload = self.pool.take(quoted.len());
        let protocol = match (source, target) {
            (IpAddr::V4(_), IpAddr::V4(_)) => {
                error.emit(&mut payload);
                Protocol::Icmp
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                icmpv6::emit_error(&error, source, target, &mut payload);
                Protocol::Icmpv6
            }
            _ => return,
        };
        self.counters.icmp_errors_sent += 1;
        self.send_packet(mac, source, target, protocol, payload);
    }
}
