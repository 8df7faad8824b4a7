//! Scenario 2: a tag in the request's header; and LNS, which uses only that tag.
//! Source: ADPS §3, §4.

use std::sync::Arc;

use super::{Magic, has_magic};
use crate::{DriverClassifier, PacketView, Verdict};

/// Position of the priority in a request's header.
#[derive(Clone, Copy, Debug)]
pub struct TagAt {
    /// Offset and bytes that mark the start of a request.
    pub magic: Magic,
    /// Offset of the priority byte, 0..=7.
    pub level_at: usize,
}

/// Gives a packet that starts with a request's header the priority in that header. Others,
/// including bare ACKs, keep the default.
#[must_use]
pub fn tag(at: TagAt) -> DriverClassifier {
    Arc::new(move |packet: &PacketView<'_>| named(packet, at).map_or(Verdict::NoVerdict, Verdict::Level))
}

/// As [`tag`], but every packet without a label is low, including the later packets of a long
/// request, as in LNS.
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
    use crate::testing::{TestPacket, view};

    //~ classifiers: scenario 2: the first matching keyword, or the header's tag, decides
    #[test]
    fn only_a_header_names_a_level() {
        let at = TagAt { magic: (0, b"GW"), level_at: 4 };
        let check = |payload: &[u8], tagged, labelled| {
            let frame = TestPacket::new(payload).frame();
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
