//! Tests of CUBIC against the formulas and tables of RFC 9438.

//~ recovery: CUBIC follows its closed form within a segment and the RFC's tables within 15 % (RFC 9438)

use super::*;

const MSS: u16 = 1000;

/// Sender whose window is always in use, on a path of constant delay.
struct Path {
    cc: Cubic,
    now: Time,
    rtt: Span,
    delivered: u64,
}

impl Path {
    /// Path whose last loss was just now, with `segments` in flight.
    fn after_loss(segments: u64, rtt: Span) -> Self {
        let mut path = Self::with_window(segments, rtt);
        path.cc.on_loss(path.now, path.cc.window());
        path
    }

    /// Path on which slow start has just reached `segments`.
    fn with_window(segments: u64, rtt: Span) -> Self {
        let mut cc = Cubic::new(MSS);
        cc.cwnd = (segments * 1000) as f64;
        Self { cc, now: Time::ZERO, rtt, delivered: 0 }
    }

    /// Acknowledges one segment; the next one follows at 1/cwnd of a round trip.
    fn ack(&mut self) {
        self.now += Span::from_secs_f64(self.rtt.as_secs_f64() * 1000.0 / self.cc.cwnd);
        self.ack_now();
    }

    fn ack_now(&mut self) {
        self.delivered += 1000;
        let flight = self.cc.window();
        self.cc.on_ack(&Ack {
            now: self.now,
            acked: Bytes::new(1000),
            flight,
            srtt: Some(self.rtt),
            rtt: Some(self.rtt),
            delivered: self.delivered,
            sent: self.delivered + flight.get(),
            limited: true,
            ..Ack::default()
        });
    }

    fn segments(&self) -> f64 {
        self.cc.cwnd / 1000.0
    }
}

const fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

#[test]
fn the_window_follows_the_cubic_function_within_a_segment() {
    // W(t) = C (t - K)³ + W_max with K = ∛(W_max (1 - β) / C): first concave, then convex.
    let mut path = Path::after_loss(1000, ms(100));
    let k = (1000.0_f64 * 0.3 / 0.4).cbrt();
    path.ack();
    let start = path.now;
    let (mut before, mut slope_before, mut turned) = (path.segments(), f64::MAX, None);
    for step in 1..=200 {
        while path.now.since(start) < ms(100 * step) {
            path.ack();
        }
        let t = path.now.since(start).as_secs_f64();
        let closed = 0.4 * (t - k).powi(3) + 1000.0;
        assert!((path.segments() - closed).abs() < 1.0, "t = {t}: {} is not {closed}", path.segments());
        let slope = path.segments() - before;
        if slope > slope_before + 0.01 && turned.is_none() {
            turned = Some(t);
        }
        (before, slope_before) = (path.segments(), slope);
    }
    let turned = turned.expect("convex after K");
    assert!((turned - k).abs() < 1.0, "concave until {turned} s, K = {k} s");
}

#[test]
fn k_is_the_time_back_to_the_last_maximum() {
    let mut path = Path::after_loss(1000, ms(100));
    path.ack();
    let k_s = f64::from(path.cc.k_us) / 1e6;
    assert!((k_s - 9.0856).abs() < 0.001, "∛750 s, not {k_s}");
}

#[test]
fn the_cube_root_is_one() {
    assert_eq!(cube_root(0.0), 0.0);
    for x in [1e-9, 0.001, 0.5, 1.0, 2.0, 27.0, 750.0, 1e6, 5.5e9] {
        assert!((cube_root(x) / f64::cbrt(x) - 1.0).abs() < 1e-14, "{x}");
    }
}

#[test]
fn a_loss_leaves_seven_tenths() {
    let path = Path::after_loss(100, ms(20));
    assert_eq!((path.cc.window(), path.cc.ssthresh()), (Bytes::new(70_000), Bytes::new(70_000)));
    let mut tiny = Path::with_window(2, ms(20));
    tiny.cc.on_loss(tiny.now, Bytes::new(2000));
    assert_eq!(tiny.cc.window(), Bytes::new(2000), "two segments at least");
    tiny.cc.on_ecn(tiny.now, Bytes::new(2000));
    tiny.cc.on_ecn(tiny.now, Bytes::new(2000));
    tiny.cc.on_ecn(tiny.now, Bytes::new(2000));
    assert_eq!(tiny.cc.window(), Bytes::new(1000), "echoed congestion: one at least");
    assert_eq!(tiny.cc.ssthresh(), Bytes::new(2000));
}

#[test]
fn a_short_path_grows_like_reno() {
    // W_est gains α = 9/17 segments per round trip until it reaches the window before the loss,
    // then one (§4.3). At 1 ms, the cubic function is far slower.
    let mut path = Path::after_loss(40, ms(1));
    path.ack();
    let start = path.now;
    while path.now.since(start) < ms(20) {
        path.ack();
    }
    let grown = path.segments() - 28.0;
    assert!((grown - 20.0 * 9.0 / 17.0).abs() < 0.3, "{grown}");
    while path.segments() < 40.0 {
        path.ack();
    }
    let (start, from) = (path.now, path.segments());
    while path.now.since(start) < ms(20) {
        path.ack();
    }
    let grown = path.segments() - from;
    assert!((grown - 20.0).abs() < 0.5, "{grown}");
}

/// Average window in segments when every `1 / p`th segment is lost.
fn average_window(p: f64, rtt: Span) -> f64 {
    let mut path = Path::with_window(100, rtt);
    let every = (1.0 / p) as u64;
    let (mut sum, mut time) = (0.0, 0.0);
    for episode in 0..30 {
        path.cc.on_loss(path.now, path.cc.window());
        for _ in 0..every {
            let (before, window) = (path.now, path.segments());
            path.ack();
            if episode >= 15 {
                let span = path.now.since(before).as_secs_f64();
                (sum, time) = (sum + window * span, time + span);
            }
        }
    }
    sum / time
}

#[test]
fn average_windows_are_those_of_the_rfcs_tables() {
    // RFC 9438 §5.1, tables 1 and 2: RTT 0.1 s and 0.01 s, C = 0.4.
    for (p, rtt, expected) in [
        (1e-2, ms(100), 12.0),
        (1e-3, ms(100), 38.0),
        (1e-4, ms(100), 187.0),
        (1e-5, ms(100), 1054.0),
        (1e-2, ms(10), 12.0),
        (1e-3, ms(10), 38.0),
        (1e-4, ms(10), 120.0),
        (1e-5, ms(10), 379.0),
    ] {
        let average = average_window(p, rtt);
        let off = average / expected - 1.0;
        assert!(off.abs() < 0.15, "p = {p}, {rtt}: {average:.1} segments, the RFC has {expected}");
    }
}

#[test]
fn a_flow_with_a_loss_below_its_last_maximum_lowers_it() {
    let mut path = Path::after_loss(100, ms(20));
    assert_eq!(path.cc.w_max, 100_000);
    path.ack();
    path.cc.on_loss(path.now, path.cc.window());
    let (w_max, cwnd) = (f64::from(path.cc.w_max), f64::from(path.cc.cwnd_prior));
    assert!((w_max - cwnd * 0.85).abs() <= 1.0, "fast convergence, §4.7: {w_max} of {cwnd}");
}

#[test]
fn after_a_timeout_the_curve_starts_flat() {
    let mut path = Path::with_window(100, ms(100));
    path.cc.on_timeout(path.now, path.cc.window());
    assert_eq!((path.cc.window(), path.cc.ssthresh()), (Bytes::new(1000), Bytes::new(70_000)));
    (0..69).for_each(|_| path.ack());
    assert_eq!(path.cc.window(), Bytes::new(70_000), "a segment for each acknowledgement");
    path.ack();
    assert_eq!((path.cc.k_us, path.cc.w_max), (0, 70_000), "§4.8");
}

#[test]
fn time_without_use_does_not_count() {
    let mut path = Path::after_loss(1000, ms(100));
    (0..1000).for_each(|_| path.ack());
    let (used, window) = (path.cc.elapsed, path.cc.window());
    // A minute idle, a minute of small flights, then the window is in use again.
    path.now += Span::from_secs(60);
    for _ in 0..600 {
        path.now += ms(100);
        path.cc.on_ack(&Ack {
            now: path.now,
            acked: Bytes::new(500),
            srtt: Some(path.rtt),
            ..Ack::default()
        });
    }
    assert_eq!(path.cc.window(), window, "an unused window does not grow");
    path.ack_now();
    assert_eq!(path.cc.elapsed, used);
    path.now += Span::from_secs(60);
    path.ack_now();
    assert_eq!(path.cc.elapsed, used + ms(100), "a burst after a pause: one round trip");
}

#[test]
fn a_spurious_loss_is_undone() {
    let mut path = Path::after_loss(1000, ms(100));
    (0..5000).for_each(|_| path.ack());
    let was = path.cc;
    let state = |cc: &Cubic| (cc.cwnd as u32, cc.w_est as u32, cc.elapsed, cc.k_us, cc.w_max, cc.ssthresh);
    path.cc.on_loss(path.now, path.cc.window());
    path.cc.on_undo(path.now);
    assert_eq!(state(&path.cc), state(&was));
    let undone = path.cc.window();
    path.cc.on_undo(path.now);
    assert_eq!(path.cc.window(), undone, "only once");
    path.cc.on_timeout(path.now, path.cc.window());
    path.ack();
    path.cc.on_undo(path.now);
    assert_eq!(state(&path.cc), state(&was));
}

#[test]
fn a_late_undo_restores_nothing() {
    let mut path = Path::after_loss(10, ms(100));
    while path.segments() < 20.0 {
        path.ack();
    }
    let grown = path.cc.window();
    path.cc.on_undo(path.now);
    assert_eq!(path.cc.window(), grown);
}

#[test]
fn a_rising_delay_ends_slow_start_without_loss() {
    let mut path = Path::with_window(10, ms(80));
    let mut acks = 0;
    while path.cc.in_slow_start() {
        // Beyond 200 segments, each one adds queueing delay.
        path.rtt = ms(80) + Span::from_micros(100) * (path.segments() as u64).saturating_sub(200);
        path.ack();
        acks += 1;
        assert!(acks < 100_000, "slow start never ends");
    }
    assert!((200.0..1000.0).contains(&path.segments()), "{}", path.segments());
    path.ack();
    assert_eq!(path.cc.k_us, 0, "§4.10");
}

#[test]
fn sending_resumes_with_the_initial_window() {
    let mut path = Path::after_loss(100, ms(20));
    path.cc.on_idle(path.now, Span::from_secs(3));
    assert_eq!((path.cc.window(), path.cc.ssthresh()), (Bytes::new(10_000), Bytes::new(70_000)));
}

#[test]
fn a_controller_is_small() {
    assert!(size_of::<Cubic>() <= 96, "{}", size_of::<Cubic>());
}
