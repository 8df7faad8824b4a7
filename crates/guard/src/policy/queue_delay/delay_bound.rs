//! Bound on the delay while a limit is in force: the shortest queue that keeps the server busy.
//!
//! Shedding costs nothing while the server is busy: it could not have served more. It costs goodput
//! when the server idles afterwards, since it could then have served the shed requests. So each idle
//! time after shedding raises the bound by its length. A standing queue, which does not drain while
//! requests keep coming and being shed, only adds delay: it is halved window by window, as long as idle
//! time is below [`LOST_SHARE`] of the time. Under Poisson arrivals the bound falls to the target;
//! under bursts it is as long as the server needs from one to the next.

use queueing::Time;

use super::Tick;

/// Bound on the delay, in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct DelayBound {
    target_s: f64,
    seconds: f64,
    /// Service time of the shed requests that the server could still have served.
    shed_s: f64,
    /// Idle time after shedding, and time; both decay.
    lost_s: f64,
    elapsed_s: f64,
    /// Longest recent time between ticks with arrivals, and the last of these.
    gap_s: f64,
    last_arrival: Option<Time>,
    window: Window,
}

/// Observations while a limit is in force.
#[derive(Clone, Debug, Default)]
struct Window {
    seconds: f64,
    offered: u64,
    served: u64,
    shed: u64,
    /// Least delay; `None` before the first tick.
    delay_min_s: Option<f64>,
}

impl DelayBound {
    /// Bound in seconds; at least the target.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Records `tick` of a server that serves `per_s`, and raises the bound by idle time.
    pub fn update(&mut self, tick: &Tick, per_s: f64, target_s: f64) {
        self.target_s = target_s;
        self.gap_s *= decay(tick.interval_s, GAP_MEMORY_S);
        if tick.offered > 0
            && let Some(last) = self.last_arrival.replace(tick.now)
        {
            self.gap_s = self.gap_s.max(tick.now.since(last).as_secs_f64());
        }
        self.shed_s = (self.shed_s + tick.shed as f64 / per_s).min(SHED_MAX_S);
        let keep = decay(tick.interval_s, LOST_MEMORY_S.max(LOST_MEMORY_REQUESTS / per_s));
        self.lost_s *= keep;
        self.elapsed_s = self.elapsed_s * keep + tick.interval_s;
        self.seconds = (self.seconds * decay(tick.interval_s, MEMORY_S)).max(target_s);
        if tick.waiting == 0 {
            let unused_s = tick.interval_s - tick.served as f64 / per_s;
            let idle_s = unused_s.max(tick.interval_s * IDLE_SHARE_MIN).min(self.shed_s);
            self.shed_s -= idle_s;
            // Shed in this very tick: rather the rate was too low than the burst.
            let lost_s = if tick.shed > 0 { idle_s * STEADY_SHARE } else { idle_s };
            self.lost_s += lost_s;
            self.seconds += lost_s;
        }
    }

    /// Begins a limit: the queue may be as long as it is.
    pub fn begin(&mut self, delay_s: f64) {
        self.seconds = self.seconds.max(delay_s);
        self.shed_s = 0.0;
        self.window = Window::default();
    }

    /// Lowers the bound at the end of a window in which the queue did not drain.
    pub fn lower_standing_queue(&mut self, tick: &Tick, per_s: f64) {
        let window = &mut self.window;
        window.seconds += tick.interval_s;
        window.offered += tick.offered;
        window.served += tick.served;
        window.shed += tick.shed;
        let delay_min_s = window.delay_min_s.unwrap_or(f64::INFINITY).min(tick.delay_s);
        window.delay_min_s = Some(delay_min_s);
        // A window has several bursts.
        if window.seconds < WINDOW_S.max(WINDOW_SERVICES / per_s).max(WINDOW_GAPS * self.gap_s) {
            return;
        }
        let is_overload = window.shed > 0 && window.offered >= window.served;
        if is_overload && self.lost_s < LOST_SHARE * self.elapsed_s {
            self.seconds = (self.seconds - delay_min_s / 2.0).max(self.target_s);
        }
        self.window = Window::default();
    }
}

/// Share that is left after `interval_s` of a decay with time constant `memory_s`.
fn decay(interval_s: f64, memory_s: f64) -> f64 {
    (-interval_s / memory_s).exp()
}

/// Shed work that counts: clients of older requests have given up.
const SHED_MAX_S: f64 = 2.0;
/// Idle share of a tick that ends with an empty queue, at least; and the share of idle time that
/// raises the bound although requests were shed in that tick.
const IDLE_SHARE_MIN: f64 = 0.5;
const STEADY_SHARE: f64 = 0.2;
/// Idle time after shedding that is accepted, as a share of the time.
const LOST_SHARE: f64 = 0.005;
/// Time constants: of idle time (and the requests that it covers at least), of the bound, of gaps.
const LOST_MEMORY_S: f64 = 5.0;
const LOST_MEMORY_REQUESTS: f64 = 200.0;
const MEMORY_S: f64 = 60.0;
const GAP_MEMORY_S: f64 = 20.0;
/// Length of a window: at least this long, this many services, and this many gaps between arrivals.
const WINDOW_S: f64 = 0.1;
const WINDOW_SERVICES: f64 = 8.0;
const WINDOW_GAPS: f64 = 3.0;
