//! Every command has a row, and every example of a row is a valid command line.

use std::collections::BTreeSet;

use super::*;
use crate::{commands, parse};

/// Commands that do something, by name.
fn all(command: &Command, names: &str, found: &mut BTreeSet<String>) {
    let below: Vec<&Command> = command.get_subcommands().filter(|below| below.get_name() != "help").collect();
    // `sched` alone is a command, too.
    if below.is_empty() || names == "sched" {
        found.insert(names.to_owned());
    }
    let name = |below: &Command| format!("{names} {}", below.get_name()).trim().to_owned();
    below.into_iter().filter(|below| !below.is_hide_set()).for_each(|next| all(next, &name(next), found));
}

//~ cli: every command has examples, and every example is valid
#[test]
fn every_command_has_examples_that_parse() {
    let mut found = BTreeSet::new();
    all(&commands(), "", &mut found);
    assert_eq!(found, MANUALS.iter().map(|manual| manual.command.to_owned()).collect());
    for manual in MANUALS {
        let begin = format!("greenwave {}", manual.command);
        let own = |line: &&str| line.trim_start_matches("sudo ").starts_with(&begin);
        assert!(manual.examples.iter().map(|(_, line)| *line).any(|line| own(&line)), "{}", manual.command);
        for (_, line) in manual.examples {
            let line = line.trim_start_matches("sudo ");
            let Some(line) = line.strip_prefix("greenwave ") else { continue };
            let line = line.split(" >").next().unwrap_or(line);
            let words = words(line).into_iter().flat_map(|word| {
                let is_flag = word.starts_with("--");
                let parts = if is_flag { word.splitn(2, ' ').collect() } else { vec![word] };
                parts.into_iter().map(|part| part.trim_matches('\'').to_owned()).collect::<Vec<_>>()
            });
            let words: Vec<String> = ["greenwave".to_owned()].into_iter().chain(words).collect();
            assert!(
                parse(words.clone()).is_ok(),
                "{words:?}: {}",
                parse(words.clone()).err().map_or(String::new(), |e| e.to_string())
            );
        }
    }
}

#[test]
fn a_long_line_is_folded_between_words() {
    let line =
        "sudo greenwave serve --device xdp:eth0 --addr 192.0.2.7/24 --policy policy.toml --ui 127.0.0.1:9900";
    let text = folded(line);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].ends_with(" \\") && lines[1].starts_with("    --policy policy.toml --ui 127"), "{text}");
    assert!(lines.iter().all(|line| line.len() <= 78), "{text}");
    assert_eq!(folded("greenwave top"), "  greenwave top");
}
