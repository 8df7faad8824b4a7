//! Live view of the stacks while a program uses them, and their slow requests, polled about once a
//! second.

use std::path::Path;
use std::sync::Arc;

use net::Device;
use queueing::{Priority, Span, Time};
use runtime::shard::{Shed, SlowRequestLimits};
use runtime::snapshot_exchange::SnapshotExchange;
use runtime::socket_proxy::ProxySnapshot;

use super::bypass::Bypass;
use super::stacks::Server;
use crate::serve::live_view::{of_guard, of_resets, slowest};
use crate::snapshot_poller::SnapshotPoller;
use crate::traces::Traces;
use crate::ui::metrics::DEPTH;
use crate::ui::{Figure, Head, Labels, MetricsSample, Ui};

/// State of the live view.
pub(super) struct LiveState {
    ui: Option<Ui>,
    traces: Option<Traces>,
    /// Limits on the slow requests that are kept, for all stacks together.
    slow: SlowRequestLimits,
    /// Slow requests that were not kept because others were slower.
    left_out: u64,
    /// The device, as named on the command line.
    device: String,
    stacks: SnapshotPoller<ProxySnapshot>,
}

/// Description of this command for the live view.
pub(super) fn head(program: &Path, device: &str) -> Head {
    let about = format!("{} on {device}", program.display());
    Head { command: "run", about, rate: "greenwave_connections_total" }
}

impl LiveState {
    pub(super) fn new(
        ui: Option<Ui>,
        traces: Option<Traces>,
        device: String,
        slow: SlowRequestLimits,
        stacks: usize,
    ) -> Self {
        let stacks = SnapshotPoller::new(stacks, ProxySnapshot::default);
        Self { ui, traces, slow, left_out: 0, device, stacks }
    }

    /// Snapshot exchanges of the stacks.
    pub(super) fn exchanges(&self) -> Vec<Arc<SnapshotExchange<ProxySnapshot>>> {
        self.stacks.exchanges()
    }

    /// Polls the stacks when due, and publishes once all have answered.
    pub(super) fn poll(&mut self, now: Time, bypass: &Bypass) {
        if self.stacks.poll(now) {
            self.publish(now, bypass);
        }
    }

    /// Publishes the answers that have arrived.
    fn publish(&mut self, now: Time, bypass: &Bypass) {
        let (mut figures, mut shed, mut slow) = (Vec::new(), [Shed::default(); Priority::LEVELS], Vec::new());
        for (number, seen) in self.stacks.snapshots().enumerate() {
            let Some(seen) = seen else { continue };
            of_stack(number, seen, &mut figures);
            shed.iter_mut().zip(&seen.counters.guard).for_each(|(sum, shed)| sum.add(shed));
            self.left_out += seen.slow.left_out();
            slow.extend(seen.slow.take().into_iter().map(|slow| (number, slow)));
        }
        self.left_out += slowest(&mut slow, self.slow.most);
        of_guard(&self.device, &shed, &mut figures);
        bypass.figures(&mut figures);
        if let Some(ui) = &self.ui {
            let slow = slow.iter().map(|(_, slow)| slow.clone()).collect();
            ui.publish(now, MetricsSample { figures, slow, ..MetricsSample::default() });
        }
        self.traces.iter_mut().for_each(|traces| traces.write(now, std::mem::take(&mut slow)));
    }

    /// Publishes the remaining figures of `servers`, and ends the traces, if any, with a line on
    /// stderr.
    pub(super) fn end<D: Device>(mut self, now: Time, servers: &mut [Server<D>], bypass: &Bypass) {
        // Answered and not published.
        if self.stacks.end() {
            self.publish(now, bypass);
        }
        let mut together = 0;
        for (seen, (streams, _)) in self.stacks.snapshots().zip(servers) {
            let seen = seen.get_or_insert_default();
            streams.show(seen);
            together += seen.together;
        }
        self.publish(now, bypass);
        let Some(traces) = self.traces else { return };
        // As for `serve`: without a given threshold only the slowest of a second are kept, on
        // purpose.
        let left_out = if self.slow.over == Span::ZERO { 0 } else { self.left_out };
        let together = match together {
            0 => String::new(),
            count => format!("; {count} not separated because they were pipelined on a connection"),
        };
        errln!("{}{together}", traces.end(left_out));
    }
}

/// Appends the figures of stack `number`.
fn of_stack(number: usize, seen: &ProxySnapshot, figures: &mut Vec<Figure>) {
    let c = &seen.counters;
    let of = |pairs: &[(&str, &str)]| {
        let shard = Labels::none().with("shard", number);
        pairs.iter().fold(shard, |labels, (name, value)| labels.with(name, value))
    };
    let all = [
        ("greenwave_connections_total", of(&[]), c.offered),
        ("greenwave_datagrams_total", of(&[]), c.datagrams_in),
        ("greenwave_dropped_total", of(&[("reason", "verdict")]), c.driver.dropped_by_verdict),
        ("greenwave_dropped_total", of(&[("reason", "nic full")]), c.driver.dropped_full),
        ("greenwave_dropped_total", of(&[("reason", "untaken")]), c.unaccepted),
        ("greenwave_dropped_total", of(&[("reason", "program full")]), c.datagrams_lost),
        ("greenwave_frames_total", of(&[]), c.driver.frames),
        ("greenwave_bytes_total", of(&[("direction", "in")]), c.bytes_in),
        ("greenwave_bytes_total", of(&[("direction", "out")]), c.bytes_out),
        ("greenwave_connect_total", of(&[("outcome", "opened")]), c.opened),
        ("greenwave_connect_total", of(&[("outcome", "failed")]), c.connects_failed),
        (DEPTH, of(&[("queue", "nic")]), seen.frames as u64),
        (DEPTH, of(&[("queue", "to program")]), seen.inbound as u64),
        (DEPTH, of(&[("queue", "from program")]), seen.outbound as u64),
        ("greenwave_connections", of(&[]), seen.connections as u64),
    ];
    of_resets(number, &seen.stack, figures);
    figures.extend(all.into_iter().map(|(name, labels, value)| Figure::new(name, labels, value as f64)));
}

#[cfg(test)]
mod tests {
    use net::driver::DriverCounters;
    use runtime::socket_proxy::Counters;

    use super::*;

    /// Each field has a value, so that a new field fails here.
    #[test]
    fn every_metric_moves_with_what_it_shows() {
        let driver = DriverCounters {
            frames: 1,
            classified: 1,
            dropped_by_verdict: 1,
            dropped_full: 1,
            panics: 1,
            out_of_range: 1,
        };
        let counters = Counters {
            offered: 1,
            unaccepted: 1,
            opened: 1,
            connects_failed: 1,
            ended: 1,
            reset: 1,
            bytes_in: 1,
            bytes_out: 1,
            bytes_discarded: 1,
            datagrams_in: 1,
            datagrams_out: 1,
            datagrams_lost: 1,
            datagrams_unmatched: 1,
            datagrams_unsent: 1,
            driver,
            guard: Default::default(),
        };
        let stack = net::stack::Counters { resets: 1, resets_received: 1, refusals: 1, ..Default::default() };
        let (frames, inbound, outbound, connections) = (1, 1, 1, 1);
        let seen = ProxySnapshot {
            counters,
            stack,
            frames,
            inbound,
            outbound,
            connections,
            ..ProxySnapshot::default()
        };
        for (seen, expected) in [(ProxySnapshot::default(), 0.0), (seen, 1.0)] {
            let mut figures = Vec::new();
            of_stack(0, &seen, &mut figures);
            assert_eq!(figures.len(), 18);
            for figure in figures {
                assert!((figure.value - expected).abs() < 1e-9, "{figure:?} is {expected}");
            }
        }
    }
}
