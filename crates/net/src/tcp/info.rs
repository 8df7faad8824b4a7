//! What a connection tells of itself when it is asked.
//!
//! The figures of Linux's `TCP_INFO`, as far as this TCP has them for reasons of
//! its own: nothing is counted for the sake of being asked.

use queueing::{Bytes, Span, Time};

use super::congestion::CongestionControl;
use super::connection::{Connection, Recovery};
use super::state::State;
use super::store::ByteStore;
use crate::stack::{Config, HopLimits};
use crate::wire::{ip, tcp};

/// A connection as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// Where it is in its life.
    pub state: State,
    /// Why it sends less than its window lets it, or again.
    pub repair: RecoveryKind,
    /// Both sides send timestamps (RFC 7323).
    pub timestamps: bool,
    /// Both sides understand SACK (RFC 2018).
    pub sack: bool,
    /// Both sides understand ECN (RFC 3168).
    pub ecn: bool,
    /// By how many bits windows are shifted, the peer's and ours, where both sides
    /// scale them (RFC 7323).
    pub scales: Option<[u8; 2]>,
    /// Bytes of payload that a segment carries at most.
    pub mss: u16,
    /// Bytes of the largest packet that it sends.
    pub mtu: u16,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// How far from it round trips are on average (RFC 6298).
    pub rttvar: Span,
    /// How long the next segment waits for its acknowledgement before it is sent again.
    pub rto: Span,
    /// Timeouts and probes in a row that nothing has answered.
    pub retries: u8,
    /// What the peer was silent for.
    pub silent: Span,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Where slow start ends.
    pub ssthresh: Bytes,
    /// The name of the congestion control, where it is one of the stack's own.
    pub congestion: Option<&'static str>,
    /// Payload received in order so far.
    pub received: Bytes,
    /// Payload sent and acknowledged so far.
    pub acknowledged: Bytes,
    /// Written and not sent yet.
    pub unsent: Bytes,
    /// Sent and not acknowledged.
    pub unacknowledged: Bytes,
    /// Of these, what has arrived out of order.
    pub sacked: Bytes,
    /// Of these, what is believed not to have arrived.
    pub lost: Bytes,
    /// What the peer takes beyond what it has acknowledged.
    pub peer_window: Bytes,
    /// What it may send beyond what has come.
    pub window: Bytes,
    /// Segments sent so far, and how many of them again.
    pub segments: [u32; 2],
    /// After how long its data that nobody acknowledges ends it; `None`: as long as
    /// retransmission takes.
    pub user_timeout: Option<Span>,
    /// DSCP of what it sends, 0..64.
    pub dscp: u8,
    /// Its hop limits.
    pub hops: HopLimits,
}

/// Whether a connection repairs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryKind {
    /// Nothing.
    None,
    /// The peer echoed congestion, and the flight shrinks.
    Reduction,
    /// A segment was found lost.
    Fast,
    /// The retransmission timer fired.
    Timeout,
}

impl<B: ByteStore> Connection<B> {
    /// What it is like at `now`.
    pub(crate) fn info(&self, now: Time, config: &Config) -> Info {
        let bytes = |count: u32| Bytes::new(u64::from(count));
        let own_timeout = self.patience.as_ref().and_then(|patience| patience.user_timeout);
        let options = if self.flags.timestamps { Self::TIMESTAMPS_LEN } else { 0 };
        let headers = (ip::header_len(self.tuple.remote) + tcp::HEADER_LEN) as u16;
        Info {
            state: self.state,
            repair: match self.recovery {
                Recovery::None => RecoveryKind::None,
                Recovery::Reduction { .. } => RecoveryKind::Reduction,
                Recovery::Fast { .. } => RecoveryKind::Fast,
                Recovery::Timeout { .. } => RecoveryKind::Timeout,
            },
            timestamps: self.flags.timestamps,
            sack: self.flags.sack,
            ecn: self.has_ecn(),
            scales: self.flags.scaling.then_some([self.send_scale, self.recv_scale]),
            mss: self.mss,
            mtu: headers + options + self.mss,
            srtt: self.rtt.srtt(),
            rttvar: self.rtt.rttvar(),
            rto: self.rtt.rto(config.rto_min),
            retries: self.retries,
            silent: now.since(self.heard_at),
            cwnd: bytes(self.congestion_window()),
            ssthresh: self.congestion.ssthresh(),
            congestion: self.congestion.name(),
            received: Bytes::new(self.received),
            acknowledged: Bytes::new(self.acknowledged),
            unsent: bytes(self.unsent()),
            unacknowledged: self.unacknowledged(),
            sacked: bytes(self.flight.sacked()),
            lost: bytes(self.flight.lost()),
            peer_window: bytes(self.snd_wnd),
            window: bytes(self.receive_window()),
            segments: [self.segments.sent, self.segments.again],
            user_timeout: own_timeout.unwrap_or(config.user_timeout),
            dscp: self.transmit.dscp(config),
            hops: self.hops,
        }
    }
}
