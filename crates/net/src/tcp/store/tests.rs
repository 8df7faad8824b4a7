//! Equivalence of a connection that counts its bytes and one that stores them.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use classify::PacketMeta;
use proptest::prelude::*;
use queueing::{Label, Rng, Span, Time};
use wire::FourTuple;
use wire::tcp::{Flags, Options, Segment, Seq};

use super::super::Ecn;
use super::super::connection::{Connection, Context};
use super::super::input::Verdicts;
use super::*;
use crate::stack::{Challenges, Config, ConnId, Counters, EventKind};

/// Sent segment: time, sequence and acknowledgement numbers, flags, window, options, data length.
type SentSegment = (Time, Seq, Seq, Flags, u16, Options, usize);

/// Both ends of a path that drops, delays and marks by `seed`, with a log of the sent segments.
struct World<B: ByteStore> {
    config: Config,
    pool: Pool,
    counters: Counters,
    challenges: Challenges,
    ends: [Option<Connection<B>>; 2],
    /// Segments in transit: receiving end, segment, ECN field.
    under_way: BTreeMap<(Time, usize), (usize, SentSegment, u8)>,
    rng: Rng,
    sent: Vec<SentSegment>,
}

const TUPLE: FourTuple = FourTuple {
    local: IpAddr::V4(Ipv4Addr::LOCALHOST),
    local_port: 1,
    remote: IpAddr::V4(Ipv4Addr::LOCALHOST),
    remote_port: 2,
};

/// Data that the client sends.
const BYTES: usize = 400_000;

impl<B: ByteStore> World<B> {
    fn new(seed: u64, ecn: Ecn) -> Self {
        let mut config = Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [1; 16]);
        config.ecn = ecn;
        (config.send_buffer, config.send_buffer_max) = (2 * BYTES, 2 * BYTES);
        Self {
            ends: [Some(Connection::open(TUPLE, Seq(9), 0, Time::ZERO, &config)), None],
            config,
            pool: Pool::default(),
            counters: Counters::default(),
            challenges: Challenges::default(),
            under_way: BTreeMap::new(),
            rng: Rng::seeded(seed),
            sent: Vec::new(),
        }
    }

    /// Runs `act` on an end; reads what becomes readable.
    fn act(
        &mut self,
        now: Time,
        end: usize,
        ecn: u8,
        act: impl FnOnce(&mut Connection<B>, &mut Context<'_>),
    ) {
        let mut events = VecDeque::new();
        let mut cx = Context {
            now,
            id: ConnId { index: 0, generation: 0 },
            config: &self.config,
            pool: &mut self.pool,
            counters: &mut self.counters,
            challenges: &mut self.challenges,
            events: &mut events,
            label: Label::default(),
            received: now,
            ecn,
        };
        let connection = self.ends[end].as_mut().expect("an open connection");
        act(connection, &mut cx);
        while let Some(event) = cx.events.pop_front() {
            if let EventKind::Readable { fresh } = event.kind {
                let _ = connection.consume(&mut cx, fresh as usize);
            }
        }
        if std::mem::take(&mut connection.flags.ack_waits) {
            connection.acks_due = connection.acks_due.max(1);
        }
        self.send(now, end);
    }

    fn send(&mut self, now: Time, end: usize) {
        let connection = self.ends[end].as_mut().expect("an open connection");
        while let Some(plan) = connection.plan(now, &self.config) {
            let edge = connection.edge();
            let Segment { seq, ack, flags, window, options, payload, .. } =
                connection.segment(&plan, edge, now, &self.config);
            let sent = (now, seq, ack, flags, window, options, payload.len());
            let ecn = connection.mark(&plan);
            connection.transmitted(&plan, edge, now, &self.config, &mut self.pool);
            self.sent.push(sent);
            let ecn = if ecn != 0 && self.rng.unit() < 0.1 { 3 } else { ecn };
            let lost = self.rng.unit() < 0.04;
            let at = now + Span::from_micros(50 + self.rng.below(8));
            if !lost {
                self.under_way.insert((at, self.sent.len()), (1 - end, sent, ecn));
            }
        }
    }

    fn hear(&mut self, now: Time, end: usize, sent: SentSegment, ecn: u8) {
        let (_, seq, ack, flags, window, options, len) = sent;
        let payload = CountingStore::zeroes(len);
        let segment = Segment { source_port: 1, target_port: 2, seq, ack, flags, window, options, payload };
        if self.ends[end].is_none() {
            let mut connection = Connection::open(TUPLE, Seq(u32::MAX - 7), 0, now, &self.config);
            connection.accept(0, &segment, &self.config);
            self.ends[end] = Some(connection);
            return self.send(now, end);
        }
        let meta = PacketMeta::new(now, len);
        self.act(now, end, ecn, |connection, cx| {
            let verdicts = Verdicts { listener: None, default: None, meta: &meta, has_space: true };
            let _ = connection.on_segment(cx, &segment, &verdicts);
        });
    }

    /// Runs until all data is received and acknowledged.
    fn run(mut self) -> (Vec<SentSegment>, u64) {
        self.act(Time::ZERO, 0, 0, |connection, cx| {
            assert_eq!(connection.write(cx, CountingStore::zeroes(BYTES)), Some(BYTES));
        });
        for _ in 0..100_000 {
            if self.ends[0].as_ref().is_some_and(|client| client.acknowledged == BYTES as u64) {
                break;
            }
            let due =
                |end: &Option<Connection<B>>| end.as_ref().map_or(Time::MAX, |c| c.deadline(&self.config));
            let due = [due(&self.ends[0]), due(&self.ends[1])];
            let arrives = self.under_way.keys().next().map_or(Time::MAX, |&(at, _)| at);
            let now = arrives.min(due[0]).min(due[1]);
            if arrives == now {
                let (_, (end, sent, ecn)) = self.under_way.pop_first().expect("a segment in transit");
                self.hear(now, end, sent, ecn);
            } else {
                let end = usize::from(due[1] == now);
                self.act(now, end, 0, |connection, cx| connection.on_timeout(cx));
            }
        }
        (self.sent, self.ends[1].as_ref().map_or(0, |server| server.received))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    //~ fabric: a connection that counts bytes behaves as one that stores them
    #[test]
    fn a_connection_without_payload_sends_what_one_with_payload_sends(seed in any::<u64>(), ecn in any::<bool>()) {
        let ecn = if ecn { Ecn::Dctcp } else { Ecn::Off };
        let (stored, received) = World::<ByteQueue>::new(seed, ecn).run();
        prop_assert_eq!(received, BYTES as u64);
        let (counted, received) = World::<CountingStore>::new(seed, ecn).run();
        prop_assert_eq!(received, BYTES as u64);
        prop_assert_eq!(counted, stored);
    }
}
