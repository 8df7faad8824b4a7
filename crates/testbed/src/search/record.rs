//! Record of search times, for experiments without the index.
//!
//! Each line has a word and, per partition, the shortest of several searches: the time of the
//! search itself on an undisturbed core.

use std::fmt::Write as _;
use std::path::Path;

use queueing::{Rng, Span};

use super::{corpus, index};
use crate::Error;

/// Settings of a record.
#[derive(Clone, Debug)]
pub struct RecordSettings {
    /// Partitions of the index, at least 1.
    pub partitions: usize,
    /// Words drawn from the corpus, in addition to the paper's two.
    pub words: usize,
    /// Searches per word and partition, at least 1; the shortest counts.
    pub rounds: usize,
    /// Seed of the words.
    pub seed: u64,
}

/// The paper's partitions; 400 words, fifteen searches each.
impl Default for RecordSettings {
    fn default() -> Self {
        Self { partitions: 18, words: 400, rounds: 15, seed: 1 }
    }
}

/// `testbed record CORPUS FILE`: records the corpus below folder CORPUS to FILE, with the
/// experiments' settings.
///
/// # Errors
/// A missing argument, or a file that cannot be read or written.
pub fn command(mut arguments: impl Iterator<Item = String>) -> Result<(), Error> {
    let (Some(corpus), Some(file)) = (arguments.next(), arguments.next()) else {
        let cause = "record requires a folder of text and a file to write";
        return Err(Error::new(cause, "testbed record target/corpora/text experiments/d2p/search-times.csv"));
    };
    let bad = |cause| Error::new(cause, "experiments/d2p/corpus, which fetches the text");
    let text = record(Path::new(&corpus), &RecordSettings::default()).map_err(bad)?;
    std::fs::write(&file, text).map_err(|e| Error::new(format!("{file}: {e}"), "a file that may be written"))
}

/// Record of a corpus: one line per word, times in ns.
///
/// # Errors
/// One line: the file that cannot be read, or the index's error.
pub fn record(corpus: &Path, settings: &RecordSettings) -> Result<String, String> {
    let documents = corpus::read(corpus)?;
    let words = words(&documents, settings);
    let partitions = index::partitions(&documents, settings.partitions).map_err(|e| e.to_string())?;
    let mut shortest = vec![Span::MAX; words.len() * partitions.len()];
    for _ in 0..settings.rounds {
        for (part, partition) in partitions.iter().enumerate() {
            for (number, word) in words.iter().enumerate() {
                let took = partition.time(word).map_err(|e| e.to_string())?;
                let best = &mut shortest[number * partitions.len() + part];
                *best = took.min(*best);
            }
        }
    }
    let mut text = String::from("word");
    for part in 1..=partitions.len() {
        let _ = write!(text, ",w{part}_ns");
    }
    for (word, times) in words.iter().zip(shortest.chunks(partitions.len())) {
        text.push('\n');
        text.push_str(word);
        for time in times {
            let _ = write!(text, ",{}", time.as_nanos());
        }
    }
    text.push('\n');
    Ok(text)
}

/// Words of a record: the paper's two and the drawn ones.
pub fn words(documents: &[String], settings: &RecordSettings) -> Vec<String> {
    let mut words: Vec<String> = PAPER_WORDS.map(str::to_owned).to_vec();
    let mut drawn = corpus::words(documents, settings.words, &mut Rng::seeded(settings.seed));
    drawn.retain(|word| !PAPER_WORDS.contains(&word.as_str()));
    words.append(&mut drawn);
    words
}

/// Words that the paper's authors searched for.
pub const PAPER_WORDS: [&str; 2] = ["国际广播电台", "善哉"];
