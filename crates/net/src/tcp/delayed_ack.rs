//! When the acknowledgement of data may wait.
//!
//! Waiting saves segments and costs latency. Without a delay it waits only as
//! long as the stack's owner says ([`Stack::egress_early`](crate::Stack)): while
//! the owner is busy a response may come that takes it along. With a delay, off
//! by default, the acknowledgement goes with whatever is sent meanwhile, or with the second
//! full segment, or after [`Config::delayed_ack`](crate::stack::Config).
//! It never waits while segments are missing or the first one that was fills
//! its gap, at the start of a connection (its sender is in slow start), or
//! when a router marked the segment. Source: RFC 9293 §3.8.6.3, RFC 5681
//! §4.2, RFC 3168 §6.1.3.

use queueing::Time;

use super::connection::{Connection, Context};
use super::store::ByteStore;

/// So many segments are acknowledged at once when a connection starts.
const QUICK: u64 = 16;
/// The mark of a router that is congested (RFC 3168 §5).
const CE: u8 = 0b11;

impl<B: ByteStore> Connection<B> {
    /// Data came in order; `gap` when segments were missing before it.
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

    /// When the acknowledgement that waits is due; `Time::MAX` when none waits.
    #[inline]
    pub(super) fn ack_due_at(&self) -> Time {
        if !self.flags.ack_delayed {
            return Time::MAX;
        }
        // Kept as 32 bits, which are near the last segment's arrival.
        let ahead_us = self.ack_due_us.wrapping_sub(micros(self.heard_at)) as i32;
        let heard_us = self.heard_at.as_nanos() / 1000;
        Time::from_nanos(heard_us.saturating_add_signed(i64::from(ahead_us)) * 1000)
    }

    /// Owes the acknowledgement that has waited long enough.
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
