//! What tells this program, and an experiment's file, from others: only what the same two gave
//! is taken over by a run that goes on where another was.

use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

use super::catalogue::Source;
use crate::error::Error;

/// Of the whole program: another, or one built of other sources, has another.
///
/// # Errors
/// When it cannot be read.
pub fn mark() -> Result<u64, Error> {
    // It is a hundred megabytes, and asked for with every experiment.
    static MARK: OnceLock<u64> = OnceLock::new();
    if let Some(mark) = MARK.get() {
        return Ok(*mark);
    }
    let path = Path::new("/proc/self/exe");
    let mark = of_file(path).map_err(|e| Error::file(path, &e))?;
    Ok(*MARK.get_or_init(|| mark))
}

/// Of the program and of `source`'s file, with the paper's numbers beside it: 16 hex digits.
///
/// # Errors
/// When the program cannot be read.
pub fn mark_with(source: &Source) -> Result<String, Error> {
    let mut hasher = DefaultHasher::new();
    (mark()?, source.texts()).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
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
