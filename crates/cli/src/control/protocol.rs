//! Protocol of the control socket: a line in, a line of JSON out, and the permission to ask
//! (`spec/control.md`). Pure: no socket and no clock.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::ui::snapshot::Snapshot;

/// A command of the control socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Command {
    /// Print the daemon's state and counters.
    Status,
    /// Reload its files, as SIGHUP does, and print the result.
    Reload,
    /// Stop the daemon, as SIGTERM does.
    #[value(alias = "end")]
    Stop,
}

/// An answer; has a message or a status.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlResponse {
    /// Always [`VERSION`].
    pub control: u32,
    /// True if the command was carried out.
    pub done: bool,
    /// The outcome, one line; its key is `said`, as earlier versions read it.
    #[serde(default, rename = "said", skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Advice, where the command was not carried out.
    #[serde(default, rename = "try", skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Answer to `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DaemonStatus>,
}

/// A daemon's status.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// The effective user now.
    pub user: u32,
    /// Start time in seconds since 1970.
    pub began_unix_s: u64,
    /// Files of its flags and policies.
    pub reads: Vec<String>,
    /// True if the daemon can reload them.
    pub reloads: bool,
    /// Command, purpose, process, uptime and figures: the same as in its live view.
    pub live: Snapshot,
}

/// Protocol version; changes when a reader of the last version would misread this one.
pub const VERSION: u32 = 1;
/// Largest request line in bytes, without its end.
pub const LINE_MAX: usize = 64;
/// Longest name in bytes.
const NAME_MAX: usize = 64;

/// A daemon's name.
///
/// # Errors
/// The valid characters and length.
pub fn name(text: &str) -> Result<String, String> {
    let is_good = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    match (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(is_good) {
        true => Ok(text.to_owned()),
        false => Err(format!("a name has 1 to {NAME_MAX} letters, digits, and any of - _ .")),
    }
}

/// The command in the bytes so far: `None` where the line has no end and `more` may come.
///
/// # Errors
/// The line is too long, or not a command.
pub fn read_command(bytes: &[u8], more: bool) -> Result<Option<Command>, Error> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let line = &bytes[..end.unwrap_or(bytes.len())];
    if line.len() > LINE_MAX {
        return Err(Error::new(format!("a line has at most {LINE_MAX} bytes")).advice(WORDS));
    }
    if end.is_none() && more {
        return Ok(None);
    }
    let word = String::from_utf8_lossy(line);
    let command = Command::from_str(word.trim(), false);
    command.map(Some).map_err(|_| Error::new(format!("unknown command {:?}", word.trim())).advice(WORDS))
}

const WORDS: &str = "status, reload or stop";

/// Checks that `user` may command a daemon of `owners`, besides root; `name` is the daemon's.
///
/// # Errors
/// The users that may.
pub fn may(user: u32, owners: &[u32], name: &str) -> Result<(), Error> {
    if user == ROOT || owners.contains(&user) {
        return Ok(());
    }
    let mut owners: Vec<u32> = owners.iter().copied().filter(|owner| *owner != ROOT).collect();
    owners.dedup();
    let others = owners.iter().map(|owner| format!(" and user {owner}")).collect::<String>();
    let what = format!("user {user} may not control {name}; allowed: root{others}");
    Err(Error::new(what).advice(format!("sudo greenwave control {name}")))
}

/// User id of root, which may send every request.
pub const ROOT: u32 = 0;

impl Command {
    /// The request line of the command.
    pub fn line(self) -> String {
        // A daemon of the previous release knows only this word.
        if self == Self::Stop {
            return "end\n".to_owned();
        }
        self.to_possible_value().map_or(String::new(), |value| format!("{}\n", value.get_name()))
    }
}

impl ControlResponse {
    /// Answer to a command that was carried out.
    pub fn done(message: &str) -> Self {
        Self { control: VERSION, done: true, message: Some(message.to_owned()), advice: None, status: None }
    }

    /// Answer to a refused command.
    pub fn refused(e: &Error) -> Self {
        let (what, advice) = e.parts();
        let advice = advice.map(str::to_owned);
        Self { control: VERSION, done: false, message: Some(what.to_owned()), advice, status: None }
    }

    /// Answer with the daemon's status.
    pub fn status(status: DaemonStatus) -> Self {
        Self { control: VERSION, done: true, message: None, advice: None, status: Some(status) }
    }

    /// The answer as a line.
    pub fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("words and figures are JSON");
        line.push(b'\n');
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_line_is_a_command_and_a_long_one_is_refused_early() {
        for (bytes, command) in [
            ("status\n", Some(Command::Status)),
            ("reload\r\nand more", Some(Command::Reload)),
            (" stop \n", Some(Command::Stop)),
            ("", None),
            ("stat", None),
        ] {
            assert_eq!(read_command(bytes.as_bytes(), true), Ok(command), "{bytes:?}");
        }
        assert_eq!(read_command(b"stop", false), Ok(Some(Command::Stop)), "nothing more comes");
        assert_eq!(read_command(b"end\n", true), Ok(Some(Command::Stop)), "the old spelling");
        assert_eq!(read_command(&[b'a'; LINE_MAX], true), Ok(None));
        for line in [&[b'a'; LINE_MAX + 1][..], &[&[0xff; LINE_MAX + 1][..], b"\n"].concat()[..]] {
            let refused = read_command(line, true).map_err(|e| e.to_string());
            assert_eq!(
                refused,
                Err("error: a line has at most 64 bytes\n  try: status, reload or stop".into())
            );
        }
        for (line, what) in [("\n", "\"\""), ("STOP\n", "\"STOP\""), ("stop now\n", "\"stop now\"")] {
            let refused = read_command(line.as_bytes(), true).expect_err(line).to_string();
            assert!(refused.starts_with(&format!("error: unknown command {what}\n")), "{refused}");
        }
        let escaped = read_command(b"\x1b[2J\xff\n", true).expect_err("no word").to_string();
        assert!(escaped.chars().all(|c| c == '\n' || !c.is_control()), "{escaped}");
    }

    #[test]
    fn every_command_survives_a_round_trip() {
        for command in Command::value_variants() {
            assert_eq!(read_command(command.line().as_bytes(), true), Ok(Some(*command)));
        }
    }

    #[test]
    fn only_root_and_the_daemon_s_users_may_control_it() {
        let refused = |user, owners: &[u32]| may(user, owners, "web").err().map(|e| e.to_string());
        for (user, owners) in [(0, &[33][..]), (33, &[33]), (33, &[0, 33]), (0, &[])] {
            assert_eq!(refused(user, owners), None, "{user} of {owners:?}");
        }
        let advice = "\n  try: sudo greenwave control web";
        for (owners, allowed) in
            [(&[0, 0][..], "root"), (&[0, 33], "root and user 33"), (&[33, 33], "root and user 33")]
        {
            let what = format!("error: user 1000 may not control web; allowed: {allowed}{advice}");
            assert_eq!(refused(1000, owners), Some(what));
        }
    }

    #[test]
    fn names_have_letters_digits_and_marks() {
        for good in ["web", "guard-eth0", "a.b_C9", &"a".repeat(64)] {
            assert_eq!(name(good).as_deref(), Ok(good));
        }
        for bad in ["", "a b", "a/b", "a\0", "ä", &"a".repeat(65)] {
            assert!(name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_answer_is_one_line_that_is_read_back() {
        let refused = ControlResponse::refused(&Error::new("line 3:\nno flag").advice("another"));
        for answer in [ControlResponse::done("reloaded"), refused] {
            let line = answer.line();
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(serde_json::from_slice::<ControlResponse>(&line).expect("JSON"), answer);
        }
        let text = String::from_utf8(ControlResponse::done("it ends").line()).expect("text");
        assert_eq!(text, "{\"control\":1,\"done\":true,\"said\":\"it ends\"}\n");
    }
}
