//! `greenwave bench guard`: CPU cost of a guard, per frame and for its controller.
//!
//! The kernel runs the XDP program on test frames, without a device. The controller runs for some
//! seconds on a device between two namespaces, and its CPU time counts, which excludes other load
//! on the machine.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use guard::{Params, by_name};
use host::Monotonic;
use host::clock::ThreadTime;
use hostbpf::guard::{Classes, Cost, GuardError, Options, Refusal, WaitEnd};
use hostbpf::xdp::Mode;
use netlab::{NetLab, Veth};
use queueing::{Clock, Span};
use serde_json::json;

use super::target::{self, Goal};
use crate::Error;
use crate::report::ResultHeader;
use crate::table::Table;

/// Measure the CPU cost of a guard.
#[derive(clap::Args)]
pub struct Args {
    /// Run time of the controller.
    #[arg(long, default_value = "3s")]
    duration: Span,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Measures and prints; exit 1 if a goal is missed.
///
/// # Errors
/// No root, or a greenwave built without the BPF programs.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let costs = costs()?;
    let accept = controller(args.duration, WaitEnd::Accept)??;
    let answer = match controller(args.duration, WaitEnd::Answer)? {
        Ok(share) => Some(share),
        Err(GuardError::NoAnswers) => None,
        Err(e) => return Err(e.into()),
    };
    let shares = Shares { accept, answer };
    let goals = goals(&costs, shares);
    if args.json {
        outln!("{}", as_json(&costs, shares, &goals));
    } else {
        out!("{}", table(&costs));
        outln!("controller at 100 intervals per second: {:.2} % of a core", shares.accept * 100.0);
        match shares.answer {
            Some(share) => outln!(
                "with --measure first-byte and {WAITING} waiting connections: {:.2} % of a core",
                share * 100.0
            ),
            None => outln!("with --measure first-byte: not run, {}", GuardError::NoAnswers),
        }
        goals.iter().for_each(|goal| outln!("{goal}"));
    }
    Ok(ExitCode::from(u8::from(!target::all_met(&goals))))
}

/// Cost of frames in a namespace that forwards nothing: the test frames are not for its own
/// addresses.
fn costs() -> Result<Vec<Cost>, Error> {
    let namespace = NetLab::new("bench-guard-costs")?.namespace("a")?;
    namespace.disable_forwarding()?;
    Ok(namespace.enter(hostbpf::guard::costs)?)
}

/// CPU use of a controller, as a share of a core.
#[derive(Clone, Copy)]
struct Shares {
    accept: f64,
    /// Share with [`WAITING`] waiting connections; none where the kernel does not report them.
    answer: Option<f64>,
}

/// Number of connections that wait for an answer during the measurement.
const WAITING: usize = 1_000;

/// Goals.
fn goals(costs: &[Cost], shares: Shares) -> [Goal; 3] {
    let each = |is_syn| {
        let costs = costs.iter().filter(move |cost| cost.is_syn == is_syn);
        costs.map(|cost| (cost.each.as_nanos() as f64, cost.what.to_owned()))
    };
    [
        Goal::at_most("XDP program: ns per SYN", 400.0).over(each(true)),
        Goal::at_most("XDP program: ns per other frame", 50.0).over(each(false)),
        Goal::at_most("controller: % of a core", 1.0)
            .over([(shares.accept * 100.0, "100 intervals per second".to_owned())]),
    ]
}

/// CPU use of a controller that samples a server a hundred times a second, as a share of a core; or
/// the reason why it was not attached.
fn controller(duration: Span, until: WaitEnd) -> Result<Result<f64, GuardError>, Error> {
    let lab = NetLab::new("bench-guard")?;
    let [server, client] = ["server", "client"].map(|name| lab.namespace(name));
    let (server, client) = (server?, client?);
    lab.veth((&server, "eth0"), (&client, "eth0"), &Veth::default())?;
    server.enter(|| {
        let failed = |e: std::io::Error| Error::new(format!("port 80: {e}"));
        let listener = TcpListener::bind("0.0.0.0:80").map_err(failed)?;
        let mut policy = by_name("queue-delay", &Params::default()).expect("a default policy");
        let options = Options {
            ports: vec![80],
            mode: Some(Mode::Native),
            classes: Classes::default(),
            until,
            watching: false,
            refusal: Refusal::Silence,
            needs_system_signals: policy.needs_system_signals(),
            policy: "queue-delay".to_owned(),
            target: Params::default().delay_target,
            queue_reports: Vec::new(),
        };
        let mut guard = match hostbpf::guard::attach("eth0", &options) {
            Ok(guard) => guard,
            Err(e) => return Ok(Err(e)),
        };
        let waiting = match until {
            WaitEnd::Accept => Vec::new(),
            WaitEnd::Answer => {
                (0..WAITING).map(|_| asks(&listener)).collect::<Result<_, _>>().map_err(failed)?
            }
        };
        let (clock, used) = (Monotonic::new(), ThreadTime);
        let (start, before) = (clock.now(), used.now());
        let mut steps = 0_u32;
        while clock.now().since(start) < duration {
            std::thread::sleep(Duration::from_millis(10));
            let now = clock.now();
            let step =
                guard.observe(now).and_then(|signals| guard.hold(now, &[policy.tick(now, &signals[0])]));
            step.map_err(|e| Error::new(format!("control step: {e}")))?;
            steps += 1;
        }
        drop((listener, waiting));
        Ok(Ok(used.now().since(before).as_secs_f64() / f64::from(steps.max(1)) * 100.0))
    })
}

/// An accepted connection with a request: both ends.
fn asks(listener: &TcpListener) -> std::io::Result<(TcpStream, TcpStream)> {
    let mut client = TcpStream::connect("127.0.0.1:80")?;
    client.write_all(b"?")?;
    Ok((client, listener.accept()?.0))
}

fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new(1, &["frame", "ns"]);
    for cost in costs {
        table.row(vec![cost.what.to_owned(), cost.each.as_nanos().to_string()]);
    }
    table
}

fn as_json(costs: &[Cost], shares: Shares, goals: &[Goal]) -> serde_json::Value {
    let cost = |cost: &Cost| json!({ "frame": cost.what, "syn": cost.is_syn, "ns": cost.each.as_nanos() });
    let body = json!({
        "frames": costs.iter().map(cost).collect::<Vec<_>>(), "controller_share": shares.accept,
        "controller_share_answer": shares.answer,
        "goals": goals.iter().map(Goal::json).collect::<Vec<_>>(), "holds": target::all_met(goals),
    });
    ResultHeader::of_host("bench-guard", None).with_doctor(&["guard"]).stamp(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_is_a_goal_and_json_conforms_to_the_schema() {
        let cost = |what, is_syn, ns| Cost { what, is_syn, each: Span::from_nanos(ns) };
        let costs = [cost("a SYN", true, 300), cost("one shed", true, 401), cost("others", false, 50)];
        let shares = Shares { accept: 0.004, answer: None };
        let goals = goals(&costs, shares);
        assert_eq!(goals.each_ref().map(|goal| goal.holds), [Some(false), Some(true), Some(true)]);
        let result = as_json(&costs, shares, &goals);
        crate::report::schema::conforms(&result);
        assert_eq!((&result["holds"], &result["goals"][0]["worst"][1]), (&false.into(), &"one shed".into()));
    }
}
