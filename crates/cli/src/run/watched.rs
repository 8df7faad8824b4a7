//! What a stack shows while a program uses it, and the slow requests that are
//! written: asked about once a second.

use std::path::Path;
use std::sync::Arc;

use queueing::{Span, Time};
use runtime::hatch::Hatch;
use runtime::shard::Limits;
use runtime::streams::Seen;

use super::AnyStreams;
use crate::serve::watched::of_guard;
use crate::traces::Traces;
use crate::ui::live::STEP;
use crate::ui::metrics::DEPTH;
use crate::ui::{Figure, Head, Labels, Told, Ui};

/// See the module.
pub(super) struct Watched {
    ui: Option<Ui>,
    traces: Option<Traces>,
    /// Which requests are kept whole.
    slow: Limits,
    /// Slow requests that were not kept, as others were slower.
    left_out: u64,
    /// When it told last.
    told: Option<Time>,
    /// The device, as it is called on the command line.
    device: String,
    hatch: Arc<Hatch<Seen>>,
    /// The stack has been asked, and has not answered.
    waits: bool,
}

/// What this is, for who looks at it live.
pub(super) fn head(program: &Path, device: &str) -> Head {
    let about = format!("{} on {device}", program.display());
    Head { command: "run", about, rate: "greenwave_connections_total" }
}

impl Watched {
    pub(super) fn new(ui: Option<Ui>, traces: Option<Traces>, device: String, slow: Limits) -> Self {
        let hatch = Arc::default();
        Self { ui, traces, slow, left_out: 0, told: None, device, hatch, waits: false }
    }

    /// Where the stack shows itself.
    pub(super) fn hatch(&self) -> Arc<Hatch<Seen>> {
        self.hatch.clone()
    }

    /// Asks if it is time to, and tells what has been answered.
    pub(super) fn look(&mut self, now: Time) {
        if !self.waits && self.told.is_none_or(|told| now.since(told) >= STEP) {
            self.waits = true;
            self.hatch.ask(Box::default());
        }
        if let Some(mut seen) = self.hatch.take() {
            self.waits = false;
            self.tell(now, &mut seen);
        }
    }

    fn tell(&mut self, now: Time, seen: &mut Seen) {
        self.told = Some(now);
        self.left_out += seen.slow.left_out();
        let slow = seen.slow.take();
        if let Some(ui) = &self.ui {
            let figures = figures(&self.device, seen);
            ui.tell(now, Told { figures, slow: slow.clone(), ..Told::default() });
        }
        if let Some(traces) = &mut self.traces {
            traces.tell(now, slow.into_iter().map(|slow| (SHARD, slow)).collect());
        }
    }

    /// Tells what `streams` has left, and ends the traces, if there are any,
    /// with a line on stderr.
    pub(super) fn end(mut self, now: Time, streams: &mut AnyStreams) {
        let mut last = Seen::default();
        // Answered, and never told.
        if let Some(mut seen) = self.hatch.take() {
            self.tell(now, &mut seen);
        }
        streams.show(&mut last);
        self.tell(now, &mut last);
        let Some(traces) = self.traces else { return };
        // As for `serve`: more than the slowest of a second are left out on
        // purpose, where nobody said how slow.
        let left_out = if self.slow.over == Span::ZERO { 0 } else { self.left_out };
        let together = match last.together {
            0 => String::new(),
            count => format!("; {count} not told apart, as they waited together on a connection"),
        };
        eprintln!("{}{together}", traces.end(left_out));
    }
}

/// There is one.
const SHARD: usize = 0;

fn figures(device: &str, seen: &Seen) -> Vec<Figure> {
    let c = &seen.counters;
    let of = |pairs: &[(&str, &str)]| {
        let shard = Labels::none().with("shard", SHARD);
        pairs.iter().fold(shard, |labels, (name, value)| labels.with(name, value))
    };
    let all = [
        ("greenwave_connections_total", of(&[]), c.offered),
        ("greenwave_datagrams_total", of(&[]), c.datagrams_in),
        ("greenwave_resets_total", of(&[]), c.reset),
        ("greenwave_dropped_total", of(&[("reason", "verdict")]), c.driver.dropped_by_verdict),
        ("greenwave_dropped_total", of(&[("reason", "nic full")]), c.driver.dropped_full),
        ("greenwave_dropped_total", of(&[("reason", "untaken")]), c.untaken),
        ("greenwave_dropped_total", of(&[("reason", "program full")]), c.datagrams_lost),
        ("greenwave_frames_total", of(&[]), c.driver.frames),
        ("greenwave_bytes_total", of(&[("direction", "in")]), c.bytes_in),
        ("greenwave_bytes_total", of(&[("direction", "out")]), c.bytes_out),
        ("greenwave_opened_total", of(&[("outcome", "opened")]), c.opened),
        ("greenwave_opened_total", of(&[("outcome", "failed")]), c.unopened),
        (DEPTH, of(&[("queue", "nic")]), seen.frames as u64),
        (DEPTH, of(&[("queue", "to program")]), seen.inbound as u64),
        (DEPTH, of(&[("queue", "from program")]), seen.outbound as u64),
        ("greenwave_connections", of(&[]), seen.connections as u64),
    ];
    let mut figures: Vec<Figure> =
        all.into_iter().map(|(name, labels, value)| Figure::new(name, labels, value as f64)).collect();
    of_guard(device, &c.guard, &mut figures);
    figures
}
