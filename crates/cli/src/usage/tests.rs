//! Every misspelt command, flag, section and key is corrected, and every invalid value has a remedy.

use clap::{Arg, Command};

use super::*;
use crate::config_file::describe;
use crate::{check, egress, exp, parse, sched, suggestion};

/// All commands that are not hidden, with their names.
fn all() -> Vec<(Vec<String>, Command)> {
    let mut root = commands();
    root.build();
    let (mut found, mut left) = (Vec::new(), vec![(Vec::new(), root)]);
    while let Some((names, command)) = left.pop() {
        for next in command.get_subcommands().filter(|next| next.get_name() != "help" && !next.is_hide_set())
        {
            left.push(([&names[..], &[next.get_name().to_owned()]].concat(), next.clone()));
        }
        found.push((names, command));
    }
    found
}

/// A typing error: the second letter twice.
fn misspelt(name: &str) -> String {
    let at = name.char_indices().nth(1).map_or(name.len(), |(at, _)| at);
    let letter = name[at..].chars().next().unwrap_or('x');
    format!("{}{letter}{}", &name[..at], &name[at..])
}

fn error(names: &[String], more: &[String]) -> String {
    let line = ["greenwave".to_owned()].into_iter().chain(names.iter().cloned()).chain(more.iter().cloned());
    match parse(line.collect::<Vec<_>>()) {
        Ok(_) => String::new(),
        Err(e) => refusal_of(&e, None, names).to_string(),
    }
}

//~ cli: every misspelt command and flag gets the closest name as advice
#[test]
fn every_misspelt_command_and_flag_is_corrected() {
    for (names, command) in all() {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            let error = error(&names, &[misspelt(below.get_name())]);
            let expected = format!("\n  try: {} (did you mean that?)", below.get_name());
            assert!(
                names.is_empty() && below.is_hide_set() || error.ends_with(&expected),
                "{names:?} {error}"
            );
        }
        for flag in command.get_arguments().filter_map(Arg::get_long) {
            let error = error(&names, &[format!("--{}", misspelt(flag))]);
            let expected = format!("\n  try: --{flag} (did you mean that?)");
            assert!(error.ends_with(&expected), "{names:?} --{flag}: {error}");
        }
    }
}

//~ cli: an invalid value is refused with a valid one, or the help of its own subcommand
#[test]
fn every_invalid_value_is_refused_in_our_words_with_advice() {
    for (names, command) in all() {
        let takes = |arg: &&Arg| arg.get_action().takes_values() && arg.get_long().is_some();
        for flag in command.get_arguments().filter(takes).filter_map(Arg::get_long) {
            for value in ["", "~", "-1", "99999999999999999999999", "1e999"] {
                let error = error(&names, &[format!("--{flag}={value}")]);
                if error.is_empty() {
                    continue;
                }
                let (what, advice) = error.split_once("\n  try: ").unwrap_or_else(|| panic!("{error}"));
                let parser_text = RUST.iter().map(|(parser_text, _)| *parser_text);
                let parser_text = parser_text.chain(["socket address", "provided string", "TryFrom"]);
                parser_text.for_each(|words| assert!(!what.contains(words), "{names:?} --{flag}: {what}"));
                let help = help_of(&names);
                let is_ours =
                    advice == help || advice.starts_with("--") || advice.contains("(did you mean that?)");
                assert!(is_ours, "{names:?} --{flag}: {advice}");
            }
        }
    }
}

/// The error of each kind of file about a text, and the key's prefix.
type Reader = (&'static str, fn(&str) -> String);

fn by_file(text: &str, read: impl Fn(&std::path::Path) -> Result<(), Error>) -> String {
    let folder = netlab::TempDir::new("misspelt").expect("a folder of ours");
    let path = folder.path().join("a.toml");
    std::fs::write(&path, text).expect("the folder is ours");
    read(&path).expect_err(text).to_string()
}

const READERS: [Reader; 5] = [
    ("policy", |text| by_file(text, |path| check::policy(path).map(drop))),
    ("tasks", |text| by_file(text, |path| sched::describe(path, true))),
    ("egress", |text| by_file(text, |path| egress::describe(path, true))),
    ("commands", |text| by_file(text, |path| describe(path, true))),
    ("experiment", |text| Error::new(exp::spec::Experiment::parse(text).expect_err(text)).to_string()),
];

/// Tables of each kind of file whose keys are tried, as the text before a key.
const TABLES: &[(&str, &[&str])] = &[
    ("policy", &["", "[message]\n", "[[rule]]\n"]),
    ("tasks", &["", "[[tasks]]\n"]),
    ("egress", &["", "thresholds = []\nbuckets = 1\n[pin]\n"]),
    ("commands", &["", "[serve]\n", "[guard]\n", "[guard.attach]\n", "[exp.run]\n", "[sched]\n"]),
    ("experiment", &["", "[[claim]]\n", "[scale.smoke]\n", "[[point]]\n"]),
];

//~ cli: every misspelt section and key of every kind of file gets the closest name as advice
#[test]
fn every_misspelt_key_of_every_kind_of_file_is_corrected() {
    for (kind, read) in READERS {
        let tables = TABLES.iter().find(|(of, _)| *of == kind).expect("it has a row").1;
        for table in tables {
            let unknown = read(&format!("{table}\"no such key\" = 0\n"));
            let keys: Vec<String> = suggestion::valid(unknown.split("\n  try: ").next().unwrap_or_default())
                .into_iter()
                .map(str::to_owned)
                .collect();
            assert!(keys.len() > 1, "{kind} {table:?}: {unknown}");
            for key in keys {
                let error = read(&format!("{table}{} = 0\n", misspelt(key.trim_matches(['[', ']']))));
                let expected = format!("\n  try: {key} (did you mean that?)");
                assert!(error.contains(&expected), "{kind} {table:?} {key}: {error}");
            }
        }
    }
}

//~ cli: a duplicate key is named with its line in every kind of file
#[test]
fn every_kind_of_file_refuses_a_duplicate_key() {
    for (kind, read) in READERS {
        let error = read("\nalpha = 1\nalpha = 2\n");
        assert!(
            error.contains("3: alpha is set twice") || error.contains("line 3: alpha is set twice"),
            "{kind}: {error}"
        );
    }
}
