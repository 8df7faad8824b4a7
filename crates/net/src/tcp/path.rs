//! A path that carries less than was thought: segments shrink, and what is in
//! flight and does not fit goes again, cut anew.
//!
//! That is no sign of congestion, so the window stays as it is. Where routers
//! do not say (or their words are filtered), a few timeouts in a row of a large
//! segment are taken for it. Source: RFC 1191 §6, RFC 8201, RFC 4821 §7.7, 8899.

use queueing::Span;

use super::connection::Connection;
use super::flight::Judgement;
use super::state::State;
use crate::stack::Config;
use crate::wire::ip;
use crate::wire::ipv6::MTU_MIN;
use crate::wire::tcp::{self, Seq};

/// Timeouts in a row after which the path is suspected: soon for packets that
/// some paths do not carry, late for those that nearly every path does.
const TIMEOUTS_LARGE: u8 = 2;
const TIMEOUTS_SMALL: u8 = 5;
/// Nor is it suspected before timeouts have grown to this: with a floor of
/// milliseconds, several in a row are but a moment of congestion.
const TIMEOUT_MIN: Span = Span::from_millis(500);

impl Connection {
    /// Bytes of headers in each segment; until the peer has answered, `mss`
    /// does not know of options.
    fn overhead(&self) -> u16 {
        let stamped = self.flags.timestamps && self.state != State::SynSent;
        let timestamps = if stamped { Self::TIMESTAMPS_LEN } else { 0 };
        (ip::header_len(self.tuple.remote) + tcp::HEADER_LEN) as u16 + timestamps
    }

    /// The largest packet that the connection sends.
    pub(crate) fn packet_len_max(&self) -> u16 {
        self.mss.saturating_add(self.overhead())
    }

    /// Packets of more than `mtu` bytes do not get through. Returns whether
    /// that was news.
    pub(crate) fn limit_mtu(&mut self, mtu: u16) -> bool {
        if mtu >= self.packet_len_max() {
            return false;
        }
        let mss = mtu.saturating_sub(self.overhead()).max(Self::MSS_MIN);
        self.mss = mss;
        let lost = self.flight.mark_lost(|record| match record.len() > u32::from(mss) {
            true => Judgement::Lost,
            false => Judgement::Keep,
        });
        self.flags.retransmit_now |= lost > 0;
        true
    }

    /// Whether the segment at `seq` is in flight and takes more than `mtu`
    /// bytes: only then can a router have complained of it (RFC 5927 §7.2).
    pub(crate) fn exceeds(&self, seq: Seq, mtu: u16) -> bool {
        let record = self.flight.get(self.flight.index_of(seq));
        let len = record.filter(|r| r.start.at_or_before(seq) && seq.before(r.end)).map_or(0, |r| r.len());
        len + u32::from(self.overhead()) > u32::from(mtu)
    }

    /// Whether the path may swallow segments as large as the first in flight,
    /// which would fit none of `mtu` bytes.
    pub(crate) fn suspects_path(&self, mtu: u16, config: &Config) -> bool {
        let len = self.flight.get(0).map_or(0, |record| record.len());
        let timeouts = if mtu >= MTU_MIN { TIMEOUTS_LARGE } else { TIMEOUTS_SMALL };
        self.retries >= timeouts
            && self.rtt.rto(config.rto_min) >= TIMEOUT_MIN
            && self.state.is_synchronized()
            && self.snd_una != self.snd_nxt
            && len + u32::from(self.overhead()) > u32::from(mtu)
    }
}
