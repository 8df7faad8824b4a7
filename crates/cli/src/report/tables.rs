//! Figures of a result, found by the shape of its JSON.
//!
//! A list of objects is a table. In an object, numbers are figures and short strings are the row's
//! labels; nested lists are separate tables, whose rows inherit its labels. Units come from `units`
//! or from the end of a name (`p99_ns`). Values of repetitions are in `seeds` or `rounds`, a list
//! for each figure. It deliberately depends on no command.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::confidence::interval;
use crate::report::KEY;

/// Contents of a result that are not read by name.
#[derive(Clone, Debug, Default)]
pub struct ResultContents {
    /// Tables, in order of appearance.
    pub tables: Vec<ResultTable>,
    /// Notes: row (empty for all rows) and text.
    pub notes: Vec<(String, String)>,
    /// Facts outside the tables: name and value.
    pub facts: Vec<(String, String)>,
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultTable {
    /// Path in the result.
    pub name: String,
    /// Names of the labels.
    pub labels: Vec<String>,
    /// Names and units of the figures.
    pub columns: Vec<(String, String)>,
    /// Rows; figures are in the order of the columns.
    pub rows: Vec<ResultRow>,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultRow {
    /// In the order of [`ResultTable::labels`].
    pub labels: Vec<String>,
    /// In the order of [`ResultTable::columns`].
    pub figures: Vec<Option<ResultFigure>>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultFigure {
    /// Value shown in the table.
    pub value: f64,
    /// Half the 95 % interval of the mean, with repetitions.
    pub interval: Option<f64>,
    /// Value of each repetition, in their order.
    pub repeats: Vec<Option<f64>>,
}

impl ResultRow {
    /// Labels in one line.
    #[must_use]
    pub fn label(&self) -> String {
        self.labels.iter().filter(|label| !label.is_empty()).cloned().collect::<Vec<_>>().join(" ")
    }
}

/// Keys with a special meaning, read elsewhere.
const SPECIAL: [&str; 13] = [
    KEY,
    "claims",
    "goals",
    "plots",
    "units",
    "settings",
    "shown",
    "not_checked",
    "title",
    "source",
    "world",
    "machine",
    "findings",
];
/// Keys of inputs: facts, not figures.
const INPUTS: [&str; 14] = [
    "experiment",
    "scale",
    "seed",
    "runs",
    "events",
    "rounds",
    "time_ns",
    "date",
    "page",
    "holds",
    "topology",
    "hosts",
    "load",
    "form",
];
/// Keys of texts about a row that are not labels.
const PROSE: [&str; 3] = ["note", "not_run", "what"];
/// Keys of the values of a row's repetitions.
const REPEATS: [&str; 2] = ["seeds", "rounds"];

/// Finds the figures of `result`.
#[must_use]
pub fn read(result: &Value) -> ResultContents {
    let names = |key: &str| result[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut reader = Reader {
        units: result["units"].as_object(),
        figures_shown: names("shown"),
        contents: ResultContents::default(),
    };
    if let Some(all) = result.as_object() {
        reader.top(all);
    }
    let mut contents = reader.contents;
    for table in &mut contents.tables {
        without_empty_labels(table);
    }
    contents
}

struct Reader<'a> {
    units: Option<&'a Map<String, Value>>,
    /// Figures to show of a `figures` list; all if empty.
    figures_shown: Vec<&'a str>,
    contents: ResultContents,
}

/// Names and texts of a row's labels.
type Labels = Vec<(String, String)>;

impl Reader<'_> {
    /// Reads the result itself: keys that are not tables become facts or one row.
    fn top(&mut self, all: &Map<String, Value>) {
        let mut rest = Map::new();
        for (key, value) in all.iter().filter(|(key, _)| !SPECIAL.contains(&key.as_str())) {
            match value {
                Value::Null => {}
                Value::String(_) | Value::Bool(_) => self.fact(key, value),
                Value::Number(_) if INPUTS.contains(&key.as_str()) => self.fact(key, value),
                Value::Array(list) if !list.iter().any(Value::is_object) => {
                    if !list.is_empty() {
                        self.fact(key, value);
                    }
                }
                _ => {
                    rest.insert(key.clone(), value.clone());
                }
            }
        }
        self.row("run", &[], &rest);
    }

    fn fact(&mut self, key: &str, value: &Value) {
        let text = match value {
            Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
            value => plain(value),
        };
        self.contents.facts.push((key.replace('_', " "), text));
    }

    /// Adds the rows of `list`, each with `labels` before its own.
    fn list(&mut self, path: &str, labels: &[(String, String)], list: &[Value]) {
        for (number, object) in list.iter().enumerate() {
            let Some(object) = object.as_object() else { continue };
            let named = object.iter().any(|(key, value)| is_label(key, value));
            let number = (!named).then(|| (path.trim_end_matches('s').to_owned(), (number + 1).to_string()));
            self.row(path, &[labels, number.as_slice()].concat(), object);
        }
    }

    /// Adds one row of table `path`, and its nested tables.
    fn row(&mut self, path: &str, labels: &[(String, String)], object: &Map<String, Value>) {
        let mut labels: Labels = labels.to_vec();
        let own = object.iter().filter(|(key, value)| is_label(key, value));
        labels.extend(own.map(|(key, value)| (key.clone(), plain(value))));
        let mut figures: Vec<(String, Option<ResultFigure>)> = Vec::new();
        let is_hidden = |key: &str| {
            path == "figures" && !self.figures_shown.is_empty() && !self.figures_shown.contains(&key)
        };
        let entries = object.iter().filter(|(key, _)| !SPECIAL.contains(&key.as_str()) && !is_hidden(key));
        for (key, value) in entries.collect::<Vec<_>>() {
            match value {
                Value::Number(_) if INPUTS.contains(&key.as_str()) => {}
                Value::Number(_) | Value::Null => figures.push((key.clone(), figure(value))),
                Value::String(text) if PROSE.contains(&key.as_str()) => {
                    let about = labels.iter().map(|label| label.1.as_str()).collect::<Vec<_>>().join(" ");
                    if !self.contents.notes.iter().any(|(_, known)| known == text) {
                        self.contents.notes.push((about, text.clone()));
                    }
                }
                Value::Array(list) if list.iter().any(Value::is_object) => self.list(key, &labels, list),
                Value::Object(inner) if inner.contains_key("mean") && inner.contains_key("interval") => {
                    figures.push((key.clone(), figure(value)));
                }
                Value::Object(_) if REPEATS.contains(&key.as_str()) => {}
                Value::Object(inner) if has_tables(inner) => self.row(key, &labels, inner),
                Value::Object(inner) => {
                    // A unit at the end of the outer name applies to its parts.
                    let (outer, unit) =
                        key.strip_suffix("_ns").map_or((key.as_str(), ""), |outer| (outer, "_ns"));
                    let flat = inner.iter().filter(|(_, value)| value.is_number() || value.is_null());
                    figures
                        .extend(flat.map(|(part, value)| (format!("{outer} {part}{unit}"), figure(value))));
                }
                _ => {}
            }
        }
        for of in REPEATS.iter().filter_map(|key| object.get(*key)?.as_object()) {
            for (key, figure) in &mut figures {
                let values = of.get(key.as_str()).and_then(Value::as_array);
                if let (Some(figure), Some(values)) = (figure, values) {
                    figure.repeats = values.iter().map(Value::as_f64).collect();
                    let repeats: Vec<f64> = figure.repeats.iter().copied().flatten().collect();
                    figure.interval = interval(&repeats);
                }
            }
        }
        if figures.iter().any(|(_, figure)| figure.is_some()) {
            self.add(path, labels, figures);
        }
    }

    fn add(&mut self, path: &str, labels: Labels, figures: Vec<(String, Option<ResultFigure>)>) {
        let names: Vec<String> = labels.iter().map(|label| label.0.clone()).collect();
        let tables = &mut self.contents.tables;
        let index = tables.iter().position(|table| table.name == path && table.labels == names);
        let index = index.unwrap_or_else(|| {
            let name = path.to_owned();
            tables.push(ResultTable { name, labels: names, columns: Vec::new(), rows: Vec::new() });
            tables.len() - 1
        });
        // The same name may have another meaning in other tables.
        let units = self.units.filter(|_| path == "figures");
        let table = &mut tables[index];
        let mut row =
            ResultRow { labels: labels.into_iter().map(|label| label.1).collect(), figures: Vec::new() };
        row.figures.resize(table.columns.len(), None);
        for (key, figure) in figures {
            let (column, scale) = column(&key, units);
            let at = table.columns.iter().position(|known| *known == column).unwrap_or_else(|| {
                table.columns.push(column);
                row.figures.push(None);
                table.rows.iter_mut().for_each(|row| row.figures.push(None));
                table.columns.len() - 1
            });
            row.figures[at] = figure.map(|figure| figure.times(scale));
        }
        table.rows.push(row);
    }
}

impl ResultFigure {
    fn times(self, scale: f64) -> Self {
        Self {
            value: self.value * scale,
            interval: self.interval.map(|half| half * scale),
            repeats: self.repeats.into_iter().map(|value| Some(value? * scale)).collect(),
        }
    }
}

fn is_label(key: &str, value: &Value) -> bool {
    let text = matches!(value, Value::String(_)) || (value.is_boolean() && key != "holds");
    text && ![&SPECIAL[..], &INPUTS[..], &PROSE[..]].concat().contains(&key)
}

/// True if `object` has tables at any depth.
fn has_tables(object: &Map<String, Value>) -> bool {
    object.iter().any(|(key, value)| match value {
        Value::Array(list) => list.iter().any(Value::is_object),
        Value::Object(inner) => !REPEATS.contains(&key.as_str()) && has_tables(inner),
        _ => false,
    })
}

/// A number, or a mean with its interval.
fn figure(value: &Value) -> Option<ResultFigure> {
    let mean = value.as_f64().or(value["mean"].as_f64())?;
    Some(ResultFigure { value: mean, interval: value["interval"].as_f64(), repeats: Vec::new() })
}

/// Name and unit of the figure under `key`, and the factor from its number to that unit.
fn column(key: &str, units: Option<&Map<String, Value>>) -> ((String, String), f64) {
    let of = |name: &str, unit: &str, scale| ((name.replace('_', " "), unit.to_owned()), scale);
    if let Some(unit) = units.and_then(|units| units.get(key)?.as_str()) {
        return of(key, unit, 1.0);
    }
    match key.strip_suffix("_ns") {
        Some(name) => of(name, "µs", 1e-3),
        None if key.ends_with("_per_s") => of(key.trim_end_matches("_per_s"), "1/s", 1.0),
        None if key.ends_with("_s") => of(key.trim_end_matches("_s"), "s", 1.0),
        None if key.ends_with("_bytes") => of(key.trim_end_matches("_bytes"), "bytes", 1.0),
        None => of(key, "", 1.0),
    }
}

/// Removes labels that are empty in every row.
fn without_empty_labels(table: &mut ResultTable) {
    for index in (0..table.labels.len()).rev() {
        if table.rows.iter().all(|row| row.labels[index].is_empty()) {
            table.labels.remove(index);
            table.rows.iter_mut().for_each(|row| drop(row.labels.remove(index)));
        }
    }
}

/// A scalar as text, without quotes.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Settings by path, of one object or of a list of points and modes with settings each; different
/// values are listed together.
#[must_use]
pub fn settings(value: &Value) -> Vec<(String, String)> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let each: Vec<&Value> = match value {
        Value::Array(list) => list.iter().map(|element| &element["settings"]).collect(),
        one => vec![one],
    };
    for settings in each {
        flatten("", settings, &mut |path, text| {
            let known = values.entry(path).or_default();
            if !known.contains(&text) {
                known.push(text);
            }
        });
    }
    values.into_iter().map(|(path, values)| (path, values.join(" | "))).collect()
}

fn flatten(path: &str, value: &Value, add: &mut dyn FnMut(String, String)) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(all) => all.iter().for_each(|(key, value)| flatten(&below(key), value, add)),
        Value::Array(list) if list.iter().any(Value::is_object) => {
            list.iter().enumerate().for_each(|(n, value)| flatten(&below(&n.to_string()), value, add));
        }
        Value::Array(list) => add(path.to_owned(), list.iter().map(plain).collect::<Vec<_>>().join(", ")),
        Value::Null => {}
        scalar => add(path.to_owned(), plain(scalar)),
    }
}

#[cfg(test)]
mod tests;
