//! Causes against the test vectors shared with the Java implementation.

use deadline::{Cause, Reason};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../spec/deadline/causes.json")).expect("the vectors are JSON")
}

fn named(name: &Value) -> Option<Cause> {
    let name = name.as_str()?;
    Some(Cause::ALL.into_iter().find(|cause| cause.name() == name).unwrap_or_else(|| panic!("{name}")))
}

//~ deadlines: causes have one name, status, code and text in Rust and Java, by one file of vectors
#[test]
fn causes_follow_the_vectors() {
    let vectors = vectors();
    assert_eq!(vectors["field"], Cause::HEADER);
    let listed: Vec<Cause> =
        vectors["causes"].as_array().expect("a list").iter().filter_map(|row| named(&row["name"])).collect();
    assert_eq!(listed, Cause::ALL, "all, in one order");
    for (row, cause) in vectors["causes"].as_array().expect("a list").iter().zip(listed) {
        assert_eq!(row["http"], cause.http_status(), "{cause:?}");
        assert_eq!(row["grpc"], cause.grpc_code(), "{cause:?}");
        assert_eq!(row["refusal"], cause.is_refusal(), "{cause:?}");
        assert_eq!(row["text"], cause.to_string(), "{cause:?}");
        assert_eq!(named(&row["downstream"]), Some(cause.seen_from_downstream()), "{cause:?}");
        assert_eq!(Cause::parse(cause.name()), Some(cause));
        // A peer without the field is not read as one that refused.
        let statuses = [Cause::of_http_status(cause.http_status()), Cause::of_grpc_code(cause.grpc_code())];
        assert!(statuses.into_iter().flatten().all(|read| !read.is_refusal()), "{cause:?}");
    }
    for vector in vectors["read"].as_array().expect("a list") {
        assert_eq!(
            Cause::parse(vector["text"].as_str().expect("a text")),
            named(&vector["cause"]),
            "{vector}"
        );
    }
    for (statuses, read) in
        [("http", Cause::of_http_status as fn(u16) -> Option<Cause>), ("grpc", Cause::of_grpc_code)]
    {
        for (status, cause) in vectors[statuses].as_object().expect("an object") {
            assert_eq!(read(status.parse().expect("a number")), named(cause), "{statuses} {status}");
        }
    }
}

#[test]
fn what_the_queue_refuses_is_a_refusal() {
    for reason in [Reason::Expired, Reason::Infeasible, Reason::Full] {
        assert!(Cause::from(reason).is_refusal());
        assert_eq!(reason.to_string(), Cause::from(reason).to_string());
    }
}
