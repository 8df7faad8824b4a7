//! `greenwave demo`: a bursty mixed workload, without and with priority.
//!
//! Server and load generator are two instances of greenwave's stack in one process, connected by an
//! in-memory link that carries real Ethernet frames: no root, no network. Modes run interleaved on
//! the same requests, since one stall of the machine determines the tail of a short run. The output
//! shows the median run of each mode and the breakdown of its tail.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use ::load::Report;
use queueing::Span;
use runtime::Mode;
use serde_json::json;

use crate::options::Burst;
use crate::report::{self, ResultHeader};
use crate::table::Table;
use crate::{Error, load_row, progress};

mod html_report;
mod run;

/// Run a bursty mixed workload without and with priorities.
///
/// A few latency-sensitive requests (LS) share the server with many others.
/// All arrive in bursts. Every mode serves the same requests.
#[derive(clap::Args)]
pub struct Args {
    /// Duration of a mode in each round.
    #[arg(long, value_name = "SPAN", default_value = "3s", value_parser = duration)]
    duration: Span,
    /// Runs of each mode; the run with the median LS p99 is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seed of the requests; the same seed replays the same requests.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Modes, in order of execution.
    #[arg(long, value_delimiter = ',', default_value = "none,lns,darc,adps")]
    modes: Vec<Mode>,
    /// Bursts of SIZE requests every PERIOD.
    #[arg(long, value_name = "SIZE/PERIOD", default_value = "200/10ms")]
    burst: Burst,
    /// Time between the requests of a burst.
    #[arg(long, default_value = "1us")]
    spacing: Span,
    /// Service time of a request.
    #[arg(long, default_value = "10us")]
    service: Span,
    /// File for the HTML report.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Duration of a mode, `3s`; a bare number is seconds, as the old `--seconds` takes it.
///
/// # Errors
/// The valid durations.
fn duration(text: &str) -> Result<Span, String> {
    let seconds = text.parse().map(|seconds: u32| Span::from_secs(seconds.into()));
    let span = seconds.or_else(|_| text.parse().map_err(|e| format!("{e}")))?;
    let valid = Span::from_secs(1)..=Span::from_secs(600);
    if valid.contains(&span) { Ok(span) } else { Err(format!("{text:?} is outside 1s..=600s")) }
}

/// Settings of a run, and the machine.
struct Settings {
    duration: Span,
    rounds: u32,
    seed: u64,
    burst: Burst,
    spacing: Span,
    service: Span,
    connections: u32,
    /// Share of latency-sensitive requests.
    urgent: f64,
    /// Worker threads; 0: the stack's own thread serves.
    workers: usize,
    machine: host::Machine,
}

/// Cores needed for client, stack and two workers.
const CORES_WANTED: usize = 4;

/// Share of late requests above which the p99 reflects the machine rather than the mode.
const LATE_MAX: f64 = 0.005;

/// Rejects settings that would measure nothing.
impl Settings {
    fn check(&self, modes: &[Mode]) -> Result<(), Error> {
        if let Some(mode) = modes.iter().enumerate().find_map(|(i, m)| modes[..i].contains(m).then_some(m)) {
            return Err(Error::new(format!("mode {mode} is listed twice")).advice("list each mode once"));
        }
        let Burst { size, period } = self.burst;
        let period = period.max(self.spacing * size);
        if period > self.duration / 2 {
            let what = format!(
                "with --burst {} no burst falls into the {} of measurement",
                self.burst, self.duration
            );
            return Err(Error::new(what).advice("a shorter period, such as --burst 200/10ms"));
        }
        let cores = self.workers.max(1);
        let busy = size as f64 * self.service.as_secs_f64() / period.as_secs_f64() / cores as f64;
        if busy >= BUSY_MAX {
            let what = format!(
                "burst {} of {} each is {:.0} % load; at most {:.0} % can be measured",
                self.burst,
                self.service,
                busy * 100.0,
                BUSY_MAX * 100.0
            );
            return Err(Error::new(what).advice("a smaller --burst or a shorter --service"));
        }
        Ok(())
    }
}

/// Largest utilisation of the server: above it queues do not drain and every mode is late.
const BUSY_MAX: f64 = 0.8;

impl Args {
    /// Checks the settings before a run.
    ///
    /// # Errors
    /// The errors of [`run`].
    pub fn check(&self) -> Result<(), Error> {
        self.settings().map(drop)
    }

    fn settings(&self) -> Result<Settings, Error> {
        let machine = host::Machine::this();
        let settings = Settings {
            duration: self.duration,
            rounds: self.rounds,
            seed: self.seed,
            burst: self.burst,
            spacing: self.spacing,
            service: self.service,
            connections: 1000,
            urgent: 0.05,
            workers: if machine.cores >= CORES_WANTED { 2 } else { 0 },
            machine,
        };
        settings.check(&self.modes)?;
        Error::unless_writable(&self.out)?;
        Ok(settings)
    }
}

/// Runs the modes, prints the table, writes the page.
///
/// # Errors
/// A run cannot start, or the page cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let settings = args.settings()?;
    let stop = host::signals::flag();
    let rounds = (1..=args.rounds).flat_map(|round| args.modes.iter().map(move |&mode| (round, mode)));
    let runs = args.modes.len() * args.rounds as usize;
    let duration_ms = args.duration.as_nanos() / 1_000_000;
    let bar = progress::bar(runs as u64 * duration_ms);
    let mut measured: Vec<(Mode, Report)> = Vec::new();
    for (index, (round, mode)) in rounds.enumerate() {
        let before = index as u64 * duration_ms;
        bar.set_message(format!("{mode} (round {round} of {})", args.rounds));
        let report = run::run(mode, &settings, stop, |ms| bar.set_position(before + ms));
        // An interrupted run is kept if it measured something.
        match report {
            Ok(report) if report.answered() > 0 || !stop.load(Ordering::Relaxed) => {
                measured.push((mode, report))
            }
            Ok(_) => {}
            Err(e) if !stop.load(Ordering::Relaxed) => return Err(e),
            Err(_) => {}
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    bar.finish_and_clear();
    let results = medians(&args.modes, measured, tail);
    if results.is_empty() {
        return Err(Error::interrupted(" before the first result; no report was written"));
    }
    let is_partial = stop.load(Ordering::Relaxed);
    show(args, &settings, &results, is_partial)?;
    if is_partial {
        return Err(Error::interrupted(": partial results"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Sort key of a mode's runs; a run without answers sorts last.
fn tail(report: &Report) -> (bool, Option<Span>) {
    let p99 = urgent_p99(report);
    (p99.is_none(), p99)
}

/// Median run by `order` of each of `modes` that was measured; of two runs the lower.
fn medians<T, K: Ord>(modes: &[Mode], mut measured: Vec<(Mode, T)>, order: fn(&T) -> K) -> Vec<(Mode, T)> {
    measured.sort_by_key(|(_, run)| order(run));
    let median = |&mode: &Mode| {
        let mut own: Vec<_> = measured.extract_if(.., |(of, _)| *of == mode).collect();
        let middle = own.len().checked_sub(1)? / 2;
        Some(own.swap_remove(middle))
    };
    modes.iter().filter_map(median).collect()
}

fn show(args: &Args, settings: &Settings, results: &[(Mode, Report)], is_partial: bool) -> Result<(), Error> {
    print(args, settings, results, is_partial);
    let html = html_report::page(settings, results, &table(results), &last_line(settings, results));
    report::whole(&args.out, &html)
}

fn print(args: &Args, settings: &Settings, results: &[(Mode, Report)], is_partial: bool) {
    if args.json {
        let modes: Vec<_> =
            results.iter().map(|(mode, report)| json!({ "mode": mode.name(), "report": report })).collect();
        let settings = json!({
            "duration_ns": settings.duration.as_nanos(),
            "rounds": settings.rounds,
            "seed": settings.seed,
            "burst_size": settings.burst.size,
            "burst_period_ns": settings.burst.period.as_nanos(),
            "spacing_ns": settings.spacing.as_nanos(),
            "service_ns": settings.service.as_nanos(),
            "connections": settings.connections,
            "urgent_share": settings.urgent,
            "workers": settings.workers.max(1),
            "machine": settings.machine.to_string(),
        });
        let compared = compared(results)
            .map(|(from, to)| json!({ "ls_p99_none_ns": from.as_nanos(), "ls_p99_adps_ns": to.as_nanos() }));
        let mut all = json!({
            "world": "host",
            "settings": settings,
            "modes": modes,
            "compared": compared,
            "plots": html_report::plots(results),
            "page": args.out,
        });
        if is_partial {
            all["partial"] = true.into();
        }
        outln!("{:#}", ResultHeader::of_host("demo", Some(args.seed)).stamp(all));
        return;
    }
    outln!("times in µs; LS = latency-sensitive; report in {}", args.out.display());
    if settings.rounds > 1 {
        outln!("each mode ran {} times; the run with the median LS p99 is shown", settings.rounds);
    }
    if settings.machine.cores < CORES_WANTED {
        outln!(
            "note: {} cores, fewer than {CORES_WANTED}: the stack's thread also serves requests,",
            settings.machine.cores
        );
        outln!("and other work on this machine raises the tail latency");
    }
    if let Some(share) = late(results).filter(|&share| share > LATE_MAX) {
        outln!("note: the load generator sent {:.1} % of the requests late; do not trust", share * 100.0);
        outln!("p99 and p99.9 of this run; repeat on an idle machine or with a smaller --burst");
    }
    outln!("\n{}\n{}", table(results), last_line(settings, results));
}

/// One row per mode and class: counts, latency, and breakdown of the p99.
fn table(results: &[(Mode, Report)]) -> Table {
    let header = [
        "mode", "class", "reqs", "never", "late", "p50", "p99", "p99.9", "max", "nic", "tcp", "event",
        "serve", "rest",
    ];
    let groups = [("", 5), ("latency", 4), ("p99 spent in", 5)];
    let mut table = Table::new(2, &header).groups(&groups);
    for (mode, report) in results {
        for (i, class) in report.classes.iter().enumerate() {
            let mode = if i == 0 { mode.name() } else { "" };
            let [requests, unsent, late, _] = load_row::counts(class);
            let words = vec![mode.to_owned(), class.name.clone(), requests, unsent, late];
            table.row(
                [words, load_row::latency(class).to_vec(), load_row::stages(&class.at_p99).to_vec()].concat(),
            );
        }
    }
    table
}

/// Largest share of late requests in any mode.
fn late(results: &[(Mode, Report)]) -> Option<f64> {
    let share = |report: &Report| {
        let late: u64 = report.classes.iter().map(|class| class.late).sum();
        late as f64 / report.requests().max(1) as f64
    };
    results.iter().map(|(_, report)| share(report)).max_by(f64::total_cmp)
}

/// p99 of the latency-sensitive class, if any was answered.
fn urgent_p99(report: &Report) -> Option<Span> {
    report.class(run::LS).filter(|class| class.answered() > 0).map(::load::ClassReport::p99)
}

/// p99 of the latency-sensitive class under `none` and under `adps`.
fn compared(results: &[(Mode, Report)]) -> Option<(Span, Span)> {
    let p99 = |wanted| {
        let (_, report) = results.iter().find(|(mode, _)| *mode == wanted)?;
        urgent_p99(report)
    };
    Some((p99(Mode::None)?, p99(Mode::Adps)?))
}

fn last_line(settings: &Settings, results: &[(Mode, Report)]) -> String {
    let settings_text = format!("(seed {}, world host, {})", settings.seed, settings.machine);
    match compared(results) {
        Some((none, adps)) => {
            let [none_ns, adps_ns] = [none, adps].map(|span| span.as_nanos().max(1) as f64);
            let (times, word) =
                if adps <= none { (none_ns / adps_ns, "lower") } else { (adps_ns / none_ns, "higher") };
            let found = if times < 1.05 {
                format!("no difference between adps and none ({none})")
            } else {
                format!("{times:.1}× {word} with adps than with none ({none})")
            };
            format!("LS p99 {adps}   {found}\n{settings_text}")
        }
        None => format!("no comparison: it needs the modes none and adps\n{settings_text}"),
    }
}

//~ demo: the shown round of each mode is the one with the median p99
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_shows_the_median_of_its_runs() {
        let shown = |runs: &[(Mode, u32)]| medians(&[Mode::None, Mode::Adps], runs.to_vec(), |&run| run);
        let (none, adps) = (Mode::None, Mode::Adps);
        let rounds = [(none, 3), (adps, 9), (none, 1), (adps, 7), (none, 2), (adps, 8)];
        assert_eq!(shown(&rounds), [(none, 2), (adps, 8)]);
        assert_eq!(shown(&rounds[..4]), [(none, 1), (adps, 7)], "the lower of two runs");
        assert_eq!(shown(&rounds[..1]), [(none, 3)], "interrupted before the second mode");
    }
}
