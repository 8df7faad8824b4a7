//! `greenwave check` of a file for all commands: what each of them would get.

use std::path::Path;

use clap::error::ErrorKind;
use serde_json::json;

use super::file::{File, Section, Setting, help};
use super::flag_of;
use crate::table::Table;
use crate::{Error, commands, words};

/// Prints what the file at `path` says, once every value is one that its flag takes.
///
/// # Errors
/// As [`File::read`], and a value that its command refuses.
pub fn describe(path: &Path, as_json: bool) -> Result<(), Error> {
    let file = File::read(path)?;
    file.sections.iter().try_for_each(|section| check(path, section))?;
    if as_json {
        let of = |section: &Section| {
            let settings =
                section.settings.iter().map(|setting| (setting.key.clone(), json!(setting.values)));
            (section.command.join(" "), serde_json::Value::Object(settings.collect()))
        };
        let all: serde_json::Map<_, _> = file.sections.iter().map(of).collect();
        println!("{:#}", json!({ "commands": all }));
        return Ok(());
    }
    let mut table = Table::new(3, &["command", "flag", "value"]);
    for section in &file.sections {
        for Setting { key, values, .. } in &section.settings {
            table.row(vec![section.command.join(" "), format!("--{key}"), values.join(", ")]);
        }
    }
    print!("{table}");
    println!("the command line goes before this: greenwave --config {} COMMAND", path.display());
    Ok(())
}

/// Refuses what the command would, but that something is missing: that may come
/// from the command line.
fn check(path: &Path, section: &Section) -> Result<(), Error> {
    let given = section.settings.iter().flat_map(|setting| &setting.words);
    let line = ["greenwave"].into_iter().chain(section.command.iter().chain(given).map(String::as_str));
    let Err(e) = commands().try_get_matches_from(line) else { return Ok(()) };
    if e.kind() == ErrorKind::MissingRequiredArgument {
        return Ok(());
    }
    let setting = flag_of(&e).and_then(|key| section.settings.iter().find(|setting| setting.key == key));
    let place = setting.map_or_else(|| path.display().to_string(), |setting| setting.place.clone());
    Err(Error::new(format!("{place}: {}", words(&e))).advice(help(&section.command)))
}
