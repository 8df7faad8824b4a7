//! Live view of a running command, for a browser, `greenwave top` and Prometheus.
//!
//! The command reports figures, spans and cores about once a second ([`MetricsSample`]); [`window`]
//! keeps a minute of them and makes a [`Snapshot`](snapshot::Snapshot) of any window; [`metrics`],
//! [`page`] and [`tables`] format it; [`server`] answers requests. Only the last has a socket and a
//! thread, and nothing here changes what it shows.

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
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::Monotonic;
use host::sandbox::SandboxError;
use queueing::{Clock, Time};

pub use labels::Labels;
pub use snapshot::{Figure, Move, Owner};
pub use window::{Head, MetricsSample, Spans};

use crate::Error;
use crate::error::plain;
use server::{DropPrivileges, Site, UiServer};
use snapshot::Snapshot;
use window::{Live, STEP, WINDOW_S};

/// Address of a command's live view.
#[derive(clap::Args)]
pub struct Flags {
    /// Serve a live page, Prometheus /metrics and the data of `greenwave
    /// top` at this address, such as 127.0.0.1:9900.
    #[arg(long, value_name = "ADDRESS", verbatim_doc_comment, value_parser = address)]
    pub ui: Option<SocketAddr>,
    /// Allow a --ui address beyond loopback.
    #[arg(long, requires = "ui")]
    pub ui_remote: bool,
}

/// The address of a live view.
///
/// # Errors
/// The missing part, and a valid address.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let what = match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
        (Ok(address), _) => return Ok(address),
        (_, Ok(ip)) => format!("{text:?} has no port, such as {}", SocketAddr::new(ip, 9900)),
        (..) => match text.trim_start_matches(':').parse::<u16>() {
            Ok(port) => format!("{text:?} is a port without a host, such as 127.0.0.1:{port}"),
            Err(_) => format!("{text:?} is not an IP address and a port, such as 127.0.0.1:9900"),
        },
    };
    Err(what)
}

impl Flags {
    /// Opens the view of `head`, if requested; `kept`: also without a server, for readers of
    /// [`Ui::handle`].
    ///
    /// # Errors
    /// A non-local address without explicit permission; an address that cannot be listened on.
    pub fn open(&self, head: Head, kept: bool) -> Result<Option<Ui>, Error> {
        if self.ui.is_none() && !kept {
            return Ok(None);
        }
        let clock = Monotonic::new();
        let handle = LiveHandle { live: Arc::new(Mutex::new(Live::new(head, clock.now()))), clock };
        let server = self.ui.map(|addr| self.listen(addr, &handle)).transpose()?;
        Ok(Some(Ui { handle, server, last_update: Cell::new(None) }))
    }

    /// The checks of [`open`](Self::open) before it listens.
    ///
    /// # Errors
    /// A non-local address without explicit permission.
    pub fn check(&self) -> Result<(), Error> {
        let Some(addr) = self.ui else { return Ok(()) };
        if !addr.ip().is_loopback() && !self.ui_remote {
            let what = format!("--ui {addr}: reachable from other machines; 127.0.0.1 and ::1 are local");
            let loopback = SocketAddr::new([127, 0, 0, 1].into(), addr.port());
            return Err(Error::new(what).advice(format!("--ui {loopback}, or --ui-remote to allow that")));
        }
        Ok(())
    }

    fn listen(&self, addr: SocketAddr, handle: &LiveHandle) -> Result<UiServer, Error> {
        self.check()?;
        let site = Site { live: handle.live.clone(), clock: handle.clock, any_name: self.ui_remote };
        let server = UiServer::start(addr, site).map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => Error::new(format!("--ui {addr}: the address is already in use"))
                .advice(format!("another port; greenwave top {addr} shows whether it is greenwave")),
            _ => Error::new(format!("--ui {addr}: {}", plain(&e.to_string()))).advice("--ui 127.0.0.1:9900"),
        })?;
        let local_addr = server.addr();
        errln!("shown at http://{local_addr}/ and by greenwave top {local_addr}");
        Ok(server)
    }
}

/// An open view; closed on drop.
pub struct Ui {
    handle: LiveHandle,
    /// The HTTP server, if any.
    server: Option<UiServer>,
    /// Time of the last report; callers check it in every round without a lock.
    last_update: Cell<Option<Time>>,
}

/// A view's data, for other readers.
#[derive(Clone)]
pub struct LiveHandle {
    live: Arc<Mutex<Live>>,
    clock: Monotonic,
}

impl LiveHandle {
    /// The current snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.live().snapshot(self.clock.now(), WINDOW_S)
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ui {
    /// The view's data.
    pub fn handle(&self) -> LiveHandle {
        self.handle.clone()
    }

    /// Drops the server thread's unneeded privileges.
    ///
    /// # Errors
    /// The errors of `give_up`, which that thread calls.
    pub fn confine(&self, give_up: DropPrivileges) -> Result<(), SandboxError> {
        self.server.as_ref().map_or(Ok(()), |server| server.confine(give_up))
    }

    /// True if a report is due.
    pub fn is_due(&self, now: Time) -> bool {
        self.last_update.get().is_none_or(|last| now.since(last) >= STEP)
    }

    /// Publishes a sample.
    pub fn publish(&self, now: Time, sample: MetricsSample<'_>) {
        self.last_update.set(Some(now));
        self.handle.live().update(now, sample);
    }

    /// `at` in seconds since the view was opened.
    pub fn seconds(&self, at: Time) -> f64 {
        self.handle.live().seconds(at)
    }
}
