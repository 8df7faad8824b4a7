//! Index of the project's promises, written from the tests that show them.
//!
//! A test carries its promise in a comment directly above it: `//~ guard: a dry run drops no SYN`.
//! Above a module or a class, or at the head of a file, the comment is for all its tests. Tests
//! with the same promise share a line of the index. Promises that no test can show, and states
//! other than `holds`, stand in `spec/by-hand.md`. This does not check that a test shows its
//! promise. Source of the form: duvet's citations in s2n-quic.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::tidy::{self, Finding};

mod sources;

use sources::{Promise, Site};

/// Text of each file by its path.
pub(crate) type Tree = BTreeMap<String, String>;

const INDEX: &str = "SPEC.md";
const FOLDER: &str = "docs/spec/";
/// [`FOLDER`] in links of [`INDEX`].
const LINKS: &str = "docs/spec/";
const BY_HAND: &str = "spec/by-hand.md";
const COMMAND: &str = "cargo run -p xtask -- spec";

/// States of promises that no test shows, in the order of the index.
const STATES: [&str; 5] = ["holds", "fails", "undecided", "not measured", "missing"];

/// A page of the index.
#[derive(Default)]
struct Area {
    name: String,
    title: String,
    /// Tests that show each promise, in the order of their files.
    shown: Vec<(String, Vec<Site>)>,
    /// Promises by state, of which no test is the evidence.
    by_hand: Vec<(&'static str, String)>,
}

impl Area {
    fn count(&self, state: &str) -> usize {
        self.by_hand.iter().filter(|(other, _)| *other == state).count()
    }

    fn tests(&self) -> usize {
        let sites: BTreeSet<&Site> = self.shown.iter().flat_map(|(_, sites)| sites).collect();
        sites.len()
    }

    fn page(&self) -> String {
        let mut page = format!("{}# {}\n\n", written(), self.title);
        for (text, sites) in &self.shown {
            let more = if sites.len() > 1 { format!(" +{}", sites.len() - 1) } else { String::new() };
            let _ = writeln!(page, "- {text}: [`{}`](../../{}){more}", sites[0].label(), sites[0].file);
        }
        if !self.by_hand.is_empty() {
            page.push_str("\n## By benchmark, command or document\n\n");
        }
        for (state, text) in &self.by_hand {
            let _ = writeln!(page, "- **{state}**: {text}");
        }
        page
    }
}

/// Writes the pages of the workspace at `root`. Exit 0: written, 1: a comment or entry is wrong,
/// 2: could not write.
pub(crate) fn run(root: &Path) -> ExitCode {
    let written = tidy::read_tree(root).and_then(|tree| {
        let (pages, findings) = pages(&tree);
        std::fs::create_dir_all(root.join(FOLDER)).map_err(|e| format!("{FOLDER}: {e}"))?;
        for file in stray(&tree, &pages) {
            std::fs::remove_file(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        }
        for (file, text) in &pages {
            std::fs::write(root.join(file), text).map_err(|e| format!("{file}: {e}"))?;
        }
        println!("spec: {} pages", pages.len());
        Ok(findings)
    });
    match written {
        Ok(findings) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            ExitCode::from(u8::from(!findings.is_empty()))
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}

/// Wrong comments and entries in `tree`, and pages that differ from what [`run`] would write.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let (pages, mut findings) = pages(tree);
    let stale = pages.iter().filter(|(file, text)| tree.get(*file) != Some(text)).map(|(file, _)| file);
    findings.extend(stale.chain(stray(tree, &pages)).map(|file| {
        let line = first_difference(pages.get(file), tree.get(file));
        finding(file, line, format!("the page is stale; try: {COMMAND}"))
    }));
    findings
}

fn first_difference(new: Option<&String>, old: Option<&String>) -> usize {
    let lines = |text: Option<&String>| text.cloned().unwrap_or_default();
    let (new, old) = (lines(new), lines(old));
    new.lines().zip(old.lines()).take_while(|(a, b)| a == b).count() + 1
}

/// Pages in `tree` that are in the folder of the index and not among `pages`.
fn stray<'a>(tree: &'a Tree, pages: &'a Tree) -> impl Iterator<Item = &'a String> {
    tree.keys().filter(|file| file.starts_with(FOLDER) && !pages.contains_key(*file))
}

fn finding(file: &str, line: usize, what: String) -> Finding {
    Finding { file: file.to_owned(), line, what }
}

/// The pages by path, and the wrong comments and entries.
fn pages(tree: &Tree) -> (Tree, Vec<Finding>) {
    let by_hand = tree.get(BY_HAND).map_or("", String::as_str);
    let (mut areas, mut findings) = areas(by_hand);
    for Promise { site, line, area: name, text } in sources::promises(tree, &mut findings) {
        let Some(area) = areas.iter_mut().find(|area| area.name == name) else {
            let what = format!("no area {name}; valid: a heading `## {name}: Title` in {BY_HAND}");
            findings.push(finding(&site.file, line, what));
            continue;
        };
        match area.shown.iter_mut().find(|(other, _)| *other == text) {
            Some((_, sites)) => sites.push(site),
            None => area.shown.push((text, vec![site])),
        }
    }
    let page = |area: &Area| (format!("{FOLDER}{}.md", area.name), area.page());
    let mut pages: Tree = areas.iter().map(page).collect();
    pages.insert(format!("{FOLDER}scripts.md"), sources::scripts_page(tree));
    pages.insert(format!("{FOLDER}experiments.md"), sources::experiments_page(tree));
    pages.insert(INDEX.to_owned(), index(&areas, tree));
    (pages, findings)
}

/// Areas and entries of the text of [`BY_HAND`]: `## area: Title`, then lines `- state: promise`.
fn areas(text: &str) -> (Vec<Area>, Vec<Finding>) {
    let (mut areas, mut findings) = (Vec::<Area>::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        if let Some((name, title)) = line.strip_prefix("## ").and_then(|head| head.split_once(": ")) {
            areas.push(Area { name: name.to_owned(), title: title.to_owned(), ..Area::default() });
        } else if let Some(entry) = line.strip_prefix("- ") {
            let known = STATES.iter().find_map(|s| Some((*s, entry.strip_prefix(s)?.strip_prefix(": ")?)));
            match (known, areas.last_mut()) {
                (Some((state, text)), Some(area)) => area.by_hand.push((state, text.to_owned())),
                _ => {
                    let what = format!("an entry below a heading `## area: Title` begins with {STATES:?}");
                    findings.push(finding(BY_HAND, index + 1, what));
                }
            }
        }
    }
    (areas, findings)
}

/// First line of a page, which names its sources.
fn written() -> String {
    format!("<!-- Written by `{COMMAND}` from comments `//~` above tests and from {BY_HAND}. -->\n")
}

fn index(areas: &[Area], tree: &Tree) -> String {
    let mut page = written();
    page.push_str(
        "# Promises of greenwave, and their evidence\n\n\
         A promise holds if the tests that carry it pass: `make test`. A test carries its promise in a\n\
         comment directly above it (CONTRIBUTING.md, *Tests*). *By hand* counts promises that a benchmark,\n\
         a command or a document shows. `fails`: tried and missed. `undecided`: the interval contains the\n\
         bound. `not measured`: built, and never run where it could fail. `missing`: not built.\n\n\
         | area | promises with tests | tests | by hand | fails | undecided | not measured | missing |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for area in areas {
        let count = |state: &str| match area.count(state) {
            0 => "–".to_owned(),
            count => count.to_string(),
        };
        let counts = STATES.map(count).join(" | ");
        let (name, title, shown) = (&area.name, &area.title, area.shown.len());
        let _ = writeln!(page, "| [{title}]({LINKS}{name}.md) | {shown} | {} | {counts} |", area.tests());
    }
    let _ = writeln!(
        page,
        "\nBeside these: [{} scripts of TCP and IP, by topic and RFC]({LINKS}scripts.md), and\n\
         [{} experiments and their claims]({LINKS}experiments.md).",
        sources::scripts(tree).count(),
        sources::experiments(tree).count(),
    );
    for state in &STATES[1..] {
        let _ = writeln!(page, "\n## {}{}\n", state[..1].to_uppercase(), &state[1..]);
        for area in areas {
            for (_, text) in area.by_hand.iter().filter(|(other, _)| other == state) {
                let _ = writeln!(page, "- *{}*: {text}", area.title);
            }
        }
    }
    page
}

#[cfg(test)]
mod tests;
