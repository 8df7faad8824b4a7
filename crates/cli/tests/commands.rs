//! Errors of mistaken commands: one line, advice, exit 2.

mod common;
#[path = "commands/configuration.rs"]
mod configuration;
#[path = "common/schema.rs"]
mod schema;
#[path = "common/scratch.rs"]
mod scratch;

use std::process::Command;

use common::greenwave;
use scratch::Scratch;

/// Checks that `args` are refused with one line that contains `expected`.
#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let out = greenwave(args);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
    let mut lines = stderr.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("error: ") && first.contains(expected), "{args:?}: {stderr}");
    assert!(lines.all(|line| line.starts_with("  try: ")), "{args:?} takes more than a line: {stderr}");
    assert!(out.stdout.is_empty(), "{args:?} printed a result");
}

//~ input: invalid addresses, devices and flags give one line and exit 2
#[test]
fn bad_arguments_are_one_line_and_exit_2() {
    refused(&["frobnicate"], "frobnicate");
    refused(&["demo", "--duration", "0s"], "outside 1s..=600s");
    refused(&["demo", "--modes", "fifo"], "fifo");
    refused(&["demo", "--burst", "300"], "SIZE/PERIOD");
    refused(&["load", "--target", "127.0.0.1:1"], "--rate");
    refused(&["load", "--target", "nowhere", "--rate", "10"], "nowhere");
    refused(&["load", "--target", "127.0.0.1:1", "--rate", "-1"], "-1");
    refused(&["demo", "--rounds", "x"], "it is not a whole number");
    refused(&["demo", "--modes", "none,adps,none"], "mode none is listed twice");
    refused(
        &["demo", "--burst", "1/1s", "--duration", "1s"],
        "no burst falls into the 1.00 s of measurement",
    );
    refused(&["demo", "--service", "1ms"], " % load; at most ");
    refused(&["calibrate", "--slices", "1"], "1 is not in 2..");
    refused(&["doctor", "nerves"], "invalid value 'nerves'");
    refused(&["guard", "model", "--mu1", "0", "--mu2", "5"], "\"0\" is not a count above 0");
    refused(&["guard", "model", "--mu1", "9k", "--mu2", "1k", "--lambda", "5k..2k"], "with FROM below TO");
}

//~ cli: `doctor` reports for each mechanism whether it works, the reason if not, and a remedy
#[test]
fn the_doctor_reports_each_mechanism_with_reason_and_advice() {
    let out = greenwave(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    schema::conforms(&report);
    let findings = report["findings"].as_array().expect("findings");
    for finding in findings {
        let state = finding["here"].as_str().expect("a word");
        assert!(["works", "limits", "absent"].contains(&state), "{finding}");
        assert!(!finding["seen"].as_str().expect("a sentence").is_empty(), "{finding}");
    }
    let of = |area: &str| findings.iter().filter(|f| f["command"] == area).collect::<Vec<_>>();
    let works = |area: &&str| {
        let (found, is_there) = (of(area), |finding: &&serde_json::Value| finding["here"] != "absent");
        if *area == "run" { found.iter().all(is_there) } else { found.iter().any(is_there) }
    };
    let all = ["serve", "run", "sched", "egress", "guard", "files"];
    assert!(all.iter().all(|area| !of(area).is_empty()), "{report}");
    let code = if all.iter().all(works) { 0 } else { 1 };
    assert_eq!(out.status.code(), Some(code), "{report}");
}

/// The paper's server: receiving is eleven times as fast as serving.
#[test]
fn the_model_shows_the_paper_s_line_and_what_shedding_keeps() {
    let settings = ["guard", "model", "--mu1", "36600", "--mu2", "3300", "--lambda", "3300..33000", "--json"];
    let out = greenwave(&settings);
    let points: Vec<serde_json::Value> = serde_json::from_slice(&out.stdout).expect("JSON");
    let at = |n: usize, key: &str| points[n][key].as_f64().expect("a number");
    let slope = (at(11, "served") - at(4, "served")) / (at(11, "offered") - at(4, "offered"));
    assert!((slope + 0.09).abs() < 0.002, "{slope}: the paper's -0.09");
    assert!(at(11, "served_shedding") > 0.98 * at(1, "served_shedding"));
}

//~ cli: `calibrate` writes the cost of every step
//~ input: unwritable results and closed pipes cause no panic
#[test]
fn a_result_that_could_not_be_written_is_refused_before_it_is_measured() {
    refused(&["demo", "--out", "no/such/folder/report.html"], "no/such/folder/report.html: No such file");
    refused(&["demo", "--out", "/"], "/: Is a directory");
    refused(&["calibrate", "--out", "no/such/folder/model.toml"], "no/such/folder/model.toml: No such file");
}

//~ cli: `load` refuses a target without a listener at once
#[test]
fn a_target_without_a_listener_is_refused_at_once() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let target = listener.local_addr().expect("a listener has an address").to_string();
    drop(listener);
    refused(&["load", "--target", &target, "--rate", "10"], "Connection refused");
}

//~ input: unwritable results and closed pipes cause no panic
#[test]
fn a_closed_pipe_ends_the_command_silently() {
    let (reader, writer) = std::io::pipe().expect("there are pipes");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let out = command.args(["exp", "list"]).stdout(writer).stderr(std::process::Stdio::piped()).output();
    let stderr = out.expect("greenwave starts").stderr;
    assert_eq!(String::from_utf8_lossy(&stderr), "");
}

//~ input: unwritable results and closed pipes cause no panic
#[test]
fn a_result_that_cannot_be_printed_is_an_error_and_no_panic() {
    let full = std::fs::File::create("/dev/full").expect("Linux has /dev/full");
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    let out = command.args(["exp", "list"]).stdout(full).stderr(std::process::Stdio::piped()).output();
    let out = out.expect("greenwave starts");
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&out.stderr), "error: stdout: No space left on device\n");
}

//~ cli: `serve` takes address, host address and port, and prints its summary as JSON
//~ input: invalid addresses, devices and flags give one line and exit 2
#[test]
fn a_server_that_cannot_be_is_refused_before_anything_is_made() {
    let serve = |more: &[&str], expected: &str| {
        refused(&[&["serve"], more].concat(), expected);
    };
    serve(&["--device", "eth0", "--addr", "10.77.0.2/24"], "eth0");
    serve(&["--device", "tap:gw0", "--addr", "10.77.0.2"], "10.77.0.2");
    serve(&["--device", "tap:gw0", "--addr", "10.77.0.0/24"], "10.77.0.0");
    serve(&["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--port", "0"], "0");
    serve(&["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--host-addr", "10.78.0.1"], "10.78.0.1");
    serve(&["--device", "tap:a-name-that-is-too-long", "--addr", "10.77.0.2/24"], "15 bytes");
    serve(
        &["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--policy", "no-such-file.toml"],
        "no-such-file",
    );
}

//~ cli: an invalid policy is refused with its line
#[test]
fn a_policy_that_the_mode_does_not_use_is_refused() {
    let rule =
        |layer: &str| format!("[[rule]]\nname = \"web\"\nlayer = \"{layer}\"\nport = 80\npriority = 0\n");
    let check = |layer: &str, mode: &str, expected: &str| {
        let policy = Scratch::new(&format!("{layer}-{mode}.toml"), &rule(layer));
        let serve = ["serve", "--device", "tap:gw0", "--addr", "10.77.0.2/24"];
        refused(&[&serve[..], &["--mode", mode, "--policy", policy.path()]].concat(), expected);
    };
    check("driver", "none", "mode none does not use the driver's rules");
    check("driver", "darc", "mode darc does not use the driver's rules");
    check("transport", "lns", "mode lns does not use the transport's rules");
}

//~ mechanisms: M7: `serve --worker-affinity` and `--dispatch` refuse impossible values
#[test]
fn dispatch_and_steering_that_cannot_be_are_refused() {
    let serve = |more: &[&str], expected: &str| {
        refused(&[&["serve", "--device", "tap:gw0", "--addr", "10.77.0.2/24"], more].concat(), expected);
    };
    serve(
        &["--dispatch", "lifo"],
        "policy \"lifo\" is not one of fcfs, strict, edf, strict-edf, weighted, darc",
    );
    serve(&["--worker-affinity", "low=0"], "--worker-affinity needs workers");
    serve(&["--workers", "2", "--worker-affinity", "low"], "LEVELS=WORKERS");
    serve(&["--workers", "2", "--worker-affinity", "low="], "LEVELS=WORKERS");
    serve(&["--workers", "2", "--worker-affinity", "low=2"], "steering low: worker 2 is outside 0..=1");
    serve(&["--workers", "2", "--worker-affinity", "slow=1"], "steering \"slow\" is no level");
    serve(
        &["--workers", "2", "--worker-affinity", "low=1", "--worker-affinity", "5=0"],
        "level 5 is named by another line",
    );
    serve(
        &["--workers", "2", "--mode", "none", "--worker-affinity", "low=1"],
        "in mode none every worker serves all levels",
    );
}

//~ cli: `serve --guard` counts by class and reason; invalid settings are refused
#[test]
fn a_guard_that_cannot_be_is_refused_before_anything_is_made() {
    let serve = |more: &[&str], expected: &str| {
        refused(&[&["serve", "--device", "tap:gw0", "--addr", "10.77.0.2/24"], more].concat(), expected);
    };
    serve(&["--guard", "best"], "policy \"best\" is not one of queue-delay");
    serve(&["--guard", "queue-delay", "--target-delay", "1us"], "outside 100us..=10s");
    serve(&["--target-delay", "20ms"], "--guard");
    serve(&["--rx-cpu-limit", "0"], "1..=100");
    serve(&["--proto", "udp", "--app", "echo", "--guard", "queue-delay"], "--guard needs --proto tcp");
}

/// The subcommands of `above`, as its help lists them.
fn commands_below(above: &str) -> Vec<String> {
    let out = greenwave(&above.split_whitespace().chain(["--help"]).collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{above}: {line}");
    }
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Continuation lines are indented further.
    let names = listed.map_while(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    names.map(|name| format!("{above} {name}")).collect()
}

#[test]
fn help_fits_a_terminal_of_80_columns() {
    let mut commands = vec![String::new()];
    let mut at = 0;
    while let Some(above) = commands.get(at) {
        let below = commands_below(above);
        commands.extend(below);
        at += 1;
    }
    assert!(commands.iter().any(|name| name == " exp run") && commands.len() > 30, "{commands:?}");
}

#[test]
fn help_names_every_dispatch_policy() {
    let help = greenwave(&["serve", "--help"]).stdout;
    let help = String::from_utf8_lossy(&help);
    for policy in sched::dispatch::POLICIES {
        assert!(help.contains(policy.name), "{}", policy.name);
    }
}

//~ cli: an invalid policy is refused with its line
//~ cli: `check` accepts policies, tasks and configuration files, and shows what each command gets
#[test]
fn a_bad_policy_is_refused_with_its_line() {
    let policy = Scratch::new(
        "bad.toml",
        "[[rule]]\nname = \"web\"\nlayer = \"driver\"\nport = \"80\"\npriority = 9\n",
    );
    refused(&["check", policy.path()], "bad.toml:5: priority 9 is outside 0..=7");
    refused(&["check", "no-such-file.toml"], "no-such-file.toml");
}

//~ cli: `check` accepts policies, tasks and configuration files, and shows what each command gets
#[test]
fn a_good_policy_is_shown_rule_by_rule() {
    let policy = Scratch::new(
        "good.toml",
        "[[rule]]\nname = \"web\"\nlayer = \"driver\"\nport = \"80\"\npriority = 0\n",
    );
    let out = greenwave(&["check", policy.path()]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    for part in ["rule", "web", "driver", "priority 0", "port = \"80\""] {
        assert!(stdout.contains(part), "{part} in {stdout}");
    }
    let rules: serde_json::Value =
        serde_json::from_slice(&greenwave(&["check", policy.path(), "--json"]).stdout).expect("JSON");
    assert_eq!((&rules["default"], &rules["rules"][0]["rule"]), (&serde_json::Value::Null, &"web".into()));
}

//~ cli: `check` accepts policies, tasks and configuration files, and shows what each command gets
#[test]
fn one_check_is_for_every_file() {
    // Neither an ancestor of `check` nor process 1, which are refused.
    let mut process = Command::new("sleep").arg("60").spawn().expect("sleep is there");
    let pid = process.id();
    let tasks =
        format!("include = [\"check-more.toml\"]\n[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = {pid}\n");
    let more =
        |class: &str| format!("[[tasks]]\nname = \"b\"\nclass = \"{class}\"\ncommand = [\"true\", \"y\"]\n");
    let tasks = Scratch::new("check-tasks.toml", &tasks);
    let included = Scratch::new("check-more.toml", &more("BE"));
    let output_of = |path: &str| String::from_utf8_lossy(&greenwave(&["check", path]).stdout).into_owned();
    let text = output_of(tasks.path());
    for part in [&format!("process {pid}"), "BE", "true y", "policy caladan allocates the cores"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    drop(included);
    refused(&["check", tasks.path()], "check-tasks.toml:1: include \"check-more.toml\": No such file");
    let _included = Scratch::new("check-more.toml", &more("XX"));
    refused(&["check", tasks.path()], "check-more.toml:3: unknown variant `XX`");
    process.kill().and_then(|()| process.wait()).expect("it is ours");
    let egress = Scratch::new(
        "check-egress.toml",
        &String::from_utf8_lossy(&greenwave(&["egress", "policy", "fish"]).stdout),
    );
    assert!(output_of(egress.path()).contains("8 levels of 64 queues"), "{}", output_of(egress.path()));
}

/// Explanation of a request under a policy.
fn explained(name: &str, arguments: &[&str]) -> String {
    let policy = Scratch::new(
        &format!("explained-{name}.toml"),
        "default = 5\n\
         [[rule]]\nname = \"bulk\"\nlayer = \"driver\"\npriority = 7\nlength = \"> 1000\"\n\
         [[rule]]\nname = \"pay\"\nlayer = \"transport\"\npriority = 0\nport = 80\nhttp = { path = \"/pay\", header = \"x-tier: gold\" }\n\
         [[rule]]\nname = \"reads\"\nlayer = \"transport\"\npriority = 1\nport = 6379\nresp = { verb = [\"GET\", \"MGET\"] }\n\
         [[rule]]\nname = \"shop\"\nlayer = \"transport\"\npriority = 2\nport = 443\ntls = { sni = \"*.shop.example\" }\n\
         [[rule]]\nname = \"far\"\nlayer = \"transport\"\npriority = 6\nrtt = \"> 50ms\"\n",
    );
    let out = greenwave(&[&["explain", "request", policy.path()], arguments].concat());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

//~ cli: `explain request` explains the rules for a request
#[test]
fn a_request_is_explained_rule_by_rule() {
    let pay = ["--http", "GET /pay?x=1", "--peer", "10.0.0.9:4000"];
    let text = explained("pay", &[&pay[..], &["--header", "X-Tier: gold"]].concat());
    for part in [
        "request: 93 bytes, 10.0.0.9:4000 → port 80: GET /pay?x=1 (http)",
        "length is 93, not \"> 1000\"",
        "priority 0: rule \"pay\" at the transport",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = explained("poor", &[&pay[..], &["--rtt", "80ms"]].concat());
    for part in ["http is GET /pay?x=1, not", "port is 80, not 6379", "priority 6: rule \"far\""] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = explained("get", &["--resp", "mget a b", "--peer", "fd00::9"]);
    assert!(text.contains("[fd00::9]:40000 → port 6379"), "{text}");
    assert!(text.contains("priority 1: rule \"reads\""), "{text}");
    let text = explained("set", &["--resp", "SET a b"]);
    assert!(
        text.contains("rtt is not known yet") && text.contains("priority 5: the policy's default"),
        "{text}"
    );
    let text = explained("shop", &["--sni", "pay.shop.example"]);
    assert!(text.contains("priority 2: rule \"shop\""), "{text}");
}

#[test]
fn a_request_that_fits_no_packet_is_refused() {
    let policy = Scratch::new("explained-long.toml", "default = 5\n");
    let long = format!("GET /{}", "a".repeat(70_000));
    for asked in ["--http", "--resp", "--memcached"] {
        let out = greenwave(&["explain", "request", policy.path(), asked, &long]);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("bytes does not fit a packet\n  try: 1 to 60000"), "{stderr}");
    }
}

//~ cli: `explain request` explains the rules for a request
#[test]
fn a_request_is_explained_to_programs_too() {
    let bytes = Scratch::new("requests.resp", "SET a b\r\nGET a\r\n");
    let text = explained("json", &["--payload", bytes.path(), "--port", "6379", "--json"]);
    let requests: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let priorities: Vec<_> =
        requests.as_array().expect("a list").iter().map(|r| r["priority"].as_u64()).collect();
    assert_eq!(priorities, [Some(5), Some(1)], "{text}");
    assert_eq!(requests[1]["rule"], "reads");
    assert_eq!(requests[0]["tried"][2]["missed"]["given"], "SET a");
}

//~ cli: `explain request` explains the rules for a request
#[test]
fn a_request_that_is_none_is_refused() {
    let policy = Scratch::new("any.toml", "default = 5\n");
    let check = |arguments: &[&str], expected: &str| {
        refused(&[&["explain", "request", policy.path()], arguments].concat(), expected);
    };
    check(&[], "no request given");
    check(&["--http", "GET"], "--http \"GET\" is not METHOD PATH");
    check(&["--http", "GET /", "--header", "gold"], "--header \"gold\" is not NAME: VALUE");
    check(&["--resp", " "], "is not a command");
    check(&["--sni", ""], "is not a server name");
    check(&["--http", "GET /", "--resp", "GET a"], "cannot be used with");
    check(&["--rtt", "5ms"], "required");
    check(&["--http", "GET /", "--peer", "ten"], "is not an address such as 10.0.0.9");
    check(&["--http", "GET /", "--loss", "2"], "is not a share 0.0..=1.0");
}

/// A small benchmark of fabrics; their speed is not tested.
#[test]
fn fabrics_are_measured_with_both_transports() {
    let out = greenwave(&["bench", "fabric", "--quick", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("the report is JSON");
    schema::conforms(&report);
    let rows = report["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(row["unfinished"], 0, "{row}");
        assert!(row["hops"].as_u64() > Some(10_000) && row["hops_per_s"].as_f64() > Some(1e3), "{row}");
    }
}

//~ fabric: a thousand hosts are simulated to the last flow
/// The large network completes, with very few flows.
#[test]
fn a_thousand_hosts_are_measured_to_the_last_flow() {
    let out = greenwave(&["bench", "fabric", "--large", "--count", "20", "--threads", "2", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("the report is JSON");
    let rows = &report["rows"];
    assert_eq!(rows.as_array().map(Vec::len), Some(1), "{rows}");
    assert_eq!((&rows[0]["flows"], &rows[0]["unfinished"]), (&20.into(), &0.into()), "{rows}");
}

//~ speed: ten thousand idle connections are held in one process
/// A small version of the benchmark of a million connections.
#[test]
fn ten_thousand_connections_idle_in_one_process() {
    let out = greenwave(&["bench", "idle", "--connections", "10k", "--duration", "100ms", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("the report is JSON");
    schema::conforms(&report);
    assert_eq!(report["connections"], 10_000);
    for run in ["alone", "among_idle"] {
        assert!(report[run]["requests"].as_u64() > Some(1_000), "{run}: {report}");
    }
    for end in ["server_tcp", "client_tcp"] {
        let bytes = report["bytes"][end].as_f64().expect("a number");
        assert!((100.0..1024.0).contains(&bytes), "{end}: {bytes} bytes for each connection");
    }
}

//~ cli: every command has a man page and completions
#[test]
fn every_command_has_a_man_page_and_completions() {
    let folder = std::env::temp_dir().join(format!("greenwave-man-{}", std::process::id()));
    let out = greenwave(&["man", folder.to_str().expect("a path of letters")]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let help = String::from_utf8_lossy(&greenwave(&["--help"]).stdout).into_owned();
    let (_, commands) = help.split_once("Commands:\n").expect("help lists the commands");
    let names = commands.lines().take_while(|line| !line.is_empty());
    let names: Vec<_> = names.filter_map(|line| line.split_whitespace().next()).collect();
    let bash = String::from_utf8_lossy(&greenwave(&["completions", "bash"]).stdout).into_owned();
    assert!(names.contains(&"serve"), "{help}");
    for name in names {
        assert!(folder.join(format!("greenwave-{name}.1")).exists() || name == "help", "{name}");
        assert!(bash.contains(name), "{name}");
    }
    let page = std::fs::read_to_string(folder.join("greenwave-serve.1")).expect("the page is there");
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
    assert!(page.contains("\\-\\-device"), "{page}");
}
