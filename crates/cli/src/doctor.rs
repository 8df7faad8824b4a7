//! `greenwave doctor`: the mechanisms that work on this machine, the reasons of those that do not,
//! and advice.
//!
//! `host` tries the mechanisms; only the text is here.

use std::process::ExitCode;

use doctor::{self, AREAS, Finding, Health, serves};
use host::Machine;
use serde_json::json;

use crate::error::Error;
use crate::report::{self, ResultHeader};
use crate::table::Table;

/// Check which mechanisms work on this machine; suggest fixes.
///
/// Mechanisms are tested in temporary network namespaces and on child processes; the machine's
/// network is not touched. Exit 0: every area works (`run` needs all its mechanisms, the other areas
/// one); 1: an area does not work.
#[derive(clap::Args)]
pub struct Args {
    /// Areas to check: serve, run, sched, fabric, guard, files [default: all].
    #[arg(
        value_name = "COMMAND",
        hide_possible_values = true,
        value_parser = clap::builder::PossibleValuesParser::new(AREAS),
    )]
    areas: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Examines the machine and prints the findings.
///
/// # Errors
/// None: an untestable mechanism is a finding.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let asked: Vec<&str> = match args.areas.as_slice() {
        [] => AREAS.to_vec(),
        areas => areas.iter().map(String::as_str).collect(),
    };
    let findings = doctor::examine(&asked);
    if args.json {
        outln!("{}", as_json(&findings));
    } else {
        out!("{}", as_text(&findings));
    }
    Ok(if asked.iter().all(|area| serves(area, &findings)) { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// The missing prerequisites of a command that this machine refused; `device` is the kind of its
/// device, if it has one. Empty where they are all met, because the reason was another, and where
/// they could not be tested.
#[must_use]
pub fn of_refused(area: &str, device: Option<&str>) -> String {
    let findings = doctor::examine(&[area]);
    if serves(area, &findings) { String::new() } else { lacking(area, device, &findings) }
}

/// The `findings` about `device` that rule the command out; those with the same reason share a line.
fn lacking(area: &str, device: Option<&str>, findings: &[Finding]) -> String {
    let is_its = |finding: &&Finding| {
        // The findings of `serve` are named after the kinds of device.
        let is_its = area != "serve" || device.is_none_or(|device| finding.what.starts_with(device));
        is_its && finding.health == Health::Absent && finding.is_tested()
    };
    let lacking: Vec<&Finding> = findings.iter().filter(is_its).collect();
    let same =
        |a: &&Finding, b: &&Finding| (a.health, &a.seen, &a.remedies) == (b.health, &b.seen, &b.remedies);
    let line = |group: &[&Finding]| {
        let names: Vec<&str> = group.iter().map(|finding| finding.what.as_str()).collect();
        let Finding { health, seen, remedies, .. } = group[0];
        let tries: String = remedies.iter().map(|remedy| format!("\n    try: {remedy}")).collect();
        format!("  doctor {area}: {}: {health}, {seen}{tries}\n", names.join("; "))
    };
    lacking.chunk_by(same).map(line).collect()
}

fn as_text(findings: &[Finding]) -> String {
    let mut table = Table::new(3, &["command", "mechanism", "here"]);
    for finding in findings {
        table.row(vec![finding.area.to_owned(), finding.what.clone(), finding.health.to_string()]);
    }
    // Evidence and advice are sentences: they follow below their row.
    let (table, mut text) = (table.to_string(), format!("{}\n", Machine::this()));
    let mut lines = table.lines();
    text.extend(lines.next().map(|line| format!("{line}\n")));
    for (line, finding) in lines.zip(findings) {
        text.push_str(&format!("{line}\n    {}\n", finding.seen));
        text.extend(finding.remedies.iter().map(|remedy| format!("    try: {remedy}\n")));
    }
    let count = |health| findings.iter().filter(|finding| finding.health == health).count();
    let (works, limits, absent) = (count(Health::Works), count(Health::Limited), count(Health::Absent));
    text + &format!("{works} work, {limits} with limits, {absent} absent\n")
}

fn as_json(findings: &[Finding]) -> serde_json::Value {
    let findings: Vec<_> = findings.iter().map(report::MechanismState::from).collect();
    let body = json!({ "machine": Machine::this().to_string(), "findings": findings });
    ResultHeader::of_host("doctor", None).stamp(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: after a refusal `doctor` names what the command at hand lacks, one line for each reason
    #[test]
    fn only_what_rules_the_command_out_is_named() {
        let finding = |what: &str, health, seen: &str, remedies: &[&str]| Finding {
            area: "serve",
            what: what.to_owned(),
            health,
            seen: seen.to_owned(),
            remedies: remedies.iter().map(|&remedy| remedy.to_owned()).collect(),
        };
        let findings = [
            finding("tap", Health::Absent, "no module", &["modprobe tun"]),
            finding("xdp, generic", Health::Absent, "no AF_XDP", &["another kernel"]),
            finding("xdp, native", Health::Absent, "no AF_XDP", &["another kernel"]),
            finding("packet", Health::Limited, "slow", &[]),
            finding("dpdk", Health::Absent, "not tested: no root", &["run as root"]),
        ];
        let tap = "  doctor serve: tap: absent, no module\n    try: modprobe tun\n";
        let xdp = "  doctor serve: xdp, generic; xdp, native: absent, no AF_XDP\n    try: another kernel\n";
        let check = |device: Option<&str>, expected: &str| {
            assert_eq!(lacking("serve", device, &findings), expected, "{device:?}");
        };
        check(Some("tap"), tap);
        check(Some("xdp"), xdp);
        check(Some("packet"), "");
        check(Some("dpdk"), "");
        check(None, &format!("{tap}{xdp}"));
    }
}
