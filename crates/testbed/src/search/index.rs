//! In-memory index, split over partitions.
//!
//! A hash of its text assigns each document to a partition. Text is indexed by characters and
//! character pairs, hence Chinese needs no dictionary; a longer word is searched by all of its
//! pairs.

use queueing::Span;
use std::time::Instant;

use tantivy::collector::{Count, TopDocs};
use tantivy::query::{BooleanQuery, Query, TermQuery};
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::tokenizer::{NgramTokenizer, TextAnalyzer};
use tantivy::{Index, IndexWriter, ReloadPolicy, Searcher, TantivyDocument, Term};

/// Partition that many threads can search.
pub struct Partition {
    searcher: Searcher,
    text: Field,
}

/// Search result.
#[derive(Clone, Debug, PartialEq)]
pub struct Hits {
    /// Matching documents in this partition.
    pub count: usize,
    /// Best matches: score, and number within the partition.
    pub best: Vec<(f32, u32)>,
}

/// Indexes `documents` in `count` partitions.
///
/// # Errors
/// The index's error.
pub fn partitions(documents: &[String], count: usize) -> tantivy::Result<Vec<Partition>> {
    let of = |part: usize| documents.iter().filter(move |text| hash(text) % count as u64 == part as u64);
    (0..count).map(|part| Partition::new(of(part))).collect()
}

impl Partition {
    fn new<'a>(documents: impl Iterator<Item = &'a String>) -> tantivy::Result<Self> {
        let mut schema = Schema::builder();
        let indexing = TextFieldIndexing::default()
            .set_tokenizer(TOKENIZER)
            .set_index_option(IndexRecordOption::WithFreqs);
        let text = schema.add_text_field("text", TextOptions::default().set_indexing_options(indexing));
        let index = Index::create_in_ram(schema.build());
        let tokenizer = TextAnalyzer::from(NgramTokenizer::new(1, 2, false)?);
        index.tokenizers().register(TOKENIZER, tokenizer);
        let mut writer: IndexWriter = index.writer_with_num_threads(1, WRITER_MEMORY_BYTES)?;
        for document in documents {
            let mut entry = TantivyDocument::default();
            entry.add_text(text, document);
            writer.add_document(entry)?;
        }
        writer.commit()?;
        let segments = index.searchable_segment_ids()?;
        if segments.len() > 1 {
            writer.merge(&segments).wait()?;
        }
        writer.wait_merging_threads()?;
        let reader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { searcher: reader.searcher(), text })
    }

    /// Ten best documents with `word`, and the number of matches.
    ///
    /// # Errors
    /// The index's error.
    pub fn search(&self, word: &str) -> tantivy::Result<Hits> {
        let (best, count) =
            self.searcher.search(&*self.query(word), &(TopDocs::with_limit(10).order_by_score(), Count))?;
        Ok(Hits { count, best: best.into_iter().map(|(score, at)| (score, at.doc_id)).collect() })
    }

    /// Measures one search for `word`.
    ///
    /// # Errors
    /// The index's error.
    pub fn time(&self, word: &str) -> tantivy::Result<Span> {
        let started = Instant::now();
        std::hint::black_box(self.search(word)?);
        Ok(Span::from_nanos(started.elapsed().as_nanos() as u64))
    }

    /// Up to two characters are one term; more are the intersection of their pairs.
    fn query(&self, word: &str) -> Box<dyn Query> {
        let characters: Vec<char> = word.chars().collect();
        let term = |gram: &[char]| -> Box<dyn Query> {
            let text: String = gram.iter().collect();
            Box::new(TermQuery::new(Term::from_field_text(self.text, &text), IndexRecordOption::WithFreqs))
        };
        match characters.len() {
            0..=2 => term(&characters),
            _ => Box::new(BooleanQuery::intersection(characters.windows(2).map(term).collect())),
        }
    }
}

/// FNV-1a, 64 bits: the same on every machine.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    text.bytes().fold(0xCBF2_9CE4_8422_2325, step)
}

const TOKENIZER: &str = "grams";
/// Memory in bytes that a partition's writer fills before it writes a segment.
const WRITER_MEMORY_BYTES: usize = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::corpus;
    use queueing::Rng;

    #[test]
    fn partitions_together_find_every_match() {
        let documents = corpus::generated(300, &mut Rng::seeded(1));
        let partitions = partitions(&documents, 4).expect("an index");
        for word in corpus::words(&documents, 30, &mut Rng::seeded(2)) {
            let found: usize = partitions.iter().map(|p| p.search(&word).expect("a search").count).sum();
            let pairs: Vec<char> = word.chars().collect();
            let has = |document: &&String| match pairs.len() {
                1 | 2 => document.contains(&word),
                _ => pairs.windows(2).all(|pair| document.contains(&pair.iter().collect::<String>())),
            };
            assert_eq!(found, documents.iter().filter(has).count(), "{word}");
        }
    }
}
