//! Receive-window auto-tuning.
//!
//! The window starts at [`Config::recv_buffer`] and follows the bytes that the application reads
//! per round trip. If these exceed half of the window, the window rather than the path may be the
//! limit: it grows to twice as much, up to [`Config::recv_buffer_max`]. A sender in slow start
//! doubles each round trip, so the window stays ahead of it.
//!
//! The round trip is the longer of two samples: that of our own segments (at least the handshake)
//! and, in milliseconds, that of the timestamps echoed by the peer's data. Only the second follows
//! path changes while all data flows towards us. Without either the window stays constant.
//!
//! When memory is short, the window is limited to [`ReceiveWindow::SHORT`]. Space already
//! advertised is never withdrawn.
//! Source: Fisk and Feng, *Dynamic Right-Sizing*, 2001; RFC 7323 §4.

use queueing::{Span, Time};

use super::buffer::Pool;
use crate::stack::Config;

/// Receive-window size with the measurements for the next adjustment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveWindow {
    /// Maximum number of bytes unread or in flight.
    limit: u32,
    /// Start of the round, in microseconds.
    began_us: u32,
    /// Bytes read in this round.
    read: u32,
    /// Shortest round trip by timestamps in this round, in milliseconds, if any.
    rtt_ms: u16,
}

impl ReceiveWindow {
    /// Window limit while memory is short, in bytes.
    pub(crate) const SHORT: usize = 16 * 1024;
    const RTT_UNKNOWN: u16 = u16::MAX;

    pub(crate) fn new(now: Time, config: &Config) -> Self {
        let limit = config.recv_buffer.min(u32::MAX as usize) as u32;
        Self { limit, began_us: micros(now), read: 0, rtt_ms: Self::RTT_UNKNOWN }
    }

    /// Window limit in bytes.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        self.limit as usize
    }

    /// Data arrived whose timestamp echo is `age_ms` old.
    #[inline]
    pub(crate) fn on_echo(&mut self, age_ms: u32) {
        self.rtt_ms = self.rtt_ms.min(age_ms.min(u32::from(Self::RTT_UNKNOWN)) as u16);
    }

    /// The application has read `n` bytes.
    #[inline]
    pub(crate) fn on_read(&mut self, now: Time, n: usize, srtt: Option<Span>, config: &Config, pool: &Pool) {
        self.read = self.read.saturating_add(n as u32);
        let known = self.rtt_ms != Self::RTT_UNKNOWN;
        let by_echo_us = if known { u64::from(self.rtt_ms) * 1000 } else { 0 };
        let round_us = srtt.map_or(0, |srtt| srtt.as_nanos() / 1000).max(by_echo_us);
        if (srtt.is_none() && !known) || u64::from(micros(now).wrapping_sub(self.began_us)) < round_us {
            return;
        }
        let wanted = u64::from(self.read) * 2;
        let enough = wanted <= u64::from(self.limit) && self.limit as usize >= config.recv_buffer;
        if pool.is_short() {
            self.limit = self.limit.min(Self::SHORT as u32);
        } else if !enough {
            let limit = u64::from(self.limit).max(config.recv_buffer as u64);
            self.limit = wanted.clamp(limit, config.recv_buffer_max().max(limit as usize) as u64) as u32;
        }
        (self.began_us, self.read, self.rtt_ms) = (micros(now), 0, Self::RTT_UNKNOWN);
    }

    /// Memory is short: reduces the limit to [`Self::SHORT`].
    #[inline]
    pub(crate) fn shorten(&mut self) {
        self.limit = self.limit.min(Self::SHORT as u32);
    }

    /// Memory is available again: raises the limit to that of a new connection.
    pub(crate) fn restore(&mut self, config: &Config) {
        self.limit = self.limit.max(config.recv_buffer.min(u32::MAX as usize) as u32);
    }
}

#[inline]
fn micros(now: Time) -> u32 {
    (now.as_nanos() / 1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::new([2; 6], [10, 0, 0, 1].into(), 24, [7; 16])
    }

    /// Window after `rounds` round trips of `rtt`, in each of which `each` bytes are read.
    fn check(rtt: Span, rounds: u64, each: usize, pool: &Pool) -> usize {
        let config = config();
        let mut window = ReceiveWindow::new(Time::ZERO, &config);
        for i in 1..=rounds {
            window.on_read(Time::ZERO + rtt * i, each, Some(rtt), &config, pool);
        }
        window.limit()
    }

    #[test]
    fn window_is_twice_the_bytes_read_in_a_round_trip_within_its_bounds() {
        let (pool, start) = (Pool::default(), config().recv_buffer);
        let rtt = Span::from_millis(20);
        assert_eq!(check(rtt, 100, start / 4, &pool), start);
        assert_eq!(check(rtt, 1, start, &pool), 2 * start);
        assert_eq!(check(rtt, 100, 1_250_000, &pool), 2_500_000);
        assert_eq!(check(rtt, 100, 1 << 30, &pool), config().recv_buffer_max());
    }

    #[test]
    fn window_stays_without_a_round_trip_and_shrinks_when_memory_is_short() {
        let config = config();
        let mut window = ReceiveWindow::new(Time::ZERO, &config);
        let now = Time::from_nanos(1_000_000_000);
        window.on_read(now, 1 << 20, None, &config, &Pool::default());
        assert_eq!(window.limit(), config.recv_buffer);
        window.on_echo(20);
        window.on_read(now, 1, None, &config, &Pool::default());
        assert!(window.limit() > config.recv_buffer);
        let mut full = Pool::bounded(1000);
        full.account(0, 1000);
        window.on_read(now + Span::from_secs(1), 1, Some(Span::from_millis(1)), &config, &full);
        assert_eq!(window.limit(), ReceiveWindow::SHORT);
    }
}
