//! Fuzz target of the budget formats without a fuzzer, and the corpus shared by all languages:
//! `spec/deadline/corpus.json` holds each seed and its expected result. `make fuzz` runs longer.
#![forbid(unsafe_code)]

#[path = "../../../net/tests/fuzz/corpus.rs"]
mod corpus;
mod texts;

use deadline::codec::{ParseError, envoy, field, grpc};
use serde_json::{Value, json};

#[test]
fn seeds_and_what_is_bred_from_them_break_nothing() {
    corpus::run("budgets", texts::budgets, 20_000);
}

/// Corpus entry of `text`: parse result or error, by format.
fn entry(text: &str) -> Value {
    let result = |read: Result<Value, ParseError>| match read {
        Ok(value) => value,
        Err(ParseError::Garbled) => "garbled".into(),
        Err(ParseError::Negative) => "negative".into(),
    };
    let written = |budget| json!({ "written": field::write(&budget) });
    json!({
        "text": text,
        "greenwave-budget": result(field::parse(text).map(written)),
        "grpc-timeout": result(grpc::parse(text).map(|left| json!({ "ns": left.as_nanos() }))),
        "x-envoy-expected-rq-timeout-ms": result(envoy::parse(text).map(|left| json!({ "ns": left.as_nanos() }))),
    })
}

//~ fuzzing: budgets as text are read alike in Rust and Java, from one corpus
#[test]
fn the_corpus_of_all_languages_has_every_seed_and_what_is_read_of_it() {
    let text = include_str!("../../../../spec/deadline/corpus.json");
    let corpus: Value = serde_json::from_str(text).expect("the corpus is JSON");
    let listed = corpus["texts"].as_array().expect("texts");
    for listed in listed {
        assert_eq!(entry(listed["text"].as_str().expect("a text")), *listed);
    }
    let seeds = corpus::seeds("budgets");
    for seed in seeds.iter().filter_map(|seed| std::str::from_utf8(seed).ok()) {
        let known = listed.iter().any(|listed| listed["text"] == seed);
        assert!(known, "spec/deadline/corpus.json lacks\n    {},", entry(seed));
    }
}
