//! Two services and a best-effort task on four cores, with waits and CPU times as a mechanism reads them.

use super::super::{CoreAssignment, CoreSignals, Topology};
use super::*;

const SERVICE: TaskId = TaskId(0);
const OTHER: TaskId = TaskId(1);
const BATCH: TaskId = TaskId(2);
const CORES: usize = 4;

struct World {
    owners: CoreOwners,
    specs: Vec<TaskSpec>,
    signals: Signals,
    now: Time,
}

impl World {
    fn new(guaranteed: [u16; 2], is_exclusive: bool) -> Self {
        let critical = |cores| TaskSpec { delay_max: DELAY_MAX, ..TaskSpec::critical(cores) };
        let specs = vec![critical(guaranteed[0]), critical(guaranteed[1]), TaskSpec::best_effort()];
        let topology = Topology::regular(1, CORES, 1).expect("four cores");
        let assignment = CoreAssignment::new(topology, specs.clone()).expect("a valid assignment");
        let owners = CoreOwners::new(CORES, specs.len(), CALM, is_exclusive, Time::ZERO);
        Self { owners, specs, signals: Signals::of(&assignment), now: Time::ZERO }
    }

    /// A round in which the services ran for `ran_us` and their threads waited for at most `wait_us`.
    fn round(&mut self, ran_us: [u64; 2], wait_us: [u64; 2]) {
        self.now += PERIOD;
        self.signals.cores.fill(CoreSignals::default());
        for task in [SERVICE, OTHER] {
            let [ran, delay] = [ran_us, wait_us].map(|us| Span::from_micros(us[task.index()]));
            let sample = ThreadSample { delay, waiting: u32::from(delay > DELAY_MAX), active: 1, ran };
            self.owners.sense(self.now, task, &self.specs, sample, &mut self.signals);
        }
    }

    fn asks(&self, task: TaskId) -> bool {
        self.signals.task(task).needs_core(&self.specs[task.index()])
    }

    fn are_behind(&self) -> [bool; 2] {
        [SERVICE, OTHER].map(|task| self.owners.is_behind(self.now, task, &self.specs))
    }

    fn list(&self, task: TaskId) -> Option<String> {
        let mask = self.owners.mask(&self.specs, task)?;
        Some(mask.iter().map(|core| core.0.to_string()).collect())
    }

    fn run(&mut self, cores: &[u16], task: TaskId) {
        for &core in cores {
            self.owners.record(self.now, Action::Run { core: CoreId(core), task, keep: false });
        }
    }
}

//~ sched: a latency-critical task asks for no core when its waits are of its own making
#[test]
fn a_burst_that_fills_all_cores_asks_for_none() {
    for is_exclusive in [false, true] {
        let mut world = World::new([4, 0], is_exclusive);
        for _ in 0..3 {
            // Twelve requests of 2 ms on four cores.
            world.round([4 * 2000, 0], [2000, 0]);
            assert!(!world.asks(SERVICE), "BE cannot have caused that");
            assert!(!world.signals.task(SERVICE).is_overload, "a burst");
            world.round([0, 0], [0, 0]);
        }
        // The same wait while three quarters of the cores' time went elsewhere.
        world.round([2000, 0], [2000, 0]);
        assert!(world.asks(SERVICE));
    }
}

#[test]
fn waits_of_an_overloaded_service_are_no_work_for_a_policy_but_for_the_alarm() {
    let mut world = World::new([4, 0], false);
    for _ in 0..CALM.as_nanos() / PERIOD.as_nanos() {
        world.round([4 * 1900, 0], [5000, 0]);
    }
    let signals = world.signals.task(SERVICE);
    let spec = &world.specs[0];
    assert!(signals.waits_long(spec) && signals.is_overload && !signals.needs_core(spec));
}

#[test]
fn waits_behind_another_service_take_no_core_from_best_effort() {
    let mut world = World::new([0, 0], false);
    world.round([4000, 4000], [2000, 2000]);
    assert!(!world.asks(SERVICE) && !world.asks(OTHER));
    // Without the real-time class a guarantee is kept by cores of its own.
    let mut world = World::new([1, 0], true);
    world.round([500, 7500], [2000, 0]);
    assert!(world.asks(SERVICE));
}

//~ sched: guaranteed cores that their task leaves idle serve other latency-critical tasks
#[test]
fn a_service_beyond_its_guarantee_is_behind_only_while_one_within_waits() {
    let mut world = World::new([2, 1], false);
    for _ in 0..20 {
        world.round([1000, 6000], [0, 0]);
        assert_eq!(world.are_behind(), [false, false], "no thread waits");
    }
    world.round([1000, 6000], [1500, 0]);
    assert_eq!(world.are_behind(), [false, true]);
    let rounds = CALM.as_nanos() / PERIOD.as_nanos();
    for _ in 0..rounds {
        world.round([1000, 6000], [500, 0]);
    }
    assert_eq!(world.are_behind(), [false, false], "waits have been short for {CALM}");
    // A task that overloads itself is not helped at the cost of others.
    for _ in 0..3 * rounds {
        world.round([6000, 1000], [5000, 0]);
    }
    assert_eq!(world.are_behind(), [false, false]);
}

#[test]
fn real_time_services_may_use_each_others_cores_and_others_may_not() {
    for (is_exclusive, mask) in [(false, "0123"), (true, "23")] {
        let mut world = World::new([2, 1], is_exclusive);
        world.run(&[0, 1], SERVICE);
        world.run(&[2], BATCH);
        assert_eq!(world.list(OTHER).as_deref(), Some(mask));
        assert_eq!(world.list(BATCH).as_deref(), Some("2"));
    }
}

//~ sched: a best-effort task with a core for each active thread may move to cores that no task holds
#[test]
fn best_effort_moves_when_it_has_a_core_for_every_thread() {
    let mut world = World::new([1, 0], false);
    world.run(&[0], SERVICE);
    world.run(&[1], BATCH);
    for (active, mask) in [(2, "1"), (1, "123")] {
        let sample = ThreadSample { active, ..ThreadSample::default() };
        world.owners.sense(world.now, BATCH, &world.specs, sample, &mut world.signals);
        assert_eq!(world.list(BATCH).as_deref(), Some(mask), "{active} threads");
    }
}
