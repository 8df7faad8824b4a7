//! Reader of the results in named files and folders.
//!
//! A named file that is no result is an error; such a file in a named folder is skipped with a
//! message.

use std::path::{Path, PathBuf};

use serde_json::{Deserializer, Value};

use super::run::{ParsedResult, Unreadable};
use crate::error::Error;

/// Reads all results in `paths`, in their order; those of a folder by name.
///
/// # Errors
/// A path that cannot be read, a named file that is no result, a result of a later version, or no
/// result at all.
pub fn read(paths: &[PathBuf]) -> Result<Vec<ParsedResult>, Error> {
    let mut runs = Vec::new();
    for path in paths {
        if path.is_dir() {
            runs.extend(folder(path)?);
        } else {
            runs.extend(file(path)?.map_err(|why| {
                Error::new(format!("{}: {why}", path.display()))
                    .advice("the --json output of a command, or a file of `exp run --out`")
            })?);
        }
    }
    Ok(runs)
}

fn folder(path: &Path) -> Result<Vec<ParsedResult>, Error> {
    let entries = std::fs::read_dir(path).map_err(|e| Error::file(path, &e))?;
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "json") && file.is_file());
    files.sort();
    let mut runs = Vec::new();
    for path in files {
        match file(&path)? {
            Ok(results) => runs.extend(results),
            Err(why) => errln!("skipped {}: {why}", path.display()),
        }
    }
    if runs.is_empty() {
        let folder = path.display();
        return Err(Error::new(format!("{folder} holds no results"))
            .advice(format!("greenwave exp run all --out {folder}")));
    }
    Ok(runs)
}

/// Results in one file, which may contain several in sequence; or the reason why it is not a result
/// of greenwave.
fn file(path: &Path) -> Result<Result<Vec<ParsedResult>, Unreadable>, Error> {
    let text = std::fs::read(path).map_err(|e| Error::file(path, &e).advice("a file written with --json"))?;
    let mut runs = Vec::new();
    for value in Deserializer::from_slice(&text).into_iter::<Value>() {
        let read = value
            .map_err(|e| Unreadable::Foreign(e.to_string()))
            .and_then(|value| ParsedResult::read(&value));
        match read {
            Ok(run) => runs.push(run),
            Err(why @ Unreadable::Foreign(_)) => return Ok(Err(why)),
            Err(why @ Unreadable::Newer { .. }) => {
                return Err(Error::new(format!("{}: {why}", path.display()))
                    .advice("the version of greenwave that wrote it, or a later one"));
            }
        }
    }
    Ok(if runs.is_empty() { Err(Unreadable::Foreign("empty file".to_owned())) } else { Ok(runs) })
}
