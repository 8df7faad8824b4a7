//! The server, its host and the way to it, for one run: gone with this.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use host::affinity;
use host::cpu_time;
use host::netlab::{Child, Group, LabError, Namespace, NetLab, TempDir, Veth};
use queueing::{CoreId, Span};

use super::super::host_requirements::unless_possible;
use super::Config;
use super::guard::Guard;
use super::server::PORT;
use crate::error::Error;

/// Whose the visitors are.
pub const CLIENT_CORE: CoreId = CoreId(0);
/// The server's, and where its host receives.
pub const SERVER_CORE: CoreId = CoreId(1);
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 73, 0, 1);
/// The first visitors' address.
pub const VISITORS: Ipv4Addr = Ipv4Addr::new(10, 73, 1, 1);
pub const PREFIX: u8 = 16;
/// The visitors' end of the cable.
pub const THERE: &str = "gw0";

/// In which a server gets its share of a core: shorter than any delay that
/// counts here.
const PERIOD: Span = Span::from_millis(10);
/// How long a server may take to listen.
const START: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

/// A server that listens, and visitors' end of the way to it.
pub struct Rig {
    // In the order in which they are to go.
    guard: Option<Guard>,
    _server: Child,
    group: Group,
    pub client: Namespace,
    pub host: Namespace,
    /// The host's end of the cable.
    device: String,
    /// The kernel's thread that receives for the server when softirqs are many.
    receiver: Option<u32>,
    _folder: TempDir,
    _lab: NetLab,
}

impl Rig {
    /// The rig of `config`.
    pub fn new(config: &Config) -> Result<Self, Error> {
        let server = config.setup.server;
        unless_possible("httpd", "overload/e1", "server and visitors")?;
        if !server.is_there() {
            let what = format!("world httpd: the program {} is not there", server.program());
            return Err(Error::new(what).advice(format!("apt-get install {}", server.package())));
        }
        let rig = Self::made(config)?;
        rig.listens(config)?;
        match &config.guard {
            None => Ok(rig),
            Some(policy) => {
                let guard = Guard::attach(&rig.host, &rig.device, SERVER_CORE, policy, config)?;
                Ok(Self { guard: Some(guard), ..rig })
            }
        }
    }

    fn made(config: &Config) -> Result<Self, LabError> {
        let server = config.setup.server;
        let lab = NetLab::new("httpd")?;
        let folder = TempDir::new(server.program())?;
        let [host, client] = ["server", "client"].map(|name| lab.namespace(name));
        let (host, client) = (host?, client?);
        for namespace in [&host, &client] {
            namespace.without_ipv6()?;
        }
        let device = device();
        lab.veth((&host, &device), (&client, THERE), &Veth::default())?;
        client.steer_receive(THERE, CLIENT_CORE)?;
        let group = Group::preferred(server.program())?;
        if config.setup.share < 1.0 {
            group.limit(config.setup.share, PERIOD)?;
        }
        if config.threaded {
            host.thread_receive(&device)?;
            let thread = cpu_time::kernel_thread(&format!("napi/{device}-"));
            let thread = thread.ok_or_else(|| LabError::Failed {
                namespace: host.name().to_owned(),
                command: format!("echo 1 >/sys/class/net/{device}/threaded"),
                said: "the kernel started no thread".to_owned(),
            })?;
            // What receives in place of softirqs lives on the server's share, as they do.
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

    /// Waits until the server takes connections.
    fn listens(&self, config: &Config) -> Result<(), Error> {
        let end = Instant::now() + START;
        let target = SocketAddr::from((SERVER, PORT));
        loop {
            let tried = self.host.enter(|| TcpStream::connect_timeout(&target, START));
            let Err(e) = tried else { return Ok(()) };
            if Instant::now() > end {
                let what = format!("{} does not listen at {target}: {e}", config.setup.server.program());
                return Err(Error::new(what));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Processor time that was used for the server so far, that of the
    /// kernel's threads that receive for it included.
    pub fn used(&self) -> Span {
        let receiver = self.receiver.and_then(|id| cpu_time::process(id).ok());
        self.group.used() + receiver.unwrap_or(Span::ZERO)
    }

    /// Processor time that the guard used so far.
    pub fn guard_used(&self) -> Span {
        self.guard.as_ref().and_then(|guard| cpu_time::process(guard.id()).ok()).unwrap_or(Span::ZERO)
    }

    /// How often a SYN or the end of a handshake found the accept queue full
    /// (`ListenOverflows`).
    pub fn overflows(&self) -> u64 {
        let read = || std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap_or_default();
        host::netstat::counter(&self.host.enter(read), "ListenOverflows")
    }
}

/// A name for the server's end that no kernel thread of another has: threads
/// are named after devices, whatever their namespace.
fn device() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed) % 1000;
    format!("g{:x}x{number}", std::process::id() % 0xf_ffff)
}
