//! Runner `testbed search` over a small generated corpus, and the same partitions over HTTP.

//~ d2p: a search fans out to real workers: index, Redis, partial answers (`make test-search`)

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

const PARTS: usize = 3;
const REQUESTS: usize = 30;

fn redis_is_there(test: &str) -> bool {
    let available = Command::new("redis-server").arg("--version").output().is_ok();
    if !available {
        println!("skipped: {test}: no redis-server; apt-get install redis-server");
    }
    available
}

/// Output for requests 1 ms apart that take 2 ms at each part and 8 ms at the last; `None`
/// without Redis.
fn run(order: &str, shedding: &str, partial: bool, slo_ms: u64) -> Option<String> {
    if !redis_is_there("testbed search") {
        return None;
    }
    let setup = format!(
        r#"{{"order":"{order}","shedding":"{shedding}","age_max_ns":1000000000,"capacity":1000,"stages":[{{"name":"W","threads":1,"parts":{PARTS},"reserve_ns":1000000,"partial":{partial}}},{{"name":"R","threads":1,"parts":1,"reserve_ns":0,"partial":false}}],"slos":[{{"name":"all","slo_ns":{}}}]}}"#,
        slo_ms * 1_000_000
    );
    let line = |n: usize| format!("{},0,2000000,2000000,8000000,100000,{}\n", n * 1_000_000, n % 5);
    let plan: String = (0..REQUESTS).map(line).collect();
    let mut runner = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .arg("search")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the runner starts");
    let input = format!("{setup}\n{plan}");
    runner.stdin.take().expect("piped").write_all(input.as_bytes()).expect("it listens");
    let output = runner.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{order} {shedding}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// Lines of `text` that begin with `word`, split at commas.
fn lines<'a>(text: &'a str, word: &str) -> Vec<Vec<&'a str>> {
    text.lines().map(|line| line.split(',').collect::<Vec<_>>()).filter(|words| words[0] == word).collect()
}

#[test]
fn without_shedding_every_part_is_served_and_every_answer_whole() {
    let Some(text) = run("pace", "none", false, 50) else { return };
    assert_eq!(text.lines().next(), Some("ready"));
    let ends = lines(&text, "end");
    assert_eq!(ends.len(), REQUESTS);
    assert!(ends.iter().all(|end| end[2] == "answered" && end[4..] == ["3", "3"]), "{text}");
    let served = lines(&text, "stage");
    assert_eq!(served.len(), REQUESTS * (PARTS + 1));
    for stage in served.iter().filter(|stage| stage[2] == "0" && stage[3] == "2") {
        assert!(stage[7].parse::<u64>().expect("ns") >= 8_000_000, "{stage:?}");
    }
}

#[test]
fn a_partial_answer_is_in_time_where_a_whole_one_is_late() {
    // The third worker has 240 ms of work for requests with a budget of 50 ms.
    let Some(text) = run("edf", "infeasible", true, 50) else { return };
    let ends = lines(&text, "end");
    assert_eq!(ends.len(), REQUESTS);
    let answered: Vec<_> = ends.iter().filter(|end| end[2] == "answered").collect();
    assert!(answered.len() > REQUESTS / 2, "{text}");
    assert!(answered.iter().any(|end| end[4] == "2"), "the third worker is left out: {text}");
}

#[test]
fn a_part_that_is_dropped_fails_the_request_that_needs_all() {
    let Some(text) = run("edf", "infeasible", false, 50) else { return };
    let ends = lines(&text, "end");
    assert_eq!(ends.len(), REQUESTS);
    assert!(ends.iter().any(|end| end[2] == "failed"), "{text}");
    assert!(ends.iter().all(|end| end[2] == "failed" || end[4] == "3"), "{text}");
}

#[test]
fn partitions_are_searched_over_http_next_to_redis() {
    if !redis_is_there("testbed partitions") {
        return;
    }
    let mut server = Command::new(env!("CARGO_BIN_EXE_testbed"))
        .args(["partitions", "2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines_out = BufReader::new(server.stdout.take().expect("piped")).lines();
    let mut address_of = |what: &str| {
        let line = lines_out.next().expect("it says where").expect("a line");
        line.strip_prefix(what).expect("what it serves").to_owned()
    };
    let address = address_of("search=http://").strip_suffix("/search").expect("a path").to_owned();
    let redis = address_of("redis=");
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let found = get("/search?partition=1&query=3");
    assert!(found.starts_with("HTTP/1.1 200"), "{found}");
    assert!(found.trim().lines().last().is_some_and(|count| count.parse::<u64>().is_ok()), "{found}");
    for bad in ["/search?partition=2&query=3", "/search?query=3"] {
        assert!(get(bad).starts_with("HTTP/1.1 400"), "{bad}");
    }
    let ping = |stream: &mut TcpStream| {
        stream.write_all(b"PING\r\n").and_then(|()| stream.read_exact(&mut [0; 7])).is_ok()
    };
    assert!(TcpStream::connect(&redis).is_ok_and(|mut stream| ping(&mut stream)));
    drop(server.stdin.take());
    assert!(server.wait().expect("it ends with stdin").success());
    assert!(TcpStream::connect(&redis).is_err(), "and Redis with it");
}
