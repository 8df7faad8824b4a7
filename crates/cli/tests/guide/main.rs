//! Test of the guide: every command block of every page is run in order, and prints the shown
//! output.
//!
//! Blocks that this machine cannot run are reported with the reason.

mod deploy;
mod flags;
mod page;
mod session;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use netlab::NetLab;
use page::Block;
use session::Session;

/// The root of the checkout.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in crates/").to_owned()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Targets of the Markdown links in `page`, except those outside the tree.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let targets = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.split('#').next().unwrap_or_default()).filter(|target| {
        !target.is_empty() && !target.contains("://") && !target.contains(char::is_whitespace)
    })
}

/// The pages in the order of the summary: path below `docs/guide`, and text.
fn pages() -> Vec<(String, String)> {
    let summary = read("docs/guide/SUMMARY.md");
    links(&summary).map(|path| (path.to_owned(), read(format!("docs/guide/{path}")))).collect()
}

/// Bypasses the test harness, which hides the output of passing tests.
fn skipped(what: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {what}: {why}\n").as_bytes());
}

/// True if `program` is in a folder of PATH.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The reason this machine cannot run `block`, if any.
fn obstacle(block: &Block) -> Option<String> {
    if let Some(what) = block.value("unrun") {
        return Some(format!("it takes {}", what.replace('-', " ")));
    }
    if block.has("bpf") && !cfg!(feature = "bpf") {
        return Some("it takes a greenwave with the feature bpf".to_owned());
    }
    if block.has("bpf") && !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("the kernel has no BTF".to_owned());
    }
    if let Some(why) = (block.has("root") || block.has("bpf")).then(NetLab::unavailable).flatten() {
        return Some(why);
    }
    if let Some(program) = block.value("needs").into_iter().flat_map(|n| n.split('+')).find(|p| !is_there(p))
    {
        return Some(format!("the program {program} is not there"));
    }
    block.steps().iter().find_map(|step| {
        let words: Vec<&str> = step.command.split_whitespace().collect();
        let after = |word: &str| words.iter().skip_while(move |w| **w != word).nth(1);
        match (&words[..], after("--bin"), after("--example")) {
            (["make", ..], ..) => Some("make builds, and runs for minutes".to_owned()),
            (_, Some(bin), _) if words.contains(&"cargo") => not_built(bin),
            (_, _, Some(example)) if words.contains(&"cargo") => not_built(&format!("examples/{example}")),
            _ => None,
        }
    })
}

fn not_built(program: &str) -> Option<String> {
    let is_built = session::target().join(program).exists();
    (!is_built).then(|| format!("{program} is not built; make test, or cargo test --workspace"))
}

/// Runs all possible blocks of a page; the error has page and line.
fn run(name: &str, text: &str) -> Result<(), String> {
    let can_run = |block: &Block| match block.language() {
        "console" => match obstacle(block) {
            Some(why) => {
                skipped(&format!("docs/guide/{name}:{}", block.line), &why);
                false
            }
            None => true,
        },
        _ => true,
    };
    let blocks: Vec<Block> = Block::all(text).into_iter().filter(can_run).collect();
    let session = Session::new(&name.replace(['/', '.'], "-"));
    session.run(&blocks).map_err(|why| format!("docs/guide/{name}, {why}"))
}

#[test]
fn every_command_of_the_guide_does_what_its_page_says() {
    let pages = pages();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let sessions: Vec<_> =
            pages.iter().map(|(name, text)| scope.spawn(|| run(name, text).err())).collect();
        sessions.into_iter().filter_map(|session| session.join().expect("a page is read")).collect()
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Checks that the pages' test can fail.
#[test]
fn a_page_whose_command_fails_or_prints_something_else_is_found_out() {
    let fails = |name: &str, page: &str, says: &str| {
        let found = run(&format!("made-up-{name}"), page).expect_err(page);
        assert!(found.contains(says), "{says:?} is not in {found:?}");
    };
    fails(
        "status",
        "```console\n$ true\n$ false\n$ true\n```\n",
        "line 3: `false` ends with status 1 and not 0",
    );
    fails("pipe", "```console\n$ false | true\n```\n", "line 2: `false | true` ends with status 1");
    fails("fine", "```console,exit=2\n$ true\n```\n", "ends with status 0 and not 2");
    fails("words", "```console\n$ echo one\ntwo\n```\n", "does not print \"two\" there; it printed:\none");
    fails("flag", "```console\n$ greenwave demo --no-such-flag\n```\n", "unexpected argument");
    fails(
        "dead",
        "```console\n$ false &\nhere I am\n$ true\n```\n",
        "has ended, or does not say that it is there",
    );
    let session = "```text,file=a b.txt\none\n```\n```console\n$ x=$(cat 'a b.txt')\n$ echo \"$x\"\none\n\
                   $ tail -f 'a b.txt' &\none\n$ kill $!; wait $! || true\n```\n```console,exit=any\n$ false\n```\n";
    assert_eq!(run("made-up-session", session), Ok(()));
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_somewhere() {
    let pages = pages();
    let known: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    for folder in ["", "waits/"] {
        for entry in std::fs::read_dir(root().join("docs/guide").join(folder)).expect("the guide is there") {
            let name = format!("{folder}{}", entry.expect("it is").file_name().to_string_lossy());
            assert!(
                !name.ends_with(".md") || name == "SUMMARY.md" || known.contains(&&*name),
                "{name} is in no list"
            );
        }
    }
    for (name, text) in &pages {
        let page = root().join("docs/guide").join(name);
        for link in links(text) {
            let target = page.parent().expect("a page is in a folder").join(link);
            assert!(target.exists(), "docs/guide/{name} leads to {link}, which is not there");
        }
    }
}

/// A command in another kind of block would not be run.
#[test]
fn commands_stand_where_they_are_run() {
    // Their commands are run by `cli/tests/run`.
    let others = ["unmodified-programs.md", "c-api.md"];
    for (name, text) in pages().iter().filter(|(name, _)| !others.contains(&name.as_str())) {
        for block in Block::all(text) {
            let (language, line) = (block.language(), block.line);
            let known = ["console", "text", "toml", "rust", "yaml"];
            assert!(known.contains(&language), "{name}:{line}: {language:?} is not one of {known:?}");
            let is_command =
                |line: &str| ["$ ", "greenwave ", "sudo "].iter().any(|begin| line.starts_with(begin));
            assert!(language == "console" || !block.text.lines().any(is_command), "{name}:{line}: a command");
        }
    }
}

//~ gates: excerpts on pages of the guide are in their files
#[test]
fn what_a_page_shows_of_a_file_is_in_that_file() {
    let mut shown = 0;
    for (name, text) in pages() {
        for block in Block::all(&text) {
            let Some(file) = block.value("from") else { continue };
            assert!(read(file).contains(&block.text), "{name}:{}: this is not in {file}", block.line);
            shown += 1;
        }
    }
    assert!(shown >= 3, "only {shown} pieces of files are shown");
}

#[test]
fn what_a_page_has_make_do_is_in_the_makefile() {
    let makefile = read("Makefile");
    for (name, text) in pages() {
        for step in
            Block::all(&text).iter().filter(|block| block.language() == "console").flat_map(Block::steps)
        {
            let Some(target) = step.command.strip_prefix("make ") else { continue };
            let is_there = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
            assert!(is_there, "{name}:{}: make {target}", step.line);
        }
    }
}

//~ classifiers: the guide's policies for the six scenarios are valid
//~ gates: policies of the guide are valid
/// The policies on the pages; the pages check saved ones themselves.
#[test]
fn the_guides_policies_are_valid() {
    let mut valid = 0;
    for (name, text) in pages() {
        let policies = Block::all(&text).into_iter().filter(|block| block.text.contains("[[rule]]"));
        for block in policies.filter(|block| block.value("file").is_none()) {
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guide-{valid}.toml"));
            std::fs::write(&path, &block.text).expect("the folder for test files is writable");
            let out = Command::new(env!("CARGO_BIN_EXE_greenwave")).arg("check").arg(&path).output();
            let out = out.expect("greenwave starts");
            let _ = std::fs::remove_file(&path);
            let stdout = String::from_utf8_lossy(&out.stdout);
            let stderr = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(0), "{name}:{}: {stderr}", block.line);
            for rule in block.text.lines().filter_map(|line| line.strip_prefix("name = ")) {
                assert!(stdout.contains(rule.trim_matches('"')), "{name}:{}: {rule} in {stdout}", block.line);
            }
            valid += 1;
        }
    }
    assert!(valid >= 6, "one for each of the paper's six scenarios");
}
