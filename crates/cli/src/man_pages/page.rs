//! One man page: clap's sections, with those of [`manual`](crate::manual) after them.
//!
//! Clap's roff has blanks at the ends of lines, breaks before spaces, and long lines; `mandoc -Tlint`
//! reports them. [`clean`] removes them; a reader sees the same page.

use clap::Command;
use clap_mangen::Man;

use crate::manual::{self, Manual};

/// Longest line of text in bytes.
const LINE_MAX: usize = 80;

/// File name and text of the page of `command`; `date` is that of its head.
pub fn of(command: Command, date: &str) -> (String, String) {
    let dashed = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let names = dashed.strip_prefix("greenwave").unwrap_or(&dashed).trim_start_matches('-').replace('-', " ");
    let page = Man::new(command.after_help(None::<&str>));
    let name = page.get_filename();
    let source = concat!("greenwave ", env!("CARGO_PKG_VERSION"));
    let page = page.title(dashed.to_uppercase()).date(date).source(source).manual("greenwave manual");
    let mut text = Vec::new();
    page.render(&mut text).expect("a vector takes every byte");
    let text = String::from_utf8_lossy(&text).into_owned();
    // The version is in the head.
    let text = text.split(".SH VERSION").next().unwrap_or_default().to_owned();
    (name, clean(&(text + &sections(&names, &dashed))))
}

/// The sections after clap's.
fn sections(names: &str, dashed: &str) -> String {
    let mut text = ".SH EXAMPLES\n".to_owned();
    for (what, line) in manual::examples(names) {
        text += &format!(".TP\n{}\n.nf\n{}\n.fi\n", escaped(what), lines(&manual::folded(line)));
    }
    text += ".SH FILES\n";
    let row = |(name, what): &(&str, &str)| format!(".TP\n\\fI{}\\fR\n{}\n", escaped(name), escaped(what));
    let files = Manual::find(names).map_or(&[][..], |manual| manual.files);
    text += &files.iter().chain([&manual::CONFIG]).map(row).collect::<String>();
    text += ".SH EXIT STATUS\n";
    match Manual::find(names) {
        Some(manual) => text += &manual.all_statuses().iter().map(row).collect::<String>(),
        None => text += "That of the given command; 2 without one.\n",
    }
    text += ".SH SEE ALSO\n";
    let above = dashed.rsplit_once('-').map(|(above, _)| above).filter(|_| dashed.contains('-'));
    text + &above.map_or("greenwave\\-doctor(1)\n".to_owned(), |above| format!("{}(1)\n", escaped(above)))
}

/// Unfilled text, without its indentation.
fn lines(text: &str) -> String {
    text.lines().map(|line| escaped(line.trim_start())).collect::<Vec<_>>().join("\n")
}

/// Text without the characters that roff interprets.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

/// Roff without what `mandoc -Tlint` reports.
fn clean(text: &str) -> String {
    let (mut all, mut is_filled): (Vec<String>, bool) = (Vec::new(), true);
    let mut lines = text.lines().map(str::trim_end).peekable();
    while let Some(line) = lines.next() {
        match line {
            ".nf" => is_filled = false,
            ".fi" => is_filled = true,
            // A break, a blank line and a break are a paragraph.
            ".br" if lines.peek() == Some(&"") => {
                lines.next();
                lines.next_if_eq(&".br");
                all.push(".sp".to_owned());
                continue;
            }
            "" => {
                all.push(".sp".to_owned());
                continue;
            }
            _ => {}
        }
        let is_text = is_filled && !line.starts_with(['.', '\'']);
        if is_text { all.extend(wrapped(line)) } else { all.push(line.to_owned()) }
    }
    all.dedup_by(|later, kept| later == ".sp" && kept == ".sp");
    all.join("\n") + "\n"
}

/// A line of text as lines of at most [`LINE_MAX`] bytes where its words allow.
fn wrapped(line: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        match all.last_mut() {
            Some(last) if width(last) + 1 + width(word) <= LINE_MAX => *last += &format!(" {word}"),
            // The first letter of a line can be a command.
            _ if word.starts_with(['.', '\'']) => all.push(format!("\\&{word}")),
            _ => all.push(word.to_owned()),
        }
    }
    all
}

/// Length of a text in roff, where a letter outside ASCII is an escape of eight bytes.
fn width(text: &str) -> usize {
    text.chars().map(|letter| if letter.is_ascii() { 1 } else { 8 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;

    fn all(command: Command) -> Vec<(String, String)> {
        let below = command.get_subcommands().filter(|below| !below.is_hide_set());
        let mut pages: Vec<_> = below.flat_map(|below| all(below.clone())).collect();
        pages.push(of(command, "2026-11-29"));
        pages
    }

    fn pages() -> Vec<(String, String)> {
        let mut command = commands().disable_help_subcommand(true);
        command.build();
        all(command)
    }

    //~ cli: every man page has examples, files and exit statuses
    #[test]
    fn every_page_has_examples_files_and_statuses() {
        let pages = pages();
        assert!(pages.len() > 40, "{}", pages.len());
        for (name, text) in pages {
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "FILES", "EXIT STATUS", "SEE ALSO"]
            {
                let (_, rest) = text
                    .split_once(&format!(".SH {section}\n"))
                    .unwrap_or_else(|| panic!("{name} {section}"));
                assert!(!rest.starts_with(".SH") && !rest.is_empty(), "{name} {section}");
            }
        }
    }

    //~ cli: mandoc has nothing to say about the man pages
    #[test]
    fn mandoc_is_silent() {
        let folder = netlab::TempDir::new("mandoc").expect("a folder of ours");
        let mut mandoc = std::process::Command::new("mandoc");
        mandoc.arg("-Tlint");
        for (name, text) in pages() {
            folder.write(&name, text.as_bytes()).expect("the folder is ours");
            mandoc.arg(folder.path().join(name));
        }
        match mandoc.output() {
            Ok(out) => assert_eq!(String::from_utf8_lossy(&out.stdout), ""),
            Err(e) => errln!("skipped: mandoc_is_silent: mandoc: {e}"),
        }
    }
}
