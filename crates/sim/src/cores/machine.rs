//! Simulated machine: logical cores, running tasks, and their interference.

use queueing::{CoreId, Rng, Span, Time};
use sched::cores::affinity;
use sched::cores::{TaskId, Topology};

use super::affinity::AffinityState;
use super::config::{Config, CoreMechanism, Costs, DramSensor, MachineConfig};
use super::external_arrivals::Served;
use super::logical_core::{LogicalCore, LogicalCoreState};
use super::memory::{self, Demand};
use super::task::{QUEUE_MAX, Request, TaskState};
use crate::Engine;

/// Event.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// Arrival of a request for that task.
    Arrive(usize),
    /// End of service, unless stale.
    Done { core: usize, generation: u32 },
    /// End of a context switch, unless stale.
    Switched { core: usize, generation: u32 },
    /// End of spinning, unless stale.
    Park { core: usize, generation: u32 },
    /// End of a BE time slice, unless stale.
    Slice { core: usize, generation: u32 },
    /// Check of phases and windows.
    Phases,
    /// Round of the policy.
    Round,
}

/// Relative changes of DRAM use or task speed below this are ignored.
const TOLERANCE: f64 = 0.01;
/// Window of the worst p99.9.
const WINDOW: Span = Span::from_millis(100);

/// Memory of a socket at the last equilibrium.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    /// Per task: running logical cores, weighted by sibling slowdown.
    weights: Vec<f64>,
    /// Per task: slowdown, and factor of its misses.
    dilation: Vec<f64>,
    misses: Vec<f64>,
    /// DRAM latency, relative to idle DRAM.
    pub latency: f64,
    /// Bytes moved at the last sample, and its time.
    pub bytes_moved: f64,
    pub sampled_at: Time,
}

/// Machine state.
pub(super) struct MachineState {
    pub engine: Engine<Event>,
    pub topology: Topology,
    pub logical_cores: Vec<LogicalCore>,
    pub tasks: Vec<TaskState>,
    pub sockets: Vec<Socket>,
    pub costs: Costs,
    machine: MachineConfig,
    pub from: Time,
    pub duration: Span,
    window_ends: Time,
    pub rounds: u64,
    pub actions: u64,
    /// THRESH_BW, where the sensor is a latency probe.
    pub bandwidth_max_probed: Option<f64>,
    /// State of the mechanism `affinity`, where it is used.
    pub affinity: Option<AffinityState>,
    demands: Vec<Demand>,
    weights: Vec<f64>,
    /// External requests: completed, and shed.
    pub ended: Vec<Served>,
    pub shed: Vec<u64>,
}

impl MachineState {
    pub fn new(config: &Config, topology: Topology) -> Self {
        let seed = Rng::seeded(config.seed);
        let tasks: Vec<TaskState> =
            config.tasks.iter().zip(0..).map(|(task, n)| TaskState::new(task, n, &seed)).collect();
        let socket = Socket {
            weights: vec![0.0; tasks.len()],
            dilation: vec![1.0; tasks.len()],
            misses: vec![1.0; tasks.len()],
            latency: 1.0,
            bytes_moved: 0.0,
            sampled_at: Time::ZERO,
        };
        let is_affinity = config.mechanism == CoreMechanism::Affinity;
        let affinity =
            is_affinity.then(|| AffinityState::new(topology.cores(), config.specs(), affinity::CALM));
        let mut machine = Self {
            affinity,
            bandwidth_max_probed: (config.sensor == DramSensor::Probe).then(|| config.bandwidth_max()),
            engine: Engine::new(),
            logical_cores: vec![LogicalCore::new(); topology.cores()],
            sockets: vec![socket; topology.sockets()],
            demands: Vec::with_capacity(tasks.len()),
            weights: vec![0.0; tasks.len()],
            tasks,
            topology,
            costs: config.costs,
            machine: config.machine.clone(),
            from: Time::ZERO + config.warmup,
            duration: config.duration,
            window_ends: Time::ZERO + config.warmup + WINDOW,
            rounds: 0,
            actions: 0,
            ended: Vec::new(),
            shed: Vec::new(),
        };
        machine.logical_cores.iter_mut().for_each(|core| core.shared = is_affinity);
        (0..machine.sockets.len()).for_each(|socket| machine.update_memory(Time::ZERO, socket, true));
        machine.engine.schedule(Time::ZERO, Event::Round);
        machine.engine.schedule(Time::ZERO, Event::Phases);
        (0..machine.tasks.len()).for_each(|task| machine.schedule_arrival(task));
        machine
    }

    fn schedule_arrival(&mut self, task: usize) {
        if let Some(at) = self.tasks[task].next_arrival() {
            self.engine.schedule(at, Event::Arrive(task));
        }
    }

    pub fn arrive(&mut self, now: Time, number: usize) {
        self.schedule_arrival(number);
        let task = &mut self.tasks[number];
        let service = task.service.expect("LC has a service time");
        let left_ns = service.sample(&mut task.rng).as_nanos() as f64;
        let request = Request { at: now, ready: now, left_ns, external: None };
        if let Some(core) = task.spinning.pop() {
            self.begin(now, core, request);
        } else if task.queue.len() == QUEUE_MAX {
            task.lost += u64::from(now >= self.from);
        } else {
            task.queue.push_back(request);
            self.wake(now, number);
        }
    }

    /// Starts a request on a spinning core.
    pub fn begin(&mut self, now: Time, core: usize, request: Request) {
        self.serve(now, core, request);
        self.on_core_changed(now, core);
    }

    pub fn done(&mut self, now: Time, core: usize, generation: u32) {
        if self.logical_cores[core].generation != generation {
            return;
        }
        self.account(now, core);
        let request = self.logical_cores[core].request.take().expect("a request was in service");
        let holder = self.logical_cores[core].holder.expect("a task served it");
        let (from, latency) = (self.from, now.since(request.at));
        let task = &mut self.tasks[holder.index()];
        task.serving -= 1;
        self.ended.extend(request.external);
        if request.at >= from {
            task.latency.record(latency);
            task.window.record(latency);
        }
        task.recent.record(latency);
        self.serve_next(now, core);
    }

    /// Serves the next request of the LC task on `core`, or spins.
    pub fn serve_next(&mut self, now: Time, core: usize) {
        let holder = self.logical_cores[core].holder.expect("the calling task has the core");
        let was = self.logical_cores[core].state;
        if let Some(request) = self.tasks[holder.index()].dequeue(now, &mut self.shed) {
            self.serve(now, core, request);
            if was != LogicalCoreState::Serving {
                self.on_core_changed(now, core);
            }
            return;
        }
        if self.logical_cores[core].shared {
            self.set_state(core, LogicalCoreState::Idle);
            return self.release(now, core);
        }
        self.set_state(core, LogicalCoreState::Spinning);
        self.tasks[holder.index()].spinning.push(core);
        if !self.logical_cores[core].keep {
            let generation = self.logical_cores[core].generation;
            self.engine.schedule(now + self.costs.spin, Event::Park { core, generation });
        }
        self.on_core_changed(now, core);
    }

    pub fn park(&mut self, now: Time, core: usize, generation: u32) {
        let logical_core = &mut self.logical_cores[core];
        if logical_core.generation != generation {
            return;
        }
        logical_core.yielded = logical_core.holder;
        self.preempt(now, core);
    }

    pub fn switched(&mut self, now: Time, core: usize, generation: u32) {
        let logical_core = &self.logical_cores[core];
        if logical_core.generation != generation {
            return;
        }
        let task = &mut self.tasks[logical_core.holder.expect("it was handed to a task").index()];
        if task.critical {
            task.waking -= usize::from(logical_core.shared);
            self.serve_next(now, core);
        } else {
            task.working += 1;
            self.set_state(core, LogicalCoreState::Working);
            self.on_core_changed(now, core);
            self.slice(now, core);
            // An LC thread that became ready during the switch preempts in the idle class.
            if self.logical_cores[core].shared {
                for task in 0..self.tasks.len() {
                    if self.tasks[task].critical && self.tasks[task].waiting() > 0 {
                        self.wake(now, task);
                    }
                }
            }
        }
    }

    /// Switches `core` to `task`, which runs there after `cost`.
    pub fn switch_to(&mut self, now: Time, core: usize, task: TaskId, keep: bool, cost: Span) {
        self.preempt(now, core);
        self.set_state(core, LogicalCoreState::Switching);
        let logical_core = &mut self.logical_cores[core];
        (logical_core.holder, logical_core.keep) = (Some(task), keep);
        let generation = logical_core.generation;
        self.engine.schedule(now + cost, Event::Switched { core, generation });
    }

    /// Preempts `core`; a request in service returns to the head of its queue.
    pub fn preempt(&mut self, now: Time, core: usize) {
        self.account(now, core);
        let logical_core = &mut self.logical_cores[core];
        let (was, holder, request) =
            (logical_core.state, logical_core.holder.take(), logical_core.request.take());
        let shared = logical_core.shared;
        self.set_state(core, LogicalCoreState::Idle);
        let Some(holder) = holder else { return };
        let task = &mut self.tasks[holder.index()];
        match was {
            LogicalCoreState::Idle => {}
            LogicalCoreState::Switching => task.waking -= usize::from(shared && task.critical),
            LogicalCoreState::Spinning => task.spinning.retain(|&other| other != core),
            LogicalCoreState::Working => task.working -= 1,
            LogicalCoreState::Serving => {
                task.serving -= 1;
                let request = request.expect("a request was in service");
                task.queue.push_front(Request { ready: now, ..request });
            }
        }
        if was == LogicalCoreState::Serving
            && let Some(other) = self.tasks[holder.index()].spinning.pop()
        {
            let request = self.tasks[holder.index()].queue.pop_front().expect("it was just pushed");
            self.serve(now, other, request);
            self.on_core_changed(now, other);
        }
        self.on_core_changed(now, core);
    }

    /// Changes the state of `core`; scheduled events become stale.
    fn set_state(&mut self, core: usize, state: LogicalCoreState) {
        let logical_core = &mut self.logical_cores[core];
        logical_core.state = state;
        logical_core.generation = logical_core.generation.wrapping_add(1);
    }

    fn serve(&mut self, now: Time, core: usize, request: Request) {
        self.record_wait(core, now.since(request.ready));
        self.account(now, core);
        self.set_state(core, LogicalCoreState::Serving);
        let logical_core = &mut self.logical_cores[core];
        (logical_core.request, logical_core.service_start) = (Some(request), now);
        self.tasks[logical_core.holder.expect("the serving task has the core").index()].serving += 1;
        self.update_speed(now, core);
    }

    /// Records that a request of the task on `core` waited for a core for `wait`, for the mechanism
    /// `affinity`.
    fn record_wait(&mut self, core: usize, wait: Span) {
        let Some(affinity) = &self.affinity else { return };
        let task = self.logical_cores[core].holder.expect("the serving task has the core").index();
        let sample = &mut self.tasks[task].sample;
        sample.delay = sample.delay.max(wait);
        sample.waiting += u32::from(wait > affinity.delay_max(task));
    }

    /// Accounts the work of `core` up to `now`.
    pub fn account(&mut self, now: Time, core: usize) {
        let logical_core = &mut self.logical_cores[core];
        let since = logical_core.accounted_until.max(self.from);
        let elapsed_ns = now.since(logical_core.accounted_until).as_nanos();
        let work_ns = logical_core.account(now);
        if work_ns > 0.0
            && let Some(holder) = logical_core.holder
        {
            let counted = now.since(since).as_nanos() as f64 / elapsed_ns as f64;
            let task = &mut self.tasks[holder.index()];
            task.sample.ran += Span::from_nanos(elapsed_ns);
            task.ran_ns += elapsed_ns as f64 * counted;
            task.work_ns += work_ns * counted;
            task.progress(work_ns);
        }
    }

    /// Slowdown of work on `core` by its siblings.
    fn sibling_slowdown(&self, core: usize, task: TaskId) -> f64 {
        let siblings = self.topology.siblings(CoreId(core as u16));
        let active = siblings.filter_map(|sibling| self.logical_cores[sibling.0 as usize].active());
        let pressure: f64 = active.map(|other| self.tasks[other.index()].needs().pressure).sum();
        1.0 + self.tasks[task.index()].needs().sensitivity * pressure
    }

    /// Sets the speed of `core` and reschedules the end of its request.
    fn update_speed(&mut self, now: Time, core: usize) {
        self.account(now, core);
        let Some(task) = self.logical_cores[core].active() else { return };
        let socket = &self.sockets[self.topology.socket(CoreId(core as u16))];
        let index = task.index();
        let longer = self.sibling_slowdown(core, task) * socket.dilation[index];
        let rate = self.tasks[index].needs().bandwidth_gb * socket.misses[index] / longer;
        let logical_core = &mut self.logical_cores[core];
        (logical_core.speed, logical_core.rate) = (1.0 / longer, rate);
        if let Some(request) = &logical_core.request {
            logical_core.generation = logical_core.generation.wrapping_add(1);
            let left = Span::from_nanos((request.left_ns * longer).ceil() as u64);
            let generation = logical_core.generation;
            self.engine.schedule(now + left, Event::Done { core, generation });
        }
    }

    /// Updates the siblings of `core` and its socket's memory after a change of state.
    pub fn on_core_changed(&mut self, now: Time, core: usize) {
        let id = CoreId(core as u16);
        for logical_core in 0..self.topology.lanes(self.topology.physical(id)).len() {
            let sibling = self.topology.lanes(self.topology.physical(id))[logical_core];
            self.update_speed(now, sibling.0 as usize);
        }
        self.update_memory(now, self.topology.socket(id), false);
    }

    /// Recomputes the equilibrium of a socket's memory if demand has changed enough, or if
    /// `anyway`.
    fn update_memory(&mut self, now: Time, number: usize, anyway: bool) {
        self.weights.fill(0.0);
        for &core in self.topology.on_socket(number) {
            if let Some(task) = self.logical_cores[core.0 as usize].active() {
                self.weights[task.index()] += 1.0 / self.sibling_slowdown(core.0 as usize, task);
            }
        }
        let socket = &mut self.sockets[number];
        let weight_changes = self.tasks.iter().zip(&self.weights).zip(&socket.weights);
        let changed: f64 = weight_changes
            .map(|((task, now), before)| (now - before).abs() * task.needs().bandwidth_gb)
            .sum();
        // A footprint comes and goes with its task, however little traffic that causes.
        let is_present = |weights: &[f64], task: usize| weights[task] > 0.0;
        let same_tasks = (0..self.tasks.len())
            .all(|task| is_present(&self.weights, task) == is_present(&socket.weights, task));
        if !anyway && same_tasks && changed < self.machine.bandwidth_gb * TOLERANCE {
            return;
        }
        socket.weights.copy_from_slice(&self.weights);
        let present = self.tasks.iter().zip(&self.weights).filter(|(task, w)| task.critical || **w > 0.0);
        let footprints: f64 = present.map(|(task, _)| task.needs().footprint.get() as f64).sum();
        let cached_share = memory::cached_share(self.machine.cache.get() as f64, footprints);
        self.demands.clear();
        self.demands.extend(self.tasks.iter().zip(&self.weights).map(|(task, weight)| Demand {
            bytes_per_s: task.needs().bandwidth_gb * 1e9 * weight,
            memory: task.needs().memory,
            misses: memory::misses(task.needs().misses, cached_share),
        }));
        let rise = self.machine.latency_rise;
        let used = memory::settle(&self.demands, self.machine.bandwidth_gb * 1e9, rise);
        let latency = memory::latency(used, rise);
        self.sockets[number].latency = latency;
        for task in 0..self.tasks.len() {
            let demand = self.demands[task];
            let dilation = demand.dilation(latency);
            let socket = &mut self.sockets[number];
            if !anyway && (dilation / socket.dilation[task] - 1.0).abs() < TOLERANCE {
                continue;
            }
            (socket.dilation[task], socket.misses[task]) = (dilation, demand.misses);
            for index in 0..self.topology.on_socket(number).len() {
                let core = self.topology.on_socket(number)[index].0 as usize;
                if self.logical_cores[core].active().is_some_and(|active| active.index() == task) {
                    self.update_speed(now, core);
                }
            }
        }
    }

    /// Advances phases and windows that have ended.
    pub fn phases(&mut self, now: Time) {
        (0..self.logical_cores.len()).for_each(|core| self.account(now, core));
        let mut advanced = false;
        self.tasks.iter_mut().for_each(|task| advanced |= task.advance_phase());
        if advanced {
            (0..self.logical_cores.len()).for_each(|core| self.update_speed(now, core));
            (0..self.sockets.len()).for_each(|socket| self.update_memory(now, socket, true));
        }
        if now >= self.window_ends {
            self.tasks.iter_mut().for_each(TaskState::end_window);
            self.window_ends = now + WINDOW;
        }
    }

    pub fn count_round(&mut self, now: Time, actions: usize) {
        if now >= self.from {
            self.rounds += 1;
            self.actions += actions as u64;
        }
    }
}
