//! The classifier that commands use when no policy file is given.

use std::sync::Arc;

use ::load::protocol::synthetic::{LEVEL_AT, MAGIC, TYPE_AT, TYPE_REQUEST};
use classify::{PacketView, Verdict};
use runtime::mode::Classifiers;

/// Scenario 2 of ADPS for the synthetic protocol: the tag in the request's
/// header is its priority, read at the driver.
#[must_use]
pub fn by_tag() -> Classifiers {
    Classifiers { driver: Some(Arc::new(tag)), ..Classifiers::default() }
}

/// A frame without a request header keeps the default.
fn tag(packet: &PacketView<'_>) -> Verdict {
    match packet.tcp_payload() {
        Some(p) if p.len() > LEVEL_AT && p[..2] == MAGIC && p[TYPE_AT] == TYPE_REQUEST => {
            Verdict::Level(p[LEVEL_AT])
        }
        _ => Verdict::NoVerdict,
    }
}
