//! Rules of comments in plain words (CONTRIBUTING.md, *Words*).
//!
//! Holds for the crates of [`CRATES`]; a crate joins once its comments keep the rules. Looks at the
//! first line of each paragraph of a doc comment, for metaphors anywhere in a comment and on the
//! pages of [`PAGES`], and for identifiers that say nothing of their content.

use super::Finding;

/// Crates whose comments keep the rules.
const CRATES: [&str; 15] = [
    "queueing", "wire", "classify", "net", "sched", "deadline", "guard", "storage", "runtime", "load", "sim",
    "testbed", "host", "capi", "cli",
];

/// Folders whose pages hold no metaphor either.
const PAGES: [&str; 3] = ["docs/adr/", "experiments/", "spec/"];

/// Words that do not begin a paragraph: its subject is a noun.
const STARTS: [&str; 13] = [
    "What", "Who", "Whoever", "Whose", "Whether", "Which", "How", "Nobody", "Somebody", "So", "Of", "Its",
    "Their",
];

/// Metaphors, and the field's terms for them.
const METAPHORS: [(&str, &str); 9] = [
    ("manners", "ECN, pacing"),
    ("crew", "threads, workers"),
    ("ears", "request rules"),
    ("jar", "cookie cache"),
    ("hatch", "snapshot exchange"),
    ("whoever", "the caller, thread, task or peer"),
    ("nobody", "no caller, thread, task or peer"),
    ("somebody", "a caller, thread, task or peer"),
    ("newcomers", "new connections, new flows"),
];

/// Identifiers that say nothing of their content, and better ones.
const IDENTIFIERS: [(&str, &str); 12] = [
    ("bell", "eventfd, waker"),
    ("came", "arrived, received"),
    ("heard", "received, events"),
    ("nobody", "none, unspecified, unbound"),
    ("patience", "timeout"),
    ("said", "stdout, stderr, message"),
    ("seats", "sockets, adapters"),
    ("somebody", "caller, peer"),
    ("tellers", "reports"),
    ("theirs", "peer, expected"),
    ("told", "events, report, value"),
    ("whom", "recipient"),
];

/// Holds the comments and identifiers of `text`, the content of `file`, against the rules.
pub(super) fn check(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = identifiers(file, text);
    let covered =
        |name: &str| file.strip_prefix("crates/").is_some_and(|rest| rest.starts_with(&format!("{name}/")));
    let is_page = file.ends_with(".md") && PAGES.iter().any(|folder| file.starts_with(folder));
    if !is_page && (!file.ends_with(".rs") || !CRATES.iter().any(|name| covered(name))) {
        return findings;
    }
    let (mut in_paragraph, mut in_block) = (false, false);
    for (index, line) in text.lines().enumerate() {
        let mut find = |what: String| findings.push(Finding { file: file.to_owned(), line: index + 1, what });
        let doc = doc_text(line);
        if let Some(first) = doc.filter(|doc| !in_paragraph && !doc.is_empty())
            && let Some(start) = STARTS.iter().find(|start| first_word(first) == **start)
        {
            find(format!("a paragraph begins with {start:?}; valid: a noun phrase, or `true if …`"));
        }
        in_paragraph = doc.is_some_and(|doc| !doc.is_empty());
        in_block ^= is_page && line.starts_with("```");
        let comment = match line.split_once("//") {
            _ if is_page => {
                if in_block {
                    ""
                } else {
                    line
                }
            }
            comment => comment.map_or("", |(_, comment)| comment),
        };
        let comment = prose(comment).to_lowercase();
        for (metaphor, term) in METAPHORS {
            if words(&comment).any(|word| word == metaphor) {
                find(format!("{metaphor:?}; valid: {term}"));
            }
        }
    }
    findings
}

/// Findings about the identifiers of `text`, the content of `file`.
fn identifiers(file: &str, text: &str) -> Vec<Finding> {
    if !file.starts_with("crates/") || !file.ends_with(".rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (name, terms) in IDENTIFIERS.iter().filter(|(name, _)| declares(line, name)) {
            let what = format!("the identifier {name:?}; valid: a name of its content, such as {terms}");
            findings.push(Finding { file: file.to_owned(), line: index + 1, what });
        }
    }
    findings
}

/// True if `line` declares `name`: as a function, a variable, a parameter or a field.
fn declares(line: &str, name: &str) -> bool {
    let code = line.split_once("//").map_or(line, |(code, _)| code);
    let code = code.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_whole = !before.ends_with(is_word) && !after.starts_with(is_word);
        let is_bound = before.contains("let ") && !before.contains('=');
        is_whole && (is_bound || before.ends_with("fn ") || after.starts_with(": "))
    })
}

/// The word that may not begin the promise `text`, in either case, if it does.
pub(crate) fn wrong_start(text: &str) -> Option<&'static str> {
    STARTS.into_iter().find(|start| first_word(text).eq_ignore_ascii_case(start))
}

/// The text of a doc comment's line; none of another line.
fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?;
    (!text.starts_with('/')).then(|| text.trim())
}

/// `comment` without its code: names between backticks are the compiler's.
fn prose(comment: &str) -> String {
    comment.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start_matches(['*', '-', '`', '(', ' ']);
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default()
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `text` that break a rule in a crate that keeps them.
    #[track_caller]
    fn found(text: &str, expected: &[usize]) {
        let lines: Vec<usize> =
            check("crates/queueing/src/x.rs", text).iter().map(|found| found.line).collect();
        assert_eq!(lines, expected, "{text}");
        assert!(check("examples/x.rs", text).is_empty(), "not covered");
        assert!(check("crates/queueing/README.md", text).is_empty(), "not Rust");
    }

    //~ gates: comments keep the rules of plain words
    #[test]
    fn a_paragraph_of_a_doc_comment_begins_with_a_noun() {
        found("/// Whether it is full.\nfn x()", &[1]);
        found("/// `true` if it is full.\nfn x()", &[]);
        found("/// The queue.\n///\n/// What waits longest.\nstruct X", &[3]);
        found("/// The queue says\n/// How long it is.\nstruct X", &[]);
        found("//! Which waits.", &[1]);
        found("// How it works.", &[]);
        found("//// Who.", &[]);
        found("/// However long it is.\nfn x()", &[]);
        found("/// Its length.\nfn x()", &[1]);
    }

    //~ gates: identifiers name their content
    #[test]
    fn an_identifier_without_content_is_found_where_it_is_declared() {
        found("let said = stderr(&out);", &[1]);
        found("let (code, mut told) = ended();\nlet code = said;", &[1]);
        found("    fn theirs(&self) {", &[1]);
        found("    heard: Vec<Event>,\nfn x(heard: u8)", &[1, 2]);
        found("let stderr = stderr(&out); // as said", &[]);
        found("assert!(x, \"said: {x}\"); let fold_told = 1;", &[]);
        assert_eq!(check("crates/hostbpf/src/guard/x.rs", "let told = 1;").len(), 1, "outside of CRATES");
    }

    //~ gates: comments keep the rules of plain words
    #[test]
    fn a_metaphor_is_found_in_any_comment_and_not_in_code() {
        found("let x = 1; // the crew", &[1]);
        found("let crew = 1;", &[]);
        found("/// The hatch.\nstruct X", &[1]);
        found("/// `crew_len` is a key.\nstruct X", &[]);
        assert_eq!(check("docs/adr/0001-x.md", "# Title\nNobody waits for `crew`.\n").len(), 1);
        assert!(check("docs/adr/0001-x.md", "```\nthe crew\n```\n").is_empty(), "code");
    }
}
