//! Configuration file for all commands: `greenwave --config greenwave.toml serve`.
//!
//! ```toml
//! [serve]
//! device = "tap:gw0"
//! addr = ["10.77.0.2/24", "fd00::2/64"]
//! pin = true
//!
//! [guard.attach]
//! target-delay = "20ms"
//! ```
//!
//! Each command has a section, with its flags as keys: `--help` is the complete reference,
//! and the same parsers read the values. The file becomes words of the command line, before
//! the given ones, so a given flag wins. Positional arguments, such as an interface or a program,
//! are given on the command line only. A running command may read the file again; it applies
//! all changes or none, and only to settings that can change while it runs ([`read_again`],
//! [`Arguments::again`]).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, FromArgMatches};
use host::signals;

use crate::control::Control;
use crate::{Error, commands, refusal};

mod check;
mod file;

pub use check::describe;

use file::{ConfigFile, FlagSetting};

/// Result of `read`, if SIGHUP came since the last call or a client of `control` requests it; on an
/// error all stays as it was. The caller reports the outcome
/// ([`control::report_reload`](crate::control::report_reload)). A command that calls this handles the signal from its
/// start on ([`interrupt::hangup`]).
pub fn read_again<T>(
    control: Option<&mut Control>,
    read: impl FnOnce() -> Result<T, Error>,
) -> Option<Result<T, Error>> {
    let is_asked = control.is_some_and(Control::begin_reload);
    if !signals::hangup().swap(false, Ordering::Relaxed) && !is_asked {
        return None;
    }
    Some(read().map_err(|e| e.and("the previous settings stay in force")))
}

/// A command line, and the words that its file adds.
#[derive(Default)]
pub struct Arguments {
    given: Vec<OsString>,
    added: Vec<FlagSetting>,
}

impl Arguments {
    /// The given words, with the settings of a `--config` before the command.
    ///
    /// # Errors
    /// A file that cannot be read; a section that is no command, or a key that is no flag of the
    /// command, with the line and the valid names.
    pub fn new(given: Vec<OsString>) -> Result<Self, Error> {
        let Some((path, _)) = config(&given) else { return Ok(Self { given, added: Vec::new() }) };
        let (names, end) = command(&given);
        // Words behind `--` belong to another program.
        let ours: Vec<&str> =
            given[end..].iter().take_while(|word| *word != "--").filter_map(|word| word.to_str()).collect();
        let mut added = ConfigFile::read(Path::new(&path))?.settings(&names);
        added.retain(|setting| !setting.is_given(&ours));
        Ok(Self { given, added })
    }

    /// The words to parse.
    pub fn words(&self) -> Vec<OsString> {
        let (head, rest) = self.given.split_at(command(&self.given).1);
        let added = self.added.iter().flat_map(|setting| &setting.words).map(OsString::from);
        head.iter().cloned().chain(added).chain(rest.iter().cloned()).collect()
    }

    /// The file of `--config`, if there is one.
    pub fn file(&self) -> Option<PathBuf> {
        config(&self.given).map(|(path, _)| path.into())
    }

    /// File and line of the flag that `e` is about, if the file sets it.
    pub fn location(&self, e: &clap::Error) -> Option<&str> {
        self.location_of(&flag_of(e)?)
    }

    fn location_of(&self, key: &str) -> Option<&str> {
        self.added.iter().find(|setting| setting.key == key).map(|setting| setting.location.as_str())
    }

    /// The command's arguments by its file as it is now. Only the flags in `may` may have changed.
    ///
    /// # Errors
    /// The errors of [`Arguments::new`]; an invalid value; a changed flag outside `may`, with its line.
    pub fn again<A: FromArgMatches>(&self, may: &[&str]) -> Result<A, Error> {
        let next = Self::new(self.given.clone())?;
        let (before, now) = (self.matches()?, next.matches()?);
        let (names, _) = command(&self.given);
        let command =
            names.iter().try_fold(commands(), |command, name| command.find_subcommand(name).cloned());
        for arg in command.iter().flat_map(file::flags) {
            let key = arg.get_long().unwrap_or_default();
            let [old, new] = [&before, &now].map(|matches| values(matches, arg.get_id().as_str()));
            if old == new || may.contains(&key) {
                continue;
            }
            let file = self.file().map_or(String::new(), |path| path.display().to_string());
            let location = next.location_of(key).unwrap_or(&file);
            let what = format!("{location}: {key} changed from {old} to {new}, which needs a restart");
            let advice =
                format!("a restart, or the old {key}; only {} can change without a restart", may.join(", "));
            return Err(Error::new(what).advice(advice));
        }
        A::from_arg_matches(&now).map_err(|e| refusal(&e, next.location(&e)))
    }

    /// Parsed matches of the command, or of its last subcommand.
    fn matches(&self) -> Result<ArgMatches, Error> {
        let all = commands().try_get_matches_from(self.words());
        let mut matches = all.map_err(|e| refusal(&e, self.location(&e)))?;
        while let Some((_, next)) = matches.remove_subcommand() {
            matches = next;
        }
        Ok(matches)
    }
}

/// The values of a flag, from the file or the command line.
fn values(matches: &ArgMatches, id: &str) -> String {
    let values = matches.try_get_raw(id).ok().flatten();
    let values = values.map(|all| all.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(","));
    values.unwrap_or_else(|| "not set".to_owned())
}

/// The flag that `e` is about, without dashes.
pub fn flag_of(e: &clap::Error) -> Option<String> {
    let flag = match e.get(ContextKind::InvalidArg)? {
        ContextValue::String(flag) => flag,
        ContextValue::Strings(flags) => flags.first()?,
        _ => return None,
    };
    Some(flag.strip_prefix("--")?.split([' ', '=', '[']).next()?.to_owned())
}

/// The file of a `--config` before the command, and the number of words it takes.
fn config(given: &[OsString]) -> Option<(OsString, usize)> {
    let first = given.get(1)?;
    if first == "--config" {
        return given.get(2).map(|path| (path.clone(), 2));
    }
    Some((first.to_str()?.strip_prefix("--config=")?.into(), 1))
}

/// The names of a command line's command.
pub fn names(given: &[OsString]) -> Vec<String> {
    command(given).0
}

/// The names of a command line's command, and the number of words up to its last.
fn command(given: &[OsString]) -> (Vec<String>, usize) {
    let (mut names, mut command) = (Vec::new(), &commands());
    let mut end = 1 + config(given).map_or(0, |(_, words)| words);
    while let Some(next) = given.get(end).and_then(|word| command.find_subcommand(word)) {
        names.push(next.get_name().to_owned());
        (command, end) = (next, end + 1);
    }
    (names, end.min(given.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_command_ends_where_its_flags_begin() {
        for (text, names, end) in [
            ("greenwave", "", 1),
            ("greenwave --config a.toml", "", 3),
            ("greenwave --config=a.toml guard attach eth0 --port 80", "guard attach", 4),
            ("greenwave --config a.toml sched --config b.toml", "sched", 4),
            ("greenwave serve run", "serve", 2),
        ] {
            assert_eq!((command(&line(text)).0.join(" "), command(&line(text)).1), (names.to_owned(), end));
        }
        let file = |text: &str| config(&line(text)).map(|(path, _)| path);
        assert_eq!(file("greenwave --config a.toml sched --config b.toml"), Some("a.toml".into()));
        assert_eq!(file("greenwave sched --config b.toml"), None, "this is the command's own");
    }

    #[test]
    fn a_file_is_read_once_for_a_signal_and_never_without() {
        assert_eq!(read_again(None, || Ok(1)), None, "no reload requested");
        signals::hangup().store(true, Ordering::Relaxed);
        assert_eq!(read_again(None, || Ok(1)), Some(Ok(1)));
        assert_eq!(read_again(None, || Ok(2)), None);
        signals::hangup().store(true, Ordering::Relaxed);
        let refused = read_again(None, || Err::<u8, _>(Error::new("line 3: no flag")));
        assert_eq!(refused, Some(Err(Error::new("line 3: no flag; the previous settings stay in force"))));
        assert_eq!(read_again(None, || Ok(3)), None, "it is said once");
    }
}
