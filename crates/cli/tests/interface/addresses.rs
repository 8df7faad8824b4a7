//! Addresses of both families: given, leased by DHCP, derived from a router's advertisement, in use
//! by another host; and datagrams to them.

use std::process::Stdio;
use std::time::{Duration, Instant};

use netlab::client::check_datagram_echo;
use netlab::is_installed;

use super::*;

const DEVICES: [&str; 4] = ["xdp:gw0,mode=native", "xdp:gw0,mode=skb", "packet:gw0", "packet:gw0,queues=2"];

fn both() -> [IpAddr; 2] {
    [OURS, OURS6].map(|addr| addr.parse().unwrap())
}

//~ devices: one interface serves both families while the host answers ping and TCP in both
#[test]
fn both_families_are_served_over_one_interface_and_the_host_answers_in_both() {
    let test = "both_families_are_served_over_one_interface_and_the_host_answers_in_both";
    let Some(cable) = Cable::new(test) else { return };
    let given = format!("{OURS}/24,{OURS6}/64");
    for device in DEVICES {
        let server = Server::start(&cable.ours, device, &given, &[]);
        let expected = format!("listening on {OURS}:80 and [{OURS6}]:80, {device}");
        assert!(server.line.starts_with(&expected), "{}", server.line);
        for addr in both() {
            cable.clients.enter(|| ping(addr));
            cable.echoes_at(addr, 300_000);
        }
        cable.host_answers();
        let rest = server.stop(Signal::TERM);
        assert!(rest.contains("2 connections"), "{rest}");
    }
    // IPv6 only: IPv4 stays the kernel's.
    let server = Server::start(&cable.ours, "xdp:gw0", &format!("{OURS6}/64"), &["--shards", "2"]);
    cable.echoes_at(OURS6.parse().unwrap(), 100_000);
    cable.host_answers();
    server.stop(Signal::TERM);
}

//~ devices: `serve --proto udp` echoes datagrams on every device and labels them by the policy
#[test]
fn datagrams_are_echoed_over_every_device_and_by_several_shards() {
    let Some(cable) = Cable::new("datagrams_are_echoed_over_every_device_and_by_several_shards") else {
        return;
    };
    let given = format!("{OURS}/24,{OURS6}/64");
    for (device, shards) in DEVICES.into_iter().flat_map(|device| [(device, "1"), (device, "2")]) {
        let more = ["--proto", "udp", "--shards", shards];
        let server = Server::start(&cable.ours, device, &given, &more);
        for addr in both() {
            // The last two are fragmented in both directions.
            let lens = [1, 0, 1000, 1452, 4000, 30_000];
            cable.clients.enter(|| check_datagram_echo(SocketAddr::new(addr, 80), &lens));
        }
        cable.host_answers();
        let rest = server.stop(Signal::TERM);
        assert_eq!(rest.matches(" datagrams, ").count().to_string(), shards, "{rest}");
    }
}

//~ devices: `serve --proto udp` echoes datagrams on every device and labels them by the policy
//~ mechanisms: M8: a policy labels UDP datagrams
#[test]
fn a_policy_labels_datagrams() {
    let Some(cable) = Cable::new("a_policy_labels_datagrams") else { return };
    let policy = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("datagrams.toml");
    let rule = "[[rule]]\nname = \"all\"\nlayer = \"transport\"\nport = 80\npriority = 2\n";
    std::fs::write(&policy, rule).expect("the folder for test files is writable");
    let more = ["--proto", "udp", "--workers", "1", "--policy", policy.to_str().unwrap()];
    let server = cable.serve("packet:gw0", &more);
    cable.clients.enter(|| check_datagram_echo(SocketAddr::new(OURS.parse().unwrap(), 80), &[100; 3]));
    let rest = server.stop(Signal::INT);
    assert!(rest.contains("3 datagrams, 3 requests, 3 responses"), "{rest}");
    assert!(rest.lines().any(|line| line.starts_with("2 ") && line.contains("service")), "{rest}");
    let _ = std::fs::remove_file(&policy);
}

/// dnsmasq on `device` in `netns`: leases 10.7.0.50 to 10.7.0.99 and, on request, advertises the
/// prefix of fd07::/64.
fn dnsmasq(netns: &Namespace, device: &str) -> Child {
    netns.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
    let mut command = netns.command("dnsmasq");
    let interface = format!("--interface={device}");
    let leases = "--dhcp-leasefile=/dev/null";
    let range = "--dhcp-range=10.7.0.50,10.7.0.99,255.255.255.0,1h";
    let wait = ["--conf-file=/dev/null", "--keep-in-foreground", "--port=0", "--bind-interfaces", leases];
    command.args(wait).args([&interface, range, "--dhcp-range=fd07::,ra-only", "--enable-ra", "--no-ping"]);
    netns.spawn(command.stdout(Stdio::null()).stderr(Stdio::null())).unwrap()
}

/// Waits until the kernel has an address of a `sort` on a device with `prefix`.
fn has_address(netns: &Namespace, sort: &[&str], prefix: &str) {
    let show = [&["-6", "address", "show", "dev"], sort].concat();
    let end = Instant::now() + Duration::from_secs(30);
    while !netns.run("ip", &show).is_ok_and(|found| found.contains(prefix)) {
        assert!(Instant::now() < end, "{sort:?}: the kernel has no address with {prefix}");
    }
}

/// The address in `found` that begins with the prefix of `net`.
fn address_in(found: &str, net: &str) -> IpAddr {
    let line = found.lines().find(|line| line.starts_with(net)).unwrap_or_else(|| panic!("{net} in {found}"));
    line.split_once('/').and_then(|(addr, _)| addr.parse().ok()).unwrap_or_else(|| panic!("{line}"))
}

//~ ip: SLAAC forms stable addresses and detects duplicates (RFC 4862, 7217)
//~ devices: addresses from DHCP and SLAAC are found, used and shared by shards on every device
#[test]
fn a_lent_and_an_advertised_address_are_found_used_and_not_taken_from_the_host() {
    let test = "a_lent_and_an_advertised_address_are_found_used_and_not_taken_from_the_host";
    let Some(cable) = Cable::new(test) else { return };
    if !is_installed("dnsmasq") {
        return skipped(test, "dnsmasq is not there");
    }
    let _server = dnsmasq(&cable.clients, "eth0");
    // Until IPv6 is up on its end, the kernel drops advertisements.
    has_address(&cable.ours, &["gw0", "dynamic"], "fd07:");
    for (device, shards) in DEVICES.map(|device| (device, "1")).into_iter().chain([("xdp:gw0", "2")]) {
        cable
            .ours
            .run("ip", &["-6", "address", "flush", "dev", "gw0", "scope", "global", "dynamic"])
            .unwrap();
        let server = Server::start(&cable.ours, device, "dhcp,slaac", &["--shards", shards]);
        assert!(server.found.contains(" leased from 10.7.0.9 for 3"), "{}", server.found);
        let found = ["10.7.0.", "fd07:"].map(|net| address_in(&server.found, net));
        assert!(found.iter().all(|addr| server.line.contains(&addr.to_string())), "{}", server.line);
        for addr in found {
            cable.clients.enter(|| ping(addr));
            cable.echoes_at(addr, 100_000);
        }
        cable.host_answers();
        // The kernel has received the same advertisement.
        let own = cable.ours.run("ip", &["-6", "address", "show", "dev", "gw0", "dynamic"]).unwrap();
        assert!(own.contains("fd07:"), "{device}: {own}");
        server.stop(Signal::TERM);
    }
}

//~ devices: addresses from DHCP and SLAAC are found, used and shared by shards on every device
#[test]
fn a_tap_device_finds_addresses_from_the_kernels_end() {
    let test = "a_tap_device_finds_addresses_from_the_kernels_end";
    let Some(cable) = Cable::new(test) else { return };
    if !is_installed("dnsmasq") {
        return skipped(test, "dnsmasq is not there");
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return skipped(test, "this kernel offers no TAP devices");
    }
    let clients = &cable.clients;
    clients.run("ip", &["link", "del", "eth0"]).unwrap();
    let ends = ["--host-addr", "10.7.0.9/24,fd07::9/64"];
    let mut server = Server::starting(clients, "tap:gw1", "dhcp,slaac", &ends);
    has_address(clients, &["gw1"], "fd07::9");
    let _lends = dnsmasq(clients, "gw1");
    server.listens();
    for net in ["10.7.0.", "fd07:"] {
        cable.echoes_at(address_in(&server.found, net), 1_000_000);
    }
    assert!(server.line.contains("kernel side is 10.7.0.9 and fd07::9"), "{}", server.line);
    server.stop(Signal::INT);
}

//~ devices: an address that cannot be used gives one line and a remedy
#[test]
fn an_address_that_cannot_be_had_is_one_line_and_what_to_try() {
    let Some(cable) = Cable::new("an_address_that_cannot_be_had_is_one_line_and_what_to_try") else { return };
    let check = |device: &str, more: &[&str], expected| cable.refuses(device, more, expected);
    for device in ["xdp:gw0", "packet:gw0"] {
        check(
            device,
            &["--addr", "fd07::9/64"],
            ["address fd07::9 is in use by another host", "unused address"],
        );
        check(
            device,
            &["--addr", "fd07::1/64"],
            ["address fd07::1 is in use: this machine", "unused address"],
        );
        check(device, &["--addr", "fe80::7/64"], ["link-local", "--addr fe80::7%gw0/64"]);
    }
    check("xdp:gw0", &["--addr", "dhcp"], ["no DHCP lease within 10", "--addr"]);
    check("packet:gw0", &["--addr", "slaac"], ["no router advertisement with a prefix", "fd00::2/64"]);
    cable.ours.run("ip", &["link", "set", "gw0", "mtu", "1000"]).unwrap();
    check(
        "packet:gw0",
        &["--addr", "fd07::2/64"],
        ["gw0: mtu 1000 is below 1280", "ip link set gw0 mtu 1280"],
    );
    for sort in ["all", "default"] {
        cable.ours.sysctl(&format!("net.ipv6.conf.{sort}.disable_ipv6"), "1").unwrap();
    }
    check(
        "tap:gw1",
        &["--addr", "fd08::2/64"],
        ["gw1: IPv6 is disabled on the kernel side", "disable_ipv6=0"],
    );
}
