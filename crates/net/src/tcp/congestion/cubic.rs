//! CUBIC: after a loss the window returns to where the loss was along a cubic
//! function of time, lingers there, then looks further up.
//!
//! Growth depends on time and not on round trips, so long paths are filled
//! as fast as short ones; where Reno would be faster, CUBIC is Reno. Slow
//! start is HyStart++. `ssthresh` derives from the window rather than the
//! flight, which RFC 9438 §4.6 allows to senders whose window does not grow
//! unused: a request in a single segment that gets lost would otherwise cost
//! the next answer its window.
//!
//! Only +, −, ×, ÷ on `f64`, which round alike everywhere: a run replays on
//! any machine. Source: RFC 9438.

use queueing::{Bytes, Span, Time};

use super::hystart::{Growth, HyStart};
use super::{Ack, CongestionControl, WINDOW_MAX, initial_window, narrow};

/// How fast the window returns, in segments per s³.
const C: f64 = 0.4;
/// What a reduction leaves of the window.
const BETA: f64 = 0.7;
/// Segments per round trip that grow the window like Reno's on average, given
/// that a loss costs less.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Congestion control by a cubic function of the time since the last loss.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    /// The window in bytes; fractions add up.
    cwnd: f64,
    /// Where Reno would be by now.
    w_est: f64,
    /// Time spent in this stage of congestion avoidance with the window in use.
    elapsed: Span,
    /// When the window was last in use.
    used_at: Time,
    /// How long the window takes back to `w_max`.
    k_us: u32,
    /// The window at the last reduction, or less for faster convergence.
    w_max: u32,
    /// The window at the last reduction.
    cwnd_prior: u32,
    ssthresh: u32,
    mss: u16,
    /// Whether a stage of congestion avoidance is under way.
    staged: bool,
    history: History,
}

/// HyStart++ is for the first slow start, before any reduction; what an undo
/// needs exists only after one.
#[derive(Clone, Copy, Debug)]
enum History {
    Fresh(HyStart),
    Reduced(Before),
}

/// How things were before the last reduction (RFC 9438 §4.9.2).
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
    /// The initial window for segments of up to `mss` bytes.
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
            // RFC 5681 §3.1: what is confirmed after a timeout may have been sent before it.
            _ => narrow(ack.acked).min(u32::from(self.mss)),
        };
        self.cwnd += f64::from(grow);
    }

    /// Begins a stage of congestion avoidance: §4.2; after a timeout or
    /// HyStart++ the curve starts flat, §4.8 and §4.10.
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
        // Idle time does not count (§4.2, §5.8); in use, the window is heard
        // of at least once a round trip.
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

    /// Bytes were delivered while the window was not what limited the flight.
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

    /// §4.6 and §4.7; the window itself is the caller's.
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
            // It has grown beyond by itself; slow start goes on where it would have.
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
        // At most WINDOW_MAX; a cast to 32 bits takes a quarter of the instructions.
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

/// The cube root of `x` ≥ 0 by Newton's method: the same everywhere, which
/// `f64::cbrt` does not promise.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent starts within a few percent; each step squares the error.
    let mut root = f64::from_bits(x.to_bits() / 3 + (0x3ff0_0000_0000_0000 / 3 * 2));
    for _ in 0..5 {
        root -= (root * root * root - x) / (3.0 * root * root);
    }
    root
}

#[cfg(test)]
mod tests;
