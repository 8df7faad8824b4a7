//! The field `Priority` against the test vectors shared with other languages.

use proptest::prelude::{any, prop, proptest};
use queueing::Priority;
use queueing::priority_field::{DEFAULT, LEN_MAX, TABLE, Trust, accept, read, write};
use serde_json::Value;

const VECTORS: &str = include_str!("../../../spec/label/priority.json");

fn vectors(name: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(VECTORS).expect("the vectors are JSON");
    all[name].as_array().expect("a list of vectors").clone()
}

fn level(value: &Value) -> Option<Priority> {
    let level = u8::try_from(value.as_u64()?).expect("a level");
    Some(Priority::new(level).expect("a level"))
}

//~ classifiers: levels are read from and written to the field Priority (RFC 9218) as the shared vectors have them
#[test]
fn fields_are_read_and_written_as_the_vectors_have_them() {
    for vector in vectors("read") {
        let lines = vector["lines"].as_array().expect("lines").iter();
        let lines: Vec<&[u8]> = lines.map(|line| line.as_str().expect("a text").as_bytes()).collect();
        assert_eq!(read(lines), level(&vector["level"]), "{vector}");
    }
    let rows = vectors("write");
    assert_eq!(rows.len(), Priority::LEVELS);
    for vector in rows {
        let level = level(&vector["level"]).expect("a level");
        assert_eq!(write(level), vector["text"].as_str().expect("a text"));
        assert_eq!(u64::from(TABLE[level.index()].dscp), vector["dscp"].as_u64().expect("a DSCP"));
        assert_eq!(read([write(level).as_bytes()]), Some(level), "what is written reads as it was");
    }
}

//~ classifiers: a client's field Priority can only lower its request; a trusted peer's sets the level
#[test]
fn trust_is_as_the_vectors_have_it() {
    for vector in vectors("accept") {
        let trust = if vector["trusted"] == true { Trust::Peer } else { Trust::Client };
        let own = level(&vector["own"]).expect("a level");
        assert_eq!(Some(accept(trust, own, level(&vector["asked"]))), level(&vector["level"]), "{vector}");
    }
}

#[test]
fn the_guide_has_the_table() {
    let guide = include_str!("../../../docs/guide/policies.md");
    let rows: Vec<&str> =
        guide.lines().skip_while(|line| !line.starts_with("| level | `Priority`")).skip(2).collect();
    for (level, row) in Priority::all().zip(&rows) {
        let expected = format!("| {level} | `{}` | {} |", write(level), TABLE[level.index()].dscp);
        assert_eq!(*row, expected);
    }
}

#[test]
fn a_megabyte_is_not_read() {
    for unit in ["(", "u=1,", "9", "\"", "u=0, "] {
        let text = unit.repeat(1_000_000 / unit.len());
        assert_eq!(read([text.as_bytes()]), Some(DEFAULT));
        assert_eq!(read([&b"u=0"[..], text.as_bytes()]), Some(DEFAULT));
        assert_eq!(read(std::iter::repeat_n(unit.as_bytes(), 1_000_000)), Some(DEFAULT));
    }
    let longest = format!("u=5, x=\"{}\"", " ".repeat(LEN_MAX - 9));
    assert_eq!((longest.len(), read([longest.as_bytes()])), (LEN_MAX, Priority::new(5)));
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..4)) {
        assert!(read(lines.iter().map(Vec::as_slice)).is_some());
    }
}
