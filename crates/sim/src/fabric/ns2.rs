//! The transport of the papers' simulations: DCTCP as ns-2 had it there.
//!
//! Not TCP as hosts speak it: a large first window, no handshake, losses found
//! by a timer alone that is fixed and does not back off, since the network
//! sprays packets over all ways and reordering must not count as loss. The
//! receiver answers every segment, says which one, and echoes its mark.
//! Source: DCTCP, SIGCOMM '10 §3; parameters of the simulations that FISH
//! repeats: PIAS, NSDI '15 §6.

use queueing::{Bytes, Priority, Span, Thresholds, Time};

use super::packet::{ACK_BYTES, Kind, MSS, Packet, SEGMENT_BYTES};
use super::protocol::Protocol;

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

impl Settings {
    /// Why this cannot be, if so.
    pub(super) fn problem(&self) -> Option<String> {
        let Self { window, window_max, rto, gain } = *self;
        if !(window >= 1.0 && window_max >= 1.0) {
            return Some(format!("transport: windows {window} and {window_max}, not 1 segment and more"));
        }
        (rto == Span::ZERO || !(gain > 0.0 && gain <= 1.0)).then(|| {
            format!("transport: rto {rto} and gain {gain}, not more than 0 (and the gain at most 1)")
        })
    }
}

/// Hosts that speak so.
pub(super) struct Ns2 {
    settings: Settings,
    thresholds: Thresholds,
}

/// Both ends of a flow.
pub(super) struct Ends {
    flow: u32,
    sender: Sender,
    receiver: Receiver,
}

/// What a packet says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    /// The segment it carries, or the one it answers.
    segment: u32,
    /// Of an answer: every segment before this one has arrived.
    before: u32,
    /// Of an answer: what it answers had met a long queue.
    echo: bool,
}

impl Ns2 {
    /// Hosts of these settings, which have been checked.
    pub fn new(settings: Settings, thresholds: Thresholds) -> Self {
        Self { settings, thresholds }
    }
}

impl Protocol for Ns2 {
    type Said = Said;
    type Ends = Ends;

    fn begin(&mut self, _: Time, flow: u32, segments: u32) -> Ends {
        Ends { flow, sender: Sender::new(segments, &self.settings), receiver: Receiver::new(segments) }
    }

    fn hear(&mut self, now: Time, ends: &mut Ends, packet: &Packet, said: &Said) {
        match packet.kind {
            Kind::Data => ends.receiver.on_data(said.segment, packet.marked),
            Kind::Ack if ends.sender.done() => {}
            Kind::Ack => ends.sender.on_ack(now, said, &self.settings),
        }
    }

    fn poll(&mut self, now: Time, ends: &mut Ends, kind: Kind) -> Option<(Packet, Said)> {
        let said = match kind {
            Kind::Data => {
                let segment = ends.sender.poll(now, &self.settings)?;
                Said { segment, before: 0, echo: false }
            }
            Kind::Ack => ends.receiver.owed.take()?,
        };
        let segment = said.segment;
        let sent = Bytes::new(u64::from(segment) * MSS);
        let (bytes, level) = match kind {
            Kind::Data => (SEGMENT_BYTES, self.thresholds.level(sent)),
            Kind::Ack => (ACK_BYTES, Priority::HIGHEST),
        };
        let left = ends.sender.count - ends.sender.known.len;
        let capable = kind == Kind::Data;
        Some((Packet { flow: ends.flow, segment, bytes, kind, level, left, capable, marked: false }, said))
    }

    fn due(&self, ends: &Ends, kind: Kind) -> Time {
        if kind == Kind::Data { ends.sender.expires } else { Time::MAX }
    }

    fn on_due(&mut self, now: Time, ends: &mut Ends) {
        if ends.sender.expires <= now {
            ends.sender.on_timeout(now, &self.settings);
        }
    }

    fn is_done(&self, ends: &Ends) -> bool {
        ends.sender.done()
    }

    /// The receiver still answers what comes late.
    fn retire(&mut self, ends: &mut Ends) {
        ends.sender.known.bits = Vec::new();
        ends.sender.expires = Time::MAX;
    }

    fn tally(&self, ends: &Ends) -> (u32, u32) {
        (ends.sender.retransmitted, ends.sender.timeouts)
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

    fn add(&mut self, segment: u32, count: u32) {
        self.len += u32::from(!self.has(segment));
        self.bits[segment as usize / 64] |= 1 << (segment % 64);
        self.add_before(0, count);
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
struct Sender {
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
    expires: Time,
    retransmitted: u32,
    timeouts: u32,
}

impl Sender {
    fn new(count: u32, settings: &Settings) -> Self {
        Self {
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
    fn done(&self) -> bool {
        self.known.before == self.count
    }

    /// The next segment that may be sent now.
    fn poll(&mut self, now: Time, settings: &Settings) -> Option<u32> {
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
        Some(segment)
    }

    /// An answer came.
    fn on_ack(&mut self, now: Time, ack: &Said, settings: &Settings) {
        let before = self.known.before;
        self.known.add(ack.segment, self.count);
        self.known.add_before(ack.before, self.count);
        let acked = self.known.before - before;
        self.estimate(acked.max(1), ack.echo, settings);
        if acked == 0 {
            return;
        }
        if ack.echo && (self.known.before > self.cut_until || self.cut_by == Some(Cut::Timeout)) {
            self.window = (self.window * (1.0 - self.alpha / 2.0)).max(1.0);
            self.threshold = self.window.floor().max(2.0);
            (self.cut_until, self.cut_by) = (self.sent, Some(Cut::Mark));
        }
        // Of the answers in a row that are marked only the first keeps the
        // window from growing.
        if !ack.echo || self.burst {
            self.window += if self.window < self.threshold { 1.0 } else { 1.0 / self.window };
            self.window = self.window.min(settings.window_max);
        }
        self.burst = ack.echo;
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
    fn on_timeout(&mut self, now: Time, settings: &Settings) {
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
struct Receiver {
    count: u32,
    got: Segments,
    /// The answer to the segment that has just come.
    owed: Option<Said>,
}

impl Receiver {
    fn new(count: u32) -> Self {
        Self { count, got: Segments::new(count), owed: None }
    }

    /// Takes a segment, `marked` or not, and owes an answer.
    fn on_data(&mut self, segment: u32, marked: bool) {
        self.got.add(segment, self.count);
        self.owed = Some(Said { segment, before: self.got.before, echo: marked });
    }
}
