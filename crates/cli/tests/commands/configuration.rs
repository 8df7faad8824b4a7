//! One file for all commands: what they get from it, and what is refused.

use std::process::Output;

use serde_json::{Value, json};

use super::{Scratch, greenwave};

fn says(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Lines without the blanks that align them.
fn lines(out: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

const ALL: &str = "\
[serve]
device = \"tap:gw0\"
addr = [\"10.77.0.2/24\", \"fd00::2/64\"]
proto = \"udp\"
workers = 1_0
pin = false
json = true

[guard.attach]
port = [80, 443]

[report]
out = \"no/such/folder/page.html\"

[sched]
config = \"no/such/tasks.toml\"
";

#[test]
fn one_file_is_for_all_commands_and_the_command_line_goes_before_it() {
    let file = Scratch::new("all.toml", ALL);
    let run = |more: &[&str]| greenwave(&[&["--config", file.path()], more].concat());
    // From the file alone: datagrams, of what answers connections.
    assert!(says(&run(&["serve"])).starts_with("error: http is for connections, and --proto udp has none"));
    // A worker that there is not, of ten.
    for tcp in [&["--proto=tcp"][..], &["--proto", "tcp"]] {
        let said = says(&run(&[&["serve", "--steer", "high=11"], tcp].concat()));
        assert!(said.starts_with("error: ") && said.contains("11") && !said.contains("udp"), "{said}");
    }
    let with_equals = format!("--config={}", file.path());
    assert!(says(&greenwave(&[&with_equals, "sched"])).starts_with("error: no/such/tasks.toml: "));
    assert!(says(&run(&["sched", "--config", "no/other.toml"])).starts_with("error: no/other.toml: "));
    assert_eq!(run(&["sched", "example"]).status.code(), Some(0), "another command has another section");
    // The short form of a flag is the same flag.
    let said = says(&run(&["report", "-o", "no/other.html", file.path()]));
    assert!(said.starts_with("error: ") && !said.contains("multiple times"), "{said}");
    let out = run(&["check", "no/such/file.toml"]);
    assert!(says(&out).starts_with("error: no/such/file.toml: "), "{}", says(&out));
}

#[test]
fn check_says_what_each_command_gets() {
    let part = Scratch::new("all-part.toml", "[top]\nonce = true\n");
    let name = std::path::Path::new(part.path()).file_name().unwrap().to_string_lossy().into_owned();
    let file = Scratch::new("all-check.toml", &format!("include = [\"{name}\"]\n{ALL}"));
    let out = greenwave(&["check", file.path()]);
    let shown = lines(&out);
    for line in [
        "command flag value",
        "serve --addr 10.77.0.2/24, fd00::2/64",
        "serve --workers 10",
        "serve --pin false",
        "serve --json true",
        "guard attach --port 80, 443",
        "top --once true",
    ] {
        assert!(shown.iter().any(|shown| shown == line), "{line:?} is not in {shown:?}, {}", says(&out));
    }
    let out = greenwave(&["check", "--json", file.path()]);
    let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!(json["commands"]["guard attach"]["port"], json!(["80", "443"]));
    assert_eq!(json["commands"]["serve"]["pin"], json!(["false"]));
}

#[test]
fn what_is_wrong_is_refused_with_its_line_before_anything_runs() {
    let check = |name: &str, text: &str, expected: &str| {
        let file = Scratch::new(&format!("all-{name}.toml"), text);
        for out in [greenwave(&["--config", file.path(), "serve"]), greenwave(&["check", file.path()])] {
            let (said, begin) = (says(&out), format!("error: {}:{expected}", file.path()));
            assert_eq!(out.status.code(), Some(2), "{said}");
            assert!(said.starts_with(&begin), "{begin:?} does not begin {said:?}");
            assert!(said.lines().count() == 2 && said.contains("\n  try: "), "{said}");
        }
    };
    check("key", "[serve]\nport = 80\nprot = 8\n", "3: unknown key `prot` in [serve]; valid: device, addr, ");
    check(
        "section",
        "[serve]\n[guard.atach]\n",
        "2: unknown key `atach` in [guard]; valid: [attach], [status], ",
    );
    check("loose", "port = 80\n[serve]\n", "1: unknown key `port` in the file; valid: [demo], [serve], ");
    check("switch", "[serve]\n\npin = \"yes\"\n", "3: pin is not true or false");
    check("list", "[serve]\nport = [80, 81]\n", "2: port is not a text or a number");
    check("value", "[serve]\nworkers = 1\nport = 99999\n", "3: invalid value '99999' for '--port");
    // Whoever reads it first.
    let twice = Scratch::new("all-twice.toml", "[serve]\nport = 80\nport = 81\n");
    for out in [greenwave(&["--config", twice.path(), "serve"]), greenwave(&["check", twice.path()])] {
        assert!(
            says(&out).starts_with(&format!("error: {}:3: duplicate key", twice.path())),
            "{}",
            says(&out)
        );
    }
    let out = greenwave(&["--config", "no/such.toml", "serve"]);
    assert!(says(&out).starts_with("error: no/such.toml: No such file"), "{}", says(&out));
}
