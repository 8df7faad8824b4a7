//! `--control NAME`: control socket of a daemon, for its status, a reload and its end; [`client`]
//! is the other side.
//!
//! The daemon's signal loop polls it, so it has no thread, lock or capability of its own, and a
//! command is carried out where a signal would be. The kernel reports a client's user before a byte
//! is read; a client without permission is refused without reading further. Bounds: [`CLIENTS_MAX`]
//! clients at a time, the others wait in the kernel's queue; a line of [`protocol::LINE_MAX`] bytes
//! within [`ASK_MAX`]; an outcome within [`OUTCOME_MAX`], and [`HEAR_MAX`] for the client to read
//! it.

pub mod client;
mod protocol;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use host::control::{Listener, Peer};
use queueing::{Span, Time};
use rustix::process::geteuid;

use crate::Error;
use crate::error::plain;
use crate::ui::{LiveHandle, Ui};
use protocol::{Command, ControlResponse, DaemonStatus, LINE_MAX, may, read_command};

/// Name of the daemon for `greenwave control`.
// clap groups arguments by type name, and the command's own arguments have the same one.
#[derive(clap::Args)]
#[group(skip)]
pub struct Flags {
    /// Name for `greenwave control NAME status|reload|stop`.
    #[arg(long, value_name = "NAME", value_parser = protocol::name)]
    control: Option<String>,
}

impl Flags {
    /// True if the daemon has a control socket.
    pub fn is_on(&self) -> bool {
        self.control.is_some()
    }

    /// Listens, if requested: before anything is created, so that a second daemon of the name
    /// creates nothing. `ui` provides the figures; `reads` are the daemon's configuration files.
    ///
    /// # Errors
    /// Another process has the name.
    pub fn open(&self, ui: Option<&Ui>, reads: Vec<PathBuf>) -> Result<Option<Control>, Error> {
        let (Some(name), Some(ui)) = (&self.control, ui) else { return Ok(None) };
        let listener = Listener::open(name).map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => taken(name),
            _ => Error::new(format!("--control {name}: {}", plain(&e.to_string()))),
        })?;
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let daemon = Daemon {
            name: name.clone(),
            owner: geteuid().as_raw(),
            reads,
            began_unix_s: began.as_secs(),
            view: ui.handle(),
        };
        Ok(Some(Control { listener, daemon, clients: Vec::new() }))
    }
}

/// Error of a name in use; with the process, if known.
fn taken(name: &str) -> Error {
    let whose = host::control::ask(name, std::time::Duration::from_secs(1));
    let holder = whose.map_or("another process".to_owned(), |(_, credentials)| match credentials.process {
        0 => format!("a process of user {}", credentials.user),
        process => format!("process {process} of user {}", credentials.user),
    });
    let advice = format!("another name; greenwave control {name} status shows its daemon");
    Error::new(format!("--control {name}: the name is in use by {holder}")).advice(advice)
}

/// Reports the outcome of a reload: on stderr, and to the client of `control` that requested it.
pub fn report_reload(control: Option<&mut Control>, now: Time, outcome: &Result<String, Error>) {
    match outcome {
        Ok(message) => errln!("{message}"),
        Err(e) => errln!("{e}"),
    }
    if let Some(control) = control {
        control.on_outcome(now, outcome);
    }
}

/// A daemon's control socket; dropping it frees the name.
pub struct Control {
    listener: Listener,
    daemon: Daemon,
    clients: Vec<Client>,
}

/// The daemon's identity.
struct Daemon {
    name: String,
    /// Effective user at the start.
    owner: u32,
    reads: Vec<PathBuf>,
    began_unix_s: u64,
    view: LiveHandle,
}

struct Client {
    peer: Peer,
    state: State,
    /// Deadline of the current state.
    until: Time,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Sends its request: the bytes so far.
    Asks(Vec<u8>),
    /// Waits for a reload that has not begun.
    Waits,
    /// Waits for the outcome of a reload in progress.
    Reloads,
    /// Receives its answer: the bytes still to send.
    Hears(Vec<u8>),
    /// Gone, or fully answered.
    Over,
}

/// Maximum number of clients at a time.
const CLIENTS_MAX: usize = 16;
/// Maximum number of clients accepted per poll.
const LOOK_MAX: usize = 64;
/// Maximum time for a client to send its request.
const ASK_MAX: Span = Span::from_secs(1);
/// Maximum wait for the outcome of a reload.
const OUTCOME_MAX: Span = Span::from_secs(10);
/// Maximum time for a client to read the answer.
const HEAR_MAX: Span = Span::from_secs(4);

impl Control {
    /// Accepts clients and advances each; never waits. A permitted `stop` sets
    /// [`host::interrupt::flag`].
    pub fn poll(&mut self, now: Time) {
        self.clients.iter_mut().for_each(|client| client.turn(now, &self.daemon));
        self.clients.retain(|client| client.state != State::Over);
        for _ in 0..LOOK_MAX {
            if self.clients.len() >= CLIENTS_MAX {
                return;
            }
            let Some(peer) = self.listener.accept() else { return };
            let mut client = Client { peer, state: State::Asks(Vec::new()), until: now + ASK_MAX };
            if let Err(e) = may(client.peer.credentials.user, &self.daemon.owners(), &self.daemon.name) {
                client.answer(now, &ControlResponse::refused(&e));
            }
            client.turn(now, &self.daemon);
            if client.state != State::Over {
                self.clients.push(client);
            }
        }
    }

    /// True if a client waits for a reload; the caller reads its files now and reports the outcome
    /// ([`tell`]).
    pub fn begin_reload(&mut self) -> bool {
        let mut is_wanted = false;
        for client in self.clients.iter_mut().filter(|client| client.state == State::Waits) {
            (client.state, is_wanted) = (State::Reloads, true);
        }
        is_wanted
    }

    fn on_outcome(&mut self, now: Time, outcome: &Result<String, Error>) {
        let answer = match outcome {
            Ok(message) => ControlResponse::done(message),
            Err(e) => ControlResponse::refused(e),
        };
        for client in self.clients.iter_mut().filter(|client| client.state == State::Reloads) {
            client.answer(now, &answer);
            client.turn(now, &self.daemon);
        }
    }
}

impl Daemon {
    /// The daemon's users: at its start and now.
    fn owners(&self) -> [u32; 2] {
        [self.owner, geteuid().as_raw()]
    }

    fn status(&self) -> DaemonStatus {
        let reads: Vec<_> = self.reads.iter().map(|path| path.display().to_string()).collect();
        let (user, reloads) = (geteuid().as_raw(), !reads.is_empty());
        DaemonStatus { user, began_unix_s: self.began_unix_s, reads, reloads, live: self.view.snapshot() }
    }
}

impl Client {
    /// Advances the client as far as possible now.
    fn turn(&mut self, now: Time, daemon: &Daemon) {
        if let State::Asks(_) = self.state {
            match self.read_command() {
                Ok(None) => {}
                Ok(Some(command)) => self.ask(now, command, daemon),
                Err(e) => self.answer(now, &ControlResponse::refused(&e)),
            }
        }
        if now >= self.until {
            let late = |what: String| ControlResponse::refused(&Error::new(what));
            match self.state {
                State::Asks(_) => self.answer(now, &late(format!("no request within {ASK_MAX}"))),
                State::Waits | State::Reloads => {
                    let what = format!("no result of the reload within {OUTCOME_MAX}; see the daemon's log");
                    self.answer(now, &late(what));
                }
                State::Hears(_) | State::Over => self.state = State::Over,
            }
        }
        self.send();
    }

    /// The client's command, once its line is complete; the bytes are kept.
    fn read_command(&mut self) -> Result<Option<Command>, Error> {
        let State::Asks(request) = &mut self.state else { return Ok(None) };
        let mut piece = [0; LINE_MAX + 2];
        match self.peer.receive(&mut piece) {
            Ok(0) if request.is_empty() => self.state = State::Over,
            Ok(0) => return read_command(request, false),
            Ok(len) => {
                request.extend_from_slice(&piece[..len]);
                return read_command(request, true);
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.state = State::Over,
        }
        Ok(None)
    }

    fn ask(&mut self, now: Time, command: Command, daemon: &Daemon) {
        match command {
            Command::Status => self.answer(now, &ControlResponse::status(daemon.status())),
            Command::Reload => (self.state, self.until) = (State::Waits, now + OUTCOME_MAX),
            Command::Stop => {
                let client = self.peer.credentials;
                errln!("stopped by process {} of user {}", client.process, client.user);
                self.answer(now, &ControlResponse::done("stopping"));
                host::signals::flag().store(true, Ordering::Relaxed);
            }
        }
    }

    fn answer(&mut self, now: Time, answer: &ControlResponse) {
        (self.state, self.until) = (State::Hears(answer.line()), now + HEAR_MAX);
    }

    /// Sends as much as the socket takes.
    fn send(&mut self) {
        let State::Hears(rest) = &mut self.state else { return };
        match self.peer.send(rest) {
            Ok(len) => drop(rest.drain(..len)),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return,
            Err(_) => rest.clear(),
        }
        if rest.is_empty() {
            self.state = State::Over;
        }
    }
}

#[cfg(test)]
mod tests;
