//! Malformed frames, in the last lines of `serve` and `run`.
//!
//! Unanswered clients look like a fault of the server. The most common cause is a peer whose kernel
//! leaves checksums to an absent network card, and that one can be fixed.

use wire::Malformed;

/// A line about the refused frames, by [`Malformed::index`]; `None` without any.
pub fn line(refused: &[u64; Malformed::ALL.len()]) -> Option<String> {
    let reasons = Malformed::ALL.map(|reason| (reason, refused[reason.index()]));
    let met: Vec<_> = reasons.into_iter().filter(|(_, count)| *count > 0).collect();
    let mut text =
        met.iter().map(|(reason, count)| format!("{reason} {count}")).collect::<Vec<_>>().join(", ");
    if refused[Malformed::BadChecksum.index()] > 0 {
        text += "; if the other end is on this machine (a veth, a VM), its kernel omits checksums: \
                 run ethtool -K DEVICE tx off there";
    }
    (!met.is_empty()).then(|| format!("frames dropped as malformed: {text}"))
}

//~ input: malformed packets are summarized with a remedy
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_reason_is_named_with_its_count_and_its_advice() {
        let mut refused = [0; Malformed::ALL.len()];
        assert_eq!(line(&refused), None);
        refused[Malformed::Truncated.index()] = 2;
        assert_eq!(line(&refused).as_deref(), Some("frames dropped as malformed: truncated 2"));
        refused[Malformed::BadChecksum.index()] = 7;
        let line = line(&refused).expect("there are some");
        assert!(line.starts_with("frames dropped as malformed: truncated 2, bad checksum 7; "), "{line}");
        assert!(line.ends_with("run ethtool -K DEVICE tx off there"), "{line}");
    }
}
