//! Checkpoint file of a simulated experiment: the results of its finished runs, one JSON line each.
//!
//! An interrupted experiment resumes from the file beside its result. The file is reused only by
//! the same program; another program starts a new one. Figures are stored as bits, so that they are
//! read back exactly. The file is removed once the result is written.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::fingerprint;
use super::world::{ClassFigures, RunResult};
use crate::error::Error;

/// Results of finished runs, and the file that records them.
pub struct Checkpoint {
    path: PathBuf,
    file: Mutex<File>,
    entries: HashMap<u64, Entry>,
}

/// Hash of a run's mode, its settings including the seed, and the files that they name.
pub struct RunKey(u64);

impl RunKey {
    /// Key of that run.
    #[must_use]
    pub fn new(mode: &str, settings: &toml::Table) -> Self {
        let mut hasher = DefaultHasher::new();
        (mode, settings.to_string()).hash(&mut hasher);
        settings.values().for_each(|value| fingerprint::hash_files(value, &mut hasher));
        Self(hasher.finish())
    }
}

/// First line: the program that wrote the file.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Author {
    /// Fingerprint of the whole program.
    program: u64,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    run: u64,
    events: u64,
    rows: Vec<Line>,
}

/// A row: its figures and its distribution as bits.
#[derive(Serialize, Deserialize)]
struct Line(String, Vec<u64>, Vec<(u64, u64)>);

impl Checkpoint {
    /// Opens the file at `path` with the entries of this program, or starts a new one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: PathBuf) -> Result<Self, Error> {
        let bad = |e: io::Error| Error::file(&path, &e);
        let author = Author { program: fingerprint::of_program()? };
        let entries = fs::read_to_string(&path).ok().and_then(|text| entries(&text, &author));
        let entries = entries.unwrap_or_default();
        // Drops a truncated last line, so that every line is complete.
        let lines = std::iter::once(json(&author)).chain(entries.values().map(json)).collect::<String>();
        crate::report::whole(&path, &lines)?;
        let file = host::files::append(&path).map_err(bad)?;
        Ok(Self { path, file: Mutex::new(file), entries })
    }

    /// True if the result of `run` is known.
    #[must_use]
    pub fn contains(&self, run: &RunKey) -> bool {
        self.entries.contains_key(&run.0)
    }

    /// Recorded result of `run`, if any.
    #[must_use]
    pub fn result(&self, run: &RunKey) -> Option<RunResult> {
        let Entry { events, rows, .. } = self.entries.get(&run.0)?;
        let row = |Line(class, figures, cdf): &Line| ClassFigures {
            class: class.clone(),
            figures: figures.iter().copied().map(f64::from_bits).collect(),
            cdf: cdf.iter().map(|&(at, share)| (f64::from_bits(at), f64::from_bits(share))).collect(),
        };
        Some(RunResult { events: *events, rows: rows.iter().map(row).collect(), noise: None })
    }

    /// Records the result of `run`.
    ///
    /// # Errors
    /// The disk is full.
    pub fn add(&self, run: &RunKey, result: &RunResult) -> Result<(), Error> {
        let row = |row: &ClassFigures| {
            let bits = |value: &f64| value.to_bits();
            let cdf = row.cdf.iter().map(|(at, share)| (bits(at), bits(share))).collect();
            Line(row.class.clone(), row.figures.iter().map(bits).collect(), cdf)
        };
        let entry = Entry { run: run.0, events: result.events, rows: result.rows.iter().map(row).collect() };
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(json(&entry).as_bytes()).map_err(|e| Error::file(&self.path, &e))
    }

    /// Removes the file, once the result is written.
    pub fn end(self) {
        // A file that remains is read again, and is valid.
        let _ = fs::remove_file(&self.path);
    }
}

/// Entries of `text` if `author` wrote it; the last line may be truncated.
fn entries(text: &str, author: &Author) -> Option<HashMap<u64, Entry>> {
    let mut lines = text.lines();
    let writer: Author = serde_json::from_str(lines.next()?).ok()?;
    let parse = |line| serde_json::from_str::<Entry>(line).ok();
    (writer == *author).then(|| lines.map_while(parse).map(|entry| (entry.run, entry)).collect())
}

fn json(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect("texts and whole numbers are JSON") + "\n"
}

//~ cli: an interrupted simulation of `exp run --out` resumes to the same figures
#[cfg(test)]
mod tests {
    use super::*;

    fn run_result(value: f64) -> RunResult {
        let row =
            ClassFigures { class: "small".into(), figures: vec![value, f64::NAN], cdf: vec![(0.1, 1.0)] };
        RunResult { events: 7, rows: vec![row], noise: None }
    }

    fn key(seed: i64) -> RunKey {
        let settings = toml::Table::from_iter([("seed".to_owned(), toml::Value::Integer(seed))]);
        RunKey::new("fish", &settings)
    }

    /// Known results of runs 1, 2 and 3 after `change` modified a checkpoint of the first two.
    fn known_after(name: &str, change: impl FnOnce(String) -> String) -> [Option<f64>; 3] {
        let path = std::env::temp_dir().join(format!("greenwave-checkpoint-{name}-{}", std::process::id()));
        let _ = fs::remove_file(&path);
        let checkpoint = Checkpoint::open(path.clone()).unwrap();
        assert!(checkpoint.result(&key(1)).is_none());
        // A number without a short decimal form.
        checkpoint.add(&key(1), &run_result(1.0 / 3.0)).unwrap();
        checkpoint.add(&key(2), &run_result(2.0)).unwrap();
        drop(checkpoint);
        fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
        let reopened = Checkpoint::open(path.clone()).unwrap();
        let known = [1, 2, 3].map(|seed| {
            let result = reopened.result(&key(seed))?;
            assert!(result.events == 7 && result.rows[0].figures[1].is_nan());
            assert_eq!((result.rows[0].class.as_str(), &result.rows[0].cdf), ("small", &vec![(0.1, 1.0)]));
            Some(result.rows[0].figures[0])
        });
        reopened.end();
        assert!(!path.exists());
        known
    }

    #[test]
    fn a_checkpoint_restores_results_to_the_bit() {
        assert_eq!(known_after("whole", |text| text), [Some(1.0 / 3.0), Some(2.0), None]);
    }

    #[test]
    fn a_truncated_last_line_is_run_again() {
        let cut = |text: String| text[..text.len() - 9].to_owned();
        assert_eq!(known_after("cut", cut), [Some(1.0 / 3.0), None, None]);
    }

    #[test]
    fn a_file_that_settings_name_is_one_of_them() {
        let path = std::env::temp_dir().join(format!("greenwave-record-{}", std::process::id()));
        let name = toml::Value::String(path.display().to_string());
        let settings = toml::Table::from_iter([("record".to_owned(), name)]);
        let key = |text: &str| {
            fs::write(&path, text).unwrap();
            RunKey::new("fish", &settings).0
        };
        assert_eq!(key("1,2"), key("1,2"));
        assert_ne!(key("1,2"), key("1,3"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn results_of_another_program_are_not_reused() {
        let other = |text: String| text.replacen("\"program\":", "\"program\":1", 1);
        assert_eq!(known_after("other", other), [None, None, None]);
        assert_eq!(known_after("none", |_| "no checkpoint".to_owned()), [None, None, None]);
    }
}
