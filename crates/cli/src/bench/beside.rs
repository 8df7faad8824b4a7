//! What benchmarks of servers side by side have in common: rounds in turn, a
//! core for the server and one for its clients.

use std::net::Ipv4Addr;

use host::lab::{Lab, LabError, Namespace};
use queueing::CoreId;

use crate::Error;

/// How often, how much, and what is printed.
#[derive(clap::Args)]
pub struct Common {
    /// Rounds, of which the median is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// How much: smoke shows that everything works, and measures nothing.
    #[arg(long, value_enum, default_value = "full")]
    pub scale: Scale,
    /// Exit 1 when a goal is missed.
    #[arg(long)]
    pub check: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Scale {
    /// As the other options say.
    Full,
    /// One round of a few cases, a moment for each.
    Smoke,
}

/// Where client and server run.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    pub client: CoreId,
    /// Works on what has come for the client, which a core of its own does
    /// without waiting for it: the second, and where there are two the client's.
    pub receive: CoreId,
    pub server: CoreId,
}

impl Cores {
    /// The first core and the last.
    ///
    /// # Errors
    /// The kernel does not say which there are.
    pub fn here() -> Result<Self, Error> {
        let there = host::affinity::cores().map_err(|e| Error::new(e.to_string()))?;
        if there.len() == 1 {
            eprintln!("note: client and server share the only core there is");
        }
        let receive = if there.len() > 2 { there[1] } else { there[0] };
        Ok(Self { client: there[0], receive, server: there[there.len() - 1] })
    }
}

/// The laboratory of benchmark `name`.
///
/// # Errors
/// There can be none here.
pub fn lab(name: &str) -> Result<Lab, Error> {
    if let Some(why) = Lab::unavailable() {
        return Err(Error::new(format!("the benchmark needs network namespaces: {why}")).advice("as root"));
    }
    Ok(Lab::new(name)?)
}

/// Where servers are, in a network of 24 bits.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

/// Gives the kernel's `device` the server's address; with CUBIC, as ours,
/// whatever this machine prefers.
///
/// # Errors
/// What `ip` said.
pub fn kernel_address(namespace: &Namespace, device: &str) -> Result<(), LabError> {
    // A thousand handshakes at once are no attack here.
    for (name, value) in [("tcp_max_syn_backlog", "16384"), ("tcp_syncookies", "0")] {
        namespace.sysctl(&format!("net.ipv4.{name}"), value)?;
    }
    namespace.address(device, SERVER.into(), 24)?;
    let route = ["route", "replace", "10.77.0.0/24", "dev", device, "src", "10.77.0.2", "congctl", "cubic"];
    namespace.run("ip", &route).map(drop)
}
