//! Scenario 1: packet length. Source: ADPS §3.

use std::sync::Arc;

use super::two_levels;
use crate::{DriverClassifier, PacketView};

/// Frames longer than `threshold` bytes (without FCS) are low, others high.
#[must_use]
pub fn length(threshold: usize) -> DriverClassifier {
    Arc::new(move |packet: &PacketView<'_>| two_levels(packet.len() > threshold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Verdict, testing::view};

    //~ classifiers: scenario 1: frames over the length threshold get low priority
    #[test]
    fn only_frames_over_the_threshold_are_low() {
        let classifier = length(1000);
        for (len, level) in [(60, 0), (1000, 0), (1001, 7), (1514, 7)] {
            assert_eq!(view(&vec![0; len], |v| classifier(v)), Verdict::Level(level), "{len} bytes");
        }
    }
}
