//! Pending-event set under the hold model: each event schedules one successor at a random
//! distance. Elements per second are events per second.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use queueing::Time;
use sim::Engine;

const EVENTS: u64 = 100_000;

/// Marsaglia's xorshift: its cost is negligible.
fn step(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn hold(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine/hold");
    group.throughput(Throughput::Elements(EVENTS));
    for pending in [1_000_u64, 100_000] {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut engine = Engine::new();
        for id in 0..pending {
            engine.schedule(Time::from_nanos(step(&mut state) % 1_000_000), id as u32);
        }
        group.bench_function(BenchmarkId::from_parameter(pending), |b| {
            b.iter(|| {
                for _ in 0..EVENTS {
                    let (now, id) = engine.next().expect("as many as before");
                    let ahead = step(&mut state) % 1_000_000;
                    engine.schedule(Time::from_nanos(now.as_nanos() + ahead), id);
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, hold);
criterion_main!(benches);
