//! Thread shell of a [`SocketProxy`].

use std::sync::atomic::{AtomicBool, Ordering};

use net::Device;
use queueing::{Clock, Span, YieldPolicy};

use super::{AppSockets, ProxySnapshot, SocketProxy};
use crate::idle::{AdaptiveSpin, IdleAction};
use crate::mode::Classifiers;
use crate::snapshot_exchange::SnapshotExchange;
use crate::threads::ThreadSettings;

/// Longest sleep, which bounds the delay of a stop.
const SLEEP_MAX: Span = Span::from_millis(20);

/// Snapshot exchanges of a running proxy; none by default.
#[derive(Clone, Copy, Default)]
pub struct SnapshotEndpoints<'a> {
    /// Exchange of snapshots.
    pub seen: Option<&'a SnapshotExchange<ProxySnapshot>>,
    /// Exchange of new classifiers, used from the next round on ([`SocketProxy::set_classifiers`]).
    pub classifiers: Option<&'a SnapshotExchange<Classifiers>>,
}

/// Runs `proxy` until `stop` is set. A thread without work polls for `spin`, at most
/// [`ThreadSettings::SPIN_MAX`], where work usually arrives sooner. Then it sleeps on `device`, which
/// events of the application side must also end. Between two rounds it serves `exchanges`; while
/// levels differ it yields its core to programs that share it ([`YieldPolicy`]).
pub fn serve<D: Device, P: AppSockets>(
    proxy: &mut SocketProxy<D, P>,
    device: &mut D,
    clock: &dyn Clock,
    stop: &AtomicBool,
    spin: Span,
    exchanges: SnapshotEndpoints<'_>,
) {
    let mut idle = AdaptiveSpin::new(spin.min(ThreadSettings::SPIN_MAX), SLEEP_MAX);
    let mut yielding = YieldPolicy::new();
    while !stop.load(Ordering::Relaxed) {
        if let Some(exchange) = exchanges.seen {
            exchange.fill_if_requested(|seen| proxy.show(seen));
        }
        if let Some(exchange) = exchanges.classifiers {
            exchange.fill_if_requested(|next| proxy.set_classifiers(std::mem::take(next)));
        }
        let now = clock.now();
        if proxy.step(now, device) {
            idle.on_work(now);
            if proxy.gives_way() && yielding.is_due() {
                let before = clock.now();
                std::thread::yield_now();
                yielding.on_return(clock.now().since(before));
            }
            continue;
        }
        match idle.action(now, proxy.poll_timeout()) {
            IdleAction::Poll => std::hint::spin_loop(),
            IdleAction::Sleep(span) => {
                if proxy.programs().sleep() {
                    device.wait(span);
                    proxy.programs().wake();
                }
            }
        }
    }
}
