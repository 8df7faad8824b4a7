//! Scenario 2: a tag in the request's header, and LNS, which knows no more.
//! Source: ADPS §3, §4.

use std::sync::Arc;

use super::{Magic, has_magic};
use crate::classify::{DriverClassifier, PacketView, Verdict};

/// Where a request's header carries its priority.
#[derive(Clone, Copy, Debug)]
pub struct TagAt {
    /// Offset and bytes that mark the start of a request.
    pub magic: Magic,
    /// Offset of the byte that is the priority, 0..=7.
    pub level_at: usize,
}

/// A packet that starts with a request's header gets the priority that the
/// header names. Others, bare ACKs among them, keep the default.
#[must_use]
pub fn tag(at: TagAt) -> DriverClassifier {
    Arc::new(move |packet: &PacketView<'_>| named(packet, at).map_or(Verdict::NoVerdict, Verdict::Level))
}

/// As [`tag`], but every packet without a label is low, the later packets of a
/// long request too: what LNS does.
#[must_use]
pub fn lns(at: TagAt) -> DriverClassifier {
    Arc::new(move |packet: &PacketView<'_>| Verdict::Level(named(packet, at).unwrap_or(7)))
}

#[inline]
fn named(packet: &PacketView<'_>, at: TagAt) -> Option<u8> {
    let payload = packet.tcp_payload()?;
    let level = *payload.get(at.level_at)?;
    has_magic(payload, at.magic).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::testing::{Packet, view};

    #[test]
    fn only_a_header_names_a_level() {
        let at = TagAt { magic: (0, b"GW"), level_at: 4 };
        let check = |payload: &[u8], tagged, labelled| {
            let frame = Packet::new(payload).frame();
            assert_eq!(view(&frame, |v| tag(at)(v)), tagged, "{payload:?}");
            assert_eq!(view(&frame, |v| lns(at)(v)), labelled, "{payload:?}");
        };
        check(b"GW\x01\x00\x03\x00", Verdict::Level(3), Verdict::Level(3));
        check(b"GW\x01\x00\x09\x00", Verdict::Level(9), Verdict::Level(9));
        check(b"WG\x01\x00\x03\x00", Verdict::NoVerdict, Verdict::Level(7));
        check(b"GW\x01\x00", Verdict::NoVerdict, Verdict::Level(7));
        check(b"", Verdict::NoVerdict, Verdict::Level(7));
    }
}
