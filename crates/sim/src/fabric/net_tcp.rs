//! The transport of today's hosts: `net`'s own TCP connections.
//!
//! Not a model of TCP: the state machine that a host runs, with its handshake,
//! ten segments at first, SACK, RACK-TLP, ECN and, unless told otherwise, DCTCP.
//! Packets are headers and lengths; payload is counted (`net::endpoint`).
//!
//! Each flow has a connection of its own: it begins with the SYN, or with data
//! where connections are there already, and is done when its last byte is
//! acknowledged. Then its sender is forgotten, without FIN, and its receiver as
//! soon as word could have reached it; what still comes for them is not
//! answered. Data is labelled by how much of the flow went
//! before it; what carries none is most urgent.
//! Source: RFC 9293, 6928, 2018, 8985, 3168, 8257.

use std::collections::HashMap;

use net::endpoint::{Endpoint, Sent, Surroundings};
use net::stack::{self, Ecn};
use net::wire::ipv4;
use queueing::{Bytes, Priority, Span, Thresholds, Time};

use super::packet::{Kind, MSS, Packet};
use super::protocol::{Begin, End, Protocol};
use super::topology::Node;

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
    /// Flows begin on connections that are open: they were used before, and know
    /// the round trip of the last flow between the two hosts; before there was
    /// one, that of an empty network.
    pub established: bool,
}

impl Default for Settings {
    /// DCTCP, 5 ms as `net` has it, and a handshake.
    fn default() -> Self {
        Self { congestion: "dctcp".to_owned(), rto_min: Span::from_millis(5), established: false }
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
            // The bound is a host's, and all hosts are one stack here.
            challenges_per_second_max: u32::MAX,
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
pub(super) struct NetTcp {
    around: Surroundings,
    thresholds: Thresholds,
    /// Where connections are open: the smoothed round trip of the last flow
    /// between two hosts. Bound: one for each pair.
    known: Option<HashMap<[Node; 2], Span>>,
}

/// The end that sends.
pub(super) struct Sender {
    flow: u32,
    ends: [Node; 2],
    /// Nothing of it is more urgent.
    floor: Priority,
    bytes: u64,
    written: u64,
    end: Endpoint,
}

/// The end that receives.
pub(super) struct Receiver {
    flow: u32,
    end: Endpoint,
}

impl NetTcp {
    /// Hosts of these settings, which have been checked.
    pub fn new(settings: &Settings, thresholds: Thresholds) -> Self {
        let known = settings.established.then(HashMap::new);
        Self { around: Surroundings::new(settings.stack()), thresholds, known }
    }

    /// Does what is due at `end`; returns how many timers expired.
    fn on_timeout(&mut self, end: &mut Endpoint, now: Time) -> u32 {
        let before = self.around.counters().timeouts;
        end.on_timeout(&mut self.around, now);
        (self.around.counters().timeouts - before) as u32
    }
}

impl Sender {
    /// Gives the connection the next part of the flow when half of the last is through.
    fn feed(&mut self, now: Time, around: &mut Surroundings) {
        let queued = self.written - self.end.acknowledged();
        if self.written < self.bytes && queued <= QUEUED_MAX / 2 {
            let more = (self.bytes - self.written).min(QUEUED_MAX - queued);
            self.written += self.end.write(around, now, more);
        }
    }
}

/// The congestion bits with which `packet` came.
fn ecn(packet: &Packet, said: &Sent) -> u8 {
    if packet.marked { CE } else { said.ecn }
}

/// `sent` as a packet of `flow`.
fn packet(flow: u32, kind: Kind, level: Priority, left: u32, sent: &Sent) -> Packet {
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
    type Said = Sent;
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

    fn meet(&mut self, now: Time, packet: &Packet, said: &Sent) -> Receiver {
        let (flow, around) = (packet.flow, &mut self.around);
        if self.known.is_none() {
            return Receiver { flow, end: Endpoint::answer(around, now, !flow, &said.segment) };
        }
        // Open since before anything was sent: what was on its way for a while bears an older
        // timestamp than one of now, and would be taken for a duplicate (PAWS).
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
    fn hear(&mut self, hosts: &mut NetTcp, now: Time, packet: &Packet, said: &Sent) {
        self.end.on_segment(&mut hosts.around, now, &said.segment, ecn(packet, said));
        self.feed(now, &mut hosts.around);
    }

    fn poll(&mut self, hosts: &mut NetTcp, now: Time) -> Option<(Packet, Sent)> {
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
    fn hear(&mut self, hosts: &mut NetTcp, now: Time, packet: &Packet, said: &Sent) {
        self.end.on_segment(&mut hosts.around, now, &said.segment, ecn(packet, said));
    }

    fn poll(&mut self, hosts: &mut NetTcp, now: Time) -> Option<(Packet, Sent)> {
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
