//! Two stacks on a simulated link that loses, repeats, delays and corrupts frames, all from one
//! seed.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use classify::PacketMeta;
use net::device::{Device, Full, ReceivedFrame};
use net::stack::{Config, Event, Ipv6};
use net::{ConnId, Stack};
use queueing::{Span, Time};

/// Device that collects the frames of a stack.
pub struct Outbox {
    pub frames: Vec<Vec<u8>>,
    /// Number of frames that the device still accepts.
    pub space: usize,
}

impl Device for Outbox {
    type Frame = Vec<u8>;

    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<Vec<u8>>> {
        None
    }

    fn recycle(&mut self, _frame: Vec<u8>) {}

    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.space = self.space.checked_sub(1).ok_or(Full)?;
        let mut frame = vec![0; len];
        fill(&mut frame);
        self.frames.push(frame);
        Ok(())
    }
}

/// Frames that `stack` sends now.
pub fn sent(stack: &mut Stack, now: Time) -> Vec<Vec<u8>> {
    let mut outbox = Outbox { frames: Vec::new(), space: usize::MAX };
    stack.egress(now, &mut outbox);
    outbox.frames
}

pub fn meta(now: Time, frame: &[u8]) -> PacketMeta {
    PacketMeta::new(now, frame.len())
}

/// SplitMix64: small, and the same on every platform.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }

    pub fn percent(&mut self, n: u64) -> bool {
        self.below(100) < n
    }
}

/// Fault rates of the link, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub repeat: u64,
    pub reorder: u64,
    pub damage: u64,
}

pub struct World {
    pub now: Time,
    pub stacks: [Stack; 2],
    pub faults: Faults,
    pub dice: Dice,
    pub delay: Span,
    /// MTU of the path; larger packets are dropped silently.
    pub packet_len_max: usize,
    /// Frames in flight, by arrival and number, with the receiving side.
    wire: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    frames: u64,
}

/// Port 80 of stack 0 in both address families.
pub const SERVER: [&str; 2] = ["10.0.0.1:80", "[fd00::1]:80"];

pub fn config(host: u8) -> Config {
    let mut config = Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]);
    config.time_wait = Span::from_secs(1);
    let addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into());
    config.ipv6 = Some(Ipv6 { addrs: vec![(addr, 64)], slaac: false, probes: 0, ..Ipv6::default() });
    config
}

impl World {
    pub fn new(configs: [Config; 2], faults: Faults, seed: u64) -> Self {
        Self {
            now: Time::from_nanos(1_000_000_000),
            stacks: configs.map(Stack::new),
            faults,
            dice: Dice(seed),
            delay: Span::from_micros(50),
            packet_len_max: usize::MAX,
            wire: BTreeMap::new(),
            frames: 0,
        }
    }

    pub fn perfect() -> Self {
        Self::new([config(1), config(2)], Faults::default(), 1)
    }

    /// Puts the stacks' outgoing frames on the link.
    pub fn flush(&mut self) {
        for side in 0..2 {
            for mut frame in sent(&mut self.stacks[side], self.now) {
                if self.dice.percent(self.faults.loss) || frame.len() - 14 > self.packet_len_max {
                    continue;
                }
                if self.dice.percent(self.faults.damage) {
                    let at = self.dice.below(frame.len() as u64) as usize;
                    frame[at] ^= 1 << self.dice.below(8);
                }
                for _ in 0..1 + usize::from(self.dice.percent(self.faults.repeat)) {
                    let late =
                        if self.dice.percent(self.faults.reorder) { self.dice.below(300_000) } else { 0 };
                    let arrival = self.now + self.delay + Span::from_nanos(late);
                    self.wire.insert((arrival, self.frames), (1 - side, frame.clone()));
                    self.frames += 1;
                }
            }
        }
    }

    /// Advances to the next arrival or timer; `false` if there is none.
    pub fn step(&mut self) -> bool {
        self.flush();
        let arrival = self.wire.keys().next().map(|key| key.0);
        let timeout = self.stacks.iter().filter_map(Stack::poll_timeout).min();
        let Some(next) = arrival.into_iter().chain(timeout).min() else { return false };
        self.arrive(next);
        true
    }

    /// Advances to `next` and delivers the frames that have arrived by then.
    pub fn arrive(&mut self, next: Time) {
        self.now = self.now.max(next);
        while let Some(entry) = self.wire.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (side, frame) = entry.remove();
            let meta = meta(self.now, &frame);
            self.stacks[side].ingress(self.now, &frame, &meta);
        }
        self.stacks.iter_mut().for_each(|stack| stack.handle_timeout(self.now));
    }

    /// Steps until `done`, at most `steps` times; returns all events.
    pub fn run_until(&mut self, steps: usize, mut done: impl FnMut(&mut World) -> bool) -> [Vec<Event>; 2] {
        let mut events = [Vec::new(), Vec::new()];
        for _ in 0..steps {
            for (stack, events) in self.stacks.iter_mut().zip(&mut events) {
                events.extend(std::iter::from_fn(|| stack.poll_event()));
            }
            if done(self) || !self.step() {
                return events;
            }
        }
        panic!("not done after {steps} steps");
    }

    /// Steps for `span`.
    pub fn run_for(&mut self, span: Span) -> [Vec<Event>; 2] {
        let end = self.now + span;
        let events = self.run_until(1_000_000, |world| {
            world.flush();
            let arrival = world.wire.keys().next().map(|key| key.0);
            let timeout = world.stacks.iter().filter_map(Stack::poll_timeout).min();
            arrival.into_iter().chain(timeout).min().is_none_or(|next| next > end)
        });
        self.now = self.now.max(end);
        events
    }

    /// Connects stack 1 to a listener on stack 0; returns both ends.
    pub fn connect(&mut self) -> (ConnId, ConnId) {
        self.connect_to(SERVER[0])
    }

    /// Connects to one of stack 0's addresses.
    pub fn connect_to(&mut self, remote: &str) -> (ConnId, ConnId) {
        let _ = self.stacks[0].listen(80, net::stack::ListenOptions::default());
        let client = self.stacks[1].connect(self.now, remote.parse().unwrap(), None).unwrap();
        let events = self.run_for(Span::from_millis(1));
        let server = events[0].iter().find(|e| matches!(e.kind, net::EventKind::Accepted(_)));
        (server.expect("accepted").conn, client)
    }
}
