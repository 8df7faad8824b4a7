//! The transport of the papers' simulations: DCTCP as ns-2 had it there.
//!
//! Not TCP as hosts speak it: a large first window, no handshake, losses found
//! by a timer alone that is fixed and does not back off, since the network
//! sprays packets over all ways and reordering must not count as loss. The
//! receiver answers every segment, says which one, and echoes its mark.
//! Source: DCTCP, SIGCOMM '10 §3; parameters of the simulations that FISH
//! repeats: PIAS, NSDI '15 §6.

use queueing::{Bytes, Span, Thresholds, Time};

use super::packet::{ACK_BYTES, Kind, MSS, Packet, SEGMENT_BYTES};

/// How this transport is set up.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Segments that may be sent at once.
    pub window: f64,
    /// Segments that may be on their way at most.
    pub window_max: f64,
    /// How long after the last progress everything unanswered counts as lost.
    #[serde(deserialize_with = "crate::text::text")]
    pub rto: Span,
    /// How much of the last window's marks the estimate takes over: g.
    pub gain: f64,
}

impl Default for Settings {
    /// As in the papers: 70 segments, 239, 2 ms, 1/16.
    fn default() -> Self {
        Self { window: 70.0, window_max: 239.0, rto: Span::from_millis(2), gain: 1.0 / 16.0 }
    }
}

/// Which segments are there.
#[derive(Clone, Debug)]
struct Segments {
    bits: Vec<u64>,
    /// All before this one are.
    before: u32,
    /// How many are.
    len: u32,
}

impl Segments {
    fn new(count: u32) -> Self {
        Self { bits: vec![0; count.div_ceil(64) as usize], before: 0, len: 0 }
    }

    fn has(&self, segment: u32) -> bool {
        segment < self.before || self.bits[segment as usize / 64] >> (segment % 64) & 1 == 1
    }

    /// Adds one; whether it was new.
    fn add(&mut self, segment: u32, count: u32) -> bool {
        let new = !self.has(segment);
        self.len += u32::from(new);
        self.bits[segment as usize / 64] |= 1 << (segment % 64);
        while self.before < count && self.has(self.before) {
            self.before += 1;
        }
        new
    }

    /// All before `before` are there.
    fn add_before(&mut self, before: u32, count: u32) {
        while self.before < before {
            self.len += u32::from(!self.has(self.before));
            self.before += 1;
        }
        while self.before < count && self.has(self.before) {
            self.before += 1;
        }
    }
}

/// The sending end of one flow.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    flow: u32,
    count: u32,
    /// What the receiver is known to have.
    known: Segments,
    /// The next to send; after a timeout, to send again.
    next: u32,
    /// One after the last that was ever sent.
    sent: u32,
    window: f64,
    threshold: f64,
    /// The share of marked segments, smoothed: α.
    alpha: f64,
    /// Segments answered, and those of them that were marked, in the window
    /// that ends once more than `window_ends` are answered.
    answered: u32,
    marked: u32,
    window_ends: u32,
    /// No further cut before more than this is answered.
    cut_until: u32,
    /// What made the window smaller last.
    cut_by: Option<Cut>,
    /// Whether the last answer was marked.
    burst: bool,
    /// When everything unanswered counts as lost.
    pub expires: Time,
    pub retransmitted: u32,
    pub timeouts: u32,
}

impl Sender {
    pub fn new(flow: u32, count: u32, settings: &Settings) -> Self {
        Self {
            flow,
            count,
            known: Segments::new(count),
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
            burst: false,
            expires: Time::MAX,
            retransmitted: 0,
            timeouts: 0,
        }
    }

    /// Whether the receiver is known to have everything.
    pub fn done(&self) -> bool {
        self.known.before == self.count
    }

    /// The next packet that may be sent now.
    pub fn poll(&mut self, now: Time, settings: &Settings, thresholds: &Thresholds) -> Option<Packet> {
        while self.next < self.count && self.known.has(self.next) {
            self.next += 1;
        }
        let window = self.window.min(settings.window_max) as u32;
        if self.next >= self.count || self.next >= self.known.before.saturating_add(window.max(1)) {
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
        Some(Packet {
            flow: self.flow,
            segment,
            bytes: SEGMENT_BYTES,
            before: 0,
            kind: Kind::Data,
            level: thresholds.level(Bytes::new(u64::from(segment) * MSS)),
            left: self.count - self.known.len,
            marked: false,
        })
    }

    /// An answer came.
    pub fn on_ack(&mut self, now: Time, ack: &Packet, settings: &Settings) {
        let before = self.known.before;
        self.known.add(ack.segment, self.count);
        self.known.add_before(ack.before, self.count);
        let acked = self.known.before - before;
        self.estimate(acked.max(1), ack.marked, settings);
        if acked == 0 {
            return;
        }
        if ack.marked && (self.known.before > self.cut_until || self.cut_by == Some(Cut::Timeout)) {
            self.window = (self.window * (1.0 - self.alpha / 2.0)).max(1.0);
            self.threshold = self.window.floor().max(2.0);
            (self.cut_until, self.cut_by) = (self.sent, Some(Cut::Mark));
        }
        // Of the answers in a row that are marked only the first keeps the
        // window from growing.
        if !ack.marked || self.burst {
            self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
            self.window = self.window.min(settings.window_max);
        }
        self.burst = ack.marked;
        self.expires = if self.known.before == self.sent { Time::MAX } else { now + settings.rto };
        self.next = self.next.max(self.known.before);
    }

    /// Counts towards α, which is estimated anew about once a round trip.
    fn estimate(&mut self, acked: u32, marked: bool, settings: &Settings) {
        self.answered += acked;
        self.marked += if marked { acked } else { 0 };
        if self.known.before > self.window_ends {
            let share = f64::from(self.marked) / f64::from(self.answered);
            self.alpha += settings.gain * (share - self.alpha);
            (self.answered, self.marked, self.window_ends) = (0, 0, self.sent);
        }
    }

    /// Nothing came for long: all that is not known to be there is sent again.
    pub fn on_timeout(&mut self, now: Time, settings: &Settings) {
        self.timeouts += 1;
        if self.cut_by != Some(Cut::Mark) {
            self.threshold = (self.window / 2.0).floor().max(2.0);
            self.cut_by = Some(Cut::Timeout);
        }
        self.window = 1.0;
        self.next = self.known.before;
        (self.cut_until, self.window_ends) = (self.sent, self.next);
        self.expires = now + settings.rto;
    }
}

/// Why a window became smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Mark,
    Timeout,
}

/// The receiving end of one flow.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    count: u32,
    got: Segments,
}

impl Receiver {
    pub fn new(count: u32) -> Self {
        Self { count, got: Segments::new(count) }
    }

    /// Takes a segment and answers it.
    pub fn on_data(&mut self, data: &Packet) -> Packet {
        self.got.add(data.segment, self.count);
        Packet {
            bytes: ACK_BYTES,
            before: self.got.before,
            kind: Kind::Ack,
            level: queueing::Priority::HIGHEST,
            ..*data
        }
    }
}
