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
            .over(ratios(rows, OURS, KERNEL, closed, |f| f.per_core())),
        Goal::at_most("p99 over AF_XDP, ÷ the kernel's on veth", 1.0).over(ratios(
            rows,
            OURS,
            KERNEL,
            exchanges,
            |f| f.p99.as_nanos() as f64,
        )),
        Goal::at_least("requests per second and server core on TAP, ÷ gVisor's", 4.0).over(ratios(
            rows,
            tap(SystemStack::Greenwave),
            tap(SystemStack::Gvisor),
            closed,
            |f| f.per_core(),
        )),
        Goal::at_least("throughput of one connection over AF_XDP, ÷ the kernel's on veth", 0.8).over(ratios(
            rows,
            OURS,
            KERNEL,
            Case::is_stream,
            |f| f.bytes_per_s,
        )),
    ]
}

/// Ratios of the figure of `ours` to that of `baseline` in all cases that `fits` accepts.
fn ratios(
    rows: &[SystemRow],
    ours: Server,
    baseline: Server,
    fits: impl Fn(&Case) -> bool,
    figure: impl Fn(&SystemFigures) -> f64,
) -> Vec<(f64, String)> {
    let find = |(stack, device): Server, case: &str| {
        let mut rows = rows.iter();
        let row = rows.find(|r| (r.system.stack, r.system.device) == (stack, device) && r.case.name == case);
        row.and_then(|row| row.figures().ok()).map(|figures| figure(&figures))
    };
    let ratio = |row: &SystemRow| Some(find(ours, &row.case.name)? / find(baseline, &row.case.name)?);
    let ours = rows.iter().filter(|r| (r.system.stack, r.system.device) == ours && fits(&r.case));
    ours.filter_map(|r| Some((ratio(r)?, r.case.name.clone()))).collect()
}
