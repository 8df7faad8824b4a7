//! How long a connection waits for a peer that says nothing.
//!
//! Both waits are off unless asked for. Keep-alive asks a peer that has been
//! silent whether it lives (RFC 9293 §3.8.4). The user timeout ends a
//! connection whose data nobody acknowledges for so long, whether segments are
//! lost or the peer keeps its window closed; it is looked at when the
//! retransmission timer fires and is not told to the peer (RFC 9293 §3.8.3,
//! RFC 5482 §3 without the option). Most connections do as the stack's
//! configuration says and own none of this.

use queueing::{Span, Time};

use super::connection::Connection;
use super::fast_open::FastOpenState;
use super::state::State;
use super::store::ByteStore;
use crate::stack::Config;

/// When and how often a silent peer is asked whether it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence before the first probe.
    pub idle: Span,
    /// Silence between probes.
    pub interval: Span,
    /// Probes without an answer before the connection ends, at least 1.
    pub count: u8,
}

impl KeepAlive {
    /// What Linux does unless it is told otherwise (tcp(7)).
    pub const LINUX: Self = Self { idle: Span::from_secs(7200), interval: Span::from_secs(75), count: 9 };

    /// The first probe after `idle`, eight in all, an eighth of `idle` apart.
    #[must_use]
    pub fn after(idle: Span) -> Self {
        Self { idle, interval: (idle / 8).max(Span::from_millis(1)), count: 8 }
    }
}

/// What one connection wants otherwise than its stack.
#[derive(Debug, Default)]
pub(crate) struct TimeoutOptions {
    pub(crate) keep_alive: Option<Option<KeepAlive>>,
    pub(crate) user_timeout: Option<Option<Span>>,
    /// What our SYN brings along.
    pub(crate) fast: Option<FastOpenState>,
    /// Since when data waits for an acknowledgement, as far as a timer has noticed.
    waiting_since: Option<Time>,
}

impl<B: ByteStore> Connection<B> {
    /// What this connection wants otherwise than its stack, to change.
    pub(crate) fn patience(&mut self) -> &mut TimeoutOptions {
        self.patience.get_or_insert_default()
    }

    /// Keep-alive as it applies. Only the peer can end FIN-WAIT-2: whether it
    /// lives is always asked there.
    #[inline]
    pub(super) fn keep_alive(&self, config: &Config) -> Option<KeepAlive> {
        let own = self.patience.as_ref().and_then(|patience| patience.keep_alive);
        let always = (self.state == State::FinWait2).then_some(config.fin_wait);
        own.unwrap_or(config.keep_alive.map(KeepAlive::after)).or(always.map(KeepAlive::after))
    }

    /// When the next keep-alive probe is due; `Time::MAX` for never. While data
    /// is in flight the retransmission timer asks (RFC 9293 §3.8.4, MUST-26).
    #[inline]
    pub(super) fn keep_alive_at(&self, config: &Config) -> Time {
        match self.keep_alive(config) {
            Some(asked) if self.state.is_synchronized() && self.snd_una == self.snd_nxt => {
                self.heard_at + asked.idle + asked.interval * u64::from(self.keep_alives)
            }
            _ => Time::MAX,
        }
    }

    /// The retransmission timer has fired: whether the user timeout is over.
    pub(super) fn patience_is_over(&mut self, now: Time, config: &Config) -> bool {
        let own = self.patience.as_ref().and_then(|patience| patience.user_timeout);
        if own.unwrap_or(config.user_timeout).is_none() {
            return false;
        }
        let waited = self.rtt.rto(config.rto_min);
        let start = Time::from_nanos(now.as_nanos().saturating_sub(waited.as_nanos()));
        self.patience().waiting_since.get_or_insert(start);
        self.patience_ends_at(config) <= now
    }

    /// When the user timeout ends the connection, once data waits; `Time::MAX` for never.
    fn patience_ends_at(&self, config: &Config) -> Time {
        let Some(patience) = &self.patience else { return Time::MAX };
        match (patience.waiting_since, patience.user_timeout.unwrap_or(config.user_timeout)) {
            (Some(since), Some(timeout)) => since + timeout,
            _ => Time::MAX,
        }
    }

    /// When the retransmission timer fires that starts at `now`.
    #[inline]
    pub(super) fn rto_from(&self, now: Time, config: &Config) -> Time {
        (now + self.rtt.rto(config.rto_min)).min(self.patience_ends_at(config))
    }

    /// The peer has acknowledged something new.
    #[inline]
    pub(super) fn patience_regained(&mut self) {
        if let Some(patience) = &mut self.patience {
            patience.waiting_since = None;
        }
    }
}
