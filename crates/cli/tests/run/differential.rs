//! Differential test of the kernel and `greenwave run`: the same programs on both, over the same
//! link.
//!
//! A program prints a line for each case; a row of `differential/differences.tsv` explains each
//! case whose result differs. The guide's page of differences is made from these rows.
//! `GREENWAVE_DIFFERENTIAL=whole` also runs them on XDP and TAP devices; `GREENWAVE_UPDATE=1`
//! writes the page.

use std::collections::BTreeMap;

use super::*;

/// A program, by the name in rows, and true if it runs over IPv6 too. IPv6 runs are called
/// `NAME over IPv6`.
struct Program {
    name: &'static str,
    text: &'static str,
    six: bool,
}

macro_rules! program {
    ($name:literal, $six:literal) => {
        Program { name: $name, text: include_str!(concat!("differential/", $name, ".py")), six: $six }
    };
}

const PROGRAMS: [Program; 16] = [
    program!("options", true),
    program!("sequence", true),
    program!("ends", true),
    program!("unreachable", true),
    program!("queue", false),
    program!("late", false),
    program!("segments", false),
    program!("flags", true),
    program!("calls", true),
    program!("datagrams", true),
    program!("control", true),
    program!("families", false),
    program!("ports", false),
    program!("duplicates", false),
    program!("forked", false),
    program!("reports", false),
];

/// A device, and the addresses of the stack and of the peer on it, by family.
struct Device {
    name: &'static str,
    ours: [&'static str; 2],
    peer: [&'static str; 2],
}

/// A device with the peer in another network namespace, and the kernel's addresses on the same
/// link.
const PACKET: Device = Device { name: "packet:gw0", ours: [OURS, "fd00:7::2"], peer: [PEER, "fd00:7::9"] };
const XDP: Device = Device { name: "xdp:gw0", ..PACKET };
const KERNEL: Device = Device { name: "the kernel", ours: ["10.7.0.1", "fd00:7::1"], ..PACKET };
/// A device whose other end is the kernel.
const TAP: Device =
    Device { name: "tap:gw9", ours: ["10.9.0.2", "fd00:9::2"], peer: ["10.9.0.9", "fd00:9::9"] };

impl Device {
    /// Options of `greenwave run`.
    fn options(&self) -> (String, Vec<String>) {
        let [four, six] = self.ours;
        let mut options = vec!["--gateway".to_owned(), self.peer.join(",")];
        if self.name.starts_with("tap") {
            options.extend(["--host-addr".to_owned(), format!("{},{}", self.peer[0], self.peer[1])]);
        }
        (format!("{four}/24,{six}/64"), options)
    }
}

/// A difference: the cases that have it, and the reason.
struct Row {
    programs: Vec<&'static str>,
    cases: Vec<&'static str>,
    kernel: &'static str,
    run: &'static str,
    reason: &'static str,
}

/// Programs separated by `, `, cases separated by ` / `, the kernel's result, ours, the reason; separated by tabs.
fn rows() -> Vec<Row> {
    let lines = include_str!("differential/differences.tsv").lines().filter(|line| !line.is_empty());
    let row = |line: &'static str| {
        let fields: Vec<_> = line.split('\t').collect();
        let [programs, cases, kernel, run, reason] = fields[..] else { panic!("five fields: {line}") };
        let (programs, cases) = (programs.split(", ").collect(), cases.split(" / ").collect());
        Row { programs, cases, kernel, run, reason }
    };
    lines.map(row).collect()
}

/// True if `case` matches `pattern`, in which `*` is any text without a space, and `{a,b}` is a choice.
fn matches(pattern: &str, case: &str) -> bool {
    if let Some((before, rest)) = pattern.split_once('{') {
        let (choices, after) = rest.split_once('}').expect("a choice ends");
        return choices.split(',').any(|choice| matches(&format!("{before}{choice}{after}"), case));
    }
    let (words, cases): (Vec<_>, Vec<_>) = (pattern.split(' ').collect(), case.split(' ').collect());
    words.len() == cases.len() && words.iter().zip(cases).all(|(word, case)| *word == "*" || *word == case)
}

/// The results in `printed`, by case.
fn results(printed: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let (case, result) = line.split_once(": ").expect("a case and its result");
        (case.to_owned(), result.to_owned())
    };
    printed.lines().map(line).collect()
}

/// Starts the peers of both namespaces, and waits until they serve.
fn peers(world: &World) -> [Child; 2] {
    let script = world.write("peer.py", include_str!("differential/peer.py"));
    [(&world.clients, PACKET.peer), (&world.ours, TAP.peer)].map(|(namespace, addresses)| {
        // Otherwise the kernel rate-limits its ICMP errors.
        for rate in ["net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0"] {
            namespace.run("sysctl", &["-qw", rate]).unwrap();
        }
        let mut peer = namespace.command("python3");
        peer.arg(&script).args(addresses).stdout(Stdio::piped());
        let mut peer = namespace.spawn(&mut peer).unwrap();
        let mut ready = String::new();
        BufReader::new(peer.stdout.take().expect("a pipe")).read_line(&mut ready).unwrap();
        peer
    })
}

/// Runs of a program: its name, its file, and the family of its addresses.
fn runs(world: &World) -> Vec<(String, String, usize)> {
    let mut runs = Vec::new();
    for Program { name, text, six } in PROGRAMS {
        let script = world.python(&format!("{name}.py"), text);
        runs.push((name.to_owned(), script.clone(), 0));
        if six {
            runs.push((format!("{name} over IPv6"), script, 1));
        }
    }
    runs
}

/// A program's results on the kernel.
fn on_the_kernel(world: &World, script: &str, family: usize) -> BTreeMap<String, String> {
    let (ours, peer) = (KERNEL.ours[family], KERNEL.peer[family]);
    let out = world.ours.command("timeout").args(["60", "python3", script, ours, peer]).output().unwrap();
    assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
    results(&String::from_utf8_lossy(&out.stdout))
}

/// Results under `greenwave run` on `device`.
fn on(world: &World, device: &Device, script: &str, family: usize) -> BTreeMap<String, String> {
    let (addr, options) = device.options();
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let program = ["python3", script, device.ours[family], device.peer[family]];
    results(&world.client_as(&addr, &options, device.name, &program).0)
}

//~ programs: 25,700 results of socket calls are the kernel's results or stand in the guide's list of differences
#[test]
fn programs_see_what_the_kernel_would_show_them() {
    let test = "programs_see_what_the_kernel_would_show_them";
    let Some(world) = World::new(test, "python3") else { return };
    world.ours.address("gw0", KERNEL.ours[1].parse().unwrap(), 64).unwrap();
    world.clients.address("eth0", KERNEL.peer[1].parse().unwrap(), 64).unwrap();
    for (far, peer) in ["10.8.0.0/16", "fd00:8::/32"].into_iter().zip(KERNEL.peer) {
        world.ours.run("ip", &["route", "add", far, "via", peer]).unwrap();
    }
    // Otherwise the kernel has no route to an IPv6 address.
    world.clients.run("ip", &["route", "add", "blackhole", "fd00:8::/32"]).unwrap();
    let _peers = peers(&world);
    let runs = runs(&world);
    let is_full = std::env::var("GREENWAVE_DIFFERENTIAL").is_ok_and(|what| what == "whole");
    let devices: &[&Device] = if is_full { &[&PACKET, &XDP, &TAP] } else { &[&PACKET] };
    let rows = rows();
    let mut explained = vec![false; rows.len()];
    let mut unexplained = Vec::new();
    // Both mostly wait, and do not interfere.
    let (kernel, ours) = std::thread::scope(|scope| {
        let each = || runs.iter().map(|(_, script, family)| on_the_kernel(&world, script, *family));
        let kernel = scope.spawn(move || each().collect::<Vec<_>>());
        let on = |device: &&Device| {
            let each = runs.iter().map(|(_, script, family)| on(&world, device, script, *family));
            each.collect::<Vec<_>>()
        };
        let ours: Vec<_> = devices.iter().map(on).collect();
        (kernel.join().unwrap(), ours)
    });
    for (device, ours) in devices.iter().zip(ours) {
        for (((name, script, family), kernel), ours) in runs.iter().zip(&kernel).zip(ours) {
            assert!(!kernel.is_empty(), "{name} prints results");
            assert!(ours.keys().eq(kernel.keys()), "{name}: the same cases");
            let mut unknown = Vec::new();
            for (case, expected) in kernel.iter().filter(|(case, expected)| ours[*case] != **expected) {
                let is = |row: &Row| {
                    row.programs.contains(&name.as_str())
                        && row.cases.iter().any(|cases| matches(cases, case))
                };
                match rows.iter().position(is) {
                    Some(row) => explained[row] = true,
                    None => unknown.push((case, expected)),
                }
            }
            if !unknown.is_empty() {
                // On a busy machine the kernel's timers and ICMP errors come late: a difference repeats.
                let kernel = on_the_kernel(&world, script, *family);
                let ours = on(&world, device, script, *family);
                unknown.retain(|(case, _)| kernel.get(*case) != ours.get(*case));
            }
            unexplained.extend(unknown.iter().map(|(case, expected)| {
                let ours = &ours[*case];
                format!("{name} {case} on {}\n  kernel {expected}\n  run    {ours}", device.name)
            }));
        }
    }
    assert!(unexplained.is_empty(), "{} differences:\n{}", unexplained.len(), unexplained.join("\n"));
    let stale =
        rows.iter().zip(explained).filter(|(_, explained)| !explained).map(|(row, _)| row.cases.join(" / "));
    let stale: Vec<_> = stale.collect();
    assert!(stale.is_empty(), "rows without a difference: {stale:?}");
}

//~ programs: the guide lists every known difference from the kernel
#[test]
fn the_guide_has_every_difference() {
    let mut page = include_str!("differential/page.md").to_owned();
    for Row { programs, cases, kernel, run, reason } in rows() {
        let programs = programs.join(", ");
        let cases = cases.iter().map(|case| format!("`{case}`")).collect::<Vec<_>>().join("<br>");
        page += &format!("| {programs} | {cases} | {kernel} | {run} | {reason} |\n");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/kernel-differences.md");
    if std::env::var_os("GREENWAVE_UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap() == page,
        "docs/guide/kernel-differences.md is older than differences.tsv: GREENWAVE_UPDATE=1 cargo test -p cli --test run the_guide"
    );
}

//~ programs: packets carry the hop limit of their socket; segments below IP_MINTTL are dropped (RFC 5082)
/// Hop limits of outgoing packets, as the peer's device sees them; IPv4 and IPv6.
#[test]
fn packets_have_the_hop_limit_of_their_socket() {
    let test = "packets_have_the_hop_limit_of_their_socket";
    let Some(world) = World::new(test, "python3") else { return };
    world.ours.address("gw0", "fd07::1".parse().unwrap(), 64).unwrap();
    world.clients.address("eth0", "fd07::9".parse().unwrap(), 64).unwrap();
    let (program, peer) = (include_str!("differential/hops.py"), include_str!("differential/hops_peer.py"));
    let (program, peer) = (world.python("hops.py", program), world.write("hops_peer.py", peer));
    for (kernel, addr, there) in [("10.7.0.1", OURS, PEER), ("fd07::1", "fd07::2", "fd07::9")] {
        let seen = |from: &str, run: &dyn Fn() -> String| {
            let mut command = world.clients.command("timeout");
            command.args(["60", "python3", &peer, there, from]).stdout(Stdio::piped());
            let mut child = world.clients.spawn(&mut command).unwrap();
            let mut seen = BufReader::new(child.stdout.take().expect("a pipe"));
            let mut ready = String::new();
            seen.read_line(&mut ready).unwrap();
            let result = run();
            let mut all = String::new();
            seen.read_to_string(&mut all).unwrap();
            (result, all)
        };
        let (result, expected) = seen(kernel, &|| {
            let mut command = world.ours.command("timeout");
            let out = command.args(["60", "python3", &program, kernel, there]).output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8_lossy(&out.stdout).into_owned()
        });
        assert_eq!(expected.lines().count(), 16, "a line for each port, and one for pieces\n{expected}");
        let prefix = if there == PEER { 24 } else { 64 };
        let at = format!("{addr}/{prefix}");
        let run = || world.client_at(&at, "packet:gw0", &["python3", &program, addr, there]).0;
        assert_eq!(seen(addr, &run), (result, expected));
    }
}

//~ programs: options set before the socket is the stack's and without effect are counted
#[test]
fn options_that_were_set_before_and_have_no_effect_are_counted() {
    let test = "options_that_were_set_before_and_have_no_effect_are_counted";
    let Some(world) = World::new(test, "python3") else { return };
    world.clients.address("eth0", PACKET.peer[1].parse().unwrap(), 64).unwrap();
    clients::echo(&world);
    let script = world.python("before.py", include_str!("differential/before.py"));
    options_have_no_effect(&world, &script, 0, &[(1, 36), (6, 2), (6, 9), (0, 11)]);
    options_have_no_effect(&world, &script, 1, &[(1, 36), (6, 2), (41, 11), (41, 25), (41, 51)]);
}

/// Runs `script` over IPv4 (`family` 0) or IPv6: each option that it names, `some` among them, is
/// counted.
fn options_have_no_effect(world: &World, script: &str, family: usize, some: &[(u8, u8)]) {
    let (addr, options) = PACKET.options();
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let program = ["python3", script, PACKET.ours[family], PACKET.peer[family]];
    let (printed, stderr) = world.client_as(&addr, &options, PACKET.name, &program);
    let (options, rest): (Vec<_>, Vec<_>) = printed.lines().partition(|line| line.starts_with("level "));
    assert_eq!(rest, ["on lo: 99", "on gw0: b'x'"], "{stderr}");
    for (level, option) in some {
        let option = format!("level {level} option {option}");
        assert!(options.contains(&&*option), "{option} is not in\n{printed}");
    }
    // Counts for an option refused on a bound socket, one set before bind, and one set before
    // connect.
    let counted = |option: &str| {
        let line =
            stderr.lines().find_map(|line| line.strip_prefix(&format!("refused: setsockopt {option}, ")));
        line.and_then(|times| times.trim_end_matches('×').parse::<u32>().ok()).unwrap_or(0)
    };
    let uncounted: Vec<_> = options.iter().filter(|option| counted(option) < 3).collect();
    assert!(uncounted.is_empty(), "{uncounted:?}\n{stderr}");
}
