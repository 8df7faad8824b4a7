//! Time of one push and assign in each policy, with 64 tasks queued.
//!
//! `cargo bench -p sched --bench dispatch`. Claim: `fcfs` and `strict` take at most
//! 30 ns.

use criterion::{Criterion, criterion_group, criterion_main};
use queueing::{Label, Priority, Time};
use sched::dispatch::{IdleWorkers, POLICIES, Params, Task, WorkerSet};

fn push_and_assign(c: &mut Criterion) {
    let mut group = c.benchmark_group("dispatch/push+assign");
    let task = |token: u64| Task {
        token,
        label: Label::new(Priority::new((token % 8) as u8).unwrap_or_default()),
        kind: None,
    };
    let idle = IdleWorkers { accepting: [WorkerSet::first(4); Priority::LEVELS] };
    for entry in POLICIES {
        let mut policy = (entry.new)(&Params::new(4, 1024));
        (0..64).for_each(|token| policy.push(Time::ZERO, task(token)).expect("the queue is not full"));
        let mut token = 0;
        group.bench_function(entry.name, |b| {
            b.iter(|| {
                token += 1;
                policy.push(Time::ZERO, task(token)).expect("the queue is not full");
                policy.assign(Time::ZERO, &idle)
            });
        });
    }
}

criterion_group!(benches, push_and_assign);
criterion_main!(benches);
