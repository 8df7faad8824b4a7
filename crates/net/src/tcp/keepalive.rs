//! Keep-alive probes and the user timeout of a connection.
//!
//! Both are off by default. Keep-alive probes test whether a silent peer is alive (RFC 9293
//! §3.8.4). The user timeout ends a connection whose data stays unacknowledged for that time,
//! either because segments are lost or because the peer's window stays closed. It is checked when
//! the retransmission timer fires and is not announced to the peer (RFC 9293 §3.8.3, RFC 5482 §3
//! without the option).
//!
//! Most connections follow the stack's configuration and own no such state.

use queueing::{Span, Time};

use super::connection::Connection;
use super::fast_open::FastOpenState;
use super::state::State;
use super::store::ByteStore;
use crate::stack::Config;

/// Times and number of keep-alive probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Idle time before the first probe.
    pub idle: Span,
    /// Time between probes.
    pub interval: Span,
    /// Unanswered probes after which the connection ends, at least 1.
    pub count: u8,
}

impl KeepAlive {
    /// Linux's defaults (tcp(7)).
    pub const LINUX: Self = Self { idle: Span::from_secs(7200), interval: Span::from_secs(75), count: 9 };

    /// First probe after `idle`, then seven more at intervals of an eighth of `idle`.
    #[must_use]
    pub fn after(idle: Span) -> Self {
        Self { idle, interval: (idle / 8).max(Span::from_millis(1)), count: 8 }
    }
}

/// Settings of one connection that differ from its stack's configuration.
#[derive(Debug, Default)]
pub(crate) struct TimeoutOptions {
    pub(crate) keep_alive: Option<Option<KeepAlive>>,
    pub(crate) user_timeout: Option<Option<Span>>,
    /// Fast Open state of our SYN.
    pub(crate) fast: Option<FastOpenState>,
    /// Start of the wait for an acknowledgement, as noticed by a timer.
    waiting_since: Option<Time>,
}

impl<B: ByteStore> Connection<B> {
    /// Settings of this connection, allocated on first use.
    pub(crate) fn timeout_options(&mut self) -> &mut TimeoutOptions {
        self.timeout_options.get_or_insert_default()
    }

    /// Keep-alive in effect; always on in FIN-WAIT-2, which only the peer can end.
    #[inline]
    pub(super) fn keep_alive(&self, config: &Config) -> Option<KeepAlive> {
        let own = self.timeout_options.as_ref().and_then(|timeout_options| timeout_options.keep_alive);
        let always = (self.state == State::FinWait2).then_some(config.fin_wait);
        own.unwrap_or(config.keep_alive.map(KeepAlive::after)).or(always.map(KeepAlive::after))
    }

    /// Time of the next keep-alive probe; `Time::MAX` for never.
    ///
    /// While data is in flight, the retransmission timer does the probing (RFC 9293 §3.8.4,
    /// MUST-26).
    #[inline]
    pub(super) fn keep_alive_at(&self, config: &Config) -> Time {
        match self.keep_alive(config) {
            Some(keep_alive) if self.state.is_synchronized() && self.snd_una == self.snd_nxt => {
                self.received_at + keep_alive.idle + keep_alive.interval * u64::from(self.keep_alives)
            }
            _ => Time::MAX,
        }
    }

    /// Called when the retransmission timer fires; returns true if the user timeout has expired.
    pub(super) fn user_timeout_expired(&mut self, now: Time, config: &Config) -> bool {
        let own = self.timeout_options.as_ref().and_then(|timeout_options| timeout_options.user_timeout);
        if own.unwrap_or(config.user_timeout).is_none() {
            return false;
        }
        let waited = self.rtt.rto(config.rto_min);
        let start = Time::from_nanos(now.as_nanos().saturating_sub(waited.as_nanos()));
        self.timeout_options().waiting_since.get_or_insert(start);
        self.user_timeout_at(config) <= now
    }

    /// Time at which the user timeout ends the connection while data waits; `Time::MAX` for never.
    fn user_timeout_at(&self, config: &Config) -> Time {
        let Some(timeout_options) = &self.timeout_options else { return Time::MAX };
        match (timeout_options.waiting_since, timeout_options.user_timeout.unwrap_or(config.user_timeout)) {
            (Some(since), Some(timeout)) => since + timeout,
            _ => Time::MAX,
        }
    }

    /// Deadline of a retransmission timer started at `now`.
    #[inline]
    pub(super) fn rto_from(&self, now: Time, config: &Config) -> Time {
        (now + self.rtt.rto(config.rto_min)).min(self.user_timeout_at(config))
    }

    /// The peer has acknowledged new data: the user timeout starts over.
    #[inline]
    pub(super) fn restart_user_timeout(&mut self) {
        if let Some(timeout_options) = &mut self.timeout_options {
            timeout_options.waiting_since = None;
        }
    }
}
