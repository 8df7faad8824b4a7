//! Transport of current hosts: `net`'s TCP connections.
//!
//! Not a model of TCP but the state machine that hosts run: handshake, initial window of ten
//! segments, SACK, RACK-TLP, ECN and, by default, DCTCP. Packets are headers and lengths;
//! payload is only counted (`net::endpoint`).
//!
//! Each flow has its own connection. It starts with the SYN, or with data on established
//! connections, and is done when its last byte is acknowledged. The sender is then dropped
//! without FIN, the receiver one network latency later; later packets are not answered. The
//! level of data depends on the bytes of the flow before it; packets without data have the
//! highest level. Source: RFC 9293, 6928, 2018, 8985, 3168, 8257.

use std::collections::HashMap;

use net::endpoint::{Endpoint, EndpointContext, Transmit};
use net::stack::{self, Ecn};
use net::wire::ipv4;
use queueing::{Bytes, Priority, Span, Thresholds, Time};

use super::packet::{Kind, MSS, Packet};
use super::protocol::{Begin, End, Protocol};
use super::topology::Node;

/// Connection settings; all others are those of [`stack::Config::new`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Congestion control, one of [`net::congestion::ALGORITHMS`]. Only `dctcp` negotiates ECN.
    pub congestion: String,
    /// Minimum margin of the retransmission timeout over the smoothed round-trip time.
    #[serde(deserialize_with = "crate::text::text")]
    pub rto_min: Span,
    /// Flows start on established connections, which know the round-trip time of the last flow
    /// between the two hosts, or of an empty network if there was none.
    pub established: bool,
}

impl Default for Settings {
    /// DCTCP, `net`'s 5 ms, and a handshake.
    fn default() -> Self {
        Self { congestion: "dctcp".to_owned(), rto_min: Span::from_millis(5), established: false }
    }
}

impl Settings {
    /// Reason why the settings are invalid, if they are.
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
            // Every receiver acknowledges at once.
            ack_delay_max: Span::ZERO,
            // The limit is per host, and all hosts share one stack here.
            challenges_per_second_max: u32::MAX,
            send_buffer: QUEUED_MAX as usize,
            send_buffer_max: QUEUED_MAX as usize,
            ..stack::Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [0; 16])
        }
    }
}

/// Bytes of a flow queued at its connection beyond the acknowledged ones; more than any window.
const QUEUED_MAX: u64 = 16 << 20;
/// ECN codepoint "congestion experienced" (RFC 3168 §5).
const CE: u8 = 0b11;

/// Hosts that run `net`'s TCP.
pub(super) struct NetTcp {
    around: EndpointContext,
    thresholds: Thresholds,
    /// With established connections: smoothed round-trip time of the last flow per pair of
    /// hosts. Bound: one entry per pair.
    known: Option<HashMap<[Node; 2], Span>>,
}

/// Sending end.
pub(super) struct Sender {
    flow: u32,
    ends: [Node; 2],
    /// Highest level of the flow's packets.
    floor: Priority,
    bytes: u64,
    written: u64,
    end: Endpoint,
}

/// Receiving end.
pub(super) struct Receiver {
    flow: u32,
    end: Endpoint,
}

impl NetTcp {
    /// Hosts with checked settings.
    pub fn new(settings: &Settings, thresholds: Thresholds) -> Self {
        let known = settings.established.then(HashMap::new);
        Self { around: EndpointContext::new(settings.stack()), thresholds, known }
    }

    /// Runs the expired timers of `end`; returns their number.
    fn on_timeout(&mut self, end: &mut Endpoint, now: Time) -> u32 {
        let before = self.around.counters().timeouts;
        end.on_timeout(&mut self.around, now);
        (self.around.counters().timeouts - before) as u32
    }
}

impl Sender {
    /// Queues more of the flow once half of the previous data is acknowledged.
    fn feed(&mut self, now: Time, around: &mut EndpointContext) {
        let queued = self.written - self.end.acknowledged();
        if self.written < self.bytes && queued <= QUEUED_MAX / 2 {
            let more = (self.bytes - self.written).min(QUEUED_MAX - queued);
            self.written += self.end.write(around, now, more);
        }
    }
}

/// ECN bits of a received `packet`.
fn ecn(packet: &Packet, said: &Transmit) -> u8 {
    if packet.marked { CE } else { said.ecn }
}

/// Packet of `flow` for a transmitted segment.
fn packet(flow: u32, kind: Kind, level: Priority, left: u32, sent: &Transmit) -> Packet {
    Packet {
        flow,
        segment: (sent.offset / MSS) as u32,
        bytes: (ipv4::HEADER_LEN + sent.segment.header_len() + sent.segment.payload.len()) as u32,
        kind,
        level,
        left,
        capable: sent.ecn != 0,
        marked: false,
    }
}

impl Protocol for NetTcp {
    type Said = Transmit;
    type Sender = Sender;
    type Receiver = Receiver;
    const ANSWERS_LATE: bool = false;

    fn open(&mut self, now: Time, begin: &Begin) -> Sender {
        let Begin { flow, ends, segments, floor, round_trip } = *begin;
        let end = match &self.known {
            None => Endpoint::open(&mut self.around, now, flow),
            Some(known) => {
                let round_trip = known.get(&ends).copied().unwrap_or(round_trip);
                let (end, far) = Endpoint::pair(&mut self.around, now, flow, round_trip);
                far.release(&mut self.around);
                end
            }
        };
        let bytes = u64::from(segments) * MSS;
        let mut sender = Sender { flow, ends, floor, bytes, written: 0, end };
        sender.feed(now, &mut self.around);
        sender
    }

    fn meet(&mut self, now: Time, packet: &Packet, said: &Transmit) -> Receiver {
        let (flow, around) = (packet.flow, &mut self.around);
        if self.known.is_none() {
            return Receiver { flow, end: Endpoint::answer(around, now, !flow, &said.segment) };
        }
        // Opened at time zero: a packet sent before an opening at `now` would carry an older
        // timestamp and be dropped as a duplicate (PAWS).
        let (far, mut end) = Endpoint::pair(around, Time::ZERO, flow, Span::ZERO);
        far.release(around);
        end.on_segment(around, now, &said.segment, ecn(packet, said));
        Receiver { flow, end }
    }

    fn is_done(&self, sender: &Sender) -> bool {
        sender.end.acknowledged() == sender.bytes
    }

    fn arrived(&self, receiver: &Receiver) -> u32 {
        (receiver.end.received() / MSS) as u32
    }

    fn again(&self, sender: &Sender) -> u32 {
        sender.end.retransmitted()
    }

    fn close(&mut self, sender: Sender) {
        if let (Some(known), Some(srtt)) = (&mut self.known, sender.end.flow().srtt) {
            known.insert(sender.ends, srtt);
        }
        sender.end.release(&mut self.around);
    }

    fn forget(&mut self, receiver: Receiver) {
        receiver.end.release(&mut self.around);
    }
}

impl End<NetTcp> for Sender {
    fn hear(&mut self, hosts: &mut NetTcp, now: Time, packet: &Packet, said: &Transmit) {
        self.end.on_segment(&mut hosts.around, now, &said.segment, ecn(packet, said));
        self.feed(now, &mut hosts.around);
    }

    fn poll(&mut self, hosts: &mut NetTcp, now: Time) -> Option<(Packet, Transmit)> {
        let sent = self.end.poll_transmit(&mut hosts.around, now)?;
        let level = match sent.segment.payload.len() {
            0 => Priority::HIGHEST,
            _ => hosts.thresholds.level(Bytes::new(sent.offset)),
        }
        .max(self.floor);
        let left = self.bytes.saturating_sub(self.end.acknowledged()).div_ceil(MSS) as u32;
        Some((packet(self.flow, Kind::Data, level, left, &sent), sent))
    }

    fn due(&self, hosts: &NetTcp) -> Time {
        self.end.deadline(&hosts.around)
    }

    fn on_due(&mut self, hosts: &mut NetTcp, now: Time) -> u32 {
        hosts.on_timeout(&mut self.end, now)
    }
}

impl End<NetTcp> for Receiver {
    fn hear(&mut self, hosts: &mut NetTcp, now: Time, packet: &Packet, said: &Transmit) {
        self.end.on_segment(&mut hosts.around, now, &said.segment, ecn(packet, said));
    }

    fn poll(&mut self, hosts: &mut NetTcp, now: Time) -> Option<(Packet, Transmit)> {
        let sent = self.end.poll_transmit(&mut hosts.around, now)?;
        Some((packet(self.flow, Kind::Ack, Priority::HIGHEST, 0, &sent), sent))
    }

    fn due(&self, hosts: &NetTcp) -> Time {
        self.end.deadline(&hosts.around)
    }

    fn on_due(&mut self, hosts: &mut NetTcp, now: Time) -> u32 {
        hosts.on_timeout(&mut self.end, now)
    }
}
