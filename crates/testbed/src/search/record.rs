//! How long searches take, for experiments that run without the index.
//!
//! Each line of the record is a word and, for each partition, the shortest of
//! some searches for it: what the search itself takes on one core that nobody
//! disturbs.

use std::fmt::Write as _;
use std::path::Path;

use queueing::{Rng, Span};

use super::{corpus, index};
use crate::Error;

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Partitions of the index, 1 and more.
    pub partitions: usize,
    /// Words that are drawn from the corpus, beside the paper's two.
    pub words: usize,
    /// Searches per word and partition, 1 and more; the shortest counts.
    pub rounds: usize,
    /// Replays the drawing.
    pub seed: u64,
}

/// The paper's partitions; 400 words, fifteen searches each.
impl Default for Settings {
    fn default() -> Self {
        Self { partitions: 18, words: 400, rounds: 15, seed: 1 }
    }
}

/// `testbed record CORPUS FILE`: writes the record of the corpus below folder
/// CORPUS to FILE, with the settings that the experiments use.
///
/// # Errors
/// What is missing, or cannot be read or written.
pub fn command(mut arguments: impl Iterator<Item = String>) -> Result<(), Error> {
    let (Some(corpus), Some(file)) = (arguments.next(), arguments.next()) else {
        let what = "record is given less than a folder of text and a file to write";
        return Err(Error::new(what, "testbed record target/corpora/text experiments/d2p/search-times.csv"));
    };
    let bad = |what| Error::new(what, "experiments/d2p/corpus, which fetches the text");
    let text = record(Path::new(&corpus), &Settings::default()).map_err(bad)?;
    std::fs::write(&file, text).map_err(|e| Error::new(format!("{file}: {e}"), "a file that may be written"))
}

/// The record of a corpus: a line for each word, times in ns.
///
/// # Errors
/// One line: what cannot be read, or what the index says.
pub fn record(corpus: &Path, settings: &Settings) -> Result<String, String> {
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

/// The words of a record: the paper's two and those drawn.
pub fn words(documents: &[String], settings: &Settings) -> Vec<String> {
    let mut words: Vec<String> = PAPER_WORDS.map(str::to_owned).to_vec();
    let mut drawn = corpus::words(documents, settings.words, &mut Rng::seeded(settings.seed));
    drawn.retain(|word| !PAPER_WORDS.contains(&word.as_str()));
    words.append(&mut drawn);
    words
}

/// What the paper's authors searched for.
pub const PAPER_WORDS: [&str; 2] = ["国际广播电台", "善哉"];
