//! Readers of the index's sources: comments above tests, scripts of `net`, experiment files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::{Finding, Tree, finding, written};
use crate::tidy;

/// Start of a promise in a source file.
const MARK: &str = "//~ ";

/// The same after the formatter has wrapped the line.
const SPLIT_MARK: &str = "// ~";

/// Longest promise: it takes one line of the index.
const PROMISE_CHARS_MAX: usize = 140;

/// Keywords before the name of a test or of a group of tests, in Rust and in Java.
const KEYWORDS: [&str; 4] = ["fn", "void", "mod", "class"];

const SCRIPTS: &str = "crates/net/tests/scripts/";
const EXPERIMENTS: &str = "experiments/";

/// A test, a module or class of tests, or a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Site {
    pub file: String,
    /// Empty for a file or for a module `tests`.
    pub name: String,
}

impl Site {
    /// The test's name, or the file's without the folder of crates.
    pub fn label(&self) -> &str {
        if self.name.is_empty() { self.file.trim_start_matches("crates/") } else { &self.name }
    }
}

/// A promise at one test.
pub(super) struct Promise {
    pub site: Site,
    pub line: usize,
    pub area: String,
    pub text: String,
}

/// Promises of all sources in `tree`; wrong ones go to `findings`.
pub(super) fn promises(tree: &Tree, findings: &mut Vec<Finding>) -> Vec<Promise> {
    let is_source = |file: &str| file.ends_with(".rs") || file.ends_with(".java");
    let sources = tree.iter().filter(|(file, _)| is_source(file));
    let mut promises = Vec::new();
    for (file, text) in sources {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (index, line) in lines.iter().enumerate() {
            if line.starts_with(SPLIT_MARK) {
                let what =
                    format!("a promise begins with {MARK:?}; the formatter splits a line that is too long");
                findings.push(finding(file, index + 1, what));
            }
            let Some(comment) = line.strip_prefix(MARK) else { continue };
            match promise(&lines, index, comment) {
                Ok((name, area, text)) => {
                    let site = Site { file: file.clone(), name };
                    promises.push(Promise { site, line: index + 1, area, text });
                }
                Err(what) => findings.push(finding(file, index + 1, what)),
            }
        }
    }
    promises
}

/// Name of the test below line `index`, area and text of its `comment`.
fn promise(lines: &[&str], index: usize, comment: &str) -> Result<(String, String, String), String> {
    let (area, text) = comment.split_once(": ").ok_or("a promise is `//~ area: text`")?;
    if text.chars().count() > PROMISE_CHARS_MAX {
        return Err(format!("a promise has at most {PROMISE_CHARS_MAX} characters"));
    }
    if let Some(start) = tidy::wrong_start(text) {
        return Err(format!("a promise begins with {start:?}; valid: a noun phrase"));
    }
    let name = target(lines, index).ok_or("below a promise is a test, a module or class of tests")?;
    Ok((name, area.to_owned(), text.to_owned()))
}

/// Name of the test or group of tests below line `index`: empty for a whole file.
fn target(lines: &[&str], index: usize) -> Option<String> {
    let is_comment = |line: &str| line.starts_with("//");
    let is_head = |line: &&str| is_comment(line) || line.is_empty() || line.starts_with("#![");
    let mut below = lines[index..].iter().skip_while(|line| is_comment(line));
    if lines[..index].iter().all(is_head) && below.clone().next().is_none_or(|line| line.is_empty()) {
        return Some(String::new());
    }
    let declaration = below.find(|line| !is_comment(line) && !line.starts_with(['#', '@', ')']))?;
    let words: Vec<&str> = declaration.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let at = words.iter().position(|word| KEYWORDS.contains(word))?;
    let name = words.get(at + 1)?;
    Some(if *name == "tests" { String::new() } else { (*name).to_owned() })
}

/// The scripts of `net`: topic, and the first line without its marks.
pub(super) fn scripts(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.range(SCRIPTS.to_owned()..).filter_map(|(file, text)| {
        let (topic, name) = file.strip_prefix(SCRIPTS)?.split_once('/')?;
        name.ends_with(".pkt").then(|| (topic, text.lines().next().unwrap_or_default()))
    })
}

/// Scripts by topic, with the RFCs that their first lines name.
pub(super) fn scripts_page(tree: &Tree) -> String {
    let mut topics = BTreeMap::<&str, (usize, BTreeSet<u32>)>::new();
    for (topic, title) in scripts(tree) {
        let (count, rfcs) = topics.entry(topic).or_default();
        *count += 1;
        rfcs.extend(title.split("RFC ").skip(1).filter_map(leading_number));
    }
    let mut page = format!(
        "{}# Scripts of TCP and IP\n\n\
         Each script states one truth and its section of the RFC in its first line:\n\
         `cargo test -p net --test scripts TOPIC/`.\n\n",
        written()
    );
    for (topic, (count, rfcs)) in topics {
        let rfcs: Vec<String> = rfcs.iter().map(ToString::to_string).collect();
        let named = if rfcs.is_empty() { String::new() } else { format!("; RFC {}", rfcs.join(", ")) };
        let _ = writeln!(page, "- [{topic}](../../{SCRIPTS}{topic}): {count}{named}");
    }
    page
}

fn leading_number(text: &str) -> Option<u32> {
    text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The experiment files: path, and text.
pub(super) fn experiments(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.range(EXPERIMENTS.to_owned()..)
        .take_while(|(file, _)| file.starts_with(EXPERIMENTS))
        .filter(|(file, text)| file.ends_with(".toml") && text.contains("\n[[claim"))
        .map(|(file, text)| (file.as_str(), text.as_str()))
}

/// Experiments with title and number of claims.
pub(super) fn experiments_page(tree: &Tree) -> String {
    let mut page = format!(
        "{}# Experiments\n\n\
         Each claim has its bound in the experiment's file. Run one: `greenwave exp run NAME --scale paper`;\n\
         results: [docs/results.md](../results.md). At scale smoke `make test` asserts the claims of every\n\
         simulated one.\n\n",
        written()
    );
    for (file, text) in experiments(tree) {
        let name = file.trim_start_matches(EXPERIMENTS).trim_end_matches(".toml");
        let title = text.lines().find_map(|line| line.strip_prefix("title = \"")?.strip_suffix('"'));
        let claims = text.matches("\n[[claim").count();
        let _ = writeln!(page, "- [{name}](../../{file}): {} ({claims} claims)", title.unwrap_or_default());
    }
    page
}
