//! An axum application in which payments overtake reports.
//!
//! `cargo run -p examples --bin axum_app`, then `curl http://10.77.0.2/pay`.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use classify::{TransportClassifier, Verdict};
use net::stack::ListenOptions;
use queueing::{Label, Priority, Span};
use runtime::task::{label, serve, set_label, sleep};

/// Runs at level 0, because the classifier gives its request that level.
async fn pay() -> String {
    format!("paid at level {}\n", label().priority)
}

/// Waits for a database, say; what comes after that is not urgent at all.
async fn report() -> String {
    sleep(Span::from_millis(5)).await;
    set_label(Label::new(Priority::LOWEST));
    format!("a report, at level {}\n", label().priority)
}

fn main() -> Result<(), Box<dyn Error>> {
    let classifier: TransportClassifier =
        Arc::new(|flow| Verdict::Level(if flow.payload.starts_with(b"GET /pay") { 0 } else { 4 }));
    examples::run(classifier, |shard| {
        let listener = shard.handle().listen(80, ListenOptions::default()).expect("nobody else listens");
        shard.spawn(async {
            let app = Router::new().route("/pay", get(pay)).route("/report", get(report));
            serve(listener, app).await
        });
    })
}
