//! Connection timers: the next deadline, and the actions at it.
//!
//! The stack has one timer per connection. It is set to the earliest of retransmission or persist
//! timer, tail loss probe or RACK, keep-alive, delayed ACK, pacer, and TIME-WAIT.
//! Source: RFC 9293 §3.8, RFC 6298.

use queueing::Time;

use super::connection::{Connection, Context};
use super::state::State;
use super::store::ByteStore;
use crate::stack::{CloseReason, Config};

impl<B: ByteStore> Connection<B> {
    /// Maximum consecutive timeouts (RFC 1122 §4.2.3.5: at least 100 s in all).
    const RETRIES_MAX: u8 = 15;
    /// Maximum timeouts of our SYN: 183 s in all, without a round-trip sample (RFC 9293 §3.8.3
    /// requires at least three minutes).
    const RETRIES_SYN_MAX: u8 = 7;
    /// Maximum timeouts of a SYN-ACK: 63 s in all, to bound half-open connections.
    const RETRIES_SYN_RECEIVED_MAX: u8 = 5;

    /// Maximum consecutive timeouts in the current state.
    pub(super) fn retries_max(&self) -> u8 {
        match self.state {
            State::SynSent | State::SynReceived { passive: false } => Self::RETRIES_SYN_MAX,
            State::SynReceived { passive: true } => Self::RETRIES_SYN_RECEIVED_MAX,
            _ => Self::RETRIES_MAX,
        }
    }

    /// Starts the retransmission timer if it is not running.
    #[inline]
    pub(crate) fn arm(&mut self, now: Time, config: &Config) {
        if self.rto_at == Time::MAX {
            self.rto_at = self.rto_from(now, config);
        }
    }

    /// Called when nothing can be sent: starts the persist timer if only the peer's window is the
    /// reason (RFC 9293 §3.8.6.1).
    #[inline]
    pub(crate) fn wait_for_window(&mut self, now: Time, config: &Config) {
        self.flags.paced = self.ecn_pacing.is_some() && self.wants_data() && self.is_paced(now);
        if self.is_stalled() && !self.flags.paced {
            self.arm(now, config);
        }
    }

    /// Deadline of [`Connection::on_timeout`]; `Time::MAX` for never.
    #[inline]
    pub(crate) fn deadline(&self, config: &Config) -> Time {
        let others = self.flags.ack_delayed
            | self.ecn_pacing.is_some()
            | self.timeout_options.is_some()
            | config.keep_alive.is_some();
        if self.state == State::Established && !others {
            return self.rto_at.min(self.early_at);
        }
        self.deadline_of_any(config)
    }

    #[inline(never)]
    fn deadline_of_any(&self, config: &Config) -> Time {
        match self.state {
            State::Closed => self.rto_at,
            State::TimeWait { until } => until,
            _ => self
                .rto_at
                .min(self.early_at)
                .min(self.keep_alive_at(config))
                .min(self.ack_due_at())
                .min(self.ecn_pacing_due()),
        }
    }

    /// Handles every timer that is due.
    pub(crate) fn on_timeout(&mut self, cx: &mut Context<'_>) {
        if let State::TimeWait { until } = self.state {
            if until <= cx.now {
                self.end(cx, CloseReason::Finished);
            }
            return;
        }
        if self.state == State::Closed {
            self.recv.release(cx.pool);
            return;
        }
        self.on_ack_due(cx);
        self.flags.paced &= self.paced_until() > cx.now;
        if self.early_at <= cx.now {
            self.on_early_timeout(cx);
        } else if self.rto_at <= cx.now {
            self.on_retransmission_timeout(cx);
        }
        if self.keep_alive_at(cx.config) <= cx.now {
            let count = self.keep_alive(cx.config).map_or(0, |keep_alive| keep_alive.count.max(1));
            if self.keep_alives >= count {
                return self.time_out(cx);
            }
            self.keep_alives += 1;
            self.flags.probe_due = true;
        }
    }

    /// Keeps unread data of a closed connection for the length of TIME-WAIT.
    pub(crate) fn linger(&mut self, now: Time, config: &Config) {
        if self.rto_at == Time::MAX {
            self.rto_at = now + config.time_wait;
        }
    }

    /// Bounds FIN-WAIT-2 of a detached connection, even if the peer is alive.
    pub(super) fn limit_fin_wait(&mut self, cx: &Context<'_>) {
        if self.state == State::FinWait2 && self.flags.detached {
            self.rto_at = cx.now + cx.config.fin_wait;
        }
    }
}
