//! `testbed partitions COUNT`: partitions over HTTP and a Redis server, for runners in other
//! languages.
//!
//! `GET /search?partition=P&query=N` returns the number of documents found. Prints the
//! addresses of both, `search=URL` and `redis=ADDRESS`, once they serve; a runner takes them as
//! arguments. Ends at the end of stdin.

use std::io::Read;

use axum::Router;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::routing::get;

use super::{IndexSet, Redis};
use crate::Error;

/// Arguments: `COUNT [CORPUS RECORD]`.
///
/// # Errors
/// If COUNT is invalid, the index cannot be built, no port is free, or `redis-server` is missing.
pub fn command(mut arguments: impl Iterator<Item = String>) -> Result<(), Error> {
    let count = arguments.next().unwrap_or_default();
    let count = count.parse().ok().filter(|count| (1..=1_000).contains(count));
    let count: usize = count
        .ok_or_else(|| Error::new("the number of partitions is not 1..=1000", "testbed partitions 18"))?;
    let index_set = IndexSet::open(arguments, count)?;
    let failed = |e: std::io::Error| Error::new(format!("server: {e}"), "ulimit -n, ss -ltn");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0))).map_err(failed)?;
    let redis = runtime.block_on(Redis::start())?;
    println!("search=http://{}/search\nredis={}", listener.local_addr().map_err(failed)?, redis.address());
    runtime.spawn(axum::serve(listener, router(index_set)).into_future());
    // The parent closes stdin, at the latest when it exits.
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    drop(redis);
    runtime.shutdown_background();
    Ok(())
}

/// HTTP service.
pub fn router(index_set: IndexSet) -> Router {
    let search = async move |RawQuery(query): RawQuery| {
        let bad = |cause: String| (StatusCode::BAD_REQUEST, cause + "\n");
        let (partition, number) = parse_query(&query.unwrap_or_default()).map_err(bad)?;
        let hits = tokio::task::spawn_blocking(move || index_set.search(partition, number)).await;
        let hits = hits.map_err(|e| bad(e.to_string()))?.map_err(bad)?;
        Ok::<_, (StatusCode, String)>(format!("{}\n", hits.count))
    };
    Router::new().route("/search", get(search))
}

/// Parses `partition=P&query=N`, in any order.
fn parse_query(text: &str) -> Result<(usize, usize), String> {
    let value = |name: &str| {
        let found = text.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        found.and_then(|number| number.parse().ok()).ok_or(format!("{text:?}: no whole number {name}=N"))
    };
    Ok((value("partition")?, value("query")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_request_holds_word_numbers() {
        assert_eq!(parse_query("partition=3&query=17"), Ok((3, 17)));
        assert_eq!(parse_query("query=17&partition=3"), Ok((3, 17)));
        for bad in ["", "partition=3", "partition=x&query=1", "partition=-1&query=1"] {
            assert!(parse_query(bad).unwrap_err().contains("whole number"), "{bad}");
        }
    }
}
