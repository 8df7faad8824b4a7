//! Thread shell of a [`SocketProxy`].

use std::sync::atomic::{AtomicBool, Ordering};

use net::Device;
use queueing::{Clock, Span, YieldPolicy};

use super::{AppSockets, Seen, SocketProxy};
use crate::idle::{AdaptiveSpin, IdleAction};
use crate::mode::Classifiers;
use crate::snapshot_exchange::SnapshotExchange;
use crate::threads::Threads;

/// Longest sleep, which bounds the delay of a stop.
const SLEEP_MAX: Span = Span::from_millis(20);

/// Snapshot exchanges of a running proxy; none by default.
#[derive(Clone, Copy, Default)]
pub struct SnapshotEndpoints<'a> {
    /// Exchange of snapshots.
    pub seen: Option<&'a SnapshotExchange<Seen>>,
    /// Exchange of new classifiers, used from the next round on ([`SocketProxy::set_classifiers`]).
    pub classifiers: Option<&'a SnapshotExchange<Classifiers>>,
}

/// Runs `streams` until `stop` is set. A thread without work polls for `spin`, at most
/// [`Threads::SPIN_MAX`], where work usually arrives sooner. Then it sleeps on `device`, which
/// events of the application side must also end. Between two rounds it serves `hatches`; while
/// levels differ it yields its core to programs that share it ([`YieldPolicy`]).
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
