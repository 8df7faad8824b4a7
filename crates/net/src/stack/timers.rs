//! Timers of connections: at most one each, which few segments move.

use queueing::{Time, TimerKey, TimerWheel};

use super::Config;
use super::tx_scheduler::TxScheduler;
use crate::tcp::Connection;

/// Queues a connection for egress if it may have something to send, and sets its timer.
#[inline]
pub(super) fn update_timers(
    now: Time,
    ready: &mut TxScheduler,
    timers: &mut TimerWheel<u32>,
    config: &Config,
    connection: &mut Connection,
    index: u32,
) {
    ready.enqueue(now, connection, index);
    set_timer(timers, connection, config, index);
}

/// Ensures that a timer fires no later than the connection's deadline. A timer that fires early
/// finds nothing due and is set again, which is cheaper than moving it with every acknowledgement.
/// With very many connections the early firing costs more, as it loads an idle connection from
/// memory; there an idle connection cancels its timer.
#[inline]
pub(super) fn set_timer(
    timers: &mut TimerWheel<u32>,
    connection: &mut Connection,
    config: &Config,
    index: u32,
) {
    let deadline = connection.deadline(config);
    let set = connection.timer.map_or(Time::MAX, |timer: (Time, TimerKey)| timer.0);
    let idle = deadline == Time::MAX && timers.len() > IDLE_TIMERS_MAX;
    if deadline < set || (idle && connection.timer.is_some()) {
        move_timer(timers, connection, deadline, index);
    }
}

#[inline(never)]
fn move_timer(timers: &mut TimerWheel<u32>, connection: &mut Connection, deadline: Time, index: u32) {
    if let Some((_, key)) = connection.timer.take() {
        timers.cancel(key);
    }
    if deadline != Time::MAX {
        connection.timer = Some((deadline, timers.insert(deadline, index)));
    }
}

/// Maximum number of timers at which idle connections keep theirs.
const IDLE_TIMERS_MAX: usize = 512;
