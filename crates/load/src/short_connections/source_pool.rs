//! Many addresses on one device: a stack for each.

use std::net::{Ipv4Addr, SocketAddr};

use net::classify::PacketMeta;
use net::device::{Full, Offloads, Received};
use net::stack::Config;
use net::{ConnId, Device, Event, Stack};
use queueing::{Span, Time};

/// Stacks whose addresses follow each other. Whoever has it takes frames in,
/// runs timers, takes events out, and sends, in this order and again.
pub struct SourcePool {
    stacks: Vec<Stack>,
    first: u32,
    /// The stack that connects next.
    next_stack: usize,
    /// Stacks that may have something to say or to send, each once.
    active: Vec<usize>,
    is_active: Vec<bool>,
    /// When timers are looked at again.
    next_timer_poll: Time,
}

/// Timers are looked at so often: each look is one at every stack.
const TIMER_INTERVAL: Span = Span::from_micros(250);
/// Where an Ethernet frame has its type, and what follows.
const TYPE: usize = 12;
const IPV4: [u8; 2] = [8, 0];
const ARP: [u8; 2] = [8, 6];
/// The target's address, in IPv4 and ARP behind Ethernet.
const IPV4_TARGET: usize = 30;
const ARP_TARGET: usize = 38;

impl SourcePool {
    /// A stack for each of `configs`.
    ///
    /// # Panics
    /// When there is none, or their addresses do not follow each other.
    #[must_use]
    pub fn new(configs: Vec<Config>) -> Self {
        let first = configs.first().map_or(0, |config| u32::from(config.addr));
        let follow = |(n, config): (usize, &Config)| u32::from(config.addr) == first + n as u32;
        assert!(!configs.is_empty(), "clients have an address");
        assert!(configs.iter().enumerate().all(follow), "addresses of clients follow each other");
        Self {
            is_active: vec![false; configs.len()],
            stacks: configs.into_iter().map(Stack::new).collect(),
            first,
            next_stack: 0,
            active: Vec::new(),
            next_timer_poll: Time::ZERO,
        }
    }

    /// Stack `at`, about to be asked for something.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn stack(&mut self, at: usize) -> &mut Stack {
        self.activate(at);
        &mut self.stacks[at]
    }

    /// Starts a handshake from the next address; at which stack. None where that
    /// address has no place for one more.
    pub fn connect(&mut self, now: Time, target: SocketAddr) -> Option<(usize, ConnId)> {
        let at = self.next_stack;
        self.next_stack = (at + 1) % self.stacks.len();
        let id = self.stack(at).connect(now, target, None).ok()?;
        Some((at, id))
    }

    /// Takes up to `max` frames in; whether there was one.
    pub fn receive<D: Device>(&mut self, now: Time, device: &mut D, max: usize) -> bool {
        for received in 0..max {
            let Some(Received { frame, arrived, checked }) = device.receive(now) else { return received > 0 };
            let bytes = frame.as_ref();
            if let Some(at) = self.target(bytes) {
                let meta = PacketMeta { checked, ..PacketMeta::new(arrived.unwrap_or(now), bytes.len()) };
                self.stack(at).ingress(now, bytes, &meta);
            }
            device.recycle(frame);
        }
        true
    }

    /// Whose a frame is.
    fn target(&self, frame: &[u8]) -> Option<usize> {
        let at = match frame.get(TYPE..TYPE + 2)?.try_into().ok()? {
            IPV4 => IPV4_TARGET,
            ARP => ARP_TARGET,
            _ => return None,
        };
        let target: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
        let index = u32::from(Ipv4Addr::from(target)).checked_sub(self.first)? as usize;
        (index < self.stacks.len()).then_some(index)
    }

    /// Runs the timers that are due; whether there was one.
    pub fn run_timers(&mut self, now: Time) -> bool {
        if now < self.next_timer_poll {
            return false;
        }
        self.next_timer_poll = now + TIMER_INTERVAL;
        let mut any = false;
        for at in 0..self.stacks.len() {
            if self.stacks[at].poll_timeout().is_some_and(|due| due <= now) {
                self.stack(at).handle_timeout(now);
                any = true;
            }
        }
        any
    }

    /// The next event, and at which stack.
    pub fn event(&mut self) -> Option<(usize, Event)> {
        let stacks = &mut self.stacks;
        self.active.iter().find_map(|&at| Some((at, stacks[at].poll_event()?)))
    }

    /// Sends what is to be sent, all at once; whether there was anything.
    pub fn send<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        let mut sent = 0;
        let mut batched = Batched(device);
        let (stacks, is_active) = (&mut self.stacks, &mut self.is_active);
        self.active.retain(|&at| {
            sent += stacks[at].egress(now, &mut batched);
            // What the device had no room for goes next time.
            is_active[at] = stacks[at].wants_egress();
            is_active[at]
        });
        device.flush(now);
        sent > 0
    }

    /// When to run timers again, if any is set.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.stacks.iter().filter_map(Stack::poll_timeout).min()?;
        Some(due.max(self.next_timer_poll))
    }

    /// Whether something waits to be sent.
    #[must_use]
    pub fn wants_egress(&self) -> bool {
        self.active.iter().any(|&at| self.stacks[at].wants_egress())
    }

    fn activate(&mut self, at: usize) {
        if !std::mem::replace(&mut self.is_active[at], true) {
            self.active.push(at);
        }
    }
}

/// A device whose frames all leave together, however many stacks have filled it.
struct Batched<'a, D>(&'a mut D);

impl<D: Device> Device for Batched<'_, D> {
    type Frame = D::Frame;

    fn receive(&mut self, now: Time) -> Option<Received<D::Frame>> {
        self.0.receive(now)
    }

    fn recycle(&mut self, frame: D::Frame) {
        self.0.recycle(frame);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.0.transmit(now, len, fill)
    }

    fn transmit_cut(
        &mut self,
        now: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        self.0.transmit_cut(now, len, size, fill)
    }

    fn frame_len_max(&self) -> usize {
        self.0.frame_len_max()
    }

    fn offloads(&self) -> Offloads {
        self.0.offloads()
    }
}
