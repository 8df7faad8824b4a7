//! Test setup of one run: the server, its host and the network; removed on drop.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use host::affinity;
use host::cpu_time;
use netlab::TempDir;
use netlab::{Child, LabError, Namespace, NetLab, TestGroup, Veth};
use queueing::{CoreId, Span};

use super::super::host_requirements::{check_installed, check_possible};
use super::Config;
use super::guard::AttachedGuard;
use super::server::PORT;
use crate::error::Error;

/// Core of the clients.
pub const CLIENT_CORE: CoreId = CoreId(0);
/// Core of the server, and of its host's receive processing.
pub const SERVER_CORE: CoreId = CoreId(1);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 73, 0, 1);
/// Address of the first client.
pub const VISITORS: Ipv4Addr = Ipv4Addr::new(10, 73, 1, 1);
pub const PREFIX: u8 = 16;
/// Clients' end of the veth pair.
pub const CLIENT_DEVICE: &str = "gw0";

/// CPU bandwidth period of the server's share: shorter than any delay that is measured.
const PERIOD: Span = Span::from_millis(10);
/// Timeout of a server's start.
const START: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A listening server, and the clients' end of its network.
pub struct HttpdSetup {
    // Fields are in drop order.
    guard: Option<AttachedGuard>,
    _server: Child,
    group: TestGroup,
    pub client: Namespace,
    pub host: Namespace,
    /// Host's end of the veth pair.
    device: String,
    /// Kernel thread that receives for the server when softirqs are many.
    receiver: Option<u32>,
    _folder: TempDir,
    _lab: NetLab,
}

impl HttpdSetup {
    /// Creates the setup of `config`.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let server = config.setup.server;
        check_possible("httpd", "overload/e1", "server and visitors")?;
        if !host::proc::sees_kernel_threads() {
            let message = "world httpd: /proc shows no kernel threads, whose CPU time counts as the server's";
            return Err(Error::new(message).advice("the first PID namespace, such as docker run --pid host"));
        }
        check_installed("httpd", server.program(), server.package())?;
        let setup = Self::create(config)?;
        setup.wait_until_listening(config)?;
        match &config.guard {
            None => Ok(setup),
            Some(policy) => {
                let guard = AttachedGuard::attach(&setup.host, &setup.device, SERVER_CORE, policy, config)?;
                Ok(Self { guard: Some(guard), ..setup })
            }
        }
    }

    fn create(config: &Config) -> Result<Self, LabError> {
        let server = config.setup.server;
        let lab = NetLab::new("httpd")?;
        let folder = TempDir::new(server.program())?;
        let [host, client] = ["server", "client"].map(|name| lab.namespace(name));
        let (host, client) = (host?, client?);
        for namespace in [&host, &client] {
            namespace.without_ipv6()?;
        }
        let device = device();
        lab.veth((&host, &device), (&client, CLIENT_DEVICE), &Veth::default())?;
        client.steer_receive(CLIENT_DEVICE, CLIENT_CORE)?;
        let group = TestGroup::preferred(server.program())?;
        if config.setup.share < 1.0 {
            group.limit(config.setup.share, PERIOD)?;
        }
        if config.threaded {
            host.thread_receive(&device)?;
            let thread = cpu_time::kernel_thread(&format!("napi/{device}-"));
            let thread = thread.ok_or_else(|| LabError::Failed {
                namespace: host.name().to_owned(),
                command: format!("echo 1 >/sys/class/net/{device}/threaded"),
                message: "the kernel started no thread".to_owned(),
            })?;
            // The thread counts against the server's share, as softirqs do.
            group.take(thread)?;
            affinity::pin_process(thread, SERVER_CORE)
                .map_err(|e| LabError::Program { program: format!("napi/{device}"), why: e.to_string() })?;
        } else {
            host.steer_receive(&device, SERVER_CORE)?;
        }
        host.address(&device, SERVER.into(), PREFIX)?;
        for (name, value) in &config.sysctl {
            host.sysctl(name, value.to_string().trim_matches('"'))?;
        }
        let mut command = group.command(&host, server.program());
        command.args(server.prepare(config, SERVER, &folder)?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = host.spawn_on(SERVER_CORE, &mut command)?;
        Ok(Self {
            guard: None,
            _server: child,
            group,
            client,
            host,
            device,
            receiver: cpu_time::kernel_thread(&format!("ksoftirqd/{}\n", SERVER_CORE.0)),
            _folder: folder,
            _lab: lab,
        })
    }

    /// Waits until the server accepts connections.
    fn wait_until_listening(&self, config: &Config) -> Result<(), Error> {
        let end = Instant::now() + START;
        let target = SocketAddr::from((SERVER, PORT));
        loop {
            let result = self.host.enter(|| TcpStream::connect_timeout(&target, START));
            let Err(e) = result else { return Ok(()) };
            if Instant::now() > end {
                let message = format!("{} does not listen at {target}: {e}", config.setup.server.program());
                return Err(Error::new(message));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// CPU time of the server so far, including the kernel threads that receive for it.
    pub fn cpu_time(&self) -> Span {
        let receiver = self.receiver.and_then(|id| cpu_time::process(id).ok());
        self.group.used() + receiver.unwrap_or(Span::ZERO)
    }

    /// CPU time of the guard so far.
    pub fn guard_cpu_time(&self) -> Span {
        self.guard.as_ref().and_then(|guard| cpu_time::process(guard.id()).ok()).unwrap_or(Span::ZERO)
    }

    /// Times that a SYN or a final ACK of a handshake found the accept queue full
    /// (`ListenOverflows`).
    pub fn overflows(&self) -> u64 {
        let read = || std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
        host::netstat::counter(&self.host.enter(read), "ListenOverflows")
    }
}

/// A name for the server's end that is unique across namespaces: kernel threads are named after
/// devices, whatever their namespace.
fn device() -> String {
    static DEVICES: AtomicU32 = AtomicU32::new(0);
    let number = DEVICES.fetch_add(1, Ordering::Relaxed) % 1000;
    format!("g{:x}x{number}", std::process::id() % 0xf_ffff)
}
