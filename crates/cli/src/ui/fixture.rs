//! Sample data of a server and a scheduler.

use queueing::{Histogram, Label, Priority, Span, Time};
use runtime::app::RequestAttributes as Of;
use runtime::shard::{RequestEnd, Side, Slow};

use super::metrics::{DEPTH, LEFT, OFFERED, SHED, WAIT};
use super::window::{Head, Live, MetricsSample, Spans};
use super::{Figure, Labels, Move, Owner};

/// `s` seconds after a start that is not 0.
pub fn at(s: f64) -> Time {
    Time::ZERO + Span::from_secs(1_000) + Span::from_secs_f64(s)
}

fn of(us: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::new();
    us.into_iter().for_each(|us| histogram.record(Span::from_micros(us)));
    histogram
}

/// A request of `level` in the second before `second`, the slower the later.
fn slow(second: u64, level: u8, end: RequestEnd) -> Slow {
    let wait = Span::from_millis(second * u64::from(level + 1));
    Slow {
        side: Side::Served,
        label: Label::new(Priority::new(level).expect("a level")),
        begun: at(second as f64 - 0.5),
        stages: [Span::from_micros(12), Span::from_nanos(400), wait, Span::from_micros(15), Span::ZERO],
        app: Span::from_micros(14),
        request: 80,
        response: 126,
        end,
        attributes: Of {
            method: "GET".to_owned(),
            path: "/<pay>/by-a-card-of-gold".to_owned(),
            parent: None,
        },
    }
}

/// A server that answers 1,000 requests each second for `seconds`: class 0
/// waits 1 to 100 µs for a worker, class 7 up to 100 times as long.
pub fn serve(seconds: u64) -> Live {
    let head = Head {
        command: "serve",
        about: "http on tap:gw0 port 80, mode learned".to_owned(),
        rate: "greenwave_responses_total",
    };
    let mut live = Live::new(head, at(0.0));
    let (urgent, other) = (of(1..=100), of((1..=100).map(|us| us * 100)));
    for second in 1..=seconds {
        let shard = || Labels::none().with("shard", 0);
        let guard = |class: u8| Labels::none().with("device", "tap:gw0").with("class", class);
        let figures = vec![
            Figure::new("greenwave_connections_total", shard(), second as f64 * 10.0),
            Figure::new("greenwave_responses_total", shard(), second as f64 * 1_000.0),
            Figure::new("greenwave_dropped_total", shard().with("reason", "late"), second as f64),
            Figure::new(DEPTH, shard().with("queue", "event"), 3.0),
            Figure::new("greenwave_connections", shard(), 8.0),
            Figure::new(OFFERED, guard(7), second as f64 * 20.0),
            Figure::new(SHED, guard(7).with("reason", "rate"), second as f64 * 5.0),
        ];
        let wait = |class: u8| Labels::none().with("class", class).with("stage", "event");
        let left = Labels::none().with("class", 0).with("hop", "worker");
        let spans = vec![
            Spans { name: WAIT, labels: wait(0), recorded: &urgent },
            Spans { name: WAIT, labels: wait(7), recorded: &other },
            Spans { name: LEFT, labels: left, recorded: &urgent },
        ];
        let slow = vec![slow(second, 7, RequestEnd::Answered), slow(second, 0, RequestEnd::Gone)];
        live.update(at(second as f64), MetricsSample { figures, spans, slow, ..MetricsSample::default() });
    }
    live
}

/// A scheduler of two tasks and two cores, of which the second was moved twice.
pub fn sched() -> Live {
    let head = Head {
        command: "sched",
        about: "policy caladan on cores 0-1, 2 tasks".to_owned(),
        rate: "greenwave_sched_reallocations_total",
    };
    let mut live = Live::new(head, at(0.0));
    let task = |name: &str, class: &str| Labels::none().with("task", name).with("class", class);
    for second in 1..=2_u8 {
        let figures = vec![
            Figure::new("greenwave_sched_cores", task("memcached", "LC"), 1.0),
            Figure::new("greenwave_sched_cores", task("<batch>", "BE"), 1.0),
            Figure::new("greenwave_sched_wait_seconds", task("memcached", "LC"), 12e-6),
            Figure::new("greenwave_sched_parked", task("<batch>", "BE"), 0.0),
            Figure::new("greenwave_sched_reallocations_total", Labels::none(), f64::from(second) * 2.0),
        ];
        let owner = |core, task: &str, since_s| Owner {
            core,
            task: Some(task.to_owned()),
            how: "runs".to_owned(),
            since_s,
        };
        let owners = vec![owner(0, "memcached", 0.5), owner(1, "<batch>", 1.75)];
        let moved = |at_s, from: &str, to: &str, why: &str| Move {
            at_s,
            core: 1,
            from: from.to_owned(),
            to: to.to_owned(),
            why: why.to_owned(),
        };
        let moves = match second {
            1 => Vec::new(),
            _ => vec![
                moved(1.5, "<batch>", "memcached", "waited 11.0 µs, above its limit"),
                moved(1.75, "memcached", "<batch>", "memcached returned it"),
            ],
        };
        live.update(at(second.into()), MetricsSample { figures, owners, moves, ..MetricsSample::default() });
    }
    live
}
