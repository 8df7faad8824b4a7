//! Fuzz targets of text formats: no text causes a panic, and a valid one works.

use classify::{PacketView, Policy};
use net::device::Device;
use net::device::fault_injector::{FaultInjector, Rates};
use net::device::memory;
use queueing::{Arrivals, Distribution, Rng, Span, Time};

use crate::world::meta;

/// Policy file; a valid one classifies a frame.
pub fn rules(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(policy) = Policy::parse(text) else { return };
    if let Some(driver) = policy.driver() {
        let meta = meta(Time::ZERO, data);
        let _ = driver(&PacketView::new(data, &meta));
    }
}

/// Fault rates of a path; a frame that crosses it arrives at most twice.
pub fn faults(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let rates: Rates = match text.parse() {
        Ok(rates) => rates,
        Err(why) => return assert!(why.to_string().contains("fault"), "{why}"),
    };
    let (near, mut far) = memory::pair(64, 64);
    let mut near = FaultInjector::new(near, rates, &Rng::seeded(1));
    let (mut now, mut arrived) = (Time::ZERO, 0);
    for _ in 0..16 {
        let _ = near.transmit(now, 60, &mut |frame| frame.fill(7));
        now = near.next().unwrap_or(now).max(now + Span::from_micros(1));
        near.advance(now);
        while let Some(received) = far.receive(now) {
            assert_eq!(received.frame.as_ref().len(), 60);
            far.recycle(received.frame);
            arrived += 1;
        }
    }
    assert!(arrived <= 32, "{arrived} of 16 frames arrived");
}

/// Distributions of service and arrival times: a printed value parses to the same value.
pub fn distributions(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = text.parse::<Span>();
    if let Ok(distribution) = text.parse::<Distribution>() {
        assert_eq!(distribution.to_string().parse(), Ok(distribution), "{text:?}");
        let _ = (distribution.mean(), distribution.sample(&mut Rng::seeded(1)));
    }
    if let Ok(arrivals) = text.parse::<Arrivals>() {
        assert_eq!(arrivals.to_string().parse(), Ok(arrivals), "{text:?}");
    }
}
