//! Common parts of the server benchmarks: interleaved rounds, one core for the server and one for
//! its clients.

use std::path::PathBuf;

use netlab::{LabError, Namespace, NetLab};
use queueing::{CoreId, Span};

use crate::{Error, programs};

/// Rounds, amount of work and form of the output.
#[derive(clap::Args)]
pub struct Common {
    /// Number of rounds; the median is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Size: smoke only checks that everything works; its numbers are meaningless.
    #[arg(long, value_enum, default_value = "full")]
    pub scale: BenchScale,
    /// Exit 1 if a goal is missed or was not measured.
    #[arg(long)]
    pub check: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Library and addresses for unmodified programs.
#[derive(clap::Args)]
pub struct StackArgs {
    /// Device of greenwave's stack.
    #[arg(long, default_value = "xdp", value_parser = ["xdp", "packet"])]
    pub device: String,
    /// The library to preload [default: as for `greenwave run`].
    #[arg(long, value_name = "FILE")]
    pub lib: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchScale {
    /// All cases, with the other options.
    Full,
    /// One short round of a few cases.
    Smoke,
}

/// Cores of client and server.
#[derive(Clone, Copy, Debug)]
pub struct BenchCores {
    pub client: CoreId,
    /// Core of the client's receive processing, so that the client does not wait for it: the second
    /// core, or the client's on a machine with two.
    pub receive: CoreId,
    pub server: CoreId,
}

impl BenchCores {
    /// The first core and the last.
    ///
    /// # Errors
    /// The kernel does not report the allowed cores.
    pub fn allowed() -> Result<Self, Error> {
        let cores = host::affinity::cores().map_err(|e| Error::new(e.to_string()))?;
        if cores.len() == 1 {
            errln!("note: client and server share the only core");
        }
        let receive = if cores.len() > 2 { cores[1] } else { cores[0] };
        Ok(Self { client: cores[0], receive, server: cores[cores.len() - 1] })
    }
}

/// Network lab of benchmark `name`.
///
/// # Errors
/// No network lab is possible here.
pub fn lab(name: &str) -> Result<NetLab, Error> {
    if let Some(why) = NetLab::unavailable() {
        return Err(Error::new(format!("the benchmark needs network namespaces: {why}")).advice("as root"));
    }
    Ok(NetLab::new(name)?)
}

/// As [`programs::kernel_address`], for many connections at once.
///
/// # Errors
/// The errors of `ip`.
pub fn kernel_address(namespace: &Namespace, device: &str) -> Result<(), LabError> {
    // A thousand concurrent handshakes are not a SYN flood here.
    for (name, value) in [("tcp_max_syn_backlog", "16384"), ("tcp_syncookies", "0")] {
        namespace.sysctl(&format!("net.ipv4.{name}"), value)?;
    }
    programs::kernel_address(namespace, device)
}

/// Median of `figure` over `rounds`, which is not empty; for an even number the mean of the two
/// middle values.
pub fn median<R>(rounds: &[R], figure: impl Fn(&R) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    values[half].midpoint(values[values.len() - 1 - half])
}

/// Median of spans.
pub fn median_span<R>(rounds: &[R], figure: impl Fn(&R) -> Span) -> Span {
    Span::from_nanos(median(rounds, |round| figure(round).as_nanos() as f64) as u64)
}
