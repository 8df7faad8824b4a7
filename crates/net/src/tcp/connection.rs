//! TCP connection: its state, construction and end.
//!
//! User calls are in `calls`, deadlines in `timers`. The struct is kept small for 100,000
//! connections: buffers, reassembly queue and scoreboard own memory only while they hold data.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use classify::{AppMemory, ConnectionState, FlowState, Private, TransportClassifier};
use queueing::{Bytes, Label, Time, TimerKey};
use wire::FourTuple;
use wire::tcp::{Options, Seq};

use super::ack_rate_limit::AckRateLimit;
use super::autotune::ReceiveWindow;
use super::buffer::Pool;
use super::congestion::{Congestion, CongestionControl};
use super::ecn_pacing::EcnPacing;
use super::flags::Flags;
use super::keepalive::TimeoutOptions;
use super::loss_rate::LossRate;
use super::rack::Reordering;
use super::reassembly::Reassembly;
use super::recovery::TailLossProbe;
use super::retransmit_queue::RetransmitQueue;
use super::rtt::RttEstimator;
use super::spurious::Undo;
use super::state::State;
use super::store::ByteStore;
use super::tx_priority::Transmit;
use crate::stack::{
    Challenges, CloseReason, Config, ConnId, Counters, Event, EventKind, HopLimits, TxLinks, Unreachable,
};

/// Parts of the stack that a connection uses while it handles an event.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) id: ConnId,
    pub(crate) config: &'a Config,
    pub(crate) pool: &'a mut Pool,
    pub(crate) counters: &'a mut Counters,
    pub(crate) challenges: &'a mut Challenges,
    pub(crate) events: &'a mut VecDeque<Event>,
    /// Label of the current packet, or the default.
    pub(crate) label: Label,
    /// Time at which the device received it.
    pub(crate) received: Time,
    /// ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub(crate) ecn: u8,
}

impl Context<'_> {
    #[inline]
    pub(crate) fn push(&mut self, kind: EventKind) {
        self.events.push_back(Event { conn: self.id, kind, label: self.label, received: self.received });
    }

    /// True if one more challenge ACK may be sent; counts it.
    pub(super) fn may_challenge(&mut self) -> bool {
        self.challenges.allow(self.now, self.config.challenges_per_second_max, self.counters)
    }
}

/// Loss recovery or window reduction in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// No loss and no reduction.
    None,
    /// Fast recovery; ends once `until` is acknowledged.
    Fast { until: Seq },
    /// Recovery after a retransmission timeout; ends once `until` is acknowledged.
    Timeout { until: Seq },
    /// CWR state: the peer echoed congestion without loss, and the flight shrinks to the new
    /// window; ends once `until` is acknowledged.
    Reduction { until: Seq },
}

impl Recovery {
    /// True if lost data is being repaired.
    #[inline]
    pub(crate) fn repairs(self) -> bool {
        matches!(self, Self::Fast { .. } | Self::Timeout { .. })
    }

    /// True if proportional rate reduction (PRR) brings the flight down to the new window.
    #[inline]
    pub(crate) fn apportions(self) -> bool {
        matches!(self, Self::Fast { .. } | Self::Reduction { .. })
    }
}

/// State that few connections have.
#[derive(Default)]
pub(crate) struct RareState {
    /// Application state for the classifier.
    pub app: Option<AppMemory>,
    /// State that the classifier keeps for the connection.
    pub memory: Option<Box<dyn ConnectionState>>,
    /// ICMP error received since the last acknowledgement.
    pub unreachable: Option<Unreachable>,
}

/// TCP connection whose bytes are stored in `B`.
pub(crate) struct Connection<B: ByteStore> {
    pub(crate) tuple: FourTuple,
    pub(crate) state: State,
    pub(crate) flags: Flags,
    /// Position in the lists of connections that wait to send.
    pub(crate) tx_links: TxLinks,
    /// Priority of the data to send.
    pub(crate) transmit: Transmit,
    pub(crate) hops: HopLimits,
    pub(crate) mss: u16,
    pub(crate) send_scale: u8,
    pub(crate) recv_scale: u8,
    pub(crate) duplicate_acks: u8,
    /// Consecutive timeouts or window probes without an answer.
    pub(crate) retries: u8,
    /// Pure ACKs owed to the peer.
    pub(crate) acks_due: u8,
    /// Consecutive keep-alive probes without an answer.
    pub(crate) keep_alives: u8,

    // Send side: acknowledged up to `una`, sent up to `nxt`; `flight` holds the segments in
    // between.
    pub(crate) snd_una: Seq,
    pub(crate) snd_nxt: Seq,
    pub(crate) snd_wnd: u32,
    pub(crate) snd_wnd_max: u32,
    pub(crate) snd_wl1: Seq,
    pub(crate) snd_wl2: Seq,
    pub(crate) recovery: Recovery,
    pub(crate) undo: Undo,
    pub(crate) flight: RetransmitQueue,
    pub(crate) send: B,

    // Receive side: received up to `nxt`, window advertised up to `adv`.
    pub(crate) rcv_nxt: Seq,
    pub(crate) rcv_adv: Seq,
    pub(crate) recv: B,
    pub(crate) ts_recent: u32,
    pub(crate) ts_offset: u32,
    pub(crate) last_ack_sent: Seq,
    /// Due time of the delayed ACK, in microseconds.
    pub(crate) ack_due_us: u32,
    pub(crate) window: ReceiveWindow,
    pub(crate) ack_rate_limit: AckRateLimit,
    /// Sequence number of a FIN received out of order.
    pub(crate) early_fin: Option<Seq>,

    pub(crate) congestion: Congestion,
    pub(crate) rtt: RttEstimator,
    pub(crate) reordering: Reordering,
    /// Unanswered tail loss probe.
    pub(crate) tlp: Option<TailLossProbe>,
    /// Deadline of the tail loss probe or of RACK's reordering timer.
    pub(crate) early_at: Time,
    /// Deadline of the retransmission or persist timer; `Time::MAX` for never.
    pub(crate) rto_at: Time,
    pub(crate) received_at: Time,
    /// The stack's timer for this connection, with its deadline.
    pub(crate) timer: Option<(Time, TimerKey)>,

    pub(crate) received: u64,
    pub(crate) acknowledged: u64,
    pub(crate) segments: LossRate,

    pub(crate) reassembly: Option<Box<Reassembly<B::Run>>>,
    pub(crate) classifier: Option<TransportClassifier>,
    pub(crate) rare: Option<Box<RareState>>,
    pub(crate) timeout_options: Option<Box<TimeoutOptions>>,
    pub(crate) ecn_pacing: Option<Box<EcnPacing>>,
    /// One more than the listener's index; see [`Connection::listener`].
    listener: Option<NonZeroU16>,
    pub(crate) reason: Option<CloseReason>,
    pub(crate) private: Private,
}

impl<B: ByteStore> Connection<B> {
    /// Lower bound of the peer's MSS; only our own MTU can make it smaller.
    pub(super) const MSS_MIN: u16 = 88;
    /// Bytes of the timestamps option in every segment.
    pub(super) const TIMESTAMPS_LEN: u16 = 12;

    /// A connection that is about to send its SYN.
    pub(crate) fn open(tuple: FourTuple, iss: Seq, ts_offset: u32, now: Time, config: &Config) -> Self {
        let mss = config.mss(tuple.remote);
        Self {
            tuple,
            state: State::SynSent,
            flags: Flags { timestamps: true, sack: true, scaling: true, linked: true, ..Flags::default() },
            tx_links: TxLinks::default(),
            transmit: Transmit::default(),
            hops: HopLimits::default(),
            mss,
            send_scale: 0,
            recv_scale: config.window_scale(),
            duplicate_acks: 0,
            retries: 0,
            acks_due: 0,
            keep_alives: 0,
            snd_una: iss,
            snd_nxt: iss,
            snd_wnd: 0,
            snd_wnd_max: 0,
            snd_wl1: Seq(0),
            snd_wl2: Seq(0),
            recovery: Recovery::None,
            undo: Undo::default(),
            flight: RetransmitQueue::new(iss, now),
            send: B::default(),
            rcv_nxt: Seq(0),
            rcv_adv: Seq(0),
            recv: B::default(),
            ts_recent: 0,
            ts_offset,
            last_ack_sent: Seq(0),
            ack_due_us: 0,
            window: ReceiveWindow::new(now, config),
            ack_rate_limit: AckRateLimit::default(),
            early_fin: None,
            congestion: Congestion::new(config.congestion, mss),
            rtt: RttEstimator::new(),
            reordering: Reordering::new(),
            tlp: None,
            early_at: Time::MAX,
            rto_at: Time::MAX,
            received_at: now,
            timer: None,
            received: 0,
            acknowledged: 0,
            segments: LossRate::default(),
            reassembly: None,
            classifier: None,
            rare: None,
            timeout_options: None,
            ecn_pacing: Self::ecn_pacing(config),
            listener: None,
            reason: None,
            private: [0; 64],
        }
    }

    /// MSS of a peer that announces none (RFC 9293 §3.7.1).
    pub(crate) fn mss_default(tuple: &FourTuple) -> u16 {
        if tuple.remote.is_ipv4() { 536 } else { 1220 }
    }

    /// Applies the sequence number and options of the peer's SYN.
    pub(crate) fn negotiate(&mut self, irs: Seq, options: &Options, config: &Config) {
        self.rcv_nxt = irs + 1;
        self.rcv_adv = self.rcv_nxt;
        // Until an ACK is sent, no timestamp beyond it may be echoed (RFC 7323 §4.3).
        self.last_ack_sent = self.rcv_nxt;
        self.flags.timestamps &= options.timestamps.is_some();
        self.flags.sack &= options.sack_permitted;
        self.flags.scaling &= options.window_scale.is_some();
        let announced = options.mss.unwrap_or(Self::mss_default(&self.tuple)).max(Self::MSS_MIN);
        self.mss = self.mss.min(announced);
        if let (true, Some(stamps)) = (self.flags.timestamps, options.timestamps) {
            self.ts_recent = stamps.value;
            self.mss -= Self::TIMESTAMPS_LEN;
        }
        self.negotiate_path(announced);
        match options.window_scale {
            Some(shift) if self.flags.scaling => self.send_scale = shift,
            _ => self.recv_scale = 0,
        }
        self.congestion = Congestion::new(config.congestion, self.mss);
    }

    /// Ends the connection.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>, reason: CloseReason) {
        self.state = State::Closed;
        self.reason.get_or_insert(reason);
        self.release_send(cx.pool);
        self.rto_at = Time::MAX;
        self.acks_due = 0;
    }

    /// Ends the connection because the peer did not answer in time.
    pub(crate) fn time_out(&mut self, cx: &mut Context<'_>) {
        let unreachable = self.rare.as_deref().and_then(|rare| rare.unreachable);
        self.end(cx, unreachable.map_or(CloseReason::TimedOut, CloseReason::Unreachable));
    }

    /// Index of the listener that the connection came to.
    #[inline]
    pub(crate) fn listener(&self) -> Option<u16> {
        self.listener.map(|after| after.get() - 1)
    }

    /// Sets the index of the listener, below 65,535.
    pub(crate) fn set_listener(&mut self, index: u16) {
        self.listener = NonZeroU16::new(index.checked_add(1).expect("fewer than 65,536 listeners"));
    }

    /// Everything up to `ack` is acknowledged, so the peer is reachable.
    #[inline]
    pub(crate) fn set_acknowledged(&mut self, ack: Seq) {
        self.snd_una = ack;
        if let Some(rare) = &mut self.rare {
            rare.unreachable = None;
        }
    }

    /// Releases the send side and the reassembly queue; nothing is sent or reassembled afterwards.
    pub(crate) fn release_send(&mut self, pool: &mut Pool) {
        self.send.release(pool);
        self.flight.clear(self.snd_nxt, pool);
        self.early_at = Time::MAX;
        self.tlp = None;
        if let Some(mut reassembly) = self.reassembly.take() {
            reassembly.release(pool);
        }
    }

    /// Frees all memory.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        self.release_send(pool);
        self.recv.release(pool);
        self.classifier = None;
        self.rare = None;
    }

    /// Free space in the receive buffer, in bytes.
    #[inline]
    pub(crate) fn receive_space(&self) -> u32 {
        let space = self.window.limit().saturating_sub(self.recv.len()) as u64;
        space.min(65_535 << self.recv_scale) as u32
    }

    /// Receive window: the free space, but never less than what was already advertised.
    #[inline]
    pub(super) fn receive_window(&self) -> u32 {
        self.receive_space().max(self.rcv_adv.distance(self.rcv_nxt).max(0) as u32)
    }

    /// Our timestamp clock: milliseconds plus a secret offset.
    #[inline]
    pub(crate) fn timestamp(&self, now: Time) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.ts_offset)
    }

    /// Flow statistics for the classifier.
    pub(crate) fn flow(&self) -> FlowState {
        FlowState {
            srtt: self.rtt.srtt(),
            loss: self.segments.loss(),
            received: Bytes::new(self.received),
            sent: Bytes::new(self.acknowledged),
            cwnd: self.congestion.window(),
            recovering: self.recovery.repairs(),
        }
    }

    /// Bytes sent and not yet acknowledged.
    pub(super) fn unacknowledged(&self) -> Bytes {
        Bytes::new(u64::from(self.snd_nxt - self.snd_una))
    }

    /// FlightSize from which a fast recovery reduces: the unacknowledged bytes without those that
    /// limited transmit sent beyond the window (RFC 5681 §3.2 step 2).
    pub(super) fn flight_size(&self) -> Bytes {
        self.unacknowledged().min(self.congestion.window())
    }
}
