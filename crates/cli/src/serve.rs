//! `greenwave serve`: a server on greenwave's TCP/IP, for ordinary clients.
//!
//! On a TAP device the clients are those of the kernel at its other end: `curl` and `wrk`
//! unmodified. On an interface they are the network's, and the kernel keeps its own address there.
//! Runs until ctrl-C, then prints a summary. SIGHUP reloads the policy.

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::ValueEnum;
use classify::rules::Observed;
use host::sandbox::Duty;
use net::stack::Config as StackConfig;
use queueing::Span;
use runtime::mode::{Classifiers, Mode, ModeSettings};

use crate::address::list;
use crate::config_file::Arguments;
use crate::device::{LinkMonitor, Open};
use crate::network_args::NetworkArgs;
use crate::options::{self, Steer, random_mac, secret};
use crate::report::ResultHeader;
use crate::sandbox::Sandbox;
use crate::shard_args::FlowHashArg;
use crate::ui::{self, Head};
use crate::{Error, control, dry_run, guard_args, sandbox, traces};

pub(crate) mod address_setup;
pub(crate) mod live_view;
mod policy;
pub(crate) mod reload;
mod server;
mod summary;

use policy::policies;
use reload::PolicyFiles;
use server::Server;

/// Run a server on greenwave's TCP/IP stack, until ctrl-C.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    link: NetworkArgs,
    /// Transport protocol.
    #[arg(long, value_enum, default_value = "tcp")]
    proto: Proto,
    /// Port to listen on.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Application.
    #[arg(long, value_enum, default_value = "http")]
    app: Serves,
    /// Scheduling mode: none, lns, darc, adps, learned or ideal.
    #[arg(long, default_value = "learned")]
    mode: Mode,
    /// Override the mode's dispatch policy: fcfs, strict, edf, strict-edf, weighted or
    /// darc.
    #[arg(long, value_name = "POLICY")]
    dispatch: Option<String>,
    /// Worker threads; 0: the stack's thread serves requests itself.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=256))]
    workers: u16,
    /// Number of stacks, each with a thread and the flows that hash to it.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    shards: u16,
    /// Assignment of flows to stacks.
    #[arg(long, value_enum, default_value = "keyed")]
    flow_hash: FlowHashArg,
    /// Workers that serve these levels: high=0 or 4-7=1,2; repeatable.
    #[arg(long, value_name = "LEVELS=WORKERS")]
    worker_affinity: Vec<Steer>,
    /// Pin the stack's thread and each worker to its own core.
    #[arg(long)]
    pin: bool,
    /// Busy-polling time of an idle thread before it sleeps.
    #[arg(long, value_name = "SPAN", default_value = "20us", value_parser = options::busy_poll)]
    busy_poll: Span,
    /// Maximum time to batch responses while more requests wait.
    #[arg(long, value_name = "SPAN", default_value = "30us", value_parser = options::tx_coalesce)]
    tx_coalesce: Span,
    #[command(flatten)]
    guard: guard_args::Args,
    #[command(flatten)]
    sandbox: sandbox::Flags,
    #[command(flatten)]
    ui: ui::Flags,
    #[command(flatten)]
    control: control::Flags,
    #[command(flatten)]
    traces: traces::Flags,
    /// Print the final tables as JSON on stdout; everything else on stderr.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dry_run: dry_run::Flag,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Proto {
    /// Requests on TCP connections.
    Tcp,
    /// Each datagram is a request and gets one datagram as the response.
    Udp,
}

#[derive(Clone, Copy, ValueEnum)]
enum Serves {
    /// GET / and /bytes/N; POST returns its body.
    Http,
    /// Returns the received bytes.
    Echo,
    /// Holds a core as long as the request asks.
    Synthetic,
}

/// Parts of a server that need no device.
struct Valid {
    policies: Vec<ModeSettings>,
    observed: Arc<Observed>,
    sandbox: Sandbox,
}

impl Args {
    /// Checks the arguments before it opens anything; `has` is true for a given flag's name.
    ///
    /// # Errors
    /// The errors of [`run`].
    pub fn check(&self, has: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        self.link.check(has)?;
        self.valid(None).map(drop)
    }

    /// The kind of the device, as given.
    pub fn device_kind(&self) -> &str {
        self.link.device_kind()
    }

    /// Prints the plan if `--dry-run` asks for it.
    ///
    /// # Errors
    /// The errors of [`run`] before it opens anything.
    pub fn dry_run(&self) -> Option<Result<(), Error>> {
        self.dry_run.print("serve", || {
            let (kind, _) = self.link.plan()?;
            self.valid(kind.kept())?;
            let mut rows = self.link.rows()?;
            rows.push(("serves", head(self).about));
            rows.push(("stacks", self.shards.to_string()));
            rows.push(("workers", self.workers.to_string()));
            rows.push(("guard", if self.guard.is_on() { "on" } else { "off" }.to_owned()));
            rows.push(("--ui", dry_run::list(self.ui.ui.map(|address| address.to_string()))));
            Ok(rows)
        })
    }

    /// The flags other than device and addresses; `kept` as of [`sandbox::Flags::plan`].
    fn valid(&self, kept: Option<&'static str>) -> Result<Valid, Error> {
        if self.proto == Proto::Udp && matches!(self.app, Serves::Http) {
            let what = "--app http needs --proto tcp";
            return Err(Error::new(what).advice("--proto udp --app echo"));
        }
        let guarded = self.guard.guard()?.is_some();
        if self.proto == Proto::Udp && guarded {
            let what = "--guard needs --proto tcp";
            return Err(Error::new(what).advice("--proto tcp"));
        }
        let (policies, observed) = policies(self, self.shards.into())?;
        self.link.check_capture()?;
        self.traces.check()?;
        self.ui.check()?;
        let sandbox = self.sandbox.plan(Duty::Serve, kept)?;
        Ok(Valid { policies, observed, sandbox })
    }
}

/// Serves until interrupted.
///
/// # Errors
/// The reason it cannot start.
pub fn run(args: &Args, arguments: &Arguments) -> Result<ExitCode, Error> {
    // A signal before the server's first check is not lost.
    let _ = host::signals::hangup();
    let (kind, addresses) = args.link.plan()?;
    let Valid { policies, observed, sandbox } = args.valid(kind.kept())?;
    let header = args.json.then(|| ResultHeader::of_host("serve", None).with_doctor(&["serve"]));
    let ui = args.ui.open(head(args), args.control.is_on())?;
    let reads = arguments.file().into_iter().chain(args.link.policy.clone()).collect();
    let control = args.control.open(ui.as_ref(), reads)?;
    let key = secret()?;
    let _taken = kind.take(&addresses)?;
    let Open { devices, mac, mtu, held, over, how, claimant } = kind.open(&addresses, key)?;
    let made_up = random_mac()?;
    let stack = StackConfig { mtu, ..addresses.stack(mac.unwrap_or(made_up), key) };
    let how = how.map_or(String::new(), |how| format!(" ({how})"));
    let ends: Vec<IpAddr> = addresses.kernel.iter().map(|end| end.addr).collect();
    let end = match kind.has_kernel_end() {
        true if ends.is_empty() => "kernel side has no address".to_owned(),
        true => format!("kernel side is {}", list(&ends)),
        false => kind.polling().to_owned(),
    };
    let interface = LinkMonitor::of(&kind);
    let server = Server {
        args,
        arguments,
        sandbox,
        header,
        addresses,
        claimant,
        interface,
        stack,
        policies,
        observed,
        held,
        over,
        how,
        end,
        ui,
        control,
    };
    // One capture file records a single queue.
    let queues = match args.link.pcap {
        None if devices.len() == usize::from(args.shards) => devices.into_iter().map(|d| vec![d]).collect(),
        _ => vec![devices],
    };
    let wrapped = queues.into_iter().map(|queues| args.link.wrap(queues)).collect::<Result<_, _>>()?;
    server.serve_on(wrapped)
}

/// The policy of `shards` shards in the files now, if nothing else in them has changed.
fn read(arguments: &Arguments, shards: usize) -> Result<PolicyFiles, Error> {
    let args: Args = arguments.again(&["policy"])?;
    let (policies, observed) = policies(&args, shards)?;
    let classifiers = |policy: ModeSettings| Classifiers {
        driver: policy.driver,
        transport: policy.transport,
        ..Classifiers::default()
    };
    let classifiers = policies.into_iter().map(classifiers).collect();
    Ok(PolicyFiles { policy: args.link.policy, classifiers, observed })
}

/// Description of this command for the live view.
fn head(args: &Args) -> Head {
    let app = args.app.to_possible_value().map_or(String::new(), |app| app.get_name().to_owned());
    let (device, port, mode) = (&args.link.device, args.port, args.mode);
    let dispatch = args.dispatch.as_ref().map_or(String::new(), |name| format!(", dispatch {name}"));
    Head {
        command: "serve",
        about: format!("{app} on {device} port {port}, mode {mode}{dispatch}"),
        rate: "greenwave_responses_total",
    }
}
