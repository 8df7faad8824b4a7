//! Control socket of a server: permitted users, and outcomes.

//~ operations: `control` reports state, reloads with the result, and ends a daemon

use std::io::{BufRead as _, BufReader, Write as _};

use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::threads::statuses;
use super::*;

/// Result of `greenwave control web` with `words` in `netns`: exit status, stdout, stderr.
fn control(netns: &Namespace, words: &[&str]) -> (Option<i32>, String, String) {
    let out = netns.command(GREENWAVE).args(["control", "web"]).args(words).output().expect("it starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn a_server_in_its_sandbox_says_what_it_is_reloads_with_its_outcome_and_ends() {
    let test = "a_server_in_its_sandbox_says_what_it_is_reloads_with_its_outcome_and_ends";
    let Some(ours) = netns_with_tap(test) else { return };
    let policy = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("control-policy.toml");
    let policy_is =
        |text: &str| std::fs::write(&policy, text).expect("the folder for test files is writable");
    let path = policy.to_str().expect("a path of ours is UTF-8");
    policy_is("default = 5\n");
    let mut server =
        Server::start(&ours, "tap:gw0", &["--shards", "2", "--policy", path, "--control", "web"]);
    assert!(statuses(server.child.id(), ["Seccomp"]).iter().all(|[filtered]| filtered == "2"));

    let process = server.child.id();
    let (code, printed, stderr) = control(&ours, &["status"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    // Column gaps depend on the width, and a path may be long.
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for line in [
        "daemon web command serve, http on tap:gw0 port 80, mode learned ",
        &format!(" process {process}, user "),
        &format!(" reads {path} reloads yes "),
    ] {
        assert!(words.contains(line), "{line:?} is not in {printed}");
    }
    let (_, printed, _) = control(&ours, &["status", "--json"]);
    let answer: Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!((&answer["control"], &answer["done"]), (&1.into(), &true.into()), "{answer}");
    assert_eq!(answer["status"]["live"]["process"], process, "{answer}");
    assert_eq!(answer["status"]["reads"], serde_json::json!([path]), "{answer}");

    policy_is("default = 6\n");
    let done = (Some(0), format!("reloaded: policy {path}\n"), String::new());
    assert_eq!(control(&ours, &["reload"]), done);
    policy_is("default = 6\npriority = 0\n");
    let (code, printed, stderr) = control(&ours, &["reload"]);
    assert_eq!((code, printed.as_str()), (Some(2), ""), "{stderr}");
    let line = stderr.lines().next().unwrap_or_default();
    assert!(
        line.starts_with(&format!("error: {path}:2: "))
            && line.ends_with("; the previous settings stay in force"),
        "{stderr}"
    );
    assert_eq!(get(&ours, 80, "/"), GREETING);

    let taken = format!("--control web: the name is in use by process {process} of user 0");
    let second = ["serve", "--device", "tap:gw1", "--addr", "10.78.0.2/24", "--control", "web"];
    refused(&ours, &second, &taken);
    refused(&ours, &["control", "wep", "status"], "no daemon named wep in this network namespace");
    refused(&ours, &["control", "web", "halt"], "invalid value 'halt'");
    // Names are unique per network namespace.
    let elsewhere = NetLab::new("serving").unwrap().namespace("elsewhere").unwrap();
    refused(&elsewhere, &["control", "web", "stop"], "no daemon named web in this network namespace");

    assert_eq!(control(&ours, &["stop"]), (Some(0), "stopping\n".to_owned(), String::new()));
    let (code, _, stderr) = server.ended();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stderr.contains("\nstopped by process ") && !stderr.contains("sandbox"), "{stderr}");
    let (code, ..) = control(&ours, &["status"]);
    assert_eq!(code, Some(2), "the name is free");
    let _ = std::fs::remove_file(&policy);
}

/// Answer of the server called web in `netns` to a thread that runs as `user`.
fn as_user(netns: &Namespace, user: u32, line: &str) -> Value {
    netns.enter(|| {
        let user = Uid::from_raw(user);
        set_thread_res_uid(user, user, user).expect("a thread that changed its user");
        let (stream, _) = host::control::ask("web", LIMIT).expect("it listens");
        // A refused client may get its answer first, and the connection ends.
        let _ = (&stream).write_all(line.as_bytes());
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).expect("it answers");
        serde_json::from_str(&answer).expect("JSON")
    })
}

//~ operations: only root and the daemon's users can control it
#[test]
fn only_root_and_a_servers_user_may_query_it() {
    let Some(netns) = netns_with_tap("only_root_and_a_servers_user_may_query_it") else { return };
    let mut server = Server::start(&netns, "tap:gw0", &["--user", "70001:70001", "--control", "web"]);
    assert_eq!(as_user(&netns, 70_001, "status\n")["status"]["user"], 70_001);
    for line in ["status\n", "end\n", ""] {
        let answer = as_user(&netns, 70_002, line);
        assert_eq!(answer["done"], false, "{answer}");
        assert_eq!(
            answer["said"], "user 70002 may not control web; allowed: root and user 70001",
            "{line:?}"
        );
    }
    let (code, _, stderr) = control(&netns, &["reload"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(
        stderr.starts_with("error: reload reads --policy and --config, and neither was given; "),
        "{stderr}"
    );
    assert_eq!(get(&netns, 80, "/"), GREETING);
    assert_eq!(as_user(&netns, 70_001, "end\n")["done"], true);
    assert_eq!(server.ended().0, Some(0));
}
