//! One request and one response of 64 bytes through two stacks and the wire
//! between them; the same with smoltcp. A side's cost is half the figure.
//!
//! Two numbers, connections and exchanges, run just that and time nothing,
//! so that a profiler can count instructions; `smoltcp` after them runs it
//! through that.

use criterion::{BenchmarkId, Criterion, criterion_group};
use ours::Pair;

#[path = "stack/ours.rs"]
mod ours;
#[path = "stack/smol.rs"]
mod smol;

const MESSAGE: usize = 64;

fn stack(c: &mut Criterion) {
    let mut group = c.benchmark_group("stack/exchange");
    for n in [1, 100, 10_000, 100_000] {
        let mut pair = None;
        group.bench_function(BenchmarkId::new("greenwave", n), |b| {
            let pair = pair.get_or_insert_with(|| {
                let mut pair = Pair::new(n);
                // Every connection once, so that nothing is new.
                (0..n.max(1000)).for_each(|_| pair.exchange());
                pair
            });
            b.iter(|| pair.exchange());
        });
    }
    for n in [1, 10_000] {
        let mut pair = None;
        group.bench_function(BenchmarkId::new("smoltcp", n), |b| {
            let pair = pair.get_or_insert_with(|| smol::Pair::new(n));
            b.iter(|| pair.exchange());
        });
    }
    group.finish();
}

criterion_group!(benches, stack);

fn main() {
    let number = |n| std::env::args().nth(n).and_then(|arg| arg.parse().ok());
    match (number(1), number(2)) {
        (Some(conns), Some(exchanges)) => {
            let exchanges = 0..exchanges;
            if std::env::args().nth(3).is_some_and(|name| name == "smoltcp") {
                let mut pair = smol::Pair::new(conns);
                exchanges.for_each(|_: usize| pair.exchange());
            } else {
                let mut pair = Pair::new(conns);
                exchanges.for_each(|_| pair.exchange());
            }
        }
        _ => {
            benches();
            Criterion::default().configure_from_args().final_summary();
        }
    }
}
