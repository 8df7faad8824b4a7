//! `greenwave check`: is this file valid, and what does it say?
//!
//! Policies, tasks of `sched`, policies of an egress and configurations of all
//! commands, told apart by what only one of them has.
//! `FILE:LINE: ...` for what is wrong, so that editors can jump there. What
//! becomes of a request under it is `greenwave explain request`'s to say.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use net::classify::Verdict;
use net::classify::l7::Nonsense;
use net::classify::rules::{Observed, Policy, PolicyError};
use runtime::mode::Classifiers;
use serde_json::json;

use crate::table::Table;
use crate::{Error, config_file, egress, include, sched};

/// Validate a file and show its content.
///
/// The file is a policy (rules), a configuration of `greenwave sched` (tasks), a
/// policy of `greenwave fabric` (thresholds), or a file for `greenwave --config`.
#[derive(clap::Args)]
pub struct Args {
    /// TOML file.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[cfg(test)]
impl Args {
    /// Of this file.
    pub fn of(file: &Path, json: bool) -> Self {
        Self { file: file.to_owned(), json }
    }
}

/// Reads the file and prints what it says.
///
/// # Errors
/// A file that cannot be read, or what is wrong in it and where.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    // What is no TOML is refused with the better words of a policy's reader.
    let file: toml::Table = include::read(&args.file)?.text.parse().unwrap_or_default();
    let has = |key: &str| file.contains_key(key);
    if has("tasks") {
        return sched::describe(&args.file, args.json).map(|()| ExitCode::SUCCESS);
    }
    if has("thresholds") {
        return egress::describe(&args.file, args.json).map(|()| ExitCode::SUCCESS);
    }
    if config_file::is_one(&file) {
        return config_file::describe(&args.file, args.json).map(|()| ExitCode::SUCCESS);
    }
    let (policy, when) = policy(&args.file)?;
    if args.json {
        println!("{:#}", as_json(&policy, &when));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", table(&policy, &when));
    let default =
        policy.default_level().map_or("priority 7 (lowest)".to_owned(), |l| format!("priority {l}"));
    println!("default for packets that match no rule: {default}");
    Ok(ExitCode::SUCCESS)
}

/// The classifiers that the policy in `path` stands for, and what they will
/// have seen.
///
/// # Errors
/// As [`run`].
pub fn load(path: &Path) -> Result<(Classifiers, Arc<Observed>), Error> {
    let (policy, _) = policy(path)?;
    let (driver, transport, spoken) = (policy.driver(), policy.transport(), policy.spoken());
    let classifiers = Classifiers { driver, transport, spoken };
    Ok((classifiers, policy.observed()))
}

/// What a policy's classifiers have come across, a line each; nothing where no
/// rule asked what requests say.
pub fn summary(observed: &Observed) -> Vec<String> {
    let notes = &observed.notes;
    let given_up =
        |why: &Nonsense| (notes.given_up(*why) > 0).then(|| format!("{why} {}", notes.given_up(*why)));
    let given_up: Vec<String> = Nonsense::ALL.iter().filter_map(given_up).collect();
    if notes.requests() == 0 && given_up.is_empty() {
        return Vec::new();
    }
    let given_up = if given_up.is_empty() { "none".to_owned() } else { given_up.join(", ") };
    let first = format!(
        "policy: {} requests parsed; connections with unreadable requests: {given_up}",
        notes.requests()
    );
    let learned = observed
        .learned
        .kinds()
        .into_iter()
        .map(|(kind, span)| format!("policy: {kind}: service time {span}"));
    std::iter::once(first).chain(learned).collect()
}

/// The policy in `path`, and what each of its rules looks at.
///
/// # Errors
/// As [`run`].
pub fn policy(path: &Path) -> Result<(Policy, Vec<When>), Error> {
    let all = include::read(path)?;
    let wrong = |e: PolicyError| Error::new(format!("{}: {}", all.place(e.line), e.message));
    let policy = Policy::parse(&all.text).map_err(wrong)?;
    Ok((policy, conditions(&all.text)))
}

/// What a rule looks at, and for what.
pub type When = Vec<(String, String)>;

/// What each rule looks at, as the file says it.
fn conditions(text: &str) -> Vec<When> {
    let file: toml::Table = text.parse().unwrap_or_default();
    let rules = file.get("rule").and_then(toml::Value::as_array).cloned().unwrap_or_default();
    let looked_at = |rule: &toml::Value| {
        let keys = rule.as_table().into_iter().flatten();
        let looked_at =
            keys.filter(|(key, _)| !matches!(key.as_str(), "name" | "layer" | "priority" | "drop"));
        looked_at.map(|(key, value)| (key.clone(), value.to_string())).collect()
    };
    rules.iter().map(looked_at).collect()
}

/// A verdict, in words.
pub fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Level(level) | Verdict::Default(level) => format!("priority {level}"),
        Verdict::Drop => "drop".to_owned(),
        Verdict::NoVerdict => "keep".to_owned(),
    }
}

fn table(policy: &Policy, when: &[When]) -> Table {
    let mut table = Table::new(4, &["rule", "layer", "verdict", "when"]);
    for (rule, when) in policy.rules().iter().zip(when) {
        let words = when.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ");
        let when = if words.is_empty() { "always".to_owned() } else { words };
        table.row(vec![rule.name().to_owned(), rule.layer().to_string(), verdict(rule.verdict()), when]);
    }
    table
}

fn as_json(policy: &Policy, when: &[When]) -> serde_json::Value {
    let rules = policy.rules().iter().zip(when).map(|(rule, when)| {
        let when: serde_json::Map<_, _> =
            when.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let priority = match rule.verdict() {
            Verdict::Level(level) | Verdict::Default(level) => Some(level),
            Verdict::Drop | Verdict::NoVerdict => None,
        };
        json!({ "rule": rule.name(), "layer": rule.layer().to_string(), "priority": priority, "when": when })
    });
    json!({ "rules": rules.collect::<Vec<_>>(), "default": policy.default_level() })
}
