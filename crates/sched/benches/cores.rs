//! Time of one allocator round of each policy: sense, decide, act, with eight tasks.
//!
//! `cargo bench -p sched --bench cores`. Claim: caladan takes at most 2 µs on 24
//! cores.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use queueing::{Span, Time};
use sched::cores::POLICIES;
use sched::cores::fake::FakeCores;

fn round(c: &mut Criterion) {
    let mut group = c.benchmark_group("cores/round");
    for cores in [24_usize, 96, 512] {
        for entry in POLICIES {
            let (mut machine, mut allocator) = FakeCores::new(cores, entry);
            let mut now = Time::ZERO;
            group.bench_function(BenchmarkId::new(entry.name, cores), |b| {
                b.iter(|| {
                    now += Span::from_micros(10);
                    allocator.round(now, &mut machine)
                });
            });
        }
    }
}

criterion_group!(benches, round);
criterion_main!(benches);
