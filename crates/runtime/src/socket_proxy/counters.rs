//! What is counted, and what is shown while programs run.

use net::driver::DriverCounters;
use queueing::Priority;

use crate::pipeline::Shed;
use crate::shard::Slowest;

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that programs were given.
    pub offered: u64,
    /// Connections that nobody took: they were reset.
    pub untaken: u64,
    /// Connections that programs opened,
    pub opened: u64,
    /// and those whose handshake failed.
    pub unopened: u64,
    /// Connections that ended, however.
    pub ended: u64,
    /// Of those, reset because the program let go of them with bytes unread,
    /// or asked for it.
    pub reset: u64,
    /// Bytes handed to programs.
    pub bytes_in: u64,
    /// Bytes that programs wrote.
    pub bytes_out: u64,
    /// Bytes that came for programs that read no more.
    pub bytes_unheard: u64,
    /// Datagrams that programs were handed,
    pub datagrams_in: u64,
    /// and those that they have sent.
    pub datagrams_out: u64,
    /// Datagrams for whom there was no room: the program does not read.
    pub datagrams_lost: u64,
    /// Datagrams for a port of programs of which none wants them: they are
    /// bound to another address, or connected to another peer.
    pub datagrams_untaken: u64,
    /// Datagrams that could not be sent: no way leads there, or too long.
    pub datagrams_unsent: u64,
    /// The driver stage.
    pub driver: DriverCounters,
    /// SYNs at the guard, by the level of their class.
    pub guard: [Shed; Priority::LEVELS],
}

impl Counters {
    /// Adds what happened on another stack.
    pub fn add(&mut self, other: &Self) {
        let Self {
            offered,
            untaken,
            opened,
            unopened,
            ended,
            reset,
            bytes_in,
            bytes_out,
            bytes_unheard,
            datagrams_in,
            datagrams_out,
            datagrams_lost,
            datagrams_untaken,
            datagrams_unsent,
            driver,
            guard,
        } = other;
        self.offered += offered;
        self.untaken += untaken;
        self.opened += opened;
        self.unopened += unopened;
        self.ended += ended;
        self.reset += reset;
        self.bytes_in += bytes_in;
        self.bytes_out += bytes_out;
        self.bytes_unheard += bytes_unheard;
        self.datagrams_in += datagrams_in;
        self.datagrams_out += datagrams_out;
        self.datagrams_lost += datagrams_lost;
        self.datagrams_untaken += datagrams_untaken;
        self.datagrams_unsent += datagrams_unsent;
        self.driver.add(driver);
        self.guard.iter_mut().zip(guard).for_each(|(sum, shed)| sum.add(shed));
    }
}

/// What a stack shows of itself while programs use it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What happened so far.
    pub counters: Counters,
    /// Counters of TCP/IP since the start.
    pub stack: net::stack::Counters,
    /// Frames in the receive buffer.
    pub frames: usize,
    /// Places taken by connections that have something for their program, on
    /// all levels,
    pub inbound: usize,
    /// and by those whose program may have written something.
    pub outbound: usize,
    /// Connections that programs have.
    pub connections: usize,
    /// The slowest requests since it was asked last,
    pub slow: Slowest,
    /// and how many so far were not told apart, as they waited together.
    pub together: u64,
}
