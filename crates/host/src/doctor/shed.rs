//! Shedding before the kernel: a guard attached to a cable of its own, with
//! somebody who listens behind it.

use std::net::TcpListener;

use queueing::Span;

use super::Finding;
use crate::guard::{self, Classes, Options};
use crate::lab::{Lab, LabError, Veth};
use crate::xdp::Mode;

const AREA: &str = "guard";
/// In drivers, and after them.
const WAYS: [(&str, Mode); 2] = [("shed, drv", Mode::Native), ("shed, skb", Mode::Generic)];

pub(super) fn examine(unavailable: Option<&str>) -> Vec<Finding> {
    if let Some(why) = unavailable {
        return WAYS.map(|(way, _)| Finding::untried(AREA, way, why)).to_vec();
    }
    try_them().unwrap_or_else(|e| {
        let why = e.to_string();
        WAYS.map(|(way, _)| Finding::absent(AREA, way, why.clone(), e.advice())).to_vec()
    })
}

fn try_them() -> Result<Vec<Finding>, LabError> {
    let lab = Lab::new("doctor")?;
    let (here, there) = (lab.namespace("here")?, lab.namespace("there")?);
    lab.veth((&here, "gw0"), (&there, "gw1"), &Veth::default())?;
    let look = |(way, mode): (&str, Mode)| {
        here.enter(move || {
            let listener = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr().map(|at| (l, at)));
            let (_listens, at) = match listener {
                Ok(both) => both,
                Err(e) => return Finding::absent(AREA, way, e.to_string(), []),
            };
            let options = Options {
                ports: vec![at.port()],
                mode,
                classes: Classes::default(),
                watching: true,
                policy: "none".to_owned(),
                target: Span::from_millis(20),
            };
            match guard::attach("gw0", &options) {
                Ok(_) if mode == Mode::Native => {
                    Finding::works(AREA, way, "on a veth; a card's driver has its own say")
                }
                Ok(_) => Finding::works(AREA, way, "after the driver, on any interface"),
                Err(e) => Finding::absent(AREA, way, e.to_string(), e.advice()),
            }
        })
    };
    Ok(WAYS.map(look).to_vec())
}
