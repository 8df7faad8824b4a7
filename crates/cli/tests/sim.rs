//! `greenwave sim`: output, files, and refused arguments.

//~ cli: `sim fabric` compares schedulers over seeds in one table and replays

mod common;
#[path = "common/schema.rs"]
mod schema;
#[path = "common/scratch.rs"]
mod scratch;

use std::process::Output;

use common::greenwave;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use scratch::Scratch;
use serde_json::Value;

fn fabric(args: &[&str]) -> Output {
    greenwave(&[&["sim", "fabric"], args].concat())
}

#[track_caller]
fn text(out: &Output) -> String {
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&text(&greenwave(args))).expect("--json prints JSON")
}

/// Checks that `args` are refused with one line that contains `expected`, and advice.
#[track_caller]
fn refused(args: &[&str], expected: &str) {
    let out = greenwave(args);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {stderr}");
    let lines: Vec<&str> = stderr.lines().collect();
    assert!(lines[0].starts_with("error: ") && lines[0].contains(expected), "{args:?}: {stderr}");
    assert!(lines.len() == 2 && lines[1].starts_with("  try: "), "{args:?}: {stderr}");
    assert!(out.stdout.is_empty(), "{args:?} printed a result");
}

/// Short flows beside longer ones, few packets in all.
const MIX: &str = "list 20000*8 500000*2";

#[test]
fn schedulers_are_compared_over_seeds_in_one_table_of_80_columns() {
    let args = ["--scheduler", "fifo,pias,fish", "--seeds", "1..3", "--workload", MIX, "--count", "150"];
    let printed = text(&fabric(&args));
    for line in printed.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for part in
        ["fifo", "pias", "fish", "small", "medium", "±", "slowdown", "fish over fifo", "seeds 1..3, 9 runs"]
    {
        assert!(printed.contains(part), "{part:?} is not in {printed}");
    }
    assert_eq!(text(&fabric(&args)), printed, "seeds replay");
}

//~ fabric: a run on 1, 2 or 3 threads gives the same flows, counters and events
#[test]
fn one_run_on_several_threads_prints_what_it_prints_on_one() {
    let args = ["--seeds", "1..2", "--workload", MIX, "--count", "60", "--set", "transport.kind=modern"];
    let printed = text(&fabric(&args));
    for threads in ["2", "3"] {
        assert_eq!(
            text(&fabric(&[&args[..], &["--threads", threads]].concat())),
            printed,
            "{threads} threads"
        );
    }
}

#[test]
fn json_has_what_the_table_has() {
    let found = json(&[
        "sim",
        "fabric",
        "--scheduler",
        "fifo,fish",
        "--seeds",
        "1..2",
        "--workload",
        MIX,
        "--count",
        "100",
        "--json",
    ]);
    schema::conforms(&found);
    let all = |scheduler: &str| {
        let rows = found["figures"].as_array().expect("figures is a list");
        rows.iter().find(|row| row["scheduler"] == scheduler && row["class"] == "all").expect("a row").clone()
    };
    for scheduler in ["fifo", "fish"] {
        let row = all(scheduler);
        assert_eq!(row["flows"]["mean"], 100.0);
        assert!(row["slowdown"]["mean"].as_f64() >= Some(1.0), "{row}");
        assert!(row["mean"]["interval"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(found["network"].as_array().map(Vec::len), Some(2));
    assert_eq!(found["load"], 0.8);
    assert_eq!(found["world"], "sim");
}

//~ cli: `sim fabric --flow-trace --csv` replays a list of flows and writes each
#[test]
fn a_list_of_flows_is_replayed_and_each_flow_is_in_the_csv() {
    let flows = Scratch::new(
        "flows.txt",
        "# a, b, and one that comes first\n0.002 0 1 100000\n0.003 1 0 1\n0.001 0 1 1460\n",
    );
    let csv = Scratch::new("flows.csv", "");
    let page = Scratch::new("flows.html", "");
    let args =
        ["--topology", "two-hosts", "--flow-trace", flows.path(), "--csv", csv.path(), "--out", page.path()];
    text(&fabric(&args));
    let csv = std::fs::read_to_string(csv.path()).expect("it is there");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some("scheduler,seed,id,src,dst,bytes,start_s,fct_s,slowdown,retransmitted,timeouts")
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    let starts: Vec<_> = rows.iter().map(|row| (row[2], row[3], row[4], row[5], row[6])).collect();
    let expected = [
        // The number of the flow's line in the list; the first is a comment.
        ("4", "0", "1", "1460", "0.001000000"),
        ("2", "0", "1", "100740", "0.002000000"),
        ("3", "1", "0", "1460", "0.003000000"),
    ];
    assert_eq!(starts, expected);
    for row in &rows {
        assert_eq!((row[8], row[9], row[10]), ("1.000000", "0", "0"), "no flows compete: {row:?}");
        assert!(row[7].parse::<f64>().is_ok_and(|fct| fct > 8e-5), "{row:?}");
    }
    let page = std::fs::read_to_string(page.path()).expect("it is there");
    assert!(page.contains("<svg"), "the page has plots");
}

//~ cli: `sim fabric --parquet` writes the columns of the CSV
#[test]
fn the_parquet_file_says_what_the_csv_says() {
    let (csv, parquet) = (Scratch::new("both.csv", ""), Scratch::new("both.parquet", ""));
    let runs = ["--scheduler", "fifo,fish", "--seeds", "1..2", "--load", "0.9", "--duration", "5ms"];
    text(&fabric(&[&runs[..], &["--csv", csv.path(), "--parquet", parquet.path()]].concat()));
    let file = std::fs::File::open(parquet.path()).expect("it is there");
    let reader = SerializedFileReader::new(file).expect("it is Parquet");
    assert_eq!(reader.num_row_groups(), 4, "a run each");
    let names = reader.metadata().file_metadata().schema_descr().columns().iter();
    let header: Vec<_> = names.map(|column| column.name().to_owned()).collect();
    let csv_field = |(name, field): (&String, &Field)| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Double(value) if name == "slowdown" => format!("{value:.6}"),
        Field::Double(seconds) => format!("{seconds:.9}"),
        number => number.to_string(),
    };
    let rows = reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row"));
    let lines = rows.map(|row| row.get_column_iter().map(csv_field).collect::<Vec<_>>().join(","));
    let lines: Vec<String> = std::iter::once(header.join(",")).chain(lines).collect();
    let expected = std::fs::read_to_string(csv.path()).expect("it is there");
    assert!(lines.len() > 100 && expected.contains(",,,"), "some flows were not done");
    assert_eq!(lines, expected.lines().collect::<Vec<_>>());
}

#[test]
fn a_topology_may_come_from_a_file_and_a_workload_in_rounds() {
    let star =
        Scratch::new("star.toml", "kind = \"star\"\nhosts = 9\nhost = { gbps = 25, delay = \"1us\" }\n");
    let found = |workload: &str| {
        let args = ["sim", "fabric", "--topology", star.path(), "--workload", workload, "--count", "64"];
        json(&[&args[..], &["--load", "0.3", "--json"]].concat())
    };
    let incast = found("incast 8");
    assert_eq!(incast["hosts"], 9);
    let slowdown = |found: &Value| found["figures"][0]["slowdown"]["mean"].as_f64().expect("a number");
    assert!(slowdown(&incast) > 2.0, "eight at once wait for each other: {incast}");
    assert!(slowdown(&found("all-to-all 1460")) > 1.0);
}

#[test]
fn a_run_that_ends_in_time_says_what_is_unfinished() {
    let found = json(&["sim", "fabric", "--load", "2", "--duration", "5ms", "--json"]);
    let all = &found["figures"][0];
    assert!(all["unfinished"]["mean"].as_f64() > Some(0.0), "{all}");
}

#[test]
fn a_run_in_which_no_flow_is_done_says_so() {
    let printed =
        text(&fabric(&["--topology", "two-hosts", "--duration", "30us", "--arrivals", "uniform 1000000"]));
    assert!(printed.contains("flow finished in time"), "{printed}");
    assert!(!printed.contains("none times"), "{printed}");
}

//~ cli: `sim thresholds` reports where one level is best
#[test]
fn flows_that_no_threshold_makes_faster_have_none() {
    let printed = text(&greenwave(&["sim", "thresholds", "--workload", "list 1000"]));
    assert!(printed.starts_with("one level: thresholds do not reduce"), "{printed}");
}

//~ cli: `sim fabric` refuses invalid settings with value and remedy before it runs
#[test]
fn what_cannot_be_is_refused_with_its_value_before_anything_runs() {
    let fabric = |args: &[&str], expected: &str| refused(&[&["sim", "fabric"], args].concat(), expected);
    fabric(&["--load", "1"], "load 1 is not below 1");
    fabric(&["--arrivals", "poisson 10000"], "is not below 1");
    fabric(&["--load", "0"], "load \"0\"");
    fabric(&["--load", "0.5", "--arrivals", "poisson 10"], "both set the arrival rate");
    fabric(&["--scheduler", "shark"], "shark");
    fabric(&["--scheduler", "fish,fish"], "scheduler fish is listed twice");
    fabric(&["--workload", "web"], "workload \"web\"");
    fabric(&["--workload", "incast 16"], "incast 16 is outside 1..=15");
    fabric(&["--load", "-1"], "load \"-1\" is not a number above 0");
    fabric(&["--thresholds", "9,3"], "threshold 3 is not above the one before it, 9");
    fabric(&["--buffer-packets", "0"], "buffer_size 0");
    fabric(&["--seeds", "3..1"], "3..1");
    fabric(&["--set", "transport.windw=3"], "windw");
    fabric(&["--set", "room"], "no =");
    for own in ["scheduler=fifo", "seed=7", "flows=3", "buffer_size=9", "occupancy=false"] {
        fabric(&["--set", own], "has its own flag");
    }
    fabric(&["--set", "limt=9"], "unknown field `limt`");
    fabric(&["--duration", "0s"], "limit 0 s is not above 0");
    fabric(&["--topology", "ring"], "topology \"ring\"");
    fabric(&["--multipath", "best"], "best");
    fabric(&["--csv", "no/such/folder/flows.csv"], "No such file");
    fabric(&["--parquet", "no/such/folder/flows.parquet"], "No such file");
    fabric(&["--csv", "twice", "--parquet", "twice"], "twice: one file cannot hold two");
    for (text, expected) in [
        (
            "kind = \"star\"\nhosts = 2\nhost = { gbps = 0, delay = \"1us\" }\n",
            "topology-bad.toml: topology: gbps 0 is outside",
        ),
        (
            "kind = \"star\"\nhosts = 2\nhots = 3\nhost = { gbps = 1, delay = \"1us\" }\n",
            "topology-bad.toml: unknown field `hots`",
        ),
        ("kind = \"star\"\nhosts = 1\nhost = { gbps = 1, delay = \"1us\" }\n", "one host"),
        ("# a star\nkind = star\n", "topology-bad.toml:2: "),
    ] {
        let file = Scratch::new("topology-bad.toml", text);
        fabric(&["--topology", file.path()], expected);
    }
    let flows = Scratch::new("flows-bad.txt", "0 0 1 1000\n0 0 16 1000\n");
    fabric(&["--flow-trace", flows.path()], "flows-bad.txt: line 2: host \"16\" is not in 0..=15");
    let none = Scratch::new("flows-none.txt", "# nothing\n");
    fabric(&["--flow-trace", none.path()], "0 flows are outside 1..=");
    fabric(&["--flow-trace", "no-such-flows"], "no-such-flows: No such file");
    fabric(&["--flow-trace", flows.path(), "--load", "0.5"], "cannot be used with");
    refused(&["sim", "thresholds", "--load", "1"], "load 1 is not below 1");
    refused(&["sim", "thresholds", "--levels", "9"], "9");
}

//~ cli: `sim thresholds` and the built-in egress policy state the same bytes
#[test]
fn the_published_thresholds_are_those_of_the_policy_fish() {
    let found = json(&["sim", "thresholds", "--workload", "websearch", "--load", "0.8", "--json"]);
    let sets = found["sets"].as_array().expect("sets is a list");
    let published = sets.iter().find(|set| set["thresholds"] == "published").expect("a set");
    let policy = greenwave(&["egress", "policy", "fish"]).stdout;
    let policy: toml::Table = String::from_utf8(policy).expect("text").parse().expect("TOML");
    let bytes =
        policy["thresholds"].as_array().expect("a list").iter().map(|n| n.as_integer().expect("bytes"));
    let published = published["bytes"].as_array().expect("a list").iter().map(|n| n.as_i64().expect("bytes"));
    assert_eq!(published.collect::<Vec<_>>(), bytes.collect::<Vec<_>>());
}

//~ fabric: computed thresholds equal the best found by trying all, and are no worse than published ones
//~ cli: `sim thresholds` finds thresholds at least as good as published ones
#[test]
fn thresholds_are_at_least_as_good_as_those_that_were_published() {
    for (workload, load) in [("websearch", "0.8"), ("websearch", "0.5"), ("datamining", "0.8")] {
        let found = json(&["sim", "thresholds", "--workload", workload, "--load", load, "--json"]);
        let sets = found["sets"].as_array().expect("sets is a list");
        let mean = |name: &str| {
            let set = sets.iter().find(|set| set["thresholds"] == name).expect("a set");
            set["mean_us"].as_f64().expect("a number")
        };
        assert!(mean("these") <= mean("published"), "{found}");
        assert!(mean("published") < mean("one level"), "{found}");
        let segments: Vec<u64> =
            sets[0]["segments"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        assert!(
            (1..=7).contains(&segments.len()) && segments.windows(2).all(|pair| pair[0] < pair[1]),
            "{segments:?}"
        );
    }
}
