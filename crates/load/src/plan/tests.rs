//! Plans: request sequences and validation.

use super::*;

fn class(name: &str, share: f64, service: &str) -> RequestClass {
    let service = service.parse().expect(service);
    RequestClass { name: name.into(), share, service, length: 64, kind: 0, priority: 0 }
}

fn plan() -> Plan {
    let classes = vec![class("urgent", 0.05, "1us"), class("other", 0.95, "exp 10us")];
    let mut plan = Plan::new(40, "poisson 100000".parse().expect("arrivals"), classes);
    plan.requests = Some(50_000);
    plan
}

//~ load: the same seed replays the same requests and report
#[test]
fn a_seed_replays_its_requests() {
    let with = |seed| Plan { seed, ..plan() }.sequence().take(1000).collect::<Vec<_>>();
    assert_eq!(with(7), with(7));
    assert_ne!(with(7), with(8));
}

#[test]
fn another_distribution_leaves_arrivals_and_connections_unchanged() {
    let mut other = plan();
    other.classes[1].service = "1ms".parse().expect("distribution");
    let schedule = |plan: &Plan| -> Vec<_> {
        plan.sequence().take(1000).map(|r| (r.intended, r.class, r.conn)).collect()
    };
    assert_eq!(schedule(&plan()), schedule(&other));
}

#[test]
fn shares_converge() {
    let urgent = plan().sequence().filter(|r| r.class == 0).count();
    assert!((2300..2700).contains(&urgent), "{urgent} of 50000 are 5 %");
}

#[test]
fn every_connection_and_no_other_is_used() {
    let mut used = [0u32; 40];
    plan().sequence().for_each(|r| used[r.conn as usize] += 1);
    assert!(used.iter().all(|&n| (1000..1500).contains(&n)), "{used:?}");
}

#[test]
fn classes_may_have_connections_of_their_own() {
    let plan = Plan { spread: Spread::PerClass, ..plan() };
    for request in plan.sequence() {
        assert_eq!(request.conn < 2, request.class == 0, "5 % of 40 are 2: {request:?}");
    }
    let few = Plan { connections: 2, ..plan };
    assert!(few.sequence().all(|r| u32::from(r.class) == r.conn));
}

#[test]
fn a_plan_ends_with_its_requests_or_its_duration() {
    let mut plan = plan();
    plan.arrivals = "uniform 1000".parse().expect("arrivals");
    plan.duration = Some(Span::from_millis(10));
    assert_eq!(plan.sequence().count(), 10);
    plan.requests = Some(3);
    assert_eq!(plan.sequence().count(), 3);
}

#[test]
fn an_error_names_the_invalid_value_and_the_valid_range() {
    let refused = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        plan.validate().expect_err("refused").to_string()
    };
    assert_eq!(refused(&|p| p.connections = 0), "connections 0 is outside 1..=1000000");
    assert_eq!(refused(&|p| p.requests = None), "the plan has no end: give requests or duration");
    assert_eq!(refused(&|p| p.classes.clear()), "the plan has no class: give at least one");
    assert_eq!(refused(&|p| p.classes[1].length = 31), "length of class \"other\" 31 is outside 32..=65536");
    assert_eq!(refused(&|p| p.classes[0].priority = 8), "priority of class \"urgent\" 8 is outside 0..=7");
    assert_eq!(
        refused(&|p| p.classes[0].share = 0.5),
        "sum of all shares 1.45 is outside 0.999999..=1.000001"
    );
    assert_eq!(refused(&|p| p.classes[1].name = "urgent".into()), "class name \"urgent\" is given twice");
    assert_eq!(
        refused(&|p| p.arrivals = Arrivals::Uniform { rate_per_s: 0.0 }),
        "arrivals per second 0 is outside 0 (excluded) and more"
    );
    assert_eq!(
        refused(&|p| (p.connections, p.spread) = (1, Spread::PerClass)),
        "connections 1 is outside 2 and more, one for each class"
    );
}

const TEXT: &str = r#"
    connections = 100
    arrivals = "burst 500 10ms 0ns"
    duration = "2s"
    warmup = "100ms"
    late_after = "50us"
    spread = "per-class"
    [[classes]]
    name = "urgent"
    share = 0.05
    service = "1us"
    priority = 0
    [[classes]]
    name = "other"
    share = 0.95
    service = "bimodal 1us 1ms 0.005"
    length = 4096
    kind = 1
"#;

#[test]
fn a_plan_reads_from_a_file_with_units() {
    let plan: Plan = toml::from_str(TEXT).expect("valid");
    assert_eq!(plan.late_after, Span::from_micros(50));
    assert_eq!(plan.duration, Some(Span::from_secs(2)));
    assert_eq!((plan.seed, plan.timeout, plan.spread), (1, Span::from_secs(1), Spread::PerClass));
    assert_eq!((plan.classes[0].length, plan.classes[1].priority), (32, 7));
}

#[test]
fn a_bad_file_is_refused_with_the_reason() {
    let refused = |from: &str, to: &str| {
        assert!(TEXT.contains(from));
        toml::from_str::<Plan>(&TEXT.replacen(from, to, 1)).expect_err("refused").to_string()
    };
    let contains = |error: String, what: &str| assert!(error.contains(what), "{error}");
    contains(refused("connections", "conections"), "unknown field `conections`");
    contains(refused("\"2s\"", "\"2 weeks\""), "is not a number with a unit");
    contains(refused("\"1us\"", "\"gauss 1us\""), "distribution \"gauss 1us\" is not one of");
    contains(refused("\"burst", "\"burts"), "is not one of");
    contains(refused("100\n", "0\n"), "connections 0 is outside 1..=1000000");
}
