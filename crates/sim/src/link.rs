//! Full-duplex cable between two NICs.
//!
//! Each direction is a line that serialises frames, a propagation delay, and the receiving
//! NIC's ring, which drops arrivals while it is full. Frames are real Ethernet frames and are
//! not copied between writer and reader. The link schedules no events: frames enter the ring
//! when the reader polls, with the time at which they arrived. [`SimDevice::next_arrival`]
//! gives a sleeping reader its wake-up time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use net::Device;
use net::device::{Full, ReceivedFrame};
use queueing::{Bytes, Rate, Span, Time};

/// Line overhead per frame: preamble, start delimiter, frame check sequence, inter-frame gap.
pub const LINE_OVERHEAD: Bytes = Bytes::new(24);
/// Minimum frame length without FCS; shorter frames are padded on the line.
pub const FRAME_LEN_MIN: usize = 60;

/// Link parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Line rate of each direction.
    pub rate: Rate,
    /// Propagation delay, without serialisation.
    pub delay: Span,
    /// Receive ring size in frames; frames that arrive while it is full are dropped.
    pub rx_ring: usize,
    /// Transmit ring size in frames; sending while it is full returns [`Full`].
    pub tx_ring: usize,
}

/// 10 Gbit/s, 2 µs, rings of 4096 and 1024 frames.
impl Default for Config {
    fn default() -> Self {
        Self { rate: Rate::from_gbps(10), delay: Span::from_micros(2), rx_ring: 4096, tx_ring: 1024 }
    }
}

/// Counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counters {
    /// Frames sent.
    pub sent: u64,
    /// Frames received by the reader.
    pub received: u64,
    /// Frames dropped at a full ring.
    pub dropped: u64,
}

/// Creates a link and returns its two ends.
#[must_use]
pub fn connect(config: Config) -> (SimDevice, SimDevice) {
    let line = || Rc::new(RefCell::new(Line::default()));
    let pool = Rc::default();
    let (forward, reverse) = (line(), line());
    let end = |tx: &Rc<_>, rx: &Rc<_>| SimDevice {
        config,
        tx: Rc::clone(tx),
        rx: Rc::clone(rx),
        pool: Rc::clone(&pool),
        transmit_cost: Span::ZERO,
        departed: Time::ZERO,
    };
    (end(&forward, &reverse), end(&reverse, &forward))
}

/// One end of a link: a NIC.
#[derive(Debug)]
pub struct SimDevice {
    config: Config,
    tx: Rc<RefCell<Line>>,
    rx: Rc<RefCell<Line>>,
    pool: Rc<RefCell<Vec<Vec<u8>>>>,
    transmit_cost: Span,
    departed: Time,
}

/// One direction and the ring at its end.
#[derive(Debug, Default)]
struct Line {
    /// Time at which the line becomes free.
    free_at: Time,
    flight: VecDeque<Frame>,
    ring: VecDeque<Frame>,
    counters: Counters,
}

#[derive(Debug)]
struct Frame {
    arrives: Time,
    bytes: Vec<u8>,
}

impl Line {
    /// Moves frames that arrived by `now` into the ring.
    fn advance(&mut self, now: Time, rx_ring: usize, pool: &mut Vec<Vec<u8>>) {
        while self.flight.front().is_some_and(|frame| frame.arrives <= now) {
            let frame = self.flight.pop_front().expect("just seen");
            if self.ring.len() < rx_ring {
                self.ring.push_back(frame);
            } else {
                self.counters.dropped += 1;
                pool.push(frame.bytes);
            }
        }
    }
}

impl SimDevice {
    /// Delays each frame by `cost`, the sending core's work on it.
    #[must_use]
    pub fn with_transmit_cost(mut self, cost: Span) -> Self {
        self.transmit_cost = cost;
        self
    }

    /// Arrival time of the next frame, if one is in the ring or in flight.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Time> {
        let rx = self.rx.borrow();
        rx.ring.front().or(rx.flight.front()).map(|frame| frame.arrives)
    }

    /// Time at which the transmit ring has space; not later than now if it has space now.
    #[must_use]
    pub fn room_at(&self) -> Time {
        let tx = self.tx.borrow();
        match tx.flight.len().checked_sub(self.config.tx_ring) {
            Some(blocking) => tx.flight[blocking].arrives - self.config.delay,
            None => Time::ZERO,
        }
    }

    /// Counters of the transmit direction.
    #[must_use]
    pub fn sent(&self) -> Counters {
        self.tx.borrow().counters
    }

    /// Counters of the receive direction.
    #[must_use]
    pub fn received(&self) -> Counters {
        self.rx.borrow().counters
    }
}

impl Device for SimDevice {
    type Frame = Vec<u8>;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Vec<u8>>> {
        let mut rx = self.rx.borrow_mut();
        rx.advance(now, self.config.rx_ring, &mut self.pool.borrow_mut());
        let Frame { arrives, bytes } = rx.ring.pop_front()?;
        rx.counters.received += 1;
        Some(ReceivedFrame { frame: bytes, arrived: Some(arrives), checked: false })
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.pool.borrow_mut().push(frame);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        if self.room_at() > now {
            return Err(Full);
        }
        let mut bytes = self.pool.borrow_mut().pop().unwrap_or_default();
        bytes.clear();
        bytes.resize(len, 0);
        fill(&mut bytes);
        self.departed = self.departed.max(now) + self.transmit_cost;
        let on_line = Bytes::new(len.max(FRAME_LEN_MIN) as u64) + LINE_OVERHEAD;
        let mut tx = self.tx.borrow_mut();
        tx.free_at = tx.free_at.max(self.departed) + self.config.rate.time_for(on_line);
        let arrives = tx.free_at + self.config.delay;
        tx.counters.sent += 1;
        tx.flight.push_back(Frame { arrives, bytes });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    fn send(device: &mut SimDevice, now: u64, len: usize) -> Result<(), Full> {
        device.transmit(at(now), len, &mut |bytes| bytes.fill(len as u8))
    }

    fn config() -> Config {
        Config { rate: Rate::from_gbps(10), delay: Span::from_nanos(1000), rx_ring: 2, tx_ring: 3 }
    }

    #[test]
    fn a_frame_takes_its_serialization_time_and_the_delay() {
        let (mut a, mut b) = connect(config());
        send(&mut a, 0, 1514).unwrap();
        assert_eq!(b.next_arrival(), Some(at(1231 + 1000)));
        assert!(b.receive(at(2230)).is_none());
        let received = b.receive(at(5000)).unwrap();
        assert_eq!(received.arrived, Some(at(2231)), "the NIC stamps arrival, not reading");
        assert_eq!(received.frame, vec![1514_u32 as u8; 1514]);
    }

    #[test]
    fn short_frames_are_padded_on_the_line() {
        let (mut a, b) = connect(config());
        send(&mut a, 0, 42).unwrap();
        assert_eq!(b.next_arrival(), Some(at(68 + 1000)), "84 bytes at 10 Gbit/s");
    }

    #[test]
    fn frames_queue_per_direction() {
        let (mut a, mut b) = connect(config());
        send(&mut a, 0, 1514).unwrap();
        send(&mut a, 0, 1514).unwrap();
        send(&mut b, 0, 1514).unwrap();
        assert_eq!(a.next_arrival(), Some(at(2231)));
        let stamps: Vec<_> =
            std::iter::from_fn(|| b.receive(at(9999))).map(|received| received.arrived.unwrap()).collect();
        assert_eq!(stamps, [at(2231), at(3462)]);
    }

    #[test]
    fn a_full_ring_drops_what_arrives_last() {
        let (mut a, mut b) = connect(config());
        for len in [101, 102, 103] {
            send(&mut a, 0, len).unwrap();
        }
        assert_eq!(b.receive(at(1_000_000)).unwrap().frame.len(), 101);
        assert_eq!(b.receive(at(1_000_000)).unwrap().frame.len(), 102);
        assert!(b.receive(at(1_000_000)).is_none());
        assert_eq!(b.received(), Counters { sent: 3, received: 2, dropped: 1 });
        send(&mut a, 1_000_000, 104).unwrap();
        assert_eq!(b.receive(at(2_000_000)).unwrap().frame.len(), 104);
    }

    #[test]
    fn a_full_transmit_ring_has_space_once_its_first_frame_is_on_the_line() {
        let (mut a, _b) = connect(config());
        for _ in 0..3 {
            send(&mut a, 0, 1514).unwrap();
        }
        assert_eq!(send(&mut a, 0, 1514), Err(Full));
        assert_eq!(a.room_at(), at(1231));
        assert_eq!(send(&mut a, 1230, 1514), Err(Full));
        assert_eq!(send(&mut a, 1231, 1514), Ok(()));
    }

    #[test]
    fn a_frame_leaves_after_its_cpu_time() {
        let (a, b) = connect(config());
        let mut a = a.with_transmit_cost(Span::from_nanos(250));
        send(&mut a, 0, 60).unwrap();
        assert_eq!(b.next_arrival(), Some(at(250 + 68 + 1000)));
    }

    #[test]
    fn buffers_come_back() {
        let (mut a, mut b) = connect(config());
        for i in 0..100 {
            send(&mut a, i * 10_000, 500).unwrap();
            let received = b.receive(at((i + 1) * 10_000)).unwrap();
            b.recycle(received.frame);
        }
        assert_eq!(a.pool.borrow().len(), 1);
    }
}
