//! Test setup of a trial: a program in one network namespace, its peers in another, a veth pair
//! between them, and a folder with the served files.
//!
//! The program is on greenwave's stack or, for comparison, on the kernel's at the same address. All
//! of it is removed on drop.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use host::proc;
use netlab::TempDir;
use netlab::{Child, LabError, Namespace, NetLab, Veth};
use rustix::process::{Pid, Signal, kill_process};

use crate::programs::StackChoice;

/// Settings that all trials share.
pub struct Environment<'a> {
    pub lab: &'a NetLab,
    /// Path of this program.
    pub greenwave: PathBuf,
    pub lib: Option<&'a Path>,
    /// `packet` or `xdp`.
    pub device: &'a str,
    /// Folder with the sources of programs that have tests.
    pub sources: Option<&'a Path>,
}

pub struct Trial<'a> {
    environment: &'a Environment<'a>,
    pub stack: StackChoice,
    pub ours: Namespace,
    pub clients: Namespace,
    folder: TempDir,
}

/// Address of the program, and of the kernel's end that clients use.
pub const OURS: &str = "10.7.0.2";
pub const PEER: &str = "10.7.0.9";
/// Timeout, many times longer than any trial takes.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// File of a program's output.
const OUTPUT_FILE: &str = "said";

impl<'a> Trial<'a> {
    /// # Errors
    /// The kernel's error, in one line.
    pub fn new(environment: &'a Environment<'a>, stack: StackChoice) -> Result<Self, String> {
        let made = || -> Result<Self, LabError> {
            let (ours, clients) = (environment.lab.namespace("ours")?, environment.lab.namespace("clients")?);
            environment.lab.veth((&ours, "gw0"), (&clients, "eth0"), &Veth::default())?;
            // With greenwave's stack the kernel has its own address there.
            let address = if stack == StackChoice::Kernel { OURS } else { "10.7.0.1" };
            ours.address("gw0", address.parse().expect("an address"), 24)?;
            clients.address("eth0", PEER.parse().expect("an address"), 24)?;
            Ok(Self { environment, stack, ours, clients, folder: TempDir::new("matrix")? })
        };
        made().map_err(|e| e.to_string())
    }

    /// The same setup again, on `stack`.
    pub fn again(&self, stack: StackChoice) -> Result<Self, String> {
        Self::new(self.environment, stack)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn sources(&self) -> Option<&Path> {
        self.environment.sources
    }

    /// Writes a world-readable file.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<String, String> {
        self.folder.write(name, bytes).map(|path| path.display().to_string()).map_err(|e| e.to_string())
    }

    /// Command line of `program` on the stack of this setup, in the namespace `ours`.
    pub fn words(&self, program: &[String]) -> Vec<String> {
        if self.stack == StackChoice::Kernel {
            return program.to_vec();
        }
        let device = format!("{}:gw0", self.environment.device);
        let mut words = vec![self.environment.greenwave.display().to_string(), "run".to_owned()];
        words.extend(["--device", &device, "--addr", &format!("{OURS}/24")].map(str::to_owned));
        if let Some(lib) = self.environment.lib {
            words.extend(["--lib".to_owned(), lib.display().to_string()]);
        }
        words.push("--".to_owned());
        words.extend_from_slice(program);
        words
    }

    /// Starts a server and waits until it accepts connections at `port`.
    ///
    /// # Errors
    /// The server accepts no connection; with its output.
    pub fn serve(&self, program: &[String], port: u16) -> Result<ListeningServer<'_>, String> {
        let mut server = self.start(program, port)?;
        server.wait_until("accepts no connection", |server| server.connect().is_ok())?;
        Ok(server)
    }

    /// Starts a server that will accept connections at `port`.
    ///
    /// # Errors
    /// The program does not start.
    pub fn start(&self, program: &[String], port: u16) -> Result<ListeningServer<'_>, String> {
        let child = self.spawn(&self.ours, &self.words(program))?;
        Ok(ListeningServer {
            world: self,
            child,
            to: SocketAddr::new(OURS.parse().expect("an address"), port),
        })
    }

    /// A server on the kernel's TCP in the clients' namespace, once `takes` returns true.
    pub fn peer(&self, program: &[String], mut takes: impl FnMut() -> bool) -> Result<Child, String> {
        let child = self.spawn(&self.clients, program)?;
        until("the peer is there", &mut takes).map(|()| child)
    }

    /// Starts a process with its output in a file. It has its own process group, since some
    /// programs signal all of theirs, and ends with this process.
    fn spawn(&self, namespace: &Namespace, words: &[String]) -> Result<Child, String> {
        let path = self.folder().join(OUTPUT_FILE);
        let file = File::options().create(true).append(true).open(path).map_err(because("a file"))?;
        let same = file.try_clone().map_err(because("a file"))?;
        let mut command = namespace.command("setpriv");
        command.args(["--pdeathsig", "TERM", "--"]).args(words).process_group(0);
        command.stdin(Stdio::null()).stdout(file).stderr(same);
        namespace.spawn(&mut command).map_err(|e| e.to_string())
    }

    /// Runs a client on the stack of this setup to its end; returns its output.
    pub fn client(&self, program: &[&str]) -> Result<String, String> {
        let program: Vec<String> = program.iter().map(|&word| word.to_owned()).collect();
        run(&self.ours, &self.words(&program), LIMIT)
    }

    /// Runs a client on the kernel's TCP to its end; returns its output.
    pub fn peer_client(&self, program: &[&str]) -> Result<String, String> {
        let program: Vec<String> = program.iter().map(|&word| word.to_owned()).collect();
        run(&self.clients, &program, LIMIT)
    }

    /// Last lines of the servers' output.
    pub fn output(&self) -> String {
        tail(&std::fs::read(self.folder().join(OUTPUT_FILE)).unwrap_or_default())
    }
}

/// Runs `words` to their end, at most `limit`; returns their output.
///
/// # Errors
/// The commands fail: the last lines of their output.
pub fn run(namespace: &Namespace, words: &[String], limit: Duration) -> Result<String, String> {
    let out = finished(namespace, words, limit)?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    let output = tail(&[out.stdout, out.stderr].concat());
    Err(format!("{} ends with {}: {output}", words.join(" "), out.status))
}

/// Runs `words` to their end, at most `limit`, with any exit status.
pub fn finished(
    namespace: &Namespace,
    words: &[String],
    limit: Duration,
) -> Result<std::process::Output, String> {
    let mut command = namespace.command("timeout");
    // SIGTERM first: a program under `greenwave run` ends with it.
    command.args(["--kill-after=10", &limit.as_secs().to_string()]).args(words).stdin(Stdio::null());
    command.output().map_err(because("timeout"))
}

/// Last lines of an output.
fn tail(output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    last.join("; ").chars().take(CHARS).collect()
}

const LINES: usize = 3;
const CHARS: usize = 400;

/// Polls until `is` holds.
pub fn until(what: &str, mut is: impl FnMut() -> bool) -> Result<(), String> {
    let end = Instant::now() + LIMIT;
    while !is() {
        if Instant::now() > end {
            return Err(format!("not within a minute: {what}"));
        }
        park_timeout(POLL_INTERVAL);
    }
    Ok(())
}

/// For `map_err`: adds the failed action.
pub fn because<E: Display>(what: &str) -> impl Fn(E) -> String + '_ {
    move |e| format!("{what}: {e}")
}

/// A server that accepts connections; ended on drop.
pub struct ListeningServer<'a> {
    world: &'a Trial<'a>,
    child: Child,
    pub to: SocketAddr,
}

impl ListeningServer<'_> {
    /// Polls until `is` holds, while the server runs.
    ///
    /// # Errors
    /// The server ends, or a minute has passed, reported as `otherwise`; with its output.
    pub fn wait_until(&mut self, otherwise: &str, is: impl Fn(&Self) -> bool) -> Result<(), String> {
        let end = Instant::now() + LIMIT;
        while !is(self) {
            if let Some(status) = self.child.try_wait().map_err(because("its status"))? {
                return Err(format!("exits at once, {status}: {}", self.world.output()));
            }
            if Instant::now() > end {
                return Err(format!("{otherwise}: {}", self.world.output()));
            }
            park_timeout(POLL_INTERVAL);
        }
        Ok(())
    }

    /// A client's connection, with a timeout of a minute.
    pub fn connect(&self) -> io::Result<TcpStream> {
        self.world.clients.enter(|| self.connect_here())
    }

    /// `number` connections.
    pub fn connections(&self, number: usize) -> Result<Vec<TcpStream>, String> {
        let all = || (0..number).map(|_| self.connect_here()).collect::<io::Result<_>>();
        self.world.clients.enter(all).map_err(because("a connection"))
    }

    fn connect_here(&self) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.to, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        Ok(stream)
    }

    /// Processes called `name`, parents before children.
    pub fn processes(&self, name: &str) -> Vec<u32> {
        let family = proc::family(self.child.id());
        family.into_iter().filter(|&id| proc::name(id) == name).collect()
    }

    /// Sends SIGINT; the program must end, and `greenwave run` must succeed.
    pub fn stop(mut self) -> Result<(), String> {
        match self.end()? {
            Some(status) if self.world.stack == StackChoice::Kernel || status.success() => Ok(()),
            Some(status) => Err(format!("exits with {status} after ctrl-C: {}", self.world.output())),
            None => Err("does not exit after ctrl-C".to_owned()),
        }
    }

    fn end(&mut self) -> Result<Option<std::process::ExitStatus>, String> {
        if self.world.stack == StackChoice::Kernel {
            proc::family(self.child.id()).into_iter().for_each(|id| signal(id, Signal::TERM));
        } else {
            signal(self.child.id(), Signal::INT);
        }
        let end = Instant::now() + END;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().map_err(because("its status"))? {
                return Ok(Some(status));
            }
            park_timeout(POLL_INTERVAL);
        }
        Ok(None)
    }
}

/// Longer than the grace period of `greenwave run`.
const END: Duration = Duration::from_secs(20);

impl Drop for ListeningServer<'_> {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // A process that does not end is killed with the child.
            let _ = self.end();
        }
    }
}

/// Sends `signal` to a process that may have ended.
pub fn signal(id: u32, signal: Signal) {
    if let Some(pid) = id.try_into().ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}
