//! `greenwave check` of a file for all commands: the arguments that each command would get.

use std::path::Path;

use clap::error::ErrorKind;
use serde_json::json;

use super::file::{CommandSection, ConfigFile, FlagSetting};
use super::flag_of;
use crate::table::Table;
use crate::usage::refusal_of;
use crate::{Error, check_words};

/// Prints the settings of the file at `path` after checking every value.
///
/// # Errors
/// The errors of [`ConfigFile::read`], and a value that its command refuses.
pub fn describe(path: &Path, as_json: bool) -> Result<(), Error> {
    let file = ConfigFile::read(path)?;
    file.sections.iter().try_for_each(|section| check(path, section))?;
    if as_json {
        let of = |section: &CommandSection| {
            let settings =
                section.settings.iter().map(|setting| (setting.key.clone(), json!(setting.values)));
            (section.command.join(" "), serde_json::Value::Object(settings.collect()))
        };
        let all: serde_json::Map<_, _> = file.sections.iter().map(of).collect();
        outln!("{:#}", json!({ "commands": all }));
        return Ok(());
    }
    let mut table = Table::new(3, &["command", "flag", "value"]);
    for section in &file.sections {
        for FlagSetting { key, values, .. } in &section.settings {
            table.row(vec![section.command.join(" "), format!("--{key}"), values.join(", ")]);
        }
    }
    out!("{table}");
    outln!("Flags on the command line override this file: greenwave --config {} COMMAND", path.display());
    Ok(())
}

/// Placeholders for required arguments that a file may leave to the command line: flags, then
/// positional ones.
const REQUIRED: [(&str, &[&str], &[&str]); 6] = [
    ("serve", &["--device=tap:gw0", "--addr=10.77.0.2/24"], &[]),
    ("run", &["--device=tap:gw0", "--addr=10.77.0.2/24"], &["--", "true"]),
    ("guard attach", &["--port=80"], &["eth0"]),
    ("egress attach", &["--rate=1gbit"], &["eth0"]),
    ("load", &["--target=127.0.0.1:80", "--rate=1000"], &[]),
    ("sched", &[], &[]),
];

/// Makes the checks that the command makes before its first action on this machine, except for
/// missing arguments, which the command line may supply.
fn check(path: &Path, section: &CommandSection) -> Result<(), Error> {
    let has = |flag: &str| section.settings.iter().any(|setting| setting.key == flag);
    let command = section.command.join(" ");
    let required = REQUIRED.iter().find(|(name, ..)| *name == command);
    let (flags, others) = required.map_or((&[][..], &[][..]), |&(_, flags, others)| (flags, others));
    let is_missing = |word: &&&str| {
        let flag = word.trim_start_matches("--").split('=').next().unwrap_or_default();
        // A burst replaces a rate.
        !(has(flag) || flag == "rate" && has("burst"))
    };
    let given = section.settings.iter().flat_map(|setting| &setting.words).map(String::as_str);
    let line = ["greenwave"].into_iter().chain(section.command.iter().map(String::as_str));
    let line =
        line.chain(given).chain(flags.iter().filter(is_missing).copied()).chain(others.iter().copied());
    let line: Vec<String> = line.map(str::to_owned).collect();
    let e = match check_words(&line, &has) {
        Ok(checked) => return checked,
        Err(e) if e.kind() == ErrorKind::MissingRequiredArgument => return Ok(()),
        Err(e) => e,
    };
    let setting = flag_of(&e).and_then(|key| section.settings.iter().find(|setting| setting.key == key));
    let location = setting.map_or_else(|| path.display().to_string(), |setting| setting.location.clone());
    Err(refusal_of(&e, Some(&location), &section.command))
}
