//! Upkeep after a connection's events: transmit queue, timer, and at its end the close event, its
//! removal from the connection table and its slot.

use queueing::{Label, Time};

use super::event::{CloseReason, ConnId, Event, EventKind};
use super::{Stack, listener, set_timer, update_timers};
use crate::tcp::State;

impl Stack {
    /// Invalidates `id`, whose close event the owner has polled; the connection itself ends after
    /// TIME-WAIT.
    pub(super) fn release_id(&mut self, id: ConnId) {
        let Some(connection) = self.flows.get_mut(id) else { return };
        if connection.state == State::Closed {
            self.free(id.index);
        } else {
            connection.flags.detached = true;
            connection.release(&mut self.pool);
        }
    }

    pub(super) fn free(&mut self, index: u32) {
        if let Some((id, connection)) = self.flows.at(index)
            && connection.flags.parked
        {
            self.neighbors.forget(id);
        }
        if let Some(mut connection) = self.flows.remove(index) {
            connection.release(&mut self.pool);
            self.pool.forget_shortened(index);
            if let Some(timer) = connection.timer {
                self.timers.cancel(timer.1);
            }
        }
    }

    /// Applies a connection's new state: reports its end, frees it, queues it for egress, sets its
    /// timer.
    pub(super) fn settle(&mut self, now: Time, index: u32) {
        let Some((id, connection)) = self.flows.at(index) else { return };
        if connection.state.is_ending() {
            self.settle_closed(now, id);
        } else {
            update_timers(now, &mut self.ready, &mut self.timers, &self.config, connection, index);
        }
    }

    pub(super) fn settle_closed(&mut self, now: Time, id: ConnId) {
        let Some((_, connection)) = self.flows.at(id.index) else { return };
        let over = connection.state == State::Closed;
        let tuple = connection.tuple;
        let (linked, detached, listener) =
            (connection.flags.linked, connection.flags.detached, connection.listener());
        let announced = connection.flags.announced;
        let aging = !over && !connection.flags.aging;
        listener::fast_open_ends(connection, &mut self.listeners);
        if over {
            connection.flags.linked = false;
        } else {
            connection.flags.aging = true;
            update_timers(now, &mut self.ready, &mut self.timers, &self.config, connection, id.index);
        }
        let reason = connection.reason.unwrap_or(CloseReason::Finished);
        // Data received before a graceful end stays readable for a while; after others if so
        // configured.
        let readable = match reason {
            CloseReason::Finished => true,
            CloseReason::Aborted => false,
            _ => self.config.reads_after_reset,
        };
        let unread = readable && !connection.recv.is_empty();
        if over && unread {
            connection.linger(now, &self.config);
            set_timer(&mut self.timers, connection, &self.config, id.index);
        }
        if announced && !connection.flags.closed_pushed && !unread {
            connection.flags.closed_pushed = true;
            let kind = EventKind::Closed(reason);
            self.events.push_back(Event { conn: id, kind, label: Label::default(), received: now });
        }
        if over && linked {
            let hash = self.hash(&tuple);
            self.flows.unlink(hash, id.index);
        }
        if over
            && !announced
            && let Some(listener) = listener
        {
            self.listeners[usize::from(listener)].half_open -= 1;
        }
        if over && (detached || !announced) {
            self.free(id.index);
        }
        if aging {
            self.limit_time_wait(now, id);
        }
    }

    /// Records that `id` is in TIME-WAIT; evicts the oldest beyond the limit.
    fn limit_time_wait(&mut self, now: Time, id: ConnId) {
        self.time_wait.push_back(id);
        while self.time_wait.len() > self.config.time_wait_max
            && let Some(oldest) = self.time_wait.pop_front()
        {
            if let Some((found, connection)) = self.flows.at(oldest.index)
                && found == oldest
                && let State::TimeWait { ref mut until } = connection.state
            {
                *until = now;
                set_timer(&mut self.timers, connection, &self.config, oldest.index);
            }
        }
    }
}
