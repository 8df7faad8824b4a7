//! Layout of the BPF program's maps, byte for byte: `intf.h` in Rust.
//!
//! Values are converted through bytes, not pointers, so nothing here is unsafe;
//! [`load`](super::program) compares lengths with the program's own.

use guard::app_queue::Requests;
use guard::{Limit, ResponseWaits, Share};
use queueing::{Span, Time};

/// Maximum of classes.
pub const CLASSES: usize = 8;
/// Maximum of guarded ports; each has a limit.
pub const PORTS_MAX: usize = 64;
/// Maximum of prefixes in classes.
pub const PREFIXES_MAX: usize = 1024;
/// Maximum of accept queues read behind one address and port.
pub(super) const QUEUES: usize = 192;
/// Accept queues shown in [`ObservedSignals`].
pub const SHOWN: usize = 16;
/// Silence of the controller after which every SYN passes.
pub const DEADMAN: Span = Span::from_secs(1);
/// Bytes of the metadata.
pub(super) const NOTES_LEN: usize = 2048;

/// Reason why a SYN is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No SYN is admitted.
    Closed,
    /// The rate is exceeded.
    Rate,
    /// The concurrency limit is reached.
    Present,
    /// The accept queue is full; the kernel would drop it too, later.
    Full,
}

impl Reason {
    /// All reasons, in the maps' order.
    pub const ALL: [Self; 4] = [Self::Closed, Self::Rate, Self::Present, Self::Full];

    /// Short name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Rate => "rate",
            Self::Present => "present",
            Self::Full => "full",
        }
    }
}

/// Limit in the program's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitInForce {
    /// Admit every SYN.
    #[default]
    Open,
    /// Rate limit: each connection consumes time from a bucket.
    Rate {
        /// Time per connection.
        cost_ns: u64,
        /// Size of the bucket.
        burst_ns: u64,
        /// Time that the bucket must hold for each class.
        need_ns: [u64; CLASSES],
    },
    /// Admit below these numbers of connections in the server, per class.
    Concurrency([u64; CLASSES]),
    /// Admit no SYN.
    Closed,
}

impl LimitInForce {
    /// `limit` for `classes` classes, with the shares of [`Share`].
    ///
    /// # Panics
    /// `classes` is outside 1..=[`CLASSES`].
    #[must_use]
    pub fn new(limit: Limit, classes: usize) -> Self {
        assert!((1..=CLASSES).contains(&classes), "{classes} classes are outside 1..={CLASSES}");
        let share = Share::new(classes);
        match limit {
            Limit::Open => Self::Open,
            Limit::Closed => Self::Closed,
            Limit::Concurrency { max } => {
                Self::Concurrency(std::array::from_fn(|place| share.present(max, place)))
            }
            Limit::Rate { per_s, burst } => {
                let cost = NS_PER_S / per_s.max(PER_S_MIN);
                let ns = |requests: f64| (cost * requests).round() as u64;
                Self::Rate {
                    cost_ns: ns(1.0),
                    burst_ns: ns(share.bucket(per_s, burst)),
                    need_ns: std::array::from_fn(|place| ns(share.required_tokens(per_s, place))),
                }
            }
        }
    }
}

impl LimitInForce {
    /// The strictest of `limits`: none admitted, else the fewest connections in the server, else the lowest
    /// rate.
    #[must_use]
    pub fn strictest(limits: impl IntoIterator<Item = Self>) -> Self {
        let strictness = |limit: &Self| match *limit {
            Self::Open => (0, 0),
            Self::Rate { cost_ns, .. } => (1, cost_ns),
            Self::Concurrency(present) => (2, u64::MAX - present[0]),
            Self::Closed => (3, 0),
        };
        limits.into_iter().max_by_key(strictness).unwrap_or_default()
    }
}

const NS_PER_S: f64 = 1e9;
/// Minimum rate, one per minute: a lower one admits no SYN between two control steps.
const PER_S_MIN: f64 = 1.0 / 60.0;

/// Accept queue of a listener, as observed by the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Port.
    pub port: u16,
    /// Connections in it.
    pub waiting: u32,
    /// Backlog: the length above which no connection enters.
    pub room: u32,
    /// Wait of the first connection.
    pub delay: Span,
    /// True if no connection is accepted from it while other queues are served. It is left out of its
    /// port's signals if other queues of that port are served.
    pub is_stuck: bool,
}

impl Queue {
    /// Bit above the 16 bits of the port.
    const STUCK: u64 = 1 << 16;

    fn words(self) -> [u64; 4] {
        let stuck = if self.is_stuck { Self::STUCK } else { 0 };
        [u64::from(self.port) | stuck, self.waiting.into(), self.room.into(), self.delay.as_nanos()]
    }

    fn read([port, waiting, room, delay_ns]: [u64; 4]) -> Self {
        let (delay, is_stuck) = (Span::from_nanos(delay_ns), port & Self::STUCK != 0);
        Self { port: port as u16, waiting: waiting as u32, room: room as u32, delay, is_stuck }
    }
}

/// Signals observed by the controller, for [`super::status()`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedSignals {
    /// Accept queues in descending order of the first connection's wait; entries with port 0 are empty.
    pub queues: [Queue; SHOWN],
    /// Connections in the accept queues.
    pub waiting: u64,
    /// Total capacity.
    pub room: u64,
    /// Longest wait of a first connection.
    pub delay: Span,
    /// Connections accepted since the attach.
    pub served: u64,
    /// `ListenOverflows` since the attach: drops by the kernel at a full accept queue, mostly of the last
    /// ACK of a handshake, after which the client considers itself connected.
    pub overflows: u64,
    /// `ListenDrops` since the attach: all drops by the kernel at listeners of this network namespace.
    pub drops: u64,
    /// Requests in the services' queue reports.
    pub requests: Requests,
    /// Connections that have sent data and received none, where that is observed
    /// ([`super::WaitEnd::Answer`]).
    pub unanswered: u64,
    /// Wait of the first of them.
    pub unanswered_delay: Span,
    /// Recent handshakes completed per million admitted SYNs; over all ports, the least.
    pub handshakes_ppm: u64,
}

impl ObservedSignals {
    /// Inserts `queue` behind those with a longer wait; the last entry is dropped.
    pub(super) fn insert(&mut self, queue: Queue) {
        let at = self.queues.iter().position(|other| other.port == 0 || other.delay < queue.delay);
        if let Some(at) = at {
            self.queues[at..].rotate_right(1);
            self.queues[at] = queue;
        }
    }

    /// Adds the signals of another port.
    pub(super) fn add(&mut self, other: &Self) {
        other.queues.into_iter().take_while(|queue| queue.port > 0).for_each(|queue| self.insert(queue));
        self.waiting += other.waiting;
        self.room += other.room;
        self.delay = self.delay.max(other.delay);
        self.served += other.served;
        self.unanswered += other.unanswered;
        self.unanswered_delay = self.unanswered_delay.max(other.unanswered_delay);
        self.handshakes_ppm = self.handshakes_ppm.min(other.handshakes_ppm);
    }
}

/// `struct port`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortEntry {
    /// Class of its connections, unless their prefix gives a more important one.
    pub class: u8,
    /// Index of its limit, counts and connections in their maps.
    pub slot: usize,
    /// Its connections before the attach.
    pub before: u32,
}

impl PortEntry {
    pub(super) const LEN: usize = 12;

    pub(super) fn bytes(self) -> Vec<u8> {
        [self.class.into(), self.slot as u32, self.before].map(u32::to_ne_bytes).concat()
    }
}

/// `struct limit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitEntry {
    /// Last control step (heartbeat of the controller), by the monotonic clock.
    pub alive: Time,
    /// Limit in force.
    pub held: LimitInForce,
    /// Signals observed.
    pub seen: ObservedSignals,
}

impl LimitEntry {
    const SEEN: usize = 4 + 2 * CLASSES;
    const REQUESTS: usize = Self::SEEN + 6;
    const UNANSWERED: usize = Self::REQUESTS + 5;
    const QUEUES: usize = Self::UNANSWERED + 3;
    const WORDS: usize = Self::QUEUES + 4 * SHOWN;
    pub(super) const LEN: usize = 8 * Self::WORDS;

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut words = [0; Self::WORDS];
        words[0] = self.alive.as_nanos();
        match self.held {
            LimitInForce::Open => {}
            LimitInForce::Rate { cost_ns, burst_ns, need_ns } => {
                words[1..4].copy_from_slice(&[1, cost_ns, burst_ns]);
                words[4..4 + CLASSES].copy_from_slice(&need_ns);
            }
            LimitInForce::Concurrency(present) => {
                words[1] = 2;
                words[4 + CLASSES..4 + 2 * CLASSES].copy_from_slice(&present);
            }
            LimitInForce::Closed => words[1] = 3,
        }
        let ObservedSignals { queues, waiting, room, delay, served, overflows, drops, requests, .. } =
            self.seen;
        let seen = [waiting, room, delay.as_nanos(), served, overflows, drops];
        words[Self::SEEN..Self::REQUESTS].copy_from_slice(&seen);
        let Requests { services, reporting, waiting, delay, budget } = requests;
        let budget = budget.map_or(u64::MAX, Span::as_nanos);
        words[Self::REQUESTS..Self::UNANSWERED].copy_from_slice(&[
            services,
            reporting,
            waiting,
            delay.as_nanos(),
            budget,
        ]);
        let ObservedSignals { unanswered, unanswered_delay, handshakes_ppm, .. } = self.seen;
        words[Self::UNANSWERED..Self::QUEUES].copy_from_slice(&[
            unanswered,
            unanswered_delay.as_nanos(),
            handshakes_ppm,
        ]);
        words[Self::QUEUES..].copy_from_slice(queues.map(Queue::words).as_flattened());
        words.map(u64::to_ne_bytes).concat()
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let words: [u64; Self::WORDS] = words(bytes)?;
        let each = |from: usize| std::array::from_fn(|at| words[from + at]);
        let held = match words[1] {
            0 => LimitInForce::Open,
            1 => LimitInForce::Rate { cost_ns: words[2], burst_ns: words[3], need_ns: each(4) },
            2 => LimitInForce::Concurrency(each(4 + CLASSES)),
            3 => LimitInForce::Closed,
            _ => return None,
        };
        let [waiting, room, delay_ns, served, overflows, drops] = each_of(&words[Self::SEEN..]);
        let queues = std::array::from_fn(|at| Queue::read(each_of(&words[Self::QUEUES + 4 * at..])));
        let delay = Span::from_nanos(delay_ns);
        let [services, reporting, requests, requests_ns, budget_ns] = each_of(&words[Self::REQUESTS..]);
        let requests = Requests {
            services,
            reporting,
            waiting: requests,
            delay: Span::from_nanos(requests_ns),
            budget: (budget_ns != u64::MAX).then(|| Span::from_nanos(budget_ns)),
        };
        let [unanswered, unanswered_ns, handshakes_ppm] = each_of(&words[Self::UNANSWERED..]);
        let unanswered_delay = Span::from_nanos(unanswered_ns);
        let seen = ObservedSignals {
            queues,
            waiting,
            room,
            delay,
            served,
            overflows,
            drops,
            requests,
            unanswered,
            unanswered_delay,
            handshakes_ppm,
        };
        Some(Self { alive: Time::from_nanos(words[0]), held, seen })
    }
}

/// Counts of SYNs, over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// SYNs to guarded listeners, by class.
    pub seen: [u64; CLASSES],
    /// Shed SYNs, by class and [`Reason`].
    pub shed: [[u64; 4]; CLASSES],
    /// SYNs admitted because the controller was silent.
    pub silent: u64,
}

impl Counts {
    const WORDS: usize = CLASSES + CLASSES * 4 + 1;
    pub(super) const LEN: usize = 8 * Self::WORDS;

    /// All SYNs.
    #[must_use]
    pub fn offered(&self) -> u64 {
        total(&self.seen)
    }

    /// All SYNs shed, or that would have been.
    #[must_use]
    pub fn shed(&self) -> u64 {
        total(self.shed.as_flattened())
    }

    /// Sum over the processors' consecutive values.
    pub(super) fn sum(bytes: &[u8]) -> Option<Self> {
        let mut all = Self::default();
        for bytes in bytes.chunks(Self::LEN) {
            let words: [u64; Self::WORDS] = words(bytes)?;
            all.add_words(words);
        }
        Some(all)
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        let mut words = other.seen.iter().chain(other.shed.as_flattened()).chain([&other.silent]);
        self.add_words(std::array::from_fn(|_| words.next().copied().unwrap_or_default()));
    }

    fn add_words(&mut self, words: [u64; Self::WORDS]) {
        let counts = self.seen.iter_mut().chain(self.shed.as_flattened_mut()).chain([&mut self.silent]);
        counts.zip(words).for_each(|(count, more)| *count = count.saturating_add(more));
    }
}

/// Saturating sum of `counts`, which any privileged process can write: any value is possible.
fn total(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// Connections of a port since the attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connections {
    pub opened: u64,
    /// No longer served.
    pub closed: u64,
    pub answered: u64,
    /// Those answered, by the time that it took.
    pub by_time: [u64; ResponseWaits::BINS],
}

impl Connections {
    const WORDS: usize = 3 + ResponseWaits::BINS;
    pub(super) const LEN: usize = 8 * Self::WORDS;

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let words: [u64; Self::WORDS] = words(bytes)?;
        let [opened, closed, answered] = each_of(&words);
        Some(Self { opened, closed, answered, by_time: each_of(&words[3..]) })
    }
}

/// The first `N` words, which must exist.
fn each_of<const N: usize>(words: &[u64]) -> [u64; N] {
    std::array::from_fn(|at| words[at])
}

pub(super) fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: &[[u8; 8]; N] = words.try_into().ok()?;
    rest.is_empty().then(|| words.map(u64::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let delay = Span::from_millis(4);
        let requests = Requests { services: 2, reporting: 1, waiting: 8, delay, budget: None };
        let mut seen = ObservedSignals {
            waiting: 3,
            room: 9,
            delay,
            served: 5,
            overflows: 6,
            drops: 7,
            requests,
            unanswered: 11,
            unanswered_delay: delay,
            handshakes_ppm: 4_000,
            ..ObservedSignals::default()
        };
        seen.queues[0] = Queue { port: 80, waiting: 3, room: 9, delay, is_stuck: true };
        seen.queues[SHOWN - 1] = Queue { port: 81, ..Queue::default() };
        for limit in [
            Limit::Open,
            Limit::Closed,
            Limit::Rate { per_s: 3e4, burst: 60.0 },
            Limit::Concurrency { max: 100 },
        ] {
            let entry = LimitEntry { alive: Time::from_nanos(77), held: LimitInForce::new(limit, 3), seen };
            assert_eq!(LimitEntry::read(&entry.bytes()), Some(entry));
            seen.requests.budget = Some(delay);
        }
        assert_eq!(LimitEntry::read(&[0; 8]), None);
        assert_eq!(Counts::sum(&[1; Counts::LEN - 1]), None);
    }

    #[test]
    fn counts_saturate() {
        let all = Counts::sum(&[0xff; 3 * Counts::LEN]).unwrap();
        assert_eq!((all.offered(), all.shed(), all.silent), (u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn the_strictest_limit_admits_least() {
        let limit = |limit| LimitInForce::new(limit, 1);
        let [open, closed] = [Limit::Open, Limit::Closed].map(limit);
        let [slow, fast] = [10.0, 500.0].map(|per_s| limit(Limit::Rate { per_s, burst: 4.0 }));
        let [few, many] = [8, 100].map(|max| limit(Limit::Concurrency { max }));
        assert_eq!(LimitInForce::strictest([]), open);
        assert_eq!(LimitInForce::strictest([open, fast, slow]), slow);
        assert_eq!(LimitInForce::strictest([few, many, open]), few);
        assert_eq!(LimitInForce::strictest([closed, few, open]), closed);
    }

    #[test]
    fn the_first_class_needs_one_and_the_last_leaves_what_is_kept() {
        let LimitInForce::Rate { cost_ns, burst_ns, need_ns } =
            LimitInForce::new(Limit::Rate { per_s: 1000.0, burst: 10.0 }, 2)
        else {
            panic!("a rate limit stays a rate limit")
        };
        assert_eq!((cost_ns, burst_ns), (1_000_000, 60_000_000));
        assert_eq!(need_ns[..3], [1_000_000, 51_000_000, 51_000_000]);
        let LimitInForce::Concurrency(present) = LimitInForce::new(Limit::Concurrency { max: 100 }, 2) else {
            panic!("a concurrency limit stays a concurrency limit")
        };
        assert_eq!(present[..2], [100, 75]);
    }
}
