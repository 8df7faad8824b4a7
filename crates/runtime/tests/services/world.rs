//! Two task shards, a server's and a client's, at the ends of one wire.

use std::net::SocketAddr;
use std::sync::Arc;

use classify::Verdict;
use net::device::memory::{MemoryDevice, pair};
use net::stack::Config as Tcp;
use queueing::{Priority, Span, Time};
use runtime::mode::{Classifiers, Mode};
use runtime::task::{Config, JoinHandle, Next, TaskShard, TaskStep};
use sched::dispatch::{Params, Steering};

pub const PORT: u16 = 80;

/// A server, a client and the time.
pub struct World {
    pub now: Time,
    pub server: TaskShard<MemoryDevice>,
    pub client: TaskShard<MemoryDevice>,
    near: MemoryDevice,
    far: MemoryDevice,
}

/// Stack of a host; a segment's level is its first digit.
pub fn tcp(host: u8) -> Tcp {
    let mut tcp = Tcp::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]);
    tcp.classifier = Some(Arc::new(|flow| match flow.payload.first() {
        Some(digit @ b'0'..=b'7') => Verdict::Level(digit - b'0'),
        _ => Verdict::NoVerdict,
    }));
    tcp
}

/// A configuration with strict priority, as under `adps`.
pub fn strict(host: u8) -> Config {
    let policy = Mode::Adps.policy(Classifiers::default(), &Params::new(1, 1 << 12), Steering::all(1));
    Config::new(tcp(host), policy)
}

pub fn level(n: u8) -> Priority {
    Priority::new(n).expect("a level")
}

/// Address of the server's listener.
pub fn address() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], PORT))
}

impl World {
    pub fn new() -> Self {
        Self::with(strict(1), strict(2))
    }

    pub fn with(server: Config, client: Config) -> Self {
        let (near, far) = pair(512, 1514);
        Self {
            now: Time::from_nanos(1),
            server: TaskShard::new(server),
            client: TaskShard::new(client),
            near,
            far,
        }
    }

    /// Steps the server until it is idle; returns the levels of the polls.
    pub fn serve(&mut self) -> Vec<u8> {
        let mut turns = Vec::new();
        loop {
            match self.server.step(self.now, &mut self.near) {
                TaskStep::Idle => return turns,
                TaskStep::Poll { priority } => turns.push(priority.level()),
                _ => {}
            }
        }
    }

    /// Next step of the server, with a poll left to the caller.
    pub fn turn(&mut self) -> Next {
        self.server.next(self.now, &mut self.near)
    }

    /// Steps the client until it is idle; true if it did any work.
    pub fn ask(&mut self) -> bool {
        let mut busy = false;
        while self.client.step(self.now, &mut self.far) != TaskStep::Idle {
            busy = true;
        }
        busy
    }

    /// Steps both, a microsecond apart, until nothing moves.
    pub fn settle(&mut self) {
        self.settle_with(|_| {});
    }

    /// As [`World::settle`]; passes the levels of the server's polls to `on_turns`.
    pub fn settle_with(&mut self, mut on_turns: impl FnMut(Vec<u8>)) {
        let mut quiet = 0;
        while quiet < 3 {
            self.now += Span::from_micros(1);
            let asked = self.ask();
            let turns = self.serve();
            quiet = if asked || !turns.is_empty() { 0 } else { quiet + 1 };
            on_turns(turns);
        }
    }

    /// Advances time by `span`, as fast as timers allow.
    pub fn pass(&mut self, span: Span) {
        let until = self.now + span;
        while self.now < until {
            self.settle();
            let timers = [self.server.poll_timeout(), self.client.poll_timeout()];
            let next = timers.into_iter().flatten().min().unwrap_or(until);
            self.now = next.min(until).max(self.now);
        }
        self.settle();
    }

    /// Advances time until `task` has ended, a minute at most.
    pub fn finish<T>(&mut self, task: &JoinHandle<T>) -> T {
        for _ in 0..60_000 {
            self.pass(Span::from_millis(1));
            if let Some(result) = task.try_take() {
                return result.expect("the task has a result");
            }
        }
        panic!("the task takes more than a minute");
    }
}
