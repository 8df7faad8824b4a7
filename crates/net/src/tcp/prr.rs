//! How fast a fast recovery may send: proportional rate reduction.
//!
//! While more is in flight than the new threshold allows, for every byte that
//! leaves the network a part of one is sent; below it, as much as was
//! delivered, and one segment more while acknowledgements show progress.
//! Source: RFC 6937 §3, with the choice of bound by progress of RFC 9937 §6.

/// The account of one recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Prr {
    /// ssthresh: where the flight shall be at the end.
    target: u32,
    /// RecoverFS: bytes in flight when recovery began.
    base: u32,
    /// prr_delivered: bytes delivered since.
    delivered: u64,
    /// prr_out: bytes sent since.
    out: u64,
    window: u32,
}

impl Prr {
    /// Recovery starts with `base` bytes in flight and shall end with `target`.
    pub(crate) fn start(base: u32, target: u32) -> Self {
        Self { target, base: base.max(1), delivered: 0, out: 0, window: 0 }
    }

    /// An acknowledgement delivered `delivered` bytes and leaves `pipe` in
    /// flight; `safe` when it acknowledged new data and told of no new loss.
    pub(crate) fn on_ack(&mut self, delivered: u32, pipe: u32, safe: bool, mss: u32) {
        self.delivered += u64::from(delivered);
        let allowed = if pipe > self.target {
            let share = (self.delivered * u64::from(self.target)).div_ceil(u64::from(self.base));
            // In whole segments, as the RFC counts them.
            share.saturating_sub(self.out).next_multiple_of(u64::from(mss))
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(u64::from(delivered));
            let bound = bound + if safe { u64::from(mss) } else { 0 };
            bound.min(u64::from(self.target - pipe))
        };
        // The first segment is sent again whatever the rest says.
        let least = if self.out == 0 { u64::from(mss) } else { 0 };
        self.window = pipe.saturating_add(allowed.max(least).min(1 << 30) as u32);
    }

    /// `bytes` were sent.
    pub(crate) fn on_sent(&mut self, bytes: u32) {
        self.out += u64::from(bytes);
    }

    /// Bytes that may be in flight now.
    pub(crate) fn window(&self) -> u32 {
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    /// Acknowledges segment after segment of a flight of `flight` of which the
    /// first `lost` are lost; returns what was sent for each.
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
