//! Fingerprints of this program and of an experiment's files.
//!
//! A resumed run reuses results of the same fingerprint only. Other programs that a run starts
//! (`testbed`, `libgreenwave.so`) are built with this program and are not hashed.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

use super::embedded;
use super::registry::Source;
use crate::error::Error;

/// Fingerprint of the whole program; it differs for every build from other sources.
///
/// # Errors
/// The program cannot be read.
pub fn of_program() -> Result<u64, Error> {
    // Cached: the file has a hundred megabytes and every experiment needs the value.
    static FINGERPRINT: OnceLock<u64> = OnceLock::new();
    if let Some(fingerprint) = FINGERPRINT.get() {
        return Ok(*fingerprint);
    }
    let path = Path::new("/proc/self/exe");
    let fingerprint = of_file(path).map_err(|e| Error::file(path, &e))?;
    Ok(*FINGERPRINT.get_or_init(|| fingerprint))
}

/// Fingerprint of the program, `source`'s file, the paper's numbers and the files that it names: 16
/// hex digits.
///
/// # Errors
/// The program cannot be read.
pub fn of_experiment(source: &Source) -> Result<String, Error> {
    let mut hasher = DefaultHasher::new();
    (of_program()?, source.texts()).hash(&mut hasher);
    hash_files(&toml::Value::Table(source.texts()[0].parse().unwrap_or_default()), &mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// Hashes the contents of the user's files that `settings` name, such as records of service times;
/// embedded files are part of the program.
pub fn hash_files(settings: &toml::Value, hasher: &mut DefaultHasher) {
    match settings {
        toml::Value::String(name) if embedded::SHIPPED.get_file(name).is_none() => {
            let path = Path::new(name);
            if let Some(fingerprint) = path.is_file().then(|| of_file(path).ok()).flatten() {
                fingerprint.hash(hasher);
            }
        }
        toml::Value::Array(items) => items.iter().for_each(|item| hash_files(item, hasher)),
        toml::Value::Table(table) => table.values().for_each(|item| hash_files(item, hasher)),
        _ => {}
    }
}

fn of_file(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let (mut hasher, mut buffer) = (DefaultHasher::new(), vec![0; 1 << 20]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            len => hasher.write(&buffer[..len]),
        }
    }
}
