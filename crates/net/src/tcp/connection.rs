//! A connection's state, and what the application and the clock do to it.
//!
//! Kept small, since there may be a hundred thousand: buffers, reassembly and
//! scoreboard own memory only while they hold something.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;

use queueing::{Bytes, Label, Time, TimerKey};

use super::answers::Answers;
use super::autotune::ReceiveWindow;
use super::buffer::{ByteQueue, Pool};
use super::congestion::{Congestion, CongestionControl};
use super::flight::Flight;
use super::manners::Manners;
use super::patience::Patience;
use super::rack::Reordering;
use super::reassembly::Reassembly;
use super::recovery::TailProbe;
use super::rtt::RttEstimator;
use super::spurious::Undo;
use super::state::{State, Step};
use super::transmit::Transmit;
use crate::classify::{FlowState, Private, TransportClassifier};
use crate::stack::{Challenges, CloseReason, Config, ConnId, Counters, Event, EventKind, Places};
use crate::wire::FourTuple;
use crate::wire::tcp::{Options, Seq};

/// What a connection may use of the stack while it handles something.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) id: ConnId,
    pub(crate) config: &'a Config,
    pub(crate) pool: &'a mut Pool,
    pub(crate) counters: &'a mut Counters,
    pub(crate) challenges: &'a mut Challenges,
    pub(crate) events: &'a mut VecDeque<Event>,
    /// The label of the packet at hand, or the default.
    pub(crate) label: Label,
    /// When the device received it.
    pub(crate) received: Time,
    /// Its congestion bits: 0 not capable, 1 and 2 capable, 3 congestion experienced.
    pub(crate) ecn: u8,
}

impl Context<'_> {
    pub(crate) fn push(&mut self, kind: EventKind) {
        self.events.push_back(Event { conn: self.id, kind, label: self.label, received: self.received });
    }

    /// Whether one more challenge may be sent; counts it.
    pub(super) fn may_challenge(&mut self) -> bool {
        self.challenges.allow(self.now, self.config.challenges_per_second_max, self.counters)
    }
}

/// Yes or no about a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// The application closed its half: FIN follows the last byte.
    pub(crate) fin_queued: bool,
    /// FIN was sent at least once.
    pub(crate) fin_sent: bool,
    /// The application knows the connection: it asked for it, or heard `Accepted`.
    pub(crate) announced: bool,
    /// `send` took less than it was given; `Writable` is owed.
    pub(crate) blocked: bool,
    /// Both sides send timestamps (RFC 7323).
    pub(crate) timestamps: bool,
    /// Both sides understand SACK.
    pub(crate) sack: bool,
    /// Both sides scale windows.
    pub(crate) scaling: bool,
    /// The next retransmission ignores the congestion window.
    pub(crate) retransmit_now: bool,
    /// A probe for life or window is due.
    pub(crate) probe_due: bool,
    /// What is to be sent waits for the pacer.
    pub(crate) paced: bool,
    /// A tail loss probe is due.
    pub(crate) tail_due: bool,
    /// An acknowledgement of data waits for company, until a timer fires.
    pub(crate) ack_delayed: bool,
    /// An acknowledgement of data waits for company, until the owner is idle
    /// or has sent once; the stack's list knows.
    pub(crate) ack_waits: bool,
    pub(crate) ack_listed: bool,
    /// Small segments wait for what is in flight (Nagle's algorithm).
    pub(crate) nagle: bool,
    /// A good cookie opened it: data may flow before the handshake is complete.
    pub(crate) fast_open: bool,
    /// Our answer to the SYN brings a Fast Open cookie.
    pub(crate) gives_cookie: bool,
    /// `send` found no memory; the pool knows.
    pub(crate) starved: bool,
    /// The connection waits for a neighbour's hardware address.
    pub(crate) parked: bool,
    /// The flow table knows the connection.
    pub(crate) linked: bool,
    /// TIME-WAIT has begun and was noted.
    pub(crate) aging: bool,
    /// `Closed` was pushed.
    pub(crate) closed_pushed: bool,
    /// `Closed` was polled, or the application let go: the id is invalid, the
    /// slot lives on until the connection ends.
    pub(crate) detached: bool,
}

/// Whether lost segments are being repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Nothing is known to be lost.
    None,
    /// A segment was found lost; over once `until` is acknowledged.
    Fast { until: Seq },
    /// The timer fired; over once `until` is acknowledged.
    Timeout { until: Seq },
    /// Nothing is lost, but the peer echoed congestion: the flight shrinks to
    /// the new window; over once `until` is acknowledged (CWR).
    Reduction { until: Seq },
}

impl Recovery {
    /// Whether something lost is being repaired.
    #[inline]
    pub(crate) fn repairs(self) -> bool {
        matches!(self, Self::Fast { .. } | Self::Timeout { .. })
    }

    /// Whether the flight is brought down to a new window in proportion (PRR).
    #[inline]
    pub(crate) fn apportions(self) -> bool {
        matches!(self, Self::Fast { .. } | Self::Reduction { .. })
    }
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) tuple: FourTuple,
    pub(crate) state: State,
    pub(crate) flags: Flags,
    /// Where it waits for its turn to send.
    pub(crate) places: Places,
    /// How urgent what it sends is.
    pub(crate) transmit: Transmit,
    pub(crate) mss: u16,
    pub(crate) send_scale: u8,
    pub(crate) recv_scale: u8,
    pub(crate) duplicate_acks: u8,
    /// Timeouts or probes in a row without any answer.
    pub(crate) retries: u8,
    /// Segments that only acknowledge and that are owed to the peer.
    pub(crate) acks_due: u8,
    /// Keep-alive probes in a row without any answer.
    pub(crate) keep_alives: u8,

    // Ours: acknowledged up to `una`, sent up to `nxt`; `flight` knows what
    // became of what lies between.
    pub(crate) snd_una: Seq,
    pub(crate) snd_nxt: Seq,
    pub(crate) snd_wnd: u32,
    pub(crate) snd_wnd_max: u32,
    pub(crate) snd_wl1: Seq,
    pub(crate) snd_wl2: Seq,
    pub(crate) recovery: Recovery,
    pub(crate) undo: Undo,
    pub(crate) flight: Flight,
    pub(crate) send: ByteQueue,

    // The peer's: received up to `nxt`, invited up to `adv`.
    pub(crate) rcv_nxt: Seq,
    pub(crate) rcv_adv: Seq,
    pub(crate) recv: ByteQueue,
    pub(crate) ts_recent: u32,
    pub(crate) ts_offset: u32,
    pub(crate) last_ack_sent: Seq,
    /// When the acknowledgement that waits is due, in microseconds.
    pub(crate) ack_due_us: u32,
    pub(crate) window: ReceiveWindow,
    pub(crate) answers: Answers,
    /// Where the peer's FIN stands, if it came early.
    pub(crate) early_fin: Option<Seq>,

    pub(crate) congestion: Congestion,
    pub(crate) rtt: RttEstimator,
    pub(crate) reordering: Reordering,
    /// A probe for a lost tail that was not answered yet.
    pub(crate) tail: Option<TailProbe>,
    /// When to probe for a lost tail, or to give up on a late segment.
    pub(crate) early_at: Time,
    /// When to retransmit or probe; `Time::MAX` for never.
    pub(crate) rto_at: Time,
    pub(crate) heard_at: Time,
    /// The stack's timer for this connection, and when it fires.
    pub(crate) timer: Option<(Time, TimerKey)>,

    pub(crate) received: u64,
    pub(crate) acknowledged: u64,
    pub(crate) segments_sent: u32,
    pub(crate) segments_again: u32,

    pub(crate) reassembly: Option<Box<Reassembly>>,
    pub(crate) classifier: Option<TransportClassifier>,
    pub(crate) app: Option<Box<Arc<dyn Any + Send + Sync>>>,
    pub(crate) patience: Option<Box<Patience>>,
    pub(crate) manners: Option<Box<Manners>>,
    pub(crate) listener: Option<u16>,
    pub(crate) reason: Option<CloseReason>,
    pub(crate) private: Private,
}

impl Connection {
    /// Most timeouts in a row (RFC 1122 §4.2.3.5: at least 100 s in all).
    const RETRIES_MAX: u8 = 15;
    /// Most timeouts of a SYN: 183 s in all, when a round trip was never timed
    /// (RFC 9293 §3.8.3 asks for at least three minutes).
    const RETRIES_SYN_MAX: u8 = 7;
    /// Most timeouts of the answer to a listener's SYN: 63 s in all, so that
    /// half-open connections make room.
    const RETRIES_SYN_RECEIVED_MAX: u8 = 5;
    /// A peer that announces less gets this, unless our MTU is smaller still.
    pub(super) const MSS_MIN: u16 = 88;
    /// Bytes that timestamps take up in every segment.
    pub(super) const TIMESTAMPS_LEN: u16 = 12;

    /// A connection that is about to send its SYN.
    pub(crate) fn open(tuple: FourTuple, iss: Seq, ts_offset: u32, now: Time, config: &Config) -> Self {
        let mss = config.mss(tuple.remote);
        Self {
            tuple,
            state: State::SynSent,
            flags: Flags { timestamps: true, sack: true, scaling: true, linked: true, ..Flags::default() },
            places: Places::default(),
            transmit: Transmit::default(),
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
            flight: Flight::new(iss, now),
            send: ByteQueue::default(),
            rcv_nxt: Seq(0),
            rcv_adv: Seq(0),
            recv: ByteQueue::default(),
            ts_recent: 0,
            ts_offset,
            last_ack_sent: Seq(0),
            ack_due_us: 0,
            window: ReceiveWindow::new(now, config),
            answers: Answers::default(),
            early_fin: None,
            congestion: Congestion::new(config.congestion, mss),
            rtt: RttEstimator::new(),
            reordering: Reordering::new(),
            tail: None,
            early_at: Time::MAX,
            rto_at: Time::MAX,
            heard_at: now,
            timer: None,
            received: 0,
            acknowledged: 0,
            segments_sent: 0,
            segments_again: 0,
            reassembly: None,
            classifier: None,
            app: None,
            patience: None,
            manners: Self::manners(config),
            listener: None,
            reason: None,
            private: [0; 64],
        }
    }

    /// The largest segment for a peer that announces none (RFC 9293 §3.7.1).
    pub(crate) fn mss_default(tuple: &FourTuple) -> u16 {
        if tuple.remote.is_ipv4() { 536 } else { 1220 }
    }

    /// Takes over what the peer's SYN says.
    pub(crate) fn negotiate(&mut self, irs: Seq, options: &Options, config: &Config) {
        self.rcv_nxt = irs + 1;
        self.rcv_adv = self.rcv_nxt;
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

    /// Queues bytes for sending; returns how many fit.
    #[inline]
    pub(crate) fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<usize> {
        if !self.state.can_send() || self.flags.fin_queued {
            return None;
        }
        let room = self.send_limit(cx.config, cx.pool).saturating_sub(self.send.len());
        let fitting = bytes.len().min(room);
        let taken = self.send.affordable(fitting, cx.pool);
        if taken < fitting {
            self.starve(cx);
        }
        if self.send.is_empty() && self.snd_una == self.snd_nxt {
            self.on_resume(cx);
        }
        self.send.push(&bytes[..taken], cx.pool);
        self.flags.blocked |= taken < bytes.len();
        Some(taken)
    }

    /// After a pause longer than a timeout, congestion control may start anew
    /// (RFC 5681 §4.1).
    #[inline]
    fn on_resume(&mut self, cx: &mut Context<'_>) {
        let idle = cx.now.since(self.flight.latest);
        let rto_min = cx.config.rto_min;
        if idle > rto_min && idle > self.rtt.rto(rto_min) && self.state.is_synchronized() {
            self.congestion.on_idle(cx.now, idle);
        }
    }

    /// Forgets the first `n` unread bytes; whether inviting more is worth a segment.
    #[inline]
    pub(crate) fn consume(&mut self, cx: &mut Context<'_>, n: usize) -> bool {
        let n = n.min(self.recv.len());
        self.recv.pop(n, cx.pool);
        self.window.on_read(cx.now, n, self.rtt.srtt(), cx.config, cx.pool);
        if cx.pool.is_short() {
            self.shorten_window(cx);
        }
        self.invite()
    }

    /// Tells the peer of a window that has become larger by what is worth a
    /// segment; whether it has.
    #[inline]
    fn invite(&mut self) -> bool {
        let worth = (self.window.limit() / 2).min(2 * usize::from(self.mss)) as i32;
        let edge = self.rcv_nxt + self.receive_room();
        let due = self.state.can_receive() && edge.distance(self.rcv_adv) >= worth;
        if due {
            self.owe_ack();
        }
        due
    }

    /// Memory is short: promises little, until the pool says otherwise.
    #[inline]
    pub(super) fn shorten_window(&mut self, cx: &mut Context<'_>) {
        self.window.shorten();
        cx.pool.shorten(cx.id.index);
    }

    /// Memory is there again. Nobody else would tell a peer whose window is
    /// closed: the application may wait for the rest of what it has not read.
    pub(crate) fn restore_window(&mut self, config: &Config) {
        self.window.restore(config);
        self.invite();
    }

    /// Most bytes that may wait for their acknowledgement: twice what the
    /// path takes at once, so that acknowledgements never find nothing to send.
    #[inline]
    pub(super) fn send_limit(&self, config: &Config, pool: &Pool) -> usize {
        if pool.is_short() {
            return config.send_buffer.min(ReceiveWindow::SHORT);
        }
        let wanted = self.congestion.window().get().saturating_mul(2) as usize;
        wanted.clamp(config.send_buffer, config.send_buffer_max.max(config.send_buffer))
    }

    #[cold]
    fn starve(&mut self, cx: &mut Context<'_>) {
        cx.counters.memory_refusals += 1;
        if !self.flags.starved {
            self.flags.starved = true;
            cx.pool.starve(cx.id);
        }
    }

    /// The application lets go: our half closes after what is queued, and
    /// what the peer still says is not kept.
    pub(crate) fn let_go(&mut self, cx: &mut Context<'_>) {
        self.close(cx);
        self.recv.release(cx.pool);
        self.classifier = None;
        self.app = None;
        self.flags.blocked = false;
        self.flags.closed_pushed = true;
        self.flags.detached = true;
        self.limit_fin_wait(cx);
    }

    /// Nobody waits for what the peer still has to say: FIN-WAIT-2 ends by
    /// itself, even if the peer lives.
    pub(super) fn limit_fin_wait(&mut self, cx: &Context<'_>) {
        if self.state == State::FinWait2 && self.flags.detached {
            self.rto_at = cx.now + cx.config.fin_wait;
        }
    }

    /// Closes our half after what is queued.
    pub(crate) fn close(&mut self, cx: &mut Context<'_>) {
        if self.flags.fin_queued || !self.state.can_send() {
            return;
        }
        if self.state == State::SynSent {
            self.end(cx, CloseReason::Aborted);
            return;
        }
        self.flags.fin_queued = true;
        // FIN of a half-open connection waits for the handshake.
        if self.state.is_synchronized() {
            self.state = self.state.after(Step::Close);
        }
    }

    /// The connection is over.
    pub(crate) fn end(&mut self, cx: &mut Context<'_>, reason: CloseReason) {
        self.state = State::Closed;
        self.reason.get_or_insert(reason);
        self.release_send(cx.pool);
        self.rto_at = Time::MAX;
        self.acks_due = 0;
    }

    /// Nothing will be sent or reassembled any more.
    pub(crate) fn release_send(&mut self, pool: &mut Pool) {
        self.send.release(pool);
        self.flight.clear(self.snd_nxt, pool);
        self.early_at = Time::MAX;
        self.tail = None;
        if let Some(mut reassembly) = self.reassembly.take() {
            reassembly.release(pool);
        }
    }

    /// Gives all memory back.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        self.release_send(pool);
        self.recv.release(pool);
        self.classifier = None;
        self.app = None;
    }

    /// Bytes that the receive buffer can still take.
    #[inline]
    pub(crate) fn receive_room(&self) -> u32 {
        let room = self.window.limit().saturating_sub(self.recv.len()) as u64;
        room.min(65_535 << self.recv_scale) as u32
    }

    /// How far beyond what has come the peer may send: what there is room for,
    /// and whatever was promised before.
    #[inline]
    pub(super) fn receive_window(&self) -> u32 {
        self.receive_room().max(self.rcv_adv.distance(self.rcv_nxt).max(0) as u32)
    }

    /// Our clock as the peer sees it: milliseconds from a secret start.
    #[inline]
    pub(crate) fn timestamp(&self, now: Time) -> u32 {
        ((now.as_nanos() / 1_000_000) as u32).wrapping_add(self.ts_offset)
    }

    /// What the flow has been like.
    pub(crate) fn flow(&self) -> FlowState {
        let sent = self.segments_sent.max(1);
        FlowState {
            srtt: self.rtt.srtt(),
            loss: self.segments_again as f32 / sent as f32,
            received: Bytes::new(self.received),
            sent: Bytes::new(self.acknowledged),
            cwnd: self.congestion.window(),
            recovering: self.recovery.repairs(),
        }
    }

    /// Keeps unread bytes of a connection that is over as long as TIME-WAIT lasts.
    pub(crate) fn linger(&mut self, now: Time, config: &Config) {
        if self.rto_at == Time::MAX {
            self.rto_at = now + config.time_wait;
        }
    }

    /// Bytes that were sent and not yet acknowledged.
    pub(super) fn unacknowledged(&self) -> Bytes {
        Bytes::new(u64::from(self.snd_nxt - self.snd_una))
    }

    /// What the reduction of a fast recovery is reckoned from: what is
    /// unacknowledged, but not what reports of a hole let out beyond the window
    /// (limited transmit, RFC 5681 §3.2 step 2).
    pub(super) fn flight_size(&self) -> Bytes {
        self.unacknowledged().min(self.congestion.window())
    }

    /// Most timeouts in a row.
    pub(super) fn retries_max(&self) -> u8 {
        match self.state {
            State::SynSent | State::SynReceived { passive: false } => Self::RETRIES_SYN_MAX,
            State::SynReceived { passive: true } => Self::RETRIES_SYN_RECEIVED_MAX,
            _ => Self::RETRIES_MAX,
        }
    }

    /// Starts the retransmission timer unless it runs.
    #[inline]
    pub(crate) fn arm(&mut self, now: Time, config: &Config) {
        if self.rto_at == Time::MAX {
            self.rto_at = self.rto_from(now, config);
        }
    }

    /// Nothing can be sent now: if only the peer's window is the reason, the
    /// timer will ask for it (RFC 9293 §3.8.6.1).
    #[inline]
    pub(crate) fn wait_for_window(&mut self, now: Time, config: &Config) {
        self.flags.paced = self.manners.is_some() && self.wants_data() && self.is_paced(now);
        if self.is_stalled() && !self.flags.paced {
            self.arm(now, config);
        }
    }

    /// When [`Connection::on_timeout`] is due; `Time::MAX` for never.
    #[inline]
    pub(crate) fn deadline(&self, config: &Config) -> Time {
        match self.state {
            State::Closed => self.rto_at,
            State::TimeWait { until } => until,
            _ => self
                .rto_at
                .min(self.early_at)
                .min(self.keep_alive_at(config))
                .min(self.ack_due_at())
                .min(self.manners_due()),
        }
    }

    /// Does what the clock demands.
    pub(crate) fn on_timeout(&mut self, cx: &mut Context<'_>) {
        if let State::TimeWait { until } = self.state {
            if until <= cx.now {
                self.end(cx, CloseReason::Finished);
            }
            return;
        }
        if self.state == State::Closed {
            self.recv.release(cx.pool);
            return;
        }
        self.on_ack_due(cx);
        self.flags.paced &= self.paced_until() > cx.now;
        if self.early_at <= cx.now {
            self.on_early_timeout(cx);
        } else if self.rto_at <= cx.now {
            self.on_retransmission_timeout(cx);
        }
        if self.keep_alive_at(cx.config) <= cx.now {
            self.keep_alives += 1;
            self.flags.probe_due = true;
            let count = self.keep_alive(cx.config).map_or(0, |asked| asked.count.max(1));
            if self.keep_alives > count {
                self.end(cx, CloseReason::TimedOut);
            }
        }
    }
}
