//! `greenwave bench sched`: what it takes to hand a core over, and to decide to.
//!
//! Two processes share a core: one waits as LC does, one computes as BE does.
//! First by hand, BE in the idle class and LC woken by a futex: the bare
//! handoff. Then the same under each mechanism that works here; under affinity with a round of the policy
//! before each. Then control loops on simulated cores, where nothing else counts.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use host::Monotonic;
use queueing::{Clock, Histogram, Span, Time};
use sched::cores::rehearsal::Rehearsal;
use sched::cores::{POLICIES, PolicyEntry};
use serde_json::json;

use super::goal::{self, Goal};
use crate::Error;
use crate::report::Header;
use crate::table::Table;

mod handoff;
mod tasks;

/// What handing a core over takes, and deciding to.
#[derive(clap::Args)]
pub struct Args {
    /// How often each operation is measured.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    count: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A process that takes part, as `bench sched` starts it.
#[derive(clap::Args)]
pub struct PartArgs {
    /// lc, be, tasks.
    part: String,
    /// The memory that lc and be share with who measures.
    page: Option<PathBuf>,
}

/// Cores of control loops.
const CORES: [usize; 3] = [24, 96, 512];

/// An operation, measured often.
struct Operation {
    name: &'static str,
    what: &'static str,
    spans: Histogram,
}

/// Takes part until all is over.
///
/// # Errors
/// No such part, no such page.
pub fn part(args: &PartArgs) -> Result<ExitCode, Error> {
    match (&*args.part, &args.page) {
        ("tasks", None) => tasks::run()?,
        (part, Some(page)) => handoff::part(part, page)?,
        (part, None) => {
            return Err(Error::new(format!("part {part:?} has no page")).advice("tasks, which needs none"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures and prints; exit 1 when something takes more than is aimed at.
///
/// # Errors
/// Fewer than two cores; what keeps processes from being scheduled.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let (operations, not_scx) = handoff::measure(args.count)?;
    let loops: Vec<(usize, Span)> = CORES.iter().map(|&cores| (cores, control_loop(cores))).collect();
    let goals = goals(&operations, &loops);
    if args.json {
        println!("{}", as_json(&operations, &loops, &goals, not_scx.as_deref()));
    } else {
        let mut table = Table::new(2, &["operation", "from … to", "p50, ns", "p99, ns"]);
        for op in &operations {
            let at = |q| op.spans.quantile(q).as_nanos().to_string();
            table.row(vec![op.name.to_owned(), op.what.to_owned(), at(0.5), at(0.99)]);
        }
        print!("{table}");
        if let Some(why) = not_scx {
            println!("not measured: {why}");
        }
        let mut table = Table::new(1, &["control loop of caladan, 8 tasks", "ns"]);
        for (cores, each) in &loops {
            table.row(vec![format!("{cores} simulated cores"), each.as_nanos().to_string()]);
        }
        print!("{table}");
        goals.iter().for_each(|goal| println!("{goal}"));
        println!("{} times, {}", args.count, host::Machine::this());
    }
    Ok(ExitCode::from(u8::from(!goal::none_missed(&goals))))
}

/// What is aimed at.
fn goals(operations: &[Operation], loops: &[(usize, Span)]) -> [Goal; 2] {
    let median = |name: &str| {
        let measured = operations.iter().find(|op| op.name == name && op.spans.count() > 0)?;
        Some(measured.spans.quantile(0.5))
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

/// The median of a round, of many batches.
fn control_loop(cores: usize) -> Span {
    const BATCH: u64 = 64;
    const BATCHES: usize = 201;
    let caladan: &PolicyEntry = POLICIES.iter().find(|entry| entry.name == "caladan").expect("it is there");
    let (mut machine, mut allocator) = Rehearsal::new(cores, caladan);
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
    operations: &[Operation],
    loops: &[(usize, Span)],
    goals: &[Goal],
    not_scx: Option<&str>,
) -> serde_json::Value {
    let operation = |op: &Operation| {
        let at = |q| op.spans.quantile(q).as_nanos();
        json!({ "operation": op.name, "what": op.what, "p50_ns": at(0.5), "p99_ns": at(0.99), "count": op.spans.count() })
    };
    let of = |(cores, each): &(usize, Span)| json!({ "cores": cores, "ns": each.as_nanos() });
    Header::of_host("bench-sched", None).examined(&["sched"]).stamp(json!({
        "operations": operations.iter().map(operation).collect::<Vec<_>>(),
        "loops": loops.iter().map(of).collect::<Vec<_>>(),
        "goals": goals.iter().map(Goal::json).collect::<Vec<_>>(),
        "not_measured": not_scx, "holds": goal::none_missed(goals), "machine": host::Machine::this().to_string(),
    }))
}

/// A process that takes part; ended with this.
struct Part(Child);

impl Part {
    fn start(part: &str, page: Option<&Path>) -> Result<Self, Error> {
        let this = Path::new("/proc/self/exe");
        let mut command = Command::new(this);
        command.args(["bench", "sched-part", part]).args(page).stdin(Stdio::null());
        command.spawn().map(Self).map_err(|e| Error::file(this, &e))
    }

    fn id(&self) -> u32 {
        self.0.id()
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
    fn each_promise_is_a_goal_and_json_is_what_the_schema_says() {
        let operation = |name, ns: &[u64]| {
            let mut spans = Histogram::new();
            ns.iter().for_each(|ns| spans.record(Span::from_nanos(*ns)));
            Operation { name, what: "from … to", spans }
        };
        let loops = [(24, Span::from_nanos(900)), (96, Span::from_micros(9))];
        let check = |preempt: &[u64], holds: Option<bool>| {
            let operations = [operation("bare preempt", &[6000]), operation("preempt", preempt)];
            let goals = goals(&operations, &loops);
            assert_eq!(goals.each_ref().map(|goal| goal.holds), [holds, Some(true)]);
            let result = as_json(&operations, &loops, &goals, None);
            crate::report::schema::conforms(&result);
            assert_eq!(result["holds"], holds != Some(false));
        };
        check(&[6500], Some(true));
        check(&[9000], Some(false));
        check(&[], None);
    }
}
