//! `greenwave check`: is this policy file valid, and what does it say?
//!
//! `FILE:LINE: ...` for what is wrong, so that editors can jump there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use net::classify::rules::{Policy, PolicyError};
use net::classify::{Layer, Verdict};
use runtime::mode::Classifiers;

use crate::Error;
use crate::table::Table;

/// Check a policy file and show its rules.
#[derive(clap::Args)]
pub struct Args {
    /// The policy, in TOML.
    file: PathBuf,
}

/// Reads the file and prints its rules.
///
/// # Errors
/// A file that cannot be read, or what is wrong in it and where.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let text = read(&args.file)?;
    let policy = parse(&args.file, &text)?;
    print!("{}", table(&policy, &conditions(&text)));
    let default =
        policy.default_level().map_or("keep the lowest priority".to_owned(), |l| format!("get priority {l}"));
    println!("packets that no rule matches {default}");
    Ok(ExitCode::SUCCESS)
}

/// The classifiers that the policy in `path` stands for.
///
/// # Errors
/// As [`run`].
pub fn load(path: &Path) -> Result<Classifiers, Error> {
    let policy = parse(path, &read(path)?)?;
    Ok(Classifiers { driver: policy.driver(), transport: policy.transport() })
}

fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|e| Error::file(path, &e))
}

fn parse(path: &Path, text: &str) -> Result<Policy, Error> {
    let wrong = |e: PolicyError| Error::new(format!("{}:{}: {}", path.display(), e.line, e.message));
    Policy::parse(text).map_err(wrong)
}

/// What each rule looks at, as the file says it.
fn conditions(text: &str) -> Vec<String> {
    let file: toml::Table = text.parse().unwrap_or_default();
    let rules = file.get("rule").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let words = |rule: &toml::Value| {
        let keys = rule.as_table().into_iter().flatten();
        let looked_at =
            keys.filter(|(key, _)| !matches!(key.as_str(), "name" | "layer" | "priority" | "drop"));
        looked_at.map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ")
    };
    rules.iter().map(words).collect()
}

fn table(policy: &Policy, conditions: &[String]) -> Table {
    let mut table = Table::new(4, &["rule", "layer", "verdict", "when"]);
    for (index, rule) in policy.rules().iter().enumerate() {
        let layer = match rule.layer() {
            Layer::Driver => "driver",
            Layer::Transport => "transport",
        };
        let verdict = match rule.verdict() {
            Verdict::Level(level) => format!("priority {level}"),
            Verdict::Drop => "drop".to_owned(),
            Verdict::Keep => "keep".to_owned(),
        };
        let when = conditions.get(index).filter(|w| !w.is_empty()).map_or("always", String::as_str);
        table.row(vec![rule.name().to_owned(), layer.to_owned(), verdict, when.to_owned()]);
    }
    table
}
