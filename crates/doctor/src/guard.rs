//! Check of admission control in XDP: a guard attached to a veth pair with a listener behind it.

use std::net::TcpListener;

use queueing::Span;

use super::{Finding, tried};
use hostbpf::guard::{self, Classes, Options, Refusal, WaitEnd};
use hostbpf::xdp::Mode;

const AREA: &str = "guard";
const IN_DRIVERS: &str = "shed, drv";
const AFTER_THEM: &str = "shed, skb";
const ANSWERS: &str = "until answer";

pub(super) fn examine(unavailable: Option<&str>) -> Vec<Finding> {
    tried(AREA, &[IN_DRIVERS, AFTER_THEM, ANSWERS], unavailable, |netns| {
        let native = "tested on a veth; a NIC's driver can differ";
        let generic = "after the driver, on any interface";
        let answers = "first response bytes are observed, for thread-per-connection servers";
        vec![
            netns.enter(|| attach(IN_DRIVERS, Mode::Native, WaitEnd::Accept, native)),
            netns.enter(|| attach(AFTER_THEM, Mode::Generic, WaitEnd::Accept, generic)),
            netns.enter(|| attach(ANSWERS, Mode::Generic, WaitEnd::Answer, answers)),
        ]
    })
}

fn attach(title: &str, mode: Mode, until: WaitEnd, works: &str) -> Finding {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr().map(|at| (l, at)));
    let (_listens, at) = match listener {
        Ok(both) => both,
        Err(e) => return Finding::absent(AREA, title, e.to_string(), []),
    };
    let options = Options {
        ports: vec![at.port()],
        mode: Some(mode),
        classes: Classes::default(),
        until,
        watching: true,
        refusal: Refusal::Silence,
        needs_system_signals: false,
        policy: "none".to_owned(),
        target: Span::from_millis(20),
        queue_reports: Vec::new(),
    };
    match guard::attach("gw0", &options) {
        Ok(_) => Finding::works(AREA, title, works),
        Err(e) => Finding::absent(AREA, title, e.to_string(), e.advice()),
    }
}
