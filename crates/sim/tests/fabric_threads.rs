//! A fabric has the same outcome on any number of threads.

//~ fabric: on an open connection a train takes its lines alone, and a lost tail is found in a few round trips
//~ fabric: a run on 1, 2 or 3 threads gives the same flows, counters and events

use proptest::prelude::{any, prop_assert_eq, proptest};
use proptest::sample::select;
use sim::fabric::{Config, Outcome, SCHEDULERS, run, run_on};

const STAR: &str = r#"{ kind = "star", hosts = 4, host = { gbps = 10, delay = "2us" } }"#;
const DUMBBELL: &str = r#"{ kind = "dumbbell", hosts_per_side = 3, host = { gbps = 10, delay = "1200ns" }, core = { gbps = 20, delay = "200ns" } }"#;
const LEAF_SPINE: &str = r#"{ kind = "leaf-spine", leaves = 4, spines = 3, hosts_per_leaf = 2, host = { gbps = 10, delay = "2us" }, core = { gbps = 20, delay = "200ns" } }"#;
const FAT_TREE: &str = r#"{ kind = "fat-tree", k = 4, host = { gbps = 10, delay = "1us" }, core = { gbps = 10, delay = "200ns" } }"#;
/// Cables without propagation delay.
const SHORT: &str = r#"{ kind = "leaf-spine", leaves = 3, spines = 2, hosts_per_leaf = 2, host = { gbps = 10, delay = "0ns" }, core = { gbps = 40, delay = "0ns" } }"#;

/// Transports.
const TRANSPORTS: [&str; 3] = [r#""ns2""#, r#""modern""#, r#""modern", established = true"#];

fn config(topology: &str, scheduler: &str, transport: &str, more: &str) -> Config {
    let text = format!(
        "topology = {topology}\nscheduler = \"{scheduler}\"\ntransport = {{ kind = {transport} }}\n\
         thresholds = [5, 20, 60]\noccupancy = true\n{more}"
    );
    Config::from_toml(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Outcome on one thread, after a check that two and three threads give the same.
fn on_any_number(config: &Config) -> Outcome {
    let one = run(config);
    for threads in [2, 3] {
        let mut done = 0;
        let outcome = run_on(config, threads, &mut |now_done| done = now_done);
        assert_eq!(outcome.counters, one.counters, "{threads} threads");
        assert_eq!((outcome.events, outcome.elapsed), (one.events, one.elapsed), "{threads} threads");
        assert_eq!(outcome.flows, one.flows, "{threads} threads");
        // Compares the queue lengths as well, which are too long to print.
        assert!(outcome == one, "{threads} threads");
        assert_eq!(done as usize, one.flows.iter().filter(|flow| flow.took.is_some()).count());
    }
    one
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(16))]

    #[test]
    fn the_outcome_is_the_same_on_any_number_of_threads(
        topology in select(vec![STAR, DUMBBELL, LEAF_SPINE, FAT_TREE, SHORT]),
        scheduler in select(SCHEDULERS.map(|(name, _)| name).to_vec()),
        transport in select(TRANSPORTS.to_vec()),
        senders in select(vec!["\"all\"", "{ incast = 3 }", "\"all-to-all\""]),
        (room, mark) in (3..100_usize, 0..50_usize),
        ways in select(vec!["ecmp", "spray"]),
        (buffer, tagging) in (select(vec!["port", "queue", "switch"]), select(vec!["host", "switch"])),
        seed in any::<u64>(),
        limit in select(vec!["1ms", "100s"]),
    ) {
        let config = config(topology, scheduler, transport, &format!(
            "buffer_size = {room}\necn_threshold = {mark}\nmultipath = \"{ways}\"\nbuffer = \"{buffer}\"\ntagging = \"{tagging}\"\n\
             seed = {seed}\nflows = 30\nsenders = {senders}\narrivals = \"poisson 20000\"\n\
             sizes = \"list 2000*2 40000*3 400000\"\nlimit = \"{limit}\""
        ));
        let outcome = on_any_number(&config);
        let counters = outcome.counters;
        prop_assert_eq!(counters.sent, counters.delivered + counters.dropped + counters.left);
    }
}

/// All flows start at once and all lines are equal: most events at a switch coincide.
#[test]
fn simultaneous_events_have_the_same_order_on_any_number_of_threads() {
    for transport in TRANSPORTS {
        for scheduler in ["fifo", "fish", "fish-plus"] {
            let flows =
                "flows = 56\nsenders = \"all-to-all\"\narrivals = \"uniform 1\"\nsizes = \"list 30000\"";
            let config = config(
                LEAF_SPINE,
                scheduler,
                transport,
                &format!("buffer_size = 12\necn_threshold = 5\n{flows}"),
            );
            let outcome = on_any_number(&config);
            assert!(outcome.counters.dropped > 0 && outcome.active_max == 56, "{scheduler}");
        }
    }
}

#[test]
fn a_single_flow_crosses_partitions_and_leaves_no_state() {
    let flow = "flows = 1\nsenders = \"first\"\narrivals = \"uniform 1\"\nsizes = \"list 3000000\"\nbuffer_size = 100";
    for topology in [STAR, DUMBBELL, LEAF_SPINE, FAT_TREE] {
        let outcome = on_any_number(&config(topology, "fish", "\"modern\"", flow));
        assert!(outcome.flows[0].took.is_some() && outcome.counters.left == 0);
    }
}
