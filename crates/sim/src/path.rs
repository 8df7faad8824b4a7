//! Network path: a bottleneck with a buffer, a propagation delay, and faults.
//!
//! Unlike a [`link`](crate::link), whose sender notices a full line, a path accepts every frame and
//! drops frames that its bottleneck cannot hold. The bottleneck can mark with ECN: every frame that
//! finds more than a threshold queued, as a DCTCP switch does (RFC 8257 §3.1). Faults beyond the
//! bottleneck use the same [`FaultModel`] that can wrap a real device.
//!
//! ```
//! use net::Device;
//! use queueing::{Bytes, Rate, Rng, Span, Time};
//! use sim::path::{self, Config};
//!
//! let config = Config {
//!     rate: Rate::from_bits_per_sec(100_000_000),
//!     delay: Span::from_millis(10),
//!     buffer: Bytes::new(30_000),
//!     mark: None,
//!     faults: "loss=1%".parse()?,
//! };
//! let (mut here, there) = path::connect(config, config, &Rng::seeded(7));
//! here.transmit(Time::ZERO, 100, &mut |frame| frame.fill(1)).unwrap();
//! assert_eq!(there.next_arrival(), Some(Time::from_nanos(10_009_920)));
//! # Ok::<(), net::device::fault_injector::BadRates>(())
//! ```

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use net::Device;
use net::device::fault_injector::{self, FaultAction, FaultModel};
use net::device::{Full, ReceivedFrame};
use queueing::{Bytes, Rate, Rng, Span, Time};

use crate::link::{FRAME_LEN_MIN, LINE_OVERHEAD};

/// Parameters of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Rate of the bottleneck.
    pub rate: Rate,
    /// Propagation delay, without queueing and serialisation.
    pub delay: Span,
    /// Buffer of the bottleneck, the frame on the line included; excess frames are dropped.
    pub buffer: Bytes,
    /// ECN threshold: ECN-capable frames that find more than this queued are marked.
    pub mark: Option<Bytes>,
    /// Fault rates.
    pub faults: fault_injector::Rates,
}

/// Counters of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that reached the bottleneck.
    pub sent: u64,
    /// Frames dropped at a full buffer.
    pub dropped: u64,
    /// Frames marked at the bottleneck.
    pub marked: u64,
    /// Frames that arrived, duplicates included.
    pub received: u64,
    /// Injected faults.
    pub faults: fault_injector::Counters,
}

/// Creates a path and returns its two ends.
#[must_use]
pub fn connect(forward: Config, reverse: Config, rng: &Rng) -> (PathDevice, PathDevice) {
    let direction = |config: Config, stream| Rc::new(RefCell::new(Direction::new(config, &rng.fork(stream))));
    let (forward, reverse) = (direction(forward, 1), direction(reverse, 2));
    let end = |tx: &Rc<_>, rx: &Rc<_>| PathDevice { tx: Rc::clone(tx), rx: Rc::clone(rx) };
    (end(&forward, &reverse), end(&reverse, &forward))
}

/// One end of a path.
#[derive(Debug)]
pub struct PathDevice {
    tx: Rc<RefCell<Direction>>,
    rx: Rc<RefCell<Direction>>,
}

/// One direction.
#[derive(Debug)]
struct Direction {
    config: Config,
    faults: FaultModel,
    /// Time at which the bottleneck has sent all queued frames.
    free_at: Time,
    /// Frames at the bottleneck: end of transmission and bytes.
    queue: VecDeque<(Time, u64)>,
    queued: u64,
    flight: BinaryHeap<Reverse<Frame>>,
    spare: Vec<Vec<u8>>,
    counters: Counters,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    arrives: Time,
    number: u64,
    bytes: Vec<u8>,
}

impl Direction {
    fn new(config: Config, rng: &Rng) -> Self {
        Self {
            config,
            faults: FaultModel::new(config.faults, rng),
            free_at: Time::ZERO,
            queue: VecDeque::new(),
            queued: 0,
            flight: BinaryHeap::new(),
            spare: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// Bytes queued at the bottleneck at `now`.
    fn waiting(&mut self, now: Time) -> u64 {
        while let Some(&(sent, bytes)) = self.queue.front()
            && sent <= now
        {
            self.queue.pop_front();
            self.queued -= bytes;
        }
        self.queued
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn send(&mut self, now: Time, mut bytes: Vec<u8>) {
        self.counters.sent += 1;
        let waiting = self.waiting(now);
        let on_line = bytes.len().max(FRAME_LEN_MIN) as u64 + LINE_OVERHEAD.get();
        if waiting + on_line > self.config.buffer.get() {
            self.counters.dropped += 1;
            self.spare.push(bytes);
            return;
        }
        if self.config.mark.is_some_and(|mark| waiting > mark.get()) {
            self.counters.marked += u64::from(mark(&mut bytes));
        }
        self.free_at = self.free_at.max(now) + self.config.rate.time_for(Bytes::new(on_line));
        self.queue.push_back((self.free_at, on_line));
        self.queued += on_line;
        match self.faults.decide(self.free_at + self.config.delay, bytes.len()) {
            FaultAction::Lost => self.spare.push(bytes),
            FaultAction::Arrives { at, flipped, again } => {
                if let Some(bit) = flipped {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
                if let Some(again) = again {
                    let mut copy = self.buffer();
                    copy.clone_from(&bytes);
                    self.arrive(again, copy);
                }
                self.arrive(at, bytes);
            }
        }
    }

    fn arrive(&mut self, arrives: Time, bytes: Vec<u8>) {
        let number = self.counters.received;
        self.counters.received += 1;
        self.flight.push(Reverse(Frame { arrives, number, bytes }));
    }
}

impl PathDevice {
    /// Arrival time of the next frame in flight.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Time> {
        self.rx.borrow().flight.peek().map(|Reverse(frame)| frame.arrives)
    }

    /// Bytes queued at this end's bottleneck at `now`.
    #[must_use]
    pub fn waiting(&self, now: Time) -> Bytes {
        Bytes::new(self.tx.borrow_mut().waiting(now))
    }

    /// Counters of frames sent by this end.
    #[must_use]
    pub fn sent(&self) -> Counters {
        let tx = self.tx.borrow();
        Counters { faults: tx.faults.counters(), ..tx.counters }
    }
}

impl Device for PathDevice {
    type Frame = Vec<u8>;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Vec<u8>>> {
        if self.next_arrival()? > now {
            return None;
        }
        let Reverse(Frame { arrives, bytes, .. }) = self.rx.borrow_mut().flight.pop()?;
        Some(ReceivedFrame { frame: bytes, arrived: Some(arrives), checked: false })
    }

    fn recycle(&mut self, frame: Vec<u8>) {
        self.rx.borrow_mut().spare.push(frame);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        let mut tx = self.tx.borrow_mut();
        let mut bytes = tx.buffer();
        bytes.clear();
        bytes.resize(len, 0);
        fill(&mut bytes);
        tx.send(now, bytes);
        Ok(())
    }
}

/// Sets "congestion experienced" on an ECN-capable frame (RFC 3168 §5); returns `true` if set.
fn mark(frame: &mut [u8]) -> bool {
    const IPV4: [u8; 2] = [0x08, 0x00];
    const IPV6: [u8; 2] = [0x86, 0xdd];
    let Some((ethernet, packet)) = frame.split_at_mut_checked(14) else { return false };
    match [ethernet[12], ethernet[13]] {
        IPV4 if packet.len() >= 20 && packet[1] & 3 != 0 => {
            let old = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= 3;
            let new = u16::from_be_bytes([packet[0], packet[1]]);
            // HC' = ~(~HC + ~m + m') in one's complement (RFC 1624).
            let sum =
                u32::from(!u16::from_be_bytes([packet[10], packet[11]])) + u32::from(!old) + u32::from(new);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
            true
        }
        IPV6 if packet.len() >= 40 && packet[1] & 0x30 != 0 => {
            packet[1] |= 0x30;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ipv4::{Header, Packet};

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    /// 100 Mbit/s and 1 ms: 1000 bytes on the line take 80 µs.
    fn config() -> Config {
        Config {
            rate: Rate::from_bits_per_sec(100_000_000),
            delay: Span::from_millis(1),
            buffer: Bytes::new(10_000),
            mark: None,
            faults: fault_injector::Rates::NONE,
        }
    }

    fn send(device: &mut PathDevice, now: Time, number: u8) {
        device.transmit(now, 976, &mut |frame| frame[0] = number).unwrap();
    }

    fn received(device: &mut PathDevice) -> Vec<(u8, Time)> {
        std::iter::from_fn(|| device.receive(Time::MAX)).map(|r| (r.frame[0], r.arrived.unwrap())).collect()
    }

    #[test]
    fn frames_wait_at_the_bottleneck_and_then_travel() {
        let (mut near, mut far) = connect(config(), config(), &Rng::seeded(1));
        (0..3).for_each(|n| send(&mut near, at(0), n));
        assert_eq!(near.waiting(at(0)), Bytes::new(3000));
        assert_eq!(near.waiting(at(80)), Bytes::new(2000));
        assert!(far.receive(at(1079)).is_none());
        assert_eq!(received(&mut far), [(0, at(1080)), (1, at(1160)), (2, at(1240))]);
        send(&mut far, at(0), 7);
        assert_eq!(received(&mut near), [(7, at(1080))], "the other direction has a bottleneck of its own");
    }

    #[test]
    fn frames_beyond_the_bottleneck_buffer_are_dropped() {
        let (mut near, mut far) = connect(config(), config(), &Rng::seeded(1));
        (0..12).for_each(|n| send(&mut near, at(0), n));
        send(&mut near, at(80), 20);
        send(&mut near, at(80), 21);
        assert_eq!(
            received(&mut far).iter().map(|(n, _)| *n).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20]
        );
        assert_eq!((near.sent().dropped, near.sent().received), (3, 11));
    }

    #[test]
    fn faults_are_those_of_the_shared_fault_model() {
        let faults = "loss=10%,duplicate=5%,reorder=10%,late=1ms".parse().unwrap();
        let (mut near, mut far) = connect(Config { faults, ..config() }, config(), &Rng::seeded(1));
        for n in 0..200 {
            send(&mut near, at(u64::from(n) * 80), n);
        }
        let (received, counters) = (received(&mut far), near.sent());
        assert!(counters.faults.lost > 0 && counters.faults.duplicated > 0);
        assert_eq!(received.len() as u64, 200 - counters.faults.lost + counters.faults.duplicated);
        assert!(!received.is_sorted_by_key(|(n, _)| *n) && received.is_sorted_by_key(|(_, at)| *at));
    }

    /// Frame with an IPv4 header with these ECN bits.
    fn frame(ecn: u8) -> Vec<u8> {
        let mut frame = vec![0; 14 + 20 + 100];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        let (source, target) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let protocol = wire::ipv4::Protocol::Tcp;
        Header { source, target, protocol, dscp: 10, ecn, ttl: 64, payload_len: 100 }.emit(&mut frame[14..]);
        frame
    }

    #[test]
    fn ecn_capable_frames_above_the_threshold_are_marked() {
        let marking = Config { mark: Some(Bytes::new(300)), ..config() };
        let (mut near, mut far) = connect(marking, config(), &Rng::seeded(1));
        for ecn in [2, 1, 2, 2, 1, 0, 3] {
            let frame = frame(ecn);
            near.transmit(at(0), frame.len(), &mut |buf| buf.copy_from_slice(&frame)).unwrap();
        }
        let bits = |frame: &[u8]| {
            let packet = Packet::parse(&frame[14..]).expect("the checksum is right");
            (packet.ecn, packet.dscp)
        };
        let received: Vec<_> =
            std::iter::from_fn(|| far.receive(Time::MAX)).map(|r| bits(&r.frame)).collect();
        // 158 bytes on the line each: two frames are queued before the third.
        assert_eq!(received, [(2, 10), (1, 10), (3, 10), (3, 10), (3, 10), (0, 10), (3, 10)]);
    }

    #[test]
    fn an_ipv6_frame_is_marked_in_its_traffic_class() {
        let mut frame = vec![0; 14 + 40];
        frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        frame[14..16].copy_from_slice(&[0x60, 0x25]);
        assert!(mark(&mut frame));
        assert_eq!(frame[14..16], [0x60, 0x35]);
        assert!(!mark(&mut [0; 60]), "neither");
    }
}
