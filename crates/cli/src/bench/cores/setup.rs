//! Test setup of one measurement: one server, its clients, and the veth pair between them.
//!
//! The veth pair has one queue per core of a side. Frames sent on queue i arrive on queue i of the
//! peer and are received on the i-th core there (receive packet steering), as with a NIC that has
//! one queue per core and hashes by the symmetric key: clients select the queue so, and a flow
//! arrives at the server on its client's queue. greenwave is configured for it (`--flow-hash rss`),
//! has a stack on each core, and each worker with its own listener is attached to one stack. The
//! kernel assigns a connection to a worker by the hash of its listeners, independent of the
//! receiving core. The sender selects the queue of an answer, and clients forward it to each other
//! if necessary.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host::{cpu_time, proc};
use load::closed_loop::{Exchange, LoadModel, RequestStream};
use netlab::TempDir;
use netlab::{Child, LabError, Namespace, NetLab, Veth, is_installed};
use queueing::Span;
use rustix::process::{Pid, Signal, kill_process};

use super::clients::{ClientResults, Clients};
use super::core_assignment::QueueCores;
use super::servers::{ScalingServer, ServerStack};
use crate::bench::comparison::kernel_address;
use crate::load_client::OPEN_WITHIN;
use crate::options::secret_of;
use crate::programs::{self, SERVER, SMALL};

/// Settings that all measurements of a row share.
pub struct RowSettings<'a> {
    pub cores: &'a QueueCores,
    /// Device of greenwave's stack: xdp or packet.
    pub device: &'a str,
    pub busy_poll: Option<Span>,
    pub lib: Option<&'a Path>,
    /// Connections of each client.
    pub connections: u32,
    pub time: Span,
    pub seed: u64,
}

/// Devices of the server and the clients.
const HERE: &str = "gw0";
const THERE: &str = "gw1";
/// Timeout of the first answer, and of one attempt.
const START: Duration = Duration::from_secs(20);
const TRY: Span = Span::from_millis(100);
/// Busy-polling time of greenwave's stack on its own cores.
const SPIN: Span = Span::from_micros(20);

/// Measures `server` on `stack`.
///
/// # Errors
/// The reason why it could not be measured, in one line.
pub fn measure(
    lab: &NetLab,
    server: ScalingServer,
    stack: ServerStack,
    setting: &RowSettings<'_>,
) -> Result<ClientResults, String> {
    if server.program().is_some_and(|program| !is_installed(program.name())) {
        return Err("the program is not installed".to_owned());
    }
    let mut setup = Setup::new(lab, server, stack, setting)?;
    setup.first()?;
    let kind = kind(server.request(), setting.connections);
    let exchange = Exchange { kinds: vec![kind], warmup: setting.time / 2, duration: setting.time };
    setup.exchange(1, &exchange, setting.time * 4 + OPEN_WITHIN).map_err(|why| setup.ended(why))
}

struct Setup<'a> {
    // Fields are in drop order.
    child: ServerProcess,
    clients: Clients,
    server: ScalingServer,
    setting: &'a RowSettings<'a>,
    _namespaces: [Namespace; 2],
    _folder: TempDir,
}

/// Server process and its descendants.
struct ServerProcess(Child);

impl ServerProcess {
    /// Kills the server's process and its descendants: workers do not exit with their master.
    fn end(&self) {
        let pids = proc::family(self.0.id()).into_iter().filter_map(|id| Pid::from_raw(id.try_into().ok()?));
        for pid in pids {
            // Fails if it has exited, which is fine.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.end();
    }
}

impl<'a> Setup<'a> {
    fn new(
        lab: &NetLab,
        server: ScalingServer,
        stack: ServerStack,
        setting: &'a RowSettings<'a>,
    ) -> Result<Self, String> {
        let failed = |e: LabError| e.to_string();
        let (server_ns, clients_ns) =
            (lab.namespace("server").map_err(failed)?, lab.namespace("clients").map_err(failed)?);
        for namespace in [&server_ns, &clients_ns] {
            let _ = namespace.without_ipv6();
        }
        let cores = setting.cores;
        let cable = Veth { queues: cores.count() as u16, ..Veth::default() };
        lab.veth((&server_ns, HERE), (&clients_ns, THERE), &cable).map_err(failed)?;
        for (namespace, device, cores) in
            [(&server_ns, HERE, &cores.servers), (&clients_ns, THERE, &cores.clients)]
        {
            for (queue, &core) in (0..).zip(cores) {
                namespace.steer_queue(device, queue, core).map_err(failed)?;
            }
        }
        if stack == ServerStack::Kernel {
            kernel_address(&server_ns, HERE).map_err(failed)?;
        }
        let folder = TempDir::new("cores").map_err(failed)?;
        let mut command = command(&server_ns, server, stack, setting, &folder)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = ServerProcess(server_ns.spawn_within(&cores.servers, &mut command).map_err(failed)?);
        let clients = Clients::open(&clients_ns, THERE, cores)?;
        Ok(Self { child, clients, server, setting, _namespaces: [server_ns, clients_ns], _folder: folder })
    }

    /// Waits until the server answers.
    fn first(&mut self) -> Result<(), String> {
        let (end, mut tries) = (Instant::now() + START, 2);
        loop {
            let kinds = vec![kind(self.server.first(), 1)];
            let exchange = Exchange { kinds, warmup: Span::ZERO, duration: TRY };
            if self.exchange(tries, &exchange, TRY * 3).is_ok_and(|measured| measured.answers > 0) {
                return Ok(());
            }
            let ended = self.child.0.try_wait().map_err(|e| e.to_string())?.is_some();
            if ended || Instant::now() > end {
                return Err(self.stderr());
            }
            tries += 1;
        }
    }

    fn exchange(&mut self, which: u64, exchange: &Exchange, limit: Span) -> Result<ClientResults, String> {
        let mut accounts = proc::family(self.child.0.id());
        for core in &self.setting.cores.servers {
            accounts.extend(cpu_time::kernel_thread(&format!("ksoftirqd/{}\n", core.0)));
        }
        let used = || accounts.iter().filter_map(|&id| cpu_time::process(id).ok()).sum::<Span>();
        let secret = secret_of(self.setting.seed << 32 | which, self.child.0.id().into());
        self.clients.exchange(exchange, secret, &used, limit)
    }

    /// `why`, or the error that the server has ended.
    fn ended(&mut self, why: String) -> String {
        match self.child.0.try_wait() {
            Ok(Some(status)) => format!("{why}; the server has ended ({status}): {}", self.stderr()),
            _ => why,
        }
    }

    /// Output of a server that did not serve.
    fn stderr(&mut self) -> String {
        self.child.end();
        programs::read_stderr(&mut self.child.0)
    }
}

/// Closed loop with one request per connection.
fn kind(
    (request, answer): (Vec<u8>, load::closed_loop::ExpectedResponse),
    connections: u32,
) -> RequestStream {
    RequestStream { connections, request, answer, pace: LoadModel::Closed { outstanding: 1 } }
}

/// Command of the server in `namespace`, with one thread of each kind per core.
fn command(
    namespace: &Namespace,
    server: ScalingServer,
    stack: ServerStack,
    setting: &RowSettings<'_>,
    folder: &TempDir,
) -> Result<Command, String> {
    let count = setting.cores.count();
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let this = || namespace.command(&this.to_string_lossy());
    let program = server
        .program()
        .map(|program| program.command(SERVER, Some(&setting.cores.servers), &[SMALL], folder));
    let program = program.transpose().map_err(|e| e.to_string())?;
    if stack == ServerStack::Kernel {
        let Some(words) = program else {
            let mut command = this();
            command.args(["bench", "peer", "--system", "kernel", "--app", "echo"]);
            command.args(["--addr", &SERVER.to_string(), "--threads", &count.to_string()]);
            return Ok(command);
        };
        let mut command = namespace.command(&words[0]);
        command.args(&words[1..]);
        return Ok(command);
    }
    let mut command = this();
    command.arg(if program.is_some() { "run" } else { "serve" });
    let device = match count {
        1 => format!("{}:{HERE}", setting.device),
        _ => format!("{}:{HERE},queues={count}", setting.device),
    };
    command.args(["--device", &device, "--addr", &format!("{SERVER}/24"), "--shards", &count.to_string()]);
    command.args(["--pin", "--flow-hash", "rss"]);
    let busy_poll = setting.busy_poll.unwrap_or(if program.is_some() { Span::ZERO } else { SPIN });
    command.args(["--busy-poll", &format!("{}ns", busy_poll.as_nanos())]);
    match program {
        None => drop(command.args(["--app", "echo", "--mode", "none"])),
        Some(words) => {
            if let Some(lib) = setting.lib {
                command.arg("--lib").arg(lib);
            }
            command.arg("--").args(words);
        }
    }
    Ok(command)
}
