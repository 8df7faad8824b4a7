//! `greenwave bench sched`: latency of handing a core over, and of deciding it.
//!
//! Two processes share a core: one waits as LC does, one computes as BE does. The bare handoff
//! comes first, with BE in the idle class and LC woken by a futex. The same follows under each
//! mechanism that works here; under affinity with a policy round before each handoff. Last come
//! control loops on simulated cores, which measure the policy alone. Each measurement ends after a
//! number of tries or a time limit; an operation without samples is reported and does not pass.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use host::{Monotonic, signals};
use queueing::{Clock, Histogram, Span, Time};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use sched::cores::fake::FakeCores;
use sched::cores::{POLICIES, PolicyEntry};
use serde_json::json;

use super::target::{self, Goal};
use crate::Error;
use crate::report::ResultHeader;
use crate::table::Table;

mod core_handoff;
mod tasks;

/// Measure the time to hand a core over and to decide it.
#[derive(clap::Args)]
pub struct Args {
    /// Maximum number of measurements per operation.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    count: u32,
    /// Time limit per operation; a started measurement can take half a minute more.
    #[arg(long, value_name = "SPAN", default_value = "20s")]
    duration_max: Span,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A process that takes part, as `bench sched` starts it.
#[derive(clap::Args)]
pub struct PartArgs {
    /// lc, be, tasks.
    part: String,
    /// Memory that LC and BE share with the measuring process.
    page: Option<PathBuf>,
}

/// Core counts of the control loops.
const CORES: [usize; 3] = [24, 96, 512];

/// Limits of an operation's measurements: number and time.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    count: u32,
    limit: Span,
}

impl Bounds {
    /// Tries of one operation: at least one; none begins after the limit or ctrl-C.
    fn tries(self) -> impl Iterator<Item = u32> {
        let clock = Monotonic::new();
        let start = clock.now();
        let in_time = move |turn| turn == 0 || clock.now().since(start) < self.limit;
        (0..self.count).take_while(move |&turn| in_time(turn) && !signals::is_set())
    }
}

/// Durations of an operation, from the tries that could be observed.
#[derive(Default)]
struct Samples {
    spans: Histogram,
    tries: u32,
}

impl Samples {
    /// Adds one try; `None` if it could not be observed.
    fn add(&mut self, took: Option<Span>) {
        self.tries += 1;
        took.into_iter().for_each(|took| self.spans.record(took));
    }
}

/// An operation and its samples.
struct Operation {
    name: &'static str,
    what: &'static str,
    samples: Samples,
}

/// Runs a part until the benchmark or its process ends.
///
/// # Errors
/// The part or the page does not exist.
pub fn part(args: &PartArgs) -> Result<ExitCode, Error> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| Error::new(e.to_string()))?;
    match (&*args.part, &args.page) {
        ("tasks", None) => tasks::run()?,
        (part, Some(page)) => core_handoff::part(part, page)?,
        (part, None) => {
            return Err(Error::new(format!("part {part:?} has no page")).advice("tasks, which needs none"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures and prints; exit 1 if a goal is missed or an operation has no sample.
///
/// # Errors
/// Fewer than two cores, or no permission to schedule processes.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let bounds = Bounds { count: args.count, limit: args.duration_max };
    let (operations, mut without) = core_handoff::measure(bounds)?;
    let empty = operations.iter().filter(|op| op.is_empty());
    without.extend(empty.map(|op| format!("{}: no sample in {} tries", op.name, op.samples.tries)));
    let loops: Vec<(usize, Span)> = CORES.iter().map(|&cores| (cores, control_loop(cores))).collect();
    let goals = goals(&operations, &loops);
    if args.json {
        outln!("{}", as_json(bounds, &operations, &loops, &goals, &without));
    } else {
        let mut table = Table::new(2, &["operation", "from → to", "p50, ns", "p99, ns", "samples"]);
        for op in &operations {
            let at = |q| op.at(q).map_or("–".to_owned(), |ns| ns.to_string());
            let samples = format!("{} of {}", op.samples.spans.count(), op.samples.tries);
            table.row(vec![op.name.to_owned(), op.what.to_owned(), at(0.5), at(0.99), samples]);
        }
        out!("{table}");
        without.iter().for_each(|why| outln!("not measured: {why}"));
        let mut table = Table::new(1, &["control loop of caladan, 8 tasks", "ns"]);
        for (cores, each) in &loops {
            table.row(vec![format!("{cores} simulated cores"), each.as_nanos().to_string()]);
        }
        out!("{table}");
        goals.iter().for_each(|goal| outln!("{goal}"));
        outln!(
            "at most {} times and {} per operation; {}",
            args.count,
            args.duration_max,
            host::Machine::this()
        );
    }
    Ok(ExitCode::from(u8::from(!holds(&operations, &goals))))
}

impl Operation {
    fn is_empty(&self) -> bool {
        self.samples.spans.count() == 0
    }

    /// Quantile in ns, if there are samples.
    fn at(&self, q: f64) -> Option<u64> {
        (!self.is_empty()).then(|| self.samples.spans.quantile(q).as_nanos())
    }
}

/// True if every goal is met and every attempted operation has samples.
fn holds(operations: &[Operation], goals: &[Goal]) -> bool {
    target::all_met(goals) && !operations.iter().any(Operation::is_empty)
}

/// Goals.
fn goals(operations: &[Operation], loops: &[(usize, Span)]) -> [Goal; 2] {
    let median = |name: &str| {
        let measured = operations.iter().find(|op| op.name == name && !op.is_empty())?;
        Some(measured.samples.spans.quantile(0.5))
    };
    let added = median("preempt").zip(median("bare preempt")).map(|(with, bare)| with.saturating_sub(bare));
    let ns = |span: Span| span.as_nanos() as f64;
    let at_24 = loops.iter().filter(|(cores, _)| *cores == CORES[0]);
    [
        Goal::at_most("the mechanism adds to the bare handoff's median, ns", 1000.0)
            .over(added.map(|added| (ns(added), "preempt".to_owned()))),
        Goal::at_most("a control loop of caladan with 8 tasks, ns", 2000.0)
            .over(at_24.map(|(cores, each)| (ns(*each), format!("{cores} simulated cores")))),
    ]
}

/// Median duration of a round, over many batches.
fn control_loop(cores: usize) -> Span {
    const BATCH: u64 = 64;
    const BATCHES: usize = 201;
    let caladan: &PolicyEntry = POLICIES.iter().find(|entry| entry.name == "caladan").expect("known policy");
    let (mut machine, mut allocator) = FakeCores::new(cores, caladan);
    let (clock, mut now) = (Monotonic::new(), Time::ZERO);
    let mut batch = || {
        let start = clock.now();
        for _ in 0..BATCH {
            now += Span::from_micros(10);
            std::hint::black_box(allocator.round(now, &mut machine));
        }
        clock.now().since(start) / BATCH
    };
    let mut spans: Vec<Span> = (0..BATCHES).map(|_| batch()).collect();
    spans.sort_unstable();
    spans[BATCHES / 2]
}

fn as_json(
    bounds: Bounds,
    operations: &[Operation],
    loops: &[(usize, Span)],
    goals: &[Goal],
    without: &[String],
) -> serde_json::Value {
    let operation = |op: &Operation| {
        let Samples { spans, tries } = &op.samples;
        let (p50_ns, p99_ns, count) = (op.at(0.5), op.at(0.99), spans.count());
        json!({ "operation": op.name, "what": op.what, "p50_ns": p50_ns, "p99_ns": p99_ns, "count": count, "tries": tries })
    };
    let of = |(cores, each): &(usize, Span)| json!({ "cores": cores, "ns": each.as_nanos() });
    ResultHeader::of_host("bench-sched", None).with_doctor(&["sched"]).stamp(json!({
        "operations": operations.iter().map(operation).collect::<Vec<_>>(),
        "loops": loops.iter().map(of).collect::<Vec<_>>(),
        "goals": goals.iter().map(Goal::json).collect::<Vec<_>>(),
        "tries_max": bounds.count, "limit_s": bounds.limit.as_secs_f64(),
        "not_measured": without, "holds": holds(operations, goals), "machine": host::Machine::this().to_string(),
    }))
}

/// Process of a part; ended on drop.
struct Part(Child);

impl Part {
    fn start(part: &str, page: Option<&Path>) -> Result<Self, Error> {
        let this = Path::new("/proc/self/exe");
        let mut command = Command::new(this);
        // The benchmark handles ctrl-C and undoes all changes first.
        command.args(["bench", "sched-part", part]).args(page).stdin(Stdio::null()).process_group(0);
        command.spawn().map(Self).map_err(|e| Error::file(this, &e))
    }

    fn id(&self) -> u32 {
        self.0.id()
    }

    /// Stops the process until the returned value is dropped.
    ///
    /// # Errors
    /// The process has ended.
    fn stopped(&self) -> Result<Stopped, Error> {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::STOP)
            .map_err(|e| Error::new(format!("stopping a process of the benchmark: {e}")))?;
        Ok(Stopped(pid))
    }
}

/// Stopped process, continued on drop.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        // Fails if it has exited, which is fine.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_is_a_goal_and_json_conforms_to_the_schema() {
        let operation = |name, ns: &[u64]| {
            let mut samples = Samples::default();
            ns.iter().for_each(|ns| samples.add(Some(Span::from_nanos(*ns))));
            samples.add(None);
            Operation { name, what: "from → to", samples }
        };
        let loops = [(24, Span::from_nanos(900)), (96, Span::from_micros(9))];
        let check = |preempt: &[u64], holds: Option<bool>| {
            let operations = [operation("bare preempt", &[6000]), operation("preempt", preempt)];
            let goals = goals(&operations, &loops);
            assert_eq!(goals.each_ref().map(|goal| goal.holds), [holds, Some(true)]);
            let bounds = Bounds { count: 1, limit: Span::from_secs(1) };
            let result = as_json(bounds, &operations, &loops, &goals, &[]);
            crate::report::schema::conforms(&result);
            // No sample, no pass.
            assert_eq!(result["holds"], holds == Some(true));
        };
        check(&[6500], Some(true));
        check(&[9000], Some(false));
        check(&[], None);
    }

    #[test]
    fn tries_end_with_their_number_and_with_their_time() {
        let tries = |count, limit| Bounds { count, limit }.tries().count();
        assert_eq!((tries(3, Span::from_secs(3600)), tries(3, Span::ZERO)), (3, 1));
    }
}
