//! Hosts of a partition: flow start, packet delivery to both ends of a flow, timers.

use queueing::{Priority, Span, Time};

use super::config::Multipath;
use super::flow_arrivals::FlowArrival;
use super::ideal::ideal;
use super::outcome::FlowOutcome;
use super::packet::Packet;
use super::partition::{Event, OutboundMessage, Partition, Rank};
use super::protocol::{End, FlowParams, Protocol};
use super::topology::Node;

/// Sender of an active flow.
pub(super) struct Sending<P: Protocol> {
    pub end: P::Sender,
    pub record: FlowOutcome,
    /// Latency of a minimal packet to the receiver.
    pub latency: Span,
    /// Time of the scheduled timer event; never later than the timers' deadline.
    pub timer_at: Time,
}

/// Receiver of a flow.
pub(super) enum Receiving<P: Protocol> {
    /// No packet has arrived yet.
    Unopened,
    /// Active.
    Open(Box<ReceiverState<P>>),
    /// Closed; later packets are ignored.
    Closed,
}

pub(super) struct ReceiverState<P: Protocol> {
    end: P::Receiver,
    /// Local host and peer.
    hosts: [Node; 2],
    timer_at: Time,
}

impl<P: Protocol> Receiving<P> {
    /// Reads the data that the next packet needs, to prefetch it.
    pub fn touch(&self) -> u64 {
        match self {
            Self::Open(receiver) => receiver.timer_at.as_nanos(),
            Self::Unopened | Self::Closed => 0,
        }
    }
}

impl<P: Protocol> Partition<'_, P> {
    /// Schedules the next flow that starts in this partition.
    pub fn schedule_flow_start(&mut self) {
        while let Some(next) = self.flow_arrivals.peek() {
            if self.partitioning.partition_of[next.from as usize] == self.number {
                return self.engine.schedule_ranked(
                    next.at,
                    Rank::FlowStart.of(self.next_flow),
                    Event::FlowStart,
                );
            }
            self.flow_arrivals.next();
            self.next_flow += 1;
        }
    }

    pub fn start_flow(&mut self, now: Time) {
        let Some(FlowArrival { from, to, segments, .. }) = self.flow_arrivals.next() else { return };
        let flow = self.next_flow;
        self.next_flow += 1;
        self.schedule_flow_start();
        self.open(now, flow, [from, to], segments, self.floor);
    }

    /// Starts a flow outside the arrival process, at level `floor` or lower; returns its
    /// number. For a fabric of one partition.
    pub fn start_flow_now(&mut self, now: Time, endpoints: [Node; 2], segments: u32, floor: Priority) -> u32 {
        let flow = self.next_flow;
        self.next_flow += 1;
        self.count_event(now);
        self.open(now, flow, endpoints, segments, floor);
        flow
    }

    fn open(&mut self, now: Time, flow: u32, [from, to]: [Node; 2], segments: u32, floor: Priority) {
        let spray = self.config.multipath == Multipath::Spray;
        let (ideal, latency) = ideal(self.wiring, spray, from, to, segments);
        let record =
            FlowOutcome { from, to, segments, began: now, took: None, ideal, retransmitted: 0, timeouts: 0 };
        let flow_params =
            FlowParams { flow, endpoints: [from, to], segments, floor, round_trip: latency * 2 };
        let end = self.protocol.open(now, &flow_params);
        self.sending.resize_with(flow as usize, || None);
        self.sending.push(Some(Box::new(Sending { end, record, latency, timer_at: Time::MAX })));
        self.poll_sender(now, flow);
    }

    /// Sends all packets that the sender of `flow` may send.
    pub fn poll_sender(&mut self, now: Time, flow: u32) {
        let index = flow as usize;
        loop {
            let Some(sending) = self.sending[index].as_deref_mut() else { return };
            let FlowOutcome { from, to, .. } = sending.record;
            let Some((packet, payload)) = sending.end.poll(&mut self.protocol, now) else {
                return self.arm_sender_timer(flow);
            };
            self.inject(now, [from, to], packet, payload);
        }
    }

    /// Schedules the sender's timer event.
    fn arm_sender_timer(&mut self, flow: u32) {
        let Some(sending) = self.sending[flow as usize].as_deref_mut() else { return };
        let deadline = sending.end.deadline(&self.protocol);
        if deadline < sending.timer_at {
            sending.timer_at = deadline;
            self.engine.schedule_ranked(deadline, Rank::Sender.of(flow), Event::Sender(flow));
        }
    }

    /// Sends all packets that the receiver of `flow` may send.
    fn poll_receiver(&mut self, now: Time, flow: u32) {
        let index = flow as usize;
        loop {
            let Receiving::Open(receiver) = &mut self.receiving[index] else { return };
            let hosts = receiver.hosts;
            let Some((packet, payload)) = receiver.end.poll(&mut self.protocol, now) else {
                return self.arm_receiver_timer(flow);
            };
            self.inject(now, hosts, packet, payload);
        }
    }

    fn arm_receiver_timer(&mut self, flow: u32) {
        let Receiving::Open(receiver) = &mut self.receiving[flow as usize] else { return };
        let deadline = receiver.end.deadline(&self.protocol);
        if deadline < receiver.timer_at {
            receiver.timer_at = deadline;
            self.engine.schedule_ranked(deadline, Rank::Receiver.of(flow), Event::Receiver(flow));
        }
    }

    pub fn on_sender_timer(&mut self, now: Time, flow: u32) {
        let Some(sending) = self.sending[flow as usize].as_deref_mut() else { return };
        if sending.timer_at != now {
            return;
        }
        sending.timer_at = Time::MAX;
        if sending.end.deadline(&self.protocol) > now {
            return self.arm_sender_timer(flow);
        }
        sending.record.timeouts += sending.end.on_timer(&mut self.protocol, now);
        self.count_event(now);
        self.poll_sender(now, flow);
    }

    pub fn on_receiver_timer(&mut self, now: Time, flow: u32) {
        let Receiving::Open(receiver) = &mut self.receiving[flow as usize] else { return };
        if receiver.timer_at != now {
            return;
        }
        receiver.timer_at = Time::MAX;
        if receiver.end.deadline(&self.protocol) > now {
            return self.arm_receiver_timer(flow);
        }
        match receiver.end.on_timer(&mut self.protocol, now) {
            0 => {}
            expired => self.expired.push((flow, expired)),
        }
        self.count_event(now);
        self.poll_receiver(now, flow);
    }

    /// Handles a data packet at its destination host.
    pub fn on_data(&mut self, now: Time, [from, to]: [Node; 2], packet: &Packet, payload: &P::Payload) {
        let index = packet.flow as usize;
        if self.receiving.len() <= index {
            self.receiving.resize_with(index + 1, || Receiving::Unopened);
        }
        match &mut self.receiving[index] {
            Receiving::Open(receiver) => receiver.end.on_packet(&mut self.protocol, now, packet, payload),
            Receiving::Closed => return,
            unopened @ Receiving::Unopened => {
                let end = self.protocol.accept(now, packet, payload);
                *unopened =
                    Receiving::Open(Box::new(ReceiverState { end, hosts: [to, from], timer_at: Time::MAX }));
            }
        }
        if let (Some(&segments), Receiving::Open(receiver)) =
            (self.awaited.get(&packet.flow), &self.receiving[index])
            && self.protocol.arrived(&receiver.end) >= segments
        {
            self.awaited.remove(&packet.flow);
            self.arrived.push(packet.flow);
        }
        self.poll_receiver(now, packet.flow);
    }

    /// Handles an acknowledgement at its destination host.
    pub fn on_ack(&mut self, now: Time, packet: &Packet, payload: &P::Payload) {
        let flow = packet.flow;
        let Some(sending) = self.sending[flow as usize].as_deref_mut() else { return };
        sending.end.on_packet(&mut self.protocol, now, packet, payload);
        if !self.protocol.is_done(&sending.end) {
            return self.poll_sender(now, flow);
        }
        let Some(sending) = self.sending[flow as usize].take() else { return };
        let Sending { end, mut record, latency, .. } = *sending;
        record.took = Some(now.since(record.began));
        record.retransmitted = self.protocol.retransmitted(&end);
        self.protocol.close_sender(end);
        self.done.push((flow, record));
        let at = now + latency;
        match self.partitioning.partition_of[record.to as usize] {
            partition if partition == self.number => {
                self.engine.schedule_ranked(at, Rank::Completion.of(flow), Event::Completion(flow));
            }
            partition => self.outbound[partition as usize].push(OutboundMessage::Completion { at, flow }),
        }
    }

    /// Drops the receiver of a completed flow.
    pub fn drop_receiver(&mut self, flow: u32) {
        let after = if P::ANSWERS_LATE { Receiving::Unopened } else { Receiving::Closed };
        let Some(receiving) = self.receiving.get_mut(flow as usize) else { return };
        if let Receiving::Open(receiver) = std::mem::replace(receiving, after) {
            self.protocol.close_receiver(receiver.end);
        }
    }

    /// Every flow that started here, completed or not.
    pub fn records(&mut self) -> Vec<(u32, FlowOutcome)> {
        for (flow, sending) in self.sending.iter_mut().enumerate() {
            if let Some(sending) = sending.take() {
                let retransmitted = self.protocol.retransmitted(&sending.end);
                self.done.push((flow as u32, FlowOutcome { retransmitted, ..sending.record }));
            }
        }
        std::mem::take(&mut self.done)
    }
}
