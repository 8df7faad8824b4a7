//! Unmodified web server with near and far users: Table 1 of the ADPS paper in virtual time.
//!
//! The stack is `runtime::socket_proxy`, the code of `greenwave run`. The users are `load`'s; each
//! group has its own stack and its own path. The program is modelled (`web_server`): a single
//! thread that works on each request for some time, writes as far as its pipe has space, and
//! serves the most urgent of the ready connections. Stack and program have a core each. A round
//! of the stack takes the time that the cost model gives for its frames; what it sends leaves
//! at the start of the round.
//! Source: ADPS §4.5.

use std::net::{Ipv4Addr, SocketAddr};

use classify::scenarios::network;
use load::closed_loop::{
    ClosedLoopClient, Exchange, ExpectedResponse, KindResults, LoadModel, RequestStream,
};
use net::device::fault_injector::Rates;
use net::device::{Full, ReceivedFrame};
use net::{ConnId, Device};
use queueing::{Bytes, Rate, Rng, Span, Time};
use runtime::mode::{Classifiers, Mode};
use runtime::socket_proxy::SocketProxy;
use sched::dispatch::{Params, Steering};

pub use crate::BadConfig;
use crate::path::{self, PathDevice};
use crate::serde_text::{text, text_or_none};
use crate::world::server::config::stack;
use crate::{CostModel, Engine};

use super::Alarm;
use web_server::{Program, WebServer};

mod web_server;

/// Server and users.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// `none`, or `adps`: connections with a long round trip or with losses have lower priority
    /// (scenario 3).
    #[serde(deserialize_with = "text")]
    pub mode: Mode,
    /// Connections of both groups, half of them near, 2..=16000.
    pub connections: u32,
    /// Page length in bytes, at least 1.
    pub bytes: usize,
    /// Faults of frames from near users to the server.
    #[serde(deserialize_with = "text")]
    pub near: Rates,
    /// Faults of frames from far users to the server.
    #[serde(deserialize_with = "text")]
    pub far: Rates,
    /// Applies the faults to frames from the server, too.
    #[serde(default)]
    pub both_ways: bool,
    /// Interval at which all connections send a request at once; default: each sends the next
    /// request on the previous answer.
    #[serde(default, deserialize_with = "text_or_none")]
    pub period: Option<Span>,
    /// Rate of each group's path in Gbit/s, 0.001..=1000.
    pub gbps: f64,
    /// Round-trip time above which a connection is far.
    #[serde(deserialize_with = "text")]
    pub rtt_max: Span,
    /// Loss ratio above which a connection is far.
    pub loss_max: f32,
    /// Work of the program per request.
    #[serde(deserialize_with = "text")]
    pub backend: Span,
    /// Warm-up, not measured.
    #[serde(deserialize_with = "text")]
    pub warmup: Span,
    /// Measured duration.
    #[serde(deserialize_with = "text")]
    pub duration: Span,
    /// Seed; the same seed replays the run.
    #[serde(default)]
    pub seed: u64,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Near users, far users.
    pub groups: [KindResults; 2],
    /// Utilisation of the program's core and of the stack's core.
    pub busy: [f64; 2],
    /// Events simulated.
    pub events: u64,
}

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const USERS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 0, 2), Ipv4Addr::new(10, 77, 0, 3)];
const PORT: u16 = 80;
/// Bottleneck buffer: more than users request at once.
const BUFFER: Bytes = Bytes::new(256 << 20);
/// Maximum number of frames that wait for TCP.
const FRAMES_MAX: usize = 16_384;
const REQUEST: &[u8] = b"GET /p HTTP/1.1\r\nHost: server\r\n\r\n";
/// Receive buffer of users.
const USER_BUFFER: usize = 4 << 20;

impl Config {
    /// Parses a configuration and checks it.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
    pub fn from_toml(text: &str) -> Result<Self, BadConfig> {
        crate::serde_text::settings(text, Self::check)
    }

    /// Checks that the configuration can be simulated.
    ///
    /// # Errors
    /// One line with the invalid value and the valid ones.
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

/// Event.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A group of users has a frame or a timeout.
    Users(usize),
    /// The stack's core is free or has work.
    Stack,
    /// The program's core has completed its work.
    Program,
}

struct World {
    engine: Engine<Event>,
    cost: CostModel,
    users: [(ClosedLoopClient, PathDevice, Alarm); 2],
    proxy: SocketProxy<Hub, WebServer>,
    hub: Hub,
    stack_alarm: Alarm,
    stack_free_at: Time,
    stack_busy: Span,
    program: Program,
}

/// Runs the simulation described by `config`.
///
/// # Panics
/// If `config` was changed after [`Config::check`] had accepted it.
#[must_use]
pub fn run(config: &Config) -> Outcome {
    config.check().expect("the configuration was checked before");
    let mut world = World::new(config);
    let mut events = 0;
    (0..2).for_each(|group| world.users[group].2.arm(&mut world.engine, Time::ZERO, Event::Users(group)));
    world.stack_alarm.arm(&mut world.engine, Time::ZERO, Event::Stack);
    while !world.users.iter().all(|(users, ..)| users.is_done())
        && let Some((now, event)) = world.engine.next()
    {
        world.handle(now, event);
        events += 1;
    }
    let elapsed = world.engine.now().since(Time::ZERO).as_secs_f64();
    let busy = [world.program.busy(), world.stack_busy].map(|busy| busy.as_secs_f64() / elapsed);
    let groups = world.users.map(|(users, ..)| users.outcome().kinds[0].clone());
    Outcome { groups, busy, events }
}

impl World {
    fn new(config: &Config) -> Self {
        let rng = Rng::seeded(config.seed);
        let rate = Rate::from_bits_per_sec((config.gbps * 1e9) as u64);
        let ends = [(config.near, 1), (config.far, 2)].map(|(faults, stream)| {
            let client_to_server =
                path::Config { rate, delay: Span::ZERO, buffer: BUFFER, mark: None, faults };
            let faults = if config.both_ways { faults } else { Rates::NONE };
            path::connect(client_to_server, path::Config { faults, ..client_to_server }, &rng.fork(stream))
        });
        let [(near, near_server), (far, far_server)] = ends;
        let half = config.connections / 2;
        let group = |n: usize, connections, device| {
            let (request, answer) = (REQUEST.to_vec(), ExpectedResponse::Http);
            let pace = LoadModel::periodic(connections, config.period);
            let kind = RequestStream { connections, request, answer, pace };
            let exchange = Exchange { kinds: vec![kind], warmup: config.warmup, duration: config.duration };
            let mut tcp = stack(USERS[n], config.seed);
            tcp.recv_buffer = USER_BUFFER;
            (
                ClosedLoopClient::new(exchange, tcp, SocketAddr::from((SERVER, PORT))).paused(),
                device,
                Alarm::new(),
            )
        };
        let transport = Some(network(config.rtt_max, config.loss_max));
        let classifiers = Classifiers { transport, ..Classifiers::default() };
        let policy = config.mode.policy(classifiers, &Params::new(1, 1), Steering::all(1));
        let program = Program::new(config.bytes, config.backend);
        let web_server = program.listen(PORT);
        Self {
            engine: Engine::new(),
            cost: CostModel::default(),
            users: [group(0, half, near), group(1, config.connections - half, far)],
            proxy: SocketProxy::new(stack(SERVER, config.seed), policy, FRAMES_MAX, web_server),
            hub: Hub { paths: [near_server, far_server], frames: [0; 3] },
            stack_alarm: Alarm::new(),
            stack_free_at: Time::ZERO,
            stack_busy: Span::ZERO,
            program,
        }
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Users(group) if self.users[group].2.is_due(now) => self.users(now, group),
            Event::Stack if self.stack_alarm.is_due(now) => self.stack(now),
            Event::Users(_) | Event::Stack => {}
            Event::Program => {
                self.program.end();
                self.wake_stack(now);
                self.run_program(now);
            }
        }
    }

    /// Runs a group of users until it has nothing to do; costs no time.
    fn users(&mut self, now: Time, group: usize) {
        let (users, device, alarm) = &mut self.users[group];
        while users.step(now, device) {}
        let due = [users.poll_timeout(), device.next_arrival()].into_iter().flatten().min();
        if let Some(due) = due.filter(|_| !users.is_done()) {
            // A second call in the same instant would do nothing.
            alarm.arm(&mut self.engine, due.max(now + Span::from_nanos(1)), Event::Users(group));
        }
        if self.hub.next_arrival().is_some() {
            self.wake_stack(now);
        }
        if self.users.iter().all(|(users, ..)| users.is_open()) {
            for (group, (users, _, alarm)) in self.users.iter_mut().enumerate() {
                users.begin();
                alarm.arm(&mut self.engine, now + Span::from_nanos(1), Event::Users(group));
            }
        }
    }

    /// Executes one round of the stack.
    fn stack(&mut self, now: Time) {
        let busy = self.proxy.step(now, &mut self.hub);
        let [payload, bare, sent] = std::mem::take(&mut self.hub.frames);
        let CostModel { driver_ns, classify_ns, tcp_rx_ns, tcp_ack_ns, tcp_tx_ns, event_ns, .. } = self.cost;
        let received = (payload + bare) * (driver_ns + classify_ns) + payload * (tcp_rx_ns + event_ns);
        let cost = Span::from_nanos(received + bare * tcp_ack_ns + sent * tcp_tx_ns);
        self.stack_busy += cost;
        self.stack_free_at = now + cost;
        for (group, (_, device, alarm)) in self.users.iter_mut().enumerate() {
            if let Some(arrival) = device.next_arrival() {
                alarm.arm(&mut self.engine, arrival.max(now), Event::Users(group));
            }
        }
        self.run_program(now);
        let due = match busy {
            true => Some(now),
            false => [self.proxy.poll_timeout(), self.hub.next_arrival()].into_iter().flatten().min(),
        };
        if let Some(due) = due {
            let due = due.max(self.stack_free_at).max(now + Span::from_nanos(1));
            self.stack_alarm.arm(&mut self.engine, due, Event::Stack);
        }
    }

    fn wake_stack(&mut self, now: Time) {
        let due = self.hub.next_arrival().filter(|_| !self.program.has_events()).unwrap_or(now);
        self.stack_alarm.arm(&mut self.engine, due.max(self.stack_free_at).max(now), Event::Stack);
    }

    /// Starts the program's next piece of work if it is idle.
    fn run_program(&mut self, now: Time) {
        if let Some(end) = self.program.begin(now) {
            self.engine.schedule(end, Event::Program);
        }
    }
}

/// Device of the server: a path to each group of users.
struct Hub {
    paths: [PathDevice; 2],
    /// Frames received with payload, received without, and sent.
    frames: [u64; 3],
}

/// Frame and the path on which it arrived.
struct Frame(usize, Vec<u8>);

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.1
    }
}

/// Longest frame without payload: Ethernet, IPv4 and TCP with all options.
const HEADERS_MAX: usize = 14 + 20 + 60;

impl Hub {
    fn next_arrival(&self) -> Option<Time> {
        self.paths.iter().filter_map(PathDevice::next_arrival).min()
    }
}

impl Device for Hub {
    type Frame = Frame;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<Frame>> {
        let path_index = usize::from(
            self.paths[1].next_arrival().unwrap_or(Time::MAX)
                < self.paths[0].next_arrival().unwrap_or(Time::MAX),
        );
        let ReceivedFrame { frame, arrived, checked } = self.paths[path_index].receive(now)?;
        self.frames[usize::from(frame.len() <= HEADERS_MAX)] += 1;
        Some(ReceivedFrame { frame: Frame(path_index, frame), arrived, checked })
    }

    fn recycle(&mut self, Frame(path_index, bytes): Frame) {
        self.paths[path_index].recycle(bytes);
    }

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.frames[2] += 1;
        let mut frame = vec![0; len];
        fill(&mut frame);
        for (path_index, user) in self.paths.iter_mut().zip(USERS) {
            // Group addresses go to every path.
            let is_its = frame[0] & 1 == 1 || frame[5] == user.octets()[3];
            if is_its {
                path_index.transmit(now, len, &mut |bytes| bytes.copy_from_slice(&frame))?;
            }
        }
        Ok(())
    }
}

/// Index of a connection in the program.
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
    fn urgent_near_users_wait_less_at_equal_throughput() {
        let [none, adps] = ["none", "adps"].map(|mode| run(&config(mode, "")));
        let pages = |outcome: &Outcome| outcome.groups.iter().map(|group| group.answers).sum::<u64>();
        // The program can serve a thousand pages per second. Each group measures one second,
        // which begins when its last connection is open.
        for outcome in [&none, &adps] {
            assert!(pages(outcome) >= 900, "{}", pages(outcome));
            assert!(outcome.groups.iter().all(|group| group.answers <= 1010));
            assert_eq!(outcome.groups.iter().map(|group| group.broken).sum::<u64>(), 0);
        }
        let p50 = |outcome: &Outcome, group: usize| outcome.groups[group].latency.quantile(0.5);
        assert!(p50(&adps, 0) < p50(&none, 0), "{} {}", p50(&adps, 0), p50(&none, 0));
        assert!(p50(&adps, 1) > p50(&none, 1), "who is less urgent pays for it");
    }

    #[test]
    fn in_a_burst_near_users_are_served_first() {
        let [none, adps] = ["none", "adps"].map(|mode| {
            let mut config = config(mode, "period = \"250ms\"");
            // More than a pipe holds, hence a partly written page waits for other pages.
            (config.bytes, config.both_ways) = (400_000, false);
            run(&config)
        });
        let p99 = |outcome: &Outcome| outcome.groups[0].latency.quantile(0.99);
        assert!(p99(&adps) < p99(&none) * 4 / 5, "{} of {}", p99(&adps), p99(&none));
        for outcome in [&none, &adps] {
            assert!(outcome.groups.iter().all(|group| (group.answers, group.unanswered) == (80, 0)));
        }
    }

    #[test]
    fn a_seed_replays_a_run() {
        let of = |more| {
            let outcome = run(&config("adps", more));
            (outcome.events, outcome.groups.map(|group| (group.answers, group.latency.mean())))
        };
        assert_eq!(of("seed = 3"), of("seed = 3"));
        assert_ne!(of("seed = 3"), of("seed = 4"));
    }

    #[test]
    fn an_invalid_simulation_is_refused() {
        let mut config = config("none", "");
        config.connections = 1;
        assert_eq!(config.check(), Err(BadConfig("connections 1 is outside 2..=16000".to_owned())));
        config.mode = Mode::Darc;
        assert_eq!(config.check(), Err(BadConfig("mode darc is neither none nor adps".to_owned())));
    }
}
