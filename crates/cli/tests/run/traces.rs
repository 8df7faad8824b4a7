//! Slow requests of unmodified programs, read as a collector would.

//~ views: requests of an unmodified server become traces with stages

use std::net::TcpListener;

use serde_json::Value;

use super::servers::lighttpd;
use super::*;

//~ cli: `run --traces` writes stages that add up
#[test]
fn requests_of_an_unmodified_server_are_written_with_stages_that_add_up() {
    let test = "requests_of_an_unmodified_server_are_written_with_stages_that_add_up";
    let Some(world) = World::new(test, "lighttpd") else { return };
    let (mut config, file) = (String::new(), format!("{}/slow.jsonl", world.folder()));
    let options = ["--traces", &file, "--slower-than", "1ns"];
    let server = world.start("packet:gw0", 80, &options, &lighttpd(&world, &mut config));
    world.until("it takes connections", || world.clients.enter(|| TcpStream::connect(server.to).is_ok()));
    world.connections_are_kept(&server);
    assert_eq!(world.get(&server, "/small?card=secret"), b"hello\n");
    let output = server.stop();
    assert!(output.contains("traces: 3 slow requests in "), "{output}");

    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("secret"), "{text}");
    for line in text.lines() {
        let spans = spans(line);
        let (root, stages) = spans.split_first().expect("spans");
        assert_eq!(stages.iter().map(length).sum::<u64>(), length(root), "{root}");
        assert!(root["name"] == "GET" && root.to_string().contains("\"/small\""), "{root}");
        assert!(length(&stages[3]) > 0, "a program takes its time: {root}");
    }
}

//~ views: requests that a program sends become client spans that name the server
#[test]
fn requests_of_an_unmodified_client_are_written_as_its_own() {
    let Some(world) = World::new("requests_of_an_unmodified_client_are_written_as_its_own", "curl") else {
        return;
    };
    let listener = world.clients.enter(|| TcpListener::bind((PEER, 8080)).unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes").unwrap();
    });
    let file = format!("{}/calls.jsonl", world.folder());
    let url = format!("http://{PEER}:8080/pay?card=secret");
    let curl = ["curl", "--silent", "--show-error", "--fail", "--max-time", "30", &url];
    let (printed, stderr) =
        world.client_with(&["--traces", &file, "--slower-than", "1ns"], "packet:gw0", &curl);
    server.join().unwrap();
    assert_eq!(printed, "yes", "{stderr}");
    assert!(stderr.contains("traces: 1 slow requests in "), "{stderr}");
    let text = std::fs::read_to_string(&file).unwrap();
    let spans = spans(&text);
    let (root, stages) = spans.split_first().expect("spans");
    assert_eq!((&root["name"], &root["kind"]), (&"GET".into(), &3.into()), "a client's");
    let whole_text = root.to_string();
    assert!(whole_text.contains("\"/pay\"") && whole_text.contains(PEER), "{root}");
    assert!(!text.contains("secret"), "{text}");
    let names: Vec<_> = stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["transmit", "service", "nic", "tcp", "event"]);
    assert_eq!(stages.iter().map(length).sum::<u64>(), length(root), "{root}");
    assert!(length(&stages[1]) > 0, "the way there and back takes its time: {root}");
}

/// The spans of `line`, which belong to one request.
fn spans(line: &str) -> Vec<Value> {
    let line: Value = serde_json::from_str(line).expect("a line is JSON");
    let service = &line["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"];
    assert_eq!(service, "greenwave run");
    line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
}

fn length(span: &Value) -> u64 {
    let ns = |at: &str| span[at].as_str().and_then(|text| text.parse::<u64>().ok()).expect(at);
    ns("endTimeUnixNano") - ns("startTimeUnixNano")
}
