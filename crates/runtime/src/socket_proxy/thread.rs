//! The shell: a thread that turns [`SocketProxy`] until it is told to stop.

use std::sync::atomic::{AtomicBool, Ordering};

use net::Device;
use queueing::{Clock, Span, YieldPolicy};

use super::{AppSockets, Seen, SocketProxy};
use crate::idle::{AdaptiveSpin, IdleAction};
use crate::mode::Classifiers;
use crate::snapshot_exchange::SnapshotExchange;
use crate::threads::Threads;

/// The longest sleep, so that a stop is noticed.
const SLEEP_MAX: Span = Span::from_millis(20);

/// Who asks, and who gives, while a stack runs; nobody unless it is said.
#[derive(Clone, Copy, Default)]
pub struct SnapshotEndpoints<'a> {
    /// Who asks here is shown what was counted.
    pub seen: Option<&'a SnapshotExchange<Seen>>,
    /// What is left here is followed from the next round on ([`SocketProxy::set_classifiers`]).
    pub classifiers: Option<&'a SnapshotExchange<Classifiers>>,
}

/// Turns `streams` until `stop` is set. A thread without work looks for more
/// for `spin`, at most [`Threads::SPIN_MAX`], where work usually comes sooner
/// than that; then it sleeps on `device`, which must end the sleep when
/// something happens on the programs' side, too. Between two rounds it looks at `hatches`,
/// and while some are more urgent than others it gives its core away, for programs
/// that share it ([`YieldPolicy`]).
pub fn serve<D: Device, P: AppSockets>(
    streams: &mut SocketProxy<D, P>,
    device: &mut D,
    clock: &dyn Clock,
    stop: &AtomicBool,
    spin: Span,
    hatches: SnapshotEndpoints<'_>,
) {
    let mut patience = AdaptiveSpin::new(spin.min(Threads::SPIN_MAX), SLEEP_MAX);
    let mut yielding = YieldPolicy::new();
    while !stop.load(Ordering::Relaxed) {
        if let Some(hatch) = hatches.seen {
            hatch.fill_if_requested(|seen| streams.show(seen));
        }
        if let Some(hatch) = hatches.classifiers {
            hatch.fill_if_requested(|next| streams.set_classifiers(std::mem::take(next)));
        }
        let now = clock.now();
        if streams.turn(now, device) {
            patience.on_work(now);
            if streams.gives_way() && yielding.is_due() {
                let before = clock.now();
                std::thread::yield_now();
                yielding.on_return(clock.now().since(before));
            }
            continue;
        }
        match patience.rest(now, streams.poll_timeout()) {
            IdleAction::Look => std::hint::spin_loop(),
            IdleAction::Sleep(span) => {
                if streams.programs().sleep() {
                    device.wait(span);
                    streams.programs().wake();
                }
            }
        }
    }
}
