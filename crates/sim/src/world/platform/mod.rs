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
pub use config::{Class, Config, Tier};
pub use mechanisms::Mechanisms;
pub use network::{Bulk, Network};
pub use outcome::{ClassOutcome, Outcome, TimeBreakdown};

use std::collections::BTreeMap;

use queueing::{Priority, Rng, Span, Time};

use crate::Engine;
use crate::fabric::{MessagePort, Wired, segments};
use deadline::History;
use hosts::{Hosts, Server};
use label::Grant;
use outcome::End;
use requests::{NewRequest, Requests, SubrequestId};

/// Message between hosts.
#[derive(Clone, Copy, Debug)]
struct Mail {
    /// Sub-request that it belongs to.
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
    Born(usize),
    /// A server's receiving core completes its piece of work.
    Received(usize),
    /// Event on a server's cores.
    Cores(usize),
    /// Period of a server's guard.
    Guard(usize),
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
    let wired: Option<Wired> = network.map(|network| network.wired(config.mechanisms.fabric, config.seed));
    let carrier: Box<dyn MessagePort + '_> = match &wired {
        Some(wired) => wired.carrier(),
        None => Box::new(network::Wire::default()),
    };
    let mut world = World::new(config, carrier);
    let end = Time::ZERO + config.warmup + config.lasts + config.drain;
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
    carrier: Box<dyn MessagePort + 'a>,
    /// Messages that arrived in the current step.
    arrived: Vec<u32>,
    mail: BTreeMap<u32, Mail>,
    hosts: Hosts,
    requests: Requests,
    /// Per class: arrival process, choice of client, and grant.
    births: Vec<Births>,
    /// Service times per tier, phase (merging or not) and class.
    history: History<(usize, bool, usize)>,
    /// Cost of a packet loss for the receiver, if packets can be lost.
    loss: Option<Span>,
    outcome: Outcome,
    closed: bool,
}

struct Births {
    times: queueing::ArrivalTimes,
    clients: Rng,
    grant: Grant,
}

impl<'a> World<'a> {
    fn new(config: &'a Config, carrier: Box<dyn MessagePort + 'a>) -> Self {
        let seed = Rng::seeded(config.seed);
        let births = |(place, class): (usize, &Class)| {
            let stream = |n: u64| seed.fork(1_000 + place as u64 * 2 + n);
            Births {
                times: class.arrivals(config.users).times(Time::ZERO + class.from, stream(0)),
                clients: stream(1),
                grant: Grant::new(class.levels()[1], class.slo),
            }
        };
        let mut world = Self {
            config,
            engine: Engine::new(),
            carrier,
            arrived: Vec::new(),
            mail: BTreeMap::new(),
            hosts: Hosts::new(config),
            requests: Requests::default(),
            births: config.classes.iter().enumerate().map(births).collect(),
            history: History::new(2 * config.tiers.len() * config.classes.len()),
            loss: config.network.as_ref().map(|network| network.transport.timeout()),
            outcome: Outcome::new(config),
            closed: false,
        };
        (0..config.classes.len()).for_each(|class| world.schedule_birth(class));
        for server in 0..world.hosts.servers.len() {
            world.hosts.remind(&mut world.engine, Time::ZERO, server);
            world.engine.schedule(Time::ZERO, Event::Guard(server));
        }
        world.engine.schedule(Time::ZERO + config.warmup, Event::Close);
        world.engine.schedule(Time::ZERO + config.warmup + config.lasts, Event::Close);
        world
    }

    /// Processes the next event up to `end`; returns its time.
    fn step(&mut self, end: Time) -> Option<Time> {
        let (own, carried) = (self.engine.peek(), self.carrier.next());
        let first = own.into_iter().chain(carried).min().filter(|&first| first <= end)?;
        if carried == Some(first) {
            let mut arrived = std::mem::take(&mut self.arrived);
            self.carrier.run(first, &mut arrived);
            arrived.drain(..).for_each(|message| self.arrive(first, message));
            self.arrived = arrived;
            return Some(first);
        }
        let (now, event) = self.engine.next()?;
        match event {
            Event::Born(class) => self.born(now, class),
            Event::Received(server) => self.received(now, server),
            Event::Cores(server) => self.cores(now, server),
            Event::Guard(server) => {
                let Server { stack, cores, .. } = &mut self.hosts.servers[server];
                let (waiting, oldest) = cores.waiting();
                if let Some(next) = stack.look(now, waiting, oldest) {
                    self.engine.schedule(next, Event::Guard(server));
                }
            }
            Event::Close => self.close(now),
        }
        Some(now)
    }

    /// Schedules the next request of `class`, until arrivals end.
    fn schedule_birth(&mut self, class: usize) {
        let Class { until, .. } = self.config.classes[class];
        let over = Time::ZERO + (self.config.warmup + self.config.lasts).min(until.unwrap_or(Span::MAX));
        if let Some(at) = self.births[class].times.next().filter(|&at| at < over) {
            self.engine.schedule(at, Event::Born(class));
        }
    }

    fn born(&mut self, now: Time, class: usize) {
        self.schedule_birth(class);
        let Class { slo, .. } = self.config.classes[class];
        let [asked, _] = self.config.classes[class].levels();
        let Births { clients, grant, .. } = &mut self.births[class];
        let client = clients.below(self.config.clients.into()) as u32;
        let (level, budget) = grant.admit(asked, slo);
        let counted = now >= Time::ZERO + self.config.warmup;
        self.outcome.classes[class].requests += u64::from(counted);
        let born = NewRequest { now, class, counted, client, level, budget };
        let at = self.requests.bear(self.config, born);
        self.send(now, at, false, false);
    }

    /// Sends a sub-request to its server, or its answer back.
    fn send(&mut self, now: Time, at: SubrequestId, answer: bool, failed: bool) {
        let request = self.requests.get(at);
        let piece = &request.pieces[at.piece as usize];
        let there = self.hosts.servers[piece.server].host;
        let caller = match piece.parent {
            Some(parent) => self.hosts.servers[request.pieces[parent as usize].server].host,
            None => self.hosts.clients[request.client as usize],
        };
        let tier = &self.config.tiers[piece.tier];
        let (ends, bytes) = match (answer, failed) {
            (false, _) => ([caller, there], tier.request.get()),
            (true, false) => ([there, caller], tier.answer.get()),
            (true, true) => ([there, caller], 1),
        };
        let message = self.carrier.send(now, ends, segments(bytes), piece.level);
        self.mail.insert(message, Mail { at, answer, failed, sent: now });
    }

    /// Handles a message delivered by the fabric.
    fn arrive(&mut self, now: Time, message: u32) {
        // Background flows carry no message.
        let Some(mail) = self.mail.remove(&message) else { return };
        let request = self.requests.get(mail.at);
        let piece = &request.pieces[mail.at.piece as usize];
        let server = match (mail.answer, piece.parent) {
            (false, _) => piece.server,
            (true, Some(parent)) => request.pieces[parent as usize].server,
            (true, None) => return self.answered(now, mail),
        };
        let class = &self.config.classes[request.class];
        let tier = &self.config.tiers[piece.tier];
        let knocks = class.newcomers && !mail.answer && piece.parent.is_none();
        let more_urgent = |level: &Priority| *level < class.levels()[1];
        let rank = || guard::Class::new(self.config.newcomers().filter(more_urgent).count() as u8);
        let bytes = if mail.answer { tier.answer } else { tier.request };
        let received = stack::Received {
            mail,
            level: piece.level,
            frames: segments(bytes.get()),
            opening: if knocks { class.opening } else { Span::ZERO },
            knocks: knocks.then(rank),
            came: now,
        };
        if let Some(lost) = self.hosts.servers[server].stack.receive(received) {
            self.lose(now, lost.mail);
        }
        self.hosts.receive(&mut self.engine, now, server);
    }

    /// Handles the final answer at the client.
    fn answered(&mut self, now: Time, mail: Mail) {
        if mail.failed {
            return self.end(now, mail.at, End::Shed);
        }
        let piece = self.requests.piece(mail.at);
        let way = now.since(mail.sent);
        let sum = |of: fn(&deadline::Stage) -> Span| piece.budget.stages().iter().map(of).sum::<Span>();
        let spent = TimeBreakdown {
            fabric: sum(|stage| stage.network) + way - piece.received,
            receive: piece.received,
            queue: sum(|stage| stage.queue),
            service: sum(|stage| stage.service),
        };
        self.end(now, mail.at, End::Answered(spent));
    }

    /// Records the end of a request.
    fn end(&mut self, now: Time, at: SubrequestId, end: End) {
        let request = self.requests.remove(at);
        if request.counted {
            let Config { patience, .. } = *self.config;
            let slo = self.config.classes[request.class].slo;
            self.outcome.classes[request.class].ended(now.since(request.born), slo, patience, end);
        }
    }

    /// Starts or ends the measurement of BE's work.
    fn close(&mut self, now: Time) {
        let work = self.hosts.work(now);
        let lasted = self.config.lasts.as_secs_f64();
        self.closed = now > Time::ZERO + self.config.warmup;
        if self.closed {
            self.outcome.beside = work.as_secs_f64() / lasted;
        }
    }

    fn finish(mut self, end: Time) -> Outcome {
        for request in self.requests.rest().filter(|request| request.counted) {
            let slo = self.config.classes[request.class].slo;
            let took = end.since(request.born);
            self.outcome.classes[request.class].ended(took, slo, self.config.patience, End::Never);
        }
        let carried = self.carrier.carried();
        self.outcome.bulk_bytes = carried.bulk_bytes;
        self.outcome.packets = carried.counters;
        self.outcome.elapsed = end.since(Time::ZERO);
        self.outcome.events = self.engine.scheduled() + carried.events + self.hosts.events();
        self.outcome.finish()
    }
}
