//! Active opens of programs.
//!
//! The program has its pipe from the first segment on, so that it may close, wait or be killed
//! meanwhile; the pipe knows the calls that it may make. No output is read before the handshake is
//! complete. If all processes close their end before that, the connection is given up. The SYN has the
//! level that the policy has for it (`calls`).

use std::net::SocketAddr;

use net::Device;
use net::stack::{CloseReason, ConnId, ConnectError, HopLimits};
use queueing::{Label, Time};

use super::flow::Flow;
use super::{AppSockets, SocketProxy};

/// Reason why an active open failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// The attempt failed to start.
    Local(ConnectError),
    /// The handshake failed.
    Remote(CloseReason),
}

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    /// Starts call `call`: an active open to `to`, from `port` if given, with these hop limits.
    pub(super) fn connect(
        &mut self,
        now: Time,
        call: u64,
        to: SocketAddr,
        (port, hops): (Option<u16>, HopLimits),
    ) {
        let begun = self.stack.connect_with_hops(now, to, port, hops);
        let tuple = begun.map(|conn| (conn, self.stack.tuple(conn)));
        let (conn, tuple) = match tuple {
            Ok((conn, Some(tuple))) => (conn, tuple),
            Ok((_, None)) => return self.programs.refuse(call, ConnectFailure::Remote(CloseReason::Aborted)),
            Err(why) => return self.programs.refuse(call, ConnectFailure::Local(why)),
        };
        let local = SocketAddr::new(tuple.local, tuple.local_port);
        match self.programs.opening(call, conn, local, to) {
            Some(pipe) => {
                let tracker = self.tracker_state.opened(to);
                let level = self.calls.handshake(now, (local, to), &mut self.counters.driver);
                self.stack.set_label(now, conn, Label::new(level));
                if self.calls.is_some() {
                    self.stack.set_classifier(conn, Some(self.calls.responses(level)));
                }
                let mut flow = Flow::opening(conn.generation, pipe, tracker);
                flow.level = level;
                self.insert_flow(now, conn, flow);
            }
            None => self.stack.abort(now, conn),
        }
    }

    /// Completes the handshake of `conn`.
    pub(super) fn on_connected(&mut self, conn: ConnId) {
        let Some(Some(flow)) = self.flows.get_mut(conn.index as usize) else { return };
        if std::mem::take(&mut flow.opening) {
            self.counters.opened += 1;
            self.programs.opened(conn, &mut flow.pipe);
            self.queue_out(conn);
        }
    }

    /// Ends the handshake of `conn`, whose pipe no process has any more. Sends nothing, as Linux in
    /// SYN-SENT.
    pub(super) fn give_up(&mut self, now: Time, conn: ConnId) {
        self.on_closed(conn, CloseReason::Aborted);
        self.stack.abort(now, conn);
        self.forget(now, conn);
    }

    /// Records the end of `conn` for the reason `why`, which its program can read as an error.
    pub(super) fn on_closed(&mut self, conn: ConnId, why: CloseReason) {
        let Some(flow) = self.flow(conn) else { return };
        if flow.opening {
            self.counters.connects_failed += 1;
            return self.programs.failed(conn, ConnectFailure::Remote(why));
        }
        let is_complete = flow.peer_closed;
        self.programs.ended(conn, why, is_complete);
    }
}
