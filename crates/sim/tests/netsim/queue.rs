//! Effect of flows on a bottleneck, and on each other.

use net::congestion;
use net::stack::{Config, Ecn};
use queueing::{Bytes, Rate, Span, Time};
use sim::path;

use super::world::{Transfer, World};

const SERVER: usize = 1;
/// Larger than any transfer: the flow does not end.
const ENDLESS: u64 = 1 << 40;

fn buffers(config: &mut Config) {
    (config.recv_buffer, config.send_buffer) = (4 << 20, 4 << 20);
}

fn path_config(rate_mbps: u64, rtt: Span, buffer: u64) -> path::Config {
    path::Config {
        rate: Rate::from_bits_per_sec(rate_mbps * 1_000_000),
        delay: rtt / 2,
        buffer: Bytes::new(buffer),
        mark: None,
        faults: net::device::fault_injector::Rates::NONE,
    }
}

/// Bytes that two endless flows receive between `from` and `to` when the second starts `later`.
fn shares(path_config: path::Config, later: Span, from: Span, to: Span) -> [u64; 2] {
    let transfer = |starts| Transfer { starts, bytes: ENDLESS, count: 1 };
    let mut world = World::new(buffers, [path_config; 2], 1, &[transfer(Span::ZERO), transfer(later)]);
    let start = world.now;
    world.run_until(start + from, |_| false, &mut |_| {});
    let before = [0, 1].map(|flow| world.received(flow));
    world.run_until(start + to, |_| false, &mut |_| {});
    [0, 1].map(|flow| world.received(flow) - before[flow])
}

//~ recovery: two CUBIC flows share a bottleneck within 2:1
#[test]
fn two_cubic_flows_share_a_bottleneck() {
    // 20 Mbit/s, 20 ms, one bandwidth-delay product of buffer.
    let path_config = path_config(20, Span::from_millis(20), 50_000);
    for later_ms in [0, 700, 3000] {
        let [first, second] =
            shares(path_config, Span::from_millis(later_ms), Span::from_secs(10), Span::from_secs(30));
        let ratio = first.max(second) as f64 / first.min(second) as f64;
        assert!(ratio < 2.0, "later by {later_ms} ms: {first} and {second} bytes");
        let used = (first + second) as f64 * 8.0 / 20.0 / 20e6;
        assert!(used > 0.9, "{used} of the line");
    }
}

//~ recovery: HyStart++ leaves slow start before a deep buffer overflows (RFC 9406)
#[test]
fn slow_start_ends_before_a_deep_buffer_overflows() {
    // 20 Mbit/s, 50 ms, sixteen bandwidth-delay products: doubling would fill them and
    // overshoot by as much again.
    let path_config = path_config(20, Span::from_millis(50), 2_000_000);
    let mut world = World::new(
        buffers,
        [path_config; 2],
        1,
        &[Transfer { starts: Span::ZERO, bytes: 8_000_000, count: 1 }],
    );
    let mut most = 0;
    world.run_until(Time::MAX, |world| !world.durations.is_empty(), &mut |world| {
        most = most.max(world.ends[SERVER].waiting(world.now).get());
    });
    let took = world.durations[&0][0];
    assert_eq!(world.ends[SERVER].sent().dropped, 0);
    assert!(most < 1_500_000, "{most} bytes waited");
    assert!(took < Span::from_millis(4000), "{took} for 3.2 s of line");
}

/// Steady state of two endless flows at a bottleneck that marks from `mark` on: utilisation of
/// the line, mean and maximum queue in bytes.
fn standing_queue(settings: impl Fn(&mut Config), mark: u64) -> (f64, f64, u64) {
    // 1 Gbit/s, 200 µs: a bandwidth-delay product of 25 kB; the buffer has 20 of them.
    let path_config =
        path::Config { mark: Some(Bytes::new(mark)), ..path_config(1000, Span::from_micros(200), 500_000) };
    let transfer = Transfer { starts: Span::ZERO, bytes: ENDLESS, count: 1 };
    let mut world = World::new(settings, [path_config; 2], 1, &[transfer; 2]);
    let received = |world: &World| world.received(0) + world.received(1);
    let (settled, end) = (world.now + Span::from_millis(200), world.now + Span::from_millis(600));
    world.run_until(settled, |_| false, &mut |_| {});
    let before = received(&world);
    let (mut sum, mut most, mut last) = (0.0, 0, (settled, 0));
    world.run_until(end, |_| false, &mut |world| {
        sum += last.1 as f64 * world.now.since(last.0).as_secs_f64();
        last = (world.now, world.ends[SERVER].waiting(world.now).get());
        most = most.max(last.1);
    });
    let span_s = end.since(settled).as_secs_f64();
    ((received(&world) - before) as f64 * 8.0 / span_s / 1e9, sum / span_s, most)
}

//~ recovery: DCTCP reduces by half the marked fraction, keeps the queue at the threshold and the link busy (RFC 8257)
#[test]
fn dctcp_keeps_the_queue_at_the_threshold_and_the_line_busy() {
    const K: u64 = 30_000;
    let with = |algorithm: &str, ecn| {
        let new = congestion::by_name(algorithm).expect("a known name").new;
        standing_queue(
            |config: &mut Config| {
                buffers(config);
                (config.congestion, config.ecn) = (Some(new), ecn);
            },
            K,
        )
    };
    let (used, mean, most) = with("dctcp", Ecn::Dctcp);
    println!("dctcp {used} {mean} {most}");
    // Frames carry 1448 of 1538 bytes: 94 % at best.
    assert!(used > 0.9, "{used} of the line");
    let (k, third) = (K as f64, K as f64 / 3.0);
    assert!((k - third..k + third).contains(&mean), "a queue of {mean} bytes, marked from {K} on");
    assert!(most < 2 * K, "{most} bytes at most");

    let (used, mean, _) = with("cubic", Ecn::Off);
    println!("cubic {used} {mean}");
    assert!(used > 0.9 && mean > 5.0 * k, "what DCTCP is for: {mean} bytes wait without it");
    let (used, mean, most) = with("cubic", Ecn::Classic);
    println!("classic {used} {mean} {most}");
    let (used, mean, most) = with("newreno", Ecn::Classic);
    println!("classic newreno {used} {mean} {most}");
}
