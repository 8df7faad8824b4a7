//! Proportional rate reduction (PRR): the sending rate during fast recovery.
//!
//! Above the new threshold, a fraction of each delivered byte is sent; below it, as much as was
//! delivered, and one segment more while acknowledgements show progress.
//! Source: RFC 6937 §3, with the choice of bound by progress of RFC 9937 §6.

/// PRR state of one recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prr {
    /// ssthresh: target of the flight at the end, in bytes.
    target: u32,
    /// RecoverFS: bytes in flight at the start of recovery.
    base: u32,
    /// prr_delivered: bytes delivered since the start.
    delivered: u64,
    /// prr_out: bytes sent since the start.
    out: u64,
    window: u32,
}

impl Prr {
    /// Starts a recovery with `base` bytes in flight and a target of `target` bytes.
    pub(crate) fn start(base: u32, target: u32) -> Self {
        Self { target, base: base.max(1), delivered: 0, out: 0, window: 0 }
    }

    /// Processes an acknowledgement that delivers `delivered` bytes and leaves `pipe` in flight.
    ///
    /// `safe` means that it acknowledges new data and reveals no further loss.
    pub(crate) fn on_ack(&mut self, delivered: u32, pipe: u32, safe: bool, mss: u32) {
        self.delivered += u64::from(delivered);
        let allowed = if pipe > self.target {
            let share = (self.delivered * u64::from(self.target)).div_ceil(u64::from(self.base));
            // In whole segments, as in the RFC.
            share.saturating_sub(self.out).next_multiple_of(u64::from(mss))
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(u64::from(delivered));
            let bound = bound + if safe { u64::from(mss) } else { 0 };
            bound.min(u64::from(self.target - pipe))
        };
        // The first retransmission is always allowed.
        let least = if self.out == 0 { u64::from(mss) } else { 0 };
        self.window = pipe.saturating_add(allowed.max(least).min(1 << 30) as u32);
    }

    /// Counts `bytes` sent.
    pub(crate) fn on_sent(&mut self, bytes: u32) {
        self.out += u64::from(bytes);
    }

    /// Number of bytes that may be in flight now.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }
}

//~ recovery: proportional rate reduction paces recovery (RFC 9937)
#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// Acknowledges each segment of a flight of `flight` whose first `lost` are lost; compares the
    /// number of segments sent for each.
    fn check(flight: u32, lost: u32, target: u32, expected: &[u32]) {
        let mut prr = Prr::start(flight * MSS, target * MSS);
        let mut pipe = (flight - lost) * MSS;
        let sent: Vec<u32> = (0..flight - lost)
            .map(|_| {
                pipe -= MSS;
                prr.on_ack(MSS, pipe, false, MSS);
                let mut n = 0;
                while pipe < prr.window() && prr.window() - pipe >= MSS {
                    (pipe, n) = (pipe + MSS, n + 1);
                    prr.on_sent(MSS);
                }
                n
            })
            .collect();
        assert_eq!(sent, expected);
    }

    #[test]
    fn half_the_acknowledgements_send_when_the_window_halves() {
        check(20, 1, 10, &[1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 1]);
    }

    #[test]
    fn heavy_loss_is_repaired_packet_by_packet() {
        check(20, 15, 10, &[1, 1, 1, 1, 1]);
    }

    #[test]
    fn progress_below_the_target_sends_one_more() {
        let mut prr = Prr::start(20_000, 10_000);
        prr.on_ack(MSS, 4000, false, MSS);
        assert_eq!(prr.window(), 5000);
        prr.on_sent(MSS);
        prr.on_ack(MSS, 4000, true, MSS);
        assert_eq!(prr.window(), 6000);
        prr.on_ack(9000, 9500, true, MSS);
        assert_eq!(prr.window(), 10_000, "never beyond the target");
    }
}
