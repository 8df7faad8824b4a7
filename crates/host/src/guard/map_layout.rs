//! `intf.h` in Rust: what lies in the program's maps, byte for byte.
//!
//! Values go through bytes and not through pointers, so nothing here is
//! unsafe; [`load`](super::program) checks lengths against the program's own.

use guard::app_queue::Requests;
use guard::{Limit, Share};
use queueing::{Span, Time};

/// Classes that a guard tells apart at the most.
pub const CLASSES: usize = 8;
/// Ports that it guards at the most.
pub const PORTS_MAX: usize = 64;
/// Prefixes that name classes, at the most.
pub const PREFIXES_MAX: usize = 1024;
/// Accept queues behind one address and port that are looked at.
pub(super) const QUEUES: usize = 192;
/// Accept queues that [`ThreadSnapshot`] tells apart.
pub const SHOWN: usize = 16;
/// Without a sign of the controller for so long, everything passes.
pub const DEADMAN: Span = Span::from_secs(1);
/// Bytes of text about what is attached.
pub(super) const NOTES_LEN: usize = 2048;

/// Why a SYN is shed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nobody comes in.
    Closed,
    /// More came than the rate.
    Rate,
    /// As many are in the server as may be.
    Present,
    /// The accept queue is full: the kernel would drop it too, later.
    Full,
}

impl Reason {
    /// All of them, as the maps have them.
    pub const ALL: [Self; 4] = [Self::Closed, Self::Rate, Self::Present, Self::Full];

    /// In a word.
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

/// What may come in, as the program has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitInForce {
    /// Everybody.
    #[default]
    Open,
    /// So much time per connection, of what was saved up.
    Rate {
        /// What a connection takes.
        cost_ns: u64,
        /// What can be saved up.
        burst_ns: u64,
        /// What must have been saved up for each class.
        need_ns: [u64; CLASSES],
    },
    /// Below so many in the server, for each class.
    Concurrency([u64; CLASSES]),
    /// Nobody.
    Closed,
}

impl LimitInForce {
    /// `limit` for `classes` classes, as [`Share`] has it.
    ///
    /// # Panics
    /// When `classes` is outside 1..=[`CLASSES`].
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
            Limit::Rate { per_s } => {
                let cost = NS_PER_S / per_s.max(PER_S_MIN);
                let ns = |requests: f64| (cost * requests).round() as u64;
                Self::Rate {
                    cost_ns: ns(1.0),
                    burst_ns: ns(share.burst(per_s)),
                    need_ns: std::array::from_fn(|place| ns(share.required_tokens(per_s, place))),
                }
            }
        }
    }
}

const NS_PER_S: f64 = 1e9;
/// Less than one a minute is nobody for the time between two looks.
const PER_S_MIN: f64 = 1.0 / 60.0;

/// A listener's accept queue, as the controller saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Its port.
    pub port: u16,
    /// Connections in it.
    pub waiting: u32,
    /// Above how many none is taken.
    pub room: u32,
    /// How long the first of them has waited.
    pub delay: Span,
}

impl Queue {
    fn words(self) -> [u64; 4] {
        [self.port.into(), self.waiting.into(), self.room.into(), self.delay.as_nanos()]
    }

    fn read([port, waiting, room, delay_ns]: [u64; 4]) -> Self {
        let delay = Span::from_nanos(delay_ns);
        Self { port: port as u16, waiting: waiting as u32, room: room as u32, delay }
    }
}

/// What the controller saw, for whoever asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedSignals {
    /// The accept queues whose first has waited longest, it first; those of
    /// port 0 are none.
    pub queues: [Queue; SHOWN],
    /// Connections in the accept queues.
    pub waiting: u64,
    /// Room in them.
    pub room: u64,
    /// How long the first has waited where it has waited longest.
    pub delay: Span,
    /// Taken off since the guard was attached.
    pub served: u64,
    /// What the kernel dropped since an accept queue was full (`ListenOverflows`):
    /// mostly the last step of a handshake, after which a client takes itself for connected.
    pub overflows: u64,
    /// All that the kernel dropped at listeners (`ListenDrops`).
    pub drops: u64,
    /// What services told of their requests.
    pub requests: Requests,
    /// Connections that have sent something and have not been sent a byte, where
    /// that is looked at ([`super::Until::Answer`]).
    pub unanswered: u64,
    /// How long the first of these has waited.
    pub unanswered_delay: Span,
}

/// `struct limit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitEntry {
    /// When, by the monotonic clock.
    pub alive: Time,
    /// What may come in.
    pub held: LimitInForce,
    /// What was seen.
    pub seen: ObservedSignals,
}

impl LimitEntry {
    const SEEN: usize = 4 + 2 * CLASSES;
    const REQUESTS: usize = Self::SEEN + 6;
    const UNANSWERED: usize = Self::REQUESTS + 5;
    const QUEUES: usize = Self::UNANSWERED + 2;
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
        words[Self::UNANSWERED..Self::QUEUES]
            .copy_from_slice(&[self.seen.unanswered, self.seen.unanswered_delay.as_nanos()]);
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
        let [unanswered, unanswered_ns] = each_of(&words[Self::UNANSWERED..]);
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
        };
        Some(Self { alive: Time::from_nanos(words[0]), held, seen })
    }
}

/// What came, as all processors together counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// SYNs for guarded listeners, by class.
    pub seen: [u64; CLASSES],
    /// Of these, shed, by class and [`Reason`].
    pub shed: [[u64; 4]; CLASSES],
    /// Of those seen, let in as the controller was silent.
    pub silent: u64,
}

impl Counts {
    const WORDS: usize = CLASSES + CLASSES * 4 + 1;
    pub(super) const LEN: usize = 8 * Self::WORDS;

    /// All that came.
    #[must_use]
    pub fn offered(&self) -> u64 {
        total(&self.seen)
    }

    /// All that was shed, or would have been.
    #[must_use]
    pub fn shed(&self) -> u64 {
        total(self.shed.as_flattened())
    }

    /// The sum of what each processor counted, one after the other.
    pub(super) fn sum(bytes: &[u8]) -> Option<Self> {
        let mut all = Self::default();
        for bytes in bytes.chunks(Self::LEN) {
            let words: [u64; Self::WORDS] = words(bytes)?;
            let mut words = words.into_iter();
            let mut next = || words.next().unwrap_or_default();
            let counts = all.seen.iter_mut().chain(all.shed.as_flattened_mut()).chain([&mut all.silent]);
            counts.for_each(|count| *count = count.saturating_add(next()));
        }
        Some(all)
    }
}

/// All of `counts`, which may be anything: others can write to the map.
fn total(counts: &[u64]) -> u64 {
    counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// `struct connections`: made, no longer served, and answered.
pub(super) fn connections(bytes: &[u8]) -> Option<[u64; 3]> {
    words(bytes)
}

/// The first words of those, of which there are enough.
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
            ..ObservedSignals::default()
        };
        seen.queues[0] = Queue { port: 80, waiting: 3, room: 9, delay };
        seen.queues[SHOWN - 1] = Queue { port: 81, ..Queue::default() };
        for limit in [Limit::Open, Limit::Closed, Limit::Rate { per_s: 3e4 }, Limit::Concurrency { max: 100 }]
        {
            let look = LimitEntry { alive: Time::from_nanos(77), held: LimitInForce::new(limit, 3), seen };
            assert_eq!(LimitEntry::read(&look.bytes()), Some(look));
            seen.requests.budget = Some(delay);
        }
        assert_eq!(LimitEntry::read(&[0; 8]), None);
        assert_eq!(Counts::sum(&[1; Counts::LEN - 1]), None);
    }

    #[test]
    fn counts_beyond_all_bounds_stay_at_the_bound() {
        let all = Counts::sum(&[0xff; 3 * Counts::LEN]).unwrap();
        assert_eq!((all.offered(), all.shed(), all.silent), (u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn the_first_class_needs_one_and_the_last_leaves_what_is_kept() {
        let LimitInForce::Rate { cost_ns, burst_ns, need_ns } =
            LimitInForce::new(Limit::Rate { per_s: 1000.0 }, 2)
        else {
            panic!("a rate is a rate")
        };
        assert_eq!((cost_ns, burst_ns), (1_000_000, 60_000_000));
        assert_eq!(need_ns[..3], [1_000_000, 51_000_000, 51_000_000]);
        let LimitInForce::Concurrency(present) = LimitInForce::new(Limit::Concurrency { max: 100 }, 2) else {
            panic!("so many are so many")
        };
        assert_eq!(present[..2], [100, 75]);
    }
}
