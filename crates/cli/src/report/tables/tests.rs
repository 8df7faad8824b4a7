//! Tests of tables, from results to rows.

use serde_json::json;

use super::*;

/// Table as lines: labels, then figures with their units.
fn lines(result: &Value) -> Vec<String> {
    let line = |table: &ResultTable, row: &ResultRow| {
        let figure = |(column, figure): (&(String, String), &Option<ResultFigure>)| {
            let figure = figure.as_ref()?;
            let half = figure.interval.map_or(String::new(), |half| format!("±{half:.1}"));
            Some(format!(" {}={}{half}{}", column.0, figure.value, column.1))
        };
        let figures = table.columns.iter().zip(&row.figures).filter_map(figure).collect::<String>();
        format!("{}: {}{figures}", table.name, row.label())
    };
    let of = |table: &ResultTable| table.rows.iter().map(|row| line(table, row)).collect::<Vec<_>>();
    read(result).tables.iter().flat_map(of).collect()
}

#[test]
fn lists_of_objects_are_tables_whose_rows_inherit_labels() {
    let result = json!({"modes": [
        {"mode": "none", "report": {"seed": 7, "lost": 1, "classes": [{"class": "LS", "p99_ns": 4200}]}},
        {"mode": "adps", "report": {"seed": 7, "lost": 0, "classes": [{"class": "LS", "p99_ns": 900}]}},
    ]});
    let expected = [
        "classes: none LS p99=4.2µs",
        "classes: adps LS p99=0.9µs",
        "report: none lost=1",
        "report: adps lost=0",
    ];
    let mut rows = lines(&result);
    rows.sort_by_key(|line| expected.iter().position(|other| other == line));
    assert_eq!(rows, expected);
}

#[test]
fn figures_have_the_values_of_their_seeds() {
    let result = json!({
        "units": {"p99": "µs", "kept": "1"}, "shown": ["p99"],
        "figures": [{"point": "", "mode": "a", "p99": 3.0, "kept": 9, "seeds": {"p99": [2.0, null, 4.0]}}],
    });
    assert_eq!(lines(&result), ["figures: a p99=3±12.7µs"]);
    let table = &read(&result).tables[0];
    assert_eq!(table.labels, ["mode"], "a label that is always empty is left out");
    let figure = table.rows[0].figures[0].as_ref().unwrap();
    assert_eq!(figure.repeats, [Some(2.0), None, Some(4.0)]);
}

#[test]
fn means_with_intervals_parts_and_rows_without_words_are_read() {
    let result = json!({
        "shards": [{"requests": 5, "delay_ns": {"p50": 10}}],
        "figures": [{"scheduler": "fish", "mean": {"mean": 2.0, "interval": 0.5}}],
        "bytes": {"resident": 12.5}, "opened_per_s": 4.0, "seed": 3, "note": "x",
    });
    let expected = [
        "figures: fish mean=2±0.5",
        "run:  bytes resident=12.5 opened=41/s",
        "shards: 1 requests=5 delay p50=0.01µs",
    ];
    let mut rows = lines(&result);
    rows.sort();
    assert_eq!(rows, expected);
    assert!(read(&result).facts.contains(&("seed".to_owned(), "3".to_owned())));
}

#[test]
fn settings_that_differ_stand_side_by_side() {
    let list = json!([
        {"point": "1", "settings": {"load": {"rate": 1}, "seed": 1, "classes": [{"share": 0.5}]}},
        {"point": "2", "settings": {"load": {"rate": 2}, "seed": 1}},
    ]);
    let expected = [("classes.0.share", "0.5"), ("load.rate", "1 | 2"), ("seed", "1")];
    assert_eq!(settings(&list), expected.map(|(path, text)| (path.to_owned(), text.to_owned())));
}
