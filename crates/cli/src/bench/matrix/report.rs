//! The matrix as a page of the guide, as a table, and as JSON.

use std::fmt::Write as _;

use host::Machine;
use serde_json::{Value, json};

use super::feature::Feature;
use super::results::Results;
use super::verdict::{self, Row, TrialResult};
use crate::report::ResultHeader;
use crate::table::Table;

/// Footnotes, each text once; cells refer to their numbers.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn number(&mut self, why: &str) -> usize {
        // One line, without characters special to Markdown.
        let why =
            why.split_whitespace().collect::<Vec<_>>().join(" ").replace('<', "\\<").replace('|', "\\|");
        let known = self.0.iter().position(|note| *note == why);
        known.unwrap_or_else(|| {
            self.0.push(why);
            self.0.len() - 1
        }) + 1
    }
}

/// One row per feature, one column per program.
fn table(rows: &[Row], features: &[Feature], notes: &mut Notes) -> Table {
    let heads: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row.program.name(), row.version)).collect();
    let heads: Vec<&str> = std::iter::once("").chain(heads.iter().map(|head| head.trim())).collect();
    let mut table = Table::new(heads.len(), &heads);
    for (index, feature) in features.iter().enumerate() {
        let mut cells = vec![feature.name().to_owned()];
        for row in rows {
            let results = &row.results[index];
            let note = results.why().map(|why| format!(" ({})", notes.number(why)));
            cells.push(format!("{}{}", results.word(), note.unwrap_or_default()));
        }
        table.row(cells);
    }
    table
}

fn notes_as_list(notes: &Notes) -> String {
    notes.0.iter().enumerate().map(|(index, note)| format!("{}. {note}\n", index + 1)).collect()
}

/// Table for a terminal: one line per program and feature.
pub fn text(rows: &[Row], features: &[Feature]) -> String {
    let mut table = Table::new(4, &["program", "version", "feature", "result"]);
    for row in rows {
        for (feature, results) in features.iter().zip(&row.results) {
            let why = results.why().map(|why| format!(": {why}")).unwrap_or_default();
            let result = format!("{}{why}", results.word());
            table.row(vec![
                row.program.name().to_owned(),
                row.version.clone(),
                feature.name().to_owned(),
                result,
            ]);
        }
    }
    table.to_string()
}

/// The whole page.
pub fn markdown(rows: &[Row], features: &[Feature], device: &str) -> String {
    let mut notes = Notes::default();
    let table = table(rows, features, &mut notes).markdown();
    let mut page = format!(
        "# Programs that were run\n\n\
         `make test-programs` (`greenwave bench matrix --page …`) wrote this whole page on {}: greenwave {}, {}.\n\
         Each field is a trial: Debian's package of the program, started anew by `greenwave run --device {device}:…`, with\n\
         peers on the kernel's TCP in another network namespace. A failed trial is repeated on the kernel's TCP. Numbers in\n\
         brackets refer to the notes below. [Unmodified programs](unmodified-programs.md) describes what holds for all\n\
         programs.\n\n{table}\n## Features\n\n",
        host::today(),
        env!("CARGO_PKG_VERSION"),
        Machine::this(),
    );
    for feature in features {
        let _ = writeln!(page, "* **{}**: {}.", feature.name(), feature.about());
    }
    let _ = write!(page, "\n## Notes\n\n{}", notes_as_list(&notes));
    for row in rows {
        let suites = row.results.iter().filter_map(TrialResult::results);
        suites.for_each(|results| page.push_str(&files(row.program.name(), results)));
    }
    page
}

/// A program's own tests; files with equal results share a row.
fn files(program: &str, results: &Results) -> String {
    let mut alike: Vec<([String; 2], Vec<&str>)> = Vec::new();
    for (file, cells) in results.files() {
        match alike.iter_mut().find(|(known, _)| *known == cells) {
            Some((_, files)) => files.push(file),
            None => alike.push((cells, vec![file])),
        }
    }
    alike.sort_by_key(|(_, files)| std::cmp::Reverse(files.len()));
    let mut table = Table::new(4, &["on greenwave's stack", "on the kernel's TCP", "files", "which"]);
    for ([ours, kernel], files) in alike {
        let [ours, kernel] = [ours, kernel].map(|cell| cell.replace('<', "\\<"));
        table.row(vec![ours, kernel, files.len().to_string(), files.join(", ")]);
    }
    format!(
        "\n## {program}'s own tests\n\nSource package: {}. One row for each result; its files are in the last column.\n\n{}",
        results.source,
        table.markdown()
    )
}

/// Results as JSON.
pub fn json(rows: &[Row], features: &[Feature], device: &str) -> Value {
    let fields = rows.iter().flat_map(|row| {
        features.iter().zip(&row.results).map(|(feature, results)| {
            let mut field = json!({
                "program": row.program.name(), "version": row.version, "feature": feature.name(),
                "result": results.word(), "note": results.why(),
            });
            if let Some(results) = results.results() {
                let files = results.files();
                let files = files
                    .map(|(file, [ours, kernel])| json!({ "file": file, "ours": ours, "kernel": kernel }));
                field["files"] = files.collect();
            }
            field
        })
    });
    let body =
        json!({ "device": device, "rows": fields.collect::<Vec<_>>(), "holds": !verdict::is_failure(rows) });
    ResultHeader::of_host("bench-matrix", None).with_doctor(&["serve"]).stamp(body)
}

#[cfg(test)]
mod tests {
    use super::super::program::TestedProgram;
    use super::super::results::{FileResult, SuiteResult};
    use super::*;

    fn rows() -> Vec<Row> {
        let row_results = |first, suite| vec![first, TrialResult::Without("it has none"), suite];
        let file = |name: &str, failed: &[&str]| {
            let failed = failed.iter().map(|&test| test.to_owned()).collect();
            (name.to_owned(), FileResult { failed, ..FileResult::default() })
        };
        let output = |b: &[&str]| SuiteResult {
            files: [file("a", &[]), file("b", b), file("c", &[])].into(),
            is_complete: true,
        };
        let suite = Results::new("redis-7", output(&["one"]), output(&[]));
        let fails = TrialResult::Fails("no\nline".to_owned());
        let version = "1.2".to_owned();
        vec![
            Row {
                program: TestedProgram::Nginx,
                version,
                results: row_results(TrialResult::Works, TrialResult::Skipped("a | b".to_owned())),
            },
            Row {
                program: TestedProgram::Redis,
                version: String::new(),
                results: row_results(fails, TrialResult::Suite(suite.into())),
            },
        ]
    }

    const FEATURES: [Feature; 3] = [Feature::Serves, Feature::Reload, Feature::Suite];

    #[test]
    fn a_page_has_a_field_for_each_trial_and_each_reason_once() {
        let page = markdown(&rows(), &FEATURES, "packet");
        for line in [
            "|  | nginx 1.2 | redis-server |",
            "| serves | works | fails (1) |",
            "| reload | not applicable (2) | not applicable (2) |",
            "| suite | skipped (3) | fails (4) |",
            "1. no line",
            "2. it has none",
            "3. a \\| b",
            "Source package: redis-7. One row for each result; its files are in the last column.",
            "| pass | pass | 2 | a, c |",
            "| fail: one | pass | 1 | b |",
        ] {
            assert!(page.lines().any(|has| has == line), "{line:?} is not in {page}");
        }
        assert_eq!(page.matches("it has none").count(), 1);
    }

    #[test]
    fn json_conforms_to_the_schema() {
        let json = json(&rows(), &FEATURES, "packet");
        crate::report::schema::conforms(&json);
        assert_eq!((&json["holds"], &json["rows"][3]["result"]), (&false.into(), &"fails".into()));
        let file = json!({ "file": "b", "ours": "fail: one", "kernel": "pass" });
        assert_eq!(json["rows"][5]["files"][1], file);
    }
}
