//! Checks of the devices of `serve`, each opened once.

use std::fmt::Display;

use super::{Finding, tried};
use drivers::afxdp::{self, Claims};
use drivers::packet;
use drivers::tap::Tap;
use netlab::Namespace;

const AREA: &str = "serve";
const WAYS: [&str; 4] = ["tap", "packet", "xdp, generic", "xdp, native"];

pub(super) fn examine(unavailable: Option<&str>) -> Vec<Finding> {
    tried(AREA, &WAYS, unavailable, open_them).into_iter().chain([dpdk()]).collect()
}

fn open_them(netns: &Namespace) -> Vec<Finding> {
    let xdp = |mode| {
        netns.enter(move || {
            let options = afxdp::Options { mode: Some(mode), frames: 64, held: 0, ..Default::default() };
            afxdp::open("gw0", &options, &Claims::default()).map(|opened| opened.summary())
        })
    };
    let tap = netns.enter(|| Tap::create("gw2").map(|tap| tap.name().len()));
    let packet = netns.enter(|| packet::open("gw0", &packet::Options::default()).map(drop));
    vec![
        found("tap", tap.map(|_| "a TAP device, connected to the kernel's TCP"), |e| e.advice()),
        found("packet", packet.map(|()| "packet sockets, on any interface"), |e| e.advice()),
        found("xdp, generic", xdp(afxdp::Mode::Generic), |e| e.advice()),
        on_a_veth(found("xdp, native", xdp(afxdp::Mode::Native), |e| e.advice())),
    ]
}

fn found<T: Display, E: Display>(
    title: &str,
    opened: Result<T, E>,
    advice: impl FnOnce(&E) -> Option<String>,
) -> Finding {
    match opened {
        Ok(seen) => Finding::works(AREA, title, seen.to_string()),
        Err(e) => Finding::absent(AREA, title, e.to_string(), advice(&e)),
    }
}

/// Restricts a finding: a veth pair proves nothing about a card's driver.
fn on_a_veth(finding: Finding) -> Finding {
    let seen = format!("{} (tested on a veth; a NIC's driver can differ)", finding.seen);
    Finding { seen, ..finding }
}

/// DPDK depends on the build; its ports are not tried.
fn dpdk() -> Finding {
    if drivers::dpdk::BUILT {
        Finding::works(AREA, "dpdk", "built in; a port is not tested before it is opened")
    } else {
        let e = drivers::dpdk::DpdkError::NotBuilt;
        Finding::absent(AREA, "dpdk", e.to_string(), e.advice())
    }
}
