//! The live view: what a running command shows to a browser, to `greenwave top`
//! and to Prometheus.
//!
//! The command tells figures, spans and cores about once a second ([`MetricsSample`]);
//! [`live`] keeps a minute of them and makes a [`Snapshot`](snapshot::Snapshot)
//! of any window; [`metrics`], [`page`] and [`view`] write it down; [`server`]
//! answers. Only the last has a socket and a thread, and nothing here touches
//! what it shows.

#[cfg(test)]
pub mod fixture;
pub mod labels;
pub mod metrics;
mod page;
mod server;
pub mod snapshot;
pub mod tables;
pub mod window;

use std::cell::Cell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::Monotonic;
use host::sandbox::SandboxError;
use queueing::{Clock, Time};

pub use labels::Labels;
pub use snapshot::{Figure, Move, Owner};
pub use window::{Head, MetricsSample, Spans};

use crate::Error;
use crate::error::plain;
use server::{DropPrivileges, Server, Site};
use snapshot::Snapshot;
use window::{Live, STEP, WINDOW_S};

/// Where a command shows itself.
#[derive(clap::Args)]
pub struct Flags {
    /// Serve a live page, Prometheus /metrics and the data of `greenwave
    /// top` at this address, such as 127.0.0.1:9900.
    #[arg(long, value_name = "ADDRESS", verbatim_doc_comment)]
    pub ui: Option<SocketAddr>,
    /// Allow a --ui address beyond loopback.
    #[arg(long, requires = "ui")]
    pub ui_remote: bool,
}

impl Flags {
    /// Begins to show what `head` says, if that is asked for; `kept`: whether it is
    /// to be seen in another way ([`Ui::seen`]) even where nobody listens.
    ///
    /// # Errors
    /// An address for others without a word that they may look; one where
    /// nobody can listen.
    pub fn open(&self, head: Head, kept: bool) -> Result<Option<Ui>, Error> {
        if self.ui.is_none() && !kept {
            return Ok(None);
        }
        let clock = Monotonic::new();
        let seen = Seen { live: Arc::new(Mutex::new(Live::new(head, clock.now()))), clock };
        let server = self.ui.map(|place| self.listen(place, &seen)).transpose()?;
        Ok(Some(Ui { seen, server, told: Cell::new(None) }))
    }

    /// Checks of [`open`](Self::open) before it listens.
    ///
    /// # Errors
    /// An address for others without a word that they may look.
    pub fn check(&self) -> Result<(), Error> {
        let Some(place) = self.ui else { return Ok(()) };
        if !place.ip().is_loopback() && !self.ui_remote {
            let what = format!("--ui {place}: other machines could look; 127.0.0.1 and ::1 are for this one");
            let here = SocketAddr::new([127, 0, 0, 1].into(), place.port());
            return Err(Error::new(what).advice(format!("--ui {here}, or --ui-remote if they may")));
        }
        Ok(())
    }

    fn listen(&self, place: SocketAddr, seen: &Seen) -> Result<Server, Error> {
        self.check()?;
        let site = Site { live: seen.live.clone(), clock: seen.clock, any_name: self.ui_remote };
        let server = Server::start(place, site).map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => Error::new(format!("--ui {place}: the address is already in use"))
                .advice(format!("another port; greenwave top {place} shows whether it is greenwave")),
            _ => Error::new(format!("--ui {place}: {}", plain(&e.to_string()))).advice("--ui 127.0.0.1:9900"),
        })?;
        let place = server.place();
        eprintln!("shown at http://{place}/ and by greenwave top {place}");
        Ok(server)
    }
}

/// A view that is open; closed when this is dropped.
pub struct Ui {
    seen: Seen,
    /// Where people look, if anywhere.
    server: Option<Server>,
    /// When something was told last: who asks that in every round waits for nobody who looks.
    told: Cell<Option<Time>>,
}

/// What a view shows, for who is asked for it in another way.
#[derive(Clone)]
pub struct Seen {
    live: Arc<Mutex<Live>>,
    clock: Monotonic,
}

impl Seen {
    /// What is live now.
    pub fn snapshot(&self) -> Snapshot {
        self.live().snapshot(self.clock.now(), WINDOW_S)
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ui {
    /// What it shows.
    pub fn seen(&self) -> Seen {
        self.seen.clone()
    }

    /// Has its thread give up what it does not need.
    ///
    /// # Errors
    /// What `give_up` says, which that thread calls.
    pub fn confine(&self, give_up: DropPrivileges) -> Result<(), SandboxError> {
        self.server.as_ref().map_or(Ok(()), |server| server.confine(give_up))
    }

    /// Whether it is time to tell something.
    pub fn is_due(&self, now: Time) -> bool {
        self.told.get().is_none_or(|last| now.since(last) >= STEP)
    }

    /// Shows what is told.
    pub fn tell(&self, now: Time, told: MetricsSample<'_>) {
        self.told.set(Some(now));
        self.seen.live().tell(now, told);
    }

    /// `at` in seconds since this was opened.
    pub fn seconds(&self, at: Time) -> f64 {
        self.seen.live().seconds(at)
    }
}
