//! Goals: ratios of greenwave's figures to those of others.

use load::closed_loop::LoadModel;

use super::cases::Case;
use super::results::{SystemFigures, SystemRow};
use super::systems::{SystemDevice, SystemStack};
use crate::bench::target::Goal;

/// A server: its stack and its device.
type Server = (SystemStack, SystemDevice);

const KERNEL: Server = (SystemStack::Kernel, SystemDevice::Veth);
const OURS: Server = (SystemStack::Greenwave, SystemDevice::Xdp);

/// All goals.
pub fn goals(rows: &[SystemRow]) -> Vec<Goal> {
    let exchanges = |case: &Case| !case.is_stream();
    let closed = |case: &Case| !case.is_stream() && matches!(case.pace, LoadModel::Closed { .. });
    let tap = |stack| (stack, SystemDevice::Tap);
    vec![
        Goal::at_least("requests per second and server core over AF_XDP, ÷ the kernel's on veth", 3.0)
            .over(ratios(rows, OURS, KERNEL, closed, |f| f.per_core(), 0.0)),
        Goal::at_most("p99 over AF_XDP, ÷ the kernel's on veth", 1.0).over(ratios(
            rows,
            OURS,
            KERNEL,
            exchanges,
            |f| f.p99.as_nanos() as f64,
            f64::INFINITY,
        )),
        Goal::at_least("requests per second and server core on TAP, ÷ gVisor's", 4.0).over(ratios(
            rows,
            tap(SystemStack::Greenwave),
            tap(SystemStack::Gvisor),
            closed,
            |f| f.per_core(),
            0.0,
        )),
        Goal::at_least("throughput of one connection over AF_XDP, ÷ the kernel's on veth", 0.8).over(ratios(
            rows,
            OURS,
            KERNEL,
            Case::is_stream,
            |f| f.bytes_per_s,
            0.0,
        )),
    ]
}

/// Ratios of the figure of `ours` to that of `baseline` in all cases that `fits` accepts.
///
/// `failed` is the ratio of a case in which `ours` was run and failed: the worst there is. NaN
/// where the baseline has no figure.
fn ratios(
    rows: &[SystemRow],
    ours: Server,
    baseline: Server,
    fits: impl Fn(&Case) -> bool,
    figure: impl Fn(&SystemFigures) -> f64,
    failed: f64,
) -> Vec<(f64, String)> {
    let find = |(stack, device): Server, case: &str| {
        let mut rows = rows.iter();
        let row = rows.find(|r| (r.system.stack, r.system.device) == (stack, device) && r.case.name == case);
        row.and_then(|row| row.figures().ok()).map(|figures| figure(&figures))
    };
    let ratio = |row: &SystemRow| match find(ours, &row.case.name) {
        Some(figure) => figure / find(baseline, &row.case.name).unwrap_or(f64::NAN),
        None => failed,
    };
    let ours = rows.iter().filter(|r| (r.system.stack, r.system.device) == ours && fits(&r.case));
    ours.map(|row| (ratio(row), row.case.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use queueing::Histogram;

    use super::super::cases;
    use super::super::setup::SystemResults;
    use super::super::systems::SYSTEMS;
    use super::*;

    /// A row of `server` in the first case, with requests per second or without a figure.
    fn row((stack, device): Server, answers_per_s: Option<f64>) -> SystemRow {
        let system = SYSTEMS.iter().find(|system| (system.stack, system.device) == (stack, device));
        let mut row = SystemRow::new(*system.expect("a known server"), &cases::smoke()[0]);
        let results = |answers_per_s| SystemResults {
            answers_per_s,
            bytes_per_s: answers_per_s,
            cores: 1.0,
            latency: Histogram::default(),
            broken: 0,
            resent: 0,
            sent: 1,
            early: 0,
        };
        row.add(answers_per_s.map(results).ok_or_else(|| "it failed".to_owned()));
        row
    }

    //~ cli: a benchmark's goal that was not measured in every case is not met
    #[test]
    fn a_stack_of_ours_that_fails_has_the_worst_ratio() {
        let first = |rows: &[SystemRow]| goals(rows).remove(0).holds;
        assert_eq!(first(&[row(OURS, Some(4000.0)), row(KERNEL, Some(1000.0))]), Some(true));
        assert_eq!(first(&[row(OURS, None), row(KERNEL, Some(1000.0))]), Some(false));
        assert_eq!(first(&[row(OURS, Some(4000.0)), row(KERNEL, None)]), None);
        assert_eq!(first(&[row(OURS, Some(4000.0))]), None);
    }
}
