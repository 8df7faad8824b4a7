//! `greenwave guard attach`: a guard's controller, which runs until it is interrupted or the guard
//! is detached.
//!
//! Each control step observes each port, runs the port's policy and sets the limit in the XDP program
//! ([`hostbpf::guard`]); this file has the loop and its output. SIGHUP makes it read `--config` again, for
//! another `target-delay`.

use std::collections::HashSet;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use guard::{Limit, Params};
use host::Monotonic;
use host::clock::ThreadTime;
use host::sandbox::Duty;
use hostbpf::guard::{Classes, End, Guard, Options, Refusal, ReportFile, Rule};
use hostbpf::xdp::Mode;
use queueing::{Clock, Span, Time};

use super::status;
use crate::config_file::{Arguments, read_again};
use crate::sandbox::Sandbox;
use crate::ui::{self, Head, MetricsSample, Ui};
use crate::{Error, control, guard_args, options, sandbox};

/// Drop excess new connections to a server before the kernel processes them.
///
/// Runs until ctrl-C, then detaches. Established connections are never
/// dropped. Classes are in order of importance: the first is shed last.
#[derive(clap::Args)]
pub struct Args {
    /// Network interface that receives the clients' traffic, such as eth0.
    device: String,
    /// TCP port of a server; repeatable. Each port has a limit of its own.
    /// Default: all ports that listen now and clients reach, except 22.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Target queueing delay of a connection.
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = options::target_delay)]
    target_delay: Span,
    /// Admission policy: queue-delay, syn-paper, gradient, memory, or none.
    #[arg(long, default_value = "queue-delay", hide_default_value = true)]
    policy: String,
    /// Clients to shed last, such as 10.0.0.0/8,port:443; repeatable.
    #[arg(long, value_name = "RULES")]
    class: Vec<Class>,
    /// File in which a service reports its internal queue; added to the
    /// accept-queue delay of that port, or of all ports; repeatable.
    #[arg(long = "queue-report", value_name = "[PORT=]FILE")]
    queue_reports: Vec<ReportFile>,
    /// End of the wait: accept() (default), or the first response byte, for
    /// thread-per-connection servers.
    #[arg(
        long = "measure",
        value_enum,
        value_name = "accept|first-byte",
        default_value = "accept",
        hide_default_value = true,
        hide_possible_values = true
    )]
    until: guard_args::Until,
    /// Control interval.
    #[arg(long = "interval", value_name = "TIME", default_value = "10ms")]
    period: Span,
    /// Shed nothing; count the connections that would be shed.
    #[arg(long)]
    dry_run: bool,
    /// Response to a shed SYN: drop (default) or reset.
    #[arg(long = "reject", value_enum, default_value = "drop", hide_default_value = true)]
    reject: Reject,
    /// XDP mode: drv, in the driver (default); skb, after the driver (default
    /// on a veth with --reject reset).
    #[arg(long, value_enum, hide_possible_values = true)]
    mode: Option<ModeName>,
    #[command(flatten)]
    sandbox: sandbox::Flags,
    #[command(flatten)]
    ui: ui::Flags,
    #[command(flatten)]
    control: control::Flags,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeName {
    Drv,
    Skb,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Drv => Self::Native,
            ModeName::Skb => Self::Generic,
        }
    }
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Reject {
    /// Drop the SYN; the client retransmits it after a second.
    #[value(name = "drop", alias = "silence")]
    Silence,
    /// Answer with a reset.
    Reset,
}

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        match reject {
            Reject::Silence => Self::Silence,
            Reject::Reset => Self::Reset,
        }
    }
}

/// Rules of a class: `10.0.0.0/8,port:443`.
#[derive(Clone)]
struct Class(Vec<Rule>);

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Args {
    /// Checks the arguments before it opens the interface.
    ///
    /// # Errors
    /// The errors of [`run`].
    pub fn check(&self) -> Result<(), Error> {
        self.ui.check()?;
        Ok(self.valid()?.1.check()?)
    }

    /// The guarded ports, each once: those given, or those that listen.
    fn ports(&self) -> Result<Vec<u16>, Error> {
        let mut ports = self.port.clone();
        if ports.is_empty() {
            ports = hostbpf::guard::listening_ports(&self.device)?;
            ports.retain(|port| *port != SSH);
        }
        if ports.is_empty() {
            let what = format!("{}: no server listens on a TCP port that clients reach", self.device);
            return Err(Error::new(what).advice("start the server first, or --port 80"));
        }
        let mut seen = HashSet::new();
        ports.retain(|port| seen.insert(*port));
        Ok(ports)
    }

    /// The validated flags.
    fn valid(&self) -> Result<(Controller, Options, Sandbox), Error> {
        let bounds = Span::from_millis(1)..=Span::from_millis(200);
        if !bounds.contains(&self.period) {
            let (least, most) = (bounds.start(), bounds.end());
            return Err(Error::new(format!("interval {} is outside {least}..={most}", self.period))
                .advice("--interval 10ms"));
        }
        let params = Params { period: self.period, delay_target: self.target_delay, ..Params::default() };
        let ports = self.ports()?;
        let policies = ports.iter().map(|_| policy(&self.policy, &params)).collect::<Result<_, _>>()?;
        let controller = Controller { name: self.policy.clone(), policies, params };
        let options = Options {
            ports,
            mode: self.mode.map(Mode::from),
            classes: Classes(self.class.iter().map(|class| class.0.clone()).collect()),
            until: self.until.into(),
            watching: self.dry_run,
            refusal: self.reject.into(),
            needs_system_signals: controller.policies.iter().any(|policy| policy.needs_system_signals()),
            policy: self.policy.clone(),
            target: self.target_delay,
            queue_reports: self.queue_reports.clone(),
        };
        let duty = Duty::Guard { reads_reports: !self.queue_reports.is_empty() };
        Ok((controller, options, self.sandbox.plan(duty, None)?))
    }
}

/// Attaches, controls and detaches.
///
/// # Errors
/// The guard cannot be attached or updated.
pub fn run(args: &Args, arguments: &Arguments) -> Result<ExitCode, Error> {
    let _ = host::signals::hangup();
    let (mut controller, options, sandbox) = args.valid()?;
    let interrupted = host::signals::flag();
    let ports = ports_text(&options);
    let ui = args.ui.open(head(args, &ports), args.control.is_on())?;
    let reads = arguments.file().into_iter().collect();
    let mut control = args.control.open(ui.as_ref(), reads)?;
    let mut guard = hostbpf::guard::attach(&args.device, &options)?;
    sandbox.enter(ui.as_ref())?;
    errln!("{}", greeting(args, &ports));
    let (clock, used) = (Monotonic::new(), ThreadTime);
    let (start, used_before) = (clock.now(), used.now());
    let mut due = start;
    let mut steps = 0_u64;
    let mut warned = Vec::new();
    let end = loop {
        due = wait(&clock, due + args.period);
        if interrupted.load(Ordering::Relaxed) {
            break None;
        }
        if steps.is_multiple_of(CHECK)
            && let Some(end) = guard.end()
        {
            break Some(end);
        }
        steps += 1;
        control.iter_mut().for_each(|control| control.poll(clock.now()));
        if let Some(outcome) = read_again(control.as_mut(), || controller.reload(&mut guard, arguments)) {
            control::report_reload(control.as_mut(), clock.now(), &outcome);
        }
        let step = controller.step(&mut guard, clock.now());
        step.map_err(|e| Error::new(format!("{}: {e}", args.device)))?;
        ui.iter().for_each(|ui| show(ui, args, &guard, clock.now()));
        if steps.is_multiple_of(WARN) {
            warn(args, &guard, clock.now(), &mut warned);
        }
    };
    let share =
        used.now().since(used_before).as_secs_f64() / clock.now().since(start).as_secs_f64().max(1e-9);
    let counts = guard.counts().unwrap_or_default();
    drop(guard);
    let why = match end {
        None => "detached",
        Some(End::Detached) => "detached by greenwave guard detach",
        Some(End::Removed | End::NoInterface) => "no longer guarded",
    };
    let would = if args.dry_run { "would have been shed" } else { "shed" };
    outln!(
        "{}: {why}; {} connections seen, {} {would}; controller used {:.2} % of a core",
        args.device,
        counts.offered(),
        counts.shed(),
        share * 100.0
    );
    removed(&args.device, end).map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Error if the guard was detached otherwise than by ctrl-C or `guard detach`.
fn removed(device: &str, end: Option<End>) -> Option<Error> {
    let again = format!("greenwave guard attach {device} … again, or Restart=on-failure in its unit");
    let what = match end? {
        End::Detached => return None,
        End::Removed => "another program detached the guard's XDP program",
        End::NoInterface => "the interface was removed or moved to another network namespace",
    };
    Some(Error::new(format!("{device}: {what}; the server is unprotected")).advice(again))
}

/// The policy `name` without learned state.
fn policy(name: &str, params: &Params) -> Result<Box<dyn guard::Policy>, Error> {
    guard::by_name(name, params).map_err(|e| Error::new(e.to_string()).advice("--policy queue-delay"))
}

/// A policy for each port, and their arguments.
struct Controller {
    name: String,
    policies: Vec<Box<dyn guard::Policy>>,
    params: Params,
}

impl Controller {
    /// One observation and the resulting update.
    ///
    /// If the last service that reported its queue for a port has stopped reporting, the port gets a fresh
    /// policy and admits every connection until the next report.
    fn step(&mut self, guard: &mut Guard, now: Time) -> std::io::Result<()> {
        let signals = guard.observe(now)?;
        let mut limits = Vec::with_capacity(signals.len());
        for (place, (policy, signals)) in self.policies.iter_mut().zip(&signals).enumerate() {
            let is_silenced = guard.is_silenced(place);
            if is_silenced {
                *policy = guard::by_name(&self.name, &self.params).expect("the policy exists");
            }
            limits.push(if is_silenced { Limit::Open } else { policy.tick(now, signals) });
        }
        guard.hold(now, &limits)
    }

    /// Applies the target in the file of `--config` now; returns its description.
    fn reload(&mut self, guard: &mut Guard, arguments: &Arguments) -> Result<String, Error> {
        if arguments.file().is_none() {
            let what = "reload reads --config, and the guard was started without it";
            return Err(Error::new(what).advice("a restart with --config before the command"));
        }
        let target = arguments.again::<Args>(&["target-delay"])?.target_delay;
        guard.set_target(target).map_err(|e| Error::new(format!("target {target}: {e}")))?;
        self.params.delay_target = target;
        self.policies.iter_mut().for_each(|policy| policy.on_target(target));
        Ok(format!("reloaded: target {target}"))
    }
}

/// The guarded ports as text.
fn ports_text(options: &Options) -> String {
    options.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
}

/// Description of this command for the live view.
fn head(args: &Args, ports: &str) -> Head {
    let dry = if args.dry_run { ", dry run" } else { "" };
    Head {
        command: "guard",
        about: format!("policy {}, port {ports} on {}{dry}", args.policy, args.device),
        rate: "greenwave_guard_accepted_total",
    }
}

/// Shows the figures of `guard status`, once a second.
fn show(ui: &Ui, args: &Args, guard: &Guard, now: Time) {
    if !ui.is_due(now) {
        return;
    }
    if let Ok(status) = guard.status(now) {
        ui.publish(
            now,
            MetricsSample { figures: status::figures(&args.device, &status), ..MetricsSample::default() },
        );
    }
}

/// Prints the warnings of `guard status` that are not among `printed`.
fn warn(args: &Args, guard: &Guard, now: Time, printed: &mut Vec<String>) {
    let Ok(status) = guard.status(now) else { return };
    for warning in status::warnings(&status) {
        if !printed.contains(&warning) {
            errln!("warning: {}: {warning}", args.device);
            printed.push(warning);
        }
    }
}

/// Sleeps until `due`, or not at all when that is past. The next deadline counts from the wake-up,
/// so that a late step is not followed by a burst.
fn wait(clock: &Monotonic, due: Time) -> Time {
    let now = clock.now();
    if due <= now {
        return now;
    }
    std::thread::sleep(Duration::from(due.since(now)));
    due
}

/// Port of the operator's shell, which is guarded only if it is named.
const SSH: u16 = 22;
/// Number of control steps between two checks that the guard is still attached.
const CHECK: u64 = 20;
/// Number of control steps between two searches for something to warn of.
const WARN: u64 = 100;

fn greeting(args: &Args, ports: &str) -> String {
    let what = if args.dry_run { "watched, nothing is shed" } else { "guarded" };
    let target = match args.policy.as_str() {
        "queue-delay" => format!(", target {}", args.target_delay),
        _ => String::new(),
    };
    let until = match args.until {
        guard_args::Until::Accept => "",
        guard_args::Until::FirstByte => ", until the first response byte",
    };
    let found = match args.port.is_empty() {
        true => " (all that listen now; 22 only if named)",
        false => "",
    };
    let services = match args.queue_reports.len() {
        0 => String::new(),
        1 => ", with 1 service queue".to_owned(),
        count => format!(", with {count} service queues"),
    };
    format!(
        "{}: port {ports}{found} {what} by {}{target}{until}{services}; status: greenwave guard status {}; ctrl-C detaches",
        args.device, args.policy, args.device
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: a guard or device removed by another program is a failure, one's own detach is not
    #[test]
    fn only_an_interrupt_or_a_detach_is_a_success() {
        for end in [None, Some(End::Detached)] {
            assert_eq!(removed("eth0", end), None, "{end:?}");
        }
        for (end, says) in
            [(End::Removed, "detached the guard's XDP program"), (End::NoInterface, "was removed")]
        {
            let error = removed("eth0", Some(end)).expect("it is a failure").to_string();
            assert!(error.starts_with("error: eth0: ") && error.contains(says), "{error}");
            assert!(error.contains("\n  try: "), "{error}");
        }
    }
}
