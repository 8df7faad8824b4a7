//! Corpus: two Chinese text collections, as unpacked by `experiments/d2p/corpus`.
//!
//! Poems are JSON arrays of objects with `paragraphs`, a newspaper is lines of `word/tag`. A
//! document is a poem or a paragraph of an article. The files are not part of this repository;
//! [`generated`] makes a small corpus from a seed for tests.

use std::path::{Path, PathBuf};

use queueing::Rng;
use serde::Deserialize;

#[derive(Deserialize)]
struct Poem {
    #[serde(default)]
    paragraphs: Vec<String>,
}

/// Reads every document below `folder`, in the order of file names.
///
/// # Errors
/// One line: the file that cannot be read, or that there is no document.
pub fn read(folder: &Path) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    list(folder, &mut files)?;
    files.sort();
    let mut documents = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        if file.extension().is_some_and(|extension| extension == "json") {
            // Other JSON, such as lists of authors, has no poems.
            let poems: Vec<Poem> = serde_json::from_str(&text).unwrap_or_default();
            documents.extend(poems.into_iter().map(|poem| poem.paragraphs.concat()));
        } else {
            documents.extend(text.lines().map(without_tags));
        }
    }
    documents.retain(|document| !document.is_empty());
    if documents.is_empty() {
        return Err(format!("{}: no document, neither *.json of poems nor tagged *.txt", folder.display()));
    }
    Ok(documents)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "json" || extension == "txt") {
            files.push(path);
        }
    }
    Ok(())
}

/// Removes tags: `迈向/v 充满/v` becomes `迈向充满`.
fn without_tags(line: &str) -> String {
    line.split_whitespace().map(|word| word.split('/').next().unwrap_or(word)).collect()
}

/// Generates `count` documents of frequent and rare characters from `rng`.
#[must_use]
pub fn generated(count: usize, rng: &mut Rng) -> Vec<String> {
    let character = |rng: &mut Rng| {
        // A few characters make up most of a text, as in any language.
        let rank = (rng.unit().powi(4) * 2_000.0) as u32;
        char::from_u32(HAN_FIRST + rank).expect("within the CJK block")
    };
    let mut document = || {
        let length = 20 + rng.below(60);
        (0..length).map(|_| character(rng)).collect()
    };
    (0..count).map(|_| document()).collect()
}

/// Draws `count` distinct words of 1 to 4 characters from `documents`. Frequent characters are
/// drawn often and are expensive to search.
///
/// # Panics
/// If the documents have no Chinese characters.
#[must_use]
pub fn words(documents: &[String], count: usize, rng: &mut Rng) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for _ in 0..count * 100 {
        if words.len() == count {
            return words;
        }
        let document: Vec<char> = documents[rng.below(documents.len() as u64) as usize].chars().collect();
        let length = 1 + rng.below(4) as usize;
        if document.len() < length {
            continue;
        }
        let from = rng.below((document.len() - length + 1) as u64) as usize;
        let word = &document[from..from + length];
        let text: String = word.iter().collect();
        if word.iter().all(|&c| is_common_han(c)) && !words.contains(&text) {
            words.push(text);
        }
    }
    assert!(!words.is_empty(), "documents without Chinese characters have no words");
    words
}

/// True if `c` is in the block of common Chinese characters.
fn is_common_han(c: char) -> bool {
    (HAN_FIRST..=0x9FFF).contains(&u32::from(c))
}

/// First character of the block.
const HAN_FIRST: u32 = 0x4E00;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_no_text() {
        assert_eq!(without_tags("国际/n 广播/vn 电台/n ，/w"), "国际广播电台，");
    }

    #[test]
    fn words_occur_in_the_documents_and_a_seed_replays() {
        let documents = generated(50, &mut Rng::seeded(1));
        let drawn = words(&documents, 40, &mut Rng::seeded(2));
        assert_eq!(drawn.len(), 40);
        assert!(drawn.iter().all(|word| documents.iter().any(|document| document.contains(word))));
        assert_eq!(drawn, words(&documents, 40, &mut Rng::seeded(2)));
        assert_ne!(drawn, words(&documents, 40, &mut Rng::seeded(3)));
    }
}
