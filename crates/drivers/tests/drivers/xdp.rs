//! AF_XDP beside the kernel, over veth.

//~ devices: AF_XDP in copy mode, native and generic, serves its flows and leaves the rest to the kernel

use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use drivers::afxdp::{self, AfXdp, Claims, Mode, OpenedInterface, Options};
use host::interface::InterfaceError;
use net::Device;
use net::device::multi_queue::MultiQueue;
use netlab::{NetLab, Veth};
use queueing::{Span, Time};

use crate::echo::{Cable, OURS, OURS6, Server};
use crate::skipped;

fn ours() -> Claims {
    Claims { addresses: vec![OURS.into(), OURS6.into()], ports: Vec::new() }
}

fn options(mode: Mode) -> Options {
    Options { mode: Some(mode), ..Options::default() }
}

impl Cable {
    fn open(&self, options: &Options) -> Result<OpenedInterface, InterfaceError> {
        self.ours.enter(|| afxdp::open("gw0", options, &ours()))
    }

    /// Adds our stack to the clients' neighbour table.
    fn knows(&self, mac: [u8; 6]) {
        let mac = mac.map(|byte| format!("{byte:02x}")).join(":");
        let neighbor = ["neigh", "add", &OURS.to_string(), "lladdr", &mac, "dev", "eth0"];
        self.clients.run("ip", &neighbor).unwrap();
    }

    /// True if an XDP program is attached to our end.
    fn has_program(&self) -> bool {
        self.ours.run("ip", &["link", "show", "dev", "gw0"]).unwrap().contains("xdp")
    }
}

fn echo_over(test: &str, name: &str, veth: &Veth, options: &Options) {
    if let Some(why) = NetLab::unavailable() {
        return skipped(test, &why);
    }
    let cable = Cable::new(name, veth);
    let opened = cable.open(options).expect("veth supports AF_XDP");
    assert_eq!(opened.devices.len(), usize::from(veth.queues));
    let server = Server::on(MultiQueue::new(opened.devices), opened.interface.mac);
    assert!(cable.has_program());
    cable.echoes(1_000_000);
    cable.host_answers();
    let (devices, stack) = server.stop();
    assert_eq!(stack.counters().not_for_us, 0, "the program redirects only claimed frames");
    drop(devices);
    assert!(!cable.has_program(), "the program is detached with its devices");
    cable.host_answers();
}

#[test]
fn the_kernels_tcp_is_served_over_native_xdp_and_the_host_stays_reachable() {
    let test = "the_kernels_tcp_is_served_over_native_xdp_and_the_host_stays_reachable";
    echo_over(test, "xdp-native", &Veth::default(), &options(Mode::Native));
}

#[test]
fn the_kernels_tcp_is_served_over_generic_xdp_and_the_host_stays_reachable() {
    let test = "the_kernels_tcp_is_served_over_generic_xdp_and_the_host_stays_reachable";
    echo_over(test, "xdp-generic", &Veth::default(), &options(Mode::Generic));
}

//~ devices: two queues of one interface are served
#[test]
fn two_queues_are_served() {
    let veth = Veth { queues: 2, ..Veth::default() };
    echo_over(
        "two_queues_are_served",
        "xdp-queues",
        &veth,
        &Options { busy_poll: true, ..options(Mode::Native) },
    );
}

#[test]
fn large_frames_get_larger_chunks() {
    let veth = Veth { mtu: 3000, ..Veth::default() };
    echo_over("large_frames_get_larger_chunks", "xdp-large", &veth, &options(Mode::Generic));
}

//~ devices: segmentation offload (TSO) puts the same bytes on the wire as single segments
#[test]
fn what_is_longer_than_a_frame_leaves_uncut_where_the_cable_takes_it() {
    let test = "what_is_longer_than_a_frame_leaves_uncut_where_the_cable_takes_it";
    if let Some(why) = NetLab::unavailable() {
        return skipped(test, &why);
    }
    const LEN: usize = 1_000_000;
    let cable = Cable::new("xdp-uncut", &Veth { offloads: true, ..Veth::default() });
    // Frames reach our program before their checksums are filled in.
    cable.clients.run("ethtool", &["--offload", "eth0", "tx", "off"]).unwrap();
    let opened = cable.open(&options(Mode::Native)).expect("veth supports AF_XDP");
    assert!(opened.devices[0].offloads().tx_segmentation);
    let server = Server::on(MultiQueue::new(opened.devices), opened.interface.mac);
    cable.echoes(LEN);
    cable.host_answers();
    let frames = server.stop().1.counters().frames_sent;
    // In each family; ACKs are counted, too.
    assert!(frames < 2 * LEN as u64 / 1448, "{frames} frames");
}

//~ devices: the addresses and ports that AF_XDP claims can change while frames arrive
#[test]
fn what_is_claimed_can_change_while_frames_come() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("what_is_claimed_can_change_while_frames_come", &why);
    }
    let cable = Cable::new("xdp-claims", &Veth::default());
    let nothing = Claims::default();
    let opened = cable.ours.enter(|| afxdp::open("gw0", &options(Mode::Native), &nothing));
    let opened = opened.expect("veth supports AF_XDP");
    let server = Server::on(MultiQueue::new(opened.devices), opened.interface.mac);
    cable.host_answers();
    opened.claimant.claim(&ours()).expect("a link accepts another program");
    cable.echoes(100_000);
    cable.host_answers();
    let (devices, stack) = server.stop();
    assert_eq!(stack.counters().not_for_us, 0);
    drop(devices);
    assert!(!cable.has_program());
    assert!(opened.claimant.claim(&ours()).is_err(), "all devices are closed");
}

/// Error of a failed open: the line and its advice.
fn refusal(cable: &Cable, name: &str, options: &Options) -> String {
    match cable.ours.enter(|| afxdp::open(name, options, &ours())) {
        Ok(opened) => panic!("{name} must be refused, not opened: {}", opened.summary()),
        Err(e) => format!("{e}; {}", e.advice().unwrap_or_default()),
    }
}

//~ devices: an interface that cannot be opened gives one line with the reason and a remedy
#[test]
fn what_keeps_an_interface_from_being_opened_is_said_in_a_line() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("what_keeps_an_interface_from_being_opened_is_said_in_a_line", &why);
    }
    let cable = Cable::new("xdp-refused", &Veth::default());
    let any = Options::default();
    let says = |name: &str, options: &Options, expected: &[&str]| {
        let error = refusal(&cable, name, options);
        assert!(expected.iter().all(|part| error.contains(part)) && !error.contains('\n'), "{error}");
        assert!(!cable.has_program(), "nothing stays behind: {error}");
    };
    says("gw9", &any, &["there is no network interface \"gw9\"", "one of gw0"]);
    says("lo", &any, &["lo is not an Ethernet interface"]);
    says("gw0", &Options { zerocopy: true, ..any.clone() }, &["no zero-copy mode", "--device xdp:gw0"]);
    says("gw0", &Options { queues: Some(4), ..any.clone() }, &["gw0 has 1 queue, not 4", "ethtool -L gw0"]);
    says("gw0", &Options { hugepages: true, ..any.clone() }, &["10 free huge pages", "vm.nr_hugepages=10"]);
    let mtu = |mtu: &str| cable.ours.run("ip", &["link", "set", "gw0", "mtu", mtu]).unwrap();
    mtu("9000");
    says("gw0", &any, &["gw0: mtu 9000 exceeds the frame buffer's 3826", "ip link set gw0 mtu 3826"]);
    mtu("500");
    says("gw0", &any, &["gw0: mtu 500 is below 576", "ip link set gw0 mtu 1500"]);
    mtu("1500");
    cable.ours.run("ip", &["link", "set", "gw0", "down"]).unwrap();
    says("gw0", &any, &["gw0 is down", "ip link set gw0 up"]);
    cable.ours.up("gw0").unwrap();
    let first = cable.open(&any).expect("veth supports AF_XDP");
    let error = refusal(&cable, "gw0", &any);
    let expected =
        ["gw0: an XDP program is already attached: id ", "\"greenwave\"", "ip link set gw0 xdp off"];
    assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    let error = refusal(&cable, "gw0", &options(Mode::Generic));
    assert!(error.contains("already attached"), "the other mode is taken too: {error}");
    drop(first);
    cable.open(&any).expect("a queue that was just closed is waited for");
}

#[test]
fn frames_that_are_held_do_not_keep_others_from_coming() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("frames_that_are_held_do_not_keep_others_from_coming", &why);
    }
    let cable = Cable::new("xdp-held", &Veth::default());
    let options = Options { frames: 64, held: 200, ..options(Mode::Generic) };
    let mut opened = cable.open(&options).expect("veth supports AF_XDP");
    cable.knows(opened.interface.mac);
    let client = cable.clients.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let send = || client.send_to(b"datagram", (OURS, 9)).unwrap();
    let device = &mut opened.devices[0];
    let next = |device: &mut AfXdp| {
        send();
        (0..5000).find_map(|_| {
            let got = device.receive(Time::ZERO);
            if got.is_none() {
                device.wait(Span::from_millis(1));
            }
            got
        })
    };
    let mut held: Vec<_> = (0..264).map(|_| next(device).expect("the queue has chunks").frame).collect();
    assert!(held.iter().all(|frame| frame.as_ref().ends_with(b"datagram")));
    assert_eq!(device.dropped(), 0);
    // The kernel has no chunk left to receive into.
    send();
    while device.dropped() == 0 {
        std::thread::yield_now();
    }
    device.recycle(held.swap_remove(100));
    assert!(device.receive(Time::ZERO).is_none(), "dropped frames do not arrive");
    held.push(next(device).expect("one chunk was returned").frame);
    held.drain(..).for_each(|frame| device.recycle(frame));
}

//~ devices: a frame may be returned before the kernel reports its chunk, and finds room in the fill ring
#[test]
fn frames_that_go_back_at_once_find_room() {
    if let Some(why) = NetLab::unavailable() {
        return skipped("frames_that_go_back_at_once_find_room", &why);
    }
    const FRAMES: usize = 20_000;
    let cable = Cable::new("xdp-back", &Veth::default());
    // All chunks not yet received are the kernel's to fill.
    let options = Options { frames: 64, held: 0, ..options(Mode::Native) };
    let mut opened = cable.open(&options).expect("veth supports AF_XDP");
    cable.knows(opened.interface.mac);
    let client = cable.clients.enter(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let (device, enough) = (&mut opened.devices[0], AtomicBool::new(false));
    let back = std::thread::scope(|scope| {
        // The kernel delivers them on the sender's core.
        scope.spawn(|| {
            while !enough.load(Ordering::Relaxed) {
                client.send_to(b"datagram", (OURS, 9)).unwrap();
            }
        });
        let back = catch_unwind(AssertUnwindSafe(|| {
            let mut left = FRAMES;
            while left > 0 {
                match device.receive(Time::ZERO) {
                    Some(received) => {
                        device.recycle(received.frame);
                        left -= 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        }));
        enough.store(true, Ordering::Relaxed);
        back
    });
    back.unwrap_or_else(|why| resume_unwind(why));
}
