//! Latency of a core handoff: by the kernel's scheduler alone, and by each mechanism.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use host::sched_policy::SchedPolicy;
use host::signal_page::SharedPage;
use host::{Monotonic, affinity, signals};
use hostsched::handoff_latency::Page;
use hostsched::{
    Journal, Layout, Manager, Mechanism, NullSensor, Setup, TaskSelector, TaskSetup, cpulist, scx,
};
use netlab::TempDir;
use queueing::{Clock, CoreId, Span, Time};
use rustix::process::Pid;
use rustix::thread::sched_setaffinity;
use sched::cores::worker_signals::{SignalMemory as _, WorkerSlot};
use sched::cores::{Action, Allocator, CoreAssignment, Settings, TaskId, TaskSpec, by_name};

use super::{Bounds, Operation, Part, Samples};
use crate::Error;

const LC: TaskId = TaskId(0);
const BE: TaskId = TaskId(1);
const BEGIN_LOOKS: usize = 2;
/// Pause between measurements, in which a woken process goes back to sleep.
const PAUSE: Duration = Duration::from_micros(200);
/// Number of checks, each after a pause, for BE's arrival on its new core; without arrival a try
/// has no sample.
const ARRIVES: usize = 50;
/// Maximum time for a parked BE to get the core again; otherwise a try has no sample.
const SETTLES: Span = Span::from_secs(1);

/// Runs the process `part` until the benchmark ends.
///
/// # Errors
/// The part or the page does not exist.
pub fn part(part: &str, page: &Path) -> Result<(), Error> {
    let page = Page::open(page).map_err(|e| Error::file(page, &e))?;
    match part {
        "lc" => page.latency_critical(),
        "be" => page.best_effort(),
        _ => return Err(Error::new(format!("part {part:?} is not one of lc, be"))),
    }
    Ok(())
}

/// A manager that undoes its changes on every path: a frozen process cannot be ended.
struct Managed {
    manager: Box<dyn Manager>,
    is_back: bool,
}

impl Managed {
    /// Undoes all changes.
    ///
    /// # Errors
    /// The kernel's error.
    fn end(mut self) -> Result<(), Error> {
        self.is_back = true;
        let back = self.manager.put_back();
        back.map(drop).map_err(|e| Error::new(format!("changes to tasks could not be undone: {e}")))
    }
}

impl Deref for Managed {
    type Target = dyn Manager;

    fn deref(&self) -> &Self::Target {
        &*self.manager
    }
}

impl DerefMut for Managed {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.manager
    }
}

impl Drop for Managed {
    fn drop(&mut self) {
        if !self.is_back {
            // An earlier error is reported instead.
            let _ = self.manager.put_back();
        }
    }
}

/// Shared page, processes, and a folder for journals; removed on drop.
struct Processes {
    page: Page,
    lc: Part,
    be: Part,
    folder: TempDir,
}

impl Processes {
    fn new() -> Result<Self, Error> {
        let folder = TempDir::new("bench-sched")?;
        let path = folder.path().join("page");
        let page = Page::open(&path).map_err(|e| Error::file(&path, &e))?;
        let (lc, be) = (Part::start("lc", Some(&path))?, Part::start("be", Some(&path))?);
        let processes = Self { page, lc, be, folder };
        // Each check times out after 10 s; on a busy machine a process is slow to start.
        match (0..BEGIN_LOOKS).find_map(|_| processes.page.beat_after(queueing::Time::ZERO)) {
            Some(_) => Ok(processes),
            None => {
                Err(Error::new("the computing process did not start within 20 s").advice("an idle machine"))
            }
        }
    }

    /// Manages both processes under a mechanism on `cores`.
    fn manager(&self, cores: &[CoreId], mechanism: Mechanism) -> Result<(Managed, Allocator), Error> {
        self.manager_of(&self.be, cores, mechanism)
    }

    /// Manages LC and `be` under a mechanism on `cores`; under `runtime`, `be` has a signal page.
    fn manager_of(
        &self,
        be: &Part,
        cores: &[CoreId],
        mechanism: Mechanism,
    ) -> Result<(Managed, Allocator), Error> {
        let journal =
            Journal::begin(self.folder.path(), cores).map_err(|e| Error::file(self.folder.path(), &e))?;
        let layout = Layout::new(cores).map_err(|e| Error::new(e.to_string()))?;
        let specs = [TaskSpec::critical(1), TaskSpec::best_effort()];
        let board = CoreAssignment::new(layout.topology().clone(), specs.to_vec())
            .map_err(|e| Error::new(e.to_string()))?;
        let policy =
            by_name("caladan", &Settings::default(), &board).map_err(|e| Error::new(e.to_string()))?;
        let setup = |spec: &TaskSpec, part: &Part| TaskSetup {
            spec: spec.clone(),
            selector: TaskSelector::Child(part.id()),
            tail: None,
            queue_reports: Vec::new(),
            has_signal_page: !spec.is_critical() && mechanism == Mechanism::Runtime,
        };
        let tasks =
            vec![("lc".to_owned(), setup(&specs[0], &self.lc)), ("be".to_owned(), setup(&specs[1], be))];
        let calm = Span::from_millis(20);
        let period = Settings::default().period;
        let setup =
            Setup { layout, tasks, real_time: true, calm, period, sensor: Box::new(NullSensor), journal };
        let manager = setup.take(mechanism, Monotonic::new().now())?;
        Ok((Managed { manager, is_back: false }, Allocator::new(policy, board)))
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.page.end();
    }
}

/// Pins the benchmark to one core, and restores its affinity to these cores on drop: the machine in
/// a report has all of them.
struct Pinned(Vec<CoreId>);

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &cpulist::set_of(self.0.iter().copied()));
    }
}

/// Measures every operation within `bounds` under each mechanism that works here; also returns the
/// reasons why others do not.
///
/// # Errors
/// Fewer than two cores, no permission to schedule processes, or ctrl-C. All changes are undone in
/// any case.
pub fn measure(bounds: Bounds) -> Result<(Vec<Operation>, Vec<String>), Error> {
    let ours = affinity::cores().map_err(|e| Error::new(format!("cannot read the allowed cores: {e}")))?;
    let (Some(&own), Some(&second)) = (ours.first(), ours.get(1)) else {
        return Err(Error::new("a handoff needs a second core").advice("a machine of 2 cores or more"));
    };
    let failed = |e: std::io::Error| Error::new(format!("scheduling the benchmark's processes: {e}"));
    affinity::pin(own).map_err(failed)?;
    let _pinned = Pinned(ours.clone());
    check_interrupt()?;
    let processes = Processes::new()?;
    let (mut found, mut without) = (Vec::new(), Vec::new());
    // By the kernel's scheduler alone.
    for part in [&processes.lc, &processes.be] {
        sched_setaffinity(Some(Pid::from_child(&part.0)), &cpulist::set_of([second]))
            .map_err(|e| failed(e.into()))?;
    }
    SchedPolicy::IDLE.set(Some(Pid::from_child(&processes.be.0))).map_err(failed)?;
    handoffs(&processes, bounds, ["bare preempt", "bare give back"], &mut found, || true);
    check_interrupt()?;
    // By the mechanism, with a round before each.
    let clock = Monotonic::new();
    let (mut manager, mut allocator) = processes.manager(&[second], Mechanism::Affinity)?;
    handoffs(&processes, bounds, ["preempt", "give back"], &mut found, || {
        // A round may park BE because LC waited; repeats rounds until BE has the core again.
        let start = clock.now();
        loop {
            allocator.round(clock.now(), &mut *manager);
            if !manager.is_parked(BE) || signals::is_set() || clock.now().since(start) > SETTLES {
                return !manager.is_parked(BE);
            }
            std::thread::sleep(PAUSE);
        }
    });
    check_interrupt()?;
    let (run, idle) = (run(0, BE), Action::Idle { core: CoreId(0) });
    if manager.can_park(BE) {
        let [mut park, mut go_on, mut wake] = [(); 3].map(|()| Samples::default());
        for _ in bounds.tries() {
            manager.act(clock.now(), &[run]);
            std::thread::sleep(PAUSE);
            let start = clock.now();
            manager.act(start, &[idle]);
            std::thread::sleep(PAUSE);
            park.add(parked(&processes, start));
            wake.add(processes.page.wake(false).map(|(woken, _)| woken));
            std::thread::sleep(PAUSE);
            let start = clock.now();
            manager.act(start, &[run]);
            go_on.add(processes.page.beat_after(start).map(|beat| beat.since(start)));
        }
        found.push(Operation { name: "wake", what: "decision → LC runs on an idle core", samples: wake });
        found.push(Operation { name: "park", what: "decision → BE's last instruction", samples: park });
        found.push(Operation { name: "resume", what: "decision → BE's next instruction", samples: go_on });
    } else {
        without.push("wake, park, resume: no cgroup freezer is mounted".to_owned());
    }
    manager.end()?;
    check_interrupt()?;
    found.push(migrate(&processes, bounds, [own, second], Mechanism::Affinity)?);
    in_runtime(&processes, bounds, second, &mut found)?;
    if let Err(e) = scx::check() {
        without.push(e.to_string());
        return Ok((found, without));
    }
    in_kernel(&processes, bounds, second, &mut found)?;
    // The benchmark itself would keep BE off its core there.
    if let Some(&third) = ours.get(2) {
        found.push(migrate(&processes, bounds, [second, third], Mechanism::Scx)?);
    }
    Ok((found, without))
}

/// Returns an error after ctrl-C.
fn check_interrupt() -> Result<(), Error> {
    if signals::is_set() { Err(Error::interrupted("")) } else { Ok(()) }
}

/// Time to BE's last instruction after it was parked at `start`; none if BE did not have the core.
fn parked(processes: &Processes, start: Time) -> Option<Span> {
    let last = processes.page.last_beat();
    (last > start).then(|| last.since(start))
}

/// `task` runs on the managed core with index `core`.
fn run(core: usize, task: TaskId) -> Action {
    Action::Run { core: CoreId(core as u16), task, keep: false }
}

/// A worker of a program on greenwave's runtime, parked and woken through its signal page.
fn in_runtime(
    processes: &Processes,
    bounds: Bounds,
    core: CoreId,
    found: &mut Vec<Operation>,
) -> Result<(), Error> {
    let clock = Monotonic::new();
    // The BE process would share the core with it, since both are in the idle class.
    let _stopped = processes.be.stopped()?;
    // Moved before it starts workers, which inherit its affinity.
    let part = Part::start("tasks", None)?;
    let failed = |e: rustix::io::Errno| Error::new(format!("scheduling the benchmark's processes: {e}"));
    sched_setaffinity(Some(Pid::from_child(&part.0)), &cpulist::set_of([core])).map_err(failed)?;
    // Waits until it computes; fails after a time far beyond normal.
    let within = |done: &mut dyn FnMut() -> bool| {
        let since = clock.now();
        while !done() {
            check_interrupt()?;
            if clock.now().since(since) > Span::from_secs(20) {
                return Err(Error::new("the process with tasks made no progress within 20 s")
                    .advice("an idle machine"));
            }
            std::hint::spin_loop();
        }
        Ok(clock.now())
    };
    let mut page = None;
    within(&mut || {
        page = page.take().or_else(|| SharedPage::of_process(part.id()).ok());
        page.as_ref()
            .is_some_and(|page| page.page().slots().iter().any(|lane| report_after(lane, Time::ZERO)))
    })?;
    let Some(page) = page else { return Ok(()) };
    let lanes = page.page().slots();
    let (mut manager, allocator) = processes.manager_of(&part, &[core], Mechanism::Runtime)?;
    let (mut signals, mut park, mut wake) =
        (allocator.signals().clone(), Samples::default(), Samples::default());
    let idle = Action::Idle { core: CoreId(0) };
    for _ in bounds.tries() {
        manager.sense(clock.now(), &mut signals);
        let start = clock.now();
        manager.act(start, &[run(0, BE)]);
        let reported = within(&mut || lanes.iter().any(|lane| report_after(lane, start)))?;
        wake.add(Some(reported.since(start)));
        std::thread::sleep(PAUSE);
        manager.sense(clock.now(), &mut signals);
        let start = clock.now();
        manager.act(start, &[idle]);
        let parked = within(&mut || lanes.iter().all(|lane| lane.park.is_done()))?;
        park.add(Some(parked.since(start)));
        std::thread::sleep(PAUSE);
    }
    for (name, what, samples) in [
        ("runtime resume", "decision → a parked worker's next iteration", wake),
        ("runtime park", "decision → all workers parked, iterations of 20 µs", park),
    ] {
        found.push(Operation { name, what, samples });
    }
    manager.end()
}

/// True if a task poll of `lane` began after `at`.
fn report_after(lane: &WorkerSlot, at: Time) -> bool {
    lane.read().is_some_and(|signals| signals.request.is_some_and(|since| since > at))
}

/// Both processes under the sched_ext scheduler, where a decision gives LC its core.
fn in_kernel(
    processes: &Processes,
    bounds: Bounds,
    core: CoreId,
    found: &mut Vec<Operation>,
) -> Result<(), Error> {
    let (clock, idle) = (Monotonic::new(), Action::Idle { core: CoreId(0) });
    let (mut manager, _) = processes.manager(&[core], Mechanism::Scx)?;
    let [mut preempt, mut go_on, mut park, mut wake] = [(); 4].map(|()| Samples::default());
    for _ in bounds.tries() {
        for (before, samples) in [(run(0, BE), &mut preempt), (idle, &mut wake)] {
            let start = clock.now();
            manager.act(start, &[run(0, BE)]);
            if before == idle {
                let computes = processes.page.beat_after(start).is_some();
                let start = clock.now();
                manager.act(start, &[idle]);
                std::thread::sleep(PAUSE);
                park.add(parked(processes, start).filter(|_| computes));
            }
            std::thread::sleep(PAUSE);
            let start = clock.now();
            manager.act(start, &[run(0, LC)]);
            let decided = clock.now().since(start);
            samples.add(processes.page.wake(false).map(|(woken, _)| decided + woken));
        }
        std::thread::sleep(PAUSE);
        let start = clock.now();
        manager.act(start, &[run(0, BE)]);
        go_on.add(processes.page.beat_after(start).map(|beat| beat.since(start)));
    }
    for (name, what, samples) in [
        ("scx preempt", "decision → LC runs, preempting BE", preempt),
        ("scx wake", "decision → LC runs on an idle core", wake),
        ("scx park", "decision → BE's last instruction", park),
        ("scx resume", "decision → BE's next instruction", go_on),
    ] {
        found.push(Operation { name, what, samples });
    }
    manager.end()
}

/// Wakes LC over BE, then lets BE resume; calls `before` first, which returns true if BE has the
/// core.
fn handoffs(
    processes: &Processes,
    bounds: Bounds,
    names: [&'static str; 2],
    found: &mut Vec<Operation>,
    mut before: impl FnMut() -> bool,
) {
    let (mut there, mut back) = (Samples::default(), Samples::default());
    for _ in bounds.tries() {
        std::thread::sleep(PAUSE);
        let (woken, resumed) = if before() { processes.page.wake(true).unzip() } else { (None, None) };
        there.add(woken);
        back.add(resumed);
    }
    found.push(Operation { name: names[0], what: "decision → LC runs, preempting BE", samples: there });
    found.push(Operation { name: names[1], what: "LC sleeps → BE runs", samples: back });
}

/// Moves BE to the other core and back.
fn migrate(
    processes: &Processes,
    bounds: Bounds,
    both: [CoreId; 2],
    mechanism: Mechanism,
) -> Result<Operation, Error> {
    let (clock, mut samples) = (Monotonic::new(), Samples::default());
    let (mut manager, _) = processes.manager(&both, mechanism)?;
    for turn in bounds.tries() {
        let to = turn as usize % 2;
        let from = 1 - to;
        let start = clock.now();
        manager.act(start, &[run(to, BE), run(from, LC)]);
        // BE may move to the benchmark's own core, and arrives there while the benchmark sleeps.
        let arrival = (0..ARRIVES).find_map(|_| {
            std::thread::sleep(PAUSE);
            let (core, since) = processes.page.core_and_time();
            (core == u32::from(both[to].0) && since > start).then(|| since.since(start))
        });
        samples.add(arrival);
    }
    manager.end()?;
    let name = if mechanism == Mechanism::Scx { "scx migrate" } else { "migrate" };
    Ok(Operation { name, what: "decision → BE runs on another core", samples })
}
