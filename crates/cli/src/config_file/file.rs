//! Settings of a file for all commands, as words of the command line.
//!
//! Keys are checked here, against the definitions behind `--help`; values by the command-line
//! parser.

use std::path::Path;

use clap::{Arg, ArgAction, Command};
use toml::de::{DeTable, DeValue};

use crate::include::{self, Included};
use crate::usage::help_of;
use crate::{Error, commands, toml_error};

/// A file whose keys are checked and whose values are not.
pub struct ConfigFile {
    /// Sections in the file's order.
    pub sections: Vec<CommandSection>,
}

/// The settings of one command.
pub struct CommandSection {
    /// The command's names, such as `guard`, `attach`.
    pub command: Vec<String>,
    /// Settings in the file's order.
    pub settings: Vec<FlagSetting>,
}

/// A flag.
#[derive(Clone)]
pub struct FlagSetting {
    /// The flag's name without dashes.
    pub key: String,
    /// Old names of the flag.
    aliases: Vec<String>,
    short: Option<char>,
    /// Position in the text: byte offset, and file with line.
    at: usize,
    pub location: String,
    /// Values as written in the file.
    pub values: Vec<String>,
    /// The setting as words of the command line, once for each value.
    pub words: Vec<String>,
}

impl FlagSetting {
    /// True if the flag is among `words` of the command line.
    pub fn is_given(&self, words: &[&str]) -> bool {
        let is_it = |word: &&str| match (word.strip_prefix("--"), word.strip_prefix('-'), self.short) {
            (Some(long), ..) => {
                let name = long.split('=').next().unwrap_or_default();
                name == self.key || self.aliases.iter().any(|alias| alias == name)
            }
            (None, Some(short), Some(name)) => short.starts_with(name),
            _ => false,
        };
        words.iter().any(is_it)
    }
}

impl ConfigFile {
    /// Reads the file at `path` and its includes.
    ///
    /// # Errors
    /// A file that cannot be read; a section that is no command, or a key that is no flag of the
    /// command, with the line and the valid names.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let all = include::read(path)?;
        let table = DeTable::parse(&all.text)
            .map_err(|e| toml_error::of(&all.text, &e, |line| all.location(line)))?;
        let mut commands = commands();
        commands.build();
        let mut reading = Reading { all: &all, sections: Vec::new() };
        reading.walk(table.get_ref(), &commands, &[])?;
        let mut sections = reading.sections;
        sections.sort_by_key(|section| section.settings.first().map(|setting| setting.at));
        Ok(Self { sections })
    }

    /// The settings of `command`.
    pub fn settings(self, command: &[String]) -> Vec<FlagSetting> {
        let section = self.sections.into_iter().find(|section| section.command == command);
        section.map_or(Vec::new(), |section| section.settings)
    }
}

/// The flags of `command` that a file may set.
pub fn flags(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_own = |arg: &&Arg| arg.get_long().is_some_and(|name| !matches!(name, "help" | "version"));
    command.get_arguments().filter(is_own)
}

/// Old names of the flag `arg`.
fn aliases(arg: &Arg) -> Vec<String> {
    arg.get_all_aliases().unwrap_or_default().into_iter().map(str::to_owned).collect()
}

/// State of reading a file.
struct Reading<'a> {
    all: &'a Included,
    sections: Vec<CommandSection>,
}

impl Reading<'_> {
    /// Reads the section of `command`, whose names are `names`.
    fn walk(&mut self, table: &DeTable<'_>, command: &Command, names: &[String]) -> Result<(), Error> {
        let mut settings = Vec::new();
        for (key, value) in table {
            let (name, at): (&str, _) = (key.get_ref(), key.span().start);
            if let (Some(next), Some(table)) = (command.find_subcommand(name), value.get_ref().as_table()) {
                self.walk(table, next, &[names, &[next.get_name().to_owned()]].concat())?;
                continue;
            }
            let location = location_at(self.all, at);
            let wrong = |what: String| Error::new(format!("{location}: {what}")).advice(help_of(names));
            let is_it =
                |arg: &&Arg| arg.get_long() == Some(name) || aliases(arg).iter().any(|alias| alias == name);
            let flag = flags(command).find(is_it).filter(|_| !names.is_empty());
            let Some(arg) = flag else {
                let section =
                    if names.is_empty() { "the file".to_owned() } else { format!("[{}]", names.join(".")) };
                let valid = valid(command, names.is_empty());
                return Err(wrong(format!("unknown key `{name}` in {section}; valid: {valid}")));
            };
            let Some((values, words)) = self.words(name, arg, value) else {
                return Err(wrong(format!("{name} is not {}", kind(arg))));
            };
            let key = arg.get_long().unwrap_or(name).to_owned();
            let (aliases, short) = (aliases(arg), arg.get_short());
            settings.push(FlagSetting { key, aliases, short, at, location, values, words });
        }
        if !settings.is_empty() {
            settings.sort_by_key(|setting| setting.at);
            self.sections.push(CommandSection { command: names.to_vec(), settings });
        }
        Ok(())
    }

    /// The values in `value` and their words on the command line; `None` if `arg` cannot take such
    /// a value.
    fn words(
        &self,
        name: &str,
        arg: &Arg,
        value: &toml::Spanned<DeValue<'_>>,
    ) -> Option<(Vec<String>, Vec<String>)> {
        let one = |value: &toml::Spanned<DeValue<'_>>| match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            DeValue::Integer(_) | DeValue::Float(_) => Some(self.all.text[value.span()].replace('_', "")),
            _ => None,
        };
        if !arg.get_action().takes_values() {
            let is = value.get_ref().as_bool()?;
            return Some((vec![is.to_string()], is.then(|| format!("--{name}")).into_iter().collect()));
        }
        let values = match value.get_ref() {
            DeValue::Array(all) if is_list(arg) => all.iter().map(one).collect::<Option<Vec<_>>>()?,
            _ => vec![one(value)?],
        };
        // A flag that takes several values at once has them behind it.
        let is_one = arg.get_num_args().is_none_or(|count| count.min_values() < 2);
        let words = match is_one {
            true => values.iter().map(|value| format!("--{name}={value}")).collect(),
            false => std::iter::once(format!("--{name}")).chain(values.iter().cloned()).collect(),
        };
        Some((values, words))
    }
}

/// The kinds of value a flag's key accepts, as text.
fn kind(arg: &Arg) -> &'static str {
    match arg.get_action() {
        action if !action.takes_values() => "true or false",
        _ if is_list(arg) => "a text, a number, or a list of them",
        _ => "a text or a number",
    }
}

/// True if the flag may be repeated.
fn is_list(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// The keys valid in the section of `command`; the program itself has sections only.
fn valid(command: &Command, is_top: bool) -> String {
    let flags = flags(command).filter_map(Arg::get_long).map(str::to_owned).filter(|_| !is_top);
    let commands = command.get_subcommands().map(Command::get_name).filter(|name| *name != "help");
    flags.chain(commands.map(|name| format!("[{name}]"))).collect::<Vec<_>>().join(", ")
}

/// The file and the line of byte `at` of the text.
fn location_at(all: &Included, at: usize) -> String {
    all.location(all.text[..at].matches('\n').count() + 1)
}
