//! Bounds of the control socket: every client gets an outcome in time. Real sockets, simulated
//! clock.

//~ operations: unknown words, long lines and silent clients of the control socket are bounded

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::*;
use crate::ui::Head;

/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);

/// A daemon of this process's user, polled by the test.
struct Daemon {
    control: Control,
    now: Time,
    name: String,
}

/// A client.
struct Client(BufReader<UnixStream>);

impl Daemon {
    fn new() -> Self {
        // Tests run side by side.
        static RIGS: AtomicU32 = AtomicU32::new(0);
        let name = format!("test-{}-{}", std::process::id(), RIGS.fetch_add(1, Ordering::Relaxed));
        let control = flags(&name).open(Some(&ui()), vec!["a.toml".into()]);
        let control = control.expect("a free name").expect("a control socket");
        Self { control, now: Time::ZERO + Span::from_secs(1), name }
    }

    /// A client that has sent `bytes`.
    fn client(&self, bytes: &[u8]) -> Client {
        let (mut stream, _) = host::control::ask(&self.name, LIMIT).expect("a listener");
        stream.write_all(bytes).expect("space in the socket buffer");
        Client(BufReader::new(stream))
    }

    /// Polls the daemon `later` after the last time.
    fn poll(&mut self, later: Span) {
        self.now += later;
        self.control.poll(self.now);
    }
}

impl Client {
    /// The answer, which is already there.
    fn answer(&mut self) -> ControlResponse {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Outcome and text of the answer.
    fn reply(&mut self) -> (bool, String) {
        let ControlResponse { done, message, .. } = self.answer();
        (done, message.expect("words"))
    }

    fn has_none(&mut self) -> bool {
        self.0.get_ref().set_nonblocking(true).expect("it is a socket");
        let end = self.0.read(&mut [0]).map_err(|e| e.kind());
        self.0.get_ref().set_nonblocking(false).expect("it is a socket");
        end == Err(ErrorKind::WouldBlock)
    }
}

fn flags(name: &str) -> Flags {
    Flags { control: Some(name.to_owned()) }
}

fn ui() -> Ui {
    let head = Head { command: "serve", about: "echo".to_owned(), rate: "greenwave_responses_total" };
    let flags = crate::ui::Flags { ui: None, ui_remote: false };
    flags.open(head, true).expect("a view without a server").expect("an open view")
}

#[test]
fn status_describes_the_daemon() {
    let mut daemon = Daemon::new();
    let mut client = daemon.client(b"status\n");
    daemon.poll(Span::ZERO);
    let status = client.answer().status.expect("a status");
    assert_eq!((status.user, status.reloads), (geteuid().as_raw(), true));
    assert_eq!(status.reads, ["a.toml"]);
    assert_eq!((status.live.command.as_str(), status.live.process), ("serve", std::process::id()));
}

/// A client of user `user`, in a thread that changes to that user; `None` without the permission
/// to.
fn of_another(daemon: &Daemon, user: u32, bytes: &'static [u8]) -> Option<Client> {
    let user = Uid::from_raw(user);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| set_thread_res_uid(user, user, user).ok().map(|()| daemon.client(bytes)));
        client.join().expect("a connection")
    })
}

//~ operations: only root and the daemon's users can control it
#[test]
fn another_user_is_refused_with_the_permitted_users() {
    let mut daemon = Daemon::new();
    let Some(mut stranger) = of_another(&daemon, 70_001, b"end\n") else {
        let line = "skipped: another_user_is_refused_with_the_permitted_users: only root can switch to another user\n";
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    };
    // A silent client gets the same refusal.
    let mut silent = of_another(&daemon, 70_001, b"").expect("permission to change the user");
    daemon.poll(Span::ZERO);
    let answer = stranger.answer();
    let says = format!("user 70001 may not control {}; allowed: root", daemon.name);
    assert_eq!((answer.done, answer.message), (false, Some(says.clone())));
    assert_eq!(silent.reply(), (false, says));
    assert!(daemon.control.clients.is_empty(), "refused clients are dropped");
    assert!(!host::signals::is_set());

    // The user that started the daemon may command it though root runs it now.
    daemon.control.daemon.owner = 70_002;
    let mut owner = of_another(&daemon, 70_002, b"status\n").expect("permission to change the user");
    let mut stranger = of_another(&daemon, 70_001, b"reload\n").expect("permission to change the user");
    daemon.poll(Span::ZERO);
    assert!(owner.answer().done);
    let says = format!("user 70001 may not control {}; allowed: root and user 70002", daemon.name);
    assert_eq!(stranger.reply(), (false, says));
    assert!(!daemon.control.begin_reload());
}

#[test]
fn an_unknown_command_is_refused_with_the_valid_ones() {
    for (bytes, says) in [
        (&b"restart\n"[..], "unknown command \"restart\""),
        (&[b'x'; 500], "a line has at most 64 bytes"),
        (b"\n", "unknown command \"\""),
    ] {
        let mut daemon = Daemon::new();
        let mut client = daemon.client(bytes);
        daemon.poll(Span::ZERO);
        let answer = client.answer();
        assert_eq!((answer.done, answer.message.as_deref()), (false, Some(says)));
        assert_eq!(answer.advice.as_deref(), Some("status, reload or stop"));
        assert!(daemon.control.clients.is_empty());
    }
}

#[test]
fn silent_clients_time_out_and_closed_ones_are_dropped() {
    let mut daemon = Daemon::new();
    let (mut silent, mut slow, gone) = (daemon.client(b""), daemon.client(b"sta"), daemon.client(b""));
    daemon.poll(Span::ZERO);
    assert_eq!(daemon.control.clients.len(), 3);
    drop(gone);
    daemon.poll(Span::from_millis(900));
    assert_eq!(daemon.control.clients.len(), 2);
    slow.0.get_ref().write_all(b"tus\n").expect("space in the socket buffer");
    daemon.poll(Span::from_millis(99));
    assert!(slow.answer().done);
    assert!(silent.has_none());
    daemon.poll(Span::from_millis(1));
    assert_eq!(silent.reply(), (false, "no request within 1.00 s".to_owned()));
    assert!(daemon.control.clients.is_empty());
}

//~ operations: a reload is answered by its own result
#[test]
fn a_reload_is_answered_by_its_own_outcome() {
    let mut daemon = Daemon::new();
    assert!(!daemon.control.begin_reload(), "no reload requested");
    let mut first = daemon.client(b"reload\n");
    daemon.poll(Span::ZERO);
    assert!(daemon.control.begin_reload());
    let mut second = daemon.client(b"reload\n");
    daemon.poll(Span::ZERO);
    report_reload(
        Some(&mut daemon.control),
        daemon.now,
        &Err(Error::new("a.toml:3: no flag").advice("a flag")),
    );
    let answer = first.answer();
    assert_eq!((answer.done, answer.message.as_deref()), (false, Some("a.toml:3: no flag")));
    assert_eq!(answer.advice.as_deref(), Some("a flag"));
    assert!(second.has_none(), "its file has not been read");
    daemon.poll(Span::ZERO);
    assert!(daemon.control.begin_reload());
    report_reload(Some(&mut daemon.control), daemon.now, &Ok("reloaded".to_owned()));
    assert_eq!(second.reply(), (true, "reloaded".to_owned()));
    assert!(!daemon.control.begin_reload());
}

#[test]
fn a_reload_without_an_outcome_times_out() {
    let mut daemon = Daemon::new();
    let mut client = daemon.client(b"reload\n");
    daemon.poll(Span::ZERO);
    assert!(daemon.control.begin_reload());
    daemon.poll(OUTCOME_MAX);
    let message = "no result of the reload within 10.0 s; see the daemon's log".to_owned();
    assert_eq!(client.reply(), (false, message));
    report_reload(Some(&mut daemon.control), daemon.now, &Ok("reloaded".to_owned()));
}

#[test]
fn excess_clients_are_served_in_turn() {
    let mut daemon = Daemon::new();
    let silent: Vec<Client> = (0..CLIENTS_MAX).map(|_| daemon.client(b"")).collect();
    let mut asking: Vec<Client> = (0..50).map(|_| daemon.client(b"status\n")).collect();
    daemon.poll(Span::ZERO);
    assert_eq!(daemon.control.clients.len(), CLIENTS_MAX);
    assert!(asking.iter_mut().all(Client::has_none), "there is no place");
    daemon.poll(ASK_MAX);
    assert!(daemon.control.clients.is_empty());
    for client in &mut asking {
        assert!(client.answer().done);
    }
    drop(silent);
}

#[test]
fn a_name_in_use_is_refused_with_its_owner() {
    let daemon = Daemon::new();
    let second = flags(&daemon.name).open(Some(&ui()), Vec::new());
    let what = format!(
        "error: --control {}: the name is in use by process {} of user {}\n  try: another name; greenwave control {} status shows its daemon",
        daemon.name,
        std::process::id(),
        geteuid().as_raw(),
        daemon.name
    );
    assert_eq!(second.err().map(|e| e.to_string()), Some(what));
}
