//! One server on its cores, its clients on theirs, and the cable between them,
//! for one measurement.
//!
//! The cable has a queue for each core of a side. What one side sends by queue
//! i comes to the other's queue i, and is received on the i-th core there
//! (receive packet steering), as behind a card with a queue for each core
//! that hashes by the symmetric key: clients do so, and a flow comes to the
//! server by its client's queue. Ours is told (`--flow-hash rss`), has a stack
//! on each core, and workers with listeners of their own hear of one stack.
//! The kernel brings a connection to the worker that its listeners' hash says,
//! whatever core it came to. By which queue an answer leaves is the sender's
//! affair, and clients hand it on among themselves where they have to.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host::netlab::{Child, LabError, Namespace, NetLab, TempDir, Veth, is_installed};
use host::{cpu_time, proc};
use load::closed_loop::{Exchange, Kind, Pace};
use queueing::Span;
use rustix::process::{Pid, Signal, kill_process};

use super::clients::{Clients, Measured};
use super::core_assignment::Cores;
use super::servers::{Server, Stack};
use crate::bench::comparison::kernel_address;
use crate::load_client::OPEN_WITHIN;
use crate::options::secret_of;
use crate::programs::{self, SERVER, SMALL};

/// What all measurements of a row share.
pub struct Setting<'a> {
    pub cores: &'a Cores,
    /// Our stack's device: xdp or packet.
    pub device: &'a str,
    pub spin: Option<Span>,
    pub lib: Option<&'a Path>,
    /// Connections of each client.
    pub crowd: u32,
    pub time: Span,
    pub seed: u64,
}

/// The server's device and the clients'.
const HERE: &str = "gw0";
const THERE: &str = "gw1";
/// How long a server may take to answer first, and one try.
const START: Duration = Duration::from_secs(20);
const TRY: Span = Span::from_millis(100);
/// Of our stack where it has its cores for itself.
const SPIN: Span = Span::from_micros(20);

/// Measures `server` on `stack`.
///
/// # Errors
/// Why it could not be measured, in a line.
pub fn measure(
    lab: &NetLab,
    server: Server,
    stack: Stack,
    setting: &Setting<'_>,
) -> Result<Measured, String> {
    if server.program().is_some_and(|program| !is_installed(program.name())) {
        return Err("the program is not there".to_owned());
    }
    let mut place = Place::new(lab, server, stack, setting)?;
    place.first()?;
    let kind = kind(server.ask(), setting.crowd);
    let exchange = Exchange { kinds: vec![kind], warmup: setting.time / 2, duration: setting.time };
    place.exchange(1, &exchange, setting.time * 4 + OPEN_WITHIN).map_err(|why| place.ended(why))
}

struct Place<'a> {
    // In the order in which they are to go.
    child: Crew,
    clients: Clients,
    server: Server,
    setting: &'a Setting<'a>,
    _namespaces: [Namespace; 2],
    _folder: TempDir,
}

/// A server's process and those that it starts.
struct Crew(Child);

impl Crew {
    /// Kills all of them: a master's workers do not end with it.
    fn end(&self) {
        let pids = proc::family(self.0.id()).into_iter().filter_map(|id| Pid::from_raw(id.try_into().ok()?));
        for pid in pids {
            // One that has ended meanwhile is no loss.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.end();
    }
}

impl<'a> Place<'a> {
    fn new(lab: &NetLab, server: Server, stack: Stack, setting: &'a Setting<'a>) -> Result<Self, String> {
        let said = |e: LabError| e.to_string();
        let (here, there) = (lab.namespace("server").map_err(said)?, lab.namespace("clients").map_err(said)?);
        for namespace in [&here, &there] {
            let _ = namespace.without_ipv6();
        }
        let cores = setting.cores;
        let cable = Veth { queues: cores.count() as u16, ..Veth::default() };
        lab.veth((&here, HERE), (&there, THERE), &cable).map_err(said)?;
        for (namespace, device, cores) in [(&here, HERE, &cores.servers), (&there, THERE, &cores.clients)] {
            for (queue, &core) in (0..).zip(cores) {
                namespace.steer_queue(device, queue, core).map_err(said)?;
            }
        }
        if stack == Stack::Kernel {
            kernel_address(&here, HERE).map_err(said)?;
        }
        let folder = TempDir::new("cores").map_err(said)?;
        let mut command = command(&here, server, stack, setting, &folder)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = Crew(here.spawn_within(&cores.servers, &mut command).map_err(said)?);
        let clients = Clients::open(&there, THERE, cores)?;
        Ok(Self { child, clients, server, setting, _namespaces: [here, there], _folder: folder })
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
                return Err(self.said());
            }
            tries += 1;
        }
    }

    fn exchange(&mut self, which: u64, exchange: &Exchange, limit: Span) -> Result<Measured, String> {
        let mut accounts = proc::family(self.child.0.id());
        for core in &self.setting.cores.servers {
            accounts.extend(cpu_time::kernel_thread(&format!("ksoftirqd/{}\n", core.0)));
        }
        let used = || accounts.iter().filter_map(|&id| cpu_time::process(id).ok()).sum::<Span>();
        let secret = secret_of(self.setting.seed << 32 | which, self.child.0.id().into());
        self.clients.exchange(exchange, secret, &used, limit)
    }

    /// `why`, or that the server has ended.
    fn ended(&mut self, why: String) -> String {
        match self.child.0.try_wait() {
            Ok(Some(status)) => format!("{why}; the server has ended ({status}): {}", self.said()),
            _ => why,
        }
    }

    /// What the server had to say when it did not serve.
    fn said(&mut self) -> String {
        self.child.end();
        programs::said(&mut self.child.0)
    }
}

/// Each connection asks again when it is answered.
fn kind((request, answer): (Vec<u8>, load::closed_loop::Answer), connections: u32) -> Kind {
    Kind { connections, request, answer, pace: Pace::Closed { outstanding: 1 } }
}

/// What serves in `namespace`, with a thread of each sort for each core.
fn command(
    namespace: &Namespace,
    server: Server,
    stack: Stack,
    setting: &Setting<'_>,
    folder: &TempDir,
) -> Result<Command, String> {
    let count = setting.cores.count();
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let this = || namespace.command(&this.to_string_lossy());
    let program = server
        .program()
        .map(|program| program.command(SERVER, Some(&setting.cores.servers), &[SMALL], folder));
    let program = program.transpose().map_err(|e| e.to_string())?;
    if stack == Stack::Kernel {
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
    let spin = setting.spin.unwrap_or(if program.is_some() { Span::ZERO } else { SPIN });
    command.args(["--spin", &format!("{}ns", spin.as_nanos())]);
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
