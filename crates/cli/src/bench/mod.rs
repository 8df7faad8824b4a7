//! `greenwave bench`: benchmarks on this machine, with greenwave and its alternatives in one run.

use std::process::ExitCode;

use crate::Error;

mod baselines;
mod comparison;
mod cores;
mod fabric;
mod guard;
mod idle;
mod matrix;
mod net;
mod programs;
mod sched;
mod target;

/// Compare greenwave with other systems on this machine.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Compare TCP servers on greenwave, the kernel, smoltcp and gVisor.
    Net(net::Args),
    /// Compare unmodified servers on the kernel's TCP and on greenwave's.
    Programs(programs::Args),
    /// Compare servers on 1, 2, 4 … cores, on the kernel's TCP and on greenwave's.
    Cores(cores::Args),
    /// Test unmodified servers and clients on greenwave's stack.
    Matrix(matrix::Args),
    /// One of the compared servers, as `bench net` and `cores` start it.
    #[command(hide = true)]
    Peer(baselines::Args),
    /// Measure the cost of idle and active connections.
    Idle(idle::Args),
    /// Measure the speed and memory of the network simulator.
    Fabric(fabric::Args),
    /// Measure the CPU cost of a guard.
    Guard(guard::Args),
    /// Measure the time to hand a core over and to decide it.
    Sched(sched::Args),
    /// One of the processes that a core goes between, as `bench sched` starts it.
    #[command(hide = true)]
    SchedPart(sched::PartArgs),
}

impl Args {
    /// True for a process that another measurement has started.
    pub fn is_part(&self) -> bool {
        matches!(self.what, What::Peer(_) | What::SchedPart(_))
    }
}

/// Measures and prints the results.
///
/// # Errors
/// The benchmark cannot run at all.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    match &args.what {
        What::Net(args) => net::run(args),
        What::Peer(args) => baselines::run(args),
        What::Programs(args) => programs::run(args),
        What::Cores(args) => cores::run(args),
        What::Matrix(args) => matrix::run(args),
        What::Idle(args) => idle::run(args),
        What::Fabric(args) => fabric::run(args),
        What::Guard(args) => guard::run(args),
        What::Sched(args) => sched::run(args),
        What::SchedPart(args) => sched::part(args),
    }
}
