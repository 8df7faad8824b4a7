//! Cost of one request and one response of 64 bytes through two stacks and an in-memory link, for
//! greenwave and smoltcp. The cost of one side is half the result.
//!
//! With two numbers as arguments (connections, exchanges) the benchmark runs these without timing,
//! so that a profiler can count instructions. A third argument `smoltcp` selects that stack.

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
                // Warm-up: every connection once.
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
