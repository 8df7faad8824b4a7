//! Whose SYN a server lets in, as its command line says it.

use clap::ValueEnum;
use guard::Params;
use queueing::Span;
use runtime::shard::{Guard, Refusal};

use crate::{Error, options};

/// The guard's settings.
// Its name is that of the command's own arguments, which clap takes for one group.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Hold new connections, not open ones, to what can be served:
    /// queue-delay, syn-paper, gradient, memory or none. Levels that
    /// --policy gives at the driver are classes, and 7 is shed first.
    #[arg(long, value_name = "POLICY", verbatim_doc_comment)]
    guard: Option<String>,
    /// How long a request may wait (queue-delay) [default: 20ms].
    #[arg(long, value_name = "SPAN", requires = "guard", value_parser = options::target_delay)]
    target_delay: Option<Span>,
    /// What a client hears whose SYN is shed.
    #[arg(long, value_enum, default_value = "silence", requires = "guard")]
    guard_refusal: Refused,
    /// Let everybody in, and count whom the guard would shed.
    #[arg(long, requires = "guard")]
    guard_dry_run: bool,
    /// How much of its time a stack may receive while requests wait.
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..=100))]
    receive_share: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Refused {
    /// Nothing; it tries again after a second.
    Silence,
    /// A reset, at once.
    Reset,
}

impl Args {
    /// A shard's guard, if one is asked for.
    ///
    /// # Errors
    /// When there is no such policy.
    pub(super) fn guard(&self) -> Result<Option<Guard>, Error> {
        let Some(name) = &self.guard else { return Ok(None) };
        let default = Params::default();
        let params = Params { delay_target: self.target_delay.unwrap_or(default.delay_target), ..default };
        let guard = Guard::by_name(name, &params)
            .map_err(|e| Error::new(format!("--guard: {e}")).advice("--guard queue-delay"))?;
        let refusal = match self.guard_refusal {
            Refused::Silence => Refusal::Silence,
            Refused::Reset => Refusal::Reset,
        };
        Ok(Some(Guard { refusal, watches: self.guard_dry_run, ..guard }))
    }

    /// Whether somebody is guarded.
    pub(super) fn is_on(&self) -> bool {
        self.guard.is_some()
    }

    /// The share of time that receiving may take, in percent.
    pub(super) fn receive_percent(&self) -> u8 {
        self.receive_share
    }
}
