//! CUBIC: a congestion window that grows as a cubic function of the time since the last loss.
//!
//! Growth depends on time, not on round trips, so long paths fill as fast as short ones. Where Reno
//! would be faster, the window follows Reno. Slow start is HyStart++.
//!
//! `ssthresh` derives from the window rather than from the flight, which RFC 9438 §4.6 allows if an
//! unused window does not grow. Otherwise the loss of a single-segment request would cost the next
//! response its window.
//!
//! Uses only +, −, ×, ÷ on `f64`, which round alike on every machine, so that a run replays
//! exactly.
//! Source: RFC 9438.

use queueing::{Bytes, Span, Time};

use super::hystart::{Growth, HyStart};
use super::{Ack, CongestionControl, WINDOW_MAX, initial_window, narrow};

/// Scale of the cubic function, in segments per s³ (§4.1).
const C: f64 = 0.4;
/// Multiplicative decrease factor.
const BETA: f64 = 0.7;
/// Additive increase in segments per round trip that gives Reno's average rate with [`BETA`]
/// (§4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Congestion control by a cubic function of the time since the last loss.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    /// Congestion window in bytes, with fractions.
    cwnd: f64,
    /// Reno-friendly estimate of the window in bytes.
    w_est: f64,
    /// Time spent in this congestion-avoidance stage with the window in use.
    elapsed: Span,
    /// Time of the last acknowledgement.
    used_at: Time,
    /// Time from the start of the stage until W(t) reaches `w_max`, in microseconds (K).
    k_us: u32,
    /// Window before the last reduction; less after fast convergence.
    w_max: u32,
    /// Window before the last reduction.
    cwnd_prior: u32,
    ssthresh: u32,
    mss: u16,
    /// True during a congestion-avoidance stage.
    staged: bool,
    history: History,
}

/// State of the first slow start until the first reduction; then the state before the last one.
#[derive(Clone, Copy, Debug)]
enum History {
    Fresh(HyStart),
    Reduced(Before),
}

/// State before the last reduction, for an undo (RFC 9438 §4.9.2).
#[derive(Clone, Copy, Debug)]
struct Before {
    elapsed: Span,
    cwnd: u32,
    w_est: u32,
    k_us: u32,
    w_max: u32,
    cwnd_prior: u32,
    ssthresh: u32,
    staged: bool,
}

impl Cubic {
    /// A control with the initial window for segments of up to `mss` bytes.
    #[must_use]
    pub fn new(mss: u16) -> Self {
        Self {
            cwnd: f64::from(initial_window(mss)),
            w_est: 0.0,
            elapsed: Span::ZERO,
            used_at: Time::ZERO,
            k_us: 0,
            w_max: 0,
            cwnd_prior: 0,
            ssthresh: u32::MAX,
            mss,
            staged: false,
            history: History::Fresh(HyStart::new()),
        }
    }

    #[inline]
    fn mss(&self) -> f64 {
        f64::from(self.mss)
    }

    fn slow_start(&mut self, ack: &Ack) {
        let grow = match &mut self.history {
            History::Fresh(hystart) if self.ssthresh == u32::MAX => match hystart.on_ack(ack, self.mss) {
                Growth::By(grow) => grow,
                Growth::Last(grow) => {
                    self.ssthresh = self.cwnd as u32 + grow;
                    self.cwnd_prior = self.ssthresh;
                    grow
                }
            },
            // RFC 5681 §3.1: after a timeout, acknowledged data may have been sent before it.
            _ => narrow(ack.acked).min(u32::from(self.mss)),
        };
        self.cwnd += f64::from(grow);
    }

    /// Starts a congestion-avoidance stage (§4.2); after a timeout or HyStart++, K is 0 (§4.8,
    /// §4.10).
    fn begin_stage(&mut self, now: Time) {
        self.staged = true;
        (self.elapsed, self.used_at) = (Span::ZERO, now);
        self.w_est = self.cwnd;
        self.w_max = self.w_max.max(self.cwnd as u32);
        let missing = (f64::from(self.w_max) - self.cwnd).max(0.0) / self.mss();
        self.k_us = (cube_root(missing / C) * 1e6) as u32;
    }

    #[inline]
    fn avoid(&mut self, ack: &Ack) {
        if !self.staged {
            self.begin_stage(ack.now);
        }
        // Idle time does not count (§4.2, §5.8). While the window is in use, acknowledgements
        // arrive at least once per round trip.
        let rtt = ack.srtt.unwrap_or_default();
        let since = ack.now.since(self.used_at);
        self.elapsed += if rtt == Span::ZERO { since } else { since.min(rtt) };
        self.used_at = ack.now;

        let mss = self.mss();
        let segments = ack.acked.get() as f64 / mss;
        let alpha = if self.w_est >= f64::from(self.cwnd_prior) { 1.0 } else { ALPHA };
        self.w_est += alpha * segments * mss / self.cwnd * mss;
        if self.w_cubic(self.elapsed) < self.w_est {
            self.cwnd = self.cwnd.max(self.w_est);
            return;
        }
        let target = self.w_cubic(self.elapsed + rtt).clamp(self.cwnd, 1.5 * self.cwnd);
        self.cwnd += (target - self.cwnd) * (ack.acked.get() as f64 / self.cwnd).min(1.0);
    }

    /// Bytes were delivered while the window did not limit the flight.
    #[inline]
    pub(crate) fn on_unused(&mut self, now: Time) {
        self.used_at = now;
    }

    /// W(t) of §4.2 in bytes.
    #[inline]
    fn w_cubic(&self, t: Span) -> f64 {
        let from_k = (t.as_nanos() as f64 - f64::from(self.k_us) * 1e3) / 1e9;
        C * from_k * from_k * from_k * self.mss() + f64::from(self.w_max)
    }

    /// Reduction of §4.6 and §4.7; the caller sets the window itself.
    fn reduce(&mut self) {
        let cwnd = self.cwnd as u32;
        self.history = History::Reduced(Before {
            elapsed: self.elapsed,
            cwnd,
            w_est: self.w_est as u32,
            k_us: self.k_us,
            w_max: self.w_max,
            cwnd_prior: self.cwnd_prior,
            ssthresh: self.ssthresh,
            staged: self.staged,
        });
        let converging = cwnd < self.w_max;
        self.w_max = if converging { (self.cwnd * (1.0 + BETA) / 2.0) as u32 } else { cwnd };
        self.cwnd_prior = cwnd;
        self.ssthresh = ((self.cwnd * BETA) as u32).max(2 * u32::from(self.mss));
        self.staged = false;
    }
}

impl CongestionControl for Cubic {
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.limited {
            return self.on_unused(ack.now);
        }
        if self.in_slow_start() {
            self.slow_start(ack);
        } else {
            self.avoid(ack);
        }
        self.cwnd = self.cwnd.min(f64::from(WINDOW_MAX));
    }

    fn on_loss(&mut self, _now: Time, _flight: Bytes) {
        self.reduce();
        self.cwnd = f64::from(self.ssthresh);
    }

    fn on_ecn(&mut self, _now: Time, _flight: Bytes) {
        let cwnd = self.cwnd * BETA;
        self.reduce();
        self.cwnd = cwnd.max(self.mss());
    }

    fn on_timeout(&mut self, _now: Time, _flight: Bytes) {
        self.reduce();
        self.cwnd = self.mss();
        self.w_max = 0;
    }

    fn on_syn_lost(&mut self, _now: Time) {
        self.cwnd = self.mss();
    }

    fn on_undo(&mut self, _now: Time) {
        let History::Reduced(before) = self.history else { return };
        self.history = History::Fresh(HyStart::new());
        if self.cwnd >= f64::from(self.cwnd_prior) {
            // The window has grown beyond its old value; slow start continues up to the old
            // threshold.
            self.ssthresh = self.ssthresh.max(before.ssthresh);
            return;
        }
        self.cwnd = f64::from(before.cwnd);
        self.w_est = f64::from(before.w_est);
        self.elapsed = before.elapsed;
        self.k_us = before.k_us;
        self.w_max = before.w_max;
        self.cwnd_prior = before.cwnd_prior;
        self.ssthresh = before.ssthresh;
        self.staged = before.staged;
    }

    fn on_idle(&mut self, _now: Time, _idle: Span) {
        if self.ssthresh != u32::MAX {
            self.ssthresh = self.ssthresh.max((self.cwnd * 0.75) as u32);
        }
        self.cwnd = self.cwnd.min(f64::from(initial_window(self.mss)));
        self.staged = false;
    }

    fn on_mss(&mut self, mss: u16) {
        self.mss = mss;
    }

    #[inline]
    fn window(&self) -> Bytes {
        // At most WINDOW_MAX; the cast to 32 bits takes a quarter of the instructions.
        Bytes::new(u64::from(self.cwnd as u32))
    }

    fn ssthresh(&self) -> Bytes {
        Bytes::new(u64::from(self.ssthresh))
    }

    #[inline]
    fn in_slow_start(&self) -> bool {
        (self.cwnd as u32) < self.ssthresh
    }
}

/// Cube root of `x` ≥ 0 by Newton's method.
///
/// Gives the same result on every machine, which `f64::cbrt` does not guarantee.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // Dividing the exponent by three starts within a few percent; each step squares the error.
    let mut root = f64::from_bits(x.to_bits() / 3 + (0x3ff0_0000_0000_0000 / 3 * 2));
    for _ in 0..5 {
        root -= (root * root * root - x) / (3.0 * root * root);
    }
    root
}

#[cfg(test)]
mod tests;
