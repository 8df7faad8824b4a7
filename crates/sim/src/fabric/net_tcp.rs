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
//! highest level.
//! Source: RFC 9293, 6928, 2018, 8985, 3168, 8257.

use std::collections::HashMap;

use net::endpoint::{Endpoint, EndpointContext, Transmit};
use net::stack::{self, Ecn};
use queueing::{Bytes, Priority, Span, Thresholds, Time};
use wire::ipv4;

use super::packet::{MSS, Packet, PacketKind};
use super::protocol::{End, FlowParams, Protocol};
use super::topology::Node;

/// Connection settings; all others are those of [`stack::Config::new`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetTcpSettings {
    /// Congestion control, one of [`net::congestion::ALGORITHMS`]. Only `dctcp` negotiates ECN.
    pub congestion: String,
    /// Minimum margin of the retransmission timeout over the smoothed round-trip time.
    #[serde(deserialize_with = "crate::serde_text::text")]
    pub rto_min: Span,
    /// Flows start on established connections, which know the round-trip time of the last flow
    /// between the two hosts, or of an empty network if there was none.
    pub established: bool,
}

impl Default for NetTcpSettings {
    /// DCTCP, `net`'s 5 ms, and a handshake.
    fn default() -> Self {
        Self { congestion: "dctcp".to_owned(), rto_min: Span::from_millis(5), established: false }
    }
}

impl NetTcpSettings {
    /// Reason why the settings are invalid, if they are.
    pub(super) fn problem(&self) -> Option<String> {
        let rto_min = self.rto_min;
        if !(Span::from_micros(1)..=Span::from_secs(60)).contains(&rto_min) {
            return Some(format!("transport: rto_min {rto_min} is outside 1us..=60s"));
        }
        net::congestion::by_name(&self.congestion).err().map(|error| format!("transport: {error}"))
    }

    fn stack(&self) -> stack::Config {
        let algorithm = net::congestion::by_name(&self.congestion).expect("checked settings");
        let dctcp = algorithm.name == "dctcp";
        stack::Config {
            congestion: Some(algorithm.new),
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
    context: EndpointContext,
    thresholds: Thresholds,
    /// With established connections: smoothed round-trip time of the last flow per pair of
    /// hosts. Bound: one entry per pair.
    srtt_by_pair: Option<HashMap<[Node; 2], Span>>,
}

/// Sending end.
pub(super) struct Sender {
    flow: u32,
    endpoints: [Node; 2],
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
    pub fn new(settings: &NetTcpSettings, thresholds: Thresholds) -> Self {
        let srtt_by_pair = settings.established.then(HashMap::new);
        Self { context: EndpointContext::new(settings.stack()), thresholds, srtt_by_pair }
    }

    /// Runs the expired timers of `end`; returns their number.
    fn on_timeout(&mut self, end: &mut Endpoint, now: Time) -> u32 {
        let before = self.context.counters().timeouts;
        end.on_timeout(&mut self.context, now);
        (self.context.counters().timeouts - before) as u32
    }
}

impl Sender {
    /// Queues more of the flow once half of the previous data is acknowledged.
    fn fill_send_buffer(&mut self, now: Time, context: &mut EndpointContext) {
        let queued = self.written - self.end.acknowledged();
        if self.written < self.bytes && queued <= QUEUED_MAX / 2 {
            let more = (self.bytes - self.written).min(QUEUED_MAX - queued);
            self.written += self.end.write(context, now, more);
        }
    }
}

/// ECN bits of a received `packet`.
fn ecn(packet: &Packet, payload: &Transmit) -> u8 {
    if packet.marked { CE } else { payload.ecn }
}

/// Packet of `flow` for a transmitted segment.
fn packet(flow: u32, kind: PacketKind, level: Priority, left: u32, sent: &Transmit) -> Packet {
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
    type Payload = Transmit;
    type Sender = Sender;
    type Receiver = Receiver;
    const ANSWERS_LATE: bool = false;

    fn open(&mut self, now: Time, params: &FlowParams) -> Sender {
        let FlowParams { flow, endpoints, segments, floor, round_trip } = *params;
        let end = match &self.srtt_by_pair {
            None => Endpoint::open(&mut self.context, now, flow),
            Some(srtt_by_pair) => {
                let round_trip = srtt_by_pair.get(&endpoints).copied().unwrap_or(round_trip);
                let (end, far) = Endpoint::pair(&mut self.context, now, flow, round_trip);
                far.release(&mut self.context);
                end
            }
        };
        let bytes = u64::from(segments) * MSS;
        let mut sender = Sender { flow, endpoints, floor, bytes, written: 0, end };
        sender.fill_send_buffer(now, &mut self.context);
        sender
    }

    fn accept(&mut self, now: Time, packet: &Packet, payload: &Transmit) -> Receiver {
        let (flow, context) = (packet.flow, &mut self.context);
        if self.srtt_by_pair.is_none() {
            return Receiver { flow, end: Endpoint::answer(context, now, !flow, &payload.segment) };
        }
        // Opened at time zero: a packet sent before an opening at `now` would carry an older
        // timestamp and be dropped as a duplicate (PAWS).
        let (far, mut end) = Endpoint::pair(context, Time::ZERO, flow, Span::ZERO);
        far.release(context);
        end.on_segment(context, now, &payload.segment, ecn(packet, payload));
        Receiver { flow, end }
    }

    fn is_done(&self, sender: &Sender) -> bool {
        sender.end.acknowledged() == sender.bytes
    }

    fn arrived(&self, receiver: &Receiver) -> u32 {
        (receiver.end.received() / MSS) as u32
    }

    fn retransmitted(&self, sender: &Sender) -> u32 {
        sender.end.retransmitted()
    }

    fn close_sender(&mut self, sender: Sender) {
        if let (Some(srtt_by_pair), Some(srtt)) = (&mut self.srtt_by_pair, sender.end.flow().srtt) {
            srtt_by_pair.insert(sender.endpoints, srtt);
        }
        sender.end.release(&mut self.context);
    }

    fn close_receiver(&mut self, receiver: Receiver) {
        receiver.end.release(&mut self.context);
    }
}

impl End<NetTcp> for Sender {
    fn on_packet(&mut self, hosts: &mut NetTcp, now: Time, packet: &Packet, payload: &Transmit) {
        self.end.on_segment(&mut hosts.context, now, &payload.segment, ecn(packet, payload));
        self.fill_send_buffer(now, &mut hosts.context);
    }

    fn poll(&mut self, hosts: &mut NetTcp, now: Time) -> Option<(Packet, Transmit)> {
        let sent = self.end.poll_transmit(&mut hosts.context, now)?;
        let level = match sent.segment.payload.len() {
            0 => Priority::HIGHEST,
            _ => hosts.thresholds.level(Bytes::new(sent.offset)),
        }
        .max(self.floor);
        let left = self.bytes.saturating_sub(self.end.acknowledged()).div_ceil(MSS) as u32;
        Some((packet(self.flow, PacketKind::Data, level, left, &sent), sent))
    }

    fn deadline(&self, hosts: &NetTcp) -> Time {
        self.end.deadline(&hosts.context)
    }

    fn on_timer(&mut self, hosts: &mut NetTcp, now: Time) -> u32 {
        hosts.on_timeout(&mut self.end, now)
    }
}

impl End<NetTcp> for Receiver {
    fn on_packet(&mut self, hosts: &mut NetTcp, now: Time, packet: &Packet, payload: &Transmit) {
        self.end.on_segment(&mut hosts.context, now, &payload.segment, ecn(packet, payload));
    }

    fn poll(&mut self, hosts: &mut NetTcp, now: Time) -> Option<(Packet, Transmit)> {
        let sent = self.end.poll_transmit(&mut hosts.context, now)?;
        Some((packet(self.flow, PacketKind::Ack, Priority::HIGHEST, 0, &sent), sent))
    }

    fn deadline(&self, hosts: &NetTcp) -> Time {
        self.end.deadline(&hosts.context)
    }

    fn on_timer(&mut self, hosts: &mut NetTcp, now: Time) -> u32 {
        hosts.on_timeout(&mut self.end, now)
    }
}
