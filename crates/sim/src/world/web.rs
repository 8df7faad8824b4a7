//! A web server that knows nothing of us, and users near and far: the first
//! paper's Table 1 in virtual time.
//!
//! The stack is `runtime::streams`, the code of `greenwave run`; the users are
//! `load`'s, each crowd on a stack of its own behind a path of its own. What is
//! modelled is the program (`site`): one thread that works for a while on
//! each request, writes as far as its pipe has room, and serves whoever is most
//! urgent of those that are ready. Stack and program have a core each; a round
//! of the stack takes as long as the cost model says of its frames, and what it
//! sends leaves when the round begins.
//! Source: ADPS §4.5.

use std::net::{Ipv4Addr, SocketAddr};

use load::closed_loop::{Answer, ClosedLoopClient, Exchange, Kind, Pace, Tally};
use net::classify::scenarios::network;
use net::device::fault::Rates;
use net::device::{Full, Received};
use net::{ConnId, Device};
use queueing::{Bytes, Rate, Rng, Span, Time};
use runtime::mode::{Classifiers, Mode};
use runtime::streams::Streams;
use sched::dispatch::{Params, Steering};

pub use crate::BadConfig;
use crate::path::{self, PathDevice};
use crate::text::{text, text_or_none};
use crate::world::server::config::stack;
use crate::{CostModel, Engine};

use super::Alarm;
use web_server::{Program, WebServer};

mod web_server;

/// A server and its users.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `none`, or `adps`: connections with a long way or with losses are less
    /// urgent (scenario 3).
    #[serde(deserialize_with = "text")]
    pub mode: Mode,
    /// Connections of both crowds together, half of them near, 2..=16000.
    pub connections: u32,
    /// Length of a page in bytes, 1 or more.
    pub bytes: usize,
    /// What happens to frames of near users to the server,
    #[serde(deserialize_with = "text")]
    pub near: Rates,
    /// to those of the others,
    #[serde(deserialize_with = "text")]
    pub far: Rates,
    /// and to those that it sends, too.
    #[serde(default)]
    pub both_ways: bool,
    /// Every connection asks once in it, all at once; otherwise for the next
    /// page when the last has come.
    #[serde(default, deserialize_with = "text_or_none")]
    pub period: Option<Span>,
    /// Rate of each crowd's path in Gbit/s, 0.001..=1000.
    pub gbps: f64,
    /// A longer way is far,
    #[serde(deserialize_with = "text")]
    pub rtt_max: Span,
    /// and so is one that loses more than this share.
    pub loss_max: f32,
    /// How long the program works on a request before it answers.
    #[serde(deserialize_with = "text")]
    pub backend: Span,
    /// Before pages count.
    #[serde(deserialize_with = "text")]
    pub warmup: Span,
    /// While they do.
    #[serde(deserialize_with = "text")]
    pub duration: Span,
    /// Replays the run.
    #[serde(default)]
    pub seed: u64,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Of the near users, and of the far.
    pub crowds: [Tally; 2],
    /// Share of the program's core, and of the stack's, that was used.
    pub busy: [f64; 2],
    /// Events simulated.
    pub events: u64,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const USERS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 2), Ipv4Addr::new(10, 77, 0, 3)];
const PORT: u16 = 80;
/// What a path's bottleneck holds: more than users ask for at once.
const BUFFER: Bytes = Bytes::new(256 << 20);
/// Frames that wait for TCP.
const FRAMES_MAX: usize = 16_384;
const REQUEST: &[u8] = b"GET /p HTTP/1.1\r\nHost: server\r\n\r\n";
/// What users keep of what they have not read yet.
const USER_BUFFER: usize = 4 << 20;

impl Config {
    /// Reads a configuration and checks it.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::text::settings(text, Self::check)
    }

    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// One line: the value and what would be valid.
    pub fn check(&self) -> Result<(), BadConfig> {
        let within = |name: &str, value: f64, min: f64, max: f64| match (min..=max).contains(&value) {
            true => Ok(()),
            false => Err(BadConfig(format!("{name} {value} is outside {min}..={max}"))),
        };
        if !matches!(self.mode, Mode::None | Mode::Adps) {
            return Err(BadConfig(format!("mode {} is neither none nor adps", self.mode)));
        }
        within("connections", self.connections.into(), 2.0, 16_000.0)?;
        within("bytes", self.bytes as f64, 1.0, 1e8)?;
        within("gbps", self.gbps, 0.001, 1000.0)?;
        within("loss_max", self.loss_max.into(), 0.0, 1.0)?;
        within("period in seconds", self.period.map_or(1.0, Span::as_secs_f64), 0.001, 3600.0)?;
        within("duration in seconds", self.duration.as_secs_f64(), 0.001, 3600.0)
    }
}

/// What can happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A crowd has a frame, or something is due.
    Users(usize),
    /// The stack's core is free, or has something to do.
    Stack,
    /// The program's core has done what it did.
    Program,
}

struct World {
    engine: Engine<Event>,
    cost: CostModel,
    users: [(ClosedLoopClient, PathDevice, Alarm); 2],
    streams: Streams<Hub, WebServer>,
    hub: Hub,
    stack_alarm: Alarm,
    stack_free_at: Time,
    stack_busy: Span,
    program: Program,
}

/// Runs the world that `config` describes to its end.
///
/// # Panics
/// When `config` was changed after [`Config::check`] had accepted it.
#[must_use]
pub fn run(config: &Config) -> Outcome {
    config.check().expect("the configuration was checked before");
    let mut world = World::new(config);
    let mut events = 0;
    (0..2).for_each(|crowd| world.users[crowd].2.arm(&mut world.engine, Time::ZERO, Event::Users(crowd)));
    world.stack_alarm.arm(&mut world.engine, Time::ZERO, Event::Stack);
    while !world.users.iter().all(|(users, ..)| users.is_done())
        && let Some((now, event)) = world.engine.next()
    {
        world.handle(now, event);
        events += 1;
    }
    let elapsed = world.engine.now().since(Time::ZERO).as_secs_f64();
    let busy = [world.program.busy(), world.stack_busy].map(|busy| busy.as_secs_f64() / elapsed);
    let crowds = world.users.map(|(users, ..)| users.outcome().kinds[0].clone());
    Outcome { crowds, busy, events }
}

impl World {
    fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let rate = Rate::from_bits_per_sec((config.gbps * 1e9) as u64);
        let ends = [(config.near, 1), (config.far, 2)].map(|(faults, stream)| {
            let there = path::Config { rate, delay: Span::ZERO, buffer: BUFFER, mark: None, faults };
            let faults = if config.both_ways { faults } else { Rates::NONE };
            path::connect(there, path::Config { faults, ..there }, &rng.fork(stream))
        });
        let [(near, near_server), (far, far_server)] = ends;
        let half = config.connections / 2;
        let crowd = |n: usize, connections, device| {
            let (request, answer) = (REQUEST.to_vec(), Answer::Http);
            let pace = Pace::asking(connections, config.period);
            let kind = Kind { connections, request, answer, pace };
            let exchange = Exchange { kinds: vec![kind], warmup: config.warmup, duration: config.duration };
            let mut tcp = stack(USERS[n], config.seed);
            tcp.recv_buffer = USER_BUFFER;
            (
                ClosedLoopClient::new(exchange, tcp, SocketAddr::from((SERVER, PORT))).held(),
                device,
                Alarm::new(),
            )
        };
        let transport = Some(network(config.rtt_max, config.loss_max));
        let classifiers = Classifiers { transport, ..Classifiers::default() };
        let policy = config.mode.policy(classifiers, &Params::new(1, 1), Steering::all(1));
        let program = Program::new(config.bytes, config.backend);
        let site = program.site(PORT);
        Self {
            engine: Engine::new(),
            cost: CostModel::default(),
            users: [crowd(0, half, near), crowd(1, config.connections - half, far)],
            streams: Streams::new(stack(SERVER, config.seed), policy, FRAMES_MAX, site),
            hub: Hub { ways: [near_server, far_server], took: [0; 3] },
            stack_alarm: Alarm::new(),
            stack_free_at: Time::ZERO,
            stack_busy: Span::ZERO,
            program,
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Users(crowd) if self.users[crowd].2.rings(now) => self.users(now, crowd),
            Event::Stack if self.stack_alarm.rings(now) => self.stack(now),
            Event::Users(_) | Event::Stack => {}
            Event::Program => {
                self.program.end();
                self.wake_stack(now);
                self.go_on(now);
            }
        }
    }

    /// Lets a crowd do all that it can do now, for nothing.
    fn users(&mut self, now: Time, crowd: usize) {
        let (users, device, alarm) = &mut self.users[crowd];
        while users.step(now, device) {}
        let due = [users.poll_timeout(), device.next_arrival()].into_iter().flatten().min();
        if let Some(due) = due.filter(|_| !users.is_done()) {
            // Asked again in the same instant, it would not do more.
            alarm.arm(&mut self.engine, due.max(now + Span::from_nanos(1)), Event::Users(crowd));
        }
        if self.hub.next_arrival().is_some() {
            self.wake_stack(now);
        }
        if self.users.iter().all(|(users, ..)| users.is_open()) {
            for (crowd, (users, _, alarm)) in self.users.iter_mut().enumerate() {
                users.begin();
                alarm.arm(&mut self.engine, now + Span::from_nanos(1), Event::Users(crowd));
            }
        }
    }

    /// One round of the stack.
    fn stack(&mut self, now: Time) {
        let busy = self.streams.turn(now, &mut self.hub);
        let [payload, bare, sent] = std::mem::take(&mut self.hub.took);
        let CostModel { driver_ns, classify_ns, tcp_rx_ns, tcp_ack_ns, tcp_tx_ns, event_ns, .. } = self.cost;
        let received = (payload + bare) * (driver_ns + classify_ns) + payload * (tcp_rx_ns + event_ns);
        let cost = Span::from_nanos(received + bare * tcp_ack_ns + sent * tcp_tx_ns);
        self.stack_busy += cost;
        self.stack_free_at = now + cost;
        for (crowd, (_, device, alarm)) in self.users.iter_mut().enumerate() {
            if let Some(arrival) = device.next_arrival() {
                alarm.arm(&mut self.engine, arrival.max(now), Event::Users(crowd));
            }
        }
        self.go_on(now);
        let due = match busy {
            true => Some(now),
            false => [self.streams.poll_timeout(), self.hub.next_arrival()].into_iter().flatten().min(),
        };
        if let Some(due) = due {
            let due = due.max(self.stack_free_at).max(now + Span::from_nanos(1));
            self.stack_alarm.arm(&mut self.engine, due, Event::Stack);
        }
    }

    fn wake_stack(&mut self, now: Time) {
        let due = self.hub.next_arrival().filter(|_| !self.program.has_news()).unwrap_or(now);
        self.stack_alarm.arm(&mut self.engine, due.max(self.stack_free_at).max(now), Event::Stack);
    }

    /// The program does the next that it can do, if it is idle.
    fn go_on(&mut self, now: Time) {
        if let Some(end) = self.program.begin(now) {
            self.engine.schedule(end, Event::Program);
        }
    }
}

/// The server's device: a way to each crowd.
struct Hub {
    ways: [PathDevice; 2],
    /// Frames with payload and without that came, and frames that were sent.
    took: [u64; 3],
}

/// A frame and the way it came.
struct Frame(usize, Vec<u8>);

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.1
    }
}

/// Longer frames carry payload: Ethernet, IPv4 and TCP with all its options.
const HEADERS_MAX: usize = 14 + 20 + 60;

impl Hub {
    fn next_arrival(&self) -> Option<Time> {
        self.ways.iter().filter_map(PathDevice::next_arrival).min()
    }
}

impl Device for Hub {
    type Frame = Frame;

    fn receive(&mut self, now: Time) -> Option<Received<Frame>> {
        let way = usize::from(
            self.ways[1].next_arrival().unwrap_or(Time::MAX)
                < self.ways[0].next_arrival().unwrap_or(Time::MAX),
        );
        let Received { frame, arrived, checked } = self.ways[way].receive(now)?;
        self.took[usize::from(frame.len() <= HEADERS_MAX)] += 1;
        Some(Received { frame: Frame(way, frame), arrived, checked })
    }

    fn recycle(&mut self, Frame(way, bytes): Frame) {
        self.ways[way].recycle(bytes);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.took[2] += 1;
        let mut frame = vec![0; len];
        fill(&mut frame);
        for (way, user) in self.ways.iter_mut().zip(USERS) {
            // A group address is everybody's.
            let is_its = frame[0] & 1 == 1 || frame[5] == user.octets()[3];
            if is_its {
                way.transmit(now, len, &mut |bytes| bytes.copy_from_slice(&frame))?;
            }
        }
        Ok(())
    }
}

/// A connection's number at the program.
fn slot(conn: ConnId) -> usize {
    conn.index as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(mode: &str, more: &str) -> Config {
        let text = format!(
            "mode = \"{mode}\"\nconnections = 40\nbytes = 20_000\nnear = \"delay=1ms\"\n\
             far = \"delay=4ms,loss=1%\"\nboth_ways = true\ngbps = 10\nrtt_max = \"4ms\"\nloss_max = 0.5\n\
             backend = \"1ms\"\nwarmup = \"1500ms\"\nduration = \"1s\"\n{more}"
        );
        Config::from_toml(&text).unwrap()
    }

    #[test]
    fn near_users_wait_less_when_they_are_urgent_and_the_program_serves_as_many() {
        let [none, adps] = ["none", "adps"].map(|mode| run(&config(mode, "")));
        let pages = |outcome: &Outcome| outcome.crowds.iter().map(|crowd| crowd.answers).sum::<u64>();
        // A thousand pages a second are all that the program can do. Each crowd counts a
        // second of its own, which begins when the last of its connections is open.
        for outcome in [&none, &adps] {
            assert!(pages(outcome) >= 900, "{}", pages(outcome));
            assert!(outcome.crowds.iter().all(|crowd| crowd.answers <= 1010));
            assert_eq!(outcome.crowds.iter().map(|crowd| crowd.broken).sum::<u64>(), 0);
        }
        let p50 = |outcome: &Outcome, crowd: usize| outcome.crowds[crowd].latency.quantile(0.5);
        assert!(p50(&adps, 0) < p50(&none, 0), "{} {}", p50(&adps, 0), p50(&none, 0));
        assert!(p50(&adps, 1) > p50(&none, 1), "who is less urgent pays for it");
    }

    #[test]
    fn of_a_burst_near_users_are_served_first() {
        let [none, adps] = ["none", "adps"].map(|mode| {
            let mut config = config(mode, "period = \"250ms\"");
            // More than a pipe holds: what is written of a page waits for others' pages.
            (config.bytes, config.both_ways) = (400_000, false);
            run(&config)
        });
        let p99 = |outcome: &Outcome| outcome.crowds[0].latency.quantile(0.99);
        assert!(p99(&adps) < p99(&none) * 4 / 5, "{} of {}", p99(&adps), p99(&none));
        for outcome in [&none, &adps] {
            assert!(outcome.crowds.iter().all(|crowd| (crowd.answers, crowd.unanswered) == (80, 0)));
        }
    }

    #[test]
    fn a_seed_replays_a_run() {
        let of = |more| {
            let outcome = run(&config("adps", more));
            (outcome.events, outcome.crowds.map(|crowd| (crowd.answers, crowd.latency.mean())))
        };
        assert_eq!(of("seed = 3"), of("seed = 3"));
        assert_ne!(of("seed = 3"), of("seed = 4"));
    }

    #[test]
    fn what_cannot_be_simulated_is_refused() {
        let mut config = config("none", "");
        config.connections = 1;
        assert_eq!(config.check(), Err(BadConfig("connections 1 is outside 2..=16000".to_owned())));
        config.mode = Mode::Darc;
        assert_eq!(config.check(), Err(BadConfig("mode darc is neither none nor adps".to_owned())));
    }
}
