//! The kernel against `greenwave run`: the same programs on both, over the same cable.
//!
//! A program prints a line for each case, and a case whose result differs is one that a row of
//! `differential/differences.tsv` explains. The guide's page of differences is made from these rows.
//! `GREENWAVE_DIFFERENTIAL=whole` also runs them on an XDP device; `GREENWAVE_UPDATE=1` writes the page.

use std::collections::BTreeMap;

use super::*;

/// Programs, by the name that rows use.
const PROGRAMS: [(&str, &str); 7] = [
    ("options", include_str!("differential/options.py")),
    ("ends", include_str!("differential/ends.py")),
    ("flags", include_str!("differential/flags.py")),
    ("calls", include_str!("differential/calls.py")),
    ("datagrams", include_str!("differential/datagrams.py")),
    ("ports", include_str!("differential/ports.py")),
    ("duplicates", include_str!("differential/duplicates.py")),
];

/// A difference: the cases that have it, and the reason.
struct Row {
    program: &'static str,
    cases: Vec<&'static str>,
    kernel: &'static str,
    run: &'static str,
    reason: &'static str,
}

/// `program`, cases separated by ` / `, the kernel's result, ours, the reason; separated by tabs.
fn rows() -> Vec<Row> {
    let lines = include_str!("differential/differences.tsv").lines().filter(|line| !line.is_empty());
    let row = |line: &'static str| {
        let fields: Vec<_> = line.split('\t').collect();
        let [program, cases, kernel, run, reason] = fields[..] else { panic!("five fields: {line}") };
        Row { program, cases: cases.split(" / ").collect(), kernel, run, reason }
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

#[test]
fn programs_see_what_the_kernel_would_show_them() {
    let test = "programs_see_what_the_kernel_would_show_them";
    let Some(world) = World::new(test, "python3") else { return };
    let mut peer = world.clients.command("python3");
    peer.args([&world.write("peer.py", include_str!("differential/peer.py")), PEER]).stdout(Stdio::piped());
    let mut peer = world.clients.spawn(&mut peer).unwrap();
    // Else the kernel refuses only some of many datagrams.
    world.clients.run("sysctl", &["-qw", "net.ipv4.icmp_ratelimit=0"]).unwrap();
    let mut ready = String::new();
    BufReader::new(peer.stdout.take().expect("a pipe")).read_line(&mut ready).unwrap();
    let whole = std::env::var("GREENWAVE_DIFFERENTIAL").is_ok_and(|what| what == "whole");
    let devices: &[&str] = if whole { &["packet:gw0", "xdp:gw0"] } else { &["packet:gw0"] };
    let rows = rows();
    let mut explained = vec![false; rows.len()];
    let mut unexplained = Vec::new();
    for (name, text) in PROGRAMS {
        let script = world.python(&format!("{name}.py"), text);
        let out = world
            .ours
            .command("timeout")
            .args(["60", "python3", &script, "10.7.0.1", PEER])
            .output()
            .unwrap();
        assert!(out.status.success(), "{name}: {}", String::from_utf8_lossy(&out.stderr));
        let kernel = results(&String::from_utf8_lossy(&out.stdout));
        assert!(!kernel.is_empty(), "{name} prints results");
        for device in devices {
            let (printed, said) = world.client(device, &["python3", &script, OURS, PEER]);
            let ours = results(&printed);
            assert!(ours.keys().eq(kernel.keys()), "{name}: the same cases\n{said}");
            for (case, theirs) in kernel.iter().filter(|(case, theirs)| ours[*case] != **theirs) {
                let is =
                    |row: &Row| row.program == name && row.cases.iter().any(|cases| matches(cases, case));
                match rows.iter().position(is) {
                    Some(row) => explained[row] = true,
                    None => unexplained.push(format!(
                        "{name} {case} on {device}\n  kernel {theirs}\n  run    {}",
                        ours[case]
                    )),
                }
            }
        }
    }
    assert!(unexplained.is_empty(), "{} differences:\n{}", unexplained.len(), unexplained.join("\n"));
    let stale =
        rows.iter().zip(explained).filter(|(_, explained)| !explained).map(|(row, _)| row.cases.join(" / "));
    let stale: Vec<_> = stale.collect();
    assert!(stale.is_empty(), "rows without a difference: {stale:?}");
}

#[test]
fn the_guide_has_every_difference() {
    let mut page = include_str!("differential/page.md").to_owned();
    for Row { program, cases, kernel, run, reason } in rows() {
        let cases = cases.iter().map(|case| format!("`{case}`")).collect::<Vec<_>>().join("<br>");
        page += &format!("| {program} | {cases} | {kernel} | {run} | {reason} |\n");
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

/// Hop limits of what leaves, as the peer's device sees them; IPv4 and IPv6.
#[test]
fn packets_have_the_hop_limit_that_their_socket_was_told() {
    let test = "packets_have_the_hop_limit_that_their_socket_was_told";
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
            let told = run();
            let mut all = String::new();
            seen.read_to_string(&mut all).unwrap();
            (told, all)
        };
        let (told, expected) = seen(kernel, &|| {
            let mut command = world.ours.command("timeout");
            let out = command.args(["60", "python3", &program, kernel, there]).output().unwrap();
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            String::from_utf8_lossy(&out.stdout).into_owned()
        });
        assert_eq!(expected.lines().count(), 13, "a line for each port, and one for pieces\n{expected}");
        let prefix = if there == PEER { 24 } else { 64 };
        let at = format!("{addr}/{prefix}");
        let run = || world.client_at(&at, "packet:gw0", &["python3", &program, addr, there]).0;
        assert_eq!(seen(addr, &run), (told, expected));
    }
}

#[test]
fn options_that_were_set_before_and_have_no_effect_are_counted() {
    let test = "options_that_were_set_before_and_have_no_effect_are_counted";
    let Some(world) = World::new(test, "python3") else { return };
    clients::echo(&world);
    let script = world.python("before.py", include_str!("differential/before.py"));
    let (printed, said) = world.client("packet:gw0", &["python3", &script, OURS, PEER]);
    assert_eq!(printed, "on lo: 99\non gw0: b'x'\n", "{said}");
    for (level, option) in [(1, 36), (6, 2), (6, 9), (6, 13), (0, 11)] {
        let line = format!("refused: setsockopt level {level} option {option}, 2×");
        assert!(said.contains(&line), "{line} is not in\n{said}");
    }
}
