//! Packet sockets beside the kernel, over veth.

use host::interface::InterfaceError;
use host::lab::{Lab, Veth};
use host::packet::{self, Fanout, Options};
use net::device::merged::Merged;

use crate::echo::{Cable, Server};
use crate::skipped;

fn echo_over(test: &str, name: &str, veth: &Veth, options: &Options) {
    if let Some(why) = Lab::unavailable() {
        return skipped(test, &why);
    }
    let cable = Cable::new(name, veth);
    let (interface, devices) =
        cable.ours.enter(|| packet::open("gw0", options)).expect("packet sockets work");
    assert_eq!(devices.len(), usize::from(options.sockets));
    let server = Server::on(Merged::new(devices), interface.mac);
    cable.echoes(1_000_000);
    cable.host_answers();
    server.stop();
}

#[test]
fn the_kernels_tcp_is_served_over_packet_rings_and_the_host_stays_reachable() {
    let test = "the_kernels_tcp_is_served_over_packet_rings_and_the_host_stays_reachable";
    echo_over(test, "packet", &Veth::default(), &Options::default());
}

#[test]
fn missing_checksums_and_merged_frames_are_taken_as_they_come() {
    let test = "missing_checksums_and_merged_frames_are_taken_as_they_come";
    echo_over(test, "packet-offloads", &Veth { offloads: true, ..Veth::default() }, &Options::default());
}

#[test]
fn two_packet_sockets_share_an_interface() {
    for fanout in [Fanout::Flow, Fanout::Queue] {
        let options = Options { sockets: 2, fanout, ..Options::default() };
        echo_over("two_packet_sockets_share_an_interface", "packet-fanout", &Veth::default(), &options);
    }
}

#[test]
fn an_interface_that_is_down_has_no_packets() {
    if let Some(why) = Lab::unavailable() {
        return skipped("an_interface_that_is_down_has_no_packets", &why);
    }
    let cable = Cable::new("packet-down", &Veth::default());
    cable.ours.run("ip", &["link", "set", "gw0", "down"]).unwrap();
    match cable.ours.enter(|| packet::open("gw0", &Options::default())) {
        Err(InterfaceError::Down(name)) => assert_eq!(name, "gw0"),
        other => panic!("gw0 is down, got {other:?}"),
    }
}
