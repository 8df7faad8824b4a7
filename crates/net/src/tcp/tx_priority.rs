//! Transmit priority of a connection.
//!
//! Bytes keep their order, so the priority is that of the connection: the level of the next bytes,
//! raised as soon as more urgent bytes are queued behind them and lowered once those are sent.

use queueing::Priority;
use wire::tcp::Seq;

use super::connection::Connection;
use super::store::ByteStore;
use crate::stack::Config;

/// Current transmit level and the next one.
///
/// Bytes keep the level with which they were written, with one exception: they become as urgent as
/// the bytes behind them, which cannot overtake.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transmit {
    pub(crate) level: Priority,
    /// Next, less urgent level, in effect from byte `then_at` on. (Separate from `then_at`, since a
    /// tuple would take twice the space.)
    then: Option<Priority>,
    /// DSCP of its packets; 0 for that of their level.
    pub(crate) dscp: u8,
    then_at: Seq,
}

impl Default for Transmit {
    fn default() -> Self {
        Self { level: Priority::LOWEST, then: None, dscp: 0, then_at: Seq(0) }
    }
}

impl Transmit {
    /// Sets `level` for bytes written from `end` on; earlier bytes are unsent unless `sent`.
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

    /// DSCP of the next packet.
    #[inline]
    pub(crate) fn dscp(&self, config: &Config) -> u8 {
        if self.dscp == 0 { config.dscp_of(self.level) } else { self.dscp }
    }

    /// Level of the bytes written last.
    pub(crate) fn latest(&self) -> Priority {
        self.then.unwrap_or(self.level)
    }

    /// Start of the less urgent bytes, if any.
    #[inline]
    pub(crate) fn until(&self) -> Option<Seq> {
        self.then.map(|_| self.then_at)
    }

    /// Updates the level after bytes up to `next` were sent.
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
    /// Sets `level` for bytes written from now on.
    #[inline]
    pub(crate) fn set_level(&mut self, level: Priority) {
        let end = self.data_start() + self.send.len() as u32;
        self.transmit.set(level, end, !self.snd_nxt.before(end));
    }

    /// Bytes of data in one transmit opportunity of `segments` segments, windows aside.
    #[inline]
    pub(crate) fn turn_bytes(&self, segments: u32) -> u32 {
        self.unsent().min(segments * u32::from(self.mss))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets levels at stream positions, then sends up to each expected position.
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
    fn the_more_urgent_of_two_following_writes_applies_from_the_first() {
        check(&[(0, 0), (7, 10), (3, 20), (5, 30)], &[(9, 0), (10, 3), (30, 3)]);
    }
}
