//! World `httpd`: properties of its experiments that hold on any machine.

//~ guard: every visit to a real server ends in one of seven counted results

mod common;
#[path = "common/scratch.rs"]
mod scratch;
#[path = "common/tiny.rs"]
mod tiny;

use std::io::Write;

use netlab::{NetLab, TestGroup, is_installed};
use tiny::{Tiny, found};

/// A fifth of the capacity of a twentieth of a core, and ten times that capacity.
const TINY: Tiny = Tiny(
    r#"
    title = "tiny"
    source = "none"
    world = "httpd"
    modes = ["stock", "backlog-64"]
    class = "all"
    varies = "load"
    [settings]
    server = "nginx"
    gzip = true
    bytes = 20_000
    share = 0.1
    load = 0.2
    timeout = "500ms"
    warmup = "100ms"
    duration = "300ms"
    capacity = "200ms"
    [mode.backlog-64]
    backlog = 64
    sysctl = { "net.ipv4.tcp_syncookies" = 0 }
    threaded = true
    [scale.smoke]
    runs = 1
    [scale.paper]
    runs = 1
    [[point]]
    name = "0.2"
    [[point]]
    name = "10"
    set = { "load" = 10.0 }
    [[claim]]
    id = "there"
    says = "Visits that are due at the lower load"
    metric = "stock.all.offered"
    holds = ">= 1"
    at = ["0.2"]
"#,
);

/// True if such experiments can run here with `server`; reports if not.
fn can_run(test: &str, server: &str) -> bool {
    let cores = host::affinity::cores().map_or(0, |cores| cores.len());
    let why = NetLab::unavailable().or_else(TestGroup::unavailable);
    let unseen = || (!host::proc::sees_kernel_threads()).then(|| "/proc shows no kernel threads".to_owned());
    let why = why.or_else(unseen).or_else(|| (cores < 2).then(|| "it needs two cores".to_owned()));
    let why = why.or_else(|| (!is_installed(server)).then(|| format!("the program {server} is not there")));
    if let Some(why) = &why {
        let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
    }
    why.is_none()
}

fn every_visit_meets_a_fate(server: &str, program: &str) {
    if !can_run("every_visit_meets_a_fate", program) {
        return;
    }
    let json = found(&TINY.run("\"nginx\"", &format!("{server:?}")));
    for row in json["figures"].as_array().unwrap() {
        let figure = |stat: &str| row[stat].as_f64().unwrap_or_else(|| panic!("{stat}: {row}"));
        let fates = ["late", "phantom", "refused", "silent", "wrong"].map(figure).iter().sum::<f64>();
        // The rest are requests for which the client had no connection.
        assert!(fates <= figure("bad") + 1e-6 && fates + 1.0 >= figure("bad"), "{row}");
        assert!(figure("goodput") <= figure("offered") && figure("capacity") > 0.0, "{row}");
        assert_eq!(figure("wrong"), 0.0, "every answer is the page: {row}");
    }
}

#[test]
fn every_visit_to_nginx_meets_a_fate() {
    every_visit_meets_a_fate("nginx", "nginx");
}

#[test]
fn every_visit_to_lighttpd_meets_a_fate() {
    every_visit_meets_a_fate("lighttpd", "lighttpd");
}

#[test]
fn every_visit_to_apache_meets_a_fate() {
    every_visit_meets_a_fate("apache", "apache2");
}

//~ guard: an interrupted experiment leaves no process, namespace, control group or folder
#[test]
fn an_interrupted_experiment_leaves_nothing() {
    if !can_run("an_interrupted_experiment_leaves_nothing", "nginx") {
        return;
    }
    // A group for the process that keeps the core awake during the setup; and one for active
    // visitors.
    for traces in [1, 4] {
        TINY.interrupt("300ms", "3600s", traces);
    }
}

#[test]
fn what_an_experiment_on_a_server_cannot_be_is_said_before_any_runs() {
    TINY.is_refused(
        "server = \"nginx\"",
        "server = \"iis\"",
        "unknown variant `iis`, expected one of `nginx`",
    );
    TINY.is_refused("share = 0.1", "share = 0.0", "share 0 is outside 0.05..=1");
    TINY.is_refused("timeout = \"500ms\"", "timeout = \"long\"", "long");
    TINY.is_refused("threaded = true", "threads = true", "threads");
}
