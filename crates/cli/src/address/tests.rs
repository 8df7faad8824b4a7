//! Combinations of `--addr`, `--host-addr` and `--gateway`.

//~ devices: an address that cannot be used gives one line and a remedy

use super::*;

/// The plan for these options, `--gateway` after `via`, `--host-addr` after
/// `end`; or the error and its advice in a line.
#[track_caller]
fn check(text: &str, expected: &str) {
    let mut words = text.split(' ');
    let kind: DeviceKind = words.next().unwrap_or_default().parse().expect("a device");
    let (mut wanted, mut ends, mut gateways) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(word) = words.next() {
        match word {
            "via" => gateways.push(words.next().unwrap_or_default().parse().expect("a gateway")),
            "end" => ends.push(words.next().unwrap_or_default().parse().expect("a kernel end")),
            word => wanted.push(word.parse::<RequestedAddress>().unwrap_or_else(|e| panic!("{e}"))),
        }
    }
    let outcome = match Addresses::plan(&kind, &wanted, &ends, &gateways) {
        Err(e) => e.to_string().replace('\n', " "),
        Ok(plan) => {
            let config = plan.stack([2; 6], [7; 16]);
            let v6 = config.ipv6.map_or(String::new(), |v6| {
                format!(" {:?} via {:?} slaac {}", v6.addrs, v6.gateway, v6.slaac)
            });
            let kernel: Vec<String> = plan.kernel.iter().map(InterfaceAddress::to_string).collect();
            format!(
                "{}/{} via {:?} dhcp {}{v6} kernel {}",
                config.addr,
                config.prefix,
                config.gateway,
                config.dhcp,
                kernel.join(" ")
            )
        }
    };
    assert!(outcome.contains(expected), "{text}: {outcome}");
}

#[test]
fn addresses_gateways_and_the_kernels_end_go_together() {
    check("tap:gw0 10.7.0.2/24", "10.7.0.2/24 via Some(10.7.0.1) dhcp false kernel 10.7.0.1/24");
    check("tap:gw0 10.7.0.2/24 end 10.7.0.9", "via Some(10.7.0.9) dhcp false kernel 10.7.0.9/24");
    check(
        "tap:gw0 fd07::2/64",
        "0.0.0.0/0 via None dhcp false [(fd07::2, 64)] via Some(fd07::1) slaac false",
    );
    check("tap:gw0 fd07::2/64 10.7.0.2/24", "kernel 10.7.0.1/24 fd07::1/64");
    check("tap:gw0 dhcp slaac", "dhcp true [] via None slaac true kernel ");
    check("tap:gw0 dhcp end 10.7.0.9/16", "via None dhcp true kernel 10.7.0.9/16");
    check("xdp:eth0 10.7.0.2/24", "10.7.0.2/24 via None dhcp false kernel ");
    check("xdp:eth0 10.7.0.2/24 via 10.7.0.9", "via Some(10.7.0.9)");
    check("packet:eth0 fd07::2/64 slaac", "[(fd07::2, 64)] via None slaac true");
    check("packet:eth0 fe80::2%eth0/64 via fe80::1%eth0", "[(fe80::2, 64)] via Some(fe80::1)");
    check(
        "xdp:eth0 fd07::2/64 10.7.0.2/24 via 10.7.0.9 via fd07::9",
        "via Some(10.7.0.9) dhcp false [(fd07::2, 64)] via Some(fd07::9)",
    );
}

#[test]
fn contradictory_addresses_are_refused_with_advice() {
    check(
        "xdp:eth0 10.7.0.2/24 10.7.0.3/24",
        "one IPv4 address, not 10.7.0.2/24 and 10.7.0.3/24   try: --addr 10.7.0.2/24",
    );
    check("xdp:eth0 10.7.0.2/24 dhcp", "one IPv4 address, not 10.7.0.2/24 and one by DHCP   try: ");
    check(
        "pcap:a.pcap dhcp",
        "pcap:a.pcap is a capture, which answers no request for an address   try: --addr with",
    );
    check(
        "xdp:eth0 10.7.0.2/24 end 10.7.0.1",
        "--host-addr is the kernel's end of a TAP device, and xdp:eth0 has none",
    );
    check(
        "tap:gw0 10.7.0.2/24 end 10.8.0.1",
        "host-addr 10.8.0.1 is not another host's address in the subnet of 10.7.0.2/24   try: --host-addr 10.7.0.1",
    );
    check(
        "tap:gw0 dhcp end 10.8.0.1",
        "host-addr 10.8.0.1 needs its prefix: no --addr says what its subnet is   try: --host-addr 10.8.0.1/24",
    );
    check(
        "xdp:eth0 10.7.0.2/24 via 10.8.0.1",
        "gateway 10.8.0.1 is not another host's address in the subnet of 10.7.0.2/24   try: --gateway 10.7.0.1",
    );
    check(
        "xdp:eth0 fd07::2/64 via fd08::1",
        "gateway fd08::1 is not another host's address in the subnet of fd07::2/64   try: --gateway fd07::1",
    );
    check(
        "xdp:eth0 fd07::2/64 via 10.7.0.1",
        "gateway 10.7.0.1 is IPv4, but no --addr is IPv4   try: without",
    );
    check("xdp:eth0 10.7.0.2/24 via fd07::1", "gateway fd07::1 is IPv6, but no --addr is IPv6");
    check(
        "xdp:eth0 dhcp via 10.7.0.1",
        "--addr dhcp provides the gateway, so --gateway 10.7.0.1 would have no effect",
    );
    check(
        "xdp:eth0 slaac via fd07::1",
        "--addr slaac provides the routers, so --gateway fd07::1 would have no effect",
    );
    check(
        "xdp:eth0 fd07::2/64 via fe80::1",
        "link-local address fe80::1 does not name its interface   try: --gateway fe80::1%eth0",
    );
    check(
        "xdp:eth0 fe80::2/64",
        "link-local address fe80::2 does not name its interface   try: --addr fe80::2%eth0/64",
    );
    check(
        "xdp:eth0 fe80::2%eth1/64",
        "fe80::2%eth1 is on another interface than xdp:eth0   try: --addr fe80::2%eth0/64",
    );
}

#[test]
fn an_invalid_address_is_refused_with_valid_ones() {
    for (text, expected) in [
        ("10.7.0.2", "has no prefix, such as 10.7.0.2/24"),
        ("fd07::2", "has no prefix, such as fd07::2/64"),
        ("eth0", "is not ADDRESS/PREFIX, such as 10.77.0.2/24 or fd00::2/64"),
        ("fd07::2/200", "prefix 200 is outside 1..=126"),
    ] {
        let error = text.parse::<RequestedAddress>().expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}
