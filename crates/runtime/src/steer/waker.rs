//! Wake-up of a sleeping shard by other shards.

use std::sync::{Mutex, PoisonError};
use std::thread::{Thread, current};

use net::device::Waker;

use crate::doorbell::Doorbell;

/// A shard's doorbell and the means to end its sleep.
#[derive(Default)]
pub(super) struct ShardWaker {
    pub doorbell: Doorbell,
    /// `None` for a device that cannot be woken.
    device: Option<Waker>,
    /// Thread of a shard without a device, which parks.
    parked: Mutex<Option<Thread>>,
}

impl ShardWaker {
    pub fn new(device: Option<Waker>) -> Self {
        Self { device, ..Self::default() }
    }

    /// True if a sleep can be ended early.
    pub fn wakes(&self) -> bool {
        self.device.is_some() || self.parked.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Sets the current thread as the one that will park; it may have changed.
    pub fn wakes_this_thread(&self) {
        let mut parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
        if parked.as_ref().is_none_or(|thread| thread.id() != current().id()) {
            *parked = Some(current());
        }
    }

    /// Wakes the shard if it sleeps; call it after the write that the shard waits for.
    pub fn wake(&self) {
        self.doorbell.ring_by(|| match &self.device {
            Some(wake) => wake(),
            None => {
                let parked = self.parked.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(thread) = &*parked {
                    thread.unpark();
                }
            }
        });
    }
}
