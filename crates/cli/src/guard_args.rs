//! Admission control: arguments common to `serve` and `run`.

use std::path::PathBuf;

use clap::ValueEnum;
use guard::Params;
use hostbpf::guard::{AppQueuePolicy, ReportCounter};
use queueing::{Priority, Span};
use runtime::shard::{Refusal, ShardGuard, Shed};

use crate::table::Table;
use crate::{Error, options};

/// The guard's settings.
// clap groups arguments by type name, and the command's own arguments have the same one.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Admission policy for new connections: queue-delay, syn-paper,
    /// gradient, memory or none. The levels that --policy gives at the
    /// driver are the classes; level 7 is shed first.
    #[arg(long, value_name = "POLICY", verbatim_doc_comment)]
    guard: Option<String>,
    /// Target queueing delay of a request (queue-delay) [default: 20ms].
    #[arg(long, value_name = "SPAN", requires = "guard", value_parser = options::target_delay)]
    target_delay: Option<Span>,
    /// Response to a shed SYN.
    #[arg(long, value_enum, default_value = "drop", requires = "guard")]
    guard_reject: Refused,
    /// Shed nothing; count the connections that would be shed.
    #[arg(long, requires = "guard")]
    guard_dry_run: bool,
    /// Share of a stack's time for receive work while requests wait, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..=100))]
    rx_cpu_limit: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Refused {
    /// Drop the SYN; the client retransmits it after a second.
    #[value(alias = "silence")]
    Drop,
    /// Answer with a reset.
    Reset,
}

/// End of a connection's wait, as named on the command line; see [`guard::Until`].
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Until {
    Accept,
    #[value(name = "first-byte", alias = "answer")]
    FirstByte,
}

impl From<Until> for guard::WaitEnd {
    fn from(name: Until) -> Self {
        match name {
            Until::Accept => Self::Accept,
            Until::FirstByte => Self::Answer,
        }
    }
}

impl Args {
    /// A stack's guard, if requested.
    ///
    /// # Errors
    /// An unknown policy.
    pub fn guard(&self) -> Result<Option<ShardGuard>, Error> {
        self.guard_with_reports(&[], &ReportCounter::default())
    }

    /// Admission control as the flags ask, with the queue reports of services in `files`.
    ///
    /// # Errors
    /// An unknown policy, or too many files.
    pub fn guard_with_reports(
        &self,
        files: &[PathBuf],
        counter: &ReportCounter,
    ) -> Result<Option<ShardGuard>, Error> {
        let Some(name) = self.guard.clone() else { return Ok(None) };
        let default = Params::default();
        let params = Params { delay_target: self.target_delay.unwrap_or(default.delay_target), ..default };
        let mut guard = ShardGuard::by_name(&name, &params)
            .map_err(|e| Error::new(format!("--guard: {e}")).advice("--guard queue-delay"))?;
        if !files.is_empty() {
            let make = move || guard::by_name(&name, &params).expect("the policy exists");
            let policy = AppQueuePolicy::new(make, files, counter);
            guard.policy = Box::new(policy.map_err(|e| Error::new(format!("--queue-report: {e}")))?);
        }
        let refusal = match self.guard_reject {
            Refused::Drop => Refusal::Drop,
            Refused::Reset => Refusal::Reset,
        };
        Ok(Some(ShardGuard { refusal, watches: self.guard_dry_run, ..guard }))
    }

    /// True if a guard is requested.
    pub fn is_on(&self) -> bool {
        self.guard.is_some()
    }

    /// The share of time that receiving may take, in percent.
    pub fn rx_cpu_limit(&self) -> u8 {
        self.rx_cpu_limit
    }
}

/// SYN counts by class and reason.
pub fn shed(guard: &[Shed; Priority::LEVELS]) -> Table {
    let header = ["class", "seen", "rate", "present", "closed", "admitted"];
    let mut table = Table::new(1, &header).groups(&[("", 1), ("SYNs", 1), ("shed, by reason", 3), ("", 1)]);
    for (class, of) in classes(guard) {
        let figures = [of.seen, of.by_rate, of.by_presence, of.by_closing, of.seen - of.shed()];
        let figures = figures.iter().map(u64::to_string);
        table.row(std::iter::once(class.to_string()).chain(figures).collect());
    }
    table
}

/// Classes with at least one SYN.
pub fn classes(guard: &[Shed; Priority::LEVELS]) -> impl Iterator<Item = (Priority, &Shed)> {
    Priority::all().zip(guard).filter(|(_, of)| of.seen > 0)
}
