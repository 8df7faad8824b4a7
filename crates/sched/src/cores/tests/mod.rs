//! Promises of every policy, over random machines, tasks and signals.

use proptest::prelude::*;

use super::*;

mod caladan;
mod condition;
mod others;
mod thresholds;

/// Machine of `(physical cores, lanes)` on one socket, its tasks, and the policy called `name`.
fn setup(
    name: &str,
    (physical, lanes): (usize, usize),
    tasks: &[TaskSpec],
) -> (CoreAssignment, Box<dyn Policy>) {
    let assignment =
        CoreAssignment::new(Topology::regular(1, physical, lanes).unwrap(), tasks.to_vec()).unwrap();
    let policy = by_name(name, &Settings::default(), &assignment).unwrap();
    (assignment, policy)
}

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_micros(us)
}

/// Signals with the runnable cores and the delay in µs of each task.
fn signals(assignment: &CoreAssignment, wants: &[(u32, u64)]) -> Signals {
    let mut signals = Signals::of(assignment);
    for (task, &(runnable, delay_us)) in signals.tasks.iter_mut().zip(wants) {
        *task = TaskSignals { runnable, delay: Span::from_micros(delay_us), ..TaskSignals::default() };
    }
    signals
}

/// State of each core as a letter: `a` is task 0, `.` free, `-` idled sibling, `*` shared.
fn shown(assignment: &CoreAssignment) -> String {
    let symbol = |core| match assignment.state(core) {
        CoreState::Granted(task) | CoreState::Reserved(task) => char::from(b'a' + task.0 as u8),
        CoreState::SiblingIdle(_) => '-',
        CoreState::Free => '.',
        CoreState::Shared => '*',
    };
    assignment.topology().all().map(symbol).collect()
}

/// One random round: signals of each task and core.
#[derive(Clone, Debug)]
struct Step {
    tasks: Vec<(u32, u64, Option<u64>, bool)>,
    cores: Vec<(bool, Option<u64>, u64)>,
    bandwidth_gb: u64,
}

#[derive(Clone, Debug)]
struct Scenario {
    /// Physical core and socket of each core.
    machine: Vec<(usize, usize)>,
    tasks: Vec<TaskSpec>,
    steps: Vec<Step>,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    // Sockets, and the lanes of each physical core: also single and mixed.
    let machine = (1_usize..3, proptest::collection::vec(1_usize..4, 1..7));
    let task = (any::<bool>(), 0_u16..5, 0_u16..6, proptest::option::of(10_u64..60));
    (machine, proptest::collection::vec(task, 1..6)).prop_flat_map(|((sockets, lanes), tasks)| {
        let mut machine = Vec::new();
        for physical in 0..lanes.len() {
            let socket = (physical * sockets / lanes.len()).min(physical);
            machine.extend(std::iter::repeat_n((physical, socket), lanes[physical]));
        }
        // At most as many guarantees as first lanes, for elfen.
        let mut left = lanes.len() as u16;
        let specs: Vec<TaskSpec> = tasks
            .into_iter()
            .map(|(critical, guaranteed, burstable, request_us)| {
                let guaranteed = if critical { guaranteed.min(left) } else { 0 };
                left -= guaranteed;
                TaskSpec {
                    class: if critical { Class::Critical } else { Class::BestEffort },
                    burstable: if guaranteed == 0 { burstable.max(1) } else { burstable },
                    request_max: request_us.map(Span::from_micros),
                    ..TaskSpec::critical(guaranteed)
                }
            })
            .collect();
        let task = (0_u32..8, 0_u64..40, proptest::option::of(1_u64..300), proptest::bool::weighted(0.1));
        let tasks = proptest::collection::vec(task, specs.len());
        let core = (proptest::bool::weighted(0.1), proptest::option::of(0_u64..100), 0_u64..1_000_000);
        let cores = proptest::collection::vec(core, machine.len());
        let step = (tasks, cores, 0_u64..50).prop_map(|(tasks, cores, bandwidth_gb)| Step {
            tasks,
            cores,
            bandwidth_gb,
        });
        (Just(machine), Just(specs), proptest::collection::vec(step, 1..40))
            .prop_map(|(machine, tasks, steps)| Scenario { machine, tasks, steps })
    })
}

/// Cores that act at once; `held` is their own record.
struct Script<'a> {
    step: &'a Step,
    held: Vec<Option<(TaskId, bool)>>,
    sampled: Vec<CoreId>,
    misses: u64,
    acted_twice: Option<CoreId>,
}

impl Cores for Script<'_> {
    fn sense(&mut self, now: Time, signals: &mut Signals) {
        for (seen, &(runnable, delay_us, tail_us, late)) in signals.tasks.iter_mut().zip(&self.step.tasks) {
            let delay = if runnable == 0 { Span::ZERO } else { Span::from_micros(delay_us) };
            *seen = TaskSignals {
                late,
                runnable,
                delay,
                tail: tail_us.map(Span::from_micros),
                ..TaskSignals::default()
            };
        }
        for (index, seen) in signals.cores.iter_mut().enumerate() {
            let (yields, ran_us, misses) = self.step.cores[index];
            let holder = self.held[index].filter(|&(_, keep)| yields && !keep).map(|(task, _)| task);
            if holder.is_some() {
                self.held[index] = None;
            }
            self.misses += misses;
            let sampled = self.sampled.contains(&CoreId(index as u16));
            *seen = CoreSignals {
                yielded: holder,
                request_since: ran_us.map(|us| now - Span::from_micros(us)),
                sample: sampled.then_some(Sample { misses: self.misses, at: now }),
            };
        }
        signals.bandwidth.fill(Some(self.step.bandwidth_gb as f64 * 1e9));
        self.sampled.clear();
    }

    fn act(&mut self, _now: Time, actions: &[Action]) {
        let mut acted = Vec::new();
        for &action in actions {
            let (core, held) = match action {
                Action::Run { core, task, keep } => (core, Some((task, keep))),
                Action::Idle { core } | Action::Share { core } => (core, None),
                Action::Sample { core } => {
                    self.sampled.push(core);
                    continue;
                }
            };
            if acted.contains(&core) {
                self.acted_twice = Some(core);
            }
            acted.push(core);
            self.held[core.0 as usize] = held;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    //~ cores: no core is assigned twice, and no guarantee is broken, under every policy
    #[test]
    fn no_core_is_given_twice_and_no_guarantee_is_broken(scenario in scenario()) {
        for entry in POLICIES {
            let topology = Topology::of(scenario.machine.clone()).unwrap();
            let assignment = CoreAssignment::new(topology, scenario.tasks.clone()).unwrap();
            let policy = (entry.new)(&Settings::default(), &assignment).unwrap();
            let promise = policy.promise();
            let mut allocator = Allocator::new(policy, assignment);
            let period = allocator.period();
            let mut held = vec![None; scenario.machine.len()];
            let mut sampled = Vec::new();
            let mut misses = 0;
            // Rounds in a row in which a task needed a core below its guarantee and got none.
            let mut denied = vec![0; scenario.tasks.len()];
            for (round, step) in scenario.steps.iter().enumerate() {
                let now = Time::ZERO + period * round as u64;
                let ran: Vec<u16> = allocator.assignment().ids().map(|t| allocator.assignment().running(t)).collect();
                let mut cores = Script { step, held: held.clone(), sampled, misses, acted_twice: None };
                allocator.round(now, &mut cores);
                let yielded: Vec<usize> = allocator.assignment().ids().map(|task| {
                    let yields = |index: &usize| {
                        step.cores[*index].0 && held[*index] == Some((task, false))
                    };
                    (0..scenario.machine.len()).filter(yields).count()
                }).collect();
                prop_assert_eq!(cores.acted_twice, None, "{}", entry.name);
                (held, sampled, misses) = (cores.held, cores.sampled, cores.misses);
                let assignment = allocator.assignment();
                for core in assignment.topology().all() {
                    let acted = held[core.0 as usize].map(|(task, _)| task);
                    prop_assert_eq!(assignment.state(core).running(), acted, "{} core {:?}", entry.name, core);
                }
                for task in assignment.ids() {
                    let (spec, index) = (assignment.spec(task), task.index());
                    let all = assignment.topology().all();
                    let counted = all.filter(|&core| assignment.state(core).task() == Some(task)).count();
                    prop_assert_eq!(counted, usize::from(assignment.held(task)), "{}", entry.name);
                    prop_assert!(assignment.held(task) <= spec.cores_max(), "{} exceeded cores_max", entry.name);
                    if !promise.guarantees {
                        continue;
                    }
                    // No task is preempted below its guarantee.
                    let kept = (usize::from(ran[index]) - yielded[index]).min(spec.guaranteed.into());
                    prop_assert!(usize::from(assignment.held(task)) >= kept, "{} left fewer than {:?} of the guaranteed cores to {:?}", entry.name, kept, task);
                    // A task that needs a core below it gets one in the second round at the latest.
                    let (runnable, delay_us, ..) = step.tasks[index];
                    let gained = usize::from(assignment.running(task)) + yielded[index] > ran[index].into();
                    let needs_core = spec.is_critical() && runnable > 0 && Span::from_micros(delay_us) > spec.delay_max
                        && assignment.running(task) < spec.guaranteed && !gained;
                    denied[index] = if needs_core { denied[index] + 1 } else { 0 };
                    prop_assert!(denied[index] < 2, "{} left {:?} below its guarantee", entry.name, task);
                }
            }
        }
    }

    //~ cores: a task with work gets a core within the stated bound
    #[test]
    fn no_task_with_work_starves_beyond_the_bound(
        scenario in scenario(),
        busy in proptest::collection::vec((1_u32..40, 0_u64..40), 6),
    ) {
        // All tasks always have work; at least one core is not guaranteed.
        let guaranteed: u16 = scenario.tasks.iter().map(|task| task.guaranteed).sum();
        prop_assume!(usize::from(guaranteed) < scenario.machine.len());
        for entry in POLICIES {
            let assignment = CoreAssignment::new(Topology::of(scenario.machine.clone()).unwrap(), scenario.tasks.clone()).unwrap();
            let settings = Settings { starve_max: Span::from_millis(1), slice: Span::from_micros(200), ..Settings::default() };
            let policy = (entry.new)(&settings, &assignment).unwrap();
            let Some(bound) = policy.promise().starvation else { continue };
            let mut allocator = Allocator::new(policy, assignment);
            let mut served = vec![Time::ZERO; scenario.tasks.len()];
            let step = Step {
                tasks: busy.iter().map(|&(runnable, delay_us)| (runnable, delay_us, None, false)).collect(),
                ..scenario.steps[0].clone()
            };
            let step = Step { cores: step.cores.iter().map(|&(_, ran, misses)| (false, ran, misses)).collect(), ..step };
            let (mut now, mut held) = (Time::ZERO, vec![None; scenario.machine.len()]);
            let (mut sampled, mut misses) = (Vec::new(), 0);
            while now < Time::ZERO + bound * 3 {
                let mut cores = Script { step: &step, held, sampled, misses, acted_twice: None };
                allocator.round(now, &mut cores);
                (held, sampled, misses) = (cores.held, cores.sampled, cores.misses);
                for task in allocator.assignment().ids() {
                    if allocator.assignment().running(task) > 0 {
                        served[task.index()] = now;
                    }
                    let waited = now.since(served[task.index()]);
                    prop_assert!(waited <= bound, "{}: {:?} waited {}", entry.name, task, waited);
                }
                now += allocator.period();
            }
        }
    }
}

//~ cores: impossible guarantees are refused with both numbers
#[test]
fn more_guarantees_than_cores_are_refused_with_both_numbers() {
    let assignment =
        |tasks: &[TaskSpec]| CoreAssignment::new(Topology::regular(1, 2, 2).unwrap(), tasks.to_vec());
    let error = assignment(&[TaskSpec::critical(3), TaskSpec::critical(2)]).unwrap_err().to_string();
    assert_eq!(error, "5 cores are guaranteed and 4 are there");
    let generous = TaskSpec { guaranteed: 1, ..TaskSpec::best_effort() };
    let error = assignment(&[generous]).unwrap_err().to_string();
    assert_eq!(error, "task 0: guaranteed cores of a BE task must be 0, not 1");
    assert!(assignment(&[]).is_err());
}

//~ cores: an unknown policy lists the known ones
#[test]
fn an_unknown_policy_lists_the_valid_ones() {
    let assignment =
        CoreAssignment::new(Topology::regular(1, 2, 2).unwrap(), vec![TaskSpec::best_effort()]).unwrap();
    let error = by_name("caldan", &Settings::default(), &assignment).err().unwrap().to_string();
    assert!(error.starts_with("policy \"caldan\" is not one of caladan, "), "{error}");
}

#[test]
fn odd_cores_single_hyperthreads_and_several_sockets_are_supported() {
    let odd = Topology::of([(0, 0), (0, 0), (1, 0), (2, 1), (2, 1)]).unwrap();
    assert_eq!((odd.cores(), odd.physical_cores(), odd.sockets()), (5, 3, 2));
    assert_eq!(odd.siblings(CoreId(2)).count(), 0);
    assert_eq!(odd.on_socket(1), [CoreId(3), CoreId(4)]);
    assert!(Topology::of([(1, 0)]).is_err(), "physical core 1 before 0");
    assert!(Topology::regular(1, 0, 2).is_err());
}

#[test]
fn changes_undone_within_a_round_cause_no_action() {
    let (mut assignment, mut actions) = (setup("linux", (1, 2), &[TaskSpec::critical(1)]).0, Vec::new());
    assignment.set(at(0), CoreId(0), CoreState::Granted(TaskId(0)));
    assignment.set(at(0), CoreId(0), CoreState::Free);
    assignment.actions(&mut actions);
    assert_eq!(actions, []);
    assignment.set(at(1), CoreId(0), CoreState::Granted(TaskId(0)));
    assignment.actions(&mut actions);
    assert_eq!(actions, [Action::Run { core: CoreId(0), task: TaskId(0), keep: false }]);
    // Yielded and granted again: the core is idle now and needs an action.
    assignment.yielded(at(2), CoreId(0), TaskId(0));
    assignment.set(at(2), CoreId(0), CoreState::Granted(TaskId(0)));
    assignment.actions(&mut actions);
    assert_eq!(actions.len(), 1);
}
