//! State shared by a task and its connection's classifier.

//~ mechanisms: M3, M5: a handler gives its connection a classifier and memory

use std::sync::Arc;

use axum::routing::get;
use axum::{Extension, Router};
use classify::{AppMemory, TransportClassifier, Verdict};
use queueing::Priority;
use runtime::task::{FlowHandle, TcpListener, TcpStream, label, serve_each};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world::{PORT, World, address, level};

/// Classifier whose level is the attached memory's, plus one per request counted in the shared
/// bytes.
fn counting() -> TransportClassifier {
    Arc::new(|flow| {
        let first = flow.app.and_then(|memory| memory.downcast_ref::<Priority>());
        flow.private[20] += 1;
        first.map_or(Verdict::NoVerdict, |first| Verdict::Level(first.level() + flow.private[20]))
    })
}

/// Sends each of `parts` separately; returns the answer to the last.
async fn send(parts: &'static [&'static str]) -> String {
    let mut stream = TcpStream::connect(address()).await.expect("a server");
    let mut answer = [0; 512];
    let mut len = 0;
    for part in parts {
        stream.write_all(part.as_bytes()).await.expect("room");
        len = stream.read(&mut answer).await.expect("an answer");
    }
    String::from_utf8_lossy(&answer[..len]).into_owned()
}

#[test]
fn a_task_gives_its_connection_a_classifier_and_both_share_memory_and_bytes() {
    let mut world = World::new();
    let seen = world.server.spawn(async {
        let (mut stream, _) = TcpListener::bind(PORT).expect("a free port").accept().await;
        // Bytes that arrive with the handshake are classified before the connection is accepted.
        let _ = stream.read(&mut [0; 64]).await.expect("a request");
        let flow = stream.flow();
        let memory: AppMemory = Arc::new(level(2));
        let kept = Arc::downgrade(&memory);
        flow.set_classifier(Some(counting()));
        flow.attach(Some(memory));
        stream.write_all(b"heard").await.expect("room");
        let mut seen = Vec::new();
        for turn in 0..4 {
            let _ = stream.read(&mut [0; 64]).await.expect("a request");
            seen.push((label().priority.level(), flow.private().expect("it is open")[20]));
            match turn {
                // The count restarts from the value found.
                1 => assert!(flow.update(|private| private[20] -= 2)),
                2 => flow.set_classifier(None),
                _ => {}
            }
            stream.write_all(b"heard").await.expect("room");
        }
        assert!(flow.state().expect("it is open").srtt.is_some());
        assert!(kept.upgrade().is_some());
        flow.attach(None);
        assert!(kept.upgrade().is_none());
        seen
    });
    world.client.spawn(send(&["5 first", "7 a", "7 b", "7 c", "6 d"]));
    assert_eq!(world.finish(&seen), [(3, 1), (4, 2), (3, 1), (6, 1)]);
}

#[test]
fn a_flow_of_a_closed_connection_returns_none() {
    let mut world = World::new();
    let seen = world.server.spawn(async {
        let mut listener = TcpListener::bind(PORT).expect("a free port");
        let (stream, _) = listener.accept().await;
        let flow = stream.flow();
        drop(stream);
        let memory: AppMemory = Arc::new(());
        let kept = Arc::downgrade(&memory);
        flow.attach(Some(memory));
        flow.set_classifier(Some(counting()));
        (flow.private(), flow.update(|_| ()), flow.state().is_none(), kept.upgrade().is_none())
    });
    world.client.spawn(async {
        drop(TcpStream::connect(address()).await.expect("a server"));
    });
    assert_eq!(world.finish(&seen), (None, false, true, true));
}

#[test]
fn a_handler_of_axum_knows_the_connection_of_its_request() {
    let mut world = World::new();
    world.server.spawn(async {
        let handler = |flow: Extension<FlowHandle>| async move {
            flow.set_classifier(Some(Arc::new(|_| Verdict::Level(1))));
            "joined"
        };
        let app = Router::new()
            .route("/join", get(handler))
            .route("/level", get(|| async { format!("level {}", label().priority) }));
        let listener = TcpListener::bind(PORT).expect("a free port");
        serve_each(listener, move |stream| app.clone().layer(Extension(stream.flow()))).await
    });
    const LEVEL: &str = "GET /level HTTP/1.1\r\nhost: greenwave\r\n\r\n";
    let guest = world.client.spawn(send(&[LEVEL]));
    let member = world.client.spawn(send(&["GET /join HTTP/1.1\r\nhost: greenwave\r\n\r\n", LEVEL]));
    let [guest, member] = [guest, member].map(|asked| world.finish(&asked));
    assert!(guest.ends_with("level 7"), "{guest}");
    assert!(member.ends_with("level 1"), "{member}");
}
