//! `greenwave egress`: egress queueing of this machine that serves short flows first.
//!
//! `attach` and `detach` change it, `status` shows its traffic, `policy` prints a policy as a
//! template. `hostbpf::egress` does the work; only the text is here.

use std::process::ExitCode;

use clap::Subcommand;
use host::interface::Interface;
use hostbpf::egress::{self, Choice, Counter, Policy, Shape, Status};
use queueing::Rate;
use queueing::egress::QueueQuantum;
use serde_json::json;

use crate::dry_run;
use crate::error::Error;
use crate::table::Table;

mod policy;

pub use policy::{NAMES, named, parse};

/// Schedule short flows first at a network interface's egress.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Attach priority levels and per-flow queues to an interface's egress.
    Attach {
        /// Network interface, such as eth0.
        device: String,
        /// Shape egress to this rate; set it slightly below the bottleneck.
        #[arg(long)]
        rate: Rate,
        /// Policy: a TOML file, or fish, pias or fifo.
        #[arg(long, default_value = "fish")]
        policy: String,
        #[command(flatten)]
        dry_run: dry_run::Flag,
    },
    /// Show packets, bytes, backlog and flows of each level.
    Status {
        /// The interface.
        device: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Restore the previous egress configuration.
    Detach {
        /// The interface.
        device: String,
    },
    /// Print a built-in policy, or validate and print a file.
    Policy {
        /// Policy: fish, pias, fifo, or a file.
        name: String,
    },
}

impl Args {
    /// Prints the plan of an `attach` if `--dry-run` asks for it.
    ///
    /// # Errors
    /// The errors of [`run`] before it changes anything.
    pub fn dry_run(&self) -> Option<Result<(), Error>> {
        let Command::Attach { device, rate, policy, dry_run } = &self.command else { return None };
        dry_run.print("egress", || {
            self.check()?;
            let interface = Interface::find(device)?;
            let policy = named(policy)?;
            Ok(vec![
                ("interface", format!("{device}, mtu {}", interface.mtu)),
                ("rate", rate.to_string()),
                ("policy", policy.name.clone()),
                ("levels", policy.levels().to_string()),
                ("queues", format!("{} of each level", policy.buckets)),
                ("thresholds", dry_run::list(policy.thresholds.iter().map(|bytes| format!("{bytes} B")))),
                ("undo", format!("greenwave egress detach {device}")),
            ])
        })
    }

    /// Checks the arguments before the first action.
    ///
    /// # Errors
    /// The errors of [`run`].
    pub fn check(&self) -> Result<(), Error> {
        let Command::Attach { rate, policy, .. } = &self.command else { return Ok(()) };
        named(policy)?;
        Policy::check_rate(*rate).map_err(|e| Error::from(egress::FabricError::from(e)))
    }
}

/// Runs the subcommand.
///
/// # Errors
/// The failed action, with advice.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    match &args.command {
        Command::Attach { device, rate, policy, .. } => attach(device, *rate, policy)?,
        Command::Status { device, json } => {
            let status = egress::status(device)?;
            if *json { outln!("{}", as_json(device, &status)) } else { out!("{}", as_text(device, &status)) }
        }
        Command::Detach { device } => outln!("{device}: restored: {}", egress::detach(device)?),
        Command::Policy { name } => out!("{}", policy::text(name)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the settings of the policy in `path`.
///
/// # Errors
/// A file that cannot be read, or an invalid value in it with the valid ones.
pub fn describe(path: &std::path::Path, as_json: bool) -> Result<(), Error> {
    let policy = named(&path.display().to_string())?;
    let (levels, queues) = (policy.levels(), policy.buckets);
    match as_json {
        true => {
            outln!("{}", json!({ "levels": levels, "queues": queues, "thresholds": policy.thresholds }))
        }
        false => outln!(
            "valid: {levels} levels of {queues} queues; attach it: greenwave egress attach DEVICE --policy {}",
            path.display()
        ),
    }
    Ok(())
}

fn attach(device: &str, rate: Rate, name: &str) -> Result<(), Error> {
    let policy = named(name)?;
    let seed = u64::from_ne_bytes(*crate::options::secret()?.first_chunk().expect("it has 16 bytes"));
    let Choice { shape, quantum, missing } = egress::attach(device, rate, &policy, seed)?;
    outln!("{device}: {} at {rate}: {}", policy.name, layout(&policy, shape));
    if !missing.is_empty() {
        outln!("  this kernel has no qdisc {}; used instead: {}", missing.join(", "), shape.name());
    }
    if policy.guaranteed > 0.0 && shape != Shape::Classes {
        outln!("  levels are strict: guaranteed {} has no effect", policy.guaranteed);
    }
    outln!("  {}", quantum_text(quantum));
    outln!("  undo: greenwave egress detach {device}");
    Ok(())
}

/// Quantum of a queue as text, with its cost.
fn quantum_text(quantum: QueueQuantum) -> String {
    match quantum.gso {
        None => format!("each queue sends up to {} bytes in its turn", quantum.bytes),
        Some([before, limit]) => {
            let size = if limit <= 2 * quantum.frame { "two frames" } else { "0.1 ms of the line" };
            format!(
                "each queue sends up to {} bytes in its turn; gso_max_size {before} -> {limit} until detach, so \
                 packets are at most {size} long, which costs CPU time per byte",
                quantum.bytes
            )
        }
    }
}

/// Layout as text: `8 levels of 16 queues, by htb`.
fn layout(policy: &Policy, shape: Shape) -> String {
    let plural = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
    let queues = match shape {
        Shape::Bands { .. } if policy.buckets > 1 => "a queue per flow".to_owned(),
        _ => plural(policy.buckets.into(), "queue"),
    };
    format!("{} of {queues}, by {}", plural(policy.levels(), "level"), shape.name())
}

fn as_text(device: &str, status: &Status) -> String {
    let header = ["level", "packets", "bytes", "sent", "dropped", "waiting", "bytes", "flows"];
    let mut table =
        Table::new(1, &header).groups(&[("", 1), ("arrived", 2), ("sent", 2), ("backlog", 2), ("", 1)]);
    for (at, level) in status.levels.iter().enumerate() {
        let figures = [
            level.arrived.packets,
            level.arrived.bytes,
            level.sent.packets,
            level.dropped,
            level.waiting.packets,
            level.waiting.bytes,
            level.flows,
        ];
        let row = [vec![at.to_string()], figures.map(|n| n.to_string()).to_vec()].concat();
        table.row(row);
    }
    let notes = &status.notes;
    let warnings: String = status.warnings().iter().map(|warning| format!("warning: {warning}\n")).collect();
    format!(
        "{device}: {}, by {}; before: {}\n{table}pinned to a level: {} packets; neither IPv4 nor IPv6: {} packets\n\
         {warnings}",
        notes.name(),
        notes.shape.name(),
        notes.before(),
        status.pinned.packets,
        status.other.packets,
    )
}

fn as_json(device: &str, status: &Status) -> serde_json::Value {
    let counter = |c: Counter| json!({ "packets": c.packets, "bytes": c.bytes });
    let levels = status.levels.iter().map(|level| {
        json!({
            "came": counter(level.arrived), "sent": counter(level.sent), "dropped": level.dropped,
            "waiting": counter(level.waiting), "flows": level.flows,
        })
    });
    let warnings = status.warnings().into_iter();
    let warnings = warnings.map(|warning| json!({ "kind": warning.name(), "text": warning.to_string() }));
    json!({
        "device": device, "policy": status.notes.policy, "rate_bits_per_s": status.notes.rate.bits_per_sec(),
        "shape": status.notes.shape.name(), "before": status.notes.before(),
        "levels": levels.collect::<Vec<_>>(),
        "pinned": counter(status.pinned), "other": counter(status.other),
        "unseen": counter(status.unseen), "large": counter(status.large), "waits": status.waits,
        "quantum_bytes": status.notes.quantum.bytes,
        "gso_max_size": status.notes.quantum.gso.map(|[before, limit]| json!({ "before": before, "limit": limit })),
        "warnings": warnings.collect::<Vec<_>>(),
    })
}
