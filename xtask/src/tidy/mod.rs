//! Rules of the house that the compiler does not know.
//!
//! Each rule looks at text and returns [`Finding`]s, so it can be tested on a
//! few lines. A finding says where, what, and what would be valid.

use std::fmt;
use std::path::Path;
use std::process::{Command, ExitCode};

mod dependencies;
mod lines;
mod spec;
mod words;

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file, relative to the workspace.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what would be valid.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// Holds the workspace at `root` against all rules. Exit 0: none is broken,
/// 1: some are, 2: could not look.
pub(crate) fn run(root: &Path) -> ExitCode {
    match look(root) {
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

fn look(root: &Path) -> Result<(usize, Vec<Finding>), String> {
    let mut findings = Vec::new();
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md"));
    let metadata = output(root, "cargo", &["metadata", "--format-version=1", "--no-deps", "--offline"])?;
    findings
        .extend(dependencies::check(architecture.as_deref().unwrap_or(""), &dependencies::edges(&metadata)?));
    // What git tracks or would track; ignored build outputs are not ours.
    let files = output(root, "git", &["ls-files", "--cached", "--others", "--exclude-standard"])?;
    // Not text, or deleted and not committed yet: nothing to read.
    let read = |file: &str| Some((file.to_owned(), std::fs::read_to_string(root.join(file)).ok()?));
    let tree: spec::Tree = files.lines().filter_map(read).collect();
    findings.extend(spec::check(&tree));
    findings.extend(tree.iter().flat_map(|(file, text)| lines::check(file, text)));
    findings.extend(tree.iter().flat_map(|(file, text)| words::check(file, text)));
    Ok((tree.len(), findings))
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
