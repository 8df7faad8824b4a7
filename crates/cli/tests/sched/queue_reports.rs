//! A service that reports a request behind its budget gets a core, though none of its threads
//! waits.

use guard::app_queue::QueueReport;

use super::*;

//~ sched: a service with late requests has a core until they are done or its reports stop
#[test]
fn a_late_service_has_a_core_until_it_recovers_or_stops_reporting() {
    if !proc::may_schedule() {
        return skipped("who_is_behind_has_a_core_until_…", "no CAP_SYS_NICE");
    }
    let idle = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn();
    let (idle, spins) = (Program(idle.expect("sleep starts")), Program::spins());
    let one = cpulist::text(&host::affinity::cores().unwrap()[..1]);
    let queue_report = Scratch::new("asking-queue", "");
    let config = format!(
        "cores = \"{one}\"\nsensor = \"none\"\n\
         [[tasks]]\nname = \"lc\"\nclass = \"LC\"\npid = {}\n\
         queue_reports = [{:?}, \"/nowhere/queue\"]\n\
         [[tasks]]\nname = \"be\"\nclass = \"BE\"\npid = {}\n",
        idle.0.id(),
        queue_report.path(),
        spins.0.id()
    );
    let file = Scratch::new("asking.toml", &config);
    let args = [
        "sched",
        "--config",
        file.path(),
        "--state-dir",
        &journals("asking"),
        "--json",
        "--interval",
        "20ms",
    ];
    let daemon = Command::new(GREENWAVE).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut daemon = Program(daemon.expect("greenwave starts"));
    let mut lines = BufReader::new(daemon.0.stdout.take().expect("it is piped")).lines();
    let mut turn = 0;
    // True if LC is behind; the cores that it holds, and those that BE holds.
    let mut seen = |telling: Option<bool>| {
        if let Some(behind) = telling {
            turn += 1;
            std::fs::write(
                queue_report.path(),
                QueueReport { sequence: turn, late: behind, ..QueueReport::default() }.line(),
            )
            .unwrap();
        }
        let line: Value = serde_json::from_str(&lines.next().expect("it goes on").unwrap()).expect("JSON");
        let task = |n: usize| &line["tasks"][n];
        (task(0)["behind"] == true, task(0)["cores"].as_u64(), task(1)["cores"].as_u64())
    };
    let (at_rest, asks) = ((false, Some(0), Some(1)), (true, Some(1), Some(0)));
    until("BE has the core", || seen(Some(false)) == at_rest);
    until("the late task has the core", || seen(Some(true)) == asks);
    until("BE has it again", || seen(Some(false)) == at_rest);
    until("the late task has the core again", || seen(Some(true)) == asks);
    until("a silent task requests nothing", || seen(None) == at_rest);
    kill_process(daemon.pid().unwrap(), Signal::INT).unwrap();
    // Keeps reading until it has ended.
    lines.by_ref().for_each(drop);
    let mut stderr = String::new();
    std::io::Read::read_to_string(&mut daemon.0.stderr.take().expect("it is piped"), &mut stderr).unwrap();
    assert_eq!(stderr, "lc: no service reported its queue in /nowhere/queue, so it requested no core\n");
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0), "{stderr}");
}
