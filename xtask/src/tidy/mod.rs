//! House rules beyond those of the compiler.
//!
//! Each rule takes text and returns [`Finding`]s, so that a few lines test it. A finding gives the
//! place, the violation, and what would be valid.

use std::fmt;
use std::path::Path;
use std::process::{Command, ExitCode};

mod dependencies;
mod lines;
mod names;
mod words;

pub(crate) use words::wrong_start;

use crate::links;
use crate::picture;
use crate::spec::{self, Tree};

/// A violated rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file, relative to the workspace.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The violation, and the valid form.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Checks the workspace at `root` by all rules. Exit 0: no violation, 1: some, 2: could not look.
pub(crate) fn run(root: &Path) -> ExitCode {
    match check_tree(root) {
        Ok((files, findings)) if findings.is_empty() => {
            println!("tidy: {files} files, nothing to say");
            ExitCode::SUCCESS
        }
        Ok((files, findings)) => {
            findings.iter().for_each(|finding| println!("{finding}"));
            println!("tidy: {files} files, {} findings", findings.len());
            ExitCode::from(1)
        }
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::from(2)
        }
    }
}

fn check_tree(root: &Path) -> Result<(usize, Vec<Finding>), String> {
    let mut findings = Vec::new();
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md"));
    let metadata = output(root, "cargo", &["metadata", "--format-version=1", "--no-deps", "--offline"])?;
    findings
        .extend(dependencies::check(architecture.as_deref().unwrap_or(""), &dependencies::edges(&metadata)?));
    let tree = read_tree(root)?;
    findings.extend(spec::check(&tree));
    findings.extend(links::check(&tree));
    findings.extend(picture::check(&tree));
    findings.extend(tree.iter().flat_map(|(file, text)| lines::check(file, text)));
    findings.extend(tree.iter().flat_map(|(file, text)| words::check(file, text)));
    findings.extend(names::check(tree.iter().map(|(file, text)| (file.as_str(), text.as_str()))));
    Ok((tree.len(), findings))
}

/// Text of the files that git tracks or would track: without ignored build outputs, files that are
/// not text, and files deleted but not committed yet.
///
/// # Errors
/// git does not start, or fails.
pub(crate) fn read_tree(root: &Path) -> Result<Tree, String> {
    let files = output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    let read = |file: &str| Some((file.to_owned(), std::fs::read_to_string(root.join(file)).ok()?));
    Ok(files.lines().filter_map(read).collect())
}

fn output(root: &Path, program: &str, args: &[&str]) -> Result<String, String> {
    let out = Command::new(program).args(args).current_dir(root).output();
    let out = out.map_err(|e| format!("{program} does not start: {e}"))?;
    if !out.status.success() {
        let stderr = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{program} {}: {}", args.join(" "), stderr.lines().next().unwrap_or_default()));
    }
    String::from_utf8(out.stdout).map_err(|e| format!("{program}: {e}"))
}
