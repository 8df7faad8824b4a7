//! Transmission: reads programs' output by priority, as much as TCP has space for.

use std::net::SocketAddr;

use net::Device;
use net::stack::ConnId;
use queueing::PASSED_IN_A_ROW;
use queueing::{Label, Priority, Time};

use super::super::calls::{CALL_BYTES, Outgoing};
use super::super::{AppSockets, AppStream, Counters, DELIVERIES_MAX, ReadResult, SocketProxy};
use super::QueueEntry;

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    /// Queues `conn`, as its program may have output.
    pub(in crate::socket_proxy) fn queue_out(&mut self, conn: ConnId) {
        let reads = self.calls.is_some();
        let Some(flow) = self.flow(conn) else { return };
        let unread = reads && flow.is_before_call();
        let level = if unread { Priority::HIGHEST } else { flow.level };
        if flow.queued_out.is_none_or(|queued| queued > level) {
            flow.queued_out = Some(level);
            self.outbound[level.index()].push_back(QueueEntry::Conn(conn));
        }
    }

    /// Reads programs' output, the most urgent first; true if there was any. Entries with more
    /// output wait for the next round. Output less urgent than the input `delivered` in this round
    /// waits once: the program may share our core. Output less urgent than the bytes that fill the
    /// round waits [`PASSED_IN_A_ROW`] times: serving an entry may take as long as such a round,
    /// and with one in each round both levels would get equal shares.
    pub(in crate::socket_proxy) fn collect(&mut self, now: Time, delivered: Option<Priority>) -> bool {
        let bytes_max = self.collected_max();
        let passed_over = std::mem::take(&mut self.passed_over);
        let delivered = delivered.filter(|_| passed_over == 0);
        let (mut turns, before) = (0, self.counters.bytes_out);
        let is_full = |counters: &Counters| (counters.bytes_out - before) as usize >= bytes_max;
        for level in Priority::all() {
            let gives_way = is_full(&self.counters) && passed_over < PASSED_IN_A_ROW;
            if gives_way || delivered.is_some_and(|delivered| level > delivered) {
                if self.outbound[level.index()..].iter().any(|below| !below.is_empty()) {
                    self.passed_over = passed_over + 1;
                }
                break;
            }
            let mut had_entry = false;
            for _ in 0..self.outbound[level.index()].len() {
                if had_entry && (turns >= DELIVERIES_MAX || is_full(&self.counters)) {
                    break;
                }
                let Some(entry) = self.outbound[level.index()].pop_front() else { break };
                let had = match entry {
                    QueueEntry::Conn(conn) => self.collect_one(now, conn, level),
                    QueueEntry::Socket(socket) => self.collect_datagrams(now, socket, level),
                    QueueEntry::Port(_) => false,
                };
                turns += usize::from(had);
                had_entry |= had;
            }
        }
        turns > 0
    }

    /// Reads output of `conn`; false if it was not queued on this level.
    fn collect_one(&mut self, now: Time, conn: ConnId, level: Priority) -> bool {
        let Some(flow) = self.flow(conn).filter(|flow| flow.queued_out == Some(level)) else { return false };
        flow.queued_out = None;
        self.collect_bytes(now, conn);
        true
    }

    fn collect_bytes(&mut self, now: Time, conn: ConnId) {
        let (all, reads) = (self.collected_max(), self.calls.is_some());
        let index = conn.index as usize;
        let Some(Some(flow)) = self.flows.get_mut(index) else { return };
        let unread = reads && flow.is_before_call();
        let bytes_max = if unread { CALL_BYTES } else { all };
        if flow.opening {
            // The pipe has no output of the program yet.
            return;
        }
        let mut collected = 0;
        while collected < bytes_max {
            // Output that TCP has no space for stays in the pipe. On a connection closed for
            // sending, the pipe's end is still read.
            let wanted = self.scratch.len().min(bytes_max);
            let room = match self.stack.send_room(now, conn, wanted) {
                Ok(0) => return,
                Ok(room) => room,
                Err(_) => wanted,
            };
            let read = flow.pipe.read(&mut self.scratch[..room]);
            if let ReadResult::Some(len) = read {
                collected += len;
                self.counters.bytes_out += len as u64;
                self.accept_waits.on_answer(now, &mut flow.stage, &mut self.front.admission);
                if let Some(call) = &mut flow.call
                    && let Some(tuple) = self.stack.tuple(conn).filter(|_| reads)
                {
                    let from = SocketAddr::new(tuple.local, tuple.local_port);
                    let to = SocketAddr::new(tuple.remote, tuple.remote_port);
                    let piece = Outgoing { now, from, to, bytes: &self.scratch[..len] };
                    flow.level = self.calls.output(&piece, call, &mut self.counters.driver);
                    self.levels = self.levels.with(flow.level);
                    self.stack.set_label(now, conn, Label::new(flow.level));
                    let responses = call.response_level().map(|level| self.calls.responses(level));
                    self.stack.set_classifier(conn, responses);
                }
                if let Some(tracker) = &mut flow.tracker {
                    tracker.wrote(now, flow.level, &self.scratch[..len], &mut self.tracker_state);
                }
                let holds = flow.pipe.take_more() || flow.cork;
                if holds {
                    flow.hold(now, conn, true, &mut self.stack, &mut self.corked);
                }
                if self.stack.send(now, conn, &self.scratch[..len]).is_err() {
                    return self.on_send_closed(now, conn);
                }
                // Released together with the output before.
                if !holds {
                    flow.hold(now, conn, false, &mut self.stack, &mut self.corked);
                }
            }
            if read != ReadResult::Some(room)
                && let Some(tracker) = &mut flow.tracker
            {
                tracker.sent(now, &mut self.tracker_state);
            }
            match read {
                // Detecting the end of output takes another read.
                ReadResult::Some(len) if len < room && !flow.shut && !flow.gone => return,
                ReadResult::Some(_) => {}
                ReadResult::Nothing => return,
                ReadResult::End if flow.gone => {
                    let reset = flow.reset_on_close;
                    // Undelivered input resets the connection too, after the program's output.
                    if !reset && !self.stack.received(conn).is_empty() {
                        return self.resets.push(conn);
                    }
                    return self.release_flow(now, conn, reset);
                }
                ReadResult::End => {
                    self.accept_waits.on_answer(now, &mut flow.stage, &mut self.front.admission);
                    return self.stack.close(now, conn);
                }
                // The output before it is sent first.
                ReadResult::Reset => return self.resets.push(conn),
            }
        }
        self.queue_out(conn);
    }

    /// Handles a connection closed for sending. The event of its end follows once its program, if a
    /// process still has the connection, has received all earlier input.
    fn on_send_closed(&mut self, now: Time, conn: ConnId) {
        if self.flow(conn).is_none_or(|flow| flow.gone || flow.read_shut) {
            self.release_flow(now, conn, true);
        }
    }
}
