//! DCTCP: a window that shrinks in proportion to the fraction of marked bytes.
//!
//! For networks whose switches mark early (step marking at a shallow queue). Growth and loss
//! response are NewReno's. Not for the Internet: both sides need ECN in its data-centre form.
//! Source: RFC 8257.

use queueing::{Bytes, Span, Time};

use super::{Ack, CongestionControl, NewReno};

/// Weight of a new sample in the estimate (`g`, RFC 8257 §4.1).
const G: f64 = 1.0 / 16.0;

/// Congestion control by the fraction of marked bytes.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    reno: NewReno,
    /// Estimated fraction of marked bytes, 0 to 1. Starts at 1, so that the first echo halves the
    /// window (RFC 8257 §4.2).
    alpha: f64,
    acked: u64,
    marked: u64,
    /// Observation window: ends when more than this number of bytes is delivered.
    window_end: u64,
}

impl Dctcp {
    /// A control with the initial window for segments of up to `mss` bytes.
    #[must_use]
    pub fn new(mss: u16) -> Self {
        Self { reno: NewReno::new(mss), alpha: 1.0, acked: 0, marked: 0, window_end: 0 }
    }

    /// Estimated fraction of marked bytes, 0 to 1.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Update of `alpha` (RFC 8257 §3.3, steps 1 to 7).
    #[inline]
    fn observe(&mut self, ack: &Ack) {
        self.acked += ack.acked.get();
        self.marked += ack.marked.get();
        if ack.delivered <= self.window_end {
            return;
        }
        if self.acked > 0 {
            let fraction = self.marked.min(self.acked) as f64 / self.acked as f64;
            self.alpha += G * (fraction - self.alpha);
        }
        (self.acked, self.marked, self.window_end) = (0, 0, ack.sent);
    }
}

impl CongestionControl for Dctcp {
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        self.observe(ack);
        self.reno.on_ack(ack);
    }

    fn on_loss(&mut self, now: Time, flight: Bytes) {
        self.reno.on_loss(now, flight);
    }

    fn on_ecn(&mut self, _now: Time, _flight: Bytes) {
        self.reno.reduce_to(self.window().get() as f64 * (1.0 - self.alpha / 2.0));
    }

    fn on_recovered(&mut self, now: Time) {
        self.reno.on_recovered(now);
    }

    fn on_timeout(&mut self, now: Time, flight: Bytes) {
        self.reno.on_timeout(now, flight);
    }

    fn on_syn_lost(&mut self, now: Time) {
        self.reno.on_syn_lost(now);
    }

    fn on_undo(&mut self, now: Time) {
        self.reno.on_undo(now);
    }

    fn on_idle(&mut self, now: Time, idle: Span) {
        self.reno.on_idle(now, idle);
    }

    fn on_mss(&mut self, mss: u16) {
        self.reno.on_mss(mss);
    }

    #[inline]
    fn window(&self) -> Bytes {
        self.reno.window()
    }

    fn ssthresh(&self) -> Bytes {
        self.reno.ssthresh()
    }
}

//~ recovery: DCTCP reduces by half the marked fraction, keeps the queue at the threshold and the link busy (RFC 8257)
#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1000;

    /// Feeds `windows` windows of 100 segments, of which the first `marked` are marked.
    fn windows(cc: &mut Dctcp, windows: u64, marked: u64) {
        for _ in 0..windows {
            let sent = cc.window_end + 100 * MSS;
            for segment in 1..=100 {
                cc.on_ack(&Ack {
                    acked: Bytes::new(MSS),
                    marked: Bytes::new(if segment <= marked { MSS } else { 0 }),
                    delivered: sent - 100 * MSS + segment * MSS,
                    sent: sent + segment * MSS,
                    ..Ack::default()
                });
            }
        }
    }

    fn settled() -> Dctcp {
        let mut cc = Dctcp::new(1000);
        cc.window_end = 100 * MSS;
        cc
    }

    #[test]
    fn alpha_converges_to_the_marked_fraction() {
        for marked in [0, 1, 10, 50, 100] {
            let mut cc = settled();
            windows(&mut cc, 200, marked);
            let fraction = marked as f64 / 100.0;
            assert!((cc.alpha() - fraction).abs() < 1e-4, "{marked} %: {}", cc.alpha());
        }
    }

    #[test]
    fn alpha_moves_a_sixteenth_of_the_way_each_window() {
        let mut cc = settled();
        for n in 1..=10 {
            windows(&mut cc, 1, 0);
            let expected = (15.0_f64 / 16.0).powi(n);
            assert!((cc.alpha() - expected).abs() < 1e-12, "window {n}: {}", cc.alpha());
        }
    }

    #[test]
    fn an_echo_takes_half_of_alpha() {
        let mut cc = settled();
        cc.on_ecn(Time::ZERO, cc.window());
        assert_eq!(cc.window(), Bytes::new(5000), "the first echo halves");
        let mut cc = settled();
        windows(&mut cc, 200, 20);
        assert_eq!(cc.window(), Bytes::new(10_000), "unused");
        cc.on_ecn(Time::ZERO, cc.window());
        assert!((8999..=9001).contains(&cc.window().get()), "{:?}", cc.window());
        assert_eq!(cc.ssthresh(), cc.window(), "slow start is over");
    }

    #[test]
    fn a_loss_halves_whatever_alpha_is() {
        let mut cc = settled();
        windows(&mut cc, 200, 0);
        cc.on_loss(Time::ZERO, Bytes::new(10_000));
        assert_eq!(cc.window(), Bytes::new(5000));
    }
}
