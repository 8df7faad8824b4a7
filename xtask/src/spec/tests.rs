//! Tests of the index on made-up trees.

use super::*;

const HAND: &str =
    "# By hand\n\n## tcp: TCP\n- fails: p99 at most the kernel's (`bench net`)\n\n## udp: UDP\n";

fn tree(files: &[(&str, &str)]) -> Tree {
    let files = files.iter().chain(&[(BY_HAND, HAND)]);
    files.map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect()
}

/// The line of the promise `text` on the page of TCP, if `source` is the file `a.rs`.
#[track_caller]
fn shown(source: &str, expected: &str) {
    let (pages, findings) = pages(&tree(&[("crates/net/a.rs", source)]));
    assert_eq!(findings, []);
    let line =
        pages["docs/spec/tcp.md"].lines().find(|line| line.starts_with("- ") && line.contains("](../"));
    assert_eq!(line, Some(expected), "{source}");
}

#[test]
fn a_promise_stands_above_its_test() {
    let one = "- a segment is sent: [`sends`](../../crates/net/a.rs)";
    shown("//! A.\n\n//~ tcp: a segment is sent\n#[test]\nfn sends() {}\n", one);
    shown(
        "mod tests {\n    //~ tcp: a segment is sent\n    /// Once.\n    #[test]\n    pub fn sends() {}\n}\n",
        one,
    );
    shown("//~ tcp: a segment is sent\n@Test\nvoid sends() {}\n", one);
    shown("//~ tcp: a segment is sent\n#[cfg(x)]\nmod sends;\n", one);
    shown("//~ tcp: a segment is sent\nfinal class sends {\n", one);
}

#[test]
fn a_promise_at_the_head_or_above_a_module_of_tests_is_for_the_file() {
    let file = "- a segment is sent: [`net/a.rs`](../../crates/net/a.rs)";
    shown("//! A.\n\n//~ tcp: a segment is sent\n\nuse x;\n", file);
    shown("//! A.\n//~ tcp: a segment is sent\n\nfn x() {}\n", file);
    shown("use x;\n//~ tcp: a segment is sent\n#[cfg(test)]\nmod tests;\n", file);
}

#[test]
fn tests_of_one_promise_share_a_line() {
    let source = "//~ tcp: x is so\nfn a() {}\n//~ udp: x is so\n//~ tcp: x is so\nfn b() {}\n";
    shown(source, "- x is so: [`a`](../../crates/net/a.rs) +1");
}

#[test]
fn a_wrong_promise_or_entry_is_found_at_its_line() {
    let found = |source: &str, expected: &str| {
        let (_, findings) = pages(&tree(&[("a.rs", source)]));
        assert_eq!(findings.len(), 1, "{source}");
        let shown = findings[0].to_string();
        assert!(shown.starts_with("a.rs:1: ") && shown.contains(expected), "{shown}");
    };
    found("//~ tcp: x is so\nlet x = 1;\n", "below a promise");
    found("//~ ip: x is so\nfn x() {}\n", "no area ip");
    found("// ~ tcp: x is so\nfn x() {}\n", "begins with \"//~ \"");
    found("//~ x is so\nfn x() {}\n", "`//~ area: text`");
    found("//~ tcp: Who sends\nfn x() {}\n", "begins with \"Who\"");
    found("//~ tcp: who sends\nfn x() {}\n", "begins with");
    found(&format!("//~ tcp: {}\nfn x() {{}}\n", "x".repeat(141)), "140");
    let (_, findings) = areas("- holds: x\n## tcp: TCP\n- perhaps: x\n- holds: x\n");
    assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [1, 3]);
}

//~ gates: the index of promises is what the comments above tests say
#[test]
fn a_page_that_differs_or_has_no_source_is_stale() {
    let mut tree = tree(&[("a.rs", "//~ tcp: x is so\nfn x() {}\n")]);
    assert_eq!(check(&tree).len(), 5, "no page is there");
    tree.extend(pages(&tree).0);
    assert_eq!(check(&tree), []);
    tree.insert("a.rs".to_owned(), "//~ tcp: x is not so\nfn x() {}\n".to_owned());
    let stale: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
    assert_eq!(stale, ["docs/spec/tcp.md:4: the page is stale; try: cargo run -p xtask -- spec"]);
    tree.extend(pages(&tree).0);
    tree.insert("docs/spec/ip.md".to_owned(), String::new());
    assert_eq!(check(&tree).len(), 1, "a page without an area");
}

#[test]
fn the_index_counts_by_area_and_names_what_fails() {
    let (pages, _) = pages(&tree(&[("a.rs", "//~ tcp: x is so\nfn x() {}\n")]));
    let index = &pages[INDEX];
    let row = format!("| [TCP]({LINKS}tcp.md) | 1 | 1 | – | 1 | – | – | – |\n");
    assert!(index.contains(&row), "{index}");
    assert!(index.contains("\n## Fails\n\n- *TCP*: p99 at most the kernel's (`bench net`)\n"), "{index}");
}

#[test]
fn scripts_and_experiments_are_listed_from_their_first_lines() {
    let tree = tree(&[
        ("crates/net/tests/scripts/mss/a.pkt", "// The MSS is sent. RFC 6691 §2, RFC 9293.\n"),
        ("crates/net/tests/scripts/mss/b.pkt", "// It is obeyed. RFC 9293 §3.7.\n"),
        ("experiments/fish/fig2.toml", "title = \"Waits\"\n\n[[claim]]\n\n[[claim]]\n"),
    ]);
    let (pages, _) = pages(&tree);
    assert!(pages["docs/spec/scripts.md"].contains("/mss): 2; RFC 6691, 9293\n"));
    assert!(
        pages["docs/spec/experiments.md"]
            .contains("- [fish/fig2](../../experiments/fish/fig2.toml): Waits (2 claims)")
    );
}
