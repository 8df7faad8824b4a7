//! Cores of one machine, and tasks that interfere with each other on them.
//!
//! A [`Config`] lists a machine (logical cores, sockets, DRAM, cache) and tasks. LC tasks serve
//! open-loop requests; BE tasks work without end, in phases. The speed of a logical core
//! depends on its siblings and on the utilisation of DRAM and cache ([`memory`]). The policies
//! are `sched::cores`' own, called through [`sched::cores::Cores`]; a [`CoreMechanism`] carries their
//! decisions out, and [`Costs`] holds what they cost. Not modelled: cache warm-up, NUMA placement, frequency.
//! Source: Caladan (OSDI '20) §2 and §7.
//!
//! ```
//! use sim::cores::{self, Config};
//!
//! let config = Config::from_toml(r#"
//!     policy = "caladan"
//!     duration = "20ms"
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

mod affinity;
mod config;
mod control;
mod external_arrivals;
mod linux;
mod logical_core;
mod machine;
pub mod memory;
mod outcome;
mod task;

pub use config::{
    Config, CoreMechanism, Costs, DramSensor, LoadChange, MachineConfig, Needs, Phase, TaskClass, TaskConfig,
};
pub(crate) use external_arrivals::{ExternalMachine, Offer, RequestQueue, Served};
pub use outcome::{Outcome, TaskOutcome};

use queueing::{Span, Time};
use sched::cores::Allocator;

use machine::{Event, MachineState};

/// Interval between checks of phases.
const PHASES_EVERY: Span = Span::from_micros(50);

/// Runs the simulation for its configured duration.
///
/// # Panics
/// If the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    let assignment = config.assignment().expect("a checked configuration");
    let policy = config.policy(&assignment).expect("a checked configuration");
    let mut allocator = Allocator::new(policy, assignment);
    let mut machine = MachineState::new(config, allocator.assignment().topology().clone());
    let end = Time::ZERO + config.warmup + config.duration;
    while let Some((now, event)) = machine.engine.next_by(end) {
        handle_event(&mut machine, &mut allocator, now, event);
    }
    machine.finish(end)
}

fn handle_event(machine: &mut MachineState, allocator: &mut Allocator, now: Time, event: Event) {
    match event {
        Event::Arrive(task) => machine.arrive(now, task),
        Event::Done { core, generation } => machine.done(now, core, generation),
        Event::Switched { core, generation } => machine.switched(now, core, generation),
        Event::Park { core, generation } => machine.park(now, core, generation),
        Event::Slice { core, generation } => machine.end_slice(now, core, generation),
        Event::Phases => {
            machine.phases(now);
            machine.engine.schedule(now + PHASES_EVERY, Event::Phases);
        }
        Event::Round => {
            let actions = allocator.round(now, machine);
            machine.count_round(now, actions);
            machine.engine.schedule(now + allocator.period(), Event::Round);
        }
    }
}
