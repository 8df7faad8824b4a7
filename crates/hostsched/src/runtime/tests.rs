//! Signals from a seed over synthetic signal pages: two real processes stand for the tasks, their
//! workers are words in memory.

//~ sched: workers of the runtime are parked and resumed by their signals; none is parked for good

use queueing::{Clock, CoreId};
use sched::cores::worker_signals::WorkerSignals;
use sched::cores::{Allocator, Settings, TaskSpec, by_name};

use super::super::tests::Program as Spinner;
use super::super::{Journal, Layout, NullSensor, TaskSelector, TaskSetup};
use super::*;
use host::{Monotonic, affinity};

const LC: TaskId = TaskId(0);
const BE: TaskId = TaskId(1);
const PERIOD: Span = Span::from_micros(50);
const CALM: Span = Span::from_micros(100);

/// LC with a guarantee of one core and BE, each with a signal page of three workers, under a policy.
struct Rig {
    runtime: Runtime,
    allocator: Allocator,
    begin: Time,
    _programs: [Spinner; 2],
}

impl Rig {
    fn new(test: &str, policy: &str) -> Self {
        let programs = [Spinner::start(), Spinner::start()];
        let cores = affinity::cores().unwrap();
        let layout = Layout::new(&cores).unwrap();
        let folder = std::env::temp_dir().join(format!("greenwave-runtime-{test}-{}", std::process::id()));
        let journal = Journal::begin(&folder, &cores).unwrap();
        let specs = [TaskSpec::critical(1), TaskSpec::best_effort()];
        let task = |n: usize| TaskSetup {
            spec: specs[n].clone(),
            selector: TaskSelector::Child(programs[n].id()),
            tail: None,
            queue_reports: Vec::new(),
            has_signal_page: true,
        };
        let tasks = vec![("lc".to_owned(), task(0)), ("be".to_owned(), task(1))];
        let board = sched::cores::CoreAssignment::new(layout.topology().clone(), specs.to_vec()).unwrap();
        let settings = Settings { period: PERIOD, ..Settings::default() };
        let policy = by_name(policy, &settings, &board).unwrap();
        let begin = Monotonic::new().now();
        let setup = Setup {
            layout,
            tasks,
            real_time: false,
            calm: CALM,
            period: PERIOD,
            sensor: Box::new(NullSensor),
            journal,
        };
        let mut runtime = Runtime::new(setup, begin).unwrap();
        for (pool, spinner) in runtime.pools.iter_mut().zip(&programs) {
            let process = spinner.id();
            let began = proc::began(process, process).unwrap();
            let page = SharedPage::named("made-up", 3).unwrap();
            pool.as_mut().unwrap().workers.add(Program { process, began, page });
        }
        Self { runtime, allocator: Allocator::new(policy, board), begin, _programs: programs }
    }

    fn at(&self, us: u64) -> Time {
        self.begin + Span::from_micros(us)
    }

    fn page(&self, task: TaskId) -> &SignalPage {
        self.runtime.pools[task.index()].as_ref().unwrap().workers.programs()[0].page()
    }

    /// Publishes that worker `n` of `task` has had a task waiting since `us`, or nothing to do.
    fn tells(&self, task: TaskId, n: usize, us: Option<u64>) {
        let tasks = us.map(|us| self.at(us));
        self.page(task).slots()[n].publish(&WorkerSignals {
            tasks,
            sleeping: tasks.is_none(),
            ..WorkerSignals::default()
        });
    }

    /// One round at `us`.
    fn round(&mut self, us: u64) {
        self.allocator.round(self.at(us), &mut self.runtime);
    }

    /// Parked workers of `task`; all do what is requested.
    fn parked(&self, task: TaskId) -> Vec<bool> {
        self.page(task).slots().iter().map(|lane| lane.park.acknowledge().is_some()).collect()
    }

    fn held(&self, task: TaskId) -> usize {
        usize::from(self.allocator.assignment().held(task))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let folder = self.runtime.base.taken.journal.path().parent().unwrap().to_owned();
        self.runtime.put_back().unwrap();
        let _ = std::fs::remove_dir(folder);
    }
}

#[test]
fn what_workers_tell_moves_cores_and_as_many_go_on_as_there_are() {
    let mut rig = Rig::new("moves", "caladan-top");
    let all = rig.allocator.assignment().topology().cores();
    (0..3).for_each(|n| rig.tells(BE, n, Some(0)));
    rig.round(50);
    let its = all.min(3);
    assert_eq!((rig.held(LC), rig.held(BE)), (0, its), "no other task wants cores");
    assert_eq!(rig.parked(BE).iter().filter(|parked| !**parked).count(), its);
    // Above its 10 µs; this needs no read of /proc.
    rig.tells(LC, 1, Some(80));
    rig.round(100);
    assert_eq!((rig.held(LC), rig.held(BE)), (1, its.min(all - 1)));
    assert_eq!(rig.parked(LC), [false; 3], "who goes on and who has nothing to do");
    // With one core, LC has all of them, and BE runs beneath it.
    let go_on = if all == 1 { 1 } else { its.min(all - 1) };
    assert_eq!(rig.parked(BE).iter().filter(|parked| !**parked).count(), go_on);
    // After enough time without work the core goes back to BE.
    rig.tells(LC, 1, None);
    rig.round(150);
    assert_eq!(rig.held(LC), 1);
    rig.round(250);
    assert_eq!((rig.held(LC), rig.held(BE)), (0, its));
}

#[test]
fn lc_with_more_workers_than_cores_takes_turns_and_none_starves() {
    let mut rig = Rig::new("turns", "caladan-top");
    // BE holds no cores: LC gets what it requests, up to all of them.
    let mut went_on = [false; 3];
    (0..3).for_each(|n| rig.tells(LC, n, Some(0)));
    for round in 1..400 {
        rig.round(round * 50);
        let parked = rig.parked(LC);
        assert!(parked.iter().filter(|parked| !**parked).count() <= rig.held(LC).max(1));
        (0..3).for_each(|n| went_on[n] |= !parked[n]);
    }
    assert_eq!(went_on, [true; 3]);
}

#[test]
fn be_without_a_core_is_asked_first_and_frozen_if_it_still_computes() {
    let mut rig = Rig::new("frozen", "caladan-top");
    let leave_idle = |us: u64, rig: &mut Rig| {
        let now = rig.at(us);
        let mut signals = rig.allocator.signals().clone();
        rig.runtime.sense(now, &mut signals);
        let idle = rig.allocator.assignment().topology().all().map(|core| Action::Idle { core });
        rig.runtime.act(now, &idle.collect::<Vec<_>>());
    };
    let frozen = |rig: &Rig| rig.runtime.taken().of(BE).is_parked();
    let can_freeze = rig.runtime.can_park(BE);
    let begin = rig.begin;
    rig.tells(BE, 0, Some(0));
    leave_idle(50, &mut rig);
    assert!(!frozen(&rig), "it has just been asked to leave");
    assert!(!rig.runtime.is_parked(BE), "and has not answered");
    assert_eq!(rig.parked(BE), [true, false, false]);
    assert!(rig.runtime.is_parked(BE));
    leave_idle(5000, &mut rig);
    assert!(!frozen(&rig), "it has left its core");
    // A long poll goes on without its worker.
    rig.page(BE).slots()[0].publish(&WorkerSignals {
        tasks: Some(begin),
        long: 1,
        ..WorkerSignals::default()
    });
    leave_idle(5050, &mut rig);
    assert_eq!(frozen(&rig), can_freeze);
    let now = rig.at(5100);
    rig.runtime.act(now, &[Action::Run { core: CoreId(0), task: BE, keep: false }]);
    assert!(!frozen(&rig) && rig.parked(BE) == [false; 3]);
}

#[test]
fn the_core_of_a_long_request_is_known_by_linuxs_number() {
    let mut rig = Rig::new("request", "static");
    rig.round(50);
    let number = rig.runtime.taken().layout.cores()[0];
    let (request, core) = (Some(rig.at(60)), Some(number));
    rig.page(LC).slots()[2].publish(&WorkerSignals { request, core, ..WorkerSignals::default() });
    rig.round(100);
    let cores = &rig.allocator.signals().cores;
    assert_eq!(cores[0].request_since, request);
    assert!(cores[1..].iter().all(|core| core.request_since.is_none()));
}

#[test]
fn a_task_without_a_signal_page_is_sampled_and_each_sample_counts_once() {
    let mut rig = Rig::new("without", "static");
    for pool in rig.runtime.pools.iter_mut().flatten() {
        pool.workers.retain(|_| false);
    }
    assert_eq!(rig.runtime.workers(LC), None);
    let mut signals = rig.allocator.signals().clone();
    let first = rig.at(50);
    rig.runtime.sense(first, &mut signals);
    signals.tasks[0].delay = Span::from_micros(77);
    rig.runtime.sense(first + PERIOD, &mut signals);
    assert_eq!(signals.tasks[0].delay, Span::ZERO);
    assert_eq!(rig.runtime.looked, Some(first));
    rig.runtime.sense(first + SAMPLE_INTERVAL, &mut signals);
    assert_eq!(rig.runtime.looked, Some(first + SAMPLE_INTERVAL));
}
