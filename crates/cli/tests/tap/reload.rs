//! SIGHUP: settings that a server reloads, and those that it refuses.

//~ operations: SIGHUP reloads configuration and policy of `serve` and `run` without dropping a connection

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Scratch, Server, URL, curl, echo};

/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);

/// A server whose stderr is the file `log`.
fn start_logged(log: &Scratch, words: &[&str]) -> Server {
    let file = std::fs::File::create(&log.0).expect("the folder for test files is writable");
    Server::spawn(words, Stdio::from(file))
}

/// Waits until the server has printed `words`; returns their line.
#[track_caller]
fn wait_for_line(log: &Scratch, words: &str) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        let text = std::fs::read_to_string(&log.0).expect("the server's stderr is a file of text");
        if let Some(line) = text.lines().find(|line| line.contains(words)) {
            return line.to_owned();
        }
        assert!(Instant::now() < end, "{words:?} was not said: {text}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A file with `text`.
fn file(name: &str, text: &str) -> Scratch {
    let file = Scratch::new(name);
    write(&file, text);
    file
}

fn write(file: &Scratch, text: &str) {
    std::fs::write(&file.0, text).expect("the folder for test files is writable");
}

/// Packets dropped by a policy are retransmitted, so the request is answered on the same connection
/// once another policy admits it. Before that, the server refuses unchangeable settings and
/// mistakes.
pub fn a_policy_is_read_again_and_connections_stay() {
    let closed = |layer: &str, path: &str| {
        format!("[[rule]]\nlayer = \"{layer}\"\nhttp = {{ path = \"{path}\" }}\ndrop = true\n")
    };
    let policy =
        file("tap-reload.toml", &(closed("driver", "/bytes/10") + &closed("transport", "/bytes/20")));
    let other = file("tap-reload-other.toml", "default = 5\n");
    let serve = |device: &str, addr: &str, policy: &Scratch| {
        let policy = policy.path();
        format!("[serve]\ndevice = \"{device}\"\naddr = \"{addr}\"\npolicy = \"{policy}\"\n")
    };
    let (device, addr) = ("tap:gw0", "10.77.0.2/24");
    let all = file("tap-reload-all.toml", &serve(device, addr, &policy));
    let log = Scratch::new("tap-reload.log");
    let server = start_logged(&log, &["--config", all.path(), "serve", "--app", "http"]);
    let mut asking = [10, 20].map(|len| {
        let mut stream = TcpStream::connect(echo()).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("60 s is a time");
        ask(&mut stream, "/bytes/30");
        assert_eq!(answer(&mut stream), 30);
        ask(&mut stream, &format!("/bytes/{len}"));
        (stream, len)
    });

    for (text, says) in [
        (serve("tap:gw1", addr, &other), ":2: device changed from tap:gw0 to tap:gw1, which needs a restart"),
        (
            serve(device, "10.77.0.3/24", &other),
            ":3: addr changed from 10.77.0.2/24 to 10.77.0.3/24, which needs a restart",
        ),
        (
            serve(device, addr, &other) + "pin = true\n",
            ":5: pin changed from false to true, which needs a restart",
        ),
        (serve(device, addr, &other) + "pim = true\n", ":5: unknown key `pim` in [serve]"),
    ] {
        write(&all, &text);
        server.signal(Signal::HUP);
        let line = wait_for_line(&log, says);
        assert!(line.starts_with(&format!("error: {}{says}", all.path())), "{line}");
        assert!(line.ends_with("; the previous settings stay in force"), "{line}");
    }
    write(&all, &serve(device, addr, &policy));
    write(&policy, "default = 5\npriority = 0\n");
    server.signal(Signal::HUP);
    let line = wait_for_line(&log, &format!("{}:2: ", policy.path()));
    assert!(line.starts_with("error: ") && line.ends_with("; the previous settings stay in force"), "{line}");
    for (stream, _) in &mut asking {
        stream.set_nonblocking(true).expect("it is a socket");
        let end = stream.read(&mut [0]).map_err(|e| e.kind());
        assert_eq!(end, Err(ErrorKind::WouldBlock), "the rules of before hold");
        stream.set_nonblocking(false).expect("it is a socket");
    }

    write(&policy, "default = 6\n");
    server.signal(Signal::HUP);
    for (stream, len) in &mut asking {
        assert_eq!(answer(stream), *len);
    }
    wait_for_line(&log, &format!("reloaded: policy {}", policy.path()));
    write(&all, &serve(device, addr, &other));
    server.signal(Signal::HUP);
    wait_for_line(&log, &format!("reloaded: policy {}", other.path()));
    for (stream, _) in &mut asking {
        ask(stream, "/bytes/30");
        assert_eq!(answer(stream), 30);
    }
    drop(asking);
    let summary = server.stop();
    assert!(summary.contains("2 connections, 6 requests"), "{summary}");
}

pub fn a_hangup_with_nothing_to_read_changes_nothing() {
    let log = Scratch::new("tap-hangup.log");
    let server =
        start_logged(&log, &["serve", "--device", "tap:gw0", "--addr", "10.77.0.2/24", "--app", "http"]);
    server.signal(Signal::HUP);
    let says = "error: reload reads --policy and --config, and neither was given; the previous settings stay in force";
    wait_for_line(&log, says);
    assert!(!curl(&[URL]).is_empty());
    server.stop();
}

/// Sends a request that keeps the connection open, in one segment: a driver's rule sees a single
/// frame.
fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("the server is there");
}

/// Length of the received body.
fn answer(stream: &mut TcpStream) -> usize {
    let (mut received, mut piece) = (Vec::new(), [0; 1024]);
    loop {
        let got = stream.read(&mut piece).expect("an answer comes");
        assert!(got > 0, "the connection ended");
        received.extend_from_slice(&piece[..got]);
        let text = String::from_utf8_lossy(&received).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        let len: usize = length.trim().parse().expect("a length is a number");
        if received.len() - (text.len() - body.len()) >= len {
            return len;
        }
    }
}
