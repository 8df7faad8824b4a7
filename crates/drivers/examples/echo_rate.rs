//! Echo rate of each driver, in frames of 64 bytes per second.
//!
//! One core reflects received frames with addresses exchanged. The other keeps as many frames in flight
//! as a ring holds, by AF_XDP, over a veth pair (or the kernel's end of a TAP device) in namespaces of
//! its own.
//!
//! Needs root: `cargo run --release -p drivers --example echo_rate`; with `--features dpdk` also the same
//! interface by DPDK's packet sockets.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use drivers::afxdp::{self, AfXdp, Claims, Mode, Options};
use drivers::{Tap, dpdk, packet};
use host::{Monotonic, affinity};
use net::Device;
use netlab::{NetLab, Veth};
use queueing::{Clock, CoreId, Time};

const REFLECTOR: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 2);
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 7, 0, 9);
const MEASURED: Duration = Duration::from_secs(1);
/// Number of frames in flight.
const WINDOW: u64 = 512;
/// Number of frames per reading of the clock.
const BATCH: usize = 64;

fn main() {
    if let Some(why) = NetLab::unavailable() {
        return eprintln!("skipped: echo_rate: {why}");
    }
    let lab = NetLab::new("rate").expect("the test bed is available");
    let (near, far) = (lab.namespace("reflector").unwrap(), lab.namespace("sender").unwrap());
    lab.veth((&near, "gw0"), (&far, "eth0"), &Veth::default()).unwrap();
    println!("{:<28} {:>8}", "driver", "kframes/s");
    let xdp = |name: &str, mode, addr: Ipv4Addr, busy_poll| {
        let options = Options { mode: Some(mode), busy_poll, ..Options::default() };
        let claims = Claims { addresses: vec![addr.into()], ports: Vec::new() };
        afxdp::open(name, &options, &claims).expect("veth takes AF_XDP").devices.remove(0)
    };
    let sender = || far.enter(|| xdp("eth0", Mode::Generic, SENDER, false));
    for (what, mode, busy) in [
        ("xdp, mode=skb", Mode::Generic, false),
        ("xdp, mode=native", Mode::Native, false),
        ("xdp, mode=native, busy-poll", Mode::Native, true),
    ] {
        let device = near.enter(|| xdp("gw0", mode, REFLECTOR, busy));
        report(what, device, sender());
    }
    let mut sockets = near.enter(|| packet::open("gw0", &packet::Options::default())).unwrap().1;
    report("packet", sockets.remove(0), sender());
    if dpdk::BUILT {
        let memory = dpdk::Memory::Plain { mib: 256 };
        let options = dpdk::Options { memory, ..dpdk::Options::default() };
        let opened = near.enter(|| dpdk::open("net_af_packet0,iface=gw0", &options));
        opened.expect("EAL starts").devices.into_iter().for_each(|device| {
            report("dpdk, net_af_packet", device, sender());
        });
    }
    let tap = near.enter(|| {
        let tap = Tap::create("gw1").expect("root may make TAP devices");
        tap.up(Ipv4Addr::new(10, 8, 0, 1), 24).unwrap();
        tap
    });
    let kernels_end = near.enter(|| xdp("gw1", Mode::Generic, SENDER, false));
    report("tap", tap, kernels_end);
}

fn report<D: Device + Send>(what: &str, device: D, sender: AfXdp) {
    println!("{what:<28} {:>8}", rate(device, sender) / 1000);
}

/// Frames echoed in a second.
fn rate<D: Device + Send>(mut device: D, mut sender: AfXdp) -> u64 {
    let (stop, back) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = affinity::pin_nth(CoreId(1));
            reflect(&mut device, &stop);
        });
        scope.spawn(|| {
            let _ = affinity::pin_nth(CoreId(0));
            send(&mut sender, &stop, &back);
        });
        std::thread::sleep(MEASURED / 4);
        let (before, clock) = (back.load(Ordering::Relaxed), Monotonic::new());
        let start = clock.now();
        std::thread::sleep(MEASURED);
        let frames = back.load(Ordering::Relaxed) - before;
        let span = clock.now().since(start);
        stop.store(true, Ordering::Relaxed);
        frames * 1_000_000_000 / span.as_nanos()
    })
}

/// Returns every frame to its sender.
fn reflect<D: Device>(device: &mut D, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            let Some(received) = device.receive(Time::ZERO) else { break };
            let frame = received.frame.as_ref();
            let sent = device.transmit(Time::ZERO, frame.len(), &mut |buf| {
                buf.copy_from_slice(frame);
                buf[..6].copy_from_slice(&frame[6..12]);
                buf[6..12].copy_from_slice(&frame[..6]);
                buf[26..30].copy_from_slice(&frame[30..34]);
                buf[30..34].copy_from_slice(&frame[26..30]);
            });
            // A full device loses the frame; the sender counts it as lost.
            let _ = sent;
            device.recycle(received.frame);
        }
        device.flush(Time::ZERO);
    }
}

/// Keeps [`WINDOW`] frames in flight; a frame not back after a while counts as lost.
fn send(device: &mut AfXdp, stop: &AtomicBool, back: &AtomicU64) {
    let frame = frame();
    let (mut on_the_way, mut silent) = (0, 0_u32);
    while !stop.load(Ordering::Relaxed) {
        let mut got = 0;
        while got < BATCH as u64
            && let Some(received) = device.receive(Time::ZERO)
        {
            device.recycle(received.frame);
            got += 1;
        }
        back.fetch_add(got, Ordering::Relaxed);
        silent = if got == 0 { silent + 1 } else { 0 };
        on_the_way = if silent > 20_000 { 0 } else { u64::saturating_sub(on_the_way, got) };
        while on_the_way < WINDOW
            && device.transmit(Time::ZERO, frame.len(), &mut |buf| buf.copy_from_slice(&frame)).is_ok()
        {
            on_the_way += 1;
        }
        device.flush(Time::ZERO);
    }
}

/// 64 bytes on the wire without FCS: UDP to a port without a listener.
fn frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..12].fill(2);
    frame[0] = 0xff;
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17]);
    frame[26..30].copy_from_slice(&SENDER.octets());
    frame[30..34].copy_from_slice(&REFLECTOR.octets());
    let sum =
        frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame[38..40].copy_from_slice(&26_u16.to_be_bytes());
    frame
}
