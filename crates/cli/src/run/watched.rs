//! What a stack shows while a program uses it: asked about once a second.

use std::path::Path;
use std::sync::Arc;

use queueing::Time;
use runtime::hatch::Hatch;
use runtime::streams::Seen;

use crate::serve::watched::of_guard;
use crate::ui::metrics::DEPTH;
use crate::ui::{Figure, Head, Labels, Told, Ui};

/// See the module.
pub(super) struct Watched {
    ui: Ui,
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
    pub(super) fn new(ui: Ui, device: String) -> Self {
        Self { ui, device, hatch: Arc::default(), waits: false }
    }

    /// Where it is shown.
    pub(super) fn ui(&self) -> &Ui {
        &self.ui
    }

    /// Where the stack shows itself.
    pub(super) fn hatch(&self) -> Arc<Hatch<Seen>> {
        self.hatch.clone()
    }

    /// Asks if it is time to, and tells what has been answered.
    pub(super) fn look(&mut self, now: Time) {
        if !self.waits && self.ui.is_due(now) {
            self.waits = true;
            self.hatch.ask(Box::default());
        }
        if let Some(seen) = self.hatch.take() {
            self.waits = false;
            let figures = figures(&self.device, &seen);
            self.ui.tell(now, Told { figures, ..Told::default() });
        }
    }
}

fn figures(device: &str, seen: &Seen) -> Vec<Figure> {
    let c = &seen.counters;
    let of = |pairs: &[(&str, &str)]| {
        let shard = Labels::none().with("shard", 0);
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
