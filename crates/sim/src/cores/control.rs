//! Implementation of [`Cores`] by the simulated machine.
//!
//! Signals are exact and free: the scheduler has its own core and reads shared memory. Commands
//! cost [`Costs`](super::Costs).

use queueing::{Span, Time};
use sched::cores::affinity::LATENCY_MAX;
use sched::cores::{Action, Cores, Sample, Signals};

use super::logical_core::LogicalCoreState;
use super::machine::MachineState;

/// Minimum interval between reports of tail latency; over a shorter one it is meaningless.
const TAIL_EVERY: Span = Span::from_millis(1);

impl Cores for MachineState {
    fn sense(&mut self, now: Time, signals: &mut Signals) {
        if self.affinity.is_some() {
            self.sense_threads(now, signals);
            return self.sense_bandwidth(now, signals);
        }
        let since = self.sockets.first().map_or(Span::ZERO, |socket| now.since(socket.sampled_at));
        for (task, signal) in self.tasks.iter_mut().zip(&mut signals.tasks) {
            signal.delay = task.oldest().map_or(Span::ZERO, |oldest| now.since(oldest));
            signal.late = task.external.as_ref().is_some_and(|external| external.has_late_request());
            signal.runnable = if task.critical { task.waiting() as u32 + task.serving } else { task.threads };
            signal.idle = signal.runnable == 0;
            if task.critical && since >= TAIL_EVERY {
                // A long-waiting request belongs to the tail before it is answered.
                signal.tail = Some(task.recent.quantile(0.999).max(signal.delay));
                task.recent.clear();
            }
        }
        for core in 0..self.logical_cores.len() {
            self.account(now, core);
            let logical_core = &mut self.logical_cores[core];
            let signal = &mut signals.cores[core];
            signal.yielded = logical_core.yielded.take();
            signal.sample = logical_core.sample.take();
            signal.request_since = logical_core.request.is_some().then_some(logical_core.service_start);
        }
        self.sense_bandwidth(now, signals);
    }

    fn act(&mut self, now: Time, actions: &[Action]) {
        if self.affinity.is_some() {
            return self.set_masks(now, actions);
        }
        for &action in actions {
            match action {
                Action::Run { core, task, keep } => {
                    let core = core.0 as usize;
                    let idle = self.logical_cores[core].state == LogicalCoreState::Idle;
                    let cost = if idle { self.costs.wake } else { self.costs.preempt };
                    self.switch_to(now, core, task, keep, self.costs.decide + cost);
                }
                Action::Idle { core } => self.preempt(now, core.0 as usize),
                Action::Share { core } => {
                    let core = core.0 as usize;
                    self.logical_cores[core].shared = true;
                    self.release(now, core);
                }
                Action::Sample { core } => {
                    let logical_core = &mut self.logical_cores[core.0 as usize];
                    logical_core.sample = Some(Sample { misses: logical_core.misses(), at: now });
                }
            }
        }
    }
}

impl MachineState {
    /// DRAM traffic of each socket since the last round.
    fn sense_bandwidth(&mut self, now: Time, signals: &mut Signals) {
        for (number, signal) in signals.bandwidth.iter_mut().enumerate() {
            let logical_cores =
                self.topology.on_socket(number).iter().map(|core| &self.logical_cores[core.0 as usize]);
            let bytes_moved: f64 = logical_cores.map(|logical_core| logical_core.bytes_moved).sum();
            let socket = &mut self.sockets[number];
            if let Some(bandwidth_max) = self.bandwidth_max_probed {
                *signal = Some(bandwidth_max * (socket.latency - 1.0) / (LATENCY_MAX - 1.0));
                socket.sampled_at = now;
                continue;
            }
            let span = now.since(socket.sampled_at).as_secs_f64();
            *signal = (span > 0.0).then(|| (bytes_moved - socket.bytes_moved) / span);
            (socket.bytes_moved, socket.sampled_at) = (bytes_moved, now);
        }
    }
}
