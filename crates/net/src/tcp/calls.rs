//! User calls of a connection: write, read, close and detach, with their effects on the windows.
//!
//! Connection setup is in `handshake`.
//! Source: RFC 9293 §3.9.

use super::autotune::ReceiveWindow;
use super::buffer::Pool;
use super::congestion::CongestionControl;
use super::connection::{Connection, Context};
use super::state::{State, Step};
use super::store::ByteStore;
use crate::stack::{CloseReason, Config};

impl<B: ByteStore> Connection<B> {
    /// Queues bytes for sending; returns how many fit, `None` if the sending half is closed.
    #[inline]
    pub(crate) fn write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<usize> {
        let accepted = self.send_room(cx, bytes.len())?;
        if self.send.is_empty() && self.snd_una == self.snd_nxt {
            self.on_resume(cx);
        }
        self.send.push(&bytes[..accepted], cx.pool);
        if self.rare.is_some() {
            self.notify_classifier(cx);
        }
        Some(accepted)
    }

    /// Number of `wanted` bytes that [`Connection::write`] would accept; if fewer, `Writable`
    /// follows.
    #[inline]
    pub(crate) fn send_room(&mut self, cx: &mut Context<'_>, wanted: usize) -> Option<usize> {
        if !self.state.can_send() || self.flags.fin_queued {
            return None;
        }
        let queued = self.send.len();
        let little = queued + wanted <= cx.config.send_buffer && !cx.pool.is_short();
        // The limit is at least `send_buffer`, unless memory is short.
        let space = if little { wanted } else { self.send_limit(cx.config, cx.pool).saturating_sub(queued) };
        let fitting = wanted.min(space);
        let accepted = self.send.affordable(fitting, cx.pool);
        if accepted < fitting {
            self.starve(cx);
        }
        self.flags.blocked |= accepted < wanted;
        Some(accepted)
    }

    /// Reports an idle period longer than the retransmission timeout to congestion control (RFC
    /// 5681 §4.1).
    #[inline]
    pub(super) fn on_resume(&mut self, cx: &mut Context<'_>) {
        let idle = cx.now.since(self.flight.latest);
        let rto_min = cx.config.rto_min;
        if idle > rto_min && idle > self.rtt.rto(rto_min) && self.state.is_synchronized() {
            self.congestion.on_idle(cx.now, idle);
        }
    }

    /// Removes the first `n` unread bytes; returns true if a window update is due.
    #[inline]
    pub(crate) fn consume(&mut self, cx: &mut Context<'_>, n: usize) -> bool {
        let n = n.min(self.recv.len());
        self.recv.pop(n, cx.pool);
        self.window.on_read(cx.now, n, self.rtt.srtt(), cx.config, cx.pool);
        if cx.pool.is_short() {
            self.shorten_window(cx);
        }
        self.invite()
    }

    /// Schedules a window update if the window has grown by a useful amount; returns true if it
    /// has.
    #[inline]
    pub(super) fn invite(&mut self) -> bool {
        let worth = (self.window.limit() / 2).min(2 * usize::from(self.mss)) as u32;
        let due = self.state.can_receive() && self.window_update() >= worth;
        if due {
            self.owe_ack();
        }
        due
    }

    /// Memory is short: reduces the window until the pool restores it.
    #[inline]
    pub(super) fn shorten_window(&mut self, cx: &mut Context<'_>) {
        self.window.shorten();
        cx.pool.shorten(cx.id.index);
    }

    /// Memory is available again: restores the window and announces it.
    ///
    /// No other event would reopen a closed window: the application may be waiting for the rest of
    /// a message that it has only partly received.
    pub(crate) fn restore_window(&mut self, config: &Config) {
        self.window.restore(config);
        self.invite();
    }

    /// Maximum number of bytes in the send queue, unacknowledged ones included.
    ///
    /// Twice the congestion window, so that an acknowledgement always finds data to send.
    #[inline]
    pub(super) fn send_limit(&self, config: &Config, pool: &Pool) -> usize {
        if pool.is_short() {
            return config.send_buffer.min(ReceiveWindow::SHORT);
        }
        let wanted = self.congestion.window().get().saturating_mul(2) as usize;
        wanted.clamp(config.send_buffer, config.send_buffer_max.max(config.send_buffer))
    }

    #[cold]
    pub(super) fn starve(&mut self, cx: &mut Context<'_>) {
        cx.counters.memory_refusals += 1;
        if !self.flags.starved {
            self.flags.starved = true;
            cx.pool.starve(cx.id);
        }
    }

    /// The application detaches: FIN follows the queued data, and received data is discarded.
    pub(crate) fn detach(&mut self, cx: &mut Context<'_>) {
        self.close(cx);
        self.recv.release(cx.pool);
        self.classifier = None;
        self.rare = None;
        self.flags.blocked = false;
        self.flags.closed_pushed = true;
        self.flags.detached = true;
        self.limit_fin_wait(cx);
    }

    /// Closes the sending half: FIN follows the queued data.
    pub(crate) fn close(&mut self, cx: &mut Context<'_>) {
        if self.flags.fin_queued || !self.state.can_send() {
            return;
        }
        if self.state == State::SynSent {
            self.end(cx, CloseReason::Aborted);
            return;
        }
        self.flags.fin_queued = true;
        // The FIN of a half-open connection waits for the handshake.
        if self.state.is_synchronized() {
            self.state = self.state.after(Step::Close);
        }
    }
}
