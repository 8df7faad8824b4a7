//! Index partitions and query words of a run.

use std::path::Path;
use std::sync::Arc;

use queueing::Rng;

use super::index::{self, Hits, Partition};
use super::{corpus, record};
use crate::Error;

/// Partitions of an index and words of queries; clones share them.
#[derive(Clone)]
pub struct IndexSet {
    partitions: Arc<Vec<Partition>>,
    words: Arc<Vec<String>>,
}

impl IndexSet {
    /// Opens the corpus folder and the record given by `arguments`, or generates a small corpus
    /// if there are none.
    ///
    /// # Errors
    /// The file that cannot be read, or the index's error.
    pub fn open(mut arguments: impl Iterator<Item = String>, partitions: usize) -> Result<Self, Error> {
        let bad = |cause: String| Error::new(cause, "experiments/d2p/corpus, which fetches the text");
        let (documents, words) = match (arguments.next(), arguments.next()) {
            (None, _) => {
                let documents = corpus::generated(GENERATED, &mut Rng::seeded(1));
                let words =
                    corpus::words(&documents, record::RecordSettings::default().words, &mut Rng::seeded(2));
                (documents, words)
            }
            (Some(folder), Some(file)) => {
                let text = std::fs::read_to_string(&file).map_err(|e| bad(format!("{file}: {e}")))?;
                let word = |line: &str| line.split(',').next().unwrap_or_default().to_owned();
                (corpus::read(Path::new(&folder)).map_err(bad)?, text.lines().skip(1).map(word).collect())
            }
            (Some(folder), None) => {
                return Err(bad(format!("a corpus {folder:?} without a record of words")));
            }
        };
        let partitions = index::partitions(&documents, partitions).map_err(|e| bad(e.to_string()))?;
        Ok(Self { partitions: Arc::new(partitions), words: Arc::new(words) })
    }

    /// Searches `partition` for the word of query `number`, modulo the number of words.
    ///
    /// # Errors
    /// One line: the missing partition, or the index's error.
    pub fn search(&self, partition: usize, number: usize) -> Result<Hits, String> {
        let of = self.partitions.len();
        let found =
            self.partitions.get(partition).ok_or(format!("partition {partition} is outside 0..{of}"))?;
        found.search(&self.words[number % self.words.len()]).map_err(|e| e.to_string())
    }
}

/// Number of documents of the generated corpus.
const GENERATED: usize = 2_000;
