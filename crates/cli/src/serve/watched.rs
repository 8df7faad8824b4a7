//! What a running server shows: its shards are asked about once a second, and
//! what they hand over is told to the view and kept for the summary.

use std::sync::Arc;

use queueing::{Priority, Time};
use runtime::hatch::Hatch;
use runtime::shard::{Counters, Depths, Seen, Shed, Stats};

use crate::ui::metrics::{CAME, DEPTH, LEFT, SHED, WAIT};
use crate::ui::{Figure, Labels, Spans, Told, Ui};

/// See the module.
pub(super) struct Watched<'a> {
    ui: &'a Ui,
    /// The device, as it is called on the command line.
    device: &'a str,
    shards: Vec<Asked>,
    /// They have been asked, and not all have answered.
    waits: bool,
    /// All of them, added up.
    sum: Stats,
}

/// A shard that is asked.
struct Asked {
    hatch: Arc<Hatch<Seen>>,
    /// Its answer, or what it is to fill next.
    seen: Option<Box<Seen>>,
    /// Waits of all answers so far.
    total: Stats,
}

impl<'a> Watched<'a> {
    pub(super) fn new(ui: &'a Ui, device: &'a str, shards: usize) -> Self {
        let asked = || Asked { hatch: Arc::default(), seen: Some(Box::default()), total: Stats::default() };
        Self {
            ui,
            device,
            shards: (0..shards).map(|_| asked()).collect(),
            waits: false,
            sum: Stats::default(),
        }
    }

    /// Where the shards show themselves.
    pub(super) fn hatches(&self) -> Vec<Arc<Hatch<Seen>>> {
        self.shards.iter().map(|shard| shard.hatch.clone()).collect()
    }

    /// Asks if it is time to, and tells what has been answered.
    pub(super) fn look(&mut self, now: Time) {
        if !self.waits && self.ui.is_due(now) {
            self.waits = true;
            for shard in &mut self.shards {
                shard.seen.take().into_iter().for_each(|empty| shard.hatch.ask(empty));
            }
        }
        if !self.waits {
            return;
        }
        for shard in self.shards.iter_mut().filter(|shard| shard.seen.is_none()) {
            shard.seen = shard.hatch.take();
        }
        if self.shards.iter().all(|shard| shard.seen.is_some()) {
            self.waits = false;
            self.tell(now);
        }
    }

    fn tell(&mut self, now: Time) {
        let Self { ui, device, shards, sum, .. } = self;
        sum.clear();
        let mut figures = Vec::new();
        for (number, shard) in shards.iter_mut().enumerate() {
            let Some(seen) = &mut shard.seen else { continue };
            sum.merge_spans(&seen.stats);
            shard.total.merge_spans(&seen.stats);
            of_shard(number, &seen.stats.counters, &seen.depths, &mut figures);
            let guard = sum.counters.guard.iter_mut().zip(&seen.stats.counters.guard);
            guard.for_each(|(sum, shed)| sum.add(shed));
            seen.clear();
        }
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
        let oldest = Spans { name: "greenwave_guard_oldest_seconds", labels, recorded: &sum.delay };
        // What never occurred is no histogram.
        let spans = waits.chain(left).chain([oldest]).filter(|spans| spans.recorded.count() > 0).collect();
        ui.tell(now, Told { figures, spans, ..Told::default() });
    }

    /// Adds the waits that the view has taken to what each shard has left.
    pub(super) fn give_back(self, stats: &mut [Stats]) {
        for (mut shard, stats) in self.shards.into_iter().zip(stats) {
            stats.merge_spans(&shard.total);
            // Answered, and never told.
            let late = shard.seen.take().or_else(|| shard.hatch.take());
            late.iter().for_each(|seen| stats.merge_spans(&seen.stats));
        }
    }
}

/// SYNs at the guard of `device`, by class and reason.
pub(crate) fn of_guard(device: &str, guard: &[Shed; Priority::LEVELS], figures: &mut Vec<Figure>) {
    for (class, of) in Priority::all().zip(guard).filter(|(_, of)| of.seen > 0) {
        let labels = Labels::none().with("device", device).with("class", class);
        figures.push(Figure::new(CAME, labels.clone(), of.seen as f64));
        for (reason, count) in of.reasons() {
            figures.push(Figure::new(SHED, labels.clone().with("reason", reason), count as f64));
        }
    }
}

/// What shard `number` counts, and what waits there.
fn of_shard(number: usize, c: &Counters, depths: &Depths, figures: &mut Vec<Figure>) {
    let shard = Labels::none().with("shard", number);
    let counters = [
        ("greenwave_connections_total", c.accepted),
        ("greenwave_datagrams_total", c.datagrams),
        ("greenwave_requests_total", c.requests),
        ("greenwave_responses_total", c.responses),
        ("greenwave_resets_total", c.aborted),
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
        ("panic", c.panics),
    ];
    let dropped = dropped.map(|(reason, count)| ("greenwave_dropped_total", "reason", reason, count));
    let queues = [("nic", depths.frames), ("event", depths.requests)];
    let queues = queues.map(|(queue, depth)| (DEPTH, "queue", queue, depth as u64));
    figures.extend(dropped.into_iter().chain(queues).map(|(name, label, value, count)| {
        Figure::new(name, shard.clone().with(label, value), count as f64)
    }));
}
