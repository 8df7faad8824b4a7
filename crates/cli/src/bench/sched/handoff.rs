//! A core from hand to hand: by hand, and by the mechanism.

use std::path::Path;
use std::time::Duration;

use host::cores::class::Class;
use host::cores::handoff::Page;
use host::cores::{Journal, Layout, Manager, Mechanism, Setup, TaskSetup, Unseen, Who, list, scx};
use host::pulse::SharedPage;
use host::{Monotonic, affinity};
use queueing::{Clock, CoreId, Histogram, Span, Time};
use rustix::process::Pid;
use rustix::thread::sched_setaffinity;
use sched::cores::pulse::{Board as _, Lane};
use sched::cores::{Action, Allocator, Board, Settings, TaskId, TaskSpec, by_name};

use super::{Operation, Part};
use crate::Error;

const LC: TaskId = TaskId(0);
const BE: TaskId = TaskId(1);
const BEGIN_LOOKS: usize = 2;
/// Between two measurements: whoever was woken sleeps again.
const PAUSE: Duration = Duration::from_micros(200);

/// Takes part as `part` until all is over.
///
/// # Errors
/// No such part, no such page.
pub fn part(part: &str, page: &Path) -> Result<(), Error> {
    let page = Page::open(page).map_err(|e| Error::file(page, &e))?;
    match part {
        "lc" => page.latency_critical(),
        "be" => page.best_effort(),
        _ => return Err(Error::new(format!("part {part:?} is none of lc, be"))),
    }
    Ok(())
}

/// A page, who takes part, and a folder for journals; gone with this.
struct Rig {
    page: Page,
    lc: Part,
    be: Part,
    folder: std::path::PathBuf,
}

impl Rig {
    fn new() -> Result<Self, Error> {
        let folder = std::env::temp_dir().join(format!("greenwave-bench-sched-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| Error::file(&folder, &e))?;
        let path = folder.join("page");
        let page = Page::open(&path).map_err(|e| Error::file(&path, &e))?;
        let (lc, be) = (Part::start("lc", Some(&path))?, Part::start("be", Some(&path))?);
        let rig = Self { page, lc, be, folder };
        // Each look gives up after 10 s; on a busy machine a process takes a while to begin.
        match (0..BEGIN_LOOKS).find_map(|_| rig.page.beat_after(queueing::Time::ZERO)) {
            Some(_) => Ok(rig),
            None => {
                Err(Error::new("the process that computes has not begun in 20 s")
                    .advice("a machine less busy"))
            }
        }
    }

    /// Both under a mechanism on `cores`.
    fn manager(
        &self,
        cores: &[CoreId],
        mechanism: Mechanism,
    ) -> Result<(Box<dyn Manager>, Allocator), Error> {
        self.manager_of(&self.be, cores, mechanism)
    }

    /// LC and `be` under a mechanism on `cores`; under `runtime`, `be` has a pulse.
    fn manager_of(
        &self,
        be: &Part,
        cores: &[CoreId],
        mechanism: Mechanism,
    ) -> Result<(Box<dyn Manager>, Allocator), Error> {
        let journal = Journal::begin(&self.folder, cores).map_err(|e| Error::file(&self.folder, &e))?;
        let layout = Layout::new(cores).map_err(|e| Error::new(e.to_string()))?;
        let specs = [TaskSpec::critical(1), TaskSpec::best_effort()];
        let board =
            Board::new(layout.topology().clone(), specs.to_vec()).map_err(|e| Error::new(e.to_string()))?;
        let policy =
            by_name("caladan", &Settings::default(), &board).map_err(|e| Error::new(e.to_string()))?;
        let setup = |spec: &TaskSpec, part: &Part| TaskSetup {
            spec: spec.clone(),
            who: Who::Child(part.id()),
            tail: None,
            pulse: !spec.is_critical() && mechanism == Mechanism::Runtime,
        };
        let tasks =
            vec![("lc".to_owned(), setup(&specs[0], &self.lc)), ("be".to_owned(), setup(&specs[1], be))];
        let calm = Span::from_millis(20);
        let period = Settings::default().period;
        let setup = Setup { layout, tasks, calm, period, sensor: Box::new(Unseen), journal };
        let manager = setup.take(mechanism, Monotonic::new().now())?;
        Ok((manager, Allocator::new(policy, board)))
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.page.end();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Measures every operation `count` times, under each mechanism that works here; and
/// why the one in the kernel is not among them, if so.
///
/// # Errors
/// Fewer than two cores; what keeps processes from being scheduled.
pub fn measure(count: u32) -> Result<(Vec<Operation>, Option<String>), Error> {
    let ours = affinity::cores().map_err(|e| Error::new(format!("which cores are ours: {e}")))?;
    let (Some(&own), Some(&theirs)) = (ours.first(), ours.get(1)) else {
        return Err(Error::new("one core has nobody to hand it over from another")
            .advice("a machine of 2 cores or more"));
    };
    let failed = |e: std::io::Error| Error::new(format!("scheduling our own processes: {e}"));
    affinity::pin(own).map_err(failed)?;
    let rig = Rig::new()?;
    let mut found = Vec::new();
    // By hand.
    for part in [&rig.lc, &rig.be] {
        sched_setaffinity(Some(Pid::from_child(&part.0)), &list::set_of([theirs]))
            .map_err(|e| failed(e.into()))?;
    }
    Class::IDLE.set(Some(Pid::from_child(&rig.be.0))).map_err(failed)?;
    handoffs(&rig, count, ["bare preempt", "bare give back"], &mut found, || {});
    // By the mechanism, with a round before each.
    let clock = Monotonic::new();
    let (mut manager, mut allocator) = rig.manager(&[theirs], Mechanism::Affinity)?;
    handoffs(&rig, count, ["preempt", "give back"], &mut found, || {
        allocator.round(clock.now(), &mut *manager);
    });
    let (run, idle) = (run(0, BE), Action::Idle { core: CoreId(0) });
    if manager.can_park(BE) {
        let (mut park, mut go_on, mut wake) = (Histogram::new(), Histogram::new(), Histogram::new());
        for _ in 0..count {
            manager.act(clock.now(), &[run]);
            std::thread::sleep(PAUSE);
            let start = clock.now();
            manager.act(start, &[idle]);
            std::thread::sleep(PAUSE);
            park.record(rig.page.last_beat().since(start));
            if let Some((woken, _)) = rig.page.wake(false) {
                wake.record(woken);
            }
            std::thread::sleep(PAUSE);
            let start = clock.now();
            manager.act(start, &[run]);
            if let Some(beat) = rig.page.beat_after(start) {
                go_on.record(beat.since(start));
            }
        }
        found.push(Operation { name: "wake", what: "decision to LC, on an idle core", spans: wake });
        found.push(Operation { name: "park", what: "decision to BE's last instruction", spans: park });
        found.push(Operation { name: "go on", what: "decision to BE's next instruction", spans: go_on });
    }
    put_back(&mut *manager)?;
    found.push(migrate(&rig, count, [own, theirs], Mechanism::Affinity)?);
    in_runtime(&rig, count, theirs, &mut found)?;
    if let Err(e) = scx::check() {
        return Ok((found, Some(e.to_string())));
    }
    in_kernel(&rig, count, theirs, &mut found)?;
    // Whoever measures would keep BE off its own core there.
    if let Some(&third) = ours.get(2) {
        found.push(migrate(&rig, count, [theirs, third], Mechanism::Scx)?);
    }
    Ok((found, None))
}

/// `task` on the managed core `core`.
fn run(core: usize, task: TaskId) -> Action {
    Action::Run { core: CoreId(core as u16), task, keep: false }
}

/// A worker of a program on our runtime, parked and woken by its word.
fn in_runtime(rig: &Rig, count: u32, core: CoreId, found: &mut Vec<Operation>) -> Result<(), Error> {
    let clock = Monotonic::new();
    // Off our core before it has workers, which are where it is.
    let part = Part::start("tasks", None)?;
    let failed = |e: rustix::io::Errno| Error::new(format!("scheduling our own processes: {e}"));
    sched_setaffinity(Some(Pid::from_child(&part.0)), &list::set_of([core])).map_err(failed)?;
    // It computes, or that has taken beyond all measure.
    let within = |done: &mut dyn FnMut() -> bool| {
        let since = clock.now();
        while !done() {
            if clock.now().since(since) > Span::from_secs(20) {
                return Err(Error::new("the process with tasks has done nothing in 20 s")
                    .advice("a machine less busy"));
            }
            std::hint::spin_loop();
        }
        Ok(clock.now())
    };
    let mut page = None;
    within(&mut || {
        page = page.take().or_else(|| SharedPage::of_process(part.id()).ok());
        page.as_ref().is_some_and(|page| page.page().lanes().iter().any(|lane| told_after(lane, Time::ZERO)))
    })?;
    let Some(page) = page else { return Ok(()) };
    let lanes = page.page().lanes();
    let (mut manager, allocator) = rig.manager_of(&part, &[core], Mechanism::Runtime)?;
    let (mut signals, mut park, mut wake) = (allocator.signals().clone(), Histogram::new(), Histogram::new());
    let idle = Action::Idle { core: CoreId(0) };
    for _ in 0..count {
        manager.sense(clock.now(), &mut signals);
        let start = clock.now();
        manager.act(start, &[run(0, BE)]);
        wake.record(within(&mut || lanes.iter().any(|lane| told_after(lane, start)))?.since(start));
        std::thread::sleep(PAUSE);
        manager.sense(clock.now(), &mut signals);
        let start = clock.now();
        manager.act(start, &[idle]);
        park.record(within(&mut || lanes.iter().all(|lane| lane.asked.is_done()))?.since(start));
        std::thread::sleep(PAUSE);
    }
    for (name, what, spans) in [
        ("runtime go on", "decision to a parked worker's next turn", wake),
        ("runtime park", "decision to all workers parked, turns of 20 µs", park),
    ] {
        found.push(Operation { name, what, spans });
    }
    put_back(&mut *manager)
}

/// Whether a turn of `lane` began after `at`.
fn told_after(lane: &Lane, at: Time) -> bool {
    lane.read().is_some_and(|pulse| pulse.request.is_some_and(|since| since > at))
}

/// Both by a scheduler in the kernel, where a decision gives LC its core.
fn in_kernel(rig: &Rig, count: u32, core: CoreId, found: &mut Vec<Operation>) -> Result<(), Error> {
    let (clock, idle) = (Monotonic::new(), Action::Idle { core: CoreId(0) });
    let (mut manager, _) = rig.manager(&[core], Mechanism::Scx)?;
    let [mut preempt, mut go_on, mut park, mut wake] = [(); 4].map(|()| Histogram::new());
    for _ in 0..count {
        for (before, spans) in [(run(0, BE), &mut preempt), (idle, &mut wake)] {
            let start = clock.now();
            manager.act(start, &[run(0, BE)]);
            if before == idle && rig.page.beat_after(start).is_some() {
                let start = clock.now();
                manager.act(start, &[idle]);
                std::thread::sleep(PAUSE);
                park.record(rig.page.last_beat().since(start));
            }
            std::thread::sleep(PAUSE);
            let start = clock.now();
            manager.act(start, &[run(0, LC)]);
            let decided = clock.now().since(start);
            if let Some((woken, _)) = rig.page.wake(false) {
                spans.record(decided + woken);
            }
        }
        std::thread::sleep(PAUSE);
        let start = clock.now();
        manager.act(start, &[run(0, BE)]);
        if let Some(beat) = rig.page.beat_after(start) {
            go_on.record(beat.since(start));
        }
    }
    for (name, what, spans) in [
        ("scx preempt", "decision to LC, over BE", preempt),
        ("scx wake", "decision to LC, on an idle core", wake),
        ("scx park", "decision to BE's last instruction", park),
        ("scx go on", "decision to BE's next instruction", go_on),
    ] {
        found.push(Operation { name, what, spans });
    }
    put_back(&mut *manager)
}

/// LC woken over BE, and BE after it, `count` times.
fn handoffs(
    rig: &Rig,
    count: u32,
    names: [&'static str; 2],
    found: &mut Vec<Operation>,
    mut before: impl FnMut(),
) {
    let (mut there, mut back) = (Histogram::new(), Histogram::new());
    for _ in 0..count {
        std::thread::sleep(PAUSE);
        before();
        if let Some((woken, resumed)) = rig.page.wake(true) {
            there.record(woken);
            back.record(resumed);
        }
    }
    found.push(Operation { name: names[0], what: "decision to LC, over BE", spans: there });
    found.push(Operation { name: names[1], what: "LC sleeps to BE", spans: back });
}

/// BE to the other core and back.
fn migrate(rig: &Rig, count: u32, both: [CoreId; 2], mechanism: Mechanism) -> Result<Operation, Error> {
    let (clock, mut spans) = (Monotonic::new(), Histogram::new());
    let (mut manager, _) = rig.manager(&both, mechanism)?;
    for turn in 0..count as usize {
        let (to, from) = (turn % 2, 1 - turn % 2);
        let start = clock.now();
        manager.act(start, &[run(to, BE), run(from, LC)]);
        // It may be our own core that it goes to.
        std::thread::sleep(PAUSE);
        let (core, since) = rig.page.place();
        if core == u32::from(both[to].0) && since > start {
            spans.record(since.since(start));
        }
    }
    put_back(&mut *manager)?;
    let name = if mechanism == Mechanism::Scx { "scx migrate" } else { "migrate" };
    Ok(Operation { name, what: "decision to BE on another core", spans })
}

fn put_back(manager: &mut dyn Manager) -> Result<(), Error> {
    manager.put_back().map(drop).map_err(|e| Error::new(format!("what was changed is not put back: {e}")))
}
