//! The live view: what a running command shows to a browser, to `greenwave top`
//! and to Prometheus.
//!
//! The command tells figures, spans and cores about once a second ([`Told`]);
//! [`live`] keeps a minute of them and makes a [`Snapshot`](snapshot::Snapshot)
//! of any window; [`metrics`], [`page`] and [`view`] write it down; [`server`]
//! answers. Only the last has a socket and a thread, and nothing here touches
//! what it shows.

#[cfg(test)]
pub mod fixture;
pub mod labels;
pub mod live;
pub mod metrics;
mod page;
mod server;
pub mod snapshot;
pub mod view;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::Monotonic;
use queueing::{Clock, Time};

pub use labels::Labels;
pub use live::{Head, Spans, Told};
pub use snapshot::{Figure, Move, Owner};

use crate::Error;
use crate::error::plain;
use live::Live;
use server::{Server, Site};

/// Where a command shows itself.
#[derive(clap::Args)]
pub struct Flags {
    /// Show it live at this address: a page, /metrics,
    /// and what greenwave top reads (127.0.0.1:9900).
    #[arg(long, value_name = "ADDRESS", verbatim_doc_comment)]
    pub ui: Option<SocketAddr>,
    /// Let other machines look: --ui beyond loopback.
    #[arg(long, requires = "ui")]
    pub ui_remote: bool,
}

impl Flags {
    /// Begins to show what `head` says, if that is asked for.
    ///
    /// # Errors
    /// An address for others without a word that they may look; one where
    /// nobody can listen.
    pub fn open(&self, head: Head) -> Result<Option<Ui>, Error> {
        let Some(place) = self.ui else { return Ok(None) };
        if !place.ip().is_loopback() && !self.ui_remote {
            let what = format!("--ui {place}: other machines could look; 127.0.0.1 and ::1 are for this one");
            let here = SocketAddr::new([127, 0, 0, 1].into(), place.port());
            return Err(Error::new(what).advice(format!("--ui {here}, or --ui-remote if they may")));
        }
        let clock = Monotonic::new();
        let live = Arc::new(Mutex::new(Live::new(head, clock.now())));
        let site = Site { live: live.clone(), clock, any_name: self.ui_remote };
        let server = Server::start(place, site).map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => Error::new(format!("--ui {place}: somebody listens there already"))
                .advice(format!("another port; greenwave top {place} shows whether it is one of ours")),
            _ => Error::new(format!("--ui {place}: {}", plain(&e.to_string()))).advice("--ui 127.0.0.1:9900"),
        })?;
        let place = server.place();
        eprintln!("shown at http://{place}/ and by greenwave top {place}");
        Ok(Some(Ui { live, server }))
    }
}

/// A view that is open; closed when this is dropped.
pub struct Ui {
    live: Arc<Mutex<Live>>,
    server: Server,
}

impl Ui {
    /// Has its thread give up its capabilities, which it does not need.
    pub fn confine(&self) {
        self.server.confine();
    }

    /// Whether it is time to tell something.
    pub fn is_due(&self, now: Time) -> bool {
        self.live().is_due(now)
    }

    /// Shows what is told.
    pub fn tell(&self, now: Time, told: Told<'_>) {
        self.live().tell(now, told);
    }

    /// `at` in seconds since this was opened.
    pub fn seconds(&self, at: Time) -> f64 {
        self.live().seconds(at)
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
