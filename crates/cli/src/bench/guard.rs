//! `greenwave bench guard`: what a guard takes of the processor, for each frame
//! and to look at the server.
//!
//! Frames are run by the kernel on its own, without a device; the controller
//! runs for some seconds at a device between two namespaces, and its time on a
//! core counts, which other work on the machine does not show in.

use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use guard::{Params, by_name};
use host::Monotonic;
use host::clock::ThreadTime;
use host::guard::{Classes, Cost, Options, Refusal};
use host::lab::{Lab, Veth};
use host::xdp::Mode;
use queueing::{Clock, Span};
use serde_json::json;

use crate::Error;
use crate::report::Header;
use crate::table::Table;

/// What a guard takes of the processor.
#[derive(clap::Args)]
pub struct Args {
    /// How long the controller runs.
    #[arg(long, default_value = "3s")]
    duration: Span,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is aimed at: nanoseconds for a SYN and for any other frame, and the
/// controller's share of a core at 100 looks a second.
const SYN_NS_MAX: u64 = 400;
const OTHER_NS_MAX: u64 = 50;
const SHARE_MAX: f64 = 0.01;

/// Measures and prints; exit 1 when something takes more than is aimed at.
///
/// # Errors
/// No root, or a greenwave without the programs.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let costs = host::guard::costs()?;
    let share = controller(args.duration)?;
    let most =
        |is_syn| costs.iter().filter(|cost| cost.is_syn == is_syn).map(|cost| cost.each.as_nanos()).max();
    let (syn, other) = (most(true).unwrap_or_default(), most(false).unwrap_or_default());
    let holds = syn <= SYN_NS_MAX && other <= OTHER_NS_MAX && share < SHARE_MAX;
    if args.json {
        println!("{}", as_json(&costs, share, holds));
    } else {
        print!("{}", table(&costs));
        println!("controller, 100 looks a second: {:.2} % of a core", share * 100.0);
        println!(
            "at most {syn} ns for a SYN (aim: {SYN_NS_MAX}), {other} ns for others (aim: {OTHER_NS_MAX}), \
             below {} % of a core: {}",
            SHARE_MAX * 100.0,
            if holds { "pass" } else { "FAIL" }
        );
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The share of a core that a controller takes which looks at a server a
/// hundred times a second.
fn controller(duration: Span) -> Result<f64, Error> {
    let lab = Lab::new("bench-guard")?;
    let [server, client] = ["server", "client"].map(|name| lab.namespace(name));
    let (server, client) = (server?, client?);
    lab.veth((&server, "eth0"), (&client, "eth0"), &Veth::default())?;
    server.enter(|| {
        let listener = TcpListener::bind("0.0.0.0:80").map_err(|e| Error::new(format!("port 80: {e}")))?;
        let mut policy = by_name("queue-delay", &Params::default()).expect("it is the default");
        let options = Options {
            ports: vec![80],
            mode: Mode::Native,
            classes: Classes::default(),
            watching: false,
            refusal: Refusal::Silence,
            machine: policy.looks_at_machine(),
            policy: "queue-delay".to_owned(),
            target: Params::default().delay_target,
            joined: Vec::new(),
        };
        let mut guard = host::guard::attach("eth0", &options)?;
        let (clock, used) = (Monotonic::new(), ThreadTime);
        let (start, before) = (clock.now(), used.now());
        let mut looks = 0_u32;
        while clock.now().since(start) < duration {
            std::thread::sleep(Duration::from_millis(10));
            let now = clock.now();
            let look = guard.look(now).and_then(|signals| guard.hold(now, policy.tick(now, &signals)));
            look.map_err(|e| Error::new(format!("a look: {e}")))?;
            looks += 1;
        }
        drop(listener);
        Ok(used.now().since(before).as_secs_f64() / f64::from(looks.max(1)) * 100.0)
    })
}

fn table(costs: &[Cost]) -> Table {
    let mut table = Table::new(1, &["frame", "ns"]);
    for cost in costs {
        table.row(vec![cost.what.to_owned(), cost.each.as_nanos().to_string()]);
    }
    table
}

fn as_json(costs: &[Cost], share: f64, holds: bool) -> serde_json::Value {
    let cost = |cost: &Cost| json!({ "frame": cost.what, "syn": cost.is_syn, "ns": cost.each.as_nanos() });
    let body = json!({
        "frames": costs.iter().map(cost).collect::<Vec<_>>(), "controller_share": share, "holds": holds,
    });
    Header::of_host("bench-guard", None).examined(&["guard"]).stamp(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_what_the_schema_says() {
        let cost = Cost { what: "a SYN", is_syn: true, each: Span::from_nanos(300) };
        crate::report::schema::conforms(&as_json(&[cost], 0.004, true));
    }
}
