//! `greenwave bench`: this machine's figures, ours beside what users would
//! pick instead, in one run.

use std::process::ExitCode;

use crate::Error;

mod beside;
mod cores;
mod fabric;
mod goal;
mod guard;
mod idle;
mod matrix;
mod net;
mod peer;
mod programs;
mod sched;

/// Measure greenwave beside others, on this machine.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// TCP/IP: ours, the kernel's, smoltcp's and gVisor's as servers.
    Net(net::Args),
    /// Unmodified servers: on the kernel's TCP, and on ours.
    Programs(programs::Args),
    /// Servers on 1, 2, 4 … cores: on the kernel's TCP, and on ours.
    Cores(cores::Args),
    /// Unmodified servers and clients: what they bear on our stack.
    Matrix(matrix::Args),
    /// One of the compared servers, as `bench net` and `cores` start it.
    #[command(hide = true)]
    Peer(peer::Args),
    /// What connections cost while they idle, and those that do not.
    Idle(idle::Args),
    /// How fast networks of switches are simulated, and what a flow costs.
    Fabric(fabric::Args),
    /// What a guard takes of the processor.
    Guard(guard::Args),
    /// What handing a core over takes, and deciding to.
    Sched(sched::Args),
    /// One of the processes that a core goes between, as `bench sched` starts it.
    #[command(hide = true)]
    SchedPart(sched::PartArgs),
}

/// Measures and prints what was found.
///
/// # Errors
/// What keeps the benchmark from running at all.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    match &args.what {
        What::Net(args) => net::run(args),
        What::Peer(args) => peer::run(args),
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
