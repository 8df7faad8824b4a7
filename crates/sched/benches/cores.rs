//! One control loop of each policy: sense, decide, act, with eight tasks.
//!
//! `cargo bench -p sched --bench cores`; the claim is that caladan takes at most
//! 2 µs on 24 cores. Four LC tasks live on half of the cores and four BE tasks on the rest;
//! in every round one core is given back and one queue has grown, so that there is
//! something to decide.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use queueing::{CoreId, Span, Time};
use sched::cores::{
    Action, Allocator, Board, Cores, POLICIES, Settings, Signals, TaskId, TaskSignals, TaskSpec, Topology,
};

/// Cores that do at once what they are told.
struct Machine {
    held: Vec<Option<TaskId>>,
    round: usize,
}

impl Cores for Machine {
    fn sense(&mut self, now: Time, signals: &mut Signals) {
        self.round += 1;
        for (n, task) in signals.tasks.iter_mut().enumerate() {
            let delay = Span::from_micros(if n == self.round % 8 { 12 } else { 2 });
            *task = TaskSignals { delay, runnable: if n < 4 { 2 } else { 64 }, tail: None };
        }
        let gives = self.round * 7 % self.held.len();
        for (n, core) in signals.cores.iter_mut().enumerate() {
            core.yielded = if n == gives { self.held[n].take() } else { None };
            core.request_since = self.held[n].map(|_| now - Span::from_micros(n as u64 % 50));
        }
        signals.bandwidth.fill(Some(20e9));
    }

    fn act(&mut self, _now: Time, actions: &[Action]) {
        for action in actions {
            match *action {
                Action::Run { core: CoreId(core), task, .. } => self.held[core as usize] = Some(task),
                Action::Idle { core: CoreId(core) } | Action::Share { core: CoreId(core) } => {
                    self.held[core as usize] = None;
                }
                Action::Sample { .. } => {}
            }
        }
    }
}

fn round(c: &mut Criterion) {
    let mut group = c.benchmark_group("cores/round");
    for cores in [24_usize, 96, 512] {
        for entry in POLICIES {
            let lc = TaskSpec {
                request_max: Some(Span::from_micros(40)),
                ..TaskSpec::critical((cores / 8 / 2) as u16)
            };
            let tasks = [vec![lc; 4], vec![TaskSpec::best_effort(); 4]].concat();
            let sockets = cores.div_ceil(64);
            let topology = Topology::regular(sockets, cores / 2 / sockets, 2);
            let board = Board::new(topology.expect("cores"), tasks).expect("tasks");
            let mut machine = Machine { held: vec![None; board.topology().cores()], round: 0 };
            let policy = (entry.new)(&Settings::default(), &board).expect("a policy for any board");
            let mut allocator = Allocator::new(policy, board);
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
