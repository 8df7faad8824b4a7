//! Live view of a running server: its shards are polled about once a second; their data goes to the
//! view and the traces, and is kept for the summary.

use std::sync::Arc;

use queueing::{Priority, Time};
use runtime::shard::{Counters, Depths, ShardSnapshot, Shed, Slow, SlowRequestLimits, Stats};
use runtime::snapshot_exchange::SnapshotExchange;

use crate::snapshot_poller::SnapshotPoller;
use crate::traces::Traces;
use crate::ui::metrics::{DEPTH, LEFT, OFFERED, RESETS, SHED, WAIT};
use crate::ui::{Figure, Labels, MetricsSample, Spans, Ui};

/// State of the live view.
pub(super) struct LiveState<'a> {
    ui: Option<&'a Ui>,
    traces: Option<Traces>,
    /// Limits on the slow requests that are kept, for all shards together.
    slow: SlowRequestLimits,
    /// Slow requests that are in no trace because there were too many.
    left_out: u64,
    /// The device, as named on the command line.
    device: &'a str,
    shards: SnapshotPoller<ShardSnapshot>,
    /// Waits of all snapshots so far, of each shard.
    totals: Vec<Stats>,
    /// Sum over the shards in the last snapshot.
    sum: Stats,
}

impl<'a> LiveState<'a> {
    pub(super) fn new(
        ui: Option<&'a Ui>,
        traces: Option<Traces>,
        device: &'a str,
        slow: SlowRequestLimits,
        shards: usize,
    ) -> Self {
        let empty = || {
            let mut snapshot = ShardSnapshot::default();
            snapshot.stats.slow.set_limits(slow);
            snapshot
        };
        let totals = (0..shards).map(|_| Stats::default()).collect();
        let shards = SnapshotPoller::new(shards, empty);
        Self { ui, traces, slow, left_out: 0, device, shards, totals, sum: Stats::default() }
    }

    /// Snapshot exchanges of the shards.
    pub(super) fn exchanges(&self) -> Vec<Arc<SnapshotExchange<ShardSnapshot>>> {
        self.shards.exchanges()
    }

    /// Polls the shards when due, and publishes the answers.
    pub(super) fn poll(&mut self, now: Time) {
        if self.shards.poll(now) {
            self.publish(now);
        }
    }

    fn publish(&mut self, now: Time) {
        let Self { device, shards, totals, sum, .. } = self;
        sum.clear();
        let (mut figures, mut slow) = (Vec::new(), Vec::new());
        for ((number, snapshot), total) in shards.snapshots().enumerate().zip(totals) {
            let Some(snapshot) = snapshot else { continue };
            sum.merge_spans(&snapshot.stats);
            total.merge_spans(&snapshot.stats);
            of_shard(number, &snapshot.stats.counters, &snapshot.depths, &mut figures);
            of_resets(number, &snapshot.stack, &mut figures);
            let guard = sum.counters.guard.iter_mut().zip(&snapshot.stats.counters.guard);
            guard.for_each(|(sum, shed)| sum.add(shed));
            self.left_out += take_slow(number, &mut snapshot.stats, &mut slow);
            snapshot.clear();
        }
        self.left_out += slowest(&mut slow, self.slow.most);
        of_guard(device, &sum.counters.guard, &mut figures);
        let of = |class: &str, name: &str, value: &str| Labels::none().with("class", class).with(name, value);
        let waits = sum.stages.iter().map(|(class, stage, recorded)| Spans {
            name: WAIT,
            labels: of(class, "stage", stage),
            recorded,
        });
        let left = sum.left.iter().map(|(class, hop, recorded)| Spans {
            name: LEFT,
            labels: of(class, "hop", hop),
            recorded,
        });
        let labels = Labels::none().with("device", device);
        let oldest = Spans { name: "greenwave_guard_head_age_seconds", labels, recorded: &sum.delay };
        // An empty histogram is left out.
        let spans = waits.chain(left).chain([oldest]).filter(|spans| spans.recorded.count() > 0).collect();
        if let Some(ui) = self.ui {
            let slow = slow.iter().map(|(_, slow)| slow.clone()).collect();
            ui.publish(now, MetricsSample { figures, spans, slow, ..MetricsSample::default() });
        }
        self.traces.iter_mut().for_each(|traces| traces.write(now, std::mem::take(&mut slow)));
    }

    /// Adds the waits that the view has consumed to those left in each shard, and ends the traces,
    /// if any, with a line on stderr.
    pub(super) fn give_back(mut self, now: Time, stats: &mut [Stats]) {
        let (mut left_out, mut slow) = (self.left_out, Vec::new());
        // Answered and not published; published histograms are empty again.
        self.shards.end();
        for ((number, stats), (snapshot, total)) in
            stats.iter_mut().enumerate().zip(self.shards.snapshots().zip(&self.totals))
        {
            stats.merge_spans(total);
            if let Some(snapshot) = snapshot {
                stats.merge_spans(&snapshot.stats);
                left_out += take_slow(number, &mut snapshot.stats, &mut slow);
            }
            left_out += take_slow(number, stats, &mut slow);
        }
        left_out += slowest(&mut slow, self.slow.most);
        if let Some(mut traces) = self.traces {
            traces.write(now, slow);
            // Without a given threshold only the slowest of a second are kept, on purpose.
            let left_out = if self.slow.over == queueing::Span::ZERO { 0 } else { left_out };
            errln!("{}", traces.end(left_out));
        }
    }
}

/// Moves the slow requests of shard `number` into `slow`; returns the number that it left out.
fn take_slow(number: usize, stats: &mut Stats, slow: &mut Vec<(usize, Slow)>) -> u64 {
    slow.extend(stats.slow.take().into_iter().map(|slow| (number, slow)));
    stats.slow.left_out()
}

/// Keeps the slowest of all shards, in order; returns the number left out.
pub(crate) fn slowest(slow: &mut Vec<(usize, Slow)>, most: usize) -> u64 {
    slow.sort_by_key(|(_, slow)| std::cmp::Reverse(slow.total()));
    let left_out = slow.len().saturating_sub(most);
    slow.truncate(most);
    left_out as u64
}

/// SYNs at the guard of `device`, by class and reason.
pub(crate) fn of_guard(device: &str, guard: &[Shed; Priority::LEVELS], figures: &mut Vec<Figure>) {
    for (class, of) in Priority::all().zip(guard).filter(|(_, of)| of.seen > 0) {
        let labels = Labels::none().with("device", device).with("class", class);
        figures.push(Figure::new(OFFERED, labels.clone(), of.seen as f64));
        for (reason, count) in of.reasons() {
            figures.push(Figure::new(SHED, labels.clone().with("reason", reason), count as f64));
        }
    }
}

/// Resets of shard or stack `number`, by side.
pub(crate) fn of_resets(number: usize, c: &net::stack::Counters, figures: &mut Vec<Figure>) {
    let by = [("us", c.resets), ("peer", c.resets_received), ("refused", c.refusals)];
    figures.extend(by.map(|(by, count)| {
        Figure::new(RESETS, Labels::none().with("shard", number).with("by", by), count as f64)
    }));
}

/// Counters of shard `number`, and its queue depths.
fn of_shard(number: usize, c: &Counters, depths: &Depths, figures: &mut Vec<Figure>) {
    let shard = Labels::none().with("shard", number);
    let counters = [
        ("greenwave_connections_total", c.accepted),
        ("greenwave_datagrams_total", c.datagrams),
        ("greenwave_requests_total", c.requests),
        ("greenwave_responses_total", c.responses),
        ("greenwave_frames_total", c.driver.frames),
    ];
    let gauges = [("greenwave_connections", depths.connections), ("greenwave_workers_busy", depths.busy)];
    let gauges = gauges.map(|(name, value)| (name, value as u64));
    let figure = |(name, value): (&str, u64)| Figure::new(name, shard.clone(), value as f64);
    figures.extend(counters.into_iter().chain(gauges).map(figure));
    let dropped = [
        ("verdict", c.driver.dropped_by_verdict),
        ("nic full", c.driver.dropped_full),
        ("invalid", c.invalid),
        ("oversized", c.oversized),
        ("truncated", c.truncated),
        ("late", c.late),
        ("not sent", c.unsent),
        ("memory", c.unread),
        ("panic", c.panics),
    ];
    let dropped = dropped.map(|(reason, count)| ("greenwave_dropped_total", "reason", reason, count));
    let queues = [("nic", depths.frames), ("event", depths.requests)];
    let queues = queues.map(|(queue, depth)| (DEPTH, "queue", queue, depth as u64));
    figures.extend(dropped.into_iter().chain(queues).map(|(name, label, value, count)| {
        Figure::new(name, shard.clone().with(label, value), count as f64)
    }));
}

#[cfg(test)]
mod tests {
    use net::driver::DriverCounters;

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
            driver,
            guard: Default::default(),
            accepted: 1,
            datagrams: 1,
            closed: 1,
            requests: 1,
            responses: 1,
            unsent: 1,
            partial: 1,
            stale: 1,
            queue_full: 1,
            invalid: 1,
            oversized: 1,
            truncated: 1,
            late: 1,
            unread: 1,
            panics: 1,
            aborted: 1,
        };
        let stack = net::stack::Counters { resets: 1, resets_received: 1, refusals: 1, ..Default::default() };
        let depths = Depths { frames: 1, requests: 1, busy: 1, connections: 1 };
        let none = (Counters::default(), Depths::default(), net::stack::Counters::default());
        for ((counters, depths, stack), expected) in [(none, 0.0), ((counters, depths, stack), 1.0)] {
            let mut figures = Vec::new();
            of_shard(0, &counters, &depths, &mut figures);
            of_resets(0, &stack, &mut figures);
            assert_eq!(figures.len(), 21);
            for figure in figures {
                assert!((figure.value - expected).abs() < 1e-9, "{figure:?} is {expected}");
            }
        }
    }
}
