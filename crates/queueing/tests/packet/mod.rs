//! Packets and helpers for tests of ports.

use queueing::{Bytes, Discipline, EcnMarkable, Entry, FlowId, Label, Priority, PushResult, Time};

/// Packet with a number, ECN-capable if `markable`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packet {
    pub number: usize,
    pub flow: u64,
    pub level: u8,
    pub bytes: u64,
    pub markable: bool,
    pub marked: bool,
    pub doomed: bool,
}

impl Entry for Packet {
    fn label(&self) -> Label {
        Label::new(Priority::new(self.level).expect("a level"))
    }
    fn flow(&self) -> FlowId {
        FlowId(self.flow)
    }
    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes)
    }
    fn doomed(&self) -> bool {
        self.doomed
    }
}

impl EcnMarkable for Packet {
    fn mark(&mut self) -> bool {
        self.marked |= self.markable;
        self.markable
    }
    fn doom(&mut self) {
        self.doomed = true;
    }
}

/// Full-size packet of the most urgent level.
pub fn packet(number: usize, flow: u64) -> Packet {
    Packet { number, flow, level: 0, bytes: 1500, markable: true, marked: false, doomed: false }
}

pub fn fill(queue: &mut impl Discipline<Packet>, packets: impl IntoIterator<Item = Packet>) {
    for packet in packets {
        assert_eq!(queue.push(Time::ZERO, packet), PushResult::Queued);
    }
}

/// Empties the queue and returns the numbers in order of service.
pub fn drain(queue: &mut impl Discipline<Packet>) -> Vec<usize> {
    std::iter::from_fn(|| queue.pop(Time::ZERO)).map(|packet| packet.number).collect()
}
