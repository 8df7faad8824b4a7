//! Unmodified servers on our stack, for clients in another network namespace.
//!
//! Needs root, `ip`, `ethtool` and the servers; missing ones are printed. Everything happens in
//! namespaces of this test, with the servers' own configuration files in a separate folder.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use library::library;
use netlab::client::noise;
use netlab::{Child, Namespace, NetLab, Veth};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

mod bench;
mod bypass;
mod cancelled;
mod clients;
mod datagrams;
mod differential;
mod ends;
mod guarded;
mod guide;
mod levels;
mod libraries;
#[path = "../common/library.rs"]
mod library;
mod memory;
mod order;
mod refused;
mod reload;
#[path = "../common/schema.rs"]
mod schema;
mod servers;
mod stacks;
#[path = "../common/threads.rs"]
mod threads;
mod traces;
mod unfit;
mod write_paths;

const GREENWAVE: &str = env!("CARGO_BIN_EXE_greenwave");
const OURS: &str = "10.7.0.2";
/// The kernel's address at the clients' end.
const PEER: &str = "10.7.0.9";
/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);

fn skipped(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// A server's namespace, a clients' namespace, a link between them, and a folder of files to serve.
struct World {
    ours: Namespace,
    clients: Namespace,
    folder: PathBuf,
}

/// Length of `/big`.
const BIG: usize = 3_000_000;

impl World {
    /// `None` where there can be none, with a line that gives the reason.
    fn new(test: &str, program: &str) -> Option<Self> {
        Self::over(&Veth::default(), test, program)
    }

    /// Same as `new`, over the link `cable`.
    fn over(cable: &Veth, test: &str, program: &str) -> Option<Self> {
        let missing = || {
            let there = Command::new("sh").args(["-c", "command -v \"$0\"", program]).output();
            let there = there.is_ok_and(|out| out.status.success());
            (!there).then(|| format!("the program {program} is not there"))
        };
        if let Some(why) = NetLab::unavailable().or_else(missing) {
            skipped(test, &why);
            return None;
        }
        let lab = NetLab::new("run").unwrap();
        let (ours, clients) = (lab.namespace("ours").unwrap(), lab.namespace("clients").unwrap());
        lab.veth((&ours, "gw0"), (&clients, "eth0"), cable).unwrap();
        ours.address("gw0", "10.7.0.1".parse().unwrap(), 24).unwrap();
        clients.address("eth0", "10.7.0.9".parse().unwrap(), 24).unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("big"), noise(BIG)).unwrap();
        std::fs::write(folder.join("small"), "hello\n").unwrap();
        Some(Self { ours, clients, folder })
    }

    fn write(&self, name: &str, text: &str) -> String {
        let text = text.replace("FOLDER", &self.folder()).replace("ADDRESS", OURS);
        let path = self.folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A Python program, beside the module that such programs share.
    fn python(&self, name: &str, text: &str) -> String {
        self.write("sockets.py", include_str!("sockets.py"));
        self.write(name, text)
    }

    fn folder(&self) -> String {
        self.folder.to_str().expect("a path of ours is UTF-8").to_owned()
    }

    /// Starts `program` on our stack and waits until it accepts connections at `port`.
    fn run(&self, device: &str, port: u16, program: &[&str]) -> Server {
        let server = self.start(device, port, &[], program);
        self.until("it takes connections", || self.clients.enter(|| TcpStream::connect(server.to).is_ok()));
        server
    }

    /// Starts `program` on our stack.
    fn start(&self, device: &str, port: u16, options: &[&str], program: &[&str]) -> Server {
        let addr = format!("{OURS}/24");
        let words = [&["run", "--device", device, "--addr", &addr], options].concat();
        self.start_as(&words, device, port, program)
    }

    /// Same as `start`, with all words before the library given.
    fn start_as(&self, words: &[&str], device: &str, port: u16, program: &[&str]) -> Server {
        let mut command = self.ours.command(GREENWAVE);
        command.args(words).arg("--lib").arg(library()).arg("--").args(program);
        self.spawn(&mut command, device, port)
    }

    /// Starts `command`, which runs a program on our stack.
    fn spawn(&self, command: &mut Command, device: &str, port: u16) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = self.ours.spawn(command).unwrap();
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let on = format!(" on {OURS}, {device}");
        if !line.contains(&on) {
            stderr.read_to_string(&mut line).unwrap();
            panic!("{line}");
        }
        Server { child, stderr, to: SocketAddr::new(OURS.parse().unwrap(), port) }
    }

    /// Runs `program` on our stack to its end; returns its stdout and greenwave's stderr.
    #[track_caller]
    fn client(&self, device: &str, program: &[&str]) -> (String, String) {
        self.client_with(&[], device, program)
    }

    /// Same as `client`, with options of `greenwave run`.
    #[track_caller]
    fn client_with(&self, options: &[&str], device: &str, program: &[&str]) -> (String, String) {
        self.client_as(&format!("{OURS}/24"), options, device, program)
    }

    /// Same as `client`, with another address.
    #[track_caller]
    fn client_at(&self, addr: &str, device: &str, program: &[&str]) -> (String, String) {
        self.client_as(addr, &[], device, program)
    }

    #[track_caller]
    fn client_as(&self, addr: &str, options: &[&str], device: &str, program: &[&str]) -> (String, String) {
        let mut command = self.ours.command("timeout");
        command.args(["60", GREENWAVE, "run", "--device", device, "--addr", addr]).args(options);
        let out = command
            .arg("--lib")
            .arg(library())
            .arg("--")
            .args(program)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (printed, stderr) = (text(out.stdout), text(out.stderr));
        assert!(out.status.success(), "{program:?}: {}: {printed}\n{stderr}", out.status);
        (printed, stderr)
    }

    /// Sends a command to the daemon called `web`; returns the exit status and output.
    fn control(&self, word: &str) -> (Option<i32>, String) {
        let out = self.ours.command(GREENWAVE).args(["control", "web", word]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout) + &text(&out.stderr))
    }

    /// Waits until `is` holds.
    #[track_caller]
    fn until(&self, what: &str, mut is: impl FnMut() -> bool) {
        let start = Instant::now();
        while !is() {
            assert!(start.elapsed() < LIMIT, "{what}");
            std::thread::yield_now();
        }
    }

    /// A client's connection.
    fn connect(&self, server: &Server) -> TcpStream {
        self.clients.enter(|| netlab::client::connect(server.to))
    }

    /// `GET path` on a connection of its own.
    fn get(&self, server: &Server, path: &str) -> Vec<u8> {
        let url = format!("http://{}{path}", server.to);
        let mut curl = self.clients.command("curl");
        curl.args(["--silent", "--show-error", "--fail", "--max-time", "60", &url]);
        let out = curl.output().expect("curl starts");
        assert!(out.status.success(), "{url}: {}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    }

    /// Checks that files arrive complete: one after another, several requests on one connection,
    /// and many connections at once.
    fn files_arrive(&self, server: &Server) {
        assert_eq!(self.get(server, "/small"), b"hello\n");
        let big = noise(BIG);
        assert!(self.get(server, "/big") == big, "3 MB arrive as they are");
        let answers = self.clients.enter(|| {
            let ask = |_| {
                let mut stream = netlab::client::connect(server.to);
                stream.write_all(b"GET /big HTTP/1.0\r\nHost: a\r\n\r\n").expect("the server reads");
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).expect("the server answers");
                answer
            };
            std::thread::scope(|scope| {
                let asking: Vec<_> = (0..16).map(|n| scope.spawn(move || ask(n))).collect();
                asking.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
            })
        });
        for answer in answers {
            assert!(answer.starts_with(b"HTTP/1.") && answer.ends_with(&big), "{} bytes", answer.len());
        }
    }

    /// Two requests on one connection.
    fn connections_are_kept(&self, server: &Server) {
        let mut stream = self.connect(server);
        for _ in 0..2 {
            assert!(ask(&mut stream, "/small").ends_with("\r\n\r\nhello\n"));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// `GET path` of a few bytes on a keep-alive connection.
fn ask(stream: &mut TcpStream, path: &str) -> String {
    request(stream, path);
    answer(stream)
}

fn request(stream: &mut TcpStream, path: &str) {
    // In one segment: a driver's rule sees a single frame.
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server reads");
}

/// The answer that ends with `hello`.
fn answer(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    let mut bytes = [0; 1024];
    while !answer.ends_with("hello\n") {
        let len = stream.read(&mut bytes).expect("the server answers");
        assert!(len > 0, "it ends with {answer:?}");
        answer.push_str(std::str::from_utf8(&bytes[..len]).expect("the answer is text"));
    }
    answer
}

/// `greenwave run`, ended when this is dropped.
struct Server {
    child: Child,
    stderr: BufReader<std::process::ChildStderr>,
    to: SocketAddr,
}

impl Server {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends ctrl-C; returns the last output.
    fn stop(mut self) -> String {
        kill_process(self.pid(), Signal::INT).expect("it runs");
        let (code, output) = self.ended();
        assert_eq!(code, Some(0), "{output}");
        output
    }

    /// Exit status and last output.
    fn ended(&mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("it ends");
        let mut output = String::new();
        self.stderr.read_to_string(&mut output).expect("UTF-8 output");
        (status.code(), output)
    }

    /// The program's processes, and their children.
    fn descendants(&self) -> Vec<Pid> {
        let mut all = vec![self.pid()];
        let mut at = 0;
        while let Some(parent) = all.get(at) {
            all.extend(children(*parent).into_iter().filter(|child| !is_watcher(*child)));
            at += 1;
        }
        all.remove(0);
        all
    }
}

impl Drop for Server {
    /// A failing test shows the server's output so far.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut output = Vec::new();
            // Other holders of the pipe are not waited for.
            let _ = rustix::io::ioctl_fionbio(self.stderr.get_ref(), true);
            let _ = self.stderr.read_to_end(&mut output);
            eprintln!("greenwave run has said: {}", String::from_utf8_lossy(&output));
        }
    }
}

fn children(of: Pid) -> Vec<Pid> {
    let of = of.as_raw_nonzero().get().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter_map(|id| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (_, fields) = stat.rsplit_once(')')?;
        (fields.split_whitespace().nth(1)? == of).then(|| Pid::from_raw(id)).flatten()
    })
    .collect()
}

/// True if it is the process that looks for the program's kernel sockets.
fn is_watcher(pid: Pid) -> bool {
    host::proc::name(pid.as_raw_nonzero().get().unsigned_abs()) == "greenwave-watch"
}

fn is_gone(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // A zombie counts as gone: its new parent has not reaped it yet.
    let zombie = stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('Z'));
    zombie || test_kill_process(pid).is_err()
}
