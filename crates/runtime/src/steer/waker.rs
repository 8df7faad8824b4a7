//! How a shard that sleeps is woken by the others.

use std::sync::{Mutex, PoisonError};
use std::thread::{Thread, current};

use net::device::Waker;

use crate::doorbell::Doorbell;

/// A shard's bell, and what ends its sleep.
#[derive(Default)]
pub(super) struct ShardWaker {
    pub bell: Doorbell,
    /// `None` for a device that cannot be woken.
    device: Option<Waker>,
    /// A guest's thread: it sleeps without a device.
    guest: Mutex<Option<Thread>>,
}

impl ShardWaker {
    pub fn new(device: Option<Waker>) -> Self {
        Self { device, ..Self::default() }
    }

    /// Whether a sleep can be ended.
    pub fn wakes(&self) -> bool {
        self.device.is_some() || self.guest.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// This thread is going to sleep by parking; until now it may have been another.
    pub fn wakes_this_thread(&self) {
        let mut guest = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
        if guest.as_ref().is_none_or(|thread| thread.id() != current().id()) {
            *guest = Some(current());
        }
    }

    /// Wakes the shard if it sleeps, after something was left for it.
    pub fn ring(&self) {
        self.bell.ring_by(|| match &self.device {
            Some(wake) => wake(),
            None => {
                let guest = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(thread) = &*guest {
                    thread.unpark();
                }
            }
        });
    }
}
