//! The server on an interface shared with the kernel.
//!
//! Everything happens in network namespaces of this test. Needs root, `ip` and `ethtool`; uses
//! `setpriv` if present. Missing requirements are printed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use netlab::client::{check_echo, connect, ping};
use netlab::{Child, Namespace, NetLab, Veth};
use rustix::process::{Pid, Signal, kill_process};

mod addresses;
mod dpdk;

fn skipped(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

const GREENWAVE: &str = env!("CARGO_BIN_EXE_greenwave");
const HOST: &str = "10.7.0.1";
const OURS: &str = "10.7.0.2";
const HOST6: &str = "fd07::1";
const OURS6: &str = "fd07::2";

/// A namespace that shares `gw0` with our server, and one where clients run.
struct Cable {
    ours: Namespace,
    clients: Namespace,
}

impl Cable {
    /// `None` where there can be none, with a line that gives the reason.
    fn new(test: &str) -> Option<Self> {
        if let Some(why) = NetLab::unavailable() {
            skipped(test, &why);
            return None;
        }
        let lab = NetLab::new("serve").unwrap();
        let (ours, clients) = (lab.namespace("ours").unwrap(), lab.namespace("clients").unwrap());
        lab.veth((&ours, "gw0"), (&clients, "eth0"), &Veth::default()).unwrap();
        for (host, client, prefix) in [(HOST, "10.7.0.9", 24), (HOST6, "fd07::9", 64)] {
            ours.address("gw0", host.parse().unwrap(), prefix).unwrap();
            clients.address("eth0", client.parse().unwrap(), prefix).unwrap();
        }
        Some(Self { ours, clients })
    }

    fn serve(&self, device: &str, more: &[&str]) -> Server {
        let server = Server::start(&self.ours, device, &format!("{OURS}/24"), more);
        assert!(server.line.starts_with(&format!("listening on {OURS}:80, {device}")), "{}", server.line);
        server
    }

    fn has_program(&self) -> bool {
        self.ours.run("ip", &["link", "show", "dev", "gw0"]).unwrap().contains("xdp")
    }

    fn host_answers(&self) {
        for host in [HOST, HOST6] {
            let listener = self.ours.enter(|| std::net::TcpListener::bind((host, 0)).unwrap());
            let to = listener.local_addr().unwrap();
            self.clients.enter(|| drop(connect(to)));
            self.clients.enter(|| ping(to.ip()));
        }
    }

    fn echoes(&self, len: usize) {
        self.echoes_at(OURS.parse().unwrap(), len);
    }

    fn echoes_at(&self, addr: IpAddr, len: usize) {
        self.clients.enter(|| check_echo(SocketAddr::new(addr, 80), len));
    }

    /// The error of `greenwave serve`.
    fn refusal(&self, device: &str, more: &[&str]) -> String {
        let addr = format!("{OURS}/24");
        let addr = if more.contains(&"--addr") { &[][..] } else { &["--addr", &addr] };
        let mut command = self.ours.command(GREENWAVE);
        let out = command.args(["serve", "--device", device]).args(addr).args(more).output().unwrap();
        let stderr = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(!self.has_program(), "nothing stays behind: {stderr}");
        stderr
    }

    /// Checks that it is refused with these words in one line of error and one of advice.
    fn refuses(&self, device: &str, more: &[&str], expected: [&str; 2]) {
        let error = self.refusal(device, more);
        // A machine that forwards gets a note about it, too.
        let lines: Vec<&str> = error.lines().filter(|line| !line.starts_with("note: ")).collect();
        let [what, advice] = lines[..] else { panic!("{device}: two lines, not {error}") };
        assert!(what.starts_with("error: ") && what.contains(expected[0]), "{device}: {error}");
        assert!(advice.starts_with("  try: ") && advice.contains(expected[1]), "{device}: {error}");
    }
}

/// A running server; killed when dropped.
struct Server {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    /// The addresses it found.
    found: String,
    /// The line that reports the address on which the server listens.
    line: String,
}

impl Server {
    /// `greenwave serve` in `netns`, once it listens.
    fn start(netns: &Namespace, device: &str, addr: &str, more: &[&str]) -> Self {
        let mut server = Self::starting(netns, device, addr, more);
        server.listens();
        server
    }

    fn starting(netns: &Namespace, device: &str, addr: &str, more: &[&str]) -> Self {
        let mut command = netns.command(GREENWAVE);
        command.args(["serve", "--app", "echo", "--device", device, "--addr", addr]);
        let mut child = netns.spawn(command.args(more).stdout(Stdio::piped())).unwrap();
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        Self { child, stdout, found: String::new(), line: String::new() }
    }

    /// Waits until the server listens.
    fn listens(&mut self) {
        while !self.line.starts_with("listening on ") {
            self.found.push_str(&std::mem::take(&mut self.line));
            let got = self.stdout.read_line(&mut self.line).expect("the server's stdout is text");
            assert!(got > 0, "it ended before it listened: {}", self.found);
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).expect("a process has an id")
    }

    /// Ends the server by a signal; returns its last output.
    fn stop(mut self, signal: Signal) -> String {
        kill_process(self.pid(), signal).expect("the server runs");
        self.wait()
    }

    fn wait(&mut self) -> String {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("the server's stdout is text");
        assert_eq!(self.child.wait().expect("the server ends").code(), Some(0), "{rest}");
        rest
    }
}

//~ devices: a killed server leaves no program, route or device, and the next one starts
#[test]
fn an_interface_is_shared_with_the_kernel_and_given_back() {
    let Some(cable) = Cable::new("an_interface_is_shared_with_the_kernel_and_given_back") else { return };
    let kinds = [
        ("xdp:gw0,mode=native", "(native XDP, copied frames, 1 queue)"),
        ("xdp:gw0,mode=skb,busy-poll", "(generic XDP, copied frames, 1 queue)"),
        ("xdp:gw0", "native XDP"),
        ("packet:gw0", "the kernel keeps the other addresses"),
        ("packet:gw0,queues=2,fanout=queue", "mode learned"),
    ];
    for (device, expected) in kinds {
        let server = cable.serve(device, &[]);
        assert!(server.line.contains(expected), "{}", server.line);
        assert_eq!(cable.has_program(), device.starts_with("xdp"));
        cable.echoes(1_000_000);
        cable.host_answers();
        let rest = server.stop(Signal::TERM);
        assert!(rest.contains("1 connections"), "{rest}");
        assert!(!cable.has_program(), "SIGTERM takes the program off");
    }
}

//~ devices: a killed server leaves no program, route or device, and the next one starts
//~ faults: a killed `serve` leaves no device, and the next one starts
#[test]
fn a_server_that_is_killed_leaves_nothing_and_the_next_one_starts() {
    let Some(cable) = Cable::new("a_server_that_is_killed_leaves_nothing_and_the_next_one_starts") else {
        return;
    };
    for _ in 0..2 {
        let mut server = cable.serve("xdp:gw0", &[]);
        cable.echoes(10_000);
        server.child.kill().expect("the server runs");
        server.child.wait().expect("the server ends");
        assert!(!cable.has_program(), "the kernel takes the program off");
        cable.host_answers();
    }
}

//~ devices: the fault injector loses, duplicates, reorders, damages and delays frames around any device
#[test]
fn a_bad_path_and_a_capture_go_around_any_device_and_the_capture_plays() {
    let test = "a_bad_path_and_a_capture_go_around_any_device_and_the_capture_plays";
    let Some(cable) = Cable::new(test) else { return };
    let capture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("interface.pcap");
    let path = capture.to_str().expect("a path of ours is UTF-8");
    for device in ["packet:gw0", "xdp:gw0"] {
        let server = cable.serve(device, &["--fault", "loss=1%,reorder=1%", "--pcap", path]);
        cable.echoes(300_000);
        server.stop(Signal::INT);
        let played = cable.serve(&format!("pcap:{path},fast"), &[]).wait();
        assert!(played.contains("0 connections, 0 requests"), "clients do not answer us: {played}");
    }
    let error = cable.refusal(&format!("pcap:{path}"), &["--addr", "10.9.9.9/24"]);
    assert!(
        error.contains("no frame has the destination 10.9.9.9") && error.contains("try: --addr 10.7.0."),
        "{error}"
    );
    let _ = std::fs::remove_file(&capture);
}

#[test]
fn a_server_that_cannot_start_is_one_line_with_advice() {
    let Some(cable) = Cable::new("a_server_that_cannot_start_is_one_line_with_advice") else {
        return;
    };
    let check = |device: &str, more: &[&str], expected| cable.refuses(device, more, expected);
    for kind in ["xdp", "packet"] {
        let (missing, shared) = (format!("{kind}:gw9"), format!("{kind}:gw0"));
        check(&missing, &[], ["there is no network interface \"gw9\"", "one of gw0"]);
        check(&shared, &["--addr", "10.7.0.1/24"], ["10.7.0.1 is in use", "--addr"]);
        check(&shared, &["--host-addr", "10.7.0.3"], ["--host-addr is the kernel's end", "without"]);
        check(&format!("{kind}:lo"), &[], ["lo is not an Ethernet interface", "tap:gw0"]);
    }
    check("xdp:gw0,zerocopy", &[], ["no zero-copy mode", "--device xdp:gw0 (copy mode)"]);
    check("xdp:gw0,queues=3", &[], ["gw0 has 1 queue, not 3", "queues=1, or ethtool -L gw0 combined 3"]);
    check("xdp:gw0", &["--fault", "loss=2"], ["loss", "try"]);
    check("pcap:/no/such/file", &[], ["/no/such/file: No such file", "try"]);
}

#[test]
fn without_permission_the_capabilities_are_named() {
    let test = "without_permission_the_capabilities_are_named";
    let Some(cable) = Cable::new(test) else { return };
    if !netlab::is_installed("setpriv") {
        return skipped(test, "setpriv is not there");
    }
    // A folder that any user may enter: that of the build may be root's alone.
    let copy = std::env::temp_dir().join(format!("greenwave-interface-{}", std::process::id()));
    // Copied by another process: a file that is open for writing cannot be executed, and children
    // of other tests would briefly inherit our descriptor.
    let copied = Command::new("cp").args(["-p", GREENWAVE]).arg(&copy).status().expect("cp is there");
    assert!(copied.success(), "the temporary folder is writable");
    for (device, capabilities) in
        [("xdp:gw0", "cap_net_raw,cap_net_admin,cap_bpf"), ("packet:gw0", "cap_net_raw+ep")]
    {
        let mut command = cable.ours.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&copy);
        let out =
            command.args(["serve", "--device", device, "--addr", "10.7.0.2/24"]).current_dir("/").output();
        let stderr = String::from_utf8(out.expect("setpriv starts").stderr).unwrap();
        assert!(
            stderr.starts_with("error: gw0: no permission for ") && stderr.contains(capabilities),
            "{stderr}"
        );
    }
    let _ = std::fs::remove_file(&copy);
}
