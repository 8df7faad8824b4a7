//! Valid and refused configurations.

use super::*;

#[test]
fn the_example_is_right_and_shows_the_defaults() {
    let example = Config::parse("example.toml", EXAMPLE).unwrap();
    let (tasks, default) = (example.tasks.clone(), Config::default());
    assert_eq!(format!("{:?}", Config { tasks: Vec::new(), ..example }), format!("{default:?}"));
    assert_eq!(tasks[0].spec(Mechanism::Scx), TaskSpec::critical(1));
    assert_eq!(tasks[1].spec(Mechanism::Scx), TaskSpec::best_effort());
    // Commented settings are valid once the alternative task selector is removed.
    let text = EXAMPLE
        .replace("\n# ", "\n#  ")
        .replace("\n#  delay_max", "\ndelay_max")
        .replace("\n#  request_max", "\nrequest_max")
        .replace("\n#  tail", "\ntail")
        .replace("\n#  queue_reports", "\nqueue_reports")
        .replace("\n#  signal_page", "\nsignal_page");
    let config = Config::parse("example.toml", &text).unwrap();
    assert_eq!(config.tasks[0].request_max, Some(Span::from_micros(40)));
    assert!(
        config.tasks[0].tail.is_some()
            && config.tasks[0].signal_page
            && config.tasks[0].queue_reports.len() == 1
    );
    // The commented value is the default where threads are observed.
    assert_eq!(config.tasks[0].spec(Mechanism::Scx).delay_max, tasks[0].spec(Mechanism::Affinity).delay_max);
}

//~ cli: old spellings of commands, flags, values and claims work for one release, hidden, and the changelog lists them
#[test]
fn old_keys_of_a_task_are_read_as_the_new_ones() {
    let lc = "[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = 1\n";
    let text = format!("{lc}joined = [\"/run/queue\"]\npulse = true\n");
    let task = &Config::parse("t.toml", &text).unwrap().tasks[0];
    assert!(task.signal_page && task.queue_reports.len() == 1);
    let changelog = include_str!("../../../../../CHANGELOG.md");
    for (old, new) in [("joined", "queue_reports"), ("pulse", "signal_page")] {
        assert!(changelog.contains(&format!("\n| `[[tasks]]` of `sched` | `{old}` | `{new}` |\n")), "{old}");
    }
}

//~ sched: latency-critical threads are real-time; missing capabilities are reported
#[test]
fn a_wait_requests_a_core_while_the_mechanism_can_still_end_it() {
    let lc = "[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = 1\n";
    let delay = |more: &str, mechanism| {
        let config = Config::parse("t.toml", &format!("{lc}{more}")).unwrap();
        config.tasks[0].spec(mechanism).delay_max
    };
    let (paper, seen) = (Span::from_micros(10), Span::from_millis(1));
    for (mechanism, looked_at, expected) in
        [(Mechanism::Affinity, seen, seen), (Mechanism::Runtime, seen, paper), (Mechanism::Scx, paper, paper)]
    {
        assert_eq!(delay("", mechanism), looked_at, "{mechanism:?}");
        assert_eq!(delay("signal_page = true", mechanism), expected, "{mechanism:?}");
        assert_eq!(delay("delay_max = \"70us\"", mechanism), Span::from_micros(70), "{mechanism:?}");
    }
}

#[test]
fn invalid_settings_are_reported_with_value_and_remedy() {
    let lc = "[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = 1\n";
    let be = "[[tasks]]\nname = \"b\"\nclass = \"BE\"\npid = 2\n";
    let check = |text: &str, says: &str| {
        let error = Config::parse("t.toml", text).expect_err(text).to_string();
        assert!(error.starts_with("error: t.toml:") && error.contains(says), "{says:?} is not in {error:?}");
        assert!(error.contains("\n  try: ") && error.lines().count() == 2, "{error}");
    };
    check("", "no task is given");
    check("polcy = 1", ":1: unknown field `polcy`");
    check("period = \"10us\"", "period 10.0 µs is outside 1.00 ms..=1.00 s");
    check("period = \"soon\"", "span \"soon\"");
    check("mechanism = \"magic\"", "mechanism \"magic\" is not one of auto, affinity, scx, runtime");
    check("latency_max = 1.0", "latency_max 1 is not more than 1");
    check("slack = 2.0", "slack 2 is outside 0..=1");
    check(&format!("{be}guaranteed = 2"), "task b: guaranteed cores of a BE task must be 0, not 2");
    check(&format!("{lc}command = [\"x\"]"), "2 of command, pid and cgroup are given");
    check("[[tasks]]\nname = \"a\"\nclass = \"LC\"", "0 of command, pid and cgroup");
    check("[[tasks]]\nname = \"a\"\nclass = \"LC\"\ncommand = []", "the command is empty");
    check("[[tasks]]\nname = \"a\"\nclass = \"XX\"\npid = 1", "unknown variant `XX`");
    check(&format!("{lc}{lc}"), "task name \"a\" is not unique");
    check(&format!("{lc}{}", be.replace('2', "1")), "tasks a and b contain the same programs");
    check(&format!("{lc}burstable = 0"), "0 guaranteed and 0 burstable cores: the task would have no cores");
    check(&format!("{lc}output = \"x\""), "output needs a command");
    check(&format!("{be}queue_reports = [\"x\"]"), "task b: BE with queue_reports = …");
    let many = vec!["x"; 17];
    check(
        &format!("{lc}queue_reports = {many:?}"),
        "task a: 17 files in queue_reports; at most 16 are possible",
    );
    check(&format!("policy = \"static\"\n{lc}"), "under policy static, LC needs guaranteed cores");
    check(&format!("policy = \"parties\"\n{lc}"), "policy parties needs the task's tail latency");
    check(&format!("policy = \"elfen\"\n{lc}"), "policy elfen keeps LC on first hyperthreads");
    check("mechanism = \"scx\"\nperiod = \"9us\"", "period 9.00 µs is outside 10.0 µs..=1.00 s");
    let scx = Config::parse("t.toml", &format!("mechanism = \"scx\"\npolicy = \"elfen\"\n{lc}")).unwrap();
    assert_eq!(scx.tempo(Mechanism::Scx), (Span::from_micros(50), Span::from_micros(100)));
    check(
        &format!("mechanism = \"runtime\"\n{lc}"),
        "mechanism runtime reads worker signals, and no task has signal_page = true",
    );
    let with_signal_page = format!("{lc}signal_page = true\n");
    check(
        &format!("mechanism = \"runtime\"\npolicy = \"elfen\"\n{with_signal_page}"),
        "policy elfen keeps LC on first hyperthreads",
    );
    check(&format!("period = \"50us\"\n{with_signal_page}"), "period 50.0 µs is outside 1.00 ms..=1.00 s");
    let runtime = format!("mechanism = \"runtime\"\nperiod = \"10us\"\n{with_signal_page}{be}");
    let runtime = Config::parse("t.toml", &runtime).unwrap();
    assert!(runtime.has_signal_pages() && runtime.tasks[0].signal_page && !runtime.tasks[1].signal_page);
}

#[test]
fn cores_and_guarantees_must_exist() {
    let ours = [0, 1].map(CoreId);
    let with = |text: &str| {
        Config::parse(
            "t.toml",
            &format!("{text}\n[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = 1\nguaranteed = 3"),
        )
    };
    let refused = |text: &str| with(text).unwrap().managed(&ours).unwrap_err().to_string();
    assert!(
        refused("cores = \"0-7\"")
            .contains("core 2 is not among the allowed cores 0-1\n  try: cores = \"0-1\"")
    );
    assert!(refused("cores = \"0-1,1\"").contains("name core 1 twice"));
    assert_eq!(with("").unwrap().managed(&ours).unwrap(), ours);
    let two = || Topology::regular(1, 2, 1).unwrap();
    let period = Span::from_millis(2);
    let affinity = Mechanism::Affinity;
    let error = with("").unwrap().arrange(two(), affinity, period).err().unwrap().to_string();
    assert!(error.contains("3 cores are guaranteed and 2 are there\n  try: guaranteed cores"), "{error}");
    let error = with("policy = \"best\"").unwrap();
    let four = Topology::regular(1, 4, 1).unwrap();
    assert!(
        error
            .arrange(four, affinity, period)
            .err()
            .unwrap()
            .to_string()
            .contains("policy \"best\" is not one of caladan, ")
    );
}
