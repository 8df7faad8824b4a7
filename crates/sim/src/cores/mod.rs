//! A machine's cores, and the tasks that disturb each other on them.
//!
//! A [`Config`] lists a machine (lanes, sockets, DRAM, cache) and tasks: LC serves
//! requests that come whether it keeps up or not, BE works without end, in phases.
//! How fast a lane is depends on what its siblings do and on how far DRAM and
//! cache are used ([`memory`]). The policies are `sched::cores`' own, through
//! the port [`sched::cores::Cores`]; what their decisions take is stated in
//! [`Costs`]. Deliberately without: caches that warm up, NUMA placement, frequency.
//! Source: Caladan (OSDI '20) §2 and §7.
//!
//! ```
//! use sim::cores::{self, Config};
//!
//! let config = Config::from_toml(r#"
//!     policy = "caladan"
//!     lasts = "20ms"
//!     machine = { physical = 2, lanes = 2 }
//!     [[tasks]]
//!     name = "kv"
//!     class = "LC"
//!     guaranteed = 4
//!     arrivals = "poisson 100000"
//!     service = "exp 2us"
//!     [[tasks]]
//!     name = "batch"
//!     class = "BE"
//!     threads = 4
//! "#)?;
//! let outcome = cores::run(&config);
//! assert!(outcome.tasks[0].latency.quantile(0.5).as_micros_f64() < 20.0);
//! assert!(outcome.tasks[1].cores(outcome.counted) > 2.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod config;
mod control;
mod external_arrivals;
mod linux;
mod logical_core;
mod machine;
pub mod memory;
mod outcome;
mod task;

pub use config::{Change, ClassName, Config, Costs, Machine, Needs, Phase, Task};
pub(crate) use external_arrivals::{ExternalMachine, Offer, Served, Waiting};
pub use outcome::{Outcome, TaskOutcome};

use queueing::{Span, Time};
use sched::cores::Allocator;

use machine::{Event, World};

/// How often it is looked whether a phase is over.
const PHASES_EVERY: Span = Span::from_micros(50);

/// Runs until the time is over.
///
/// # Panics
/// When the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    let board = config.board().expect("a checked configuration");
    let policy = config.policy(&board).expect("a checked configuration");
    let mut allocator = Allocator::new(policy, board);
    let mut world = World::new(config, allocator.board().topology().clone());
    let end = Time::ZERO + config.warmup + config.lasts;
    while let Some((now, event)) = world.engine.next_by(end) {
        happens(&mut world, &mut allocator, now, event);
    }
    world.finish(end)
}

fn happens(world: &mut World, allocator: &mut Allocator, now: Time, event: Event) {
    match event {
        Event::Arrive(task) => world.arrive(now, task),
        Event::Done { core, turn } => world.done(now, core, turn),
        Event::Switched { core, turn } => world.switched(now, core, turn),
        Event::Park { core, turn } => world.park(now, core, turn),
        Event::Slice { core, turn } => world.slice_ends(now, core, turn),
        Event::Phases => {
            world.phases(now);
            world.engine.schedule(now + PHASES_EVERY, Event::Phases);
        }
        Event::Round => {
            let actions = allocator.round(now, world);
            world.count_round(now, actions);
            world.engine.schedule(now + allocator.period(), Event::Round);
        }
    }
}
