//! SIGHUP and `control reload`: a scheduler applies other thresholds, and nothing else.

//~ operations: SIGHUP reloads targets of `guard attach` and thresholds of `sched`

use std::fs::File;

use super::*;

#[test]
fn thresholds_are_read_again_and_the_rest_is_refused() {
    // LC that overloads one core is contention, which at first takes a day to be raised.
    let one = cpulist::text(&host::affinity::cores().unwrap()[..1]);
    let text = |policy: &str, after: &str| {
        format!(
            "policy = \"{policy}\"\ncores = \"{one}\"\nsensor = \"none\"\ncondition_after = \"{after}\"\n\
             [[tasks]]\nname = \"lc\"\nclass = \"LC\"\nguaranteed = 1\n\
             command = [\"sh\", \"-c\", \"{SPINS} & {SPINS} & {SPINS}\"]\n"
        )
    };
    let tasks = Scratch::new("reload-tasks.toml", &text("caladan", "86400s"));
    let all = Scratch::new("reload-all.toml", &format!("[sched]\nconfig = \"{}\"\n", tasks.path()));
    let log = Scratch::new("reload.log", "");
    let file = File::options().append(true).open(log.path()).unwrap();
    // Names are unique per network namespace, which this test shares.
    let name = format!("sched-reload-{}", std::process::id());
    let args = ["--config", all.path(), "sched", "--interval", "20ms", "--state-dir", &journals("reload")];
    let daemon = Command::new(GREENWAVE)
        .args(args)
        .args(["--control", &name])
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn();
    let mut daemon = Program(daemon.expect("greenwave starts"));
    let line = |words: &str| {
        let text = std::fs::read_to_string(log.path()).unwrap();
        text.lines().find(|line| line.contains(words)).map(str::to_owned)
    };
    let says = |words: &str| until(words, || line(words).is_some());
    let hangup = |daemon: &Program| kill_process(daemon.pid().unwrap(), Signal::HUP).unwrap();
    says("policy caladan on cores");

    std::fs::write(tasks.path(), text("shenango", "60ms")).unwrap();
    hangup(&daemon);
    let refused = format!("{}: changing policy needs a restart", tasks.path());
    says(&refused);
    assert_eq!(line(&refused), Some(format!("error: {refused}; the previous settings stay in force")));
    assert_eq!(line("interference alarm raised"), None, "it takes a day");

    std::fs::write(tasks.path(), text("caladan", "60ms")).unwrap();
    hangup(&daemon);
    says("reloaded: thresholds");
    says("interference alarm raised: queue lc");
    // The same, with the outcome.
    let control = |word: &str| {
        let out = greenwave(&["control", &name, word]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let done = (Some(0), "reloaded: thresholds\n".to_owned(), String::new());
    assert_eq!(control("reload"), done);
    std::fs::write(tasks.path(), text("shenango", "60ms")).unwrap();
    let (code, _, refusal) = control("reload");
    assert_eq!(code, Some(2), "{refusal}");
    assert!(
        refusal.starts_with(&format!("error: {refused}; the previous settings stay in force\n  try: ")),
        "{refusal}"
    );
    let (code, printed, _) = control("status");
    assert_eq!(code, Some(0));
    // Column gaps depend on the width, and paths may be long.
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    let reads = format!("reads {}, {} reloads yes", all.path(), tasks.path());
    assert!(words.contains(" command sched, ") && words.contains(&reads), "{printed}");
    assert_eq!(control("end"), (Some(0), "stopping\n".to_owned(), String::new()));
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
}
