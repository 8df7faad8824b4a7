//! TCP endpoint: one end of a connection without a stack: segments in and out, payload counted
//! instead of stored.
//!
//! For simulators that exchange headers and lengths. The connection is that of a
//! [`Stack`](crate::Stack): handshake, SACK, RACK-TLP, ECN, congestion control, timers. Does not
//! include the stack's demultiplexing, listeners with their bounds, and classifiers. The receiving
//! application reads at once.
//!
//! ```
//! use net::endpoint::{Endpoint, EndpointContext};
//! use net::stack::Config;
//! use queueing::Time;
//!
//! let config = Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [1; 16]);
//! let (mut around, now) = (EndpointContext::new(config), Time::ZERO);
//! let mut client = Endpoint::open(&mut around, now, 7);
//! client.write(&mut around, now, 200_000);
//! let syn = client.poll_transmit(&mut around, now).expect("a SYN");
//! let mut server = Endpoint::answer(&mut around, now, 8, &syn.segment);
//! while let Some(sent) = server.poll_transmit(&mut around, now) {
//!     client.on_segment(&mut around, now, &sent.segment, sent.ecn);
//!     while let Some(sent) = client.poll_transmit(&mut around, now) {
//!         server.on_segment(&mut around, now, &sent.segment, sent.ecn);
//!     }
//! }
//! assert_eq!((client.acknowledged(), server.received()), (200_000, 200_000));
//! ```

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use classify::{FlowState, PacketMeta};
use queueing::{Label, Span, Time};
use wire::FourTuple;
use wire::tcp::{Segment, Seq};

use crate::stack::{Challenges, Config, ConnId, Counters, Event, EventKind};
use crate::tcp::{Context, CountingStore, PayloadlessConnection, Pool, Verdicts};

/// Context shared by endpoints: configuration, memory of their records, counters.
pub struct EndpointContext {
    config: Config,
    pool: Pool,
    counters: Counters,
    challenges: Challenges,
    events: VecDeque<Event>,
}

/// A segment to send.
#[derive(Clone, Copy, Debug)]
pub struct Transmit {
    /// The segment; its payload has the right length and reads as zeroes.
    pub segment: Segment<'static>,
    /// ECN bits of its packet: 0 not capable, 2 capable, 3 congestion experienced (RFC 3168 §5).
    pub ecn: u8,
    /// Offset of its first byte in the stream.
    pub offset: u64,
}

/// One end of a connection.
pub struct Endpoint {
    connection: PayloadlessConnection,
}

impl EndpointContext {
    /// A context for connections with the TCP settings of `config`.
    ///
    /// # Panics
    /// If a receive window may grow beyond 8 MiB.
    #[must_use]
    pub fn new(config: Config) -> Self {
        assert!(config.recv_buffer_max() <= CountingStore::SLICE_MAX, "counted windows are at most 8 MiB");
        Self {
            config,
            pool: Pool::default(),
            counters: Counters::default(),
            challenges: Challenges::default(),
            events: VecDeque::new(),
        }
    }

    /// Counts so far, over all endpoints.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Context of an endpoint for one event at `now`.
    #[inline]
    fn context(&mut self, now: Time, ecn: u8) -> Context<'_> {
        Context {
            now,
            id: NO_CONN,
            config: &self.config,
            pool: &mut self.pool,
            counters: &mut self.counters,
            challenges: &mut self.challenges,
            events: &mut self.events,
            label: Label::default(),
            received: now,
            ecn,
        }
    }
}

/// Connection of events, which is known here.
const NO_CONN: ConnId = ConnId { index: 0, generation: 0 };
/// Addresses of both ends; only their family matters.
const TUPLE: FourTuple = FourTuple {
    local: IpAddr::V4(Ipv4Addr::LOCALHOST),
    local_port: 1,
    remote: IpAddr::V4(Ipv4Addr::LOCALHOST),
    remote_port: 1,
};

impl Endpoint {
    /// The active opener; its SYN has the sequence number `iss`.
    #[must_use]
    pub fn open(around: &mut EndpointContext, now: Time, iss: u32) -> Self {
        let mut connection = PayloadlessConnection::open(TUPLE, Seq(iss), 0, now, &around.config);
        connection.flags.announced = true;
        Self { connection }
    }

    /// The passive opener that received `syn`; its SYN-ACK has the sequence number `iss`.
    #[must_use]
    pub fn answer(around: &mut EndpointContext, now: Time, iss: u32, syn: &Segment<'_>) -> Self {
        let mut connection = PayloadlessConnection::open(TUPLE, Seq(iss), 0, now, &around.config);
        connection.accept(0, syn, &around.config);
        Self { connection }
    }

    /// Both ends of a connection that is established at `now`: the active opener with the sequence
    /// number `iss`, and the passive one with `!iss`. The handshake took `round_trip`, or the time
    /// since zero if that is less.
    #[must_use]
    pub fn pair(around: &mut EndpointContext, now: Time, iss: u32, round_trip: Span) -> (Self, Self) {
        let began = Time::ZERO + now.since(Time::ZERO).saturating_sub(round_trip);
        let mut client = Self::open(around, began, iss);
        let syn = client.poll_transmit(around, began).expect("an active opener sends a SYN");
        let mut server = Self::answer(around, began, !iss, &syn.segment);
        let answer = server.poll_transmit(around, began).expect("a SYN is answered");
        client.on_segment(around, now, &answer.segment, answer.ecn);
        while let Some(last) = client.poll_transmit(around, now) {
            server.on_segment(around, now, &last.segment, last.ecn);
        }
        (client, server)
    }

    /// Queues `n` more bytes to send; returns the number that fit ([`Config::send_buffer`]).
    pub fn write(&mut self, around: &mut EndpointContext, now: Time, n: u64) -> u64 {
        let mut written = 0;
        while written < n {
            let zeroes = CountingStore::zeroes(usize::try_from(n - written).unwrap_or(usize::MAX));
            let accepted = self.connection.write(&mut around.context(now, 0), zeroes).unwrap_or(0);
            written += accepted as u64;
            if accepted < zeroes.len() {
                break;
            }
        }
        written
    }

    /// Handles a received segment whose packet had the ECN bits `ecn`. In-order data is read at
    /// once.
    pub fn on_segment(&mut self, around: &mut EndpointContext, now: Time, segment: &Segment<'_>, ecn: u8) {
        let meta = PacketMeta::new(now, segment.payload.len());
        let verdicts = Verdicts { listener: None, default: None, meta: &meta, has_space: true };
        // An endpoint sends no resets.
        let _ = self.connection.on_segment(&mut around.context(now, ecn), segment, &verdicts);
        while let Some(event) = around.events.pop_front() {
            if let EventKind::Readable { fresh } = event.kind {
                let _ = self.connection.consume(&mut around.context(now, 0), fresh as usize);
            }
        }
        // The acknowledgement has no response to wait for.
        if std::mem::take(&mut self.connection.flags.ack_waits) {
            self.connection.acks_due = self.connection.acks_due.max(1);
        }
    }

    /// The next segment to send at `now`; `None` if there is none.
    #[must_use]
    pub fn poll_transmit(&mut self, around: &mut EndpointContext, now: Time) -> Option<Transmit> {
        let (connection, config) = (&mut self.connection, &around.config);
        let Some(plan) = connection.wants_output().then(|| connection.plan(now, config)).flatten() else {
            connection.wait_for_window(now, config);
            return None;
        };
        let edge = connection.edge();
        let ahead = plan.seq.distance(connection.data_start()).max(0);
        let sent = Transmit {
            segment: counted(&connection.segment(&plan, edge, now, config)),
            ecn: connection.mark(&plan),
            offset: connection.acknowledged + u64::from(ahead.unsigned_abs()),
        };
        around.counters.retransmissions += u64::from(plan.retransmitted);
        connection.transmitted(&plan, edge, now, config, &mut around.pool);
        Some(sent)
    }

    /// Time when [`Endpoint::on_timeout`] is due; [`Time::MAX`] is never.
    #[must_use]
    #[inline]
    pub fn deadline(&self, around: &EndpointContext) -> Time {
        self.connection.deadline(&around.config)
    }

    /// Runs the timers due at `now`; [`Endpoint::poll_transmit`] returns the resulting segments.
    pub fn on_timeout(&mut self, around: &mut EndpointContext, now: Time) {
        self.connection.on_timeout(&mut around.context(now, 0));
        around.events.clear();
    }

    /// Bytes written and acknowledged by the peer.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.connection.acknowledged
    }

    /// Bytes received in order.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.connection.received
    }

    /// Segments retransmitted.
    #[must_use]
    pub fn retransmitted(&self) -> u32 {
        self.connection.segments.retransmitted
    }

    /// History of the flow.
    #[must_use]
    pub fn flow(&self) -> FlowState {
        self.connection.flow()
    }

    /// Ends the connection and returns its memory to the pool.
    pub fn release(mut self, around: &mut EndpointContext) {
        self.connection.release(&mut around.pool);
    }
}

/// `segment` with a payload of the same length that reads as zeroes.
#[inline]
fn counted(segment: &Segment<'_>) -> Segment<'static> {
    let Segment { source_port, target_port, seq, ack, flags, window, options, payload } = *segment;
    let payload = CountingStore::zeroes(payload.len());
    Segment { source_port, target_port, seq, ack, flags, window, options, payload }
}
