//! In-memory link: two devices, each of which receives the frames sent by the other.
//!
//! Each direction owns a fixed set of frame buffers. Full ones go to the receiver on one ring,
//! empty ones back on another. Nothing is allocated after [`pair`], and the two ends may be used by
//! two threads. The number of buffers bounds the link: a receiver that keeps frames blocks the
//! sender, as a NIC ring does.

use queueing::Time;
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Device, Full, ReceivedFrame};

/// One end of an in-memory link.
pub struct MemoryDevice {
    frame_len_max: usize,
    /// Full buffers to the peer, empty ones back from it.
    sending: Producer<Sent>,
    returned: Consumer<MemoryFrame>,
    /// Full buffers from the peer, empty ones back to it.
    received: Consumer<Sent>,
    recycling: Producer<MemoryFrame>,
}

/// A frame in a buffer of the link.
#[derive(Debug)]
pub struct MemoryFrame {
    buf: Box<[u8]>,
    len: usize,
}

impl AsRef<[u8]> for MemoryFrame {
    fn as_ref(&self) -> &[u8] {
        &self.buf[..self.len]
    }
}

/// A frame in transit, with its send time.
struct Sent {
    frame: MemoryFrame,
    at: Time,
    checked: bool,
}

/// A full-duplex link with buffers for `frames` frames of at most `frame_len_max` bytes in each
/// direction. Frames are stamped with the sender's `now`.
///
/// # Panics
/// If `frames` is 0: nothing could be sent.
#[must_use]
pub fn pair(frames: usize, frame_len_max: usize) -> (MemoryDevice, MemoryDevice) {
    assert!(frames > 0, "a link of 0 frames carries nothing");
    let direction = || {
        let full = RingBuffer::new(frames);
        let (mut recycling, returned) = RingBuffer::new(frames);
        for _ in 0..frames {
            let frame = MemoryFrame { buf: vec![0; frame_len_max].into(), len: 0 };
            recycling.push(frame).expect("the ring holds every buffer of its direction");
        }
        (full, (recycling, returned))
    };
    let ((far, arriving_there), (recycling_there, returned_here)) = direction();
    let ((back, arriving_here), (recycling_here, returned_there)) = direction();
    let near = MemoryDevice {
        frame_len_max,
        sending: far,
        returned: returned_here,
        received: arriving_here,
        recycling: recycling_here,
    };
    let far = MemoryDevice {
        frame_len_max,
        sending: back,
        returned: returned_there,
        received: arriving_there,
        recycling: recycling_there,
    };
    (near, far)
}

impl MemoryDevice {
    /// True if the other end has been dropped: no further frames arrive.
    #[must_use]
    pub fn peer_gone(&self) -> bool {
        self.received.is_abandoned()
    }

    /// Forwards a frame that another device received at `at` and whose transport checksum it
    /// verified if `checked`.
    ///
    /// # Errors
    /// [`Full`] without a free buffer; nothing was sent.
    pub fn forward(&mut self, at: Time, checked: bool, frame: &[u8]) -> Result<(), Full> {
        self.send(at, checked, frame.len(), &mut |buf| buf.copy_from_slice(frame))
    }

    fn send(
        &mut self,
        at: Time,
        checked: bool,
        len: usize,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        assert!(len <= self.frame_len_max, "a frame of {len} bytes is longer than {}", self.frame_len_max);
        let mut frame = self.returned.pop().map_err(|_| Full)?;
        frame.len = len;
        fill(&mut frame.buf[..len]);
        assert!(self.sending.push(Sent { frame, at, checked }).is_ok(), "the ring holds every buffer");
        Ok(())
    }

    /// Number of frames to receive.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.received.slots()
    }
}

impl Device for MemoryDevice {
    type Frame = MemoryFrame;

    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<MemoryFrame>> {
        let Sent { frame, at, checked } = self.received.pop().ok()?;
        Some(ReceivedFrame { frame, arrived: Some(at), checked })
    }

    fn recycle(&mut self, frame: MemoryFrame) {
        // The ring has space for every buffer. Without a peer the buffer is freed.
        let _ = self.recycling.push(frame);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.send(now, false, len, fill)
    }

    fn frame_len_max(&self) -> usize {
        self.frame_len_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn send(device: &mut MemoryDevice, now: u64, bytes: &[u8]) -> Result<(), Full> {
        device.transmit(Time::from_nanos(now), bytes.len(), &mut |buf| buf.copy_from_slice(bytes))
    }

    #[test]
    fn a_frame_arrives_with_the_senders_time() {
        let (mut a, mut b) = pair(2, 64);
        send(&mut a, 41, b"hello").unwrap();
        let got = b.receive(Time::from_nanos(99)).unwrap();
        assert_eq!((got.frame.as_ref(), got.arrived), (&b"hello"[..], Some(Time::from_nanos(41))));
        assert!(a.receive(Time::ZERO).is_none(), "a sender does not receive its own frame");
    }

    #[test]
    fn a_full_wire_refuses_until_a_buffer_comes_back() {
        let (mut a, mut b) = pair(2, 64);
        assert_eq!([1, 2, 3].map(|n| send(&mut a, n, b"x")), [Ok(()), Ok(()), Err(Full)]);
        let kept = b.receive(Time::ZERO).unwrap().frame;
        assert_eq!(send(&mut a, 4, b"x"), Err(Full), "a frame that the receiver keeps is not free");
        b.recycle(kept);
        assert_eq!(send(&mut a, 5, b"x"), Ok(()));
        assert_eq!(send(&mut b, 6, b"x"), Ok(()), "the other direction has buffers of its own");
    }

    #[test]
    fn a_dropped_end_is_detected() {
        let (a, b) = pair(1, 64);
        assert!(!a.peer_gone());
        drop(b);
        assert!(a.peer_gone());
    }

    //~ demo: two threads exchange Ethernet frames over the memory wire without loss or reordering
    #[test]
    fn two_threads_lose_and_reorder_nothing() {
        const FRAMES: u64 = 20_000;
        let (mut a, mut b) = pair(8, 64);
        let sender = std::thread::spawn(move || {
            let (mut sent, mut echoed) = (0, 0);
            while echoed < FRAMES {
                if sent < FRAMES && send(&mut a, sent, &sent.to_be_bytes()).is_ok() {
                    sent += 1;
                }
                match a.receive(Time::ZERO) {
                    Some(got) => {
                        assert_eq!(got.frame.as_ref(), echoed.to_be_bytes());
                        echoed += 1;
                        a.recycle(got.frame);
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
        let mut next = 0u64;
        while next < FRAMES {
            let Some(got) = b.receive(Time::ZERO) else {
                assert!(!b.peer_gone(), "the sender failed");
                std::thread::yield_now();
                continue;
            };
            assert_eq!(
                (got.frame.as_ref(), got.arrived),
                (&next.to_be_bytes()[..], Some(Time::from_nanos(next)))
            );
            while send(&mut b, 0, &next.to_be_bytes()).is_err() {
                assert!(!b.peer_gone(), "the sender failed");
                std::thread::yield_now();
            }
            b.recycle(got.frame);
            next += 1;
        }
        sender.join().unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_interleaving_keeps_every_frame_in_order(frames in 1usize..5, sends in proptest::collection::vec(any::<bool>(), 0..200)) {
            let (mut a, mut b) = pair(frames, 8);
            let (mut sent, mut got) = (0u64, 0u64);
            for sending in sends {
                if sending {
                    let outcome = send(&mut a, sent, &sent.to_be_bytes());
                    prop_assert_eq!(outcome.is_ok(), sent - got < frames as u64);
                    sent += u64::from(outcome.is_ok());
                } else if let Some(received) = b.receive(Time::ZERO) {
                    prop_assert_eq!(received.frame.as_ref(), got.to_be_bytes());
                    got += 1;
                    b.recycle(received.frame);
                } else {
                    prop_assert_eq!(sent, got);
                }
            }
        }
    }
}
