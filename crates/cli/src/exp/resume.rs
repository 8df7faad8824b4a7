//! Results that a folder has already: many experiments take hours, and `--resume` goes on with
//! those that are not there.
//!
//! It deliberately takes over nothing that another program gave, or another file, scale or seed, or,
//! where it is the machine that decides, another machine:
//! that would stand in one table with what it cannot be compared with.

use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::fingerprint;
use super::registry::{Source, stem};
use crate::error::Error;

/// The result in `folder` that this program gave for `source` at `scale` with seeds from `seed` on.
///
/// # Errors
/// When a file is there and cannot be read.
pub fn result(folder: &Path, source: &Source, scale: &str, seed: u64) -> Result<Option<Value>, Error> {
    let path = folder.join(format!("{}.json", stem(&source.name)));
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::file(&path, &e)),
    };
    let found: Option<Value> = serde_json::from_str(&text).ok();
    let mark = fingerprint::mark_with(source)?;
    let here = host::Machine::this().to_string();
    let same = |found: &Value| {
        let machine = found["greenwave"]["machine"].as_str();
        machine.is_none_or(|machine| machine == here)
            && (found["program"].as_str(), found["scale"].as_str(), found["seed"].as_u64())
                == (Some(mark.as_str()), Some(scale), Some(seed))
    };
    Ok(found.filter(same))
}
