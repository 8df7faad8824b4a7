//! Costs of queueing operations: event queue, timers, histogram.
//!
//! `cargo bench -p queueing --bench queue`. Claim: a push and a pop of the event
//! queue together take at most 30 ns.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use queueing::{
    Discipline, Drr, DrrConfig, Edf, Entry, Fifo, Histogram, Label, Priority, PushResult, Rng, Span, Strict,
    Time, TimerWheel,
};

/// Entry of 32 bytes, the size of an event.
#[derive(Clone, Copy)]
struct Event {
    token: u64,
    label: Label,
}

const _: () = assert!(size_of::<Event>() == 32);

impl Entry for Event {
    fn label(&self) -> Label {
        self.label
    }
}

fn event(token: u64) -> Event {
    Event { token, label: Label::new(Priority::new((token % 8) as u8).expect("a level")) }
}

/// Pushes an event and pops one, with `waiting` others queued.
fn push_pop(c: &mut Criterion, name: &str, waiting: u64, mut queue: impl Discipline<Event>) {
    for token in 0..waiting {
        assert!(matches!(queue.push(Time::ZERO, event(token)), PushResult::Queued), "the queue is full");
    }
    let events: Vec<Event> = (0..64).map(|n| event(n * 5)).collect();
    let mut at = 0;
    c.bench_with_input(BenchmarkId::new(format!("{name} push+pop"), waiting), &waiting, |b, _| {
        b.iter(|| {
            at = (at + 1) % events.len();
            let now = Time::from_nanos(at as u64);
            let _ = black_box(queue.push(now, black_box(events[at])));
            queue.pop(now).map(|event| event.token)
        });
    });
}

fn event_queue(c: &mut Criterion) {
    let capacity = 1_024;
    for waiting in [1, 1_000] {
        push_pop(c, "strict over fifo", waiting, Strict::new(capacity, |_| Fifo::new(capacity)));
        push_pop(c, "fifo", waiting, Fifo::new(capacity));
        push_pop(
            c,
            "drr",
            waiting,
            Drr::new(capacity, DrrConfig::by_count([8, 7, 6, 5, 4, 3, 2, 1], Span::MAX), |_| {
                Fifo::new(capacity)
            }),
        );
        push_pop(c, "edf", waiting, Edf::new(capacity, Span::from_millis(1)));
    }
}

fn timers(c: &mut Criterion) {
    for waiting in [1, 100_000] {
        let mut wheel = TimerWheel::new();
        let mut rng = Rng::seeded(1);
        for item in 0..waiting {
            wheel.insert(Time::from_nanos(rng.below(10_000_000_000)), item);
        }
        c.bench_with_input(BenchmarkId::new("timer insert+cancel", waiting), &waiting, |b, &waiting| {
            b.iter(|| {
                let key = wheel.insert(black_box(Time::from_nanos(5_000_000)), waiting);
                wheel.cancel(black_box(key))
            });
        });
        let mut now = Time::ZERO;
        c.bench_with_input(BenchmarkId::new("timer insert+expire", waiting), &waiting, |b, &waiting| {
            b.iter(|| {
                wheel.insert(now + Span::from_millis(5), waiting);
                now += Span::from_micros(2);
                wheel.expire(now)
            });
        });
    }
}

fn histogram(c: &mut Criterion) {
    let mut rng = Rng::seeded(1);
    let spans: Vec<Span> = (0..1_024).map(|_| Span::from_nanos(rng.below(1_000_000))).collect();
    let mut histogram = Histogram::new();
    let mut at = 0;
    c.bench_function("histogram record", |b| {
        b.iter(|| {
            at = (at + 1) % spans.len();
            histogram.record(spans[at]);
        });
    });
}

criterion_group!(benches, event_queue, timers, histogram);
criterion_main!(benches);
