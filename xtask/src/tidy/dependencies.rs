//! Check of the dependencies between the workspace's crates against the list in `ARCHITECTURE.md`.
//!
//! The list stands between `<!-- dependencies -->` and `<!-- /dependencies -->`, one crate a line:
//! `- net → queueing`, `- queueing → –` (none), `- cli → all` (any). A line with `(planned)` names
//! a crate that may be missing, and so may dependencies on it.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;

const FILE: &str = "ARCHITECTURE.md";
const MARK: &str = "<!-- dependencies -->";
const MARK_END: &str = "<!-- /dependencies -->";

/// Dependencies of each crate, by name.
pub(super) type Edges = BTreeMap<String, BTreeSet<String>>;

/// Edges between the workspace's crates from the JSON text of `cargo metadata --no-deps`.
/// Dev-dependencies count: a test that needs another crate belongs in that crate.
///
/// # Errors
/// Text that is not cargo's output.
pub(super) fn edges(metadata: &str) -> Result<Edges, String> {
    let json: serde_json::Value =
        serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = json["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap_or_default().to_owned();
    let members: BTreeSet<String> = packages.iter().map(name).collect();
    let dependencies = |package: &serde_json::Value| {
        let targets = package["dependencies"].as_array().into_iter().flatten().map(name);
        targets.filter(|target| members.contains(target)).collect()
    };
    Ok(packages.iter().map(|p| (name(p), dependencies(p))).collect())
}

/// One crate's line of the list.
struct Row {
    line: usize,
    planned: bool,
    /// `None`: any crate.
    targets: Option<BTreeSet<String>>,
}

/// Findings of `edges` against the list in `architecture`.
pub(super) fn check(architecture: &str, edges: &Edges) -> Vec<Finding> {
    let finding = |line, what| Finding { file: FILE.to_owned(), line, what };
    let rows = match parse(architecture) {
        Ok(rows) => rows,
        Err((line, what)) => return vec![finding(line, what)],
    };
    let mut findings = Vec::new();
    for (name, actual) in edges {
        let Some(Row { line, targets, .. }) = rows.get(name) else {
            findings.push(finding(
                1,
                format!("crate {name} is not in the list of dependencies; add `- {name} → …`"),
            ));
            continue;
        };
        let Some(targets) = targets else { continue };
        for target in actual.difference(targets) {
            let what = format!("{name} depends on {target}, which is not listed; list it or remove it");
            findings.push(finding(*line, what));
        }
        let absent = |target: &&String| edges.contains_key(*target) || !is_planned(&rows, target);
        for target in targets.difference(actual).filter(absent) {
            let what = format!(
                "dependency {name} → {target} is not in {name}'s Cargo.toml; remove one or add the other"
            );
            findings.push(finding(*line, what));
        }
    }
    for (name, Row { line, .. }) in rows.iter().filter(|(name, r)| !r.planned && !edges.contains_key(*name)) {
        findings.push(finding(*line, format!("crate {name} does not exist; mark it (planned) or remove it")));
    }
    findings
}

fn is_planned(rows: &BTreeMap<String, Row>, name: &str) -> bool {
    rows.get(name).is_some_and(|r| r.planned)
}

fn parse(architecture: &str) -> Result<BTreeMap<String, Row>, (usize, String)> {
    let mut lines = architecture.lines().enumerate().skip_while(|(_, line)| line.trim() != MARK);
    let open = lines.next().ok_or((1, format!("no list of dependencies; begin it with {MARK}")))?;
    let mut rows = BTreeMap::new();
    for (index, text) in lines {
        let line = index + 1;
        let text = text.trim();
        if text == MARK || text == MARK_END {
            return Ok(rows);
        }
        // Only the rows of the list; prose between them is allowed.
        let Some(row) = text.strip_prefix("- ") else { continue };
        let planned = row.contains("(planned)");
        let row = row.replace("(planned)", "").replace('`', "");
        let bad = || (line, format!("{text:?} is no row; write `- crate → crate crate`, `→ –` or `→ all`"));
        let (names, targets) = row.split_once('→').ok_or_else(bad)?;
        let words = |text: &str| -> BTreeSet<String> {
            let words = text.split([' ', ',']).map(str::trim).filter(|w| !matches!(*w, "" | "–" | "-"));
            words.map(str::to_owned).collect()
        };
        let targets = words(targets);
        for name in words(names) {
            let targets = (!targets.contains("all")).then(|| targets.clone());
            rows.insert(name, Row { line, planned, targets });
        }
    }
    Err((open.0 + 1, format!("the list of dependencies does not end; close it with {MARK_END}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges_of(crates: &[(&str, &[&str])]) -> Edges {
        crates
            .iter()
            .map(|(name, targets)| ((*name).to_owned(), targets.iter().map(|t| (*t).to_owned()).collect()))
            .collect()
    }

    #[track_caller]
    fn found(list: &str, crates: &[(&str, &[&str])], expected: &[&str]) {
        let text = format!("# Map\n{MARK}\n{list}\n{MARK_END}\n");
        let findings = check(&text, &edges_of(crates));
        let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for (finding, part) in shown.iter().zip(expected) {
            assert!(finding.contains(part), "{finding:?} lacks {part:?}");
        }
    }

    //~ gates: dependencies between crates are those that ARCHITECTURE.md lists
    #[test]
    fn listed_dependencies_are_the_dependencies() {
        let list = "- queueing → –\n- `net`, `sched` → queueing\n- cli → all";
        let crates: [(&str, &[&str]); 4] =
            [("queueing", &[]), ("net", &["queueing"]), ("sched", &["queueing"]), ("cli", &["net"])];
        found(list, &crates, &[]);
    }

    //~ gates: dependencies between crates are those that ARCHITECTURE.md lists
    #[test]
    fn a_dependency_must_be_listed_and_a_listed_dependency_must_exist() {
        let crates: [(&str, &[&str]); 3] = [("net", &["sched"]), ("queueing", &[]), ("sched", &[])];
        let list = "- queueing → –\n- net → queueing\n- sched → –";
        let expected =
            ["ARCHITECTURE.md:4: net depends on sched", "ARCHITECTURE.md:4: dependency net → queueing"];
        found(list, &crates, &expected);
    }

    #[test]
    fn planned_crates_may_be_absent_and_others_may_not() {
        let crates: [(&str, &[&str]); 1] = [("runtime", &[])];
        found("- runtime → guard\n- guard (planned) → –", &crates, &[]);
        found("- runtime → –\n- guard → –", &crates, &["crate guard does not exist"]);
        found("", &crates, &["crate runtime is not in the list"]);
    }

    #[test]
    fn a_missing_open_or_malformed_list_is_one_finding() {
        assert_eq!(check("# Map\n", &Edges::new()).len(), 1);
        assert_eq!(check(&format!("{MARK}\n- net → queueing\n"), &Edges::new()).len(), 1);
        found("- net queueing", &[], &["ARCHITECTURE.md:3: \"- net queueing\" is no row"]);
    }

    #[test]
    fn edges_are_those_between_workspace_members() {
        let json = r#"{"packages": [
            {"name": "net", "dependencies": [{"name": "queueing"}, {"name": "serde"}]},
            {"name": "queueing", "dependencies": []},
            {"name": "xtask", "dependencies": [{"name": "net"}]}]}"#;
        let expected: [(&str, &[&str]); 3] = [("net", &["queueing"]), ("queueing", &[]), ("xtask", &["net"])];
        assert_eq!(edges(json), Ok(edges_of(&expected)));
        assert!(edges("{}").is_err());
    }
}
