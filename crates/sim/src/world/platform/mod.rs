//! Platform: a multi-tier service on a fabric of hosts, with all mechanisms switchable.
//!
//! Requests of several classes start at clients, cross a fabric whose ports are `queueing`'s
//! disciplines, are received, and wait in the queues of `sched` and `deadline` for cores that
//! `sched::cores` divides between the service and a BE task. They are split among the servers
//! of the next tier, and answered. One label accompanies each through every queue. All random
//! values of a request are drawn at its arrival, so that all [`Mechanisms`] of one seed get the
//! same work.
//!
//! Three levels of detail share one clock: packets in the fabric, messages in receiving hosts,
//! sub-requests on cores. ADR 0039 lists the simplifications.

mod config;
mod hosts;
mod label;
mod mechanisms;
mod network;
mod outcome;
mod queue;
mod requests;
mod service;
mod stack;

pub use crate::BadConfig;
pub use config::{Config, PlatformClass, Tier};
pub use mechanisms::Mechanisms;
pub use network::{BulkTraffic, PlatformNetwork};
pub use outcome::{ClassOutcome, Outcome, TimeBreakdown};

use std::collections::BTreeMap;

use queueing::{Priority, Rng, Span, Time};

use crate::Engine;
use crate::fabric::{MessagePort, PreparedFabric, segments};
use deadline::History;
use hosts::{Hosts, Server};
use label::Grant;
use outcome::End;
use requests::{NewRequest, Requests, SubrequestId};

/// Message between hosts.
#[derive(Clone, Copy, Debug)]
struct Message {
    /// Sub-request to which the message belongs.
    at: SubrequestId,
    /// True for an answer to the sub-request's sender.
    answer: bool,
    /// True for a failure notice.
    failed: bool,
    sent: Time,
}

/// Event outside the fabric.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A request of this class arrives.
    Arrival(usize),
    /// A server's receiving core completes its piece of work.
    Received(usize),
    /// Event on a server's cores.
    Cores(usize),
    /// Period of a server's guard.
    GuardTick(usize),
    /// Start or end of measurement.
    Close,
}

/// Runs until all requests are over, or until the time limit.
///
/// # Panics
/// If the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    config.check().expect("a checked configuration");
    let network = config.network.as_ref();
    let prepared: Option<PreparedFabric> =
        network.map(|network| network.prepare(config.mechanisms.fabric, config.seed));
    let port: Box<dyn MessagePort + '_> = match &prepared {
        Some(prepared) => prepared.start(),
        None => Box::new(network::NoNetwork::default()),
    };
    let mut world = World::new(config, port);
    let end = Time::ZERO + config.warmup + config.duration + config.drain;
    while let Some(now) = world.step(end) {
        if world.closed && world.requests.len() == 0 {
            return world.finish(now);
        }
    }
    world.finish(end)
}

struct World<'a> {
    config: &'a Config,
    engine: Engine<Event>,
    port: Box<dyn MessagePort + 'a>,
    /// Messages that arrived in the current step.
    arrived: Vec<u32>,
    messages: BTreeMap<u32, Message>,
    hosts: Hosts,
    requests: Requests,
    /// Per class: arrival process, choice of client, and grant.
    arrivals: Vec<ClassArrivals>,
    /// Service times per tier, phase (merging or not) and class.
    history: History<(usize, bool, usize)>,
    /// Cost of a packet loss for the receiver, if packets can be lost.
    loss_cost: Option<Span>,
    outcome: Outcome,
    closed: bool,
}

struct ClassArrivals {
    times: queueing::ArrivalTimes,
    clients: Rng,
    grant: Grant,
}

impl<'a> World<'a> {
    fn new(config: &'a Config, port: Box<dyn MessagePort + 'a>) -> Self {
        let seed = Rng::seeded(config.seed);
        let arrivals = |(number, class): (usize, &PlatformClass)| {
            let stream = |n: u64| seed.fork(1_000 + number as u64 * 2 + n);
            ClassArrivals {
                times: class.arrivals(config.users).times(Time::ZERO + class.from, stream(0)),
                clients: stream(1),
                grant: Grant::new(class.levels()[1], class.slo),
            }
        };
        let mut world = Self {
            config,
            engine: Engine::new(),
            port,
            arrived: Vec::new(),
            messages: BTreeMap::new(),
            hosts: Hosts::new(config),
            requests: Requests::default(),
            arrivals: config.classes.iter().enumerate().map(arrivals).collect(),
            history: History::new(2 * config.tiers.len() * config.classes.len()),
            loss_cost: config.network.as_ref().map(|network| network.transport.timeout()),
            outcome: Outcome::new(config),
            closed: false,
        };
        (0..config.classes.len()).for_each(|class| world.schedule_arrival(class));
        for server in 0..world.hosts.servers.len() {
            world.hosts.schedule_cores(&mut world.engine, Time::ZERO, server);
            world.engine.schedule(Time::ZERO, Event::GuardTick(server));
        }
        world.engine.schedule(Time::ZERO + config.warmup, Event::Close);
        world.engine.schedule(Time::ZERO + config.warmup + config.duration, Event::Close);
        world
    }

    /// Processes the next event up to `end`; returns its time.
    fn step(&mut self, end: Time) -> Option<Time> {
        let (own, delivery) = (self.engine.peek(), self.port.next());
        let first = own.into_iter().chain(delivery).min().filter(|&first| first <= end)?;
        if delivery == Some(first) {
            let mut arrived = std::mem::take(&mut self.arrived);
            self.port.run(first, &mut arrived);
            arrived.drain(..).for_each(|message| self.arrive(first, message));
            self.arrived = arrived;
            return Some(first);
        }
        let (now, event) = self.engine.next()?;
        match event {
            Event::Arrival(class) => self.on_arrival(now, class),
            Event::Received(server) => self.received(now, server),
            Event::Cores(server) => self.cores(now, server),
            Event::GuardTick(server) => {
                let Server { stack, cores, .. } = &mut self.hosts.servers[server];
                let (waiting, oldest) = cores.waiting();
                if let Some(next) = stack.guard_tick(now, waiting, oldest) {
                    self.engine.schedule(next, Event::GuardTick(server));
                }
            }
            Event::Close => self.close(now),
        }
        Some(now)
    }

    /// Schedules the next request of `class`, until arrivals end.
    fn schedule_arrival(&mut self, class: usize) {
        let PlatformClass { until, .. } = self.config.classes[class];
        let over = Time::ZERO + (self.config.warmup + self.config.duration).min(until.unwrap_or(Span::MAX));
        if let Some(at) = self.arrivals[class].times.next().filter(|&at| at < over) {
            self.engine.schedule(at, Event::Arrival(class));
        }
    }

    fn on_arrival(&mut self, now: Time, class: usize) {
        self.schedule_arrival(class);
        let PlatformClass { slo, .. } = self.config.classes[class];
        let [requested, _] = self.config.classes[class].levels();
        let ClassArrivals { clients, grant, .. } = &mut self.arrivals[class];
        let client = clients.below(self.config.clients.into()) as u32;
        let (level, budget) = grant.admit(requested, slo);
        let counted = now >= Time::ZERO + self.config.warmup;
        self.outcome.classes[class].requests += u64::from(counted);
        let new_request = NewRequest { now, class, counted, client, level, budget };
        let at = self.requests.create(self.config, new_request);
        self.send(now, at, false, false);
    }

    /// Sends a sub-request to its server, or its answer back.
    fn send(&mut self, now: Time, at: SubrequestId, answer: bool, failed: bool) {
        let request = self.requests.get(at);
        let subrequest = &request.subrequests[at.subrequest as usize];
        let server_host = self.hosts.servers[subrequest.server].host;
        let caller = match subrequest.parent {
            Some(parent) => self.hosts.servers[request.subrequests[parent as usize].server].host,
            None => self.hosts.clients[request.client as usize],
        };
        let tier = &self.config.tiers[subrequest.tier];
        let (ends, bytes) = match (answer, failed) {
            (false, _) => ([caller, server_host], tier.request.get()),
            (true, false) => ([server_host, caller], tier.answer.get()),
            (true, true) => ([server_host, caller], 1),
        };
        let number = self.port.send(now, ends, segments(bytes), subrequest.level);
        self.messages.insert(number, Message { at, answer, failed, sent: now });
    }

    /// Handles a message delivered by the fabric.
    fn arrive(&mut self, now: Time, number: u32) {
        // Background flows carry no message.
        let Some(message) = self.messages.remove(&number) else { return };
        let request = self.requests.get(message.at);
        let subrequest = &request.subrequests[message.at.subrequest as usize];
        let server = match (message.answer, subrequest.parent) {
            (false, _) => subrequest.server,
            (true, Some(parent)) => request.subrequests[parent as usize].server,
            (true, None) => return self.answered(now, message),
        };
        let class = &self.config.classes[request.class];
        let tier = &self.config.tiers[subrequest.tier];
        let opens_connection = class.newcomers && !message.answer && subrequest.parent.is_none();
        let more_urgent = |level: &Priority| *level < class.levels()[1];
        let rank = || guard::Class::new(self.config.newcomers().filter(more_urgent).count() as u8);
        let bytes = if message.answer { tier.answer } else { tier.request };
        let received = stack::Received {
            message,
            level: subrequest.level,
            frames: segments(bytes.get()),
            opening: if opens_connection { class.opening } else { Span::ZERO },
            guard_class: opens_connection.then(rank),
            arrived: now,
        };
        if let Some(lost) = self.hosts.servers[server].stack.receive(received) {
            self.drop_message(now, lost.message);
        }
        self.hosts.receive(&mut self.engine, now, server);
    }

    /// Handles the final answer at the client.
    fn answered(&mut self, now: Time, message: Message) {
        if message.failed {
            return self.end(now, message.at, End::Shed);
        }
        let subrequest = self.requests.subrequest(message.at);
        let latency = now.since(message.sent);
        let sum =
            |of: fn(&deadline::StageTime) -> Span| subrequest.budget.stages().iter().map(of).sum::<Span>();
        let spent = TimeBreakdown {
            fabric: sum(|stage| stage.network) + latency - subrequest.received,
            receive: subrequest.received,
            queue: sum(|stage| stage.queue),
            service: sum(|stage| stage.service),
        };
        self.end(now, message.at, End::Answered(spent));
    }

    /// Records the end of a request.
    fn end(&mut self, now: Time, at: SubrequestId, end: End) {
        let request = self.requests.remove(at);
        if request.counted {
            let Config { timeout, .. } = *self.config;
            let slo = self.config.classes[request.class].slo;
            self.outcome.classes[request.class].ended(now.since(request.arrived), slo, timeout, end);
        }
    }

    /// Starts or ends the measurement of BE's work.
    fn close(&mut self, now: Time) {
        let work = self.hosts.work(now);
        let duration = self.config.duration.as_secs_f64();
        self.closed = now > Time::ZERO + self.config.warmup;
        if self.closed {
            self.outcome.beside = work.as_secs_f64() / duration;
        }
    }

    fn finish(mut self, end: Time) -> Outcome {
        for request in self.requests.active().filter(|request| request.counted) {
            let slo = self.config.classes[request.class].slo;
            let took = end.since(request.arrived);
            self.outcome.classes[request.class].ended(took, slo, self.config.timeout, End::Never);
        }
        let stats = self.port.stats();
        self.outcome.bulk_bytes = stats.bulk_bytes;
        self.outcome.packets = stats.counters;
        self.outcome.elapsed = end.since(Time::ZERO);
        self.outcome.events = self.engine.scheduled() + stats.events + self.hosts.events();
        self.outcome.finish()
    }
}
