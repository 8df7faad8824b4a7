//! Several stacks under one program.

//~ run: lighttpd and Python programs work on two stacks

use super::clients::echo;
use super::datagrams;
use super::servers::lighttpd;
use super::*;

const TWO: [&str; 2] = ["--shards", "2"];
const DEVICE: &str = "packet:gw0,queues=2";

/// Connections of stack `number`, by the summary.
fn connections(output: &str, number: usize) -> u64 {
    let line = output.lines().find_map(|line| line.strip_prefix(&format!("stack {number}: ")));
    let count = line.and_then(|line| line.split(' ').next()?.parse().ok());
    count.unwrap_or_else(|| panic!("no line about stack {number}: {output}"))
}

#[test]
fn stacks_serve_one_program_together() {
    let cable = Veth { queues: 2, ..Veth::default() };
    let Some(world) = World::over(&cable, "stacks_serve_one_program_together", "lighttpd") else { return };
    let mut config = String::new();
    let program = lighttpd(&world, &mut config);
    for device in [DEVICE, "xdp:gw0,queues=2"] {
        let server = world.start(device, 80, &TWO, &program);
        let takes = || world.clients.enter(|| TcpStream::connect(server.to).is_ok());
        world.until("it takes connections", takes);
        for _ in 0..32 {
            world.connections_are_kept(&server);
        }
        world.files_arrive(&server);
        let output = server.stop();
        let [first, second] = [connections(&output, 0), connections(&output, 1)];
        assert!(first > 0 && second > 0, "each has some: {output}");
        assert!(output.contains(&format!("{} connections, ", first + second)), "{output}");
    }
}

/// The allowed cores of each thread of process `id`, as the kernel lists them.
fn cores_of(id: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("it runs");
    let list = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(line.trim().to_owned())
    };
    tasks.filter_map(list).collect()
}

//~ shards: stacks pinned with `--flow-hash rss` have a core each
//~ run: pinned stacks have a core each and the program has all others
#[test]
fn stacks_that_are_pinned_have_a_core_each_and_the_program_has_all() {
    let test = "stacks_that_are_pinned_have_a_core_each_and_the_program_has_all";
    let cores = host::affinity::cores().expect("a list of cores");
    let &[first, second, ..] = &cores[..] else { return skipped(test, "there is one core") };
    let cable = Veth { queues: 2, ..Veth::default() };
    let Some(world) = World::over(&cable, test, "lighttpd") else { return };
    let mut config = String::new();
    let program = lighttpd(&world, &mut config);
    let more = [&TWO[..], &["--pin", "--flow-hash", "rss"]].concat();
    let server = world.start("xdp:gw0,queues=2", 80, &more, &program);
    let takes = || world.clients.enter(|| TcpStream::connect(server.to).is_ok());
    world.until("it takes connections", takes);
    world.files_arrive(&server);
    let everywhere = &cores_of(std::process::id())[0];
    let of_stacks = cores_of(server.child.id());
    for core in [first, second] {
        let there = of_stacks.iter().filter(|list| **list == core.0.to_string()).count();
        assert_eq!(there, 1, "a stack on core {}: {of_stacks:?}", core.0);
    }
    for child in host::proc::family(server.child.id()).into_iter().filter(|id| *id != server.child.id()) {
        assert!(cores_of(child).iter().all(|list| list == everywhere), "{:?}", cores_of(child));
    }
    server.stop();
}

#[test]
fn python_connects_in_every_way_by_two_stacks() {
    let Some(world) = World::new("python_connects_in_every_way_by_two_stacks", "python3") else { return };
    echo(&world);
    let script = world.python("clients.py", include_str!("clients.py"));
    let (printed, stderr) = world.client_with(&TWO, DEVICE, &["python3", &script, OURS, PEER]);
    assert!(printed.ends_with("all\n"), "{printed}\n{stderr}");
    assert!(connections(&stderr, 0) > 0 && connections(&stderr, 1) > 0, "{stderr}");
}

#[test]
fn python_uses_datagrams_in_every_way_by_two_stacks() {
    let Some(world) = World::new("python_uses_datagrams_in_every_way_by_two_stacks", "python3") else {
        return;
    };
    datagrams::echo(&world, PEER);
    let script = world.python("datagrams.py", include_str!("datagrams.py"));
    let (printed, stderr) = world.client_with(&TWO, DEVICE, &["python3", &script, OURS, PEER]);
    assert!(printed.ends_with("all\n"), "{printed}\n{stderr}");
}

//~ run: stacks without a queue each are refused
#[test]
fn stacks_without_a_queue_each_or_with_one_capture_are_refused() {
    let test = "stacks_without_a_queue_each_or_with_one_capture_are_refused";
    let Some(world) = World::new(test, "true") else { return };
    let addr = format!("{OURS}/24");
    let refused = |device: &str, more: &[&str], what: &str, advice: &str| {
        let mut command = world.ours.command(GREENWAVE);
        command.args(["run", "--device", device, "--addr", &addr, "--shards", "3"]).args(more);
        let out = command.arg("--lib").arg(library()).args(["--", "true"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert_eq!(stderr, format!("error: {what}\n  try: {advice}\n"));
    };
    for device in ["packet:gw0", "packet:gw0,queues=2"] {
        let queues = if device.contains('=') { 2 } else { 1 };
        let what = format!("--shards 3 needs 3 device queues, and {device} has {queues}");
        refused(device, &[], &what, "--device packet:gw0,queues=3");
    }
    let pcap = world.folder.join("all.pcap");
    let pcap = pcap.to_str().unwrap();
    let what = format!("--pcap {pcap}: the file holds the frames of one stack, and --shards is 3");
    refused("packet:gw0,queues=3", &["--pcap", pcap], &what, "--shards 1");
}
