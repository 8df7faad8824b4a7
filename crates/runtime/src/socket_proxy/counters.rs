//! Counters and snapshot of a socket proxy.

use net::driver::DriverCounters;
use queueing::Priority;

use crate::pipeline::Shed;
use crate::shard::Slowest;

/// Event counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections offered to programs and accepted.
    pub offered: u64,
    /// Connections that no program accepted: they were reset.
    pub unaccepted: u64,
    /// Active opens that succeeded.
    pub opened: u64,
    /// Active opens whose handshake failed.
    pub connects_failed: u64,
    /// Connections that ended, for any reason.
    pub ended: u64,
    /// Connections reset because the program closed with bytes unread, or requested it.
    pub reset: u64,
    /// Bytes delivered to programs.
    pub bytes_in: u64,
    /// Bytes that programs wrote.
    pub bytes_out: u64,
    /// Bytes received for programs that have ended reading.
    pub bytes_discarded: u64,
    /// Datagrams delivered to programs.
    pub datagrams_in: u64,
    /// Datagrams sent by programs.
    pub datagrams_out: u64,
    /// Datagrams dropped because the socket's buffer was full.
    pub datagrams_lost: u64,
    /// Datagrams for a bound port that no socket receives: each is bound to another address, or
    /// connected to another peer.
    pub datagrams_unmatched: u64,
    /// Datagrams that could not be sent: no route, or too long.
    pub datagrams_unsent: u64,
    /// Driver stage.
    pub driver: DriverCounters,
    /// SYNs at the guard, by the level of their class.
    pub guard: [Shed; Priority::LEVELS],
}

impl Counters {
    /// Adds the counts of another stack.
    pub fn add(&mut self, other: &Self) {
        let Self {
            offered,
            unaccepted,
            opened,
            connects_failed,
            ended,
            reset,
            bytes_in,
            bytes_out,
            bytes_discarded,
            datagrams_in,
            datagrams_out,
            datagrams_lost,
            datagrams_unmatched,
            datagrams_unsent,
            driver,
            guard,
        } = other;
        self.offered += offered;
        self.unaccepted += unaccepted;
        self.opened += opened;
        self.connects_failed += connects_failed;
        self.ended += ended;
        self.reset += reset;
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
        self.bytes_discarded += bytes_discarded;
        self.datagrams_in += datagrams_in;
        self.datagrams_out += datagrams_out;
        self.datagrams_lost += datagrams_lost;
        self.datagrams_unmatched += datagrams_unmatched;
        self.datagrams_unsent += datagrams_unsent;
        self.driver.add(driver);
        self.guard.iter_mut().zip(guard).for_each(|(sum, shed)| sum.add(shed));
    }
}

/// Snapshot of a socket proxy.
#[derive(Clone, Debug, Default)]
pub struct ProxySnapshot {
    /// Event counters.
    pub counters: Counters,
    /// Counters of TCP/IP since the start.
    pub stack: net::stack::Counters,
    /// Frames in the receive buffer.
    pub frames: usize,
    /// Entries with input for a program, over all levels.
    pub inbound: usize,
    /// Entries whose program may have output, over all levels.
    pub outbound: usize,
    /// Connections of programs.
    pub connections: usize,
    /// Slowest requests since the last snapshot.
    pub slow: Slowest,
    /// Requests so far that could not be measured separately, as they waited together.
    pub together: u64,
}
