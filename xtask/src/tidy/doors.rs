//! The doors between rooms are the ones `ARCHITECTURE.md` lists, all of them.
//!
//! The list stands between two `<!-- doors -->` lines, one room a line:
//! `- net → queueing`, `- queueing → –` (none), `- cli → all` (any). A line
//! with `(planned)` names a room that may be absent; doors to it may be too.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;

const FILE: &str = "ARCHITECTURE.md";
const MARK: &str = "<!-- doors -->";
const MARK_END: &str = "<!-- /doors -->";

/// Which room depends on which, by name.
pub(super) type Edges = BTreeMap<String, BTreeSet<String>>;

/// The edges between the workspace's crates from the JSON text of `cargo
/// metadata --no-deps`. Dev-dependencies count: a test that
/// needs another room belongs into that room.
///
/// # Errors
/// Text that is not what cargo prints.
pub(super) fn edges(metadata: &str) -> Result<Edges, String> {
    let json: serde_json::Value =
        serde_json::from_str(metadata).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = json["packages"].as_array().ok_or("cargo metadata: no packages")?;
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap_or_default().to_owned();
    let rooms: BTreeSet<String> = packages.iter().map(name).collect();
    let doors = |package: &serde_json::Value| {
        let targets = package["dependencies"].as_array().into_iter().flatten().map(name);
        targets.filter(|target| rooms.contains(target)).collect()
    };
    Ok(packages.iter().map(|p| (name(p), doors(p))).collect())
}

/// One room as listed.
struct Listed {
    line: usize,
    planned: bool,
    /// `None`: all of them.
    targets: Option<BTreeSet<String>>,
}

/// Holds `edges` against the list in `architecture`.
pub(super) fn check(architecture: &str, edges: &Edges) -> Vec<Finding> {
    let finding = |line, what| Finding { file: FILE.to_owned(), line, what };
    let listed = match parse(architecture) {
        Ok(listed) => listed,
        Err((line, what)) => return vec![finding(line, what)],
    };
    let mut findings = Vec::new();
    for (room, actual) in edges {
        let Some(Listed { line, targets, .. }) = listed.get(room) else {
            findings.push(finding(1, format!("room {room} is not in the list of doors; add `- {room} → …`")));
            continue;
        };
        let Some(targets) = targets else { continue };
        for target in actual.difference(targets) {
            let what = format!("{room} depends on {target} without a door; list it or remove the dependency");
            findings.push(finding(*line, what));
        }
        let absent = |target: &&String| edges.contains_key(*target) || !is_planned(&listed, target);
        for target in targets.difference(actual).filter(absent) {
            let what =
                format!("door {room} → {target} is not in {room}'s Cargo.toml; remove one or add the other");
            findings.push(finding(*line, what));
        }
    }
    for (room, Listed { line, .. }) in
        listed.iter().filter(|(room, l)| !l.planned && !edges.contains_key(*room))
    {
        findings.push(finding(*line, format!("room {room} is not there; mark it (planned) or remove it")));
    }
    findings
}

fn is_planned(listed: &BTreeMap<String, Listed>, room: &str) -> bool {
    listed.get(room).is_some_and(|l| l.planned)
}

fn parse(architecture: &str) -> Result<BTreeMap<String, Listed>, (usize, String)> {
    let mut lines = architecture.lines().enumerate().skip_while(|(_, line)| line.trim() != MARK);
    let open = lines.next().ok_or((1, format!("no list of doors; begin and end it with {MARK}")))?;
    let mut listed = BTreeMap::new();
    for (index, text) in lines {
        let line = index + 1;
        let text = text.trim();
        if text == MARK || text == MARK_END {
            return Ok(listed);
        }
        // Rows of the list only; a sentence between them is welcome.
        let Some(row) = text.strip_prefix("- ") else { continue };
        let planned = row.contains("(planned)");
        let row = row.replace("(planned)", "").replace('`', "");
        let bad = || (line, format!("{text:?} is no door; write `- room → room room`, `→ –` or `→ all`"));
        let (rooms, targets) = row.split_once('→').ok_or_else(bad)?;
        let words = |text: &str| -> BTreeSet<String> {
            let words = text.split([' ', ',']).map(str::trim).filter(|w| !matches!(*w, "" | "–" | "-"));
            words.map(str::to_owned).collect()
        };
        let targets = words(targets);
        for room in words(rooms) {
            let targets = (!targets.contains("all")).then(|| targets.clone());
            listed.insert(room, Listed { line, planned, targets });
        }
    }
    Err((open.0 + 1, format!("the list of doors does not end; close it with {MARK}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges_of(rooms: &[(&str, &[&str])]) -> Edges {
        rooms
            .iter()
            .map(|(room, targets)| ((*room).to_owned(), targets.iter().map(|t| (*t).to_owned()).collect()))
            .collect()
    }

    #[track_caller]
    fn found(list: &str, rooms: &[(&str, &[&str])], expected: &[&str]) {
        let text = format!("# Map\n<!-- doors -->\n{list}\n<!-- doors -->\n");
        let findings = check(&text, &edges_of(rooms));
        let shown: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), expected.len(), "{shown:?}");
        for (finding, part) in shown.iter().zip(expected) {
            assert!(finding.contains(part), "{finding:?} lacks {part:?}");
        }
    }

    #[test]
    fn listed_doors_are_the_doors() {
        let list = "- queueing → –\n- `net`, `sched` → queueing\n- cli → all";
        let rooms: [(&str, &[&str]); 4] =
            [("queueing", &[]), ("net", &["queueing"]), ("sched", &["queueing"]), ("cli", &["net"])];
        found(list, &rooms, &[]);
    }

    #[test]
    fn a_door_must_be_listed_and_a_listed_door_must_be() {
        let rooms: [(&str, &[&str]); 3] = [("net", &["sched"]), ("queueing", &[]), ("sched", &[])];
        let list = "- queueing → –\n- net → queueing\n- sched → –";
        let expected = ["ARCHITECTURE.md:4: net depends on sched", "ARCHITECTURE.md:4: door net → queueing"];
        found(list, &rooms, &expected);
    }

    #[test]
    fn planned_rooms_may_be_absent_and_others_may_not() {
        let rooms: [(&str, &[&str]); 1] = [("runtime", &[])];
        found("- runtime → guard\n- guard (planned) → –", &rooms, &[]);
        found("- runtime → –\n- guard → –", &rooms, &["room guard is not there"]);
        found("", &rooms, &["room runtime is not in the list"]);
    }

    #[test]
    fn a_missing_open_or_odd_list_is_one_finding() {
        assert_eq!(check("# Map\n", &Edges::new()).len(), 1);
        assert_eq!(check("<!-- doors -->\n- net → queueing\n", &Edges::new()).len(), 1);
        found("- net queueing", &[], &["ARCHITECTURE.md:3: \"- net queueing\" is no door"]);
    }

    #[test]
    fn edges_come_from_cargo_and_leave_strangers_out() {
        let json = r#"{"packages": [
            {"name": "net", "dependencies": [{"name": "queueing"}, {"name": "serde"}]},
            {"name": "queueing", "dependencies": []},
            {"name": "xtask", "dependencies": [{"name": "net"}]}]}"#;
        let expected: [(&str, &[&str]); 3] = [("net", &["queueing"]), ("queueing", &[]), ("xtask", &["net"])];
        assert_eq!(edges(json), Ok(edges_of(&expected)));
        assert!(edges("{}").is_err());
    }
}
