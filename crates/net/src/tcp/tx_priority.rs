//! How urgent what a connection sends is.
//!
//! Bytes keep their order, so urgency is the connection's: the level of the
//! bytes that go out next, raised as soon as something more urgent stands
//! behind them and lowered once they are out.

use queueing::Priority;

use super::connection::Connection;
use super::store::ByteStore;
use crate::stack::Config;
use crate::wire::tcp::Seq;

/// The level at which a connection sends, and the one that follows.
///
/// What was written keeps the label it was written with, with one exception:
/// bytes before it cannot be overtaken, so they become as urgent as what
/// follows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmit {
    pub(crate) level: Priority,
    /// From this byte on the level is another, less urgent one. (Beside the
    /// byte, and not in a tuple with it, it takes half the room.)
    then: Option<Priority>,
    /// The code point of its packets; 0: that of their level.
    pub(crate) dscp: u8,
    then_at: Seq,
}

impl Default for Transmit {
    fn default() -> Self {
        Self { level: Priority::LOWEST, then: None, dscp: 0, then_at: Seq(0) }
    }
}

impl Transmit {
    /// What is written from byte `end` on goes out at `level`; bytes before it
    /// are unsent unless `sent`.
    #[inline]
    pub(crate) fn set(&mut self, level: Priority, end: Seq, sent: bool) {
        if sent || level <= self.level {
            *self = Self { level, then: None, ..*self };
            return;
        }
        if self.then.is_none() {
            self.then_at = end;
        }
        self.then = Some(self.then.map_or(level, |other| other.min(level)));
    }

    /// The code point of what goes out now.
    #[inline]
    pub(crate) fn dscp(&self, config: &Config) -> u8 {
        if self.dscp == 0 { config.dscp_of(self.level) } else { self.dscp }
    }

    /// How urgent what is written next will be.
    pub(crate) fn latest(&self) -> Priority {
        self.then.unwrap_or(self.level)
    }

    /// Where what is less urgent begins, if something follows.
    #[inline]
    pub(crate) fn until(&self) -> Option<Seq> {
        self.then.map(|_| self.then_at)
    }

    /// Bytes up to `next` were sent.
    #[inline]
    pub(crate) fn on_sent(&mut self, next: Seq) {
        if let Some(level) = self.then
            && next.at_or_after(self.then_at)
        {
            *self = Self { level, then: None, ..*self };
        }
    }
}

impl<B: ByteStore> Connection<B> {
    /// What is written from now on goes out at `level`.
    #[inline]
    pub(crate) fn set_level(&mut self, level: Priority) {
        let end = self.data_start() + self.send.len() as u32;
        self.transmit.set(level, end, !self.snd_nxt.before(end));
    }

    /// Bytes of data that one turn of `segments` would send, as far as the
    /// peer's window and ours allow more than none.
    #[inline]
    pub(crate) fn turn_bytes(&self, segments: u32) -> u32 {
        self.unsent().min(segments * u32::from(self.mss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets levels at stream positions, then sends up to each position asked for.
    fn check(sets: &[(u8, u32)], expected: &[(u32, u8)]) {
        let mut transmit = Transmit::default();
        for (i, &(level, end)) in sets.iter().enumerate() {
            transmit.set(Priority::new(level).unwrap(), Seq(end), i == 0);
        }
        for &(next, level) in expected {
            transmit.on_sent(Seq(next));
            assert_eq!(transmit.level.level(), level, "after byte {next}");
        }
    }

    #[test]
    fn less_urgent_bytes_lower_the_level_once_the_urgent_ones_are_out() {
        check(&[(2, 0), (5, 100)], &[(0, 2), (99, 2), (100, 5), (200, 5)]);
    }

    #[test]
    fn urgent_bytes_raise_those_before_them() {
        check(&[(5, 0), (2, 100)], &[(0, 2), (100, 2)]);
        check(&[(5, 0), (7, 50), (2, 100)], &[(0, 2), (50, 2), (100, 2)]);
    }

    #[test]
    fn of_two_that_follow_the_more_urgent_counts_from_the_first() {
        check(&[(0, 0), (7, 10), (3, 20), (5, 30)], &[(9, 0), (10, 3), (30, 3)]);
    }
}
