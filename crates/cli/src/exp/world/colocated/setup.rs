//! Test setup of one run: the programs, their network and their shares; removed on drop.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use ::load::protocol::memcached;
use netlab::TempDir;
use netlab::{Child, LabError, Namespace, NetLab, TestGroup, Veth};
use queueing::{CoreId, Span};
use serde_json::Value;

use super::super::child_process::drained_lines;
use super::super::host_requirements::check_possible;
use super::super::progress_lines::workload;
use super::programs::{Critical, KEYS};
use super::{Config, Sharing};
use crate::error::{Error, plain};

/// Core of the clients and the manager.
pub const CLIENT_CORE: CoreId = CoreId(0);
/// Shared core.
pub const SHARED_CORE: CoreId = CoreId(1);

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 74, 0, 1);
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 74, 0, 2);
const PREFIX: u8 = 24;
const PORT: u16 = 11_211;
/// Device of a server on greenwave's stack, and the client's end of the veth pair otherwise.
const DEVICE: &str = "gw0";
/// Kernel's end of a veth pair.
const KERNEL_DEVICE: &str = "eth0";

/// Share of a core for which LC may be real-time; the kernel's own limit is 0.95.
const REAL_TIME: f64 = 0.9;
/// CPU bandwidth period of BE's share.
const PERIOD: Span = Span::from_millis(10);
/// Timeout of a program's start.
const START: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Both programs, ready.
pub struct ColocatedSetup {
    // Fields are in drop order.
    pub be: Option<LimitedProgram>,
    pub lc: Child,
    /// Contains BE too, since scheduling classes compare within a group, unless BE has a group of
    /// its own. LC's group is then preferred. Otherwise it is an ordinary group: a preferred one
    /// would put BE before the kernel threads that serve LC's disk and network.
    _group: TestGroup,
    pub client: Namespace,
    pub target: SocketAddr,
    _host: Namespace,
    _folder: TempDir,
    _lab: NetLab,
}

/// A running best-effort program.
pub struct LimitedProgram {
    pub child: Child,
    /// Progress lines.
    pub stdout: Option<ChildStdout>,
    /// Cgroup that limits its CPU time.
    pub group: Option<TestGroup>,
}

impl ColocatedSetup {
    /// Creates the setup of `config`: the LC server is ready, and the BE program has started.
    ///
    /// # Errors
    /// A required part is missing or does not start.
    pub fn new(config: &Config) -> Result<Self, Error> {
        check_requirements()?;
        let lab = NetLab::new("colocated")?;
        let folder = TempDir::new(config.lc.program())?;
        let host = lab.namespace("server")?;
        let group = match config.sharing {
            Sharing::Static | Sharing::Parties => TestGroup::preferred(config.lc.program())?,
            _ => TestGroup::new(config.lc.program())?,
        };
        if matches!(config.sharing, Sharing::Caladan | Sharing::CaladanRuntime) {
            group.real_time(REAL_TIME)?;
        }
        let command = |program: &str| group.command(&host, program);
        let (lc, client, target) = match config.lc {
            Critical::Memcached => {
                let client = connect_clients(&lab, &host)?;
                let mut command = command("memcached");
                command.args(["-u", "nobody", "-t", "1", "-U", "0", "-m", "256", "-l", &SERVER.to_string()]);
                command.args(["-p", &PORT.to_string()]);
                let lc = host.spawn_on(SHARED_CORE, quiet(&mut command).stdout(Stdio::null()))?;
                let target = SocketAddr::from((SERVER, PORT));
                client.enter(|| fill(target))?;
                (lc, client, target)
            }
            Critical::Storage | Critical::Tpcc => {
                let mut command = command(&workload(config.lc.program())?.display().to_string());
                command.args(["--device", DEVICE, "--busy-poll", "0ns"]);
                let mut lc = host.spawn_on(SHARED_CORE, quiet(&mut command).stdout(Stdio::piped()))?;
                let target = read_address(&mut lc, config.lc.program())?;
                // Frames from LC are received on the clients' core.
                host.steer_receive(DEVICE, CLIENT_CORE)?;
                (lc, host.clone(), target)
            }
        };
        let be = match config.sharing {
            Sharing::Alone => None,
            _ => Some(LimitedProgram::new(config, &host, &group, &folder)?),
        };
        Ok(Self { be, lc, _group: group, client, target, _host: host, _folder: folder, _lab: lab })
    }

    /// BE's throughput alone, per second.
    ///
    /// # Errors
    /// The errors of [`ColocatedSetup::new`], or BE reports no progress.
    pub fn best_effort_alone(config: &Config) -> Result<f64, Error> {
        check_requirements()?;
        let lab = NetLab::new("colocated")?;
        let folder = TempDir::new(config.be.program())?;
        let host = lab.namespace("server")?;
        let config = Config { sharing: Sharing::Linux, ..config.clone() };
        let group = TestGroup::new(config.be.program())?;
        let mut be = LimitedProgram::new(&config, &host, &group, &folder)?;
        be.measure_alone(&config)
    }
}

impl LimitedProgram {
    fn new(config: &Config, host: &Namespace, shared: &TestGroup, folder: &TempDir) -> Result<Self, Error> {
        let words = config.be.command_line(config, folder)?;
        let group = match config.sharing {
            Sharing::Static | Sharing::Parties => {
                let group = TestGroup::new(config.be.program())?;
                group.limit(config.be_share, PERIOD)?;
                Some(group)
            }
            _ => None,
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let idle: &[&str] = if config.sharing == Sharing::Idle { &["chrt", "--idle", "0"] } else { &[] };
        let words = [idle, &words].concat();
        let mut command = group.as_ref().unwrap_or(shared).command(host, words[0]);
        command.args(&words[1..]);
        let mut child = host.spawn_on(SHARED_CORE, quiet(&mut command).stdout(Stdio::piped()))?;
        let stdout = child.stdout.take();
        Ok(Self { child, stdout, group })
    }

    /// Limits BE to `share` of the core, if it has a group.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn limit(&self, share: f64) -> Result<(), Error> {
        self.group.as_ref().map_or(Ok(()), |group| Ok(group.limit(share, PERIOD)?))
    }
}

/// Checks that such a run is possible here.
fn check_requirements() -> Result<(), Error> {
    check_possible("colocated", "caladan/host", "clients and the programs")
}

/// Namespace for the clients, with a veth pair to `host`.
fn connect_clients(lab: &NetLab, host: &Namespace) -> Result<Namespace, LabError> {
    let client = lab.namespace("client")?;
    lab.veth((host, KERNEL_DEVICE), (&client, DEVICE), &Veth::default())?;
    client.steer_receive(DEVICE, CLIENT_CORE)?;
    host.steer_receive(KERNEL_DEVICE, SHARED_CORE)?;
    host.address(KERNEL_DEVICE, SERVER.into(), PREFIX)?;
    client.address(DEVICE, CLIENT.into(), PREFIX)?;
    Ok(client)
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stderr(Stdio::null())
}

/// Address on which a greenwave server reports that it listens. Its further output is drained.
fn read_address(lc: &mut Child, program: &str) -> Result<SocketAddr, Error> {
    let failed = |message: &str| Error::new(format!("{program}: {message}"));
    let stdout = lc.stdout.take().ok_or_else(|| failed("no stdout"))?;
    let line =
        drained_lines(stdout).recv_timeout(START).map_err(|_| failed("does not report its address"))?;
    let report: Value = serde_json::from_str(&line).map_err(|e| failed(&e.to_string()))?;
    let address = report["listens"].as_str().and_then(|address| address.parse().ok());
    address.ok_or_else(|| failed(&format!("{line:?} does not report an address")))
}

/// Stores a value for every key in memcached, once it answers.
fn fill(target: SocketAddr) -> Result<(), Error> {
    let failed = |e: std::io::Error| Error::new(format!("memcached at {target}: {}", plain(&e.to_string())));
    let end = Instant::now() + START;
    let mut stream = loop {
        match TcpStream::connect_timeout(&target, START) {
            Ok(stream) => break stream,
            Err(e) if Instant::now() > end => return Err(failed(e)),
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
    };
    stream.set_read_timeout(Some(START)).map_err(failed)?;
    const KEYS_PER_BATCH: u32 = 500;
    const STORED: &[u8] = b"STORED\r\n";
    let mut text = Vec::new();
    for first in (0..KEYS).step_by(KEYS_PER_BATCH as usize) {
        let keys = first..(first + KEYS_PER_BATCH).min(KEYS);
        text.clear();
        keys.clone().for_each(|key| memcached::write_set(key, &mut text));
        stream.write_all(&text).map_err(failed)?;
        let mut answers = vec![0; keys.len() * STORED.len()];
        stream.read_exact(&mut answers).map_err(failed)?;
        if answers.chunks(STORED.len()).any(|answer| answer != STORED) {
            return Err(Error::new(format!("memcached at {target} does not store values")));
        }
    }
    Ok(())
}
