//! Check that every greenwave flag in a page, a unit or a manifest exists.

use std::collections::BTreeMap;
use std::process::Command;

use super::{pages, read};

/// Output of `--help`, by command, cached.
#[derive(Default)]
pub struct Help(BTreeMap<String, String>);

/// Commands with subcommands.
const GROUPS: [&str; 6] = ["bench", "exp", "egress", "explain", "guard", "sim"];

impl Help {
    /// Checks the arguments of a `greenwave` command against its help; returns the number of flags.
    /// `location` is their location.
    #[track_caller]
    pub fn check(&mut self, words: &[&str], location: &str) -> usize {
        // The file for all commands precedes the command.
        let words = match words {
            ["--config", _, rest @ ..] => rest,
            _ => words,
        };
        // Words behind `--` belong to another program.
        let ours = words.iter().take_while(|word| **word != "--");
        let flags: Vec<&str> = ours.copied().filter(|word| word.starts_with("--")).collect();
        let Some(first) = words.first().filter(|_| !flags.is_empty()) else { return 0 };
        let has_two = GROUPS.contains(first) || (*first == "sched" && !words[1].starts_with('-'));
        let command = words[..if has_two { 2 } else { 1 }].join(" ");
        let help = self.0.entry(command.clone()).or_insert_with(|| {
            let mut help = Command::new(env!("CARGO_BIN_EXE_greenwave"));
            let out = help.args(command.split(' ')).arg("--help").output().expect("greenwave starts");
            assert!(out.status.success(), "{location}: greenwave {command} is no command");
            String::from_utf8_lossy(&out.stdout).into_owned()
        });
        for flag in &flags {
            let flag = flag.split('=').next().unwrap_or(flag);
            assert!(
                help.split_whitespace().any(|word| word == flag),
                "{location}: greenwave {command} {flag}"
            );
        }
        flags.len()
    }
}

/// The arguments of each `greenwave ` in `line`, up to the command's end.
pub fn commands(line: &str) -> impl Iterator<Item = Vec<&str>> {
    line.split("greenwave ").skip(1).map(|rest| {
        let rest = rest.split(['`', '#', ';', '&', '>']).next().unwrap_or_default();
        rest.split_whitespace().collect()
    })
}

//~ gates: every flag used in README and guide exists
#[test]
fn the_flags_that_the_readme_and_the_guide_use_exist() {
    let mut help = Help::default();
    let mut seen = 0;
    let pages = [("README.md".to_owned(), read("README.md"))].into_iter().chain(pages());
    for (name, text) in pages {
        let text = text.replace("-p cli -- ", "greenwave ").replace("\\\n", " ");
        for (number, line) in text.lines().enumerate() {
            for words in commands(line) {
                seen += help.check(&words, &format!("{name}:{}", number + 1));
            }
        }
    }
    assert!(seen >= 60, "only {seen} flags were found");
}
