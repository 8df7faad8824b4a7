//! Who waits for its program, to the guard: connections whose first bytes it was
//! handed and has not taken up, in the order in which it was handed them.
//!
//! A program takes a connection up when it reads these bytes, or when it writes
//! its first, as [`WaitEnd`] says. Later requests of a connection are not looked
//! at: the guard sheds newcomers, and these are newcomers' waits.
//!
//! Bound: twice the most connections that there were at once; of those that wait for an answer,
//! twice their number and a few.

use std::collections::VecDeque;

use guard::WaitEnd;
use net::Device;
use net::stack::ConnId;
use queueing::Time;

use super::{AppSockets, AppStream, SocketProxy};
use crate::pipeline::DriverAdmission;

/// Connections that wait, and when each was handed over.
#[derive(Default)]
pub(super) struct UnacceptedConnections {
    until: WaitEnd,
    /// In order; those who were taken up may still be among them.
    queue: VecDeque<(ConnId, Time)>,
    /// Of these, not answered yet ([`WaitEnd::Answer`]).
    unanswered: usize,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its program was handed nothing.
    #[default]
    Silent,
    /// It was handed the first bytes.
    Waits,
    /// It has taken the connection up, or opened it.
    Taken,
}

/// Connections found unread before a look ends.
const UNREAD_MAX: usize = 64;
/// Entries that need not be gone through yet.
const FEW: usize = 64;

impl UnacceptedConnections {
    pub fn new(until: WaitEnd) -> Self {
        Self { until, ..Self::default() }
    }

    /// Whether others may go before who has waited longest.
    pub fn are_reordered(&self) -> bool {
        self.until == WaitEnd::Answer
    }

    /// How many wait, or nearly.
    pub fn len(&self) -> usize {
        match self.until {
            WaitEnd::Accept => self.queue.len(),
            WaitEnd::Answer => self.unanswered,
        }
    }

    /// The program of `conn` was handed bytes at `now`.
    pub fn on_handed(&mut self, now: Time, conn: ConnId, stage: &mut Stage) {
        if *stage == Stage::Silent {
            *stage = Stage::Waits;
            self.unanswered += usize::from(self.until == WaitEnd::Answer);
            self.queue.push_back((conn, now));
        }
    }

    /// Its program wrote something, or is done with it: if it waited for that, it is served.
    pub fn on_answer(&mut self, stage: &mut Stage, gate: &mut Option<DriverAdmission>) {
        if self.until == WaitEnd::Accept {
            return;
        }
        if std::mem::replace(stage, Stage::Taken) == Stage::Waits {
            self.unanswered -= 1;
            gate.iter_mut().for_each(DriverAdmission::on_served);
        }
    }

    /// It is gone.
    pub fn on_gone(&mut self, stage: Stage) {
        if self.until == WaitEnd::Answer {
            self.unanswered -= usize::from(stage == Stage::Waits);
        }
    }
}

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    /// Since when the newcomer waits that has waited longest; whoever has been read
    /// meanwhile counts as served, where that is what they wait for.
    pub(super) fn oldest_newcomer(&mut self) -> Option<Time> {
        let Self { newcomers: UnacceptedConnections { until, queue, unanswered }, flows, front, .. } = self;
        let waits = |conn: &ConnId| {
            let flow = flows.get(conn.index as usize)?.as_ref()?;
            (flow.is_of(*conn) && flow.stage == Stage::Waits).then_some(&flow.pipe)
        };
        let most = match until {
            WaitEnd::Accept => 2 * flows.len(),
            WaitEnd::Answer => 2 * *unanswered + FEW,
        };
        if queue.len() > most {
            queue.retain(|(conn, _)| waits(conn).is_some());
        }
        if *until == WaitEnd::Answer {
            while queue.front().is_some_and(|(conn, _)| waits(conn).is_none()) {
                queue.pop_front();
            }
            return queue.front().map(|&(_, since)| since);
        }
        let mut unread = 0;
        // A few that nobody ever reads hide nobody.
        while unread < UNREAD_MAX
            && let Some((conn, _)) = queue.get(unread)
        {
            match waits(conn).map(AppStream::is_unread) {
                Some(true) => unread += 1,
                taken => {
                    queue.remove(unread);
                    if let (Some(_), Some(gate)) = (taken, &mut front.gate) {
                        gate.on_served();
                    }
                }
            }
        }
        queue.front().map(|&(_, since)| since)
    }
}
