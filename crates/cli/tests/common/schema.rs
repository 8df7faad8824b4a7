//! Validation of results by `spec/result.schema.json`.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let text = include_str!("../../../../spec/result.schema.json");
    let schema: Value = serde_json::from_str(text).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is one")
});

/// Violations of the schema in `result`, line by line.
pub fn refused(result: &Value) -> Vec<String> {
    SCHEMA.iter_errors(result).map(|e| format!("{}: {e}", e.instance_path())).collect()
}

/// Checks that `result` conforms to the schema.
#[track_caller]
pub fn conforms(result: &Value) {
    let errors = refused(result);
    assert!(errors.is_empty(), "{:.2000}", errors.join("\n"));
}
