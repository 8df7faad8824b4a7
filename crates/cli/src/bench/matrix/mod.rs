//! `greenwave bench matrix`: compatibility of unmodified programs with greenwave's stack, by
//! program and feature.
//!
//! Each cell is a separate trial: the program of Debian's package, started by `greenwave run` in a
//! network namespace, and its peers on the kernel's TCP in another. A failed trial is repeated on
//! the kernel's TCP: if it fails there too, it counts as a limit of the program or of the trial.
//! Nothing here measures speed; `bench programs` does.

use std::path::PathBuf;
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::comparison;
use crate::report::whole;
use crate::{Error, progress};

mod connection_flood;
mod feature;
mod harness;
mod http_checks;
mod lifecycle_tests;
mod load;
mod program;
mod report;
mod results;
mod shared_stack;
mod suite;
mod trial;
mod verdict;

use feature::Feature;
use harness::Environment;
use program::TestedProgram;
use verdict::{Row, is_failure};

/// Test unmodified servers and clients on greenwave's stack (needs root).
///
/// Exit 1 if a test fails. Takes minutes.
#[derive(clap::Args)]
pub struct Args {
    /// Only these: lighttpd, nginx, Apache, redis-server, memcached,
    /// http.server, asyncio, node, java, curl, iperf3.
    #[arg(long, value_delimiter = ',', value_name = "PROGRAM", value_parser = program, verbatim_doc_comment)]
    programs: Vec<TestedProgram>,
    /// Only these: serves, keep-alive, crowd, download, upload, load,
    /// restart, reload, kill, descriptors, suite.
    #[arg(long, value_delimiter = ',', value_name = "FEATURE", value_parser = feature, verbatim_doc_comment)]
    features: Vec<Feature>,
    /// Device of greenwave's stack.
    #[arg(long, default_value = "packet", value_parser = ["xdp", "packet"])]
    device: String,
    /// Folder with the sources of redis and memcached, for `suite`.
    #[arg(long, value_name = "FOLDER")]
    sources: Option<PathBuf>,
    /// Library to preload [default: as for `greenwave run`].
    #[arg(long, value_name = "FILE")]
    lib: Option<PathBuf>,
    /// Also write the matrix to this file, in Markdown.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["programs", "features"])]
    page: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn program(name: &str) -> Result<TestedProgram, String> {
    let known = TestedProgram::ALL.into_iter().find(|program| program.name() == name);
    known.ok_or_else(|| {
        format!("{name:?} is not one of: {}", TestedProgram::ALL.map(TestedProgram::name).join(", "))
    })
}

fn feature(name: &str) -> Result<Feature, String> {
    let known = Feature::ALL.into_iter().find(|feature| feature.name() == name);
    known.ok_or_else(|| format!("{name:?} is not one of: {}", Feature::ALL.map(Feature::name).join(", ")))
}

/// Runs the requested trials and prints the results.
///
/// # Errors
/// No network lab is possible here, or the page cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let lab = comparison::lab("bench matrix")?;
    args.page.as_deref().map_or(Ok(()), Error::unless_writable)?;
    let greenwave = std::env::current_exe().map_err(|e| Error::new(format!("this program: {e}")))?;
    let sources = args.sources.as_deref();
    let environment =
        Environment { lab: &lab, greenwave, lib: args.lib.as_deref(), device: &args.device, sources };
    raise_limit();
    let of =
        |asked: &[TestedProgram]| if asked.is_empty() { TestedProgram::ALL.to_vec() } else { asked.to_vec() };
    let features = if args.features.is_empty() { Feature::ALL.to_vec() } else { args.features.clone() };
    let programs = of(&args.programs);
    let bar = progress::bar((programs.len() * features.len()) as u64);
    let mut rows = Vec::new();
    for program in programs {
        let mut row = Row { program, version: program.version().unwrap_or_default(), results: Vec::new() };
        for &feature in &features {
            bar.set_message(format!("{} {}", program.name(), feature.name()));
            let results = trial::run_trial(&environment, program, feature);
            if let Some(why) = results.why().filter(|_| results.is_failure()) {
                bar.suspend(|| errln!("{}, {}: fails: {why}", program.name(), feature.name()));
            }
            row.results.push(results);
            bar.inc(1);
        }
        rows.push(row);
    }
    bar.finish_and_clear();
    if let Some(path) = &args.page {
        whole(path, &report::markdown(&rows, &features, &args.device))?;
    }
    match args.json {
        true => outln!("{:#}", report::json(&rows, &features, &args.device)),
        false => out!("{}", report::text(&rows, &features)),
    }
    Ok(if is_failure(&rows) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Raises the limit of descriptors to the machine's maximum for clients, servers and `greenwave
/// run`, which inherit it. If that is refused, there are fewer connections, and the trial reports
/// it.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
