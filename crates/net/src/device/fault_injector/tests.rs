//! Frames that arrive at either end of a faulty path.

use super::super::memory::{self, MemoryDevice};
use super::*;

const FRAMES: u64 = 2000;

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

fn pair(rates: &str, seed: u64) -> (FaultInjector<MemoryDevice>, MemoryDevice) {
    let (near, far) = memory::pair(FRAMES as usize * 2, 16);
    (FaultInjector::new(near, rates.parse().unwrap(), &Rng::seeded(seed)), far)
}

fn send(device: &mut impl Device, now: Time, number: u64) -> Result<(), Full> {
    device.transmit(now, 8, &mut |buf| buf.copy_from_slice(&number.to_be_bytes()))
}

fn receive_all<D: Device>(device: &mut D, now: Time) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(received) = device.receive(now) {
        numbers.push(u64::from_be_bytes(received.frame.as_ref().try_into().unwrap()));
        device.recycle(received.frame);
    }
    numbers
}

/// Sends a frame each microsecond; returns the received ones, in order, once all are due.
fn sent_through(rates: &str, seed: u64) -> (Vec<u64>, Counters) {
    let (mut near, mut far) = pair(rates, seed);
    let mut numbers = Vec::new();
    for n in 0..FRAMES {
        send(&mut near, at(n), n).unwrap();
        numbers.extend(receive_all(&mut far, at(n)));
    }
    while let Some(due) = near.next() {
        near.advance(due);
        numbers.extend(receive_all(&mut far, due));
    }
    (numbers, near.counters().0)
}

/// As [`sent_through`] in the other direction, polled only every 100 frames.
fn received_through(rates: &str, seed: u64) -> (Vec<u64>, Counters) {
    let (mut near, mut far) = pair(rates, seed);
    let mut numbers = Vec::new();
    for n in 0..FRAMES {
        send(&mut far, at(n), n).unwrap();
        if n % 100 == 99 {
            numbers.extend(receive_all(&mut near, at(n)));
        }
    }
    while let Some(due) = near.next() {
        numbers.extend(receive_all(&mut near, due));
    }
    (numbers, near.counters().1)
}

fn check(rates: &str, holds: impl Fn(Vec<u64>, Counters)) {
    let (numbers, counters) = sent_through(rates, 1);
    holds(numbers, counters);
    let (numbers, counters) = received_through(rates, 1);
    holds(numbers, counters);
}

#[test]
fn a_good_path_passes_everything_in_order() {
    check("loss=0%", |numbers, counters| {
        assert_eq!(numbers, (0..FRAMES).collect::<Vec<_>>());
        assert_eq!(counters, Counters { frames: FRAMES, ..Counters::default() });
    });
}

#[test]
fn lost_frames_are_missing_and_the_others_in_order() {
    check("loss=10%", |numbers, counters| {
        assert!(counters.lost > 100 && numbers.is_sorted());
        assert_eq!(numbers.len() as u64, FRAMES - counters.lost);
    });
}

#[test]
fn duplicated_frames_arrive_twice() {
    check("duplicate=10%", |mut numbers, counters| {
        assert_eq!(numbers.len() as u64, FRAMES + counters.duplicated);
        numbers.dedup();
        assert_eq!(numbers, (0..FRAMES).collect::<Vec<_>>());
    });
}

#[test]
fn reordered_frames_arrive_late_but_arrive() {
    check("reorder=10%,late=50us", |mut numbers, counters| {
        assert!(counters.reordered > 100 && !numbers.is_sorted());
        for (index, number) in numbers.iter().enumerate() {
            assert!(index.abs_diff(*number as usize) <= 50, "{number} came at place {index}");
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..FRAMES).collect::<Vec<_>>());
    });
}

#[test]
fn a_damaged_frame_differs_in_one_bit() {
    check("corrupt=10%", |numbers, counters| {
        let flipped = numbers.iter().zip(0..).map(|(number, sent): (&u64, u64)| (number ^ sent).count_ones());
        assert_eq!(flipped.clone().max(), Some(1));
        assert_eq!(u64::from(flipped.sum::<u32>()), counters.corrupted);
    });
}

#[test]
fn delayed_frames_arrive_when_they_are_due() {
    let (mut near, mut far) = pair("delay=100us", 1);
    send(&mut near, at(0), 1).unwrap();
    send(&mut near, at(10), 2).unwrap();
    assert_eq!(near.next(), Some(at(100)));
    near.advance(at(99));
    assert!(receive_all(&mut far, at(99)).is_empty());
    near.advance(at(100));
    assert_eq!(receive_all(&mut far, at(100)), [1]);
    assert_eq!(near.next(), Some(at(110)));

    send(&mut far, at(200), 3).unwrap();
    assert!(near.receive(at(200)).is_none());
    let received = near.receive(at(305)).unwrap();
    assert_eq!(received.arrived, Some(at(300)), "the stamp is the due time");
    assert_eq!(near.next(), None, "frame 2 was sent by the call");
}

#[test]
fn waiting_frames_are_bounded() {
    let (mut near, _there) = pair("delay=1s", 1);
    for n in 0..HELD_MAX as u64 + 10 {
        send(&mut near, at(n), n).unwrap();
    }
    assert_eq!((near.sending.held.len(), near.counters().0.overflowed), (HELD_MAX, 10));
}

#[test]
fn each_direction_has_its_own_faults() {
    let (near, mut far) = memory::pair(4, 16);
    let ways = ["delay=10us", "loss=100%"].map(|rates| rates.parse().unwrap());
    let mut near = FaultInjector::with_faults(near, ways, &Rng::seeded(1));
    send(&mut near, at(0), 1).unwrap();
    send(&mut far, at(0), 2).unwrap();
    assert!(receive_all(&mut near, at(20)).is_empty(), "received frames are lost");
    near.advance(at(20));
    assert_eq!(receive_all(&mut far, at(20)), [1], "sent frames are late");
}

#[test]
fn a_full_device_loses_nothing_and_accepts_due_frames_first() {
    let (near, mut far) = memory::pair(2, 16);
    let mut near = FaultInjector::new(near, "delay=10us".parse().unwrap(), &Rng::seeded(1));
    (0..3).for_each(|n| send(&mut near, at(0), n).unwrap());
    assert_eq!(send(&mut near, at(20), 3), Err(Full), "two were sent, one more is due");
    assert_eq!(receive_all(&mut far, at(20)), [0, 1]);
    assert_eq!(send(&mut near, at(20), 3), Ok(()));
    near.advance(at(30));
    assert_eq!(receive_all(&mut far, at(30)), [2, 3]);

    let (near, mut far) = memory::pair(1, 16);
    let mut near = FaultInjector::new(near, "loss=0%".parse().unwrap(), &Rng::seeded(1));
    send(&mut near, at(0), 0).unwrap();
    assert_eq!(send(&mut near, at(0), 1), Err(Full));
    assert_eq!(receive_all(&mut far, at(0)), [0]);
    assert_eq!(send(&mut near, at(0), 1), Ok(()));
    assert_eq!(near.counters().0.frames, 2, "a frame refused by a full device is decided once");
}

#[test]
fn a_seed_replays() {
    let rates = "loss=5%,burst=1%/20%,reorder=5%,late=20us,duplicate=1%,delay=1us..9us";
    assert_eq!(sent_through(rates, 7), sent_through(rates, 7));
    assert_ne!(sent_through(rates, 7).0, sent_through(rates, 8).0);
    assert_ne!(sent_through(rates, 7).0, received_through(rates, 7).0, "directions differ");
}

#[test]
fn buffers_return_to_their_owner() {
    let (mut near, mut far) = pair("delay=5us", 1);
    for n in 0..FRAMES {
        send(&mut near, at(n), n).unwrap();
        receive_all(&mut far, at(n));
        send(&mut far, at(n), n).unwrap();
        receive_all(&mut near, at(n));
    }
    assert!(near.spare.len() + near.sending.held.len() + near.receiving.held.len() < 20);
}

#[test]
fn a_damaged_frame_is_not_marked_as_verified() {
    /// Reports every frame as checked, and completes checksums.
    struct Vouching(MemoryDevice);

    impl Device for Vouching {
        type Frame = memory::MemoryFrame;

        fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Self::Frame>> {
            self.0.receive(now).map(|received| ReceivedFrame { checked: true, ..received })
        }

        fn recycle(&mut self, frame: Self::Frame) {
            self.0.recycle(frame);
        }

        fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
            self.0.transmit(now, len, fill)
        }

        fn offloads(&self) -> Offloads {
            Offloads { tx_checksum: true, ..Offloads::default() }
        }
    }

    let (near, mut far) = memory::pair(FRAMES as usize, 16);
    let rates = "corrupt=50%,reorder=10%".parse().unwrap();
    let mut near = FaultInjector::new(Vouching(near), rates, &Rng::seeded(1));
    (0..100).for_each(|_| send(&mut far, at(0), 0).unwrap());
    while let Some(received) = near.receive(at(1_000_000)) {
        assert_eq!(received.checked, received.frame.as_ref() == [0; 8]);
        near.recycle(received.frame);
    }
    (0..100).for_each(|_| send(&mut near, at(1_000_000), 0).unwrap());
    near.flush(at(2_000_000));
    let arrived = receive_all(&mut far, at(2_000_000));
    assert_eq!(arrived, vec![0; 100 - near.counters().0.corrupted as usize]);
}
