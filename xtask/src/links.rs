//! Links of Markdown pages: their targets, and the check that these exist.
//!
//! Looks at relative links only; no page on the network is asked for. A link names a file or folder
//! of the tree, and after `#` a heading of a page. Code between backquotes holds no links.

use crate::spec::Tree;
use crate::tidy::Finding;

/// Folder of the guide, of which every page stands in [`SUMMARY`].
pub(crate) const GUIDE: &str = "docs/guide/";
pub(crate) const SUMMARY: &str = "docs/guide/SUMMARY.md";

/// Links of a page without a target, and pages of the guide that its summary does not list.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.iter().filter(|(file, _)| file.ends_with(".md")) {
        for (line, link) in links(text) {
            let (target, heading) = link.split_once('#').unwrap_or((link, ""));
            let path = if target.is_empty() { file.clone() } else { resolve(file, target) };
            let what = match tree.get(&path) {
                None if !is_folder(tree, &path) => format!("{link} leads to {path}, which is not there"),
                Some(page) if !heading.is_empty() && path.ends_with(".md") && !has_heading(page, heading) => {
                    format!("{path} has no heading for #{heading}")
                }
                _ => continue,
            };
            findings.push(Finding { file: file.clone(), line, what });
        }
    }
    if let Some(summary) = tree.get(SUMMARY) {
        let listed: Vec<String> = links(summary).map(|(_, link)| resolve(SUMMARY, link)).collect();
        let is_page = |file: &&String| file.starts_with(GUIDE) && file.ends_with(".md") && *file != SUMMARY;
        for file in tree.keys().filter(is_page).filter(|file| !listed.contains(file)) {
            findings.push(Finding {
                file: file.clone(),
                line: 1,
                what: format!("{SUMMARY} does not list it"),
            });
        }
    }
    findings
}

/// The relative links of the page `text`, with their lines from 1.
pub(crate) fn links(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_block = false;
    let prose = text.lines().enumerate().filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !is_fence && !in_block
    });
    prose.flat_map(|(index, line)| {
        let targets = line.match_indices("](").filter(|(at, _)| line[..*at].matches('`').count() % 2 == 0);
        targets.filter_map(move |(at, mark)| {
            let target = line[at + mark.len()..].split([')', ' ']).next()?;
            let is_relative = !target.is_empty() && !target.contains(':') && !target.starts_with('/');
            is_relative.then_some((index + 1, target))
        })
    })
}

/// Path in the tree of `target`, a link's path in `file`.
pub(crate) fn resolve(file: &str, target: &str) -> String {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

pub(crate) fn is_folder(tree: &Tree, path: &str) -> bool {
    let inside = format!("{path}/");
    path.is_empty() || tree.range(inside.clone()..).next().is_some_and(|(file, _)| file.starts_with(&inside))
}

/// True if a heading of `page` has the anchor `wanted`, as GitHub and mdBook form it.
fn has_heading(page: &str, wanted: &str) -> bool {
    let headings = page.lines().filter_map(|line| line.strip_prefix('#'));
    headings.map(|heading| anchor(heading.trim_start_matches('#').trim())).any(|anchor| anchor == wanted)
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn found(page: &str, expected: &[&str]) {
        let files = [
            ("docs/guide/SUMMARY.md", "[A](a.md)"),
            ("docs/guide/a.md", page),
            ("docs/b.md", "# B's way, *on*\n"),
            ("crates/net/src/lib.rs", ""),
        ];
        let tree: Tree = files.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        let shown: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected);
    }

    //~ gates: every relative link of every page resolves, and the guide's summary lists every page
    #[test]
    fn a_link_leads_to_a_file_a_folder_or_a_heading() {
        found(
            "# A\n[b](../b.md#bs-way-on) [a](#a) [net](../../crates/net) [x](https://example.org/x)\n",
            &[],
        );
        found("`[x](x.md)`\n```\n[x](x.md)\n```\n", &[]);
        found("a\n[x](x.md)\n", &["docs/guide/a.md:2: x.md leads to docs/guide/x.md, which is not there"]);
        found("[b](../b.md#c)\n", &["docs/guide/a.md:1: docs/b.md has no heading for #c"]);
    }

    //~ gates: every relative link of every page resolves, and the guide's summary lists every page
    #[test]
    fn a_page_of_the_guide_is_in_its_summary() {
        let files = [("docs/guide/SUMMARY.md", "# Summary\n"), ("docs/guide/a.md", "")];
        let tree: Tree = files.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        assert_eq!(check(&tree).len(), 1);
    }
}
