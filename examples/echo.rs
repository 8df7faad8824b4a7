//! An echo server, with the I/O traits of any tokio program.
//!
//! `cargo run -p examples --bin echo`, then `nc 10.77.0.2 7`.

use std::error::Error;
use std::sync::Arc;

use classify::Verdict;
use net::stack::ListenOptions;
use runtime::task::spawn;
use tokio::io::{AsyncWriteExt, copy, split};

fn main() -> Result<(), Box<dyn Error>> {
    // All connections have the same level.
    examples::run(Arc::new(|_| Verdict::NoVerdict), |shard| {
        let mut listener = shard.handle().listen(7, ListenOptions::default()).expect("a free port");
        shard.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await;
                spawn(async move {
                    let (mut reader, mut writer) = split(stream);
                    copy(&mut reader, &mut writer).await?;
                    writer.shutdown().await
                });
            }
        });
    })
}
