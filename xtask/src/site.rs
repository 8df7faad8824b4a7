//! Sources of the guide's site: `xtask site` writes them to `target/site`, `mdbook build` renders.
//!
//! The guide links to pages and files outside its folder. The staged tree holds these too, at their
//! paths: pages as chapters after the guide's, other files as they are. Not a renderer; `make site`
//! installs mdBook.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::links::{GUIDE, SUMMARY, is_folder, links, resolve};
use crate::spec::Tree;
use crate::tidy;

const FOLDER: &str = "target/site";

/// Folders whose pages the site follows links into; other files are taken and not followed.
const FOLLOWED: [&str; 4] = ["docs/", "experiments/", "java/", "crates/"];

/// Writes the sources for the workspace at `root`. Exit 0: written, 2: could not.
pub(crate) fn run(root: &Path) -> ExitCode {
    let written = tidy::read_tree(root).and_then(|tree| {
        let staged = stage(&tree);
        let folder = root.join(FOLDER);
        let _ = std::fs::remove_dir_all(&folder);
        for (file, text) in &staged {
            let path = folder.join(file);
            let parent = path.parent().unwrap_or(&folder);
            std::fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
            std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(staged.len())
    });
    match written {
        Ok(files) => {
            println!("site: {files} files in {FOLDER}");
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}

/// The site's sources by path below [`FOLDER`].
fn stage(tree: &Tree) -> Tree {
    let mut files = BTreeSet::new();
    let mut next: Vec<String> = tree.keys().filter(|file| file.starts_with(GUIDE)).cloned().collect();
    while let Some(file) = next.pop() {
        let is_followed = file.ends_with(".md")
            && (!file.contains('/') || FOLLOWED.iter().any(|folder| file.starts_with(folder)));
        if is_followed {
            let included =
                tree[&file].split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next());
            let linked = links(&tree[&file]).map(|(_, link)| link).chain(included);
            let targets = linked.map(|link| target(tree, &file, link).0);
            next.extend(targets.filter(|target| tree.contains_key(target) && !files.contains(target)));
        }
        files.insert(file);
    }
    let page = |file: &String| (format!("src/{file}"), with_links(tree, file));
    let mut staged: BTreeMap<String, String> = files.iter().map(page).collect();
    staged.remove(&format!("src/{SUMMARY}"));
    staged.insert("src/SUMMARY.md".to_owned(), summary(tree, &files));
    let config = tree.get("docs/guide/book.toml").map_or("", String::as_str);
    staged.insert(
        "book.toml".to_owned(),
        config.replace("src = \".\"", "src = \"src\"").replace("../../target/guide", "../guide"),
    );
    staged
}

/// Path of a link in `file`, with its heading. A folder leads to its README.
fn target(tree: &Tree, file: &str, link: &str) -> (String, String) {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let path = if path.is_empty() { file.to_owned() } else { resolve(file, path) };
    let path = if is_folder(tree, &path) { format!("{path}/README.md") } else { path };
    (path, if heading.is_empty() { String::new() } else { format!("#{heading}") })
}

/// Text of `file`: a link to a folder leads to its README, or is no link where there is none.
fn with_links(tree: &Tree, file: &str) -> String {
    let mut text = tree[file].clone();
    if !file.ends_with(".md") {
        return text;
    }
    let folders: BTreeSet<&str> = links(&tree[file])
        .map(|(_, link)| link)
        .filter(|link| is_folder(tree, &resolve(file, link)) && !link.starts_with('#'))
        .collect();
    for link in folders {
        let (path, _) = target(tree, file, link);
        if tree.contains_key(&path) {
            text =
                text.replace(&format!("]({link})"), &format!("]({}/README.md)", link.trim_end_matches('/')));
        } else {
            text = text.replace(&format!("]({link})"), "]");
        }
    }
    text
}

/// The guide's summary with paths from the tree's root, and the other pages as chapters.
fn summary(tree: &Tree, files: &BTreeSet<String>) -> String {
    let guide = tree.get(SUMMARY).map_or("", String::as_str);
    let mut text = guide.replace("](", &format!("]({GUIDE}"));
    text.push_str("\n# Documents\n\n");
    let is_page = |file: &&String| file.ends_with(".md") && !file.starts_with(GUIDE);
    for file in files.iter().filter(is_page) {
        let title = tree[file].lines().find_map(|line| line.strip_prefix("# ")).unwrap_or(file);
        let _ = writeln!(text, "- [{title}]({file})");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_the_guide_links_to_are_chapters_and_files_are_kept() {
        let files = [
            ("docs/guide/SUMMARY.md", "# Summary\n\n[Start](a.md)\n"),
            ("docs/guide/book.toml", "src = \".\"\nbuild-dir = \"../../target/guide\"\n"),
            ("docs/guide/a.md", "[b](../b.md) [adr](../adr/) [code](../../crates/net)\n"),
            ("docs/b.md", "# Title of B\n[x](../crates/net/x.rs)\n{{#include c.md}}\n"),
            ("docs/c.md", "# C\n"),
            ("docs/adr/README.md", "# Decisions\n"),
            ("docs/other.md", "# No page links here\n"),
            ("crates/net/x.rs", "//! X.\n"),
        ];
        let tree: Tree = files.map(|(file, text)| (file.to_owned(), text.to_owned())).into();
        let staged = stage(&tree);
        let kept: Vec<&str> = staged.keys().map(String::as_str).collect();
        let expected = "book.toml src/SUMMARY.md src/crates/net/x.rs src/docs/adr/README.md src/docs/b.md \
                        src/docs/c.md src/docs/guide/a.md src/docs/guide/book.toml";
        assert_eq!(kept.join(" "), expected);
        assert_eq!(staged["src/docs/guide/a.md"], "[b](../b.md) [adr](../adr/README.md) [code]\n");
        let summary = &staged["src/SUMMARY.md"];
        assert!(summary.contains("[Start](docs/guide/a.md)"), "{summary}");
        assert!(
            summary.ends_with(
                "- [Decisions](docs/adr/README.md)\n- [Title of B](docs/b.md)\n- [C](docs/c.md)\n"
            ),
            "{summary}"
        );
        assert!(staged["book.toml"].contains("src = \"src\"\nbuild-dir = \"../guide\""));
    }
}
