//! Probes against an estimate that rejects requests, since rejected requests give no samples.

use queueing::{Span, Time};

/// One rejected request in [`EVERY`] is a probe, and one in [`AFTER`] where they are rare.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProbeInterval {
    rejected: u32,
    /// Time of the last probe, or of the first rejection.
    since: Option<Time>,
}

impl ProbeInterval {
    /// True if the request that is rejected at `now` is a probe.
    pub fn is_due(&mut self, now: Time) -> bool {
        let since = *self.since.get_or_insert(now);
        self.rejected += 1;
        let is_due = self.rejected >= EVERY || now.since(since) >= AFTER;
        if is_due {
            *self = Self { rejected: 0, since: Some(now) };
        }
        is_due
    }
}

const EVERY: u32 = 64;
const AFTER: Span = Span::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_64_is_a_probe_or_one_a_second() {
        let probes = |gap: Span, requests: u64| {
            let mut interval = ProbeInterval::default();
            (0..requests).filter(|&n| interval.is_due(Time::ZERO + gap * n)).collect::<Vec<_>>()
        };
        assert_eq!(probes(Span::from_millis(1), 200), [63, 127, 191]);
        assert_eq!(probes(Span::from_millis(100), 31), [10, 20, 30]);
        assert_eq!(probes(Span::from_secs(9), 4), [1, 2, 3], "an idle server does not reject twice in a row");
    }
}
