//! Requests under way: a tree of pieces each, drawn when the request is born.
//!
//! The first piece is the whole request at the first tier; each piece has one child
//! for each part of the next. What a piece takes, and which host it goes to, comes
//! from the request's own random numbers, so that two runs of one seed are given
//! exactly the same work, whatever is switched on.

use deadline::{Budget, StageTimer};
use queueing::{Distribution, Priority, Rng, Span, Time};

use super::config::{Class, Config};

/// A piece of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubrequestId {
    pub request: u32,
    pub piece: u16,
}

impl SubrequestId {
    /// As a token: of its first service here, or of merging.
    pub fn token(self, merge: bool) -> u64 {
        u64::from(self.request) << 17 | u64::from(self.piece) << 1 | u64::from(merge)
    }

    /// The piece of a token, and whether it is merging.
    pub fn of(token: u64) -> (Self, bool) {
        (Self { request: (token >> 17) as u32, piece: (token >> 1) as u16 }, token & 1 == 1)
    }
}

/// A request.
pub(super) struct Request {
    pub class: usize,
    pub born: Time,
    pub counted: bool,
    /// The host that asks.
    pub client: u32,
    /// The urgency that it was admitted with.
    pub level: Priority,
    pub pieces: Vec<Piece>,
}

/// A piece of one.
pub(super) struct Piece {
    pub tier: usize,
    pub parent: Option<u16>,
    /// The server that it goes to.
    pub server: usize,
    /// What it takes there: at first, and when its children are back.
    pub work: [Span; 2],
    pub children: std::ops::Range<u16>,
    /// As it left whoever had it last.
    pub budget: Budget,
    pub level: Priority,
    pub visit: Option<StageTimer>,
    /// Received and not yet delivered, on its slowest way so far.
    pub received: Span,
    /// Children that are out, and what came back.
    pub out: u16,
    pub failed: bool,
    pub back: Vec<(StageTimer, Span)>,
}

/// All that are under way.
#[derive(Default)]
pub(super) struct Requests {
    slots: Vec<Option<Request>>,
    free: Vec<u32>,
    /// How many were born.
    born: u64,
}

impl Requests {
    /// A request of `class` is born, with `budget` and `level`; where it is.
    pub fn bear(&mut self, config: &Config, born: NewRequest) -> SubrequestId {
        let NewRequest { now, class, counted, client, level, budget } = born;
        let mut rng = Rng::seeded(config.seed).fork(class as u64).fork(self.born);
        self.born += 1;
        let pieces = pieces(config, &config.classes[class], &mut rng, level, budget);
        let request = Request { class, born: now, counted, client, level, pieces };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(request);
        SubrequestId { request: slot, piece: 0 }
    }

    /// A request that is under way.
    pub fn get(&mut self, at: SubrequestId) -> &mut Request {
        self.slots[at.request as usize].as_mut().expect("it is under way")
    }

    /// A piece of one.
    pub fn piece(&mut self, at: SubrequestId) -> &mut Piece {
        &mut self.get(at).pieces[at.piece as usize]
    }

    /// It is over.
    pub fn remove(&mut self, at: SubrequestId) -> Request {
        self.free.push(at.request);
        self.slots[at.request as usize].take().expect("it is under way")
    }

    /// Those that are still under way.
    pub fn rest(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().flatten()
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// What is known of a request that is born.
pub(super) struct NewRequest {
    pub now: Time,
    pub class: usize,
    pub counted: bool,
    pub client: u32,
    pub level: Priority,
    pub budget: Budget,
}

/// The pieces of a request of `class`, tier by tier.
fn pieces(config: &Config, class: &Class, rng: &mut Rng, level: Priority, budget: Budget) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut parents = 0..0;
    let mut first_server = 0;
    for (tier, unit) in config.tiers.iter().enumerate() {
        let callers: Vec<Option<u16>> = match tier {
            0 => vec![None],
            _ => parents.clone().map(Some).collect(),
        };
        let begin = pieces.len() as u16;
        for parent in callers {
            let child = pieces.len() as u16;
            // Neighbours, so that no two parts of a request meet at one host.
            let host = rng.below(unit.hosts.into());
            for part in 0..unit.parts {
                let server = first_server + (host + u64::from(part)) as usize % unit.hosts as usize;
                let mut draw = |law: Option<Distribution>| {
                    let span = law.map_or(Span::ZERO, |law| law.sample(rng));
                    Span::from_nanos((span.as_nanos() as f64 * class.scale) as u64)
                };
                pieces.push(Piece {
                    tier,
                    parent,
                    server,
                    work: [draw(Some(unit.service)), draw(unit.merge)],
                    children: 0..0,
                    budget,
                    level,
                    visit: None,
                    received: Span::ZERO,
                    out: 0,
                    failed: false,
                    back: Vec::new(),
                });
            }
            if let Some(parent) = parent {
                pieces[parent as usize].children = child..pieces.len() as u16;
            }
        }
        parents = begin..pieces.len() as u16;
        first_server += unit.hosts as usize;
    }
    pieces
}
