//! Scenario 2: a keyword in the request.
//! Source: ADPS §3.

use std::sync::Arc;

use queueing::Priority;

use crate::{DriverClassifier, PacketView, Verdict};

/// Gives a packet the priority of the first of `words` that its payload has at offset `at`. Other
/// packets keep the default.
///
/// ```
/// use classify::scenarios::keyword;
/// use queueing::Priority;
/// let reads_first = keyword(0, [("get ", Priority::HIGHEST), ("set ", Priority::LOWEST)]);
/// ```
pub fn keyword<W: Into<Vec<u8>>>(
    at: usize,
    words: impl IntoIterator<Item = (W, Priority)>,
) -> DriverClassifier {
    let words: Vec<(Vec<u8>, Priority)> = words.into_iter().map(|(word, p)| (word.into(), p)).collect();
    Arc::new(move |packet: &PacketView<'_>| {
        let Some(text) = packet.tcp_payload().and_then(|payload| payload.get(at..)) else {
            return Verdict::NoVerdict;
        };
        let found = words.iter().find(|(word, _)| text.starts_with(word));
        found.map_or(Verdict::NoVerdict, |&(_, priority)| priority.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestPacket, view};

    //~ classifiers: scenario 2: the first matching keyword, or the header's tag, decides
    #[test]
    fn the_first_matching_keyword_decides() {
        let level = |n| Priority::new(n).unwrap();
        let classifier = keyword(1, [("get", level(0)), ("g", level(4)), ("set", level(6))]);
        let check = |payload: &[u8], expected| {
            let frame = TestPacket::new(payload).frame();
            assert_eq!(view(&frame, |v| classifier(v)), expected, "{payload:?}");
        };
        check(b"/get x", Verdict::Level(0));
        check(b"/go", Verdict::Level(4));
        check(b"/set", Verdict::Level(6));
        check(b"get", Verdict::NoVerdict);
        check(b"/se", Verdict::NoVerdict);
        check(b"", Verdict::NoVerdict);
    }
}
