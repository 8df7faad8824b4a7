//! Test setup of one measurement: one server, one client and the link between them.
//!
//! On a veth pair the server has one end and the client, over AF_XDP, the other. A server on a TAP
//! device has its descriptor, and the client a packet socket, which receives checksum-offload
//! metadata, on the kernel's end; for the kernel as server the ends are swapped. By default,
//! received packets are steered to the receiver's core: without steering, these devices do the
//! receiver's half of the work on the sender's core.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use drivers::Tap;
use drivers::packet::{self, PacketSocket};
use host::cpu_time::CpuTimeMeter;
use host::{Monotonic, affinity};
use load::closed_loop::{ClosedLoopClient, ExchangeResults, KindResults};
use netlab::{Child, LabError, Namespace, NetLab, Veth};
use queueing::{Clock, CoreId, Histogram, Span};

use super::cases::Case;
use super::gvisor::GvisorProgram;
use super::systems::{System, SystemDevice, SystemStack};
use super::{BenchCores, RxCore};
use crate::bench::baselines::{PORT, Serves, page};
use crate::bench::comparison::kernel_address;
use crate::load_client::{self, FRAMES, OPEN_WITHIN, xdp};
use crate::options::secret_of;
use crate::panics;
use crate::programs::SERVER;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// Devices of the server and the client.
const HERE: &str = "gw0";
const THERE: &str = "gw1";

/// Settings that all measurements of a round share.
pub struct RoundSettings<'a> {
    pub cores: BenchCores,
    pub time: Span,
    pub rx_core: RxCore,
    pub busy_poll: Span,
    pub tx_coalesce: Span,
    pub gvisor: &'a GvisorProgram,
    pub seed: u64,
}

/// Results of one measurement.
#[derive(Clone, Debug)]
pub struct SystemResults {
    pub answers_per_s: f64,
    pub bytes_per_s: f64,
    /// Share of a core that the server used.
    pub cores: f64,
    pub latency: Histogram,
    /// Connections closed before the end.
    pub broken: u64,
    /// Number of segments that the client retransmitted, and number of all that it sent.
    pub resent: u64,
    pub sent: u64,
    /// Segments that the client received out of order: earlier ones were lost.
    pub early: u64,
}

/// Measures `system` in `case`.
///
/// # Errors
/// The reason why it could not be measured, in one line.
pub fn measure(
    lab: &NetLab,
    system: &System,
    case: &Case,
    setting: &RoundSettings<'_>,
) -> Result<SystemResults, String> {
    let failed = |e: LabError| e.to_string();
    let server = lab.namespace("server").map_err(failed)?;
    let client = lab.namespace("client").map_err(failed)?;
    for namespace in [&server, &client] {
        let _ = namespace.without_ipv6();
    }
    let setup = Setup { system, case, setting, server, client };
    match system.device {
        SystemDevice::Veth | SystemDevice::Xdp | SystemDevice::XdpNative | SystemDevice::Packet => {
            setup.on_veth(lab)
        }
        SystemDevice::Tap if system.stack == SystemStack::Kernel => setup.on_kernel_tap(),
        SystemDevice::Tap => setup.on_tap(),
    }
}

struct Setup<'a> {
    system: &'a System,
    case: &'a Case,
    setting: &'a RoundSettings<'a>,
    server: Namespace,
    client: Namespace,
}

impl Setup<'_> {
    fn on_veth(&self, lab: &NetLab) -> Result<SystemResults, String> {
        let failed = |e: LabError| e.to_string();
        let BenchCores { client, server, .. } = self.setting.cores;
        lab.veth((&self.server, HERE), (&self.client, THERE), &Veth::default()).map_err(failed)?;
        self.steer(&self.server, HERE, server)?;
        self.steer(&self.client, THERE, client)?;
        if self.system.stack == SystemStack::Kernel {
            kernel_address(&self.server, HERE).map_err(failed)?;
        }
        let child = self.start(&format!("{}:{HERE}", self.system.device.name()))?;
        let (device, mac) = self.client.enter(|| xdp(THERE, CLIENT))?;
        self.drive(device, mac, &child)
    }

    /// The server opens the TAP device; the client uses its kernel end.
    fn on_tap(&self) -> Result<SystemResults, String> {
        let failed = |e: LabError| e.to_string();
        let child = self.start(&format!("tap:{HERE}"))?;
        self.server.disable_offloads(HERE).map_err(failed)?;
        self.server.up(HERE).map_err(failed)?;
        self.steer(&self.server, HERE, self.setting.cores.client)?;
        let (device, mac) = self.server.enter(|| packet_socket(HERE))?;
        self.drive(device, mac, &child)
    }

    /// The client opens the TAP device; the kernel serves at its end.
    fn on_kernel_tap(&self) -> Result<SystemResults, String> {
        let failed = |e: LabError| e.to_string();
        let tap = self.server.enter(|| Tap::create(HERE)).map_err(|e| e.to_string())?;
        self.server.disable_offloads(HERE).map_err(failed)?;
        self.server.up(HERE).map_err(failed)?;
        self.steer(&self.server, HERE, self.setting.cores.server)?;
        kernel_address(&self.server, HERE).map_err(failed)?;
        let child = self.start("")?;
        self.drive(tap, [2, 0, 0, 0, 0, 1], &child)
    }

    /// Steers frames received on `device` to `core`, if that is configured.
    fn steer(&self, namespace: &Namespace, device: &str, core: CoreId) -> Result<(), String> {
        if self.setting.rx_core == RxCore::Sender {
            return Ok(());
        }
        namespace.steer_receive(device, core).map_err(|e| e.to_string())
    }

    /// Starts the server on its core and waits until it is ready.
    fn start(&self, device: &str) -> Result<Child, String> {
        let app = match self.case.serves {
            Serves::Echo => "echo",
            Serves::Http => "http",
            Serves::Sink => "sink",
            Serves::Source => "source",
        };
        let mut command = if self.system.stack == SystemStack::Gvisor {
            self.gvisor(self.setting.gvisor.as_ref()?, app)?
        } else {
            let this = std::env::current_exe().map_err(|e| e.to_string())?;
            let mut command = self.server.command(&this.to_string_lossy());
            let connections = self.case.connections.to_string();
            command.args(["bench", "peer", "--system", self.system.stack.name(), "--device", device]);
            command.args(["--addr", &SERVER.to_string(), "--app", app, "--connections", &connections]);
            for (option, span) in
                [("--busy-poll", self.setting.busy_poll), ("--tx-coalesce", self.setting.tx_coalesce)]
            {
                command.args([option, &format!("{}ns", span.as_nanos())]);
            }
            command
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.server.spawn_on(self.setting.cores.server, &mut command);
        let mut child = child.map_err(|e| e.to_string())?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("the server has no stdout")?;
        BufReader::new(stdout).read_line(&mut line).map_err(|e| e.to_string())?;
        if line.trim() == "ready" {
            return Ok(child);
        }
        let mut first_line = String::new();
        if let Some(stderr) = child.stderr.take() {
            let _ = BufReader::new(stderr).read_line(&mut first_line);
        }
        Err(first_line.trim().trim_start_matches("error: ").to_owned())
    }

    fn gvisor(&self, program: &Path, app: &str) -> Result<Command, String> {
        let mut command = self.server.command(&program.to_string_lossy());
        command.args(["-device", HERE, "-addr", &format!("{SERVER}/24"), "-app", app]);
        if app == "http" {
            let file = program.with_extension("page");
            std::fs::write(&file, page()).map_err(|e| format!("{}: {e}", file.display()))?;
            command.arg("-response").arg(file);
        }
        Ok(command)
    }

    /// Runs the client on its core against the server `child`.
    fn drive<D: net::Device + Send>(
        &self,
        device: D,
        mac: [u8; 6],
        child: &Child,
    ) -> Result<SystemResults, String> {
        let secret = secret_of(self.setting.seed, u64::from(child.id()));
        let exchange = self.case.exchange(self.setting.time, self.setting.seed);
        let client = ClosedLoopClient::new(
            exchange,
            load_client::stack(mac, CLIENT, secret),
            SocketAddr::from((SERVER, PORT)),
        );
        let meter = CpuTimeMeter::new(child.id(), self.setting.cores.server);
        let core = self.setting.cores.client;
        let limit = self.setting.time * 4 + OPEN_WITHIN;
        std::thread::scope(|scope| {
            let client = scope.spawn(move || {
                affinity::pin(core).map_err(|e| e.to_string())?;
                run(client, device, &meter, limit)
            });
            panics::join("the client", client)?
        })
    }
}

/// Runs the exchange; samples the server's CPU time at the start and at the end of the measured
/// interval.
fn run<D: net::Device>(
    mut client: ClosedLoopClient,
    mut device: D,
    meter: &CpuTimeMeter,
    limit: Span,
) -> Result<SystemResults, String> {
    let clock = Monotonic::new();
    let end = clock.now() + limit;
    let mut before = None;
    while !client.is_done() {
        let now = clock.now();
        if before.is_none() && client.is_measuring(now) {
            before = Some(meter.used().map_err(|_| "the server ended")?);
        }
        if !client.step(now, &mut device) {
            std::hint::spin_loop();
        }
        if now > end {
            return Err(client.connect_status());
        }
    }
    let before = before.ok_or("the client did not get its core during the measurement")?;
    let used = meter.used().map_err(|_| "the server ended")?.saturating_sub(before);
    let counters = client.stack().counters();
    let ExchangeResults { span, kinds } = client.outcome().clone();
    let KindResults { answers, bytes, latency, broken, .. } =
        kinds.into_iter().next().ok_or("no such kind of device")?;
    let seconds = span.as_secs_f64();
    Ok(SystemResults {
        answers_per_s: answers as f64 / seconds,
        bytes_per_s: bytes as f64 / seconds,
        cores: used.as_secs_f64() / seconds,
        latency,
        broken,
        resent: counters.retransmissions,
        sent: counters.frames_sent,
        early: counters.out_of_order,
    })
}

/// A packet socket on `device` of this thread's namespace, and its MAC address.
fn packet_socket(device: &str) -> Result<(PacketSocket, [u8; 6]), String> {
    let options = packet::Options { frames: FRAMES, ..packet::Options::default() };
    let (interface, mut sockets) = packet::open(device, &options).map_err(|e| e.to_string())?;
    Ok((sockets.pop().ok_or("there is no AF_PACKET socket")?, interface.mac))
}
