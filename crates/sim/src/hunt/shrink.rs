//! Reduction of a failing case to a simpler one that still fails.
//!
//! Works on the TOML and knows no mechanism: a step removes a key or an array's element, or
//! replaces a law by a constant; a step after which the case is invalid does not fail and is undone.

use toml::{Table, Value};

/// Simplest case found for which `fails` holds, from `text`, for which it holds.
///
/// Text that is no TOML is returned as it is.
#[must_use]
pub fn shrink(text: &str, mut fails: impl FnMut(&str) -> bool) -> String {
    let Ok(mut case) = text.parse::<Table>() else { return text.to_owned() };
    let mut smallest = text.to_owned();
    // A step makes later ones possible; each successful one removes something, so this ends.
    'again: loop {
        for step in steps(&Value::Table(case.clone()), &[]) {
            let mut candidate = Value::Table(case.clone());
            step.apply(&mut candidate);
            let Value::Table(table) = candidate else { continue };
            let candidate = table.to_string();
            if table != case && fails(&candidate) {
                (case, smallest) = (table, candidate);
                continue 'again;
            }
        }
        return smallest;
    }
}

/// Way from the root to a value.
type Path = Vec<Key>;

#[derive(Clone, Debug)]
enum Key {
    Name(String),
    Index(usize),
}

/// One simplification.
#[derive(Debug)]
enum Step {
    /// Removes the value; its `share`, if it has one, goes to the first element that remains.
    Remove(Path),
    /// Replaces a law of several words by a constant of its first quantity.
    Constant(Path),
}

/// Steps for `value` at `path`, those that remove most first.
fn steps(value: &Value, path: &[Key]) -> Vec<Step> {
    let inner = |key: Key| [path, &[key]].concat();
    let mut steps = Vec::new();
    match value {
        Value::Table(table) => {
            steps.extend(table.keys().map(|name| Step::Remove(inner(Key::Name(name.clone())))));
            for (name, value) in table {
                steps.extend(self::steps(value, &inner(Key::Name(name.clone()))));
            }
        }
        Value::Array(all) => {
            steps.extend((0..all.len()).map(|index| Step::Remove(inner(Key::Index(index)))));
            for (index, value) in all.iter().enumerate() {
                steps.extend(self::steps(value, &inner(Key::Index(index))));
            }
        }
        Value::String(text) if text.split(' ').count() > 1 => steps.push(Step::Constant(path.to_vec())),
        _ => {}
    }
    steps
}

impl Step {
    fn apply(&self, root: &mut Value) {
        match self {
            Self::Remove(path) => {
                let (last, parents) = path.split_last().expect("the root is not removed");
                match (get(root, parents), last) {
                    (Some(Value::Table(table)), Key::Name(name)) => drop(table.remove(name)),
                    (Some(Value::Array(all)), Key::Index(index)) if all.len() > 1 => {
                        let removed = all.remove(*index);
                        if let (Some(share), Some(first)) = (share(&removed), share(&all[0]))
                            && let Value::Table(table) = &mut all[0]
                        {
                            table.insert("share".to_owned(), Value::Float(first + share));
                        }
                    }
                    _ => {}
                }
            }
            Self::Constant(path) => {
                if let Some(Value::String(text)) = get(root, path)
                    && let Some(quantity) = text.split(' ').nth(1)
                {
                    *text = quantity.to_owned();
                }
            }
        }
    }
}

fn share(value: &Value) -> Option<f64> {
    value.get("share").and_then(Value::as_float)
}

fn get<'a>(root: &'a mut Value, path: &[Key]) -> Option<&'a mut Value> {
    path.iter().try_fold(root, |value, key| match key {
        Key::Name(name) => value.get_mut(name),
        Key::Index(index) => value.get_mut(*index),
    })
}

#[cfg(test)]
mod tests {
    use super::shrink;

    #[test]
    fn a_case_keeps_only_what_makes_it_fail() {
        let text = r#"
            seed = 3
            slos = [{ name = "a", share = 0.25 }, { name = "b", share = 0.25, slo = "9us" }, { share = 0.5 }]
            stages = [{ service = "pareto 2us 9us 1.1" }, { service = "exp 5us", hop = "exp 1us" }]
        "#;
        // Fails as long as a deadline and a Pareto law are there; all shares must make 1.
        let fails = |text: &str| {
            let case: toml::Table = text.parse().unwrap();
            let shares = case
                .get("slos")
                .and_then(|slos| slos.as_array())
                .unwrap_or(&vec![])
                .iter()
                .fold(0.0, |sum, slo| sum + slo.get("share").and_then(toml::Value::as_float).unwrap_or(0.0));
            (shares - 1.0).abs() < 1e-9 && text.contains("9us\"") && text.contains("pareto")
        };
        let small: toml::Table = shrink(text, fails).parse().unwrap();
        let expected = r#"
            slos = [{ share = 1.0, slo = "9us" }]
            stages = [{ service = "pareto 2us 9us 1.1" }]
        "#;
        assert_eq!(small, expected.parse::<toml::Table>().unwrap());
    }

    #[test]
    fn text_that_is_no_toml_stays() {
        assert_eq!(shrink("= [", |_| true), "= [");
    }
}
