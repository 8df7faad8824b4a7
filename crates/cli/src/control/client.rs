//! `greenwave control`: client of a daemon's control socket.
//!
//! Any process could take the name, but the kernel reports its user. Only root talks to a daemon of
//! another user that is not root.

use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use host::control::Credentials;
use rustix::net::{SendFlags, send};
use rustix::process::geteuid;

use super::protocol::{self, Command, ControlResponse, DaemonStatus, ROOT, VERSION};
use crate::Error;
use crate::error::plain;
use crate::table::Table;
use crate::ui::tables::{self, TitledTable};

/// Query or control a daemon that runs with --control.
///
/// Only root and the daemon's user have access. Names are unique per network
/// namespace.
#[derive(clap::Args)]
pub struct Args {
    /// Name of the daemon, from its --control.
    #[arg(value_parser = protocol::name)]
    name: String,
    /// Action.
    #[arg(value_enum)]
    action: Command,
    /// Print the answer as JSON.
    #[arg(long)]
    json: bool,
}

/// Longer than a working daemon takes for any command.
const TIMEOUT: Duration = Duration::from_secs(12);
/// Largest answer in bytes.
const BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Sends the command and prints the answer.
///
/// # Errors
/// No process has the name or answers; the command was refused.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let (stream, peer) = host::control::ask(&args.name, TIMEOUT).map_err(|e| unheard(&args.name, &e))?;
    if !is_trusted(peer.user, geteuid().as_raw()) {
        let what =
            format!("{} belongs to user {}, not to root or you; no request was sent", args.name, peer.user);
        return Err(Error::new(what).advice("sudo, if that user is trusted"));
    }
    let text = exchange(stream, args.action).map_err(|e| silent(&args.name, peer, &e))?;
    let answer = read(&args.name, &text)?;
    if !answer.done {
        let refused = Error::new(answer.message.unwrap_or_default());
        return Err(answer.advice.into_iter().fold(refused, Error::advice));
    }
    match (answer.status, answer.message) {
        _ if args.json => outln!("{}", text.trim_end()),
        (Some(status), _) => out!("{}", shown(&args.name, &status)),
        (None, message) => outln!("{}", message.unwrap_or_default()),
    }
    Ok(ExitCode::SUCCESS)
}

/// True if a client of user `ours` may trust a listener of `user`.
fn is_trusted(user: u32, ours: u32) -> bool {
    user == ROOT || user == ours || ours == ROOT
}

/// The answer, one line.
fn exchange(stream: UnixStream, command: Command) -> std::io::Result<String> {
    // A refused client gets its answer before its request is read, and the connection ends: the
    // answer counts, not the write.
    let asked = send(&stream, command.line().as_bytes(), SendFlags::NOSIGNAL);
    let mut line = Vec::new();
    let read = BufReader::new(stream.take(BYTES_MAX)).read_until(b'\n', &mut line);
    match line.pop() {
        Some(b'\n') => String::from_utf8(line).map_err(|_| ErrorKind::InvalidData.into()),
        _ => {
            Err(read.err().or(asked.err().map(Into::into)).unwrap_or_else(|| ErrorKind::UnexpectedEof.into()))
        }
    }
}

fn read(name: &str, text: &str) -> Result<ControlResponse, Error> {
    let others = |why: String| Error::new(format!("{name} is not a greenwave daemon of this version: {why}"));
    let answer: ControlResponse = serde_json::from_str(text).map_err(|e| others(e.to_string()))?;
    match answer.control {
        VERSION => Ok(answer),
        other => Err(others(format!("it answers with protocol version {other}, this one uses {VERSION}"))),
    }
}

/// Error of a name without a listener.
fn unheard(name: &str, e: &std::io::Error) -> Error {
    match e.kind() {
        ErrorKind::ConnectionRefused => {
            let there = match host::control::names() {
                names if names.is_empty() => format!("greenwave serve … --control {name}"),
                names => format!("one of {}", names.join(", ")),
            };
            Error::new(format!("no daemon named {name} in this network namespace")).advice(format!(
                "{there}; in another namespace: sudo ip netns exec NAMESPACE greenwave control {name} status"
            ))
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Error::new(format!("too many clients of {name}")).advice("later")
        }
        _ => Error::new(format!("{name}: {}", plain(&e.to_string()))),
    }
}

/// Error of a daemon that accepted and does not answer.
fn silent(name: &str, peer: Credentials, e: &std::io::Error) -> Error {
    match e.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let what =
                format!("no answer from {name} within {} s: it is starting or hangs", TIMEOUT.as_secs());
            Error::new(what).advice(format!("later, or kill {}", peer.process))
        }
        _ => Error::new(format!("{name} ended before it answered")),
    }
}

/// A daemon's status as tables.
fn shown(name: &str, status: &DaemonStatus) -> String {
    let DaemonStatus { user, reads, reloads, live, .. } = status;
    let mut table = Table::new(2, &["daemon", name]);
    let mut row = |what: &str, is: String| table.row(vec![what.to_owned(), is]);
    row("command", format!("{}, {}", live.command, live.about));
    row("process", format!("{}, user {user}, greenwave {}", live.process, live.version));
    row("up", tables::up(live.at_s));
    if !reads.is_empty() {
        row("reads", reads.join(", "));
    }
    row("reloads", if *reloads { "yes" } else { "no" }.to_owned());
    row("rate", tables::rate(live));
    tables::caution(live).into_iter().for_each(|caution| row("note", caution));
    let tables = tables::sections(live).into_iter();
    let tables =
        tables.map(|TitledTable { title, table }| format!("\n{title}\n{}\n", table.to_string().trim_end()));
    format!("{table}{}", tables.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::fixture::{at, serve};

    #[test]
    fn a_daemon_s_description_precedes_its_figures() {
        let live = serve(5).snapshot(at(5.0), 10);
        let reads = vec!["greenwave.toml".to_owned(), "policy.toml".to_owned()];
        let status = DaemonStatus { user: 33, began_unix_s: 0, reads, reloads: true, live };
        let text = shown("web", &status);
        let head = format!(
            "daemon   web\ncommand  serve, {}\nprocess  {}, user 33, ",
            status.live.about, status.live.process
        );
        assert!(text.starts_with(&head), "{text}");
        for line in [
            "\nup       5 s\n",
            "\nreads    greenwave.toml, policy.toml\n",
            "\nreloads  yes\n",
            "\nrate     ",
        ] {
            assert!(text.contains(line), "{line:?} is not in {text}");
        }
        assert!(text.contains("\n\nCounters\n"), "{text}");
        let line = ControlResponse::status(status).line();
        let text = std::str::from_utf8(&line).expect("text");
        assert!(read("web", text).expect("an answer").status.is_some());
    }

    #[test]
    fn only_root_contacts_a_daemon_of_another_user() {
        let cases = [(ROOT, 33, true), (33, 33, true), (33, ROOT, true), (33, 34, false), (34, 33, false)];
        for (user, ours, expected) in cases {
            assert_eq!(is_trusted(user, ours), expected, "user {user}'s, asked by {ours}");
        }
    }

    #[test]
    fn an_answer_of_another_version_is_reported() {
        let check = |text: &str, expected: &str| {
            let error = read("web", text).map(|_| ()).expect_err(text).to_string();
            assert!(
                error.starts_with(&format!(
                    "error: web is not a greenwave daemon of this version: {expected}"
                )),
                "{error}"
            );
        };
        check("{\"control\":2,\"done\":true}", "it answers with protocol version 2, this one uses 1");
        check("{\"control\":1}", "missing field `done`");
        check("hello", "expected value");
    }
}
