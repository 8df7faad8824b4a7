//! Check that the files and tests named in `SPEC.md` exist.
//!
//! It does not check that a test shows its promise. A name stands between backquotes:
//! `cli/tests/sim.rs` begins at the root or in `crates/`, `sack/` among the scripts of `net`, and
//! `red.rs` lies beside the file named before it. `::name` is in the file named before it, `.name`
//! in the Java class, no further up than the heading. Other text is no name.

use std::collections::BTreeMap;

use super::Finding;

const FILE: &str = "SPEC.md";

/// Prefixes of paths.
const ROOTS: [&str; 3] = ["", "crates/", "crates/net/tests/scripts/"];

/// Suffixes that a path may omit.
const ENDS: [&str; 3] = ["", ".rs", ".pkt"];

/// Marks of a word that is a path without a known root.
const MARKS: [&str; 4] = [".rs", ".toml", ".md", "/"];

/// Keywords before the name of a test, in Rust and in Java.
const KEYWORDS: [&str; 3] = ["fn", "mod", "void"];

/// Text of each file by its path.
pub(super) type Tree = BTreeMap<String, String>;

/// Checks the names on the page in `tree` against the rest of `tree`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(FILE) else {
        return vec![Finding { file: FILE.to_owned(), line: 1, what: "the page is not there".to_owned() }];
    };
    let mut findings = Vec::new();
    let mut place = Place::default();
    for (index, line) in page.lines().enumerate() {
        if line.starts_with('#') {
            place = Place::default();
        }
        for word in line.split('`').skip(1).step_by(2).flat_map(spread) {
            let Some(name) = Name::parse(tree, &word) else { continue };
            if let Err(what) = place.follow(tree, &name) {
                findings.push(Finding { file: FILE.to_owned(), line: index + 1, what });
            }
        }
    }
    findings
}

/// Expands `a/{b,c}.rs` to `a/b.rs` and `a/c.rs`.
fn spread(word: &str) -> Vec<String> {
    let parts = word.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?)));
    let Some((head, (middle, tail))) = parts else { return vec![word.to_owned()] };
    middle.split(',').map(|part| format!("{head}{part}{tail}")).collect()
}

/// A file or folder, tests in it, or both.
struct Name<'a> {
    /// Empty for the file named before.
    path: String,
    tests: Vec<&'a str>,
}

impl<'a> Name<'a> {
    /// `None`: `word` names neither a file nor a test.
    fn parse(tree: &Tree, word: &'a str) -> Option<Self> {
        if let Some((path, tests)) = word.split_once("::") {
            let is_file = path.is_empty() || is_path(tree, path);
            return (is_file && !tests.is_empty())
                .then(|| Self { path: path.to_owned(), tests: tests.split("::").collect() });
        }
        let (class, test) = word.split_once('.').unwrap_or((word, ""));
        let is_java = class.ends_with("Test") || (class.is_empty() && test.contains(char::is_uppercase));
        if is_java && (class.to_owned() + test).chars().all(is_letter) {
            let path = if class.is_empty() { String::new() } else { format!("{class}.java") };
            let tests = if test.is_empty() { Vec::new() } else { vec![test] };
            return Some(Self { path, tests });
        }
        is_path(tree, word).then(|| Self { path: word.to_owned(), tests: Vec::new() })
    }
}

/// True if `word` has the form of a path, existing or not.
fn is_path(tree: &Tree, word: &str) -> bool {
    let begins = word.split_once('/').is_some_and(|(first, _)| {
        !first.is_empty() && ROOTS.iter().any(|root| is_folder(tree, &format!("{root}{first}")))
    });
    let is_plain = word.chars().all(|c| is_letter(c) || matches!(c, '/' | '.' | '-'));
    is_plain && (begins || MARKS.iter().any(|mark| word.ends_with(mark)))
}

fn is_folder(tree: &Tree, path: &str) -> bool {
    let inside = format!("{path}/");
    tree.range(inside.clone()..).next().is_some_and(|(file, _)| file.starts_with(&inside))
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The last named place.
#[derive(Default)]
struct Place {
    /// The path as written.
    path: String,
    /// The matching files: of a Java class, each file of that name.
    found: Vec<String>,
}

impl Place {
    /// Moves to the place that `name` names.
    ///
    /// # Errors
    /// The missing part, and what would be valid.
    fn follow(&mut self, tree: &Tree, name: &Name<'_>) -> Result<(), String> {
        if !name.path.is_empty() {
            *self = Self { path: name.path.clone(), found: self.find(tree, &name.path) };
            if self.found.is_empty() {
                let valid = "a path from the root or from crates/, or a name beside the file before it";
                return Err(format!("{} is not there; valid: {valid}", self.path));
            }
        }
        let is_in = |file: &String, test: &str| tree.get(file).is_some_and(|text| declares(text, test));
        match name.tests.iter().find(|test| !self.found.iter().any(|file| is_in(file, test))) {
            Some(test) => Err(self.lacks(tree, test)),
            None => Ok(()),
        }
    }

    fn find(&self, tree: &Tree, path: &str) -> Vec<String> {
        if path.ends_with(".java") && !path.contains('/') {
            let inside = format!("/{path}");
            return tree.keys().filter(|file| file.ends_with(&inside)).cloned().collect();
        }
        let is_there = |path: &String| tree.contains_key(path) || is_folder(tree, path);
        let beside = self.folder(tree);
        let path = path.trim_end_matches('/');
        let roots = ROOTS.into_iter().chain([beside.as_str()]);
        let mut paths = roots.flat_map(|root| ENDS.map(|end| format!("{root}{path}{end}")));
        paths.find(is_there).into_iter().collect()
    }

    /// Folder, with its `/`, of names without a root.
    fn folder(&self, tree: &Tree) -> String {
        let path = self.found.first().map_or("", String::as_str);
        if !tree.contains_key(path) {
            return format!("{path}/");
        }
        path.rfind('/').map_or("", |at| &path[..=at]).to_owned()
    }

    fn lacks(&self, tree: &Tree, test: &str) -> String {
        let is_source = |file: &str| file.ends_with(".rs") || file.ends_with(".java");
        let having = tree.iter().filter(|(file, text)| is_source(file) && declares(text, test));
        let having: Vec<&str> = having.map(|(file, _)| file.as_str()).take(3).collect();
        let path = if self.path.is_empty() { "any file named before it" } else { &self.path };
        match having.join(", ").as_str() {
            "" => format!("{test} is not in {path}, nor elsewhere; valid: a test that is, or [no test]"),
            files => format!("{test} is not in {path}; valid: the same after {files}"),
        }
    }
}

/// True if `text` has a function or a module of that name.
fn declares(text: &str, name: &str) -> bool {
    KEYWORDS.iter().any(|keyword| {
        let declared = format!("{keyword} {name}");
        text.match_indices(&declared).any(|(at, _)| !text[at + declared.len()..].starts_with(is_letter))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: [(&str, &str); 7] = [
        ("crates/net/src/wire.rs", "mod tests {\n#[test]\nfn round_trips() {}\n}\n"),
        ("crates/net/tests/ip/udp.rs", "proptest! {\nfn arrives(n in 0..9) {}\n}\n"),
        ("crates/net/tests/ip/icmp.rs", "fn answers_at_once() {}\n"),
        ("crates/net/tests/scripts/sack/latest.pkt", "# Latest first.\n"),
        ("docs/guide.md", "# Guide\n"),
        ("java/dubbo/src/test/PeersTest.java", "@Test void aPeerIsServed() {}\n"),
        ("java/storm/src/test/PeersTest.java", "@Test void aBoltIsServed() {}\n"),
    ];

    /// Findings on a page of `rows` after a heading, in `TREE`.
    #[track_caller]
    fn found(rows: &str, expected: &[&str]) {
        let mut tree: Tree = TREE.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        tree.insert(FILE.to_owned(), format!("## Room\n{rows}\n"));
        let shown: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for (finding, part) in shown.iter().zip(expected) {
            assert!(finding.contains(part), "{finding:?} lacks {part:?}");
        }
    }

    #[test]
    fn a_test_is_in_the_file_named_before_it() {
        found("| a | `net/src/wire.rs::round_trips`, `::tests` |\n| b | `::tests::round_trips` |", &[]);
        found("`net/tests/ip/udp.rs::arrives`, `icmp.rs::answers_at_once`", &[]);
        let wrong = "| a | `net/src/wire.rs` |\n| b | `docs/guide.md`, `::round_trips`, `::arrive` |";
        let expected = [
            "SPEC.md:3: round_trips is not in docs/guide.md; valid: the same after crates/net/src/wire.rs",
            "SPEC.md:3: arrive is not in docs/guide.md, nor elsewhere",
        ];
        found(wrong, &expected);
        found("`net/src/wire.rs::tests::arrives`", &["arrives is not in net/src/wire.rs"]);
    }

    #[test]
    fn a_heading_ends_what_was_named_before() {
        found("`net/tests/ip/udp.rs`\n### Part\n`::arrives`", &["SPEC.md:4: arrives is not in any file"]);
    }

    #[test]
    fn a_file_or_a_folder_that_is_named_is_there() {
        found("`net/src/wire.rs` `net/src/wire` `net/tests/{ip,scripts}` `docs/guide.md` `crates/net`", &[]);
        found("`net/tests/ip/` (`udp.rs`), scripts `sack/`, `sack/latest`", &[]);
        found("`net/src/wires.rs`, `::tests`", &["wires.rs is not there", "tests is not in"]);
        found("`net/tests/{ip,tcp}`, `tls.rs`", &["net/tests/tcp is not there", "tls.rs is not there"]);
        found("`udp.rs`, scripts `tack/`, `sack/first`", &["udp.rs is", "tack/ is", "sack/first is"]);
    }

    #[test]
    fn a_java_test_is_in_a_class_of_its_name() {
        found("`java/storm` `PeersTest.aBoltIsServed`, `.aPeerIsServed`, `PeersTest`", &[]);
        let expected = ["GateTest.java is not there", "aBolt is not in PeersTest.java"];
        found("`GateTest`, `PeersTest`, `.aBolt`", &expected);
    }

    #[test]
    fn what_is_no_name_is_left_alone() {
        found("`holds`, `net::Stack`, `Config::mtu`, `::`, `--out`, `/metrics`, `cargo test -p net`", &[]);
        found("`exp run caladan/e1`, `caladan/e1`, `net/tests/scripts/TOPIC/*.pkt`, `a.html`, `.deb`", &[]);
    }

    #[test]
    fn without_a_page_that_is_said() {
        assert_eq!(check(&Tree::new()).len(), 1);
    }
}
