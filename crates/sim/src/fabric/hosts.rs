//! Hosts of a partition: flow start, packet delivery to both ends of a flow, timers.

use queueing::{Priority, Span, Time};

use super::config::Multipath;
use super::flow_arrivals::FlowArrival;
use super::ideal::ideal;
use super::outcome::Flow;
use super::packet::Packet;
use super::partition::{Event, OutboundMessage, Partition, Rank};
use super::protocol::{Begin, End, Protocol};
use super::topology::Node;

/// Sender of an active flow.
pub(super) struct Sending<P: Protocol> {
    pub end: P::Sender,
    pub record: Flow,
    /// Latency of a minimal packet to the receiver.
    pub word: Span,
    /// Time of the scheduled timer event; never later than the timers' deadline.
    pub looked_at: Time,
}

/// Receiver of a flow.
pub(super) enum Receiving<P: Protocol> {
    /// No packet has arrived yet.
    Unmet,
    /// Active.
    Met(Box<EndCounters<P>>),
    /// Closed; later packets are ignored.
    Over,
}

pub(super) struct EndCounters<P: Protocol> {
    end: P::Receiver,
    /// Local host and peer.
    hosts: [Node; 2],
    looked_at: Time,
}

impl<P: Protocol> Receiving<P> {
    /// Reads the data that the next packet needs, to prefetch it.
    pub fn touch(&self) -> u64 {
        match self {
            Self::Met(met) => met.looked_at.as_nanos(),
            Self::Unmet | Self::Over => 0,
        }
    }
}

impl<P: Protocol> Partition<'_, P> {
    /// Schedules the next flow that starts in this partition.
    pub fn schedule_birth(&mut self) {
        while let Some(next) = self.births.peek() {
            if self.split.home[next.from as usize] == self.number {
                return self.engine.schedule_ranked(next.at, Rank::Begin.of(self.born), Event::Begin);
            }
            self.births.next();
            self.born += 1;
        }
    }

    pub fn begin(&mut self, now: Time) {
        let Some(FlowArrival { from, to, segments, .. }) = self.births.next() else { return };
        let flow = self.born;
        self.born += 1;
        self.schedule_birth();
        self.open(now, flow, [from, to], segments, self.floor);
    }

    /// Starts a flow outside the arrival process, at level `floor` or lower; returns its
    /// number. For a fabric of one partition.
    pub fn begin_now(&mut self, now: Time, ends: [Node; 2], segments: u32, floor: Priority) -> u32 {
        let flow = self.born;
        self.born += 1;
        self.happens(now);
        self.open(now, flow, ends, segments, floor);
        flow
    }

    fn open(&mut self, now: Time, flow: u32, [from, to]: [Node; 2], segments: u32, floor: Priority) {
        let spray = self.config.ways == Multipath::Spray;
        let (ideal, word) = ideal(self.wiring, spray, from, to, segments);
        let record =
            Flow { from, to, segments, began: now, took: None, ideal, retransmitted: 0, timeouts: 0 };
        let begin = Begin { flow, ends: [from, to], segments, floor, round_trip: word * 2 };
        let end = self.protocol.open(now, &begin);
        self.sending.resize_with(flow as usize, || None);
        self.sending.push(Some(Box::new(Sending { end, record, word, looked_at: Time::MAX })));
        self.pump_sender(now, flow);
    }

    /// Sends all packets that the sender of `flow` may send.
    pub fn pump_sender(&mut self, now: Time, flow: u32) {
        let place = flow as usize;
        loop {
            let Some(sending) = self.sending[place].as_deref_mut() else { return };
            let Flow { from, to, .. } = sending.record;
            let Some((packet, said)) = sending.end.poll(&mut self.protocol, now) else {
                return self.remind_sender(flow);
            };
            self.put(now, [from, to], packet, said);
        }
    }

    /// Schedules the sender's timer event.
    fn remind_sender(&mut self, flow: u32) {
        let Some(sending) = self.sending[flow as usize].as_deref_mut() else { return };
        let due = sending.end.due(&self.protocol);
        if due < sending.looked_at {
            sending.looked_at = due;
            self.engine.schedule_ranked(due, Rank::Sender.of(flow), Event::Sender(flow));
        }
    }

    /// Sends all packets that the receiver of `flow` may send.
    fn pump_receiver(&mut self, now: Time, flow: u32) {
        let place = flow as usize;
        loop {
            let Receiving::Met(met) = &mut self.receiving[place] else { return };
            let hosts = met.hosts;
            let Some((packet, said)) = met.end.poll(&mut self.protocol, now) else {
                return self.remind_receiver(flow);
            };
            self.put(now, hosts, packet, said);
        }
    }

    fn remind_receiver(&mut self, flow: u32) {
        let Receiving::Met(met) = &mut self.receiving[flow as usize] else { return };
        let due = met.end.due(&self.protocol);
        if due < met.looked_at {
            met.looked_at = due;
            self.engine.schedule_ranked(due, Rank::Receiver.of(flow), Event::Receiver(flow));
        }
    }

    pub fn on_sender_timer(&mut self, now: Time, flow: u32) {
        let Some(sending) = self.sending[flow as usize].as_deref_mut() else { return };
        if sending.looked_at != now {
            return;
        }
        sending.looked_at = Time::MAX;
        if sending.end.due(&self.protocol) > now {
            return self.remind_sender(flow);
        }
        sending.record.timeouts += sending.end.on_due(&mut self.protocol, now);
        self.happens(now);
        self.pump_sender(now, flow);
    }

    pub fn on_receiver_timer(&mut self, now: Time, flow: u32) {
        let Receiving::Met(met) = &mut self.receiving[flow as usize] else { return };
        if met.looked_at != now {
            return;
        }
        met.looked_at = Time::MAX;
        if met.end.due(&self.protocol) > now {
            return self.remind_receiver(flow);
        }
        match met.end.on_due(&mut self.protocol, now) {
            0 => {}
            expired => self.expired.push((flow, expired)),
        }
        self.happens(now);
        self.pump_receiver(now, flow);
    }

    /// Handles a data packet at its destination host.
    pub fn on_data(&mut self, now: Time, [from, to]: [Node; 2], packet: &Packet, said: &P::Said) {
        let place = packet.flow as usize;
        if self.receiving.len() <= place {
            self.receiving.resize_with(place + 1, || Receiving::Unmet);
        }
        match &mut self.receiving[place] {
            Receiving::Met(met) => met.end.hear(&mut self.protocol, now, packet, said),
            Receiving::Over => return,
            unmet @ Receiving::Unmet => {
                let end = self.protocol.meet(now, packet, said);
                *unmet =
                    Receiving::Met(Box::new(EndCounters { end, hosts: [to, from], looked_at: Time::MAX }));
            }
        }
        if let (Some(&segments), Receiving::Met(met)) =
            (self.awaited.get(&packet.flow), &self.receiving[place])
            && self.protocol.arrived(&met.end) >= segments
        {
            self.awaited.remove(&packet.flow);
            self.arrived.push(packet.flow);
        }
        self.pump_receiver(now, packet.flow);
    }

    /// Handles an acknowledgement at its destination host.
    pub fn on_answer(&mut self, now: Time, packet: &Packet, said: &P::Said) {
        let flow = packet.flow;
        let Some(sending) = self.sending[flow as usize].as_deref_mut() else { return };
        sending.end.hear(&mut self.protocol, now, packet, said);
        if !self.protocol.is_done(&sending.end) {
            return self.pump_sender(now, flow);
        }
        let Some(sending) = self.sending[flow as usize].take() else { return };
        let Sending { end, mut record, word, .. } = *sending;
        record.took = Some(now.since(record.began));
        record.retransmitted = self.protocol.again(&end);
        self.protocol.close(end);
        self.done.push((flow, record));
        let at = now + word;
        match self.split.home[record.to as usize] {
            home if home == self.number => {
                self.engine.schedule_ranked(at, Rank::Word.of(flow), Event::Word(flow));
            }
            home => self.leaving[home as usize].push(OutboundMessage::Word { at, flow }),
        }
    }

    /// Drops the receiver of a completed flow.
    pub fn forget(&mut self, flow: u32) {
        let after = if P::ANSWERS_LATE { Receiving::Unmet } else { Receiving::Over };
        let Some(receiving) = self.receiving.get_mut(flow as usize) else { return };
        if let Receiving::Met(met) = std::mem::replace(receiving, after) {
            self.protocol.forget(met.end);
        }
    }

    /// Every flow that started here, completed or not.
    pub fn records(&mut self) -> Vec<(u32, Flow)> {
        for (flow, sending) in self.sending.iter_mut().enumerate() {
            if let Some(sending) = sending.take() {
                let retransmitted = self.protocol.again(&sending.end);
                self.done.push((flow as u32, Flow { retransmitted, ..sending.record }));
            }
        }
        std::mem::take(&mut self.done)
    }
}
