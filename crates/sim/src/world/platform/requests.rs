//! Active requests: a tree of sub-requests each, drawn at the request's arrival.
//!
//! The root is the whole request at the first tier; each sub-request has one child per part of
//! the next tier. Service times and servers come from the request's own random stream, so that
//! all runs of one seed get the same work, whichever mechanisms are enabled.

use deadline::{Budget, StageTimer};
use queueing::{Distribution, Priority, Rng, Span, Time};

use super::config::{Config, PlatformClass};

/// Identifier of a sub-request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubrequestId {
    pub request: u32,
    pub subrequest: u16,
}

impl SubrequestId {
    /// Token for the cores: of the first service, or of merging.
    pub fn token(self, merge: bool) -> u64 {
        u64::from(self.request) << 17 | u64::from(self.subrequest) << 1 | u64::from(merge)
    }

    /// Inverse of [`token`](Self::token).
    pub fn of(token: u64) -> (Self, bool) {
        (Self { request: (token >> 17) as u32, subrequest: (token >> 1) as u16 }, token & 1 == 1)
    }
}

/// Request.
pub(super) struct Request {
    pub class: usize,
    pub arrived: Time,
    pub counted: bool,
    /// Client host.
    pub client: u32,
    /// Admitted level.
    pub level: Priority,
    pub subrequests: Vec<Subrequest>,
}

/// Sub-request.
pub(super) struct Subrequest {
    pub tier: usize,
    pub parent: Option<u16>,
    /// Index of its server.
    pub server: usize,
    /// Service times: first service, and merging.
    pub work: [Span; 2],
    pub children: std::ops::Range<u16>,
    /// Budget as sent by the previous stage.
    pub budget: Budget,
    pub level: Priority,
    pub visit: Option<StageTimer>,
    /// Time between reception and delivery, along the slowest path so far.
    pub received: Span,
    /// Outstanding children, failure flag, and answers.
    pub outstanding: u16,
    pub failed: bool,
    pub answers: Vec<(StageTimer, Span)>,
}

/// All active requests.
#[derive(Default)]
pub(super) struct Requests {
    slots: Vec<Option<Request>>,
    free: Vec<u32>,
    /// Requests so far.
    count: u64,
}

impl Requests {
    /// Creates a request; returns its root.
    pub fn create(&mut self, config: &Config, new: NewRequest) -> SubrequestId {
        let NewRequest { now, class, counted, client, level, budget } = new;
        let mut rng = Rng::seeded(config.seed).fork(class as u64).fork(self.count);
        self.count += 1;
        let subrequests = subrequests(config, &config.classes[class], &mut rng, level, budget);
        let request = Request { class, arrived: now, counted, client, level, subrequests };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(request);
        SubrequestId { request: slot, subrequest: 0 }
    }

    /// Active request of `at`.
    pub fn get(&mut self, at: SubrequestId) -> &mut Request {
        self.slots[at.request as usize].as_mut().expect("the request is active")
    }

    /// Sub-request `at`.
    pub fn subrequest(&mut self, at: SubrequestId) -> &mut Subrequest {
        &mut self.get(at).subrequests[at.subrequest as usize]
    }

    /// Removes a completed request.
    pub fn remove(&mut self, at: SubrequestId) -> Request {
        self.free.push(at.request);
        self.slots[at.request as usize].take().expect("the request is active")
    }

    /// Requests that are still active.
    pub fn active(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().flatten()
    }

    /// Number of active requests.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// Parameters of a new request.
pub(super) struct NewRequest {
    pub now: Time,
    pub class: usize,
    pub counted: bool,
    pub client: u32,
    pub level: Priority,
    pub budget: Budget,
}

/// Sub-requests of a request of `class`, tier by tier.
fn subrequests(
    config: &Config,
    class: &PlatformClass,
    rng: &mut Rng,
    level: Priority,
    budget: Budget,
) -> Vec<Subrequest> {
    let mut subrequests: Vec<Subrequest> = Vec::new();
    let mut parents = 0..0;
    let mut first_server = 0;
    for (tier, unit) in config.tiers.iter().enumerate() {
        let callers: Vec<Option<u16>> = match tier {
            0 => vec![None],
            _ => parents.clone().map(Some).collect(),
        };
        let first = subrequests.len() as u16;
        for parent in callers {
            let child = subrequests.len() as u16;
            // Adjacent servers, so that no two parts of a request share one.
            let host = rng.below(unit.hosts.into());
            for part in 0..unit.parts {
                let server = first_server + (host + u64::from(part)) as usize % unit.hosts as usize;
                let mut draw = |distribution: Option<Distribution>| {
                    let span = distribution.map_or(Span::ZERO, |distribution| distribution.sample(rng));
                    Span::from_nanos((span.as_nanos() as f64 * class.scale) as u64)
                };
                subrequests.push(Subrequest {
                    tier,
                    parent,
                    server,
                    work: [draw(Some(unit.service)), draw(unit.merge)],
                    children: 0..0,
                    budget,
                    level,
                    visit: None,
                    received: Span::ZERO,
                    outstanding: 0,
                    failed: false,
                    answers: Vec::new(),
                });
            }
            if let Some(parent) = parent {
                subrequests[parent as usize].children = child..subrequests.len() as u16;
            }
        }
        parents = first..subrequests.len() as u16;
        first_server += unit.hosts as usize;
    }
    subrequests
}
