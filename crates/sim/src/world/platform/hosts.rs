//! Hosts of a platform: clients and servers.

use guard::Params;
use queueing::{Span, Time};

use super::config::Config;
use super::queue::queue;
use super::stack::{Settings, Stack};
use super::{Event, World};
use crate::Engine;
use crate::cores::{ExternalMachine, Served};
use crate::world::Alarm;

/// All hosts in use.
pub(super) struct Hosts {
    /// Clients' positions in the fabric.
    pub clients: Vec<u32>,
    /// Servers, tier by tier.
    pub servers: Vec<Server>,
    ended: Vec<Served>,
    shed: Vec<u64>,
}

/// Server host.
pub(super) struct Server {
    /// Position in the fabric.
    pub host: u32,
    pub stack: Stack,
    pub cores: ExternalMachine,
    alarm: Alarm,
}

/// Index of the BE task.
const BESIDE: usize = 1;

impl Hosts {
    pub fn new(config: &Config) -> Self {
        let host_of = |role: u32| config.network.as_ref().map_or(role, |network| network.host_of(role));
        let enabled = config.mechanisms;
        let params =
            Params { period: config.guard_period, delay_target: config.guard_target, ..Params::default() };
        let front = config.tiers[0].hosts;
        let server = |number: u32| {
            let guarded = enabled.guard && number < front;
            let guard = guarded.then(|| {
                let policy = guard::by_name("queue-delay", &params).expect("guard has this policy");
                (policy, params, config.newcomers().count().max(1) as u8)
            });
            let settings =
                Settings { cost: config.costs.unwrap_or_default(), by_level: enabled.events, guard };
            let waiting = queue(enabled.events, enabled.deadline, config.capacity);
            Server {
                host: host_of(config.clients + number),
                stack: Stack::new(settings),
                cores: ExternalMachine::new(&config.host(number.into()), waiting),
                alarm: Alarm::new(),
            }
        };
        let servers = config.tiers.iter().map(|tier| tier.hosts).sum();
        Self {
            clients: (0..config.clients).map(host_of).collect(),
            servers: (0..servers).map(server).collect(),
            ended: Vec::new(),
            shed: Vec::new(),
        }
    }

    /// Starts the next piece of work of the receiving core of `server`, if it is idle.
    pub fn receive(&mut self, engine: &mut Engine<Event>, now: Time, server: usize) {
        if let Some(takes) = self.servers[server].stack.begin(now) {
            engine.schedule(now + takes, Event::Received(server));
        }
    }

    /// Schedules the next event of the cores of `server`.
    pub fn schedule_cores(&mut self, engine: &mut Engine<Event>, now: Time, server: usize) {
        let Server { cores, alarm, .. } = &mut self.servers[server];
        if let Some(next) = cores.next() {
            alarm.arm(engine, next.max(now), Event::Cores(server));
        }
    }

    /// BE's measured work on all hosts, in time of one logical core.
    pub fn work(&mut self, now: Time) -> Span {
        self.servers.iter_mut().map(|server| server.cores.work(now, BESIDE)).sum()
    }

    /// Events simulated on cores.
    pub fn events(&self) -> u64 {
        self.servers.iter().map(|server| server.cores.events()).sum()
    }
}

impl World<'_> {
    /// Runs the due events of the cores of `server`.
    pub(super) fn cores(&mut self, now: Time, server: usize) {
        let Server { cores, alarm, .. } = &mut self.hosts.servers[server];
        if alarm.is_due(now) {
            cores.run(now);
            self.served(now, server);
        }
    }

    /// Handles the requests completed and shed on `server`, and schedules its next event.
    pub(super) fn served(&mut self, now: Time, server: usize) {
        let mut ended = std::mem::take(&mut self.hosts.ended);
        let mut shed = std::mem::take(&mut self.hosts.shed);
        self.hosts.servers[server].cores.drain(&mut ended, &mut shed);
        ended.drain(..).for_each(|served| self.ended(now, served));
        shed.drain(..).for_each(|token| self.shed(now, token));
        (self.hosts.ended, self.hosts.shed) = (ended, shed);
        self.hosts.schedule_cores(&mut self.engine, now, server);
    }
}
