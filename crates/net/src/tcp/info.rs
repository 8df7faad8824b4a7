//! Snapshot of a connection's state, like Linux's `TCP_INFO`.
//!
//! Contains only what the connection needs for itself; nothing is counted for the snapshot alone.

use queueing::{Bytes, Span, Time};
use wire::{ip, tcp};

use super::congestion::CongestionControl;
use super::connection::{Connection, Recovery};
use super::state::State;
use super::store::ByteStore;
use crate::stack::{Config, HopLimits};

/// State of a connection at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    /// TCP state.
    pub state: State,
    /// Recovery in progress, which limits or repeats sending.
    pub repair: RecoveryKind,
    /// Both sides send timestamps (RFC 7323).
    pub timestamps: bool,
    /// Both sides support SACK (RFC 2018).
    pub sack: bool,
    /// Both sides agreed on ECN (RFC 3168).
    pub ecn: bool,
    /// Window-scale shifts in bits, the peer's and ours; `None` without scaling (RFC 7323).
    pub scales: Option<[u8; 2]>,
    /// Maximum payload of a segment, in bytes.
    pub mss: u16,
    /// Largest packet sent, in bytes.
    pub mtu: u16,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// Mean deviation of round-trip times (RFC 6298).
    pub rttvar: Span,
    /// Retransmission timeout of the next segment.
    pub rto: Span,
    /// Consecutive timeouts and probes without an answer.
    pub retries: u8,
    /// Time since the last segment of the peer.
    pub silent: Span,
    /// Congestion window.
    pub cwnd: Bytes,
    /// Slow-start threshold.
    pub ssthresh: Bytes,
    /// Name of the congestion control, if it is the default one.
    pub congestion: Option<&'static str>,
    /// Payload received in order so far.
    pub received: Bytes,
    /// Payload sent and acknowledged so far.
    pub acknowledged: Bytes,
    /// Bytes written and not yet sent.
    pub unsent: Bytes,
    /// Bytes sent and not yet acknowledged.
    pub unacknowledged: Bytes,
    /// Unacknowledged bytes that were SACKed.
    pub sacked: Bytes,
    /// Unacknowledged bytes that are marked lost.
    pub lost: Bytes,
    /// Send window: bytes that the peer accepts beyond its acknowledgement.
    pub peer_window: Bytes,
    /// Receive window: bytes that the peer may send beyond what was received.
    pub window: Bytes,
    /// Segments sent so far, and how many of them were retransmissions.
    pub segments: [u32; 2],
    /// User timeout of unacknowledged data; `None`: only the retransmission limit ends the
    /// connection.
    pub user_timeout: Option<Span>,
    /// DSCP of sent packets, 0..64.
    pub dscp: u8,
    /// Hop limits of the connection.
    pub hops: HopLimits,
}

/// Recovery of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryKind {
    /// No recovery.
    None,
    /// The peer echoed congestion, and the flight shrinks.
    Reduction,
    /// Fast recovery: a segment was detected as lost.
    Fast,
    /// Timeout recovery: the retransmission timer fired.
    Timeout,
}

impl<B: ByteStore> Connection<B> {
    /// Snapshot of the connection at `now`.
    pub(crate) fn info(&self, now: Time, config: &Config) -> Info {
        let bytes = |count: u32| Bytes::new(u64::from(count));
        let own_timeout =
            self.timeout_options.as_ref().and_then(|timeout_options| timeout_options.user_timeout);
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
            silent: now.since(self.received_at),
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
            segments: [self.segments.sent, self.segments.retransmitted],
            user_timeout: own_timeout.unwrap_or(config.user_timeout),
            dscp: self.transmit.dscp(config),
            hops: self.hops,
        }
    }
}
