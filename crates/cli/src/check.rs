//! `greenwave check`: validates a configuration file and prints its meaning.
//!
//! Accepts policies, `sched` tasks, egress policies, experiments and files for all commands, and
//! distinguishes them by their sections and keys. Errors read `FILE:LINE: ...`, so that editors can jump
//! there. The effect on a single request is shown by `greenwave explain request`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use classify::Verdict;
use classify::l7::Nonsense;
use classify::rules::{Observed, Policy, PolicyError};
use runtime::mode::Classifiers;
use serde_json::json;

use crate::table::Table;
use crate::{Error, commands, config_file, egress, exp, include, sched, suggestion};

/// Validate a file and show its content.
///
/// The file is a policy (rules), a configuration of `greenwave sched` (tasks), a
/// policy of `greenwave egress` (thresholds), an experiment (claims), or a file
/// for `greenwave --config`.
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
    /// Arguments that check this file.
    pub fn of(file: &Path, json: bool) -> Self {
        Self { file: file.to_owned(), json }
    }
}

/// Reads the file and prints its meaning.
///
/// # Errors
/// A file that cannot be read, or the mistake in it and its line.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let file: toml::Table = include::read(&args.file)?.text.parse().unwrap_or_default();
    match FileKind::of(&file) {
        FileKind::Policy => describe(&args.file, args.json)?,
        FileKind::Tasks => sched::describe(&args.file, args.json)?,
        FileKind::Egress => egress::describe(&args.file, args.json)?,
        FileKind::Commands => config_file::describe(&args.file, args.json)?,
        FileKind::Experiment => exp::describe(&args.file, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Kinds of TOML files that commands read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileKind {
    Policy,
    Tasks,
    Egress,
    Commands,
    Experiment,
}

impl FileKind {
    /// The kind with most of the file's keys; a misspelt key counts for less than a correct one. A
    /// policy if no kind has any.
    fn of(file: &toml::Table) -> Self {
        let commands = commands();
        let names = |command: &clap::Command| {
            let old = command.get_all_aliases().map(str::to_owned).collect::<Vec<_>>();
            [vec![command.get_name().to_owned()], old].concat()
        };
        let sections: Vec<String> = commands.get_subcommands().flat_map(names).collect();
        let kinds = [
            (Self::Policy, keys(policy_of("\"\" = 0").err())),
            (Self::Tasks, keys(sched::Config::parse("", "\"\" = 0").err())),
            (Self::Egress, keys(egress::parse("", "\"\" = 0").err())),
            (Self::Experiment, keys(exp::spec::Experiment::parse("\"\" = 0").err().map(Error::new))),
            (Self::Commands, sections),
        ];
        let rank = |kind: Self, keys: &[String]| {
            let worth = |(key, value): (&String, &toml::Value)| match keys.contains(key) {
                // A section of that name; `policy` or `guard` are keys elsewhere.
                _ if kind == Self::Commands && !value.is_table() => 0,
                true => 100,
                false => usize::from(suggestion::closest(key, keys.iter().map(String::as_str)).is_some()),
            };
            file.iter().map(worth).sum::<usize>()
        };
        let best = kinds.iter().rev().max_by_key(|(kind, keys)| rank(*kind, keys));
        best.map_or(Self::Policy, |(kind, _)| *kind)
    }
}

/// The valid keys that the error about an unknown one lists.
fn keys(e: Option<Error>) -> Vec<String> {
    let text = e.as_ref().map_or("", |e| e.parts().0);
    suggestion::valid(text).into_iter().map(str::to_owned).collect()
}

/// Prints the policy in `path`.
fn describe(path: &Path, as_json: bool) -> Result<(), Error> {
    let (policy, when) = policy(path)?;
    if as_json {
        outln!("{:#}", self::as_json(&policy, &when));
        return Ok(());
    }
    out!("{}", table(&policy, &when));
    let default =
        policy.default_level().map_or("priority 7 (lowest)".to_owned(), |l| format!("priority {l}"));
    outln!("default for packets that match no rule: {default}");
    let trusted = trusted(&policy);
    if !trusted.is_empty() {
        outln!("trusted peers, whose field Priority sets the level: {}", trusted.join(", "));
    }
    Ok(())
}

/// Prefixes of the policy's trusted peers.
fn trusted(policy: &Policy) -> Vec<String> {
    policy.trusted().map(|(addr, len)| format!("{addr}/{len}")).collect()
}

/// The classifiers of the policy in `path`, and the counters of their observations.
///
/// # Errors
/// The errors of [`run`].
pub fn load(path: &Path) -> Result<(Classifiers, Arc<Observed>), Error> {
    let (policy, _) = policy(path)?;
    let (driver, transport, spoken) = (policy.driver(), policy.transport(), policy.protocols());
    let classifiers = Classifiers { driver, transport, handshake: policy.handshake(), spoken };
    Ok((classifiers, policy.observed()))
}

/// Observations of a policy's classifiers, one per line; empty where no rule inspects requests.
pub fn summary(observed: &Observed) -> Vec<String> {
    let notes = &observed.notes;
    let given_up = |why: &Nonsense| (notes.failed(*why) > 0).then(|| format!("{why} {}", notes.failed(*why)));
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

/// The policy in `path`, and the conditions of each rule.
///
/// # Errors
/// The errors of [`run`].
pub fn policy(path: &Path) -> Result<(Policy, Vec<RuleCondition>), Error> {
    let all = include::read(path)?;
    let wrong = |e: PolicyError| {
        let e = Error::new(format!("{}: {}", all.location(e.line), e.message));
        e.or_advice(|| "greenwave check --help, for a valid one".to_owned())
    };
    let policy = Policy::parse(&all.text).map_err(wrong)?;
    Ok((policy, conditions(&all.text)))
}

/// The policy in `text`.
fn policy_of(text: &str) -> Result<Policy, Error> {
    Policy::parse(text).map_err(|e| Error::new(e.message))
}

/// Conditions of a rule: fields and values.
pub type RuleCondition = Vec<(String, String)>;

/// Conditions of each rule, as written in the file.
fn conditions(text: &str) -> Vec<RuleCondition> {
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

/// A verdict as text.
pub fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Level(level) | Verdict::Default(level) => format!("priority {level}"),
        Verdict::Drop => "drop".to_owned(),
        Verdict::NoVerdict => "keep".to_owned(),
    }
}

fn table(policy: &Policy, when: &[RuleCondition]) -> Table {
    let mut table = Table::new(4, &["rule", "layer", "verdict", "when"]);
    for (rule, when) in policy.rules().iter().zip(when) {
        let words = when.iter().map(|(key, value)| format!("{key} = {value}")).collect::<Vec<_>>().join(", ");
        let when = if words.is_empty() { "always".to_owned() } else { words };
        table.row(vec![rule.name().to_owned(), rule.layer().to_string(), verdict(rule.verdict()), when]);
    }
    table
}

fn as_json(policy: &Policy, when: &[RuleCondition]) -> serde_json::Value {
    let rules = policy.rules().iter().zip(when).map(|(rule, when)| {
        let when: serde_json::Map<_, _> =
            when.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let priority = match rule.verdict() {
            Verdict::Level(level) | Verdict::Default(level) => Some(level),
            Verdict::Drop | Verdict::NoVerdict => None,
        };
        json!({ "rule": rule.name(), "layer": rule.layer().to_string(), "priority": priority, "when": when })
    });
    json!({ "rules": rules.collect::<Vec<_>>(), "default": policy.default_level(), "trusted": trusted(policy) })
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: a file with misspelt sections is checked as the kind that it resembles
    #[test]
    fn a_file_is_of_the_kind_whose_keys_it_has() {
        for (text, expected) in [
            ("", FileKind::Policy),
            ("default = 3", FileKind::Policy),
            ("[[rules]]\nname = 'a'", FileKind::Policy),
            ("[[tasks]]\nname = 'a'", FileKind::Tasks),
            ("policy = 'caladan'\n[[task]]\nname = 'a'", FileKind::Tasks),
            ("polcy = 'caladan'\n[[tasks]]\nname = 'a'", FileKind::Tasks),
            ("tresholds = [1]\nbuckets = 2", FileKind::Egress),
            ("tresholds = [1]", FileKind::Egress),
            ("[serve]\nport = 80", FileKind::Commands),
            ("[serv]\nport = 80", FileKind::Commands),
            ("title = 'a'\n[[claim]]\nid = 'b'", FileKind::Experiment),
        ] {
            assert_eq!(FileKind::of(&text.parse().unwrap()), expected, "{text}");
        }
    }
}
