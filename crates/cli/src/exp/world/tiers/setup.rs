//! Test setup of one run: the services, their namespaces and auxiliary processes; removed on drop.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use host::affinity;
use hostbpf::egress::{self, Status};
use netlab::TempDir;
use netlab::{self, Child, LabError, Namespace, NetLab, TestGroup, Veth};
use queueing::CoreId;
use serde_json::json;

use super::super::host_requirements::{check_installed, check_possible};
use super::super::processes;
use super::super::processes::sidecar::Sidecar;
use super::super::progress_lines::{ProgressLines, workload};
use super::super::sched_daemon::Daemon;
use super::Plan;
use super::bulk::Bulk;
use super::stack::GreenwaveStack;
use crate::error::Error;

/// Core of the users, the bulk flows and the core manager.
pub const CLIENT_CORE: CoreId = CoreId(0);
/// Core of the services and the best-effort program.
pub const SHARED_CORE: CoreId = CoreId(1);

/// Addresses of a network, by number: the remote end, and the front's end.
const fn addresses(network: u8) -> [Ipv4Addr; 2] {
    [Ipv4Addr::new(10, 75, network, 2), Ipv4Addr::new(10, 75, network, 1)]
}

/// Number of the network of the users; the networks of the workers have the next numbers.
const USERS: u8 = 0;
const PREFIX: u8 = 24;
const PORT: u16 = 7000;
/// Front's end of the users' veth pair, and the address of greenwave's stack there.
const USERS_DEVICE: &str = "users";
const STACK_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 75, USERS, 3);
/// Remote end of each veth pair to the front.
const DEVICE: &str = "eth0";
/// Best-effort program, and the interval between its progress lines.
const BEST_EFFORT: &str = "swaptions";
const EVERY: &str = "20ms";
/// Delay of a service's thread for the core after which BE is parked. Services also wait for each
/// other, which parking BE does not shorten; below this delay the kernel's idle class makes BE
/// yield.
const DELAY_MAX: &str = "2ms";

/// All processes that run before the users start.
pub struct TiersSetup {
    // Fields are in drop order.
    daemon: Option<Daemon>,
    pub aux: AuxProcesses,
    front: Sidecar,
    _stack: Option<GreenwaveStack>,
    workers: Vec<Sidecar>,
    /// Folder of the services' queue reports.
    _queue_reports: TempDir,
    /// Has priority over all processes outside the experiment. Contains BE too, since scheduling
    /// classes compare within a group.
    _group: TestGroup,
    pub users: Namespace,
    /// Address that users call.
    pub target: SocketAddr,
    _front_host: Namespace,
    _lab: NetLab,
}

/// Auxiliary processes, which are sampled while the services work.
pub struct AuxProcesses {
    bulk: Bulk,
    pub be: BestEffortProgram,
    worker_hosts: Vec<Namespace>,
}

/// Running best-effort program.
pub struct BestEffortProgram {
    pub child: Child,
    pub progress: ProgressLines,
}

impl TiersSetup {
    /// Creates the setup of `plan`.
    ///
    /// # Errors
    /// A required part is missing or does not start.
    pub fn new(plan: &Plan) -> Result<Self, Error> {
        check_possible("tiers", "platform/host", "users and services")?;
        check_installed("tiers", "tc", "iproute2")?;
        let testbed = processes::program()?;
        let lab = NetLab::new("tiers")?;
        let [users, front_host] = ["users", "front"].map(|name| lab.namespace(name));
        let (users, front_host) = (users?, front_host?);
        let parts = plan.config.stages[1].parts;
        let worker_hosts = (1..=parts).map(|n| lab.namespace(&format!("worker-{n}")));
        let worker_hosts = worker_hosts.collect::<Result<Vec<_>, LabError>>()?;
        cable(&lab, &users, &front_host, USERS_DEVICE, USERS)?;
        for (n, host) in (1..).zip(&worker_hosts) {
            cable(&lab, host, &front_host, &format!("worker{n}"), n)?;
            let shaped = || egress::attach(DEVICE, plan.host.rate, &plan.policy, plan.config.seed);
            host.enter(shaped)?;
        }
        for host in worker_hosts.iter().chain([&front_host]) {
            // Answers carry the DSCP of the first packet of their connection.
            host.sysctl("net.ipv4.tcp_reflect_tos", "1")?;
        }
        let mut bulk = Bulk::default();
        for (n, host) in (1..).zip(&worker_hosts) {
            let ([_, target], congestion) = (addresses(n), &plan.host.congestion);
            bulk.add(plan.host.bulk, (host, &front_host), target.into(), congestion, CLIENT_CORE)?;
        }
        let group = TestGroup::preferred("tiers")?;
        let testbed = testbed.display().to_string();
        let start = |command| on_core(SHARED_CORE, || Sidecar::start(command, 1).map(|(service, _)| service));
        let service = |host: &Namespace, settings: String| {
            let mut command = group.command(host, &testbed);
            command.args(["tier", &settings]);
            start(command)
        };
        let queue_reports = TempDir::new("tiers")?;
        let queue = |n: u8| queue_reports.path().join(format!("queue-{n}"));
        let workers = (1..)
            .zip(&worker_hosts)
            .map(|(n, host)| {
                service(
                    host,
                    settings(plan, service_address(n, 0), &[], plan.requests_cores().then(|| queue(n))),
                )
            })
            .collect::<Result<Vec<_>, Error>>()?;
        let parts: Vec<SocketAddr> = (1..).zip(&workers).map(|(n, _)| service_address(n, 0)).collect();
        let stack = plan.host.stack.then(|| GreenwaveStack::new(&plan.host.dscp)).transpose()?;
        let target = if stack.is_some() { (STACK_ADDRESS, PORT).into() } else { service_address(USERS, 1) };
        let front_queue = queue(0);
        let queue_report = (plan.sheds_syns() || plan.requests_cores()).then(|| front_queue.clone());
        let settings = settings(plan, target, &parts, queue_report);
        let front = match &stack {
            None => service(&front_host, settings)?,
            Some(stack) => {
                let (addr, words) = (format!("{STACK_ADDRESS}/{PREFIX}"), [&testbed, "tier", &settings]);
                let sheds_syns = plan.sheds_syns().then_some((plan.host.guard_target, &*front_queue));
                let command =
                    stack.command((&group, &front_host), USERS_DEVICE, &addr, sheds_syns, &words)?;
                start(command).map_err(|error| stack.explain(error))?
            }
        };
        let be = BestEffortProgram::new(plan, &front_host, &group)?;
        let services: Vec<u32> = [&front].into_iter().chain(&workers).map(Sidecar::id).collect();
        let daemon = match plan.mechanisms.cores {
            true => {
                let request_files: Vec<PathBuf> = if plan.requests_cores() {
                    (0..=parts.len() as u8).map(queue).collect()
                } else {
                    Vec::new()
                };
                Some(Daemon::new(&users, &tasks(&services, &request_files, be.child.id()))?)
            }
            false => None,
        };
        bulk.wait_until_settled()?;
        Ok(Self {
            daemon,
            aux: AuxProcesses { bulk, be, worker_hosts },
            front,
            _stack: stack,
            workers,
            _queue_reports: queue_reports,
            target,
            _group: group,
            users,
            _front_host: front_host,
            _lab: lab,
        })
    }

    /// Checks that the core manager ran to the end.
    ///
    /// # Errors
    /// The core manager has ended.
    pub fn check_running(&self) -> Result<(), Error> {
        self.daemon.as_ref().map_or(Ok(()), Daemon::check_running)
    }

    /// Ends all processes; returns the reports of the services, the front first.
    pub fn end(self) -> Vec<Option<String>> {
        // The group, which ends all its processes, and the namespaces go last.
        let Self { daemon, aux, front, workers, _stack, _queue_reports, _group, _front_host, .. } = self;
        drop((daemon, aux));
        [front].into_iter().chain(workers).map(Sidecar::end).collect()
    }
}

impl AuxProcesses {
    /// Bytes received by bulk flows.
    pub fn bulk(&self) -> u64 {
        self.bulk.received_bytes()
    }

    /// Counters of the workers' egress.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn egress(&self) -> Result<Vec<Status>, Error> {
        self.worker_hosts.iter().map(|host| Ok(host.enter(|| egress::status(DEVICE))?)).collect()
    }
}

impl BestEffortProgram {
    fn new(plan: &Plan, host: &Namespace, group: &TestGroup) -> Result<Self, Error> {
        let mut command = group.command(host, &workload(BEST_EFFORT)?.display().to_string());
        command.args(["--every", EVERY, "--seed", &plan.config.seed.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = host.spawn_on(SHARED_CORE, &mut command)?;
        let progress = ProgressLines::of(child.stdout.take());
        progress.wait_for_progress(&mut child, BEST_EFFORT)?;
        Ok(Self { child, progress })
    }
}

/// veth pair from `host` to device `name` of `front`: network `number`. Both ends receive on the
/// cores of their own programs.
fn cable(lab: &NetLab, host: &Namespace, front: &Namespace, name: &str, number: u8) -> Result<(), LabError> {
    lab.veth((host, DEVICE), (front, name), &Veth::default())?;
    let [remote, local] = addresses(number);
    host.address(DEVICE, remote.into(), PREFIX)?;
    front.address(name, local.into(), PREFIX)?;
    let core = if number == USERS { CLIENT_CORE } else { SHARED_CORE };
    host.steer_receive(DEVICE, core)?;
    front.steer_receive(name, SHARED_CORE)
}

/// Address of a service of network `number`: at end 0, or at the front's end, 1.
fn service_address(number: u8, end: usize) -> SocketAddr {
    SocketAddr::from((addresses(number)[end], PORT))
}

/// Settings of a service. The front has `parts`; each service may write a queue report.
fn settings(plan: &Plan, listen: SocketAddr, parts: &[SocketAddr], queue_report: Option<PathBuf>) -> String {
    let (config, host) = (&plan.config, &plan.host);
    let is_front = !parts.is_empty();
    let stage = &config.stages[usize::from(!is_front)];
    json!({
        "listen": listen, "parts": parts, "threads": stage.servers,
        "order": config.order.to_string(), "shedding": config.shedding.to_string(),
        "age_max_ns": config.age_max.as_nanos(), "capacity": config.capacity,
        "answer": host.answer, "dscp": host.dscp, "loss_ns": host.loss.map(|loss| loss.as_nanos()),
        // greenwave's stack has its own congestion control.
        "congestion": (!(is_front && host.stack)).then_some(&host.congestion),
        "guard": if is_front && plan.mechanisms.guard { "queue-delay" } else { "none" },
        "guard_target_ns": host.guard_target.as_nanos(),
        "queue_report": queue_report,
    })
    .to_string()
}

/// Task file of `greenwave sched`: `services`, the front first, with their files of core requests,
/// if any; and `be`.
fn tasks(services: &[u32], request_files: &[PathBuf], be: u32) -> String {
    let mut text = format!(
        "policy = \"caladan\"\nmechanism = \"affinity\"\nsensor = \"none\"\ncores = \"{}\"\n",
        SHARED_CORE.0
    );
    for (n, pid) in services.iter().enumerate() {
        // The only core cannot be guaranteed to each of them.
        let guaranteed = u8::from(n == 0);
        let request_file =
            request_files.get(n).map_or(String::new(), |file| format!("joined = [{file:?}]\n"));
        text += &format!(
            "[[tasks]]\nname = \"service-{n}\"\nclass = \"LC\"\npid = {pid}\nguaranteed = {guaranteed}\n\
             delay_max = \"{DELAY_MAX}\"\n{request_file}"
        );
    }
    text + &format!("[[tasks]]\nname = \"be\"\nclass = \"BE\"\npid = {be}\n")
}

/// Runs `start` on a thread pinned to `core`; its child processes inherit the affinity.
pub fn on_core<R: Send>(core: CoreId, start: impl FnOnce() -> Result<R, Error> + Send) -> Result<R, Error> {
    thread::scope(|scope| {
        let work = scope.spawn(move || {
            affinity::pin(core).map_err(|e| Error::new(format!("core {}: {e}", core.0)))?;
            start()
        });
        work.join().map_err(|_| Error::new("a pinned thread panicked"))?
    })
}

/// Command of the load generator, beside this program.
///
/// # Errors
/// It does not exist.
pub fn load_generator(users: &Namespace) -> Result<Command, Error> {
    let mut command = users.command(&processes::program()?.display().to_string());
    command.arg("calls");
    Ok(command)
}
