//! `greenwave report`: results of a run as one self-contained HTML page.
//!
//! Results are JSON with a header ([`header`]); a page is rendered from them alone, at any time
//! after the measurement. `exp run --out` writes the same page. This module measures nothing and
//! does not depend on single commands: see [`mod@run`] and [`tables`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::error::Error;
use crate::verdict::VerdictCounts;

mod atomic_write;
mod compare;
mod files;
mod header;
pub mod html;
mod plot;
mod plots;
mod render;
mod run;
#[cfg(test)]
#[path = "../../tests/common/schema.rs"]
pub mod schema;
mod tables;

pub use atomic_write::{at_once, whole, whole_by};
pub use header::{KEY, MechanismState, ResultHeader};
pub use html::{Section, escape, page};
pub use plot::Plot;
pub use plots::line_plot;
pub use render::of as page_of;
pub use run::{ParsedResult, repeat_arguments};

/// Render the results of a run as a page, or compare two runs.
///
/// A result is the --json output of `exp run`, `demo`, `load`, `serve`, `sim
/// fabric`, `bench …` or `doctor`, or a file of `exp run --out`. With --compare,
/// exit status 1: a claim fails in B that did not in A; 3: none does, and one that
/// held in A is undecided in B; 0: otherwise. A page alone is exit status 0.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Result files, or folders of them.
    #[arg(value_name = "FILE|DIR", required_unless_present = "compare")]
    results: Vec<PathBuf>,
    /// Compare two result files, or two folders.
    #[arg(long, num_args = 2, value_names = ["A", "B"], conflicts_with = "results")]
    compare: Vec<PathBuf>,
    /// File for the HTML page [default: report.html; none with --compare].
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Reads results, and writes a page or compares them.
///
/// # Errors
/// A file cannot be read or written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    if let [a, b] = args.compare.as_slice() {
        return compared(a, b, args.out.as_deref());
    }
    let runs = files::read(&args.results)?;
    let out = args.out.clone().unwrap_or("report.html".into());
    whole(&out, &page_of(&runs))?;
    let count = if runs.len() == 1 { "1 run".to_owned() } else { format!("{} runs", runs.len()) };
    outln!("{count}, {}: {}", render::score(&runs), out.display());
    Ok(ExitCode::SUCCESS)
}

fn compared(a: &Path, b: &Path, out: Option<&Path>) -> Result<ExitCode, Error> {
    let [a, b] = [a, b].map(|path| files::read(&[path.to_owned()]));
    let (comparisons, unpaired) = compare::pairs(a?, b?)?;
    if let Some(out) = out {
        whole(out, &compare::page(&comparisons, &unpaired))?;
    }
    out!("{}", compare::text(&comparisons, &unpaired));
    let changes: VerdictCounts = comparisons.iter().flat_map(compare::Comparison::verdicts).collect();
    Ok(ExitCode::from(changes.exit_status()))
}
