//! Body of a fuzz target: arbitrary words in the memory that the kernel's half writes.
//!
//! Properties: no panic; figures never decrease; no more threads wait and run than exist; only managed
//! cores are kicked; assignments equal the decisions.

use std::cell::RefCell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use queueing::{CoreId, Span, Time};
use sched::cores::{Action, CoreAssignment, Signals, TaskId, TaskSpec, Topology};

use super::assignments::Grants;
use super::shared_layout::{CORES, Core, Kick, State, THREADS, Task, Thread};
use super::threads::{Threads, take_slot};
use super::{Figures, Kernel};
use crate::fuzz::input::Input;

const MANAGED: [CoreId; 3] = [CoreId(0), CoreId(2), CoreId(255)];
const NUMBERS: [u32; 3] = [0, 2, 255];

/// A kernel half whose words come from the input.
struct Made {
    cores: Vec<Core>,
    tasks: Vec<Task>,
    threads: Vec<Thread>,
    state: State,
    kicked: RefCell<Vec<u32>>,
}

impl Kernel for Made {
    fn cores(&self) -> &[Core] {
        &self.cores
    }

    fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn state(&self) -> &State {
        &self.state
    }

    fn kick(&self, kick: &Kick) -> io::Result<()> {
        let words = kick.arguments();
        let bit = |core: &u32| words[*core as usize / 8] >> (core % 8) & 1 == 1;
        self.kicked.borrow_mut().extend((0..CORES as u32).filter(bit));
        Ok(())
    }

    fn is_member(&self, _thread: u32) -> io::Result<bool> {
        Ok(false)
    }

    fn join(&self, _thread: u32, _task: TaskId, _place: Option<usize>) -> io::Result<()> {
        Ok(())
    }
}

/// Writes words, and runs the manager's half on them: observe, decide, kick.
pub(crate) fn words(data: &[u8]) {
    let specs = vec![TaskSpec::critical(1), TaskSpec::best_effort()];
    let topology = Topology::regular(1, MANAGED.len(), 1).expect("a machine of three cores");
    let board = CoreAssignment::new(topology, specs).expect("two tasks");
    let mut world = World {
        kernel: Made {
            cores: (0..CORES).map(|_| Core::default()).collect(),
            tasks: (0..2).map(|_| Task::default()).collect(),
            threads: (0..THREADS).map(|_| Thread::default()).collect(),
            state: State::default(),
            kicked: RefCell::default(),
        },
        grants: Grants::new(&MANAGED, Span::from_micros(100), Time::ZERO),
        threads: Threads::new(2),
        figures: vec![Figures::default(); 2],
        signals: Signals::of(&board),
        now: Time::ZERO,
    };
    let mut input = Input(data);
    for _ in 0..500 {
        if world.step(&mut input).is_none() {
            return;
        }
        world.check();
    }
}

struct World {
    kernel: Made,
    grants: Grants,
    threads: Threads,
    figures: Vec<Figures>,
    signals: Signals,
    now: Time,
}

impl World {
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.below(10)? {
            0 => {
                let core = &self.kernel.cores[NUMBERS[input.below(3)?] as usize];
                let word = [&core.seen, &core.runs, &core.since_ns, &core.stale][input.below(4)?];
                word.store(value(input)?, Relaxed);
            }
            1 | 2 => {
                let thread = &self.kernel.threads[input.below(4)?];
                let words = [
                    &thread.owner,
                    &thread.task,
                    &thread.waits_ns,
                    &thread.runs_ns,
                    &thread.ran_ns,
                    &thread.waited_ns,
                    &thread.turns,
                    &thread.slept_ns,
                ];
                words[input.below(8)?].store(value(input)?, Relaxed);
            }
            3 => {
                let (thread, task) = (u32::from(input.byte()? % 8), TaskId(u16::from(input.byte()? % 2)));
                if let Some(slot) = take_slot(&self.kernel.threads, thread, task) {
                    assert_eq!(self.kernel.threads[slot].owner(), Some(thread));
                }
                self.threads.find(&self.kernel.threads);
            }
            4 => {
                self.kernel.state.kind.store(value(input)?, Relaxed);
                let byte = input.byte()?;
                self.kernel.state.reason.iter().for_each(|at| at.store(byte, Relaxed));
                assert_eq!(self.kernel.state.why().is_some(), self.kernel.state.kind.load(Relaxed) != 0);
            }
            5 => self.decide(input)?,
            6 => {
                let before = self.figures.clone();
                self.threads.sample(self.now, &self.kernel.threads, &mut self.figures);
                for (before, after) in before.iter().zip(&self.figures) {
                    assert!(
                        before.ran_ns <= after.ran_ns && before.waited_ns <= after.waited_ns,
                        "{after:?}"
                    );
                    assert!(before.turns <= after.turns && before.longest <= after.longest, "{after:?}");
                }
            }
            7 => {
                let (cores, threads) = (&self.kernel.cores, &self.threads);
                self.grants.give_back(self.now, cores, threads, &mut self.signals);
            }
            8 => self.grants.kick_stale(self.now, &self.kernel, &self.threads),
            _ => self.now += Span::from_micros(u64::from(input.u16()?)),
        }
        Some(())
    }

    fn decide(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (core, task) = (CoreId(input.below(3)? as u16), TaskId(u16::from(input.byte()? % 2)));
        let action = match input.below(5)? {
            0 => Action::Run { core, task, keep: false },
            1 => Action::Run { core, task, keep: true },
            2 => Action::Idle { core },
            3 => Action::Share { core },
            _ => {
                self.grants.lend(self.now, task, |task| task == TaskId(0));
                return Some(());
            }
        };
        self.grants.note(self.now, action);
        self.grants.write(self.now, &self.kernel, 2);
        if let Action::Run { task, .. } = action {
            assert!(self.grants.has_any(task), "{action:?}");
        }
        Some(())
    }

    fn check(&self) {
        let used = self.kernel.threads.iter().filter(|thread| thread.owner().is_some()).count();
        let seen: u32 = (0..2).map(|task| self.threads.load(TaskId(task)).waiting).sum();
        assert!(seen as usize <= THREADS && used <= THREADS);
        let kicked = std::mem::take(&mut *self.kernel.kicked.borrow_mut());
        assert!(kicked.iter().all(|core| NUMBERS.contains(core)), "{kicked:?} were kicked");
        for (number, core) in NUMBERS.into_iter().zip(&self.kernel.cores) {
            let _ = (number, core.wanted().task(), core.seen().task(), core.runs(), core.since());
        }
    }
}

/// A word: small, large, or arbitrary.
fn value(input: &mut Input<'_>) -> Option<u64> {
    let byte = input.byte()?;
    Some(match byte % 8 {
        0..=3 => u64::from(byte / 8),
        4 => u64::MAX - u64::from(byte / 8),
        5 => u64::from(input.u16()?) << 32 | u64::from(byte / 8),
        6 => 1 << (byte / 8 * 2),
        _ => u64::from(input.u16()?) * 1000,
    })
}
