//! Labels of a figure: pairs of name and value, in a fixed order.
//!
//! In JSON an object, in Prometheus' text `{class="0",stage="nic"}`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An ordered set of labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Vec<(String, String)>);

impl Labels {
    /// No labels.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds a label.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.0.push((name.to_owned(), value.to_string()));
        self
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    /// All pairs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The values as text: `eth0, 7, rate`.
    pub fn words(&self) -> String {
        self.iter().map(|(_, value)| value).collect::<Vec<_>>().join(", ")
    }
}

/// Prometheus' notation; empty without labels.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(f, "{}{name}=\"{value}\"", if index == 0 { '{' } else { ',' })?;
        }
        if self.0.is_empty() { Ok(()) } else { f.write_str("}") }
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pairs = BTreeMap::<String, String>::deserialize(deserializer)?;
        Ok(Self(pairs.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_end_its_quotes() {
        let labels = Labels::none().with("task", "a\"b\\c\nd").with("class", "LC");
        assert_eq!(labels.to_string(), r#"{task="a\"b\\c\nd",class="LC"}"#);
        assert_eq!(Labels::none().to_string(), "");
    }

    #[test]
    fn labels_are_an_object_in_json() {
        let labels = Labels::none().with("class", 0).with("stage", "nic");
        let text = serde_json::to_string(&labels).expect("JSON");
        assert_eq!(text, r#"{"class":"0","stage":"nic"}"#);
        assert_eq!(serde_json::from_str::<Labels>(&text).expect("labels"), labels);
    }
}
