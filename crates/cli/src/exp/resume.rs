//! Reuse of results in a folder: `exp run --resume` runs only experiments without a result.
//!
//! Deliberately reuses no result of another program, file, scale or seed, nor, for measurements on
//! the machine, of another machine: such results cannot be compared in one table.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::fingerprint;
use super::registry::{Source, stem};
use crate::error::Error;

/// The result in `folder` that this program gave for `source` at `scale` with seeds from `seed` on.
///
/// # Errors
/// The file exists and cannot be read.
pub fn result(folder: &Path, source: &Source, scale: &str, seed: u64) -> Result<Option<Value>, Error> {
    let path = folder.join(format!("{}.json", stem(&source.name)));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::file(&path, &e)),
    };
    let result: Option<Value> = serde_json::from_str(&text).ok();
    let fingerprint = fingerprint::of_experiment(source)?;
    let this_machine = host::Machine::this().to_string();
    let is_reusable = |result: &Value| {
        let machine = result["greenwave"]["machine"].as_str();
        machine.is_none_or(|machine| machine == this_machine)
            && (result["program"].as_str(), result["scale"].as_str(), result["seed"].as_u64())
                == (Some(fingerprint.as_str()), Some(scale), Some(seed))
    };
    Ok(result.filter(is_reusable))
}
