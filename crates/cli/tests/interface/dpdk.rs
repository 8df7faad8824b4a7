//! The server on a DPDK port: `make test-dpdk`.

//~ devices: DPDK (a feature) serves virtual devices with several queues and checksums

use drivers::dpdk;
use rustix::process::Signal;

use super::{Cable, GREENWAVE, skipped};

/// As [`Cable::new`], where DPDK is built in.
fn cable_for_dpdk(test: &str) -> Option<Cable> {
    if !dpdk::BUILT {
        skipped(test, "built without DPDK; make test-dpdk");
        return None;
    }
    Cable::new(test)
}

#[test]
fn a_port_of_dpdk_is_served_and_nothing_stays_of_it() {
    let Some(cable) = cable_for_dpdk("a_port_of_dpdk_is_served_and_nothing_stays_of_it") else { return };
    let two = "dpdk:net_af_packet0,iface=gw0,qpairs=2,queues=2,no-huge=128";
    for (device, more, signal, expected) in [
        (
            "dpdk:net_af_packet0,iface=gw0,no-huge",
            &[][..],
            Signal::TERM,
            "(net_af_packet, 1 queue, checksums",
        ),
        (two, &["--shards", "2"], Signal::INT, "(net_af_packet, 2 queues, no RSS, checksums"),
    ] {
        let server = cable.serve(device, more);
        assert!(
            server.line.contains(expected) && server.line.contains("DPDK owns the port"),
            "{}",
            server.line
        );
        cable.echoes(1_000_000);
        cable.host_answers();
        let files = format!("/var/run/dpdk/greenwave-{}", server.child.id());
        let rest = server.stop(signal);
        assert!(rest.contains("1 connections"), "{rest}");
        assert!(!std::path::Path::new(&files).exists(), "{files} stays behind");
    }
}

#[test]
fn dpdk_that_cannot_start_is_one_line_with_advice() {
    let test = "dpdk_that_cannot_start_is_one_line_with_advice";
    let Some(cable) = cable_for_dpdk(test) else { return };
    let check = |device: &str, what: &str, advice: &str| {
        let error = cable.refusal(&format!("dpdk:{device}"), &[]);
        let lines: Vec<&str> = error.lines().collect();
        let [first, second] = lines[..] else { panic!("{device}: two lines, not {error}") };
        assert!(first.starts_with("error: ") && first.contains(what), "{device}: {error}");
        assert!(second.starts_with("  try: ") && second.contains(advice), "{device}: {error}");
    };
    check("net_nosuch0,no-huge", "DPDK has no driver for \"net_nosuch0\"", "net_af_packet0,iface=NAME");
    check("net_af_packet0,iface=gw9,no-huge", "refuses to attach: ioctl failed (SIOCGIFINDEX)", "nics");
    check("net_af_packet0,iface=gw0,no-huge,queues=2", "net_af_packet0 has 1 queue, not 2", "queues=1");
    check("net_af_packet0,iface=gw0,no-huge,mtu=9000", "mtu 9000 exceeds the port's", "mtu=1");
    match std::fs::read_to_string("/proc/sys/vm/nr_hugepages") {
        Ok(pages) if pages.trim() == "0" => check(
            "net_tap0,iface=gw1",
            "frame buffers need 24 MiB of huge pages, and 0 are free",
            "sysctl -w vm.nr_hugepages=12, or, with a virtual device: --device dpdk:net_tap0,iface=gw1,no-huge",
        ),
        _ => skipped(test, "absent huge pages: this machine has some"),
    }
    if !netlab::is_installed("prlimit") {
        return skipped(test, "memory that is refused: prlimit is not there");
    }
    let mut command = cable.ours.command("prlimit");
    command.args(["--as=4000000000", GREENWAVE, "serve", "--addr", "10.7.0.2/24"]);
    let out = command.args(["--device", "dpdk:net_tap0,no-huge=60000"]).output().unwrap();
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert!(stderr.starts_with("error: DPDK does not start: ") && stderr.contains("\n  try: "), "{stderr}");
    assert_eq!(stderr.lines().count(), 2, "{stderr}");
}

//~ devices: DPDK (a feature) serves virtual devices with several queues and checksums
#[test]
fn without_dpdk_built_in_the_command_that_builds_it_is_named() {
    let test = "without_dpdk_built_in_the_command_that_builds_it_is_named";
    if dpdk::BUILT {
        return skipped(test, "built with DPDK");
    }
    let mut command = std::process::Command::new(GREENWAVE);
    let out = command.args(["serve", "--device", "dpdk:01:00.0", "--addr", "10.7.0.2/24"]).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    let expected = "error: this greenwave was built without DPDK\n  try: apt-get install libdpdk-dev && \
                    cargo build --release -p cli --features dpdk\n";
    assert_eq!(String::from_utf8(out.stderr).unwrap(), expected);
}
