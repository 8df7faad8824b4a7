//! Cost of an enqueue and a dequeue with 10,000 entries, per order.
//! Targets are in docs/benchmarks.md.

use criterion::{Criterion, criterion_group, criterion_main};
use deadline::{DeadlineQueue, DequeueResult, EnqueueResult, ORDERS, QueueSettings, SHEDDINGS, Work};
use queueing::{Entry, Label, Rng, Span, Time};

struct Request {
    left: Span,
}

impl Entry for Request {
    fn label(&self) -> Label {
        Label { deadline: Some(self.left), ..Label::default() }
    }

    fn service(&self) -> Span {
        Span::from_micros(100)
    }
}

impl Work for Request {}

const WAITING: usize = 10_000;

fn push_and_pop(c: &mut Criterion) {
    let mut group = c.benchmark_group("deadline queue, push + pop, 10,000 waiting");
    for (name, order) in ORDERS {
        let shedding = SHEDDINGS[2].1;
        let mut queue = DeadlineQueue::new(QueueSettings {
            capacity: WAITING + 1,
            order,
            shedding,
            age_max: Span::from_secs(3_600),
        });
        let mut rng = Rng::seeded(7);
        let mut request = || Request { left: Span::from_millis(1_000 + rng.below(1_000)) };
        let mut now = Time::ZERO;
        for _ in 0..WAITING {
            assert!(matches!(queue.enqueue(now, request()), EnqueueResult::Queued));
        }
        group.bench_function(name, |b| {
            b.iter(|| {
                now += Span::from_nanos(100);
                assert!(matches!(queue.enqueue(now, request()), EnqueueResult::Queued));
                loop {
                    if let Some(DequeueResult::Serve(served)) = queue.dequeue(now) {
                        break served;
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, push_and_pop);
criterion_main!(benches);
