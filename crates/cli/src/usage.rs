//! Errors of the command line: clap's, in one line with advice.
//!
//! Clap knows the invalid word and the command; the advice is a similar word, a valid value, or the
//! help of the given subcommand.

use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::config_file::{flag_of, names};
use crate::{Error, commands, refused};

/// Ends the command line that clap did not accept: prints help as it is, and an error with advice.
/// `location` is the file and line of the mistake.
pub fn end(e: &clap::Error, location: Option<&str>) -> ExitCode {
    if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        out!("{e}");
        return ExitCode::SUCCESS;
    }
    if e.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        err!("{e}");
        return ExitCode::from(2);
    }
    refused(refusal(e, location))
}

/// Error with advice for clap's error `e`; `location` is the place of the invalid argument if it is
/// not on the command line.
pub fn refusal(e: &clap::Error, location: Option<&str>) -> Error {
    let given: Vec<_> = std::env::args_os().collect();
    refusal_of(e, location, &names(&given))
}

/// As [`refusal`], for the command called `names`.
pub fn refusal_of(e: &clap::Error, location: Option<&str>, names: &[String]) -> Error {
    let prefix = location.map_or(String::new(), |at| format!("{at}: "));
    let text = words(e);
    let error = Error::new(prefix + &text);
    let command = command(names);
    let word = |kind| match e.get(kind) {
        Some(ContextValue::String(word)) => word.as_str(),
        _ => "",
    };
    let error = match e.kind() {
        ErrorKind::InvalidSubcommand => error
            .suggest(word(ContextKind::InvalidSubcommand), command.get_subcommands().map(Command::get_name)),
        ErrorKind::UnknownArgument => {
            let flags: Vec<String> = long_flags(&command).collect();
            error.suggest(word(ContextKind::InvalidArg), flags.iter().map(String::as_str))
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => match (flag_of(e), example(&text)) {
            (Some(flag), Some(value)) => error.or_advice(|| format!("--{flag} {value}")),
            (None, Some(value)) => error.or_advice(|| value.to_owned()),
            _ => error,
        },
        _ => error,
    };
    error.or_advice(|| help_of(names))
}

/// Text of clap's error in one line.
pub fn words(e: &clap::Error) -> String {
    let text = e.to_string();
    let what: Vec<&str> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let what = RUST.iter().fold(what.join(" "), |what, (from, to)| what.replace(from, to));
    what.strip_prefix("error: ").unwrap_or(&what).to_owned()
}

/// Messages of Rust's parsers, which say little, and ours for the same.
pub const RUST: [(&str, &str); 7] = [
    ("invalid digit found in string", "it is not a whole number"),
    ("cannot parse integer from empty string", "it is not a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid IP address syntax", "it is not an IP address"),
    ("invalid float literal", "it is not a number"),
    ("cannot parse float from empty string", "it is not a number"),
];

/// The valid value that an error's text gives after `such as`.
fn example(text: &str) -> Option<&str> {
    let (_, rest) = text.rsplit_once("such as ")?;
    rest.split([',', ';']).next()?.split(" or ").next().map(str::trim).filter(|value| !value.is_empty())
}

/// The flags of `command`, with dashes.
fn long_flags(command: &Command) -> impl Iterator<Item = String> {
    command.get_arguments().filter_map(|arg| arg.get_long()).map(|name| format!("--{name}"))
}

/// The command called `names`.
fn command(names: &[String]) -> Command {
    let down = |command: Command, name: &String| command.find_subcommand(name).cloned().unwrap_or(command);
    let mut commands = commands();
    // Adds `--help`.
    commands.build();
    names.iter().fold(commands, down)
}

/// The command that prints the help of the given command.
pub fn help() -> String {
    let given: Vec<_> = std::env::args_os().collect();
    help_of(&names(&given))
}

/// The command that prints the help of the command called `names`.
pub fn help_of(names: &[String]) -> String {
    let names = names.iter().map(String::as_str);
    ["greenwave"].into_iter().chain(names).chain(["--help"]).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
