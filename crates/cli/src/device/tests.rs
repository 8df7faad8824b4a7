//! Accepted values of `--device`, and the errors of others.

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let outcome = match text.parse::<DeviceKind>() {
        Ok(kind) => format!("{kind:?}"),
        Err(e) => e.to_string(),
    };
    assert!(outcome.contains(expected), "{text}: {outcome}");
}

#[test]
fn every_kind_is_read_with_its_options() {
    check("tap:gw0", "Tap { name: \"gw0\", queues: 1 }");
    check("tap:gw0,queues=4", "queues: 4");
    check("packet:eth0", "sockets: 1, fanout: Flow");
    check("packet:eth0,queues=2,fanout=queue", "sockets: 2, fanout: Queue");
    check("xdp:eth0", "mode: None, zerocopy: false, queues: None, busy_poll: false, hugepages: false");
    check("xdp:eth0,mode=native,zerocopy,queues=8", "mode: Some(Native), zerocopy: true, queues: Some(8)");
    check("xdp:eth0,mode=skb,busy-poll,hugepages", "mode: Some(Generic)");
    check("xdp:eth0,frames=8192", "frames: 8192");
    check("dpdk:01:00.0", "device: \"01:00.0\", options: Options { queues: 1, mtu: None, memory: Huge");
    check("dpdk:net_tap0,iface=gw0,queues=2,no-huge,mac=fixed", "device: \"net_tap0,iface=gw0,mac=fixed\"");
    check(
        "dpdk:net_tap0,queues=2,mtu=900,no-huge=64",
        "queues: 2, mtu: Some(900), memory: Plain { mib: 64 }",
    );
    check(
        "dpdk:net_virtio_user0,.queues=2",
        "device: \"net_virtio_user0,queues=2\", options: Options { queues: 1",
    );
    check("pcap:a,b.pcap", "path: \"a,b.pcap\", pace: Captured");
    check("pcap:a,b.pcap,fast", "path: \"a,b.pcap\", pace: Fast");
}

#[test]
fn an_invalid_device_is_refused_with_valid_ones() {
    for text in ["eth0", "", "ebpf:eth0", "xdp"] {
        check(text, "is not tap:NAME, packet:INTERFACE, xdp:INTERFACE, dpdk:DEVICE or pcap:FILE");
    }
    check("tap:gw0,queues=0", "\"queues=0\" is not one of queues=1..=256");
    check("tap:gw0,zerocopy", "is not one of queues=1..=256");
    check("packet:eth0,fanout=cpu", "\"fanout=cpu\" is not one of queues=1..=256, fanout=flow, fanout=queue");
    check("xdp:eth0,mode=generic", "mode=native, mode=skb, zerocopy");
    check("xdp:eth0,zerocopy=yes", "\"zerocopy=yes\" is not one of");
    check("dpdk:net_tap0,mtu=500", "\"mtu=500\" is not one of queues=1..=256, mtu=576..=9216");
    check("dpdk:net_tap0,no-huge=1", "\"no-huge=1\" is not one of");
    check("dpdk:net_tap0,,", "\"\" is not one of");
    check("xdp:eth0,", "\"\" is not one of");
    check("xdp:eth0,frames=5000", "\"frames=5000\" is not one of");
    check("xdp:eth0,frames=32", "frames=64, 128 ..=32768");
    check("xdp:eth0,queues=257", "--device xdp:eth0");
}
