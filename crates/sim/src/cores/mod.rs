//! Cores of one machine, and tasks that interfere with each other on them.
//!
//! A [`Config`] lists a machine (logical cores, sockets, DRAM, cache) and tasks. LC tasks serve
//! open-loop requests; BE tasks work without end, in phases. The speed of a logical core
//! depends on its siblings and on the utilisation of DRAM and cache ([`memory`]). The policies
//! are `sched::cores`' own, called through [`sched::cores::Cores`]; [`Costs`] holds the cost of
//! their decisions. Not modelled: cache warm-up, NUMA placement, frequency. Source: Caladan
//! (OSDI '20) §2 and §7.
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

/// Interval between checks of phases.
const PHASES_EVERY: Span = Span::from_micros(50);

/// Runs the simulation for its configured duration.
///
/// # Panics
/// If the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    let board = config.board().expect("a checked configuration");
    let policy = config.policy(&board).expect("a checked configuration");
    let mut allocator = Allocator::new(policy, board);
    let mut world = World::new(config, allocator.assignment().topology().clone());
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
