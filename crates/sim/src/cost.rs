//! CPU cost of the stack's work on a simulated core.
//!
//! One number per kind of [`Step`], measured by `greenwave calibrate` and checked in as
//! `cost-model.toml`. Deliberately flat: no cache effects, no batching gains, no per-byte cost.
//! An experiment that depends on those must state it.

use queueing::Span;
use runtime::shard::Step;
use serde::{Deserialize, Serialize};

/// Checked-in model.
const MEASURED: &str = include_str!("../cost-model.toml");

/// CPU time per step, in nanoseconds of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostModel {
    /// Moving one frame from the NIC into the receive buffer.
    pub driver_ns: u64,
    /// Driver classifier call for that frame.
    pub classify_ns: u64,
    /// Receiving and recycling one frame whose SYN the guard sheds.
    pub shed_ns: u64,
    /// TCP/IP processing of a frame with payload, the transport classifier included.
    pub tcp_rx_ns: u64,
    /// TCP/IP processing of a frame without payload, usually an ACK.
    pub tcp_ack_ns: u64,
    /// Building and sending one frame.
    pub tcp_tx_ns: u64,
    /// Moving one event through the event queue.
    pub event_ns: u64,
    /// Worker time to accept a job and hand it back.
    pub dispatch_ns: u64,
}

/// Checked-in `cost-model.toml`.
impl Default for CostModel {
    fn default() -> Self {
        Self::from_toml(MEASURED).expect("the checked-in cost model is valid")
    }
}

impl CostModel {
    /// Stack without any cost, for comparison with queueing theory.
    pub const ZERO: Self = Self {
        driver_ns: 0,
        classify_ns: 0,
        shed_ns: 0,
        tcp_rx_ns: 0,
        tcp_ack_ns: 0,
        tcp_tx_ns: 0,
        event_ns: 0,
        dispatch_ns: 0,
    };

    /// Parses a model; every field is required.
    ///
    /// # Errors
    /// The parser's message, with line and key.
    pub fn from_toml(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Text of a `cost-model.toml` with the machine, date and command of its measurement.
    #[must_use]
    pub fn to_toml(&self, machine: &str, date: &str, command: &str) -> String {
        let body = toml::to_string(self).expect("eight numbers are valid TOML");
        format!(
            "# Cost of each step of the stack, in nanoseconds of one core.\n#\n\
             # machine: {machine}\n# date:    {date}\n# command: {command}\n\n{body}"
        )
    }

    /// Time for which `step` occupies the stack's core.
    ///
    /// A [`Step::Assign`] costs the hand-over of one event; the worker pays
    /// [`dispatch`](Self::dispatch) on top. A [`Step::Partial`] is paid by the worker that
    /// polled, not by this core.
    #[must_use]
    pub fn step(&self, step: &Step) -> Span {
        Span::from_nanos(match step {
            Step::Drive { classified, shed } => {
                let frame = if *shed { self.shed_ns } else { self.driver_ns };
                frame + self.classify_ns * u64::from(*classified)
            }
            Step::Transport { payload: true } => self.tcp_rx_ns,
            Step::Transport { payload: false } => self.tcp_ack_ns,
            Step::Assign(_) => self.event_ns,
            Step::Transmit { frames } => self.tcp_tx_ns * *frames as u64,
            Step::Partial(_) | Step::Idle => 0,
        })
    }

    /// Worker time to accept a job and hand it back.
    #[must_use]
    pub const fn dispatch(&self) -> Span {
        Span::from_nanos(self.dispatch_ns)
    }

    /// Worker time for an event whose request is still incomplete.
    #[must_use]
    pub const fn event(&self) -> Span {
        Span::from_nanos(self.event_ns)
    }

    /// Core time to build and send one frame.
    #[must_use]
    pub const fn transmit(&self) -> Span {
        Span::from_nanos(self.tcp_tx_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ sim: the cost model reads back as written and charges each step
    #[test]
    fn a_cost_model_round_trips() {
        let model = CostModel::default();
        let text = model.to_toml("a machine", "2026-01-01", "greenwave calibrate");
        assert!(text.contains("# machine: a machine\n"));
        assert_eq!(CostModel::from_toml(&text), Ok(model));
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let text = format!("{MEASURED}\ntypo_ns = 3\n");
        let error = CostModel::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains("typo_ns"), "{error}");
    }

    //~ sim: the cost model reads back as written and charges each step
    #[test]
    fn each_step_costs_what_the_model_says() {
        let model = CostModel::default();
        let ns = |step| model.step(&step).as_nanos();
        let drive = |classified, shed| ns(Step::Drive { classified, shed });
        assert_eq!(drive(true, false), model.driver_ns + model.classify_ns);
        assert_eq!(drive(false, true), model.shed_ns);
        assert_eq!(ns(Step::Transport { payload: false }), model.tcp_ack_ns);
        assert_eq!(ns(Step::Transmit { frames: 3 }), 3 * model.tcp_tx_ns);
        assert_eq!(ns(Step::Idle), 0);
    }
}
