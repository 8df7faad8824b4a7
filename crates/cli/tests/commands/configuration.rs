//! One file for all commands: the resulting arguments, and refused files.

//~ operations: one configuration file serves all commands; the command line wins; errors name the line

use std::process::Output;

use serde_json::{Value, json};

use super::{Scratch, greenwave};

fn says(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Lines without alignment blanks.
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
    // From the file alone: UDP for a server of connections.
    assert!(says(&run(&["serve"])).starts_with("error: --app http needs --proto tcp"));
    // A worker beyond the ten that exist.
    for tcp in [&["--proto=tcp"][..], &["--proto", "tcp"]] {
        let error = says(&run(&[&["serve", "--worker-affinity", "high=11"], tcp].concat()));
        assert!(error.starts_with("error: ") && error.contains("11") && !error.contains("udp"), "{error}");
    }
    let with_equals = format!("--config={}", file.path());
    assert!(says(&greenwave(&[&with_equals, "sched"])).starts_with("error: no/such/tasks.toml: "));
    assert!(says(&run(&["sched", "--config", "no/other.toml"])).starts_with("error: no/other.toml: "));
    assert_eq!(run(&["sched", "example"]).status.code(), Some(0), "another command has another section");
    // The short form of a flag is the same flag.
    let error = says(&run(&["report", "-o", "no/other.html", file.path()]));
    assert!(error.starts_with("error: ") && !error.contains("multiple times"), "{error}");
    let out = run(&["check", "no/such/file.toml"]);
    assert!(says(&out).starts_with("error: no/such/file.toml: "), "{}", says(&out));
}

//~ cli: `check` accepts policies, tasks and configuration files, and shows what each command gets
#[test]
fn check_says_what_each_command_gets() {
    let tasks =
        Scratch::new("all-tasks.toml", "[[tasks]]\nname = \"a\"\nclass = \"LC\"\ncommand = [\"true\"]\n");
    let all = ALL
        .replace("no/such/tasks.toml", tasks.path())
        .replace("true\n\n[guard", "true\napp = \"echo\"\n\n[guard");
    let part = Scratch::new("all-part.toml", "[top]\nonce = true\n");
    let name = std::path::Path::new(part.path()).file_name().unwrap().to_string_lossy().into_owned();
    let file = Scratch::new("all-check.toml", &format!("include = [\"{name}\"]\n{all}"));
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
            let (error, begin) = (says(&out), format!("error: {}:{expected}", file.path()));
            assert_eq!(out.status.code(), Some(2), "{error}");
            assert!(error.starts_with(&begin), "{begin:?} does not begin {error:?}");
            assert!(error.lines().count() == 2 && error.contains("\n  try: "), "{error}");
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
    let twice = Scratch::new("all-twice.toml", "[serve]\nport = 80\nport = 81\n");
    for out in [greenwave(&["--config", twice.path(), "serve"]), greenwave(&["check", twice.path()])] {
        assert!(
            says(&out).starts_with(&format!("error: {}:3: port is set twice", twice.path())),
            "{}",
            says(&out)
        );
    }
    let out = greenwave(&["--config", "no/such.toml", "serve"]);
    assert!(says(&out).starts_with("error: no/such.toml: No such file"), "{}", says(&out));
}

/// Checks that `check` and a start of the command refuse a file with the same words.
fn refused_alike(name: &str, section: &str, text: &str, start: &[&str], says: &str) {
    let file = Scratch::new(&format!("alike-{name}.toml"), &format!("[{section}]\n{text}\n"));
    let checked = greenwave(&["check", file.path()]);
    let started = greenwave(&[&["--config", file.path()], start].concat());
    let words = [says_of(&checked), says_of(&started)];
    assert_eq!(
        checked.status.code(),
        Some(2),
        "{section}: {text}: check passes it; the start says {words:?}"
    );
    assert!(words[1].contains(says), "{section}: {text}: {says:?} is not in {words:?}");
    assert_eq!((started.status.code(), &words[0]), (Some(2), &words[1]), "{section}: {text}");
}

fn says_of(out: &Output) -> String {
    says(out).lines().next().unwrap_or_default().to_owned()
}

//~ cli: `check` refuses what a start refuses, with the same words
#[test]
fn check_refuses_what_a_start_refuses_with_the_same_words() {
    let wrong = Scratch::new("alike-wrong-policy.toml", "[[rule]]\nname = \"a\"\npriority = 9\n");
    let wrong = wrong.path();
    let serve = "device = \"tap:gw9\"\naddr = \"10.77.0.2/24\"";
    let in_serve = [
        ("policy = \"no/such/policy.toml\"", "no/such/policy.toml: No such file"),
        (&*format!("policy = \"{wrong}\""), "priority 9 is outside 0..=7"),
        ("policy = \"/\"", "Is a directory"),
        ("user = \"no-such-user\"", "user \"no-such-user\" is neither"),
        ("user = \"1:x\"", "user \"1:x\" is neither"),
        ("guard = \"best\"", "--guard: "),
        ("guard = \"queue-delay\"\nproto = \"udp\"\napp = \"echo\"", "--guard needs --proto tcp"),
        ("proto = \"udp\"", "--app http needs --proto tcp"),
        ("dispatch = \"best\"", "dispatch "),
        ("worker-affinity = \"high=0\"", "--worker-affinity needs workers"),
        ("workers = 1\nworker-affinity = \"high=9\"", "9"),
        ("pcap = \"/no/such/folder/file\"", "/no/such/folder/file: No such file"),
        ("traces = \"/no/such/folder/file\"", "/no/such/folder/file: No such file"),
        ("ui = \"0.0.0.0:9900\"", "reachable from other machines"),
        ("port = 0", "invalid value '0'"),
        ("workers = 300", "invalid value '300'"),
        ("mode = \"best\"", "invalid value 'best'"),
        ("pcap-max = \"much\"", ":"),
        ("control = \"a b\"", "invalid value 'a b'"),
        ("prot = 1", "unknown key `prot`"),
    ];
    for (number, (text, says)) in in_serve.into_iter().enumerate() {
        refused_alike(&format!("serve-{number}"), "serve", &format!("{serve}\n{text}"), &["serve"], says);
    }
    let links = [
        ("device = \"tup:gw9\"\naddr = \"10.77.0.2/24\"", "device \"tup:gw9\" is not "),
        ("device = \"packet:da-none\"\naddr = \"10.77.0.2/24\"", "da-none"),
        ("device = \"xdp:da-none\"\naddr = \"10.77.0.2/24\"", "da-none"),
        ("device = \"pcap:/no/such.pcap\"\naddr = \"10.77.0.2/24\"", "/no/such.pcap: No such file"),
        ("device = \"tap:gw9\"\naddr = \"10.77.0.2\"", "invalid value '10.77.0.2'"),
        ("device = \"tap:gw9\"\naddr = \"10.77.0.2/24\"\nhost-addr = \"10.88.0.1\"", "10.88.0.1"),
        ("device = \"tap:gw9\"\naddr = \"10.77.0.2/24\"\ngateway = \"10.88.0.1\"", "10.88.0.1"),
    ];
    for (number, (text, says)) in links.into_iter().enumerate() {
        refused_alike(&format!("link-{number}"), "serve", text, &["serve"], says);
    }
    let guard = [
        ("policy = \"best\"", "best"),
        ("interval = \"1s\"", "interval 1.00 s is outside"),
        ("user = \"no-such-user\"", "user \"no-such-user\" is neither"),
        ("queue-report = \"/no/such/queue\"", "/no/such/queue"),
        ("class = \"port:81\"", "81"),
        ("ui = \"0.0.0.0:9900\"", "reachable from other machines"),
        ("target-delay = \"soon\"", "invalid value 'soon'"),
    ];
    for (number, (text, says)) in guard.into_iter().enumerate() {
        let text = format!("port = 80\n{text}");
        refused_alike(
            &format!("guard-{number}"),
            "guard.attach",
            &text,
            &["guard", "attach", "da-none"],
            says,
        );
    }
    let fabric = [
        ("policy = \"no/such/policy.toml\"", "no/such/policy.toml: No such file"),
        ("policy = \"best\"", "best"),
        ("rate = \"1bit\"", "rate"),
    ];
    for (number, (text, says)) in fabric.into_iter().enumerate() {
        let text =
            if text.starts_with("rate") { text.to_owned() } else { format!("rate = \"1gbit\"\n{text}") };
        refused_alike(
            &format!("fabric-{number}"),
            "fabric.attach",
            &text,
            &["egress", "attach", "da-none"],
            says,
        );
    }
    let load = [
        ("target = \"nowhere\"\nrate = 10", "target \"nowhere\""),
        ("target = \"127.0.0.1:1\"\nrate = -1", "-1"),
        ("target = \"127.0.0.1:1\"\nrate = 10\nurgent = 2", "urgent 2 is outside"),
        ("target = \"127.0.0.1:1\"\nrate = 10\nconnections = 0", "connections"),
    ];
    for (number, (text, says)) in load.into_iter().enumerate() {
        refused_alike(&format!("load-{number}"), "load", text, &["load"], says);
    }
    let demo = [
        ("out = \"/no/such/folder/page.html\"", "/no/such/folder/page.html: No such file"),
        ("burst = \"1/1s\"\nseconds = 1", "no burst"),
    ];
    for (number, (text, says)) in demo.into_iter().enumerate() {
        refused_alike(&format!("demo-{number}"), "demo", text, &["demo"], says);
    }
}

//~ cli: `check` refuses what a start refuses, with the same words
/// Covers the files of `sched` and `run`, and programs that do not exist.
#[test]
fn check_of_tasks_refuses_what_sched_refuses_with_the_same_words() {
    let task = "[[tasks]]\nname = \"a\"\nclass = \"LC\"\n";
    let command = "command = [\"true\"]\n";
    let cases = [
        (format!("cores = \"x\"\n{task}{command}"), "x"),
        (format!("cores = \"0-\"\n{task}{command}"), "cores \"0-\" are not numbers"),
        (format!("cores = \"1000\"\n{task}{command}"), "is not among the allowed cores "),
        (format!("policy = \"best\"\n{task}{command}"), "best"),
        (format!("mechanism = \"best\"\n{task}{command}"), "mechanism \"best\" is not one of"),
        (format!("sensor = \"best\"\n{task}{command}"), "unknown variant"),
        (format!("polcy = 1\n{task}{command}"), "unknown field `polcy`"),
        (format!("period = \"9s\"\n{task}{command}"), "period 9.00 s is outside"),
        (format!("hook = [\"no-such-hook\"]\n{task}{command}"), "hook no-such-hook: No such file"),
        (
            format!("metrics = \"/no/such/folder/a.prom\"\n{task}{command}"),
            "/no/such/folder/a.prom: No such file",
        ),
        (format!("{task}command = [\"no-such-program\"]\n"), "task a: no-such-program: No such file"),
        (format!("{task}command = [\"/etc/passwd\"]\n"), "task a: /etc/passwd: Permission denied"),
        (
            format!("{task}{command}output = \"/no/such/folder/log\"\n"),
            "task a: /no/such/folder/log: No such file",
        ),
        (format!("{task}pid = 2147483647\n"), "no process 2147483647"),
        (format!("{task}cgroup = \"/no/such\"\n"), "/no/such"),
        (format!("{task}{command}guaranteed = 5000\n"), "5000 cores are guaranteed"),
        ("policy = \"caladan\"\ntasks = []\n".to_owned(), "no task is given"),
    ];
    let journals = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("journals-alike");
    for (number, (text, says)) in cases.iter().enumerate() {
        let file = Scratch::new(&format!("alike-tasks-{number}.toml"), text);
        let named = Scratch::new(
            &format!("alike-sched-{number}.toml"),
            &format!("[sched]\nconfig = \"{}\"\n", file.path()),
        );
        let start = [
            "sched",
            "--config",
            file.path(),
            "--duration",
            "10ms",
            "--state-dir",
            journals.to_str().unwrap(),
        ];
        let outs =
            [greenwave(&start), greenwave(&["check", file.path()]), greenwave(&["check", named.path()])];
        let words = outs.each_ref().map(says_of);
        assert!(words[0].contains(says), "{text}: {says:?} is not in {words:?}");
        assert!(words.iter().all(|word| *word == words[0]), "{text}: {words:?}");
        assert!(outs.iter().all(|out| out.status.code() == Some(2)), "{text}: {words:?}");
    }
}

//~ cli: `check` refuses what a start refuses, with the same words
/// `check` accepts missing arguments that a command line supplies, and ignores resources in use.
#[test]
fn check_takes_what_a_start_takes_with_a_command_line() {
    for (section, text) in [
        ("serve", "pcap = \"/dev/null\""),
        ("serve", "addr = \"10.77.0.2/24\""),
        ("serve", "device = \"tap:gw9\""),
        ("serve", "host-addr = \"10.88.0.1\""),
        ("run", "spin = \"20us\""),
        ("guard.attach", "target-delay = \"20ms\""),
        ("fabric.attach", "policy = \"fish\""),
        ("load", "burst = \"300/10ms\""),
        ("sched", "every = \"1s\""),
    ] {
        let file = Scratch::new(&format!("takes-{}.toml", text.len()), &format!("[{section}]\n{text}\n"));
        let out = greenwave(&["check", file.path()]);
        assert_eq!(out.status.code(), Some(0), "{section}: {text}: {}", says(&out));
    }
}
