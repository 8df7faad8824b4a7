//! Delayed ACKs: conditions under which the ACK of received data may wait.
//!
//! Waiting saves segments and costs latency. Without [`Config::delayed_ack`](crate::stack::Config),
//! the default, an ACK waits only while the owner of the stack is busy
//! ([`Stack::egress_early`](crate::Stack)), since a response may piggyback it. With a delay, the
//! ACK goes with the next segment sent, with the second full segment received, or when the delay
//! expires.
//!
//! An ACK never waits while segments are missing or when a gap is filled, at the start of a
//! connection (its sender is in slow start), or for a segment marked CE.
//! Source: RFC 9293 §3.8.6.3, RFC 5681 §4.2, RFC 3168 §6.1.3.

use queueing::Time;

use super::connection::{Connection, Context};
use super::store::ByteStore;

/// Number of segments acknowledged at once at the start of a connection.
const QUICK: u64 = 16;
/// ECN codepoint "congestion experienced" (RFC 3168 §5).
const CE: u8 = 0b11;

impl<B: ByteStore> Connection<B> {
    /// Schedules the ACK of data received in order; `gap` if segments were missing before it.
    #[inline]
    pub(super) fn owe_ack_for_data(&mut self, cx: &Context<'_>, gap: bool) {
        let Some(delay) = cx.config.delayed_ack else {
            if gap {
                self.owe_ack();
            }
            self.flags.ack_waits |= !gap;
            return;
        };
        let mss = u32::from(self.mss);
        let second = self.rcv_nxt - self.last_ack_sent >= 2 * mss;
        if gap || second || self.received <= QUICK * u64::from(mss) || cx.ecn == CE {
            self.owe_ack();
        } else if !self.flags.ack_delayed {
            self.flags.ack_delayed = true;
            self.ack_due_us = micros(cx.now + delay);
        }
    }

    /// Due time of the delayed ACK; `Time::MAX` if none waits.
    #[inline]
    pub(super) fn ack_due_at(&self) -> Time {
        if !self.flags.ack_delayed {
            return Time::MAX;
        }
        // The stored 32 bits are relative to the arrival of the last segment.
        let ahead_us = self.ack_due_us.wrapping_sub(micros(self.received_at)) as i32;
        let received_us = self.received_at.as_nanos() / 1000;
        Time::from_nanos(received_us.saturating_add_signed(i64::from(ahead_us)) * 1000)
    }

    /// Schedules the delayed ACK once its time has come.
    pub(super) fn on_ack_due(&mut self, cx: &mut Context<'_>) {
        if self.ack_due_at() <= cx.now {
            self.flags.ack_delayed = false;
            cx.counters.delayed_acks += 1;
            self.owe_ack();
        }
    }
}

#[inline]
fn micros(at: Time) -> u32 {
    (at.as_nanos() / 1000) as u32
}
