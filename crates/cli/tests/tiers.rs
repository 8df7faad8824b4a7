//! World `tiers`: properties of its experiments that hold on any machine.

mod common;
#[path = "common/library.rs"]
mod library;
#[path = "common/schema.rs"]
mod schema;
#[path = "common/scratch.rs"]
mod scratch;
#[path = "common/tiny.rs"]
mod tiny;

use std::fs;
use std::io::Write;
use std::path::Path;

use netlab::{NetLab, TestGroup, is_installed};
use tiny::{Tiny, figure, found};

/// Little work, with ample time for it.
const TINY: Tiny = Tiny(
    r#"
    title = "tiny"
    source = "none"
    world = "tiers"
    modes = ["none", "no-stack", "all"]
    class = "urgent"
    [settings]
    arrivals = "poisson 100"
    requests = 60
    slos = [
        { name = "urgent", share = 0.4, slo = "40s" },
        { name = "patient", share = 0.4, slo = "50s" },
        { name = "new", share = 0.2, slo = "50s" },
    ]
    stages = [{ name = "front", service = "1ms" }, { name = "worker", service = "1ms", parts = 2 }]
    [settings.host]
    rate = "40mbit"
    bulk = 1
    congestion = "reno"
    answer = 10_000
    dscp = [32, 16, 10]
    newcomers = 1
    guard_target = "10s"
    unanswered = "60s"
    other_max = 10.0
    [mode.none]
    mechanisms = "none"
    [mode.no-stack]
    mechanisms = "all"
    [mode.all]
    mechanisms = "all"
    "host.stack" = true
    [scale.smoke]
    runs = 1
    [scale.paper]
    runs = 1
    [[claim]]
    id = "there"
    says = "Requests that count"
    metric = "all.total.requests"
    holds = "60..60"
"#,
);

/// True if such experiments can run here; reports if not.
fn can_run(test: &str) -> bool {
    let cores = host::affinity::cores().map_or(0, |cores| cores.len());
    let why = NetLab::unavailable().or_else(TestGroup::unavailable);
    let why = why.or_else(|| (cores < 2).then(|| "it needs two cores".to_owned()));
    let why = why.or_else(|| (!is_installed("tc")).then(|| "the program tc is not there".to_owned()));
    let unbuilt = |name: &&str| !Path::new(env!("CARGO_BIN_EXE_greenwave")).with_file_name(name).exists();
    let unbuilt = ["testbed", "swaptions"].into_iter().find(unbuilt);
    let why =
        why.or_else(|| unbuilt.map(|name| format!("{name} is not built; cargo test --workspace builds it")));
    if let Some(why) = &why {
        let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
    }
    why.is_none()
}

//~ platform: label and budget travel with every request through three services
#[test]
fn label_and_budget_go_with_every_request_through_three_services() {
    if !can_run("label_and_budget_go_with_every_request_through_three_services") {
        return;
    }
    // Beside the program, where the front end's library is looked for.
    library::library();
    let json = found(&TINY.run("tiny", "tiny"));
    schema::conforms(&json);
    assert_eq!(json["world"], "host");
    for mode in ["none", "no-stack", "all"] {
        let figure = |class: &str, stat: &str| figure(&json, mode, class, stat);
        let [urgent, patient, new] = ["urgent", "patient", "new"].map(|class| figure(class, "requests"));
        assert_eq!((urgent + patient + new, figure("total", "miss")), (60.0, 0.0), "{mode}: {json}");
        for service in ["front", "worker-1", "worker-2"] {
            let stats = ["requests", "first", "last", "unbudgeted", "refused", "shed"];
            let did = stats.map(|stat| figure(service, stat));
            // The front end recognizes urgent requests by their packets, and so do workers.
            assert_eq!(did, [60.0, urgent, new, 0.0, 0.0, 0.0], "{mode} {service}: {json}");
        }
        // At least 2 ms of work; answers carry their label.
        assert!(figure("urgent", "p50") >= 2_000.0 && figure("total", "labelled") > 0.0, "{mode}: {json}");
        assert!(figure("urgent", "p50") <= figure("urgent", "p999"), "{mode}: {json}");
        assert!(figure("total", "bulk") > 0.0 && figure("total", "be") >= 0.0, "{mode}: {json}");
    }
}

//~ platform: a late request is sent on one level more urgent
#[test]
fn a_request_that_is_behind_goes_to_workers_a_level_more_urgent() {
    if !can_run("a_request_that_is_behind_goes_to_workers_a_level_more_urgent") {
        return;
    }
    library::library();
    // Only users with long budgets, at twice the workers' capacity: their queue soon takes more
    // than half of the budget.
    let late = r#"mechanisms = "all"
    "host.stack" = true
    arrivals = "uniform 20"
    "slos.0.share" = 0.0
    "slos.1.share" = 1.0
    "slos.2.share" = 0.0
    "slos.1.slo" = "1200ms"
    "stages.1.service" = "100ms""#;
    let json = found(&TINY.run("mechanisms = \"all\"\n    \"host.stack\" = true", late));
    let first = |service: &str| figure(&json, "all", service, "first");
    assert_eq!(first("front"), 0.0, "no request is labelled urgent: {json}");
    assert!(first("worker-1") > 0.0 && first("worker-2") > 0.0, "{json}");
}

//~ platform: a request that can bear two losses drops a level and costs no other of its level
#[test]
fn a_request_with_slack_goes_to_workers_a_level_less_urgent() {
    if !can_run("a_request_with_slack_goes_to_workers_a_level_less_urgent") {
        return;
    }
    library::library();
    // Only users with long budgets: fifty seconds for milliseconds of work.
    let alone = r#"mechanisms = "all"
    "host.stack" = true
    "host.loss" = "200ms"
    "slos.0.share" = 0.0
    "slos.1.share" = 1.0
    "slos.2.share" = 0.0"#;
    let json = found(&TINY.run("mechanisms = \"all\"\n    \"host.stack\" = true", alone));
    for mode in ["none", "no-stack", "all"] {
        let new = figure(&json, mode, "new", "requests");
        assert_eq!(figure(&json, mode, "front", "last"), new, "{mode}: {json}");
        // Without budgets, or without known loss costs, all requests are served in order of
        // arrival.
        let less = ["worker-1", "worker-2"].map(|worker| figure(&json, mode, worker, "last") > new);
        assert_eq!(less, [mode == "all"; 2], "{mode}: {json}");
    }
}

//~ platform: an interrupted experiment of services leaves no program, control group or folder
#[test]
fn an_interrupted_experiment_of_services_leaves_nothing() {
    if !can_run("an_interrupted_experiment_of_services_leaves_nothing") {
        return;
    }
    // Once services report their queues, a group for them, and one for the users: both are active.
    let family = TINY.interrupt("requests = 60", "requests = 3000", 3);
    // Greenwave, three services and the background computation.
    assert!(family.len() >= 5, "{family:?}");
    let lives = |id: &&u32| {
        let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
        environment.windows(13).any(|window| window == b"GREENWAVE_LAB")
    };
    assert_eq!(family.iter().find(lives), None, "all programs have ended");
}

#[test]
fn what_an_experiment_of_services_cannot_be_is_said_before_any_runs() {
    TINY.is_refused(
        "mechanisms = \"all\"",
        "mechanisms = \"most\"",
        "mechanisms \"most\" is not one of: none, all",
    );
    TINY.is_refused("dscp = [32, 16, 10]", "dscp = [46]", "for each of 3 slos");
    TINY.is_refused(
        "dscp = [32, 16, 10]",
        "dscp = [46, 16, 10]",
        "[46, 16, 10] is not among the DSCPs that greenwave",
    );
    TINY.is_refused("newcomers = 1", "newcomers = 4", "host.newcomers 4 is outside 0..=3");
    TINY.is_refused("parts = 2", "parts = 9", "parts 9 is outside 1..=8");
    TINY.is_refused("bulk = 1", "bulks = 1", "bulks");
}
