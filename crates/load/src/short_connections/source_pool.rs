//! Pool of source addresses on one device, with a stack for each.

use std::net::{Ipv4Addr, SocketAddr};

use classify::PacketMeta;
use net::device::{Full, Offloads, ReceivedFrame};
use net::stack::Config;
use net::{ConnId, Device, Event, Stack};
use queueing::{Span, Time};

/// Stacks with consecutive addresses. Per step call `receive`, `run_timers`, `event` until
/// `None`, and `send`.
pub struct SourcePool {
    stacks: Vec<Stack>,
    first: u32,
    /// Index of the stack of the next connection.
    next_stack: usize,
    /// Stacks that may have events or frames to send, each once.
    active: Vec<usize>,
    is_active: Vec<bool>,
    /// Time of the next check of timers.
    next_timer_poll: Time,
}

/// Interval between checks of timers, each of which visits every stack.
const TIMER_INTERVAL: Span = Span::from_micros(250);
/// Offset of the Ethernet type.
const TYPE: usize = 12;
const IPV4: [u8; 2] = [8, 0];
const ARP: [u8; 2] = [8, 6];
/// Offset of the target address in IPv4 and ARP over Ethernet.
const IPV4_TARGET: usize = 30;
const ARP_TARGET: usize = 38;

impl SourcePool {
    /// Stack for each of `configs`.
    ///
    /// # Panics
    /// If there is none, or their addresses are not consecutive.
    #[must_use]
    pub fn new(configs: Vec<Config>) -> Self {
        let first = configs.first().map_or(0, |config| u32::from(config.addr));
        let follow = |(n, config): (usize, &Config)| u32::from(config.addr) == first + n as u32;
        assert!(!configs.is_empty(), "configs is empty; give at least one");
        assert!(
            configs.iter().enumerate().all(follow),
            "addresses are not consecutive; number them without gaps"
        );
        Self {
            is_active: vec![false; configs.len()],
            stacks: configs.into_iter().map(Stack::new).collect(),
            first,
            next_stack: 0,
            active: Vec::new(),
            next_timer_poll: Time::ZERO,
        }
    }

    /// Stack `at`, marked as active.
    ///
    /// # Panics
    /// If `at` is not less than the number of stacks.
    pub fn stack(&mut self, at: usize) -> &mut Stack {
        self.activate(at);
        &mut self.stacks[at]
    }

    /// Starts a handshake from the next address; returns its stack. `None` if that stack cannot
    /// open another connection.
    pub fn connect(&mut self, now: Time, target: SocketAddr) -> Option<(usize, ConnId)> {
        let at = self.next_stack;
        self.next_stack = (at + 1) % self.stacks.len();
        let id = self.stack(at).connect(now, target, None).ok()?;
        Some((at, id))
    }

    /// Receives up to `max` frames; `true` if there was one.
    pub fn receive<D: Device>(&mut self, now: Time, device: &mut D, max: usize) -> bool {
        for received in 0..max {
            let Some(ReceivedFrame { frame, arrived, checked }) = device.receive(now) else {
                return received > 0;
            };
            let bytes = frame.as_ref();
            if let Some(at) = self.target(bytes) {
                let meta = PacketMeta { checked, ..PacketMeta::new(arrived.unwrap_or(now), bytes.len()) };
                self.stack(at).ingress(now, bytes, &meta);
            }
            device.recycle(frame);
        }
        true
    }

    /// Index of the stack that a frame is for.
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

    /// Runs due timers; `true` if there was one.
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

    /// Next event, and the index of its stack.
    pub fn event(&mut self) -> Option<(usize, Event)> {
        let stacks = &mut self.stacks;
        self.active.iter().find_map(|&at| Some((at, stacks[at].poll_event()?)))
    }

    /// Sends pending frames in one batch; `true` if there were any.
    pub fn send<D: Device>(&mut self, now: Time, device: &mut D) -> bool {
        let mut sent = 0;
        let mut batched = Batched(device);
        let (stacks, is_active) = (&mut self.stacks, &mut self.is_active);
        self.active.retain(|&at| {
            sent += stacks[at].egress(now, &mut batched);
            // Frames that did not fit into the device are sent next time.
            is_active[at] = stacks[at].wants_egress();
            is_active[at]
        });
        device.flush(now);
        sent > 0
    }

    /// Time of the next timer, if any is set.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = self.stacks.iter().filter_map(Stack::poll_timeout).min()?;
        Some(due.max(self.next_timer_poll))
    }

    /// True if frames are pending.
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

/// Device that flushes once for all stacks.
struct Batched<'a, D>(&'a mut D);

impl<D: Device> Device for Batched<'_, D> {
    type Frame = D::Frame;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<D::Frame>> {
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
