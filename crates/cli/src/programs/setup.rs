//! Test setup: one server, on the kernel's TCP or on greenwave's, and its clients.
//!
//! The server and all work for it share one core: its process, the stack's, and the kernel's
//! receive path. Clients are greenwave's stack on another core over AF_XDP, with the same requests
//! for both stacks. Several clients are connected to a kernel bridge in a separate namespace, each
//! with its own address and device, which the caller may wrap in an impaired path.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use drivers::afxdp::AfXdp;
use host::{Monotonic, affinity, cpu_time, proc};
use load::closed_loop::{ClosedLoopClient, Exchange, KindResults, LoadModel, RequestStream};
use net::Device;
use netlab::TempDir;
use netlab::{Child, LabError, Namespace, NetLab, Veth};
use queueing::{Clock, CoreId, Span};

use super::server::{Item, PORT, Program};
use crate::load_client::{self, OPEN_WITHIN, xdp};
use crate::options::secret_of;
use crate::panics;

/// TCP/IP stack and policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackChoice {
    Kernel,
    /// greenwave's stack, FCFS.
    None,
    /// greenwave's stack with a policy.
    Adps,
}

impl StackChoice {
    pub const ALL: [Self; 3] = [Self::Kernel, Self::None, Self::Adps];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::None => "greenwave-none",
            Self::Adps => "greenwave-adps",
        }
    }
}

/// Settings that all setups share.
pub struct ProgramSettings<'a> {
    pub client: CoreId,
    /// Core of the clients' receive processing.
    pub receive: CoreId,
    pub server: CoreId,
    /// Device of greenwave's stack: xdp or packet.
    pub device: &'a str,
    pub busy_poll: Span,
    pub lib: Option<&'a Path>,
    /// Content of the server.
    pub items: &'a [Item],
    /// Policy of [`StackChoice::Adps`].
    pub policy: &'a str,
    pub seed: u64,
}

/// Client end of the network.
pub struct ClientEnd<D> {
    device: D,
    mac: [u8; 6],
    addr: Ipv4Addr,
}

impl<D> ClientEnd<D> {
    /// The same client with `change` applied to its device.
    pub fn map<E>(self, change: impl FnOnce(D) -> E) -> ClientEnd<E> {
        ClientEnd { device: change(self.device), mac: self.mac, addr: self.addr }
    }
}

/// A server that answers.
pub struct ProgramSetup<'a, D> {
    // Fields are in drop order.
    child: Child,
    clients: Vec<ClientEnd<D>>,
    program: Program,
    /// Processes of the server and the softirq thread of its core.
    processes: Vec<u32>,
    setting: &'a ProgramSettings<'a>,
    exchanges: u64,
    _namespaces: Vec<Namespace>,
    _folder: TempDir,
}

/// Results of one exchange.
pub struct ProgramExchange {
    /// Kinds of each client, concatenated.
    pub kinds: Vec<KindResults>,
    pub span: Span,
    /// Share of a core that the server used.
    pub cores: f64,
    /// Share of time in which the clients had work: near 1 they are the bottleneck.
    pub busy: f64,
}

/// Address of the servers, in a /24 network.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// Devices of the server and of a client.
const HERE: &str = "gw0";
const THERE: &str = "gw1";
/// Timeout of the first answer.
const START: Duration = Duration::from_secs(20);
/// Timeout of one attempt.
const TRY: Span = Span::from_millis(100);

impl<'a, D: Device + Send> ProgramSetup<'a, D> {
    /// Starts `program` on `stack` with its clients; `change` wraps the device of each client.
    ///
    /// # Errors
    /// The reason why it does not serve, in one line.
    pub fn new(
        lab: &NetLab,
        program: Program,
        stack: StackChoice,
        setting: &'a ProgramSettings<'a>,
        clients: usize,
        change: impl Fn(usize, AfXdp) -> D,
    ) -> Result<Self, String> {
        let failed = |e: LabError| e.to_string();
        let server = lab.namespace("server").map_err(failed)?;
        let _ = server.without_ipv6();
        let mut namespaces = Vec::new();
        for n in 0..clients {
            let client = lab.namespace(&format!("client {n}")).map_err(failed)?;
            let _ = client.without_ipv6();
            namespaces.push(client);
        }
        match &namespaces[..] {
            [client] => lab.veth((&server, HERE), (client, THERE), &Veth::default()).map_err(failed)?,
            all => namespaces.push(bridge(lab, &server, all)?),
        }
        server.steer_receive(HERE, setting.server).map_err(failed)?;
        let folder = TempDir::new("programs").map_err(failed)?;
        let words = program.command(SERVER, None, setting.items, &folder).map_err(failed)?;
        let mut command = match stack {
            StackChoice::Kernel => {
                kernel_address(&server, HERE).map_err(failed)?;
                let mut command = server.command(&words[0]);
                command.args(&words[1..]);
                command
            }
            StackChoice::None | StackChoice::Adps => {
                let this = std::env::current_exe().map_err(|e| e.to_string())?;
                let mut command = server.command(&this.to_string_lossy());
                let device = format!("{}:{HERE}", setting.device);
                command.args(["run", "--device", &device, "--addr", &format!("{SERVER}/24")]);
                command.args(["--busy-poll", &format!("{}ns", setting.busy_poll.as_nanos())]);
                if let Some(lib) = setting.lib {
                    command.arg("--lib").arg(lib);
                }
                if stack == StackChoice::Adps {
                    let policy = folder.write("policy.toml", setting.policy.as_bytes()).map_err(failed)?;
                    command.arg("--policy").arg(policy);
                }
                command.arg("--").args(&words);
                command
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = server.spawn_on(setting.server, &mut command).map_err(failed)?;
        let mut ends = Vec::new();
        for (n, client) in namespaces.iter().take(clients).enumerate() {
            client.steer_receive(THERE, setting.receive).map_err(failed)?;
            let addr = Ipv4Addr::new(10, 77, 0, 3 + n as u8);
            let (device, mac) = client.enter(|| xdp(THERE, addr))?;
            ends.push(ClientEnd { device, mac, addr }.map(|device| change(n, device)));
        }
        namespaces.push(server);
        let (processes, exchanges) = (Vec::new(), 0);
        let (clients, _namespaces, _folder) = (ends, namespaces, folder);
        let mut setup = Self { child, clients, program, processes, setting, exchanges, _namespaces, _folder };
        for item in setting.items {
            setup.store(*item)?;
        }
        setup.processes = proc::family(setup.child.id());
        setup.processes.extend(cpu_time::kernel_thread(&format!("ksoftirqd/{}\n", setting.server.0)));
        Ok(setup)
    }

    /// Stores the item as soon as the server answers.
    fn store(&mut self, item: Item) -> Result<(), String> {
        let end = Instant::now() + START;
        loop {
            let (request, answer) = self.program.store(item);
            let pace = LoadModel::Closed { outstanding: 1 };
            let kind = RequestStream { connections: 1, request, answer, pace };
            let stored = self.exchange(vec![vec![kind]], Span::ZERO, TRY, TRY * 3);
            if stored.is_ok_and(|measured| measured.kinds[0].answers > 0) {
                return Ok(());
            }
            let ended = self.child.try_wait().map_err(|e| e.to_string())?.is_some();
            if ended || Instant::now() > end {
                return Err(self.stderr());
            }
        }
    }

    /// Output of a server that did not serve.
    fn stderr(&mut self) -> String {
        let _ = self.child.kill();
        read_stderr(&mut self.child)
    }

    /// Runs `kinds` for `time` after `warmup`, one list per client; all clients begin together,
    /// when the last connection is open.
    ///
    /// # Errors
    /// The server has ended, or does not accept connections.
    pub fn measure(
        &mut self,
        kinds: Vec<Vec<RequestStream>>,
        warmup: Span,
        time: Span,
    ) -> Result<ProgramExchange, String> {
        let measured = self.exchange(kinds, warmup, time, (warmup + time) * 4 + OPEN_WITHIN);
        measured.map_err(|why| match self.child.try_wait() {
            Ok(Some(status)) => format!("{why}; the server has ended ({status}): {}", self.stderr()),
            _ => why,
        })
    }

    fn exchange(
        &mut self,
        kinds: Vec<Vec<RequestStream>>,
        warmup: Span,
        duration: Span,
        limit: Span,
    ) -> Result<ProgramExchange, String> {
        let mut driven = Vec::new();
        for (client, kinds) in self.clients.iter_mut().zip(kinds) {
            self.exchanges += 1;
            let secret = secret_of(self.setting.seed << 32 | self.exchanges, self.child.id().into());
            let config = load_client::stack(client.mac, client.addr, secret);
            let exchange = Exchange { kinds, warmup, duration };
            let exchanger =
                ClosedLoopClient::new(exchange, config, SocketAddr::from((SERVER, PORT))).paused();
            driven.push((exchanger, &mut client.device));
        }
        let (processes, core) = (&self.processes, self.setting.client);
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                affinity::pin(core).map_err(|e| e.to_string())?;
                carry_out(driven, processes, limit)
            });
            panics::join("the client", client)?
        })
    }
}

fn carry_out<D: Device>(
    mut clients: Vec<(ClosedLoopClient, &mut D)>,
    processes: &[u32],
    limit: Span,
) -> Result<ProgramExchange, String> {
    let used = || processes.iter().filter_map(|&id| cpu_time::process(id).ok()).sum::<Span>();
    let clock = Monotonic::new();
    let end = clock.now() + limit;
    let (mut before, mut after, mut worked) = (None, None, Span::ZERO);
    let mut last = clock.now();
    while clients.iter().any(|(client, _)| !client.is_done()) && clock.now() < end {
        let mut busy = false;
        for (client, device) in &mut clients {
            let now = clock.now();
            busy |= client.step(now, &mut **device);
            // Flushes frames that the device delayed.
            device.flush(now);
        }
        if !busy {
            std::hint::spin_loop();
        }
        if clients.iter().all(|(client, _)| client.is_open()) {
            clients.iter_mut().for_each(|(client, _)| client.begin());
        }
        // Counts while all clients measure.
        let now = clock.now();
        if busy && before.is_some() && after.is_none() {
            worked += now.since(last);
        }
        last = now;
        if before.is_none() && clients.iter().all(|(client, _)| client.is_measuring(now)) {
            before = Some((now, used()));
        }
        if before.is_some() && after.is_none() && !clients.iter().all(|(client, _)| client.is_measuring(now))
        {
            after = Some((now, used()));
        }
    }
    for (client, device) in &mut clients {
        client.reset_all(clock.now(), &mut **device);
    }
    if let Some((client, _)) = clients.iter().find(|(client, _)| !client.is_done()) {
        return Err(client.connect_status());
    }
    let span = clients[0].0.outcome().span;
    let kinds = clients.iter().flat_map(|(client, _)| client.outcome().kinds.clone()).collect();
    let (cores, busy) = match (before, after) {
        (Some((from, before)), Some((to, after))) => {
            let share = |of: Span| of.as_secs_f64() / to.since(from).as_secs_f64().max(1e-9);
            (share(after.saturating_sub(before)), share(worked))
        }
        _ => (f64::NAN, f64::NAN),
    };
    Ok(ProgramExchange { kinds, span, cores, busy })
}

/// Assigns the server's address to the kernel's `device`, with CUBIC, as on greenwave's stack,
/// whatever the machine's default.
///
/// # Errors
/// The errors of `ip`.
pub fn kernel_address(namespace: &Namespace, device: &str) -> Result<(), LabError> {
    namespace.address(device, SERVER.into(), 24)?;
    let route = ["route", "replace", "10.77.0.0/24", "dev", device, "src", "10.77.0.2", "congctl", "cubic"];
    namespace.run("ip", &route).map(drop)
}

/// Error of a server that has ended or was killed: its panic message, or its last line.
pub fn read_stderr(server: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = server.stderr.take() {
        let _ = stderr.read_to_string(&mut text);
    }
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(at) = lines.iter().position(|line| line.contains("panicked at")) {
        return lines[at..].iter().take(2).copied().collect::<Vec<_>>().join(" ");
    }
    let line = lines.last();
    line.map_or("it does not answer".to_owned(), |line| line.trim_start_matches("error: ").to_owned())
}

/// A namespace with a bridge, and a veth pair to it from `server` and each of `clients`.
fn bridge(lab: &NetLab, server: &Namespace, clients: &[Namespace]) -> Result<Namespace, String> {
    let failed = |e: LabError| e.to_string();
    let between = lab.namespace("between").map_err(failed)?;
    let _ = between.without_ipv6();
    between.run("ip", &["link", "add", "bridge", "type", "bridge"]).map_err(failed)?;
    between.up("bridge").map_err(failed)?;
    let ends = clients.iter().map(|client| (client, THERE)).chain([(server, HERE)]);
    for (n, end) in ends.enumerate() {
        let port = format!("port{n}");
        lab.veth(end, (&between, &port), &Veth::default()).map_err(failed)?;
        between.run("ip", &["link", "set", "dev", &port, "master", "bridge"]).map_err(failed)?;
    }
    Ok(between)
}
