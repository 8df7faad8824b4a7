//! The transport of today's hosts: `net`'s own TCP connections.
//!
//! Not a model of TCP: the state machine that a host runs, with its handshake,
//! ten segments at first, SACK, RACK-TLP, ECN and, unless told otherwise, DCTCP.
//! Packets are headers and lengths; payload is counted (`net::endpoint`).
//!
//! Each flow has a connection of its own: it begins with the SYN and is done
//! when its last byte is acknowledged. Then both ends are forgotten, without
//! FIN, and what still comes for them is not answered. Data is labelled by how
//! much of the flow went before it; what carries none is most urgent.
//! Source: RFC 9293, 6928, 2018, 8985, 3168, 8257.

use net::endpoint::{Endpoint, Sent, Surroundings};
use net::stack::{self, Ecn};
use net::wire::ipv4;
use queueing::{Bytes, Priority, Span, Thresholds, Time};

use super::packet::{Kind, MSS, Packet};
use super::protocol::Protocol;

/// How connections are set up; what is not here is as in [`stack::Config::new`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Congestion control, one of [`net::congestion::ALGORITHMS`]. With `dctcp`
    /// marks are used, with others they are not asked for.
    pub congestion: String,
    /// How much longer than the smoothed round trip a retransmission timeout
    /// is at least.
    #[serde(deserialize_with = "crate::text::text")]
    pub rto_min: Span,
}

impl Default for Settings {
    /// DCTCP, and 5 ms as `net` has it.
    fn default() -> Self {
        Self { congestion: "dctcp".to_owned(), rto_min: Span::from_millis(5) }
    }
}

impl Settings {
    /// Why connections cannot be set up so, if they cannot.
    pub(super) fn problem(&self) -> Option<String> {
        let rto_min = self.rto_min;
        if !(Span::from_micros(1)..=Span::from_secs(60)).contains(&rto_min) {
            return Some(format!("transport: rto_min {rto_min} is outside 1us..=60s"));
        }
        net::congestion::by_name(&self.congestion).err().map(|error| format!("transport: {error}"))
    }

    fn stack(&self) -> stack::Config {
        let known = net::congestion::by_name(&self.congestion).expect("checked settings");
        let dctcp = known.name == "dctcp";
        stack::Config {
            congestion: Some(known.new),
            ecn: if dctcp { Ecn::Dctcp } else { Ecn::Off },
            rto_min: self.rto_min,
            // Everybody here acknowledges at once.
            ack_delay_max: Span::ZERO,
            send_buffer: QUEUED_MAX as usize,
            send_buffer_max: QUEUED_MAX as usize,
            ..stack::Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [0; 16])
        }
    }
}

/// Most bytes of a flow that its connection is given ahead of what is
/// acknowledged: more than any window.
const QUEUED_MAX: u64 = 16 << 20;
/// Bits of a packet that met a long queue (RFC 3168 §5).
const CE: u8 = 0b11;

/// Hosts that run `net`'s TCP.
pub(super) struct Modern {
    around: Surroundings,
    thresholds: Thresholds,
}

/// Both ends of a flow; nothing once it is done.
pub(super) struct Ends {
    pair: Option<Box<Pair>>,
    retransmitted: u32,
    timeouts: u32,
}

struct Pair {
    flow: u32,
    bytes: u64,
    written: u64,
    sender: Endpoint,
    /// Once the SYN has come.
    receiver: Option<Endpoint>,
}

impl Modern {
    /// Hosts of these settings, which have been checked.
    pub fn new(settings: &Settings, thresholds: Thresholds) -> Self {
        Self { around: Surroundings::new(settings.stack()), thresholds }
    }
}

impl Pair {
    /// Gives the connection the next part of the flow when half of the last is through.
    fn feed(&mut self, now: Time, around: &mut Surroundings) {
        let queued = self.written - self.sender.acknowledged();
        if self.written < self.bytes && queued <= QUEUED_MAX / 2 {
            let more = (self.bytes - self.written).min(QUEUED_MAX - queued);
            self.written += self.sender.write(around, now, more);
        }
    }
}

impl Protocol for Modern {
    type Said = Sent;
    type Ends = Ends;

    fn begin(&mut self, now: Time, flow: u32, segments: u32) -> Ends {
        let sender = Endpoint::open(&mut self.around, now, flow);
        let bytes = u64::from(segments) * MSS;
        let mut pair = Pair { flow, bytes, written: 0, sender, receiver: None };
        pair.feed(now, &mut self.around);
        Ends { pair: Some(Box::new(pair)), retransmitted: 0, timeouts: 0 }
    }

    fn hear(&mut self, now: Time, ends: &mut Ends, packet: &Packet, said: &Sent) {
        let Some(pair) = ends.pair.as_deref_mut() else { return };
        let around = &mut self.around;
        let ecn = if packet.marked { CE } else { said.ecn };
        match (packet.kind, &mut pair.receiver) {
            (Kind::Data, Some(receiver)) => receiver.on_segment(around, now, &said.segment, ecn),
            (Kind::Data, None) => {
                pair.receiver = Some(Endpoint::answer(around, now, !pair.flow, &said.segment));
            }
            (Kind::Ack, _) => {
                pair.sender.on_segment(around, now, &said.segment, ecn);
                pair.feed(now, around);
            }
        }
    }

    fn poll(&mut self, now: Time, ends: &mut Ends, kind: Kind) -> Option<(Packet, Sent)> {
        let pair = ends.pair.as_deref_mut()?;
        let end = match kind {
            Kind::Data => &mut pair.sender,
            Kind::Ack => pair.receiver.as_mut()?,
        };
        let sent = end.poll_transmit(&mut self.around, now)?;
        let payload = sent.segment.payload.len();
        let packet = Packet {
            flow: pair.flow,
            segment: (sent.offset / MSS) as u32,
            bytes: (ipv4::HEADER_LEN + sent.segment.header_len() + payload) as u32,
            kind,
            level: match payload {
                0 => Priority::HIGHEST,
                _ => self.thresholds.level(Bytes::new(sent.offset)),
            },
            left: pair.bytes.saturating_sub(pair.sender.acknowledged()).div_ceil(MSS) as u32,
            capable: sent.ecn != 0,
            marked: false,
        };
        Some((packet, sent))
    }

    fn due(&self, ends: &Ends, kind: Kind) -> Time {
        let Some(pair) = ends.pair.as_deref() else { return Time::MAX };
        let end = match kind {
            Kind::Data => Some(&pair.sender),
            Kind::Ack => pair.receiver.as_ref(),
        };
        end.map_or(Time::MAX, |end| end.deadline(&self.around))
    }

    fn on_due(&mut self, now: Time, ends: &mut Ends) {
        let Some(pair) = ends.pair.as_deref_mut() else { return };
        let before = self.around.counters().timeouts;
        for end in [Some(&mut pair.sender), pair.receiver.as_mut()].into_iter().flatten() {
            if end.deadline(&self.around) <= now {
                end.on_timeout(&mut self.around, now);
            }
        }
        ends.timeouts += (self.around.counters().timeouts - before) as u32;
    }

    fn is_done(&self, ends: &Ends) -> bool {
        ends.pair.as_ref().is_none_or(|pair| pair.sender.acknowledged() == pair.bytes)
    }

    fn retire(&mut self, ends: &mut Ends) {
        (ends.retransmitted, _) = self.tally(ends);
        let Some(pair) = ends.pair.take() else { return };
        for end in [Some(pair.sender), pair.receiver].into_iter().flatten() {
            end.release(&mut self.around);
        }
    }

    fn tally(&self, ends: &Ends) -> (u32, u32) {
        let live = ends.pair.as_ref().map(|pair| pair.sender.retransmitted());
        (live.unwrap_or(ends.retransmitted), ends.timeouts)
    }
}
