//! Path MTU discovery: applies ICMP errors, black holes and probes of connections to the search on
//! their common path.
//!
//! Not called per packet: only when a router reports an error for a connection and when its timer
//! fires.
//!
//! Source: RFC 1191, 8201, 5927 §7.2, RFC 8899 §4.

use std::net::IpAddr;

use queueing::Time;
use wire::tcp::Seq;

use super::plpmtu::{Event, RAISE_AFTER, SizeProbe};
use super::pmtu_cache::{mtu_base, mtu_min, plateau_below};
use crate::stack::Stack;
use crate::tcp::Outcome;

impl Stack {
    /// Path MTU to `remote` in bytes, as far as known: the link's MTU, or less after an ICMP error
    /// or a black hole.
    #[must_use]
    pub fn path_mtu(&self, now: Time, remote: IpAddr) -> u16 {
        self.ip.mtu(now, &self.config, remote)
    }

    /// Handles a router's error about the segment at `seq`, which exceeds `mtu` bytes; 0 means a
    /// router that predates RFC 1191 (its §5).
    pub(super) fn on_too_big(&mut self, now: Time, index: u32, seq: Seq, mtu: u32) {
        let Some((_, connection)) = self.flows.at(index) else { return };
        let remote = connection.tuple.remote;
        let reported = match u16::try_from(mtu) {
            Ok(0) => plateau_below(remote, connection.packet_len_max()),
            Ok(mtu) if remote.is_ipv4() => mtu.max(mtu_min(remote)),
            Ok(mtu) => mtu,
            Err(_) => u16::MAX,
        };
        if reported < mtu_min(remote) || !connection.exceeds(seq, reported) {
            self.counters.icmp_ignored += 1;
            return;
        }
        let of_probe = reported >= connection.packet_len_max() && connection.on_probe_too_big(now, seq);
        if of_probe {
            let link = self.ip.link_mtu(&self.config, remote);
            self.ip.paths.on(now, remote, link, Event::TooBig(reported));
            return self.settle(now, index);
        }
        self.limit_path(now, index, reported, Event::TooBig(reported));
    }

    /// Limits packets to the peer of connection `index` to `mtu` bytes because of `event`.
    fn limit_path(&mut self, now: Time, index: u32, mtu: u16, event: Event) {
        let Some((_, connection)) = self.flows.at(index) else { return };
        let remote = connection.tuple.remote;
        if connection.limit_mtu(mtu) {
            self.counters.paths_limited += 1;
            let link = self.ip.link_mtu(&self.config, remote);
            self.ip.paths.on(now, remote, link, event);
            self.settle(now, index);
        }
    }

    /// Checks the path when the timer of connection `index` fired: for a black hole, the outcome of
    /// a probe, and the time of the next.
    pub(in crate::stack) fn tend_path(&mut self, now: Time, index: u32) {
        let Some((_, connection)) = self.flows.at(index) else { return };
        if connection.retries > 0 {
            self.suspect_path(now, index);
        }
        let Some((_, connection)) = self.flows.at(index) else { return };
        if let Some(outcome) = connection.probed(now) {
            self.search_path(now, index, outcome);
        }
    }

    fn suspect_path(&mut self, now: Time, index: u32) {
        let Some((_, connection)) = self.flows.at(index) else { return };
        let remote = connection.tuple.remote;
        // Another connection may have discovered the limit already.
        let known = self.ip.mtu(now, &self.config, remote);
        if connection.state.is_synchronized() && connection.limit_mtu(known) {
            return;
        }
        let mtu = mtu_base(remote, connection.packet_len_max());
        if connection.suspects_path(mtu, &self.config) {
            self.counters.black_holes += 1;
            self.limit_path(now, index, mtu, Event::BlackHole(mtu));
        }
    }

    /// Reports the outcome of a probe to the search, applies the path's size to the connection, and
    /// starts the next probe.
    fn search_path(&mut self, now: Time, index: u32, outcome: Outcome) {
        let Some((_, connection)) = self.flows.at(index) else { return };
        let remote = connection.tuple.remote;
        let link = self.ip.link_mtu(&self.config, remote);
        let Some(search) = self.ip.paths.search(now, remote) else {
            // The path's entry has expired.
            return connection.raise_mtu(link);
        };
        match outcome {
            Outcome::Arrived(size) => {
                self.counters.path_probes += 1;
                search.on(now, Event::Acked(size));
            }
            Outcome::Lost(size) => {
                self.counters.path_probes += 1;
                self.counters.path_probes_lost += 1;
                search.on(now, Event::Lost(size));
            }
            Outcome::Unclear => search.give_back(now),
            Outcome::Nothing => {}
        }
        if !connection.limit_mtu(search.size()) {
            connection.raise_mtu(search.size());
        }
        let most = connection.packet_len_most();
        if !connection.can_probe(&self.config) {
            return connection.rest_probing(now + RAISE_AFTER);
        }
        if most <= search.size() || !connection.is_busy() {
            return;
        }
        match search.ask(now, most) {
            SizeProbe::Probe { size, until } => connection.want_probe(size, until),
            SizeProbe::Wait(until) => connection.rest_probing(until),
        }
    }
}
