//! Every old spelling works, and the changelog lists it.

use clap::{Arg, Command};
use serde_json::json;

use super::claims::CLAIMS;
use super::*;

fn command(name: &str) -> Command {
    let mut command = crate::commands();
    for word in name.split(' ') {
        let next = command.find_subcommand(word).unwrap_or_else(|| panic!("no command {name}"));
        command = next.clone();
    }
    command
}

fn argument(name: &str, argument: &str) -> Arg {
    let command = command(name);
    let is_it = |arg: &&Arg| arg.get_long() == Some(argument) || arg.get_id() == argument;
    command.get_arguments().find(is_it).unwrap_or_else(|| panic!("{name} has no {argument}")).clone()
}

//~ cli: old spellings of commands, flags, values and claims work for one release, hidden, and the changelog lists them
#[test]
fn every_old_command_names_the_new_one() {
    for (old, new) in COMMANDS {
        assert_eq!(command(old).get_name(), *new);
    }
}

//~ cli: old spellings of commands, flags, values and claims work for one release, hidden, and the changelog lists them
#[test]
fn every_old_flag_is_a_hidden_alias_of_the_new_one() {
    for (name, old, new) in FLAGS {
        let arg = argument(name, new);
        assert!(arg.get_all_aliases().is_some_and(|all| all.contains(old)), "{name} --{old}");
        assert!(arg.get_visible_aliases().is_none_or(|all| all.is_empty()), "{name} --{old}");
    }
}

//~ cli: old spellings of commands, flags, values and claims work for one release, hidden, and the changelog lists them
#[test]
fn every_old_value_is_a_hidden_alias_of_the_new_one() {
    for (name, flag, old, new) in VALUES {
        let values = argument(name, flag).get_possible_values();
        let found = values.iter().find(|value| value.get_name() == *new);
        assert!(found.is_some_and(|value| value.matches(old, false)), "{name} {flag} {old}");
    }
}

/// Renames the key `new` to `old` wherever `value` has it; true if it did.
fn rename_key(value: &mut toml::Value, new: &str, old: &str) -> bool {
    match value {
        toml::Value::Table(table) => {
            let below = table.iter_mut().fold(false, |any, (_, value)| rename_key(value, new, old) | any);
            let own = table.remove(new).map(|value| table.insert(old.to_owned(), value));
            below || own.is_some()
        }
        toml::Value::Array(values) => {
            values.iter_mut().fold(false, |any, value| rename_key(value, new, old) | any)
        }
        _ => false,
    }
}

//~ cli: old spellings of commands, flags, values and claims work for one release, hidden, and the changelog lists them
#[test]
fn every_old_key_of_an_experiment_is_read_as_the_new_one() {
    for (world, old, new) in KEYS {
        let mut results = Vec::new();
        for (mode, settings, world) in crate::exp::settings(world) {
            let mut settings = toml::Value::Table(settings);
            if rename_key(&mut settings, new, old) {
                let settings = settings.try_into().expect("it was a table");
                results.push((world.prepare)(&mode, settings).map(|_| ()));
            }
        }
        assert!(!results.is_empty(), "no experiment of {world} has {new}");
        assert!(results.iter().all(Result::is_ok), "{world} {old}: {results:?}");
    }
}

//~ cli: old spellings of commands, flags, values and claims work for one release, hidden, and the changelog lists them
#[test]
fn every_old_claim_gives_one_that_its_experiment_has() {
    for (experiment, old, new) in CLAIMS {
        let (claims, _) = crate::exp::claims_and_modes(experiment);
        assert!(claims.iter().any(|id| id == new), "{experiment} has no claim {new}");
        assert!(claims.iter().all(|id| id != old), "{experiment} still has the claim {old}");
        assert_eq!(claim(experiment, old), *new);
        assert_eq!(claim("another/experiment", old), *old);
    }
}

//~ cli: old spellings of commands, flags, values and claims work for one release, hidden, and the changelog lists them
#[test]
fn every_old_mode_of_a_result_is_read_as_one_that_its_experiment_has() {
    for (experiment, old, new) in MODES {
        let (_, modes) = crate::exp::claims_and_modes(experiment);
        assert!(modes.iter().any(|mode| mode == new), "{experiment} has no mode {new}");
        assert!(modes.iter().all(|mode| mode != old), "{experiment} still has the mode {old}");
        let result = |mode: &str| {
            let bars = [format!("high {mode}"), format!("{old}-too"), format!("x{old}")];
            let bars = bars.map(|name| json!({ "name": name }));
            json!({"figures": [{"mode": mode, "p99": 1.0}], "plots": [{ "bars": bars }], "says": old})
        };
        assert_eq!(*super::modes(experiment, &result(old)), result(new));
        assert_eq!(*super::modes("another/experiment", &result(old)), result(old));
    }
}

//~ cli: old spellings of commands, flags, values and claims work for one release, hidden, and the changelog lists them
#[test]
fn the_changelog_lists_every_old_spelling() {
    let text = include_str!("../../../../CHANGELOG.md");
    let rows = COMMANDS.iter().map(|(old, new)| format!("| `{old}` | `{new}` |"));
    let flags = FLAGS.iter().map(|(of, old, new)| format!("| `{of}` | `--{old}` | `--{new}` |"));
    let values = VALUES.iter().map(|(of, flag, old, new)| {
        let flag = if command(of).get_arguments().any(|arg| arg.get_long() == Some(flag)) {
            format!("`{of} --{flag}`")
        } else {
            format!("`{of}`")
        };
        format!("| {flag} | `{old}` | `{new}` |")
    });
    let metrics = METRICS.iter().map(|(old, new)| format!("| `{old}` | `{new}` |"));
    let claims = CLAIMS.iter().map(|(of, old, new)| format!("| `{of}` | `{old}` | `{new}` |"));
    let keys = KEYS.iter().map(|(of, old, new)| format!("| `{of}` | `{old}` | `{new}` |"));
    let modes = MODES.iter().map(|(of, old, new)| format!("| `{of}` | `{old}` | `{new}` |"));
    for row in rows.chain(flags).chain(values).chain(metrics).chain(claims).chain(keys).chain(modes) {
        assert!(text.contains(&format!("\n{row}\n")), "CHANGELOG.md should have the line\n{row}");
    }
}
