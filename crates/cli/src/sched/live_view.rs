//! Live view of a scheduler: tasks, core assignment, and the observations behind each reallocation.

use hostsched::cpulist;
use queueing::{CoreId, Histogram, Span, Time};
use sched::cores::reallocations::{self, ReallocationLog, ReallocationReason};
use sched::cores::{Allocator, CoreAssignment, CoreState, TaskId};

use super::config::Config;
use crate::ui::{Figure, Head, Labels, MetricsSample, Move, Owner, Spans, Ui};

/// A live view, and the data for its next update.
pub(super) struct Shown {
    ui: Ui,
    moves: ReallocationLog,
    /// Moves since the last update; at most [`MOVES_MAX`].
    moved: Vec<reallocations::Move>,
    /// Cost of rounds since then.
    cost: Histogram,
}

/// Maximum number of core moves kept between two updates; further ones are not shown.
const MOVES_MAX: usize = 4096;

/// Description of this command for the live view.
pub(super) fn head(config: &Config, cores: &[CoreId]) -> Head {
    let (policy, cores, tasks) = (&config.policy, cpulist::text(cores), config.tasks.len());
    let about = format!("policy {policy} on cores {cores}, {tasks} tasks");
    Head { command: "sched", about, rate: "greenwave_sched_reallocations_total" }
}

impl Shown {
    pub(super) fn new(ui: Ui, board: &CoreAssignment, config: &Config) -> Self {
        let moves = ReallocationLog::new(board, config.bandwidth_max_gb * 1e9);
        Self { ui, moves, moved: Vec::new(), cost: Histogram::coarse() }
    }

    /// Records a round that began at `now` and took `cost`.
    pub(super) fn round(&mut self, now: Time, allocator: &Allocator, cost: Span) {
        self.moves.round(now, allocator, &mut self.moved);
        self.moved.truncate(MOVES_MAX);
        self.cost.record(cost);
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.ui.is_due(now)
    }

    /// Publishes `figures`, and the rounds since the last update.
    pub(super) fn report(
        &mut self,
        now: Time,
        config: &Config,
        board: &CoreAssignment,
        figures: Vec<Figure>,
    ) {
        let owners = board.topology().all().map(|core| {
            let hold = board.state(core);
            let task = hold.task().map(|task| name(config, task).to_owned());
            Owner {
                core: core.0,
                task,
                how: how(hold).to_owned(),
                since_s: self.ui.seconds(board.held_since(core)),
            }
        });
        let moves = self.moved.drain(..).map(|moved| Move {
            at_s: self.ui.seconds(moved.at),
            core: moved.core.0,
            from: holder(config, moved.from),
            to: holder(config, moved.to),
            why: why(config, moved.why),
        });
        let recorded = &self.cost;
        let rounds = Spans { name: "greenwave_sched_round_seconds", labels: Labels::none(), recorded };
        let (owners, moves) = (owners.collect(), moves.collect());
        self.ui.publish(
            now,
            MetricsSample { figures, spans: vec![rounds], owners, moves, ..MetricsSample::default() },
        );
        self.cost.clear();
    }
}

fn name(config: &Config, task: TaskId) -> &str {
    &config.tasks[task.index()].name
}

fn how(hold: CoreState) -> &'static str {
    match hold {
        CoreState::Free => "free",
        CoreState::Granted(_) => "runs",
        CoreState::Reserved(_) => "keeps",
        CoreState::SiblingIdle(_) => "quiet",
        CoreState::Shared => "shared",
    }
}

fn holder(config: &Config, hold: CoreState) -> String {
    hold.task().map_or(how(hold), |task| name(config, task)).to_owned()
}

fn why(config: &Config, why: ReallocationReason) -> String {
    match why {
        ReallocationReason::Yielded(task) => format!("{} returned it", name(config, task)),
        ReallocationReason::Waited { delay, .. } => format!("waited {delay}, above its limit"),
        ReallocationReason::DeadlinePressure(_) => "a request was late".to_owned(),
        ReallocationReason::BelowGuarantee(_) => "had work and fewer cores than guaranteed".to_owned(),
        ReallocationReason::Work(_) => "had work for another core".to_owned(),
        ReallocationReason::Quiet(task) => format!("{} needs an idle sibling core", name(config, task)),
        ReallocationReason::Bandwidth(socket) => format!("memory bandwidth of socket {socket} was saturated"),
        ReallocationReason::Unclaimed => "no LC task needed it".to_owned(),
        ReallocationReason::Initial => "initial assignment".to_owned(),
    }
}
