//! An XDP program of ours that is taken off, and an interface that is removed.

use drivers::afxdp::{self, Claims};
use host::interface::Interface;
use hostbpf::bpf;
use hostbpf::xdp::{Attached, Attachment};
use netlab::{NetLab, Veth};

#[test]
fn a_program_that_is_taken_off_and_an_interface_that_is_removed_are_seen_without_a_new_socket() {
    let test = "a_program_that_is_taken_off_and_an_interface_that_is_removed_are_seen_without_a_new_socket";
    if let Some(why) = NetLab::unavailable() {
        return println!("skipped: {test}: {why}");
    }
    let lab = NetLab::new("da-off").unwrap();
    let [near, far] = ["here", "there"].map(|name| lab.namespace(name).unwrap());
    lab.veth((&near, "gw0"), (&far, "gw0"), &Veth::default()).unwrap();
    near.enter(|| {
        let options =
            afxdp::Options { mode: Some(afxdp::Mode::Generic), frames: 64, held: 0, ..Default::default() };
        let opened = afxdp::open("gw0", &options, &Claims::default()).unwrap();
        let mut attachment = Attachment::of(Interface::find("gw0").unwrap().index).unwrap();
        assert_eq!(attachment.query(), Attached::Here);
        // As bpftool link detach does.
        let link = bpf::link_of(attachment.program()).unwrap().expect("a link holds it");
        bpf::detach(&link).unwrap();
        assert_eq!(attachment.query(), Attached::Off);
        drop(opened);
        let again = afxdp::open("gw0", &options, &Claims::default()).unwrap();
        assert_eq!(attachment.query(), Attached::Off, "another program is in its place");
        near.run("ip", &["link", "del", "gw0"]).unwrap();
        assert_eq!(attachment.query(), Attached::NoInterface);
        drop(again);
    });
}
