//! Transport of the papers' simulations: ns-2's DCTCP.
//!
//! Not a host's TCP: large initial window, no handshake, loss detection by a fixed timer
//! without backoff, since packets are sprayed over all paths and reordering must not count as
//! loss. The receiver acknowledges every segment, names it, and echoes its mark.
//! Source: DCTCP, SIGCOMM '10 §3; parameters of PIAS, NSDI '15 §6, which FISH uses.

use std::collections::VecDeque;

use queueing::{Bytes, Priority, Span, Thresholds, Time};

use super::packet::{ACK_BYTES, MSS, Packet, PacketKind, SEGMENT_BYTES};
use super::protocol::{End, FlowParams, Protocol};

/// Transport settings.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ns2Settings {
    /// Initial window, in segments.
    pub window: f64,
    /// Maximum window, in segments.
    pub window_max: f64,
    /// Retransmission timeout after the last progress; all unacknowledged segments then count
    /// as lost.
    #[serde(deserialize_with = "crate::serde_text::text")]
    pub rto: Span,
    /// Gain of the estimate of α: g.
    pub gain: f64,
}

impl Default for Ns2Settings {
    /// Values of the papers: 70 segments, 239, 2 ms, 1/16.
    fn default() -> Self {
        Self { window: 70.0, window_max: 239.0, rto: Span::from_millis(2), gain: 1.0 / 16.0 }
    }
}

impl Ns2Settings {
    /// Reason why the settings are invalid, if they are.
    pub(super) fn problem(&self) -> Option<String> {
        let Self { window, window_max, rto, gain } = *self;
        if !(window >= 1.0 && window_max >= 1.0) {
            return Some(format!(
                "transport: windows {window} and {window_max} are not both at least 1 segment"
            ));
        }
        (rto == Span::ZERO || !(gain > 0.0 && gain <= 1.0)).then(|| {
            format!("transport: rto {rto} and gain {gain} are not both above 0 (and the gain at most 1)")
        })
    }
}

/// Hosts that run this transport.
pub(super) struct Ns2 {
    settings: Ns2Settings,
    thresholds: Thresholds,
}

/// Transport header.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketPayload {
    /// Segment carried or acknowledged.
    segment: u32,
    /// In an acknowledgement: every segment before this one has arrived.
    before: u32,
    /// In an acknowledgement: echo of the segment's mark.
    echo: bool,
}

impl Ns2 {
    /// Hosts with checked settings.
    pub fn new(settings: Ns2Settings, thresholds: Thresholds) -> Self {
        Self { settings, thresholds }
    }
}

impl Protocol for Ns2 {
    type Payload = PacketPayload;
    type Sender = Sender;
    type Receiver = Receiver;
    /// Late acknowledgements are sent but have no effect.
    const ANSWERS_LATE: bool = true;

    fn open(&mut self, _: Time, params: &FlowParams) -> Sender {
        Sender { floor: params.floor, ..Sender::new(params.flow, params.segments, &self.settings) }
    }

    fn accept(&mut self, _: Time, packet: &Packet, payload: &PacketPayload) -> Receiver {
        let mut receiver = Receiver { flow: packet.flow, received: Segments::default(), pending_ack: None };
        receiver.on_data(payload.segment, packet.marked);
        receiver
    }

    fn is_done(&self, sender: &Sender) -> bool {
        sender.done()
    }

    fn arrived(&self, receiver: &Receiver) -> u32 {
        receiver.received.before
    }

    fn retransmitted(&self, sender: &Sender) -> u32 {
        sender.retransmitted
    }

    fn close_sender(&mut self, _: Sender) {}

    fn close_receiver(&mut self, _: Receiver) {}
}

impl End<Ns2> for Sender {
    fn on_packet(&mut self, hosts: &mut Ns2, now: Time, _: &Packet, payload: &PacketPayload) {
        self.on_ack(now, payload, &hosts.settings);
    }

    fn poll(&mut self, hosts: &mut Ns2, now: Time) -> Option<(Packet, PacketPayload)> {
        let segment = self.next_segment(now, &hosts.settings)?;
        let packet = Packet {
            flow: self.flow,
            segment,
            bytes: SEGMENT_BYTES,
            kind: PacketKind::Data,
            level: hosts.thresholds.level(Bytes::new(u64::from(segment) * MSS)).max(self.floor),
            left: self.count - self.acked.len,
            capable: true,
            marked: false,
        };
        Some((packet, PacketPayload { segment, before: 0, echo: false }))
    }

    fn deadline(&self, _: &Ns2) -> Time {
        self.expires
    }

    fn on_timer(&mut self, hosts: &mut Ns2, now: Time) -> u32 {
        self.on_timeout(now, &hosts.settings);
        1
    }
}

impl End<Ns2> for Receiver {
    fn on_packet(&mut self, _: &mut Ns2, _: Time, packet: &Packet, payload: &PacketPayload) {
        self.on_data(payload.segment, packet.marked);
    }

    fn poll(&mut self, _: &mut Ns2, _: Time) -> Option<(Packet, PacketPayload)> {
        let payload = self.pending_ack.take()?;
        let packet = Packet {
            flow: self.flow,
            segment: payload.segment,
            bytes: ACK_BYTES,
            kind: PacketKind::Ack,
            level: Priority::HIGHEST,
            left: 0,
            capable: false,
            marked: false,
        };
        Some((packet, payload))
    }

    fn deadline(&self, _: &Ns2) -> Time {
        Time::MAX
    }

    fn on_timer(&mut self, _: &mut Ns2, _: Time) -> u32 {
        0
    }
}

/// Set of received segments.
#[derive(Clone, Debug, Default)]
struct Segments {
    /// Bitmap from `before` on, 64 segments per word, up to the highest one received.
    bits: VecDeque<u64>,
    /// All segments before this one are received.
    before: u32,
    /// Number of segments received.
    len: u32,
}

impl Segments {
    /// Index of the word of `segment`, which is at or after `before`.
    fn word_index(&self, segment: u32) -> usize {
        (segment / 64 - self.before / 64) as usize
    }

    fn has(&self, segment: u32) -> bool {
        segment < self.before
            || self.bits.get(self.word_index(segment)).is_some_and(|bits| bits >> (segment % 64) & 1 == 1)
    }

    fn add(&mut self, segment: u32) {
        if self.has(segment) {
            return;
        }
        let index = self.word_index(segment);
        if self.bits.len() <= index {
            self.bits.resize(index + 1, 0);
        }
        self.bits[index] |= 1 << (segment % 64);
        self.len += 1;
        self.add_before(0);
    }

    /// Adds all segments before `before`.
    fn add_before(&mut self, before: u32) {
        let mut end = self.before;
        while end < before {
            self.len += u32::from(!self.has(end));
            end += 1;
        }
        while self.has(end) {
            end += 1;
        }
        let past = self.word_index(end).min(self.bits.len());
        self.bits.drain(..past);
        self.before = end;
    }
}

/// Sending end of one flow.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    flow: u32,
    count: u32,
    /// Highest level of the flow's packets.
    floor: Priority,
    /// Segments known to have arrived.
    acked: Segments,
    /// Next segment to send; after a timeout, to retransmit.
    next: u32,
    /// One past the highest segment sent.
    sent: u32,
    window: f64,
    threshold: f64,
    /// Smoothed fraction of marked segments: α.
    alpha: f64,
    /// Acknowledged segments, and marked ones among them, in the current observation window. It
    /// ends when more than `window_ends` segments are acknowledged.
    answered: u32,
    marked: u32,
    window_ends: u32,
    /// No further reduction until more than this is acknowledged.
    cut_until: u32,
    /// Cause of the last reduction.
    cut_by: Option<Cut>,
    /// True if the last acknowledgement echoed a mark.
    last_marked: bool,
    /// Retransmission timer.
    expires: Time,
    retransmitted: u32,
}

impl Sender {
    fn new(flow: u32, count: u32, settings: &Ns2Settings) -> Self {
        Self {
            flow,
            count,
            floor: Priority::HIGHEST,
            acked: Segments::default(),
            next: 0,
            sent: 0,
            window: settings.window,
            threshold: f64::INFINITY,
            alpha: 0.0,
            answered: 0,
            marked: 0,
            window_ends: 0,
            cut_until: 0,
            cut_by: None,
            last_marked: false,
            expires: Time::MAX,
            retransmitted: 0,
        }
    }

    /// True if the receiver is known to have everything.
    fn done(&self) -> bool {
        self.acked.before == self.count
    }

    /// Next segment that the window allows at `now`.
    fn next_segment(&mut self, now: Time, settings: &Ns2Settings) -> Option<u32> {
        while self.next < self.count && self.acked.has(self.next) {
            self.next += 1;
        }
        let window = self.window.min(settings.window_max) as u32;
        if self.next >= self.count || self.next >= self.acked.before.saturating_add(window.max(1)) {
            return None;
        }
        let segment = self.next;
        self.next += 1;
        if segment < self.sent {
            self.retransmitted += 1;
        }
        self.sent = self.sent.max(self.next);
        if self.expires == Time::MAX {
            self.expires = now + settings.rto;
        }
        Some(segment)
    }

    /// Handles an acknowledgement.
    fn on_ack(&mut self, now: Time, ack: &PacketPayload, settings: &Ns2Settings) {
        let before = self.acked.before;
        self.acked.add(ack.segment);
        self.acked.add_before(ack.before);
        let acked = self.acked.before - before;
        self.estimate(acked.max(1), ack.echo, settings);
        if acked == 0 {
            return;
        }
        if ack.echo && (self.acked.before > self.cut_until || self.cut_by == Some(Cut::Timeout)) {
            self.window = (self.window * (1.0 - self.alpha / 2.0)).max(1.0);
            self.threshold = self.window.floor().max(2.0);
            (self.cut_until, self.cut_by) = (self.sent, Some(Cut::Mark));
        }
        // Only the first of consecutive marked acknowledgements suppresses window growth.
        if !ack.echo || self.last_marked {
            self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
            self.window = self.window.min(settings.window_max);
        }
        self.last_marked = ack.echo;
        self.expires = if self.acked.before == self.sent { Time::MAX } else { now + settings.rto };
        self.next = self.next.max(self.acked.before);
    }

    /// Updates α, about once per round trip.
    fn estimate(&mut self, acked: u32, marked: bool, settings: &Ns2Settings) {
        self.answered += acked;
        self.marked += if marked { acked } else { 0 };
        if self.acked.before > self.window_ends {
            let share = f64::from(self.marked) / f64::from(self.answered);
            self.alpha += settings.gain * (share - self.alpha);
            (self.answered, self.marked, self.window_ends) = (0, 0, self.sent);
        }
    }

    /// Retransmission timeout: resends all unacknowledged segments.
    fn on_timeout(&mut self, now: Time, settings: &Ns2Settings) {
        if self.cut_by != Some(Cut::Mark) {
            self.threshold = (self.window / 2.0).floor().max(2.0);
            self.cut_by = Some(Cut::Timeout);
        }
        self.window = 1.0;
        self.next = self.acked.before;
        (self.cut_until, self.window_ends) = (self.sent, self.next);
        self.expires = now + settings.rto;
    }
}

/// Cause of a window reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Mark,
    Timeout,
}

/// Receiving end of one flow.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    flow: u32,
    received: Segments,
    /// Pending acknowledgement of the last segment received.
    pending_ack: Option<PacketPayload>,
}

impl Receiver {
    /// Receives a segment and prepares its acknowledgement.
    fn on_data(&mut self, segment: u32, marked: bool) {
        self.received.add(segment);
        self.pending_ack = Some(PacketPayload { segment, before: self.received.before, echo: marked });
    }
}
