//! DPDK ports: the virtual devices that need no hardware. Run by `make test-dpdk`; skipped with a
//! message in a build without DPDK.

//~ devices: DPDK (a feature) serves virtual devices with several queues and checksums

use drivers::dpdk::{self, DpdkError, Memory, Opened, Options};
use net::Device;
use net::device::multi_queue::MultiQueue;
use net::stack::Config;
use net::{EventKind, Stack};
use netlab::client::check_echo;
use netlab::{Namespace, NetLab, Veth};
use queueing::{Clock, Span, Time};

use crate::echo::{Cable, HOST, OURS, PORT, Server};
use crate::skipped;

/// True if DPDK is built in and may be used; otherwise `test` is skipped.
fn can_run(test: &str) -> bool {
    if !dpdk::BUILT {
        skipped(test, "built without DPDK; make test-dpdk");
        return false;
    }
    match NetLab::unavailable() {
        Some(why) => skipped(test, &why),
        None => return true,
    }
    false
}

/// Options without huge pages, which most test machines lack.
fn plain() -> Options {
    Options { memory: Memory::Plain { mib: 512 }, ..Options::default() }
}

fn open(device: &str, options: &Options) -> Opened {
    dpdk::open(device, options).unwrap_or_else(|e| panic!("{device}: {e}"))
}

#[test]
fn the_kernels_tcp_is_served_by_dpdk_and_the_host_stays_reachable() {
    if !can_run("the_kernels_tcp_is_served_by_dpdk_and_the_host_stays_reachable") {
        return;
    }
    let cable = Cable::new("dpdk", &Veth::default());
    // The second right after the first, whose resources are free again.
    for _ in 0..2 {
        let opened = cable.ours.enter(|| open("net_af_packet0,iface=gw0", &plain()));
        assert_eq!(opened.summary(), "net_af_packet, 1 queue, checksums in software");
        assert_eq!(opened.mac, cable.ours.mac("gw0").unwrap());
        let server = Server::on(MultiQueue::new(opened.devices), opened.mac);
        cable.echoes(1_000_000);
        cable.host_answers();
        server.stop();
    }
}

#[test]
fn two_queues_of_a_port_are_served() {
    if !can_run("two_queues_of_a_port_are_served") {
        return;
    }
    let cable = Cable::new("dpdk-queues", &Veth::default());
    let options = Options { queues: 2, ..plain() };
    let opened = cable.ours.enter(|| open("net_af_packet1,iface=gw0,qpairs=2", &options));
    assert_eq!(opened.summary(), "net_af_packet, 2 queues, no RSS, checksums in software");
    let server = Server::on(MultiQueue::new(opened.devices), opened.mac);
    cable.echoes(1_000_000);
    server.stop();
}

/// Serves the kernel's end of a TAP device made by DPDK, and checks that the device is removed
/// afterwards.
fn echo_over_tap(inside: &Namespace, device: &str, options: &Options) -> Opened {
    let device = format!("{device},iface=gw0");
    let mut opened = inside.enter(|| open(&device, options));
    inside.address("gw0", HOST.into(), 24).unwrap();
    let devices = std::mem::take(&mut opened.devices);
    let server = Server::on(MultiQueue::new(devices), opened.mac);
    inside.enter(|| check_echo((OURS, PORT).into(), 1_000_000));
    let (devices, stack) = server.stop();
    assert_eq!(stack.counters().malformed.iter().sum::<u64>(), 0);
    drop(devices);
    // Children of other tests may hold its descriptor until they end.
    let (clock, is_there) =
        (host::Monotonic::new(), || inside.run("ip", &["link", "show", "dev", "gw0"]).is_ok());
    let over = clock.now() + Span::from_secs(30);
    while is_there() {
        assert!(clock.now() < over, "the TAP device is removed with the port");
    }
    opened
}

#[test]
fn checksums_are_left_to_a_port_that_does_them() {
    if !can_run("checksums_are_left_to_a_port_that_does_them") {
        return;
    }
    let inside = NetLab::new("dpdk-tap").unwrap().namespace("inside").unwrap();
    let opened = echo_over_tap(&inside, "net_tap0", &plain());
    assert_eq!((opened.tx_checksum, opened.rx_checksum, opened.mtu), (true, true, 1500));
}

#[test]
fn a_smaller_mtu_is_kept_to() {
    if !can_run("a_smaller_mtu_is_kept_to") {
        return;
    }
    let inside = NetLab::new("dpdk-mtu").unwrap().namespace("inside").unwrap();
    let opened = echo_over_tap(&inside, "net_tap1", &Options { mtu: Some(900), queues: 2, ..plain() });
    assert_eq!(opened.mtu, 900);
}

/// Two ports connected by shared memory.
fn memif(pair: u8) -> [Opened; 2] {
    ["server", "client"].map(|role| {
        let number = 2 * pair + u8::from(role == "client");
        let socket = format!("greenwave-{}-{pair}", std::process::id());
        open(&format!("net_memif{number},role={role},id={pair},socket={socket}"), &plain())
    })
}

#[test]
fn two_of_our_stacks_meet_over_shared_memory() {
    if !can_run("two_of_our_stacks_meet_over_shared_memory") {
        return;
    }
    let [server, client] = memif(0);
    let echo = Server::on(MultiQueue::new(server.devices), server.mac);
    let (mut device, clock) = (MultiQueue::new(client.devices), host::Monotonic::new());
    let mut stack = Stack::new(Config::new(client.mac, HOST, 24, [9; 16]));
    let sent: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
    let conn = stack.connect(clock.now(), (OURS, PORT).into(), None).unwrap();
    let (mut given, mut back) = (0, Vec::new());
    let over = clock.now() + Span::from_secs(30);
    while back.len() < sent.len() {
        let now = clock.now();
        assert!(now < over, "{} of {} bytes came back", back.len(), sent.len());
        while stack.ingress_from(now, &mut device) {}
        stack.handle_timeout(now);
        while let Some(event) = stack.poll_event() {
            assert!(!matches!(event.kind, EventKind::Closed(_)), "{event:?}");
        }
        given += stack.send(now, conn, &sent[given..]).unwrap_or(0);
        let got = stack.received(conn).to_vec();
        stack.consume(now, conn, got.len());
        back.extend(got);
        stack.egress(now, &mut device);
    }
    assert!(back == sent, "the echo equals the bytes sent");
    echo.stop();
}

/// The first frame that passes between two ports, which are connected then. Never `None`, except to
/// compile without DPDK.
fn first_frame([a, b]: &mut [Opened; 2]) -> Option<dpdk::Frame> {
    let clock = host::Monotonic::new();
    let over = clock.now() + Span::from_secs(30);
    loop {
        assert!(clock.now() < over, "the ports find each other");
        // Until then the driver takes nothing and the device fills up.
        let _ = a.devices[0].transmit(Time::ZERO, 60, &mut |frame| frame.fill(0x5a));
        a.devices[0].flush(Time::ZERO);
        if let Some(received) = b.devices[0].receive(Time::ZERO) {
            return Some(received.frame);
        }
    }
}

#[test]
fn a_frame_that_is_kept_outlives_its_port() {
    if !can_run("a_frame_that_is_kept_outlives_its_port") {
        return;
    }
    let mut ports = memif(1);
    let frame = first_frame(&mut ports);
    drop(ports);
    assert_eq!(frame.as_ref().map(AsRef::as_ref), Some(&[0x5a; 60][..]));
}

/// One end learns of the other's close while it closes itself.
#[test]
fn both_ends_of_a_shared_memory_may_go_at_once() {
    if !can_run("both_ends_of_a_shared_memory_may_go_at_once") {
        return;
    }
    // One socket name each: the driver does not free it.
    for pair in 2..22 {
        let mut ports = memif(pair);
        if let Some(frame) = first_frame(&mut ports) {
            ports[1].devices[0].recycle(frame);
        }
    }
}

#[test]
fn what_keeps_a_port_from_being_opened_is_said_in_a_line() {
    if !can_run("what_keeps_a_port_from_being_opened_is_said_in_a_line") {
        return;
    }
    let cable = Cable::new("dpdk-refused", &Veth::default());
    let says = |device: &str, options: Options, expected: &str, advice: &str| {
        let error = cable.ours.enter(|| dpdk::open(device, &options)).map(|opened| opened.summary());
        let error = error.expect_err(device);
        let message = format!("{error}; {}", error.advice().unwrap_or_default());
        assert!(
            message.contains(expected) && message.contains(advice) && !message.contains('\n'),
            "{message}"
        );
    };
    says("eth0", plain(), "DPDK has no driver for \"eth0\"", "net_af_packet0,iface=NAME");
    says("net_nosuch0", plain(), "DPDK has no driver for \"net_nosuch0\"", "net_tap0");
    says("ffff:ff:1f.7", plain(), "no PCI device ffff:ff:1f.7 that DPDK can drive", "dpdk-devbind.py");
    says("net_tap0\0", plain(), "DPDK has no driver for", "net_tap0");
    says("net_af_packet7,iface=gw9", plain(), "net_af_packet7: the driver refuses to attach: ", "nics");
    let veth = "net_af_packet7,iface=gw0";
    says(veth, Options { queues: 2, ..plain() }, "net_af_packet7 has 1 queue, not 2", "queues=1");
    says(veth, Options { mtu: Some(575), ..plain() }, "net_af_packet7: mtu 575 is below 576", "mtu=1500");
    says(veth, Options { mtu: Some(9000), ..plain() }, "mtu 9000 exceeds the port's ", "mtu=1");
    let held = Options { held: 65_536, queues: 8, ..plain() };
    says("net_tap7,iface=gw7", held, "net_tap7: frame buffers need ", "no-huge=");
    // None of them has left anything behind.
    let first = cable.ours.enter(|| open(veth, &plain()));
    says(veth, plain(), "net_af_packet7 is already open", "another number");
    drop(first);
    cable.ours.enter(|| open(veth, &plain()));
}

#[test]
fn a_build_without_dpdk_says_how_to_build_with_it() {
    if dpdk::BUILT {
        return skipped("a_build_without_dpdk_says_how_to_build_with_it", "built with DPDK");
    }
    let error = dpdk::open("net_tap0", &Options::default()).expect_err("it is not built in");
    assert_eq!(error, DpdkError::NotBuilt);
    assert!(error.advice().is_some_and(|advice| advice.ends_with("--features dpdk")));
}
