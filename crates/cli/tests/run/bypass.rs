//! Detection of programs that silently use the kernel's TCP: the ways to lose or bypass the
//! library, and the reports.

//~ run: sockets that fell back to the kernel's TCP are found, counted and make the exit status 1

use std::os::unix::fs::{PermissionsExt, chown};

use super::unfit;
use super::*;

/// A way to lose or bypass the library: the program's build, a shell script with `$OUT`, and the
/// expected report.
struct Way {
    name: &'static str,
    compiler: &'static str,
    build: &'static str,
    start: &'static str,
    why: &'static str,
}

const C: &str = "gcc bypass.c -o $OUT";
const BY_CALLS: &str = "past libgreenwave.so (system calls of its own, MPTCP), or given to it";
const BY_IO_URING: &str = "by io_uring, which libgreenwave.so does not see";
const WITHOUT: &str = "started without LD_PRELOAD";

#[rustfmt::skip]
const LISTENING: &[Way] = &[
    Way { name: "env", compiler: "gcc", build: C, start: "env -i $OUT libc listen 0.0.0.0 8080", why: WITHOUT },
    Way { name: "unset", compiler: "gcc", build: C,
        start: "unset LD_PRELOAD; $OUT libc listen 0.0.0.0 8080", why: WITHOUT },
    Way { name: "static", compiler: "gcc", build: "gcc -static bypass.c -o $OUT",
        start: "$OUT libc listen 0.0.0.0 8080", why: "it is linked statically" },
    Way { name: "musl", compiler: "musl-gcc",
        build: "musl-gcc -static -idirafter /usr/include -idirafter /usr/include/$(uname -m)-linux-gnu bypass.c -o $OUT",
        start: "$OUT libc listen 0.0.0.0 8080", why: "it is linked statically" },
    Way { name: "setuid", compiler: "gcc", build: C, start: "$OUT libc listen 0.0.0.0 8080", why: "it is setuid" },
    Way { name: "go", compiler: "go", build: "CGO_ENABLED=0 go build -o $OUT listen.go",
        start: "$OUT 0.0.0.0:8080", why: "it is a Go program" },
    Way { name: "go-cgo", compiler: "go", build: "CGO_ENABLED=1 go build -o $OUT listen.go",
        start: "$OUT 0.0.0.0:8080", why: BY_CALLS },
    Way { name: "ring", compiler: "gcc", build: C, start: "$OUT ring listen 0.0.0.0 8080", why: BY_IO_URING },
    Way { name: "mptcp", compiler: "python3", build: "true",
        start: "python3 -c 'import socket, time; s = socket.socket(proto=262); s.bind((\"0.0.0.0\", 8080)); s.listen(); time.sleep(50)'",
        why: BY_CALLS },
    Way { name: "python", compiler: "python3", build: "true",
        start: "env -i $(python3 -c 'import sys; print(sys.executable)') -m http.server 8080", why: WITHOUT },
];

/// The same, connected to the clients' end.
#[rustfmt::skip]
const CONNECTING: &[Way] = &[
    Way { name: "static", compiler: "gcc", build: "gcc -static bypass.c -o $OUT",
        start: "$OUT libc connect 10.7.0.9 8080", why: "it is linked statically" },
    Way { name: "ring", compiler: "gcc", build: C, start: "$OUT ring connect 10.7.0.9 8080", why: BY_IO_URING },
    Way { name: "mixed", compiler: "gcc", build: C,
        start: "$OUT mixed connect 10.7.0.9 8080", why: BY_IO_URING },
];

const GO: &str = "package main

import (
\t\"net\"
\t\"os\"
)

func main() {
\tlistener, err := net.Listen(\"tcp4\", os.Args[1])
\tif err != nil {
\t\tpanic(err)
\t}
\tlistener.Accept()
}
";

impl World {
    /// Status of the daemon called `web`, once it answers.
    fn json(&self) -> serde_json::Value {
        let out = self.ours.command(GREENWAVE).args(["control", "web", "status", "--json"]).output().unwrap();
        serde_json::from_slice(&out.stdout).unwrap_or_default()
    }

    /// The script for the program of `way`, or the reason it cannot be built here.
    fn way(&self, way: &Way) -> Result<[String; 3], String> {
        std::fs::write(self.folder.join("bypass.c"), include_str!("bypass.c")).unwrap();
        std::fs::write(self.folder.join("listen.go"), GO).unwrap();
        let out = unfit::build(&self.folder, &(way.name, way.compiler, way.build, ""))?;
        if way.name == "setuid" {
            chown(&out, Some(65_534), Some(65_534)).unwrap();
            std::fs::set_permissions(&out, PermissionsExt::from_mode(0o4755)).unwrap();
        }
        // The shell waits, so that the program is not the first process.
        let text = format!("OUT={}; {} & wait", out.display(), way.start);
        Ok(["sh".to_owned(), "-c".to_owned(), text])
    }
}

impl Server {
    /// Output until a line contains `words`.
    #[track_caller]
    fn says(&mut self, words: &str) -> String {
        let mut output = String::new();
        while !output.contains(words) {
            let before = output.len();
            self.stderr.read_line(&mut output).expect("UTF-8 output");
            assert!(output.len() > before, "it has ended without a word of {words:?}: {output}");
        }
        output
    }

    /// Sends ctrl-C; returns its exit status and last output.
    fn interrupted(mut self) -> (Option<i32>, String) {
        kill_process(self.pid(), Signal::INT).expect("it runs");
        self.ended()
    }
}

#[test]
fn a_listener_in_the_kernel_is_said_when_it_is_found_and_at_the_end() {
    let test = "a_listener_in_the_kernel_is_said_when_it_is_found_and_at_the_end";
    for way in LISTENING {
        let Some(world) = World::new(test, "sh") else { return };
        let command = match world.way(way) {
            Ok(command) => command,
            Err(why) => {
                skipped(test, &format!("{}: {why}", way.name));
                continue;
            }
        };
        let mut server = world.start("packet:gw0", 8080, &[], &command.each_ref().map(String::as_str));
        let line = format!(") listens on 0.0.0.0:8080 by the kernel's TCP: {}\n", way.why);
        let output = server.says(&line);
        assert!(
            output.lines().last().is_some_and(|last| last.starts_with("warning: ")),
            "{}: {output}",
            way.name
        );
        let (code, output) = server.interrupted();
        assert_eq!(code, Some(1), "{}: {output}", way.name);
        let head =
            "warning: 1 socket of the program was opened in the kernel instead of greenwave's stack:\n  ";
        assert!(output.contains(head) && output.contains(&line), "{}: {output}", way.name);
    }
}

#[test]
fn a_connection_in_the_kernel_to_where_the_device_leads_is_found() {
    let test = "a_connection_in_the_kernel_to_where_the_device_leads_is_found";
    for way in CONNECTING {
        let Some(world) = World::new(test, "sh") else { return };
        let command = match world.way(way) {
            Ok(command) => command,
            Err(why) => {
                skipped(test, &format!("{}: {why}", way.name));
                continue;
            }
        };
        let _listener = world.clients.enter(|| std::net::TcpListener::bind((PEER, 8080)).unwrap());
        let mut server = world.start("packet:gw0", 8080, &[], &command.each_ref().map(String::as_str));
        server.says(&format!(") is connected to {PEER}:8080 by the kernel's TCP: {}\n", way.why));
        assert_eq!(server.interrupted().0, Some(1), "{}", way.name);
    }
}

#[test]
fn sockets_that_are_meant_to_be_the_kernels_are_none() {
    let test = "sockets_that_are_meant_to_be_the_kernels_are_none";
    let Some(world) = World::new(test, "python3") else { return };
    world.ours.run("ip", &["link", "set", "lo", "up"]).unwrap();
    let program = world.write(
        "meant.py",
        "import socket, subprocess, sys, time\n\
         kept = [socket.create_server(('127.0.0.1', 8081)), socket.create_server(('10.7.0.1', 8082))]\n\
         kept.append(socket.create_connection(('127.0.0.1', 8081)))\n\
         ours = socket.create_server(('0.0.0.0', 8080))\n\
         free = socket.socket(); free.listen(); kept.append(free)\n\
         while True:\n\
         \x20   try: kept.append(socket.create_connection(('127.0.0.1', 8080))); break\n\
         \x20   except ConnectionRefusedError: pass\n\
         theirs = ours.accept()[0]\n\
         bound = socket.socket(); bound.bind(('10.7.0.1', 0)); bound.connect(('10.7.0.9', 9000)); kept.append(bound)\n\
         way = socket.socket(type=socket.SOCK_DGRAM); way.sendto(b'x', ('127.0.0.1', 9)); kept.append(way)\n\
         code = 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); print(1); input()'\n\
         child = subprocess.Popen([sys.executable, '-c', code], env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
         child.stdout.readline()\n\
         kept.append(child)\n\
         done = socket.create_server(('ADDRESS', 9999))\n\
         done.accept()[0].send(b'x')\n\
         child.stdin.close(); child.wait()\n",
    );
    let _listener = world.clients.enter(|| std::net::TcpListener::bind((PEER, 9000)).unwrap());
    let mut server = world.start("packet:gw0", 9999, &["--control", "web"], &["python3", &program]);
    // Figures come after a second, with ten checks in it.
    world.until("it has figures", || world.json().to_string().contains("greenwave_kernel_sockets_watched"));
    world.until("it takes connections", || world.clients.enter(|| TcpStream::connect(server.to).is_ok()));
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("warning") && !output.contains("the kernel's"), "{output}");
}

#[test]
fn kernel_sockets_are_counted_for_prometheus_and_as_json() {
    let test = "kernel_sockets_are_counted_for_prometheus_and_as_json";
    let Some(world) = World::new(test, "gcc") else { return };
    let command = world.way(&LISTENING[2]).unwrap();
    let options = ["--control", "web"];
    let mut server = world.start("packet:gw0", 8080, &options, &command.each_ref().map(String::as_str));
    server.says("by the kernel's TCP");
    world.until("it is counted", || {
        let out =
            world.ours.command(GREENWAVE).args(["control", "web", "status", "--json"]).output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        let figures = answer["status"]["live"]["figures"].as_array().cloned().unwrap_or_default();
        let has = |name: &str, value: f64| {
            figures.iter().any(|figure| figure["name"] == name && figure["value"] == value)
        };
        has("greenwave_kernel_sockets_total", 1.0) && has("greenwave_kernel_sockets_watched", 1.0)
    });
    assert_eq!(server.interrupted().0, Some(1));
}

//~ run: the process that searches for kernel sockets is confined and ends with the run
#[test]
fn the_watching_process_is_confined_and_ends_with_the_run() {
    let test = "the_watching_process_is_confined_and_ends_with_the_run";
    let Some(world) = World::new(test, "sleep") else { return };
    let mut server = world.start("packet:gw0", 8080, &[], &["sleep", "600"]);
    let watcher = || children(server.pid()).into_iter().find(|pid| is_watcher(*pid));
    world.until("it is there", || watcher().is_some());
    let watcher = watcher().unwrap();
    /// CAP_SYS_PTRACE, bit 19, and CAP_DAC_READ_SEARCH, bit 2.
    const LOOKS: &str = "0000000000080004";
    world.until("it is confined", || {
        let keys = ["NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh"];
        let threads = threads::statuses(watcher.as_raw_nonzero().get() as u32, keys);
        threads == [["1", "2", LOOKS, LOOKS, threads::NONE]]
    });
    kill_process(server.pid(), Signal::KILL).unwrap();
    let _ = server.child.wait();
    world.until("it ends", || is_gone(watcher));
}

#[test]
fn a_process_that_may_not_be_looked_into_is_said() {
    let test = "a_process_that_may_not_be_looked_into_is_said";
    let Some(world) = World::new(test, "setpriv") else { return };
    let mut command = world.ours.command("setpriv");
    // As in a container: root without some of its capabilities.
    command.args(["--bounding-set", "-sys_ptrace", GREENWAVE, "run", "--device", "packet:gw0", "--addr"]);
    command.arg(format!("{OURS}/24")).arg("--lib").arg(library()).arg("--");
    command.args(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "sleep", "50"]);
    let mut server = world.spawn(&mut command, "packet:gw0", 8080);
    let output = server.says("cannot be inspected (permission denied): its kernel sockets are not detected");
    assert!(output.lines().last().is_some_and(|line| line.starts_with("note: sleep (process ")), "{output}");
    let (code, output) = server.interrupted();
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("note: 1 process could not be inspected\n"), "{output}");
}

//~ run: io_uring carries bytes of connections and accepts none
#[test]
fn io_uring_carries_the_bytes_of_connections_and_accepts_none() {
    let test = "io_uring_carries_the_bytes_of_connections_and_accepts_none";
    let Some(world) = World::new(test, "gcc") else { return };
    std::fs::write(world.folder.join("bypass.c"), include_str!("bypass.c")).unwrap();
    let program = unfit::build(&world.folder, &("bypass", "gcc", C, "")).unwrap();
    let program = program.to_str().unwrap();
    let mut server = world.start("packet:gw0", 8080, &[], &[program, "mixed", "echo", OURS, "8080"]);
    let mut stream = None;
    world.until("it takes connections", || {
        stream = world.clients.enter(|| TcpStream::connect(server.to).ok());
        stream.is_some()
    });
    let mut stream = stream.unwrap();
    for _ in 0..2 {
        stream.write_all(b"by a ring").unwrap();
        let mut back = [0; 9];
        stream.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"by a ring");
    }
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
    // The kernel could not accept from such a socket, and the program gets an error.
    let mut server = world.start("packet:gw0", 8080, &[], &[program, "mixed", "accept", OURS, "8080"]);
    let (code, output) = server.ended();
    assert_eq!(code, Some(3), "{output}");
}

//~ run: io_uring carries bytes of connections and accepts none
#[test]
fn connections_left_waiting_by_a_program_with_a_ring_are_reported_with_the_ring() {
    let test = "connections_left_waiting_by_a_program_with_a_ring_are_reported_with_the_ring";
    let Some(world) = World::new(test, "gcc") else { return };
    std::fs::write(world.folder.join("bypass.c"), include_str!("bypass.c")).unwrap();
    let program = unfit::build(&world.folder, &("bypass", "gcc", C, "")).unwrap();
    let server = world.run("packet:gw0", 8080, &[program.to_str().unwrap(), "mixed", "hold", OURS, "8080"]);
    // More than the queue holds: further ones are reset.
    let waiting: Vec<_> =
        world.clients.enter(|| (0..2000).map_while(|_| TcpStream::connect(server.to).ok()).collect());
    // The watching process checks at least once a second.
    let seen = Instant::now();
    world.until("it has been looked at", || seen.elapsed() > Duration::from_secs(3));
    let (code, output) = server.interrupted();
    assert!(waiting.len() < 2000 && code == Some(0), "{output}");
    let note = ") uses io_uring; greenwave's connections cannot be accepted through io_uring\n";
    assert!(output.contains("note: bypass (process ") && output.contains(note), "{output}");
}
