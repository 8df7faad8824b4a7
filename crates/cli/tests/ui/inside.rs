//! The live view of `run` and of `guard attach`, in network namespaces.

#[cfg(feature = "bpf")]
use std::net::TcpListener;

#[cfg(feature = "bpf")]
use netlab::Veth;
use netlab::{NetLab, is_installed};

use super::library::library;
use super::*;

/// The value of `metric` in the view; 0 where it is missing.
fn value(shown: &Shown, metric: &str) -> f64 {
    let text = shown.get("/metrics");
    let of = |line: &str| line.strip_prefix(metric)?.trim().parse().ok();
    text.lines().find_map(of).unwrap_or(0.0)
}

/// Waits until `metric` is at least `least`.
fn counts(shown: &Shown, metric: &str, least: f64) {
    let shown_value = || value(shown, metric).to_string();
    until(metric, shown_value, |value| value.parse::<f64>().is_ok_and(|value| value >= least));
}

/// The page and `greenwave top` show the same `metrics` of `command`.
fn is_shown_everywhere(shown: &Shown, namespace: &Namespace, command: &str, about: &str) {
    let page = shown.get("/");
    assert!(page.contains(about), "{about:?} is not in {page}");
    let mut top = namespace.command(GREENWAVE);
    let out = top.args(["top", &shown.addr, "--once"]).output().expect("it starts");
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.starts_with(&format!("greenwave {command}, ")) && text.contains(about), "{text}");
}

//~ views: a daemon is shown until it ends, and the end still counts everything
#[test]
fn a_program_on_our_stack_is_shown_until_it_ends() {
    let test = "a_program_on_our_stack_is_shown_until_it_ends";
    let tun = std::path::Path::new("/dev/net/tun").exists();
    let missing = (!tun).then(|| "this kernel offers no TAP devices".to_owned());
    let missing = missing.or_else(|| (!is_installed("python3")).then(|| "python3 is not there".to_owned()));
    if let Some(why) = NetLab::unavailable().or(missing) {
        return skipped(test, &why);
    }
    let netns = NetLab::new("ui").unwrap().namespace("run").unwrap();
    let mut command = netns.command(GREENWAVE);
    command.args(["run", "--device", "tap:gwu0", "--addr", "10.78.0.2/24", "--ui", "127.0.0.1:0", "--lib"]);
    command.arg(library()).args(["--", "python3", "-m", "http.server", "--bind", "10.78.0.2", "80"]);
    let shown = Shown::start(command, Some(&netns));
    let ask = || {
        let mut stream = TcpStream::connect("10.78.0.2:80").ok()?;
        stream.write_all(b"GET /no-such-file HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    let answer = || netns.enter(ask).unwrap_or_default();
    until("the program's answer", answer, |answer| answer.starts_with("HTTP/1.0 404 "));
    counts(&shown, "greenwave_connections_total{shard=\"0\"}", 1.0);
    counts(&shown, "greenwave_bytes_total{shard=\"0\",direction=\"out\"}", 20.0);
    is_shown_everywhere(&shown, &netns, "run", "python3 on tap:gwu0");
    shown.end();
}

//~ views: a daemon is shown until it ends, and the end still counts everything
#[cfg(feature = "bpf")]
#[test]
fn a_guard_is_shown_until_it_is_taken_off() {
    let test = "a_guard_is_shown_until_it_is_taken_off";
    let btf = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    let missing = (!btf).then(|| "the kernel has no BTF".to_owned());
    if let Some(why) = NetLab::unavailable().or(missing) {
        return skipped(test, &why);
    }
    let lab = NetLab::new("ui").unwrap();
    let [client, server] = ["client", "server"].map(|name| lab.namespace(name).unwrap());
    lab.veth((&client, "eth0"), (&server, "eth0"), &Veth::default()).unwrap();
    client.address("eth0", "10.78.0.1".parse().unwrap(), 24).unwrap();
    server.address("eth0", "10.78.0.2".parse().unwrap(), 24).unwrap();
    let listener = server.enter(|| TcpListener::bind("0.0.0.0:80").unwrap());
    let mut command = server.command(GREENWAVE);
    command.args(["guard", "attach", "eth0", "--port", "80", "--target-delay", "10s", "--ui", "127.0.0.1:0"]);
    let shown = Shown::start(command, Some(&server));
    counts(&shown, "greenwave_guard_controller_up{device=\"eth0\"}", 1.0);
    let waits = client.enter(|| TcpStream::connect("10.78.0.2:80").unwrap());
    counts(&shown, "greenwave_guard_offered_total{device=\"eth0\",class=\"0\"}", 1.0);
    counts(&shown, "greenwave_guard_accept_queue_length{device=\"eth0\"}", 1.0);
    is_shown_everywhere(&shown, &server, "guard", "policy queue-delay, port 80 on eth0");
    drop((waits, listener));
    shown.end();
}
