//! Levels of calls: the requests that programs send to other services.
//!
//! A program of others reports no label, and the response that came last on its connection has
//! none for the next request. So a call is read as the called service would read it: the policy's
//! classifiers see the program's bytes in a packet from our address to the service's port. A
//! connection's SYN gets the level of the rules that hold for a packet without a request. A
//! response has the level of its call, unless a driver rule names its own; of calls that wait
//! together the most urgent counts. A rule that drops has no effect on calls.
//!
//! The level of output is unknown until it is read. Output after a response is therefore read as
//! the most urgent, up to [`CALL_BYTES`] of it and one datagram; the rest waits at its level.
//! Starvation: output of lower levels is passed over for these bytes, once per call.
//! Source: ADPS M6; ADR 0088.

use std::array;
use std::net::SocketAddr;
use std::sync::Arc;

use classify::catch_panic::{apply_verdict, catch};
use classify::{
    ConnectionState, DriverClassifier, FlowContext, FlowState, PacketMeta, Private, TransportClassifier,
    Verdict,
};
use net::driver::{Admission, DriverCounters, classify};
use queueing::{Bytes, Label, Priority, Time};
use wire::ethernet::{self, EtherType};
use wire::ip::{Header, Protocol};
use wire::tcp::{Flags, Options, Segment, Seq};
use wire::udp::Datagram;
use wire::{FourTuple, tcp};

/// Maximum of bytes of output that are read before their level is known.
pub(super) const CALL_BYTES: usize = 8 * 1024;
/// Payload that a driver rule sees: one packet's.
const PACKET_BYTES: usize = 1460;

/// Call in progress on a connection that a program opened.
pub(super) struct Call {
    /// State of the transport classifier.
    memory: Option<Box<dyn ConnectionState>>,
    private: Private,
    written: u64,
    phase: Phase,
}

/// Level of the next output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Unknown: a response came last, or nothing.
    Next,
    /// The level of output since the last response, and the most urgent of it.
    Written(Priority, Priority),
    /// Set by the program until the next response.
    Set(Priority),
}

impl Call {
    pub(super) fn new() -> Self {
        Self { memory: None, private: [0; 64], written: 0, phase: Phase::Next }
    }

    /// True if the next output may begin a call.
    pub(super) fn is_unread(&self) -> bool {
        self.phase == Phase::Next
    }

    /// Records that a response was delivered.
    pub(super) fn on_response(&mut self) {
        self.phase = Phase::Next;
    }

    /// Sets the level of output until the next response.
    pub(super) fn set(&mut self, level: Priority) {
        self.phase = Phase::Set(level);
    }

    /// Level of the responses to the calls that wait.
    pub(super) fn response_level(&self) -> Option<Priority> {
        match self.phase {
            Phase::Next => None,
            Phase::Written(_, most_urgent) => Some(most_urgent),
            Phase::Set(level) => Some(level),
        }
    }
}

/// Output of a program as a packet for the called service.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'a> {
    pub(super) now: Time,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) bytes: &'a [u8],
}

/// Classifiers of calls.
pub(super) struct CallClassifiers {
    driver: Option<DriverClassifier>,
    transport: Option<TransportClassifier>,
    handshake: Option<DriverClassifier>,
    /// Classifiers of responses, by the level of the call.
    responses: [TransportClassifier; Priority::LEVELS],
    /// Buffer for the packet that a driver classifier sees.
    frame: Vec<u8>,
}

impl CallClassifiers {
    pub(super) fn new(
        driver: Option<DriverClassifier>,
        transport: Option<TransportClassifier>,
        handshake: Option<DriverClassifier>,
    ) -> Self {
        let responses = array::from_fn(|level| -> TransportClassifier {
            Arc::new(move |cx: &mut FlowContext<'_>| match cx.meta.priority {
                Some(_) if !cx.meta.by_default => Verdict::NoVerdict,
                _ => Verdict::Level(level as u8),
            })
        });
        Self { driver, transport, handshake, responses, frame: Vec::new() }
    }

    /// True if there is a policy, so that levels may differ.
    pub(super) fn is_some(&self) -> bool {
        self.driver.is_some() || self.transport.is_some()
    }

    /// Classifier of the responses to calls at `level`.
    pub(super) fn responses(&self, level: Priority) -> TransportClassifier {
        self.responses[level.index()].clone()
    }

    /// Level of a handshake from `from` to `to`.
    pub(super) fn handshake(
        &mut self,
        now: Time,
        (from, to): (SocketAddr, SocketAddr),
        counters: &mut DriverCounters,
    ) -> Priority {
        let classifier = self.handshake.take().or_else(|| self.driver.clone());
        let syn = Outgoing { now, from, to, bytes: &[] };
        let meta = self.driver_verdict(classifier.as_ref(), &syn, Protocol::Tcp, counters);
        self.handshake = classifier;
        meta.priority.unwrap_or_default()
    }

    /// Level of the program's output `piece` on a connection with `call`.
    pub(super) fn output(
        &mut self,
        piece: &Outgoing<'_>,
        call: &mut Call,
        counters: &mut DriverCounters,
    ) -> Priority {
        call.written += piece.bytes.len() as u64;
        let Call { memory, private, written, phase } = call;
        let received = Bytes::new(*written);
        let before = match *phase {
            Phase::Next => None,
            Phase::Written(latest, _) | Phase::Set(latest) => Some(latest),
        };
        let read = self.read(piece, Protocol::Tcp, (Some(memory), private, received), before, counters);
        let most_urgent = match *phase {
            Phase::Set(level) => return level,
            Phase::Written(_, most_urgent) => most_urgent.min(read),
            Phase::Next => read,
        };
        *phase = Phase::Written(read, most_urgent);
        read
    }

    /// Level of a datagram that is no response.
    pub(super) fn datagram(&mut self, datagram: &Outgoing<'_>, counters: &mut DriverCounters) -> Priority {
        let received = Bytes::new(datagram.bytes.len() as u64);
        self.read(datagram, Protocol::Udp, (None, &mut [0; 64], received), None, counters)
    }

    /// Level by both classifiers; `before`: level of the output before, which holds for bytes on
    /// which neither has a verdict.
    fn read(
        &mut self,
        piece: &Outgoing<'_>,
        protocol: Protocol,
        (memory, private, received): (Option<&mut Option<Box<dyn ConnectionState>>>, &mut Private, Bytes),
        before: Option<Priority>,
        counters: &mut DriverCounters,
    ) -> Priority {
        let classifier = self.driver.take();
        let meta = self.driver_verdict(classifier.as_ref(), piece, protocol, counters);
        self.driver = classifier;
        let named = meta.priority.filter(|_| !meta.by_default);
        let label = Label::new(named.or(before).or(meta.priority).unwrap_or_default());
        let Some(classifier) = &self.transport else { return label.priority };
        let (from, to) = (piece.from, piece.to);
        let tuple =
            FourTuple { local: to.ip(), local_port: to.port(), remote: from.ip(), remote_port: from.port() };
        let flow = FlowState { received, ..FlowState::default() };
        let (mut none, meta) = (None, &meta);
        let memory = memory.unwrap_or(&mut none);
        let mut cx = FlowContext {
            now: piece.now,
            meta,
            payload: piece.bytes,
            tuple: &tuple,
            flow,
            private,
            app: None,
            memory: (protocol == Protocol::Tcp).then_some(&mut *memory),
            successor: None,
        };
        let verdict = catch(&mut counters.panics, || classifier(&mut cx));
        let Some(label) = apply_verdict(&mut counters.out_of_range, label, verdict) else {
            // The classifier expects the bytes again.
            *memory = None;
            return label.priority;
        };
        label.priority
    }

    /// Metadata of `piece` after the driver's classifier.
    fn driver_verdict(
        &mut self,
        classifier: Option<&DriverClassifier>,
        piece: &Outgoing<'_>,
        protocol: Protocol,
        counters: &mut DriverCounters,
    ) -> PacketMeta {
        let none = PacketMeta::new(piece.now, piece.bytes.len());
        if classifier.is_none() {
            return none;
        }
        self.build(piece, protocol);
        let mut counted = DriverCounters::default();
        let admission = classify(classifier, &self.frame, piece.now, &mut counted);
        counters.panics += counted.panics;
        counters.out_of_range += counted.out_of_range;
        match admission {
            Admission::Queue(meta) => meta,
            Admission::Drop => none,
        }
    }

    /// Builds the packet of `piece`, cut to one packet's payload; a classifier reads no checksum.
    fn build(&mut self, piece: &Outgoing<'_>, protocol: Protocol) {
        let (source, target) = (piece.from.ip(), piece.to.ip());
        let (source_port, target_port) = (piece.from.port(), piece.to.port());
        let payload = &piece.bytes[..piece.bytes.len().min(PACKET_BYTES)];
        let header_len = match protocol {
            Protocol::Udp => wire::udp::HEADER_LEN,
            _ => tcp::HEADER_LEN,
        };
        let payload_len = header_len + payload.len();
        let header = Header { source, target, protocol, dscp: 0, ecn: 0, hops: 64, payload_len };
        let (ip_at, at) = (ethernet::HEADER_LEN, ethernet::HEADER_LEN + header.len());
        self.frame.clear();
        self.frame.resize(at + header_len, 0);
        let kind = if target.is_ipv6() { EtherType::Ipv6 } else { EtherType::Ipv4 };
        ethernet::emit_header(&mut self.frame, [0; 6], [0; 6], kind);
        header.emit(&mut self.frame[ip_at..]);
        match protocol {
            Protocol::Udp => {
                Datagram { source_port, target_port, payload: &[] }.emit(
                    source,
                    target,
                    &mut self.frame[at..],
                );
                let len = (payload_len as u16).to_be_bytes();
                self.frame[at + 4..at + 6].copy_from_slice(&len);
            }
            _ => {
                let flags = if payload.is_empty() { Flags::SYN } else { Flags::ACK };
                let (seq, ack, options) = (Seq(0), Seq(0), Options::NONE);
                let segment =
                    Segment { source_port, target_port, seq, ack, flags, window: 0, options, payload: &[] };
                segment.emit_header(&mut self.frame[at..]);
            }
        }
        self.frame.extend_from_slice(payload);
    }
}
