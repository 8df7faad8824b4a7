//! Slow requests of an unmodified server, as a collector would read them.

use serde_json::Value;

use super::servers::lighttpd;
use super::*;

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
    let said = server.stop();
    assert!(said.contains("traces: 3 slow requests in "), "{said}");

    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("secret"), "{text}");
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        let service = &line["resourceSpans"][0]["resource"]["attributes"][0]["value"]["stringValue"];
        assert_eq!(service, "greenwave run");
        let spans = line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
        let (whole, stages) = spans.split_first().expect("spans");
        let ns =
            |span: &Value, at: &str| span[at].as_str().and_then(|text| text.parse::<u64>().ok()).expect(at);
        let length = |span: &Value| ns(span, "endTimeUnixNano") - ns(span, "startTimeUnixNano");
        assert_eq!(stages.iter().map(length).sum::<u64>(), length(whole), "{whole}");
        assert!(whole["name"] == "GET" && whole.to_string().contains("\"/small\""), "{whole}");
        assert!(length(&stages[3]) > 0, "a program takes its time: {whole}");
    }
}
