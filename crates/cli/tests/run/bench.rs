//! Small runs of the comparison of unmodified programs on the kernel's TCP and on ours: each server
//! answers on every stack.

use super::*;

//~ programs: the comparison of servers on each stack (`bench programs`) runs small
#[test]
fn the_benchmark_of_programs_runs_small_on_every_stack() {
    let test = "the_benchmark_of_programs_runs_small_on_every_stack";
    if let Some(why) = NetLab::unavailable() {
        return skipped(test, &why);
    }
    let mut command = Command::new(GREENWAVE);
    // The others only by hand: each starts slowly, three times.
    command.args(["bench", "programs", "--scale", "smoke", "--programs", "lighttpd,redis-server"]);
    command.args(["--json", "--lib"]).arg(library());
    let out = command.output().expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("--json prints JSON");
    let rows = json["rows"].as_array().expect("rows");
    let missing = json["missing"].as_array().expect("a list");
    for missing in missing {
        let why = missing["not_run"].as_str().expect("a reason");
        assert!(why.contains("is not installed"), "{missing}");
        skipped(test, &format!("its part with {}: {why}", missing["program"]));
    }
    // A server without answers has no rows. A busy machine may starve it in a very short case.
    for stack in ["kernel", "greenwave-none", "greenwave-adps"] {
        for program in ["lighttpd", "redis-server"] {
            let has_row = rows.iter().any(|row| row["stack"] == stack && row["program"] == program);
            assert!(has_row || missing.iter().any(|row| row["program"] == program), "{program}, {stack}");
        }
    }
    assert!(rows.iter().all(|row| row["broken"] == 0), "{json}");
}

//~ shards: `bench cores` runs small on two cores
#[test]
fn the_benchmark_of_cores_runs_small_on_two_of_them() {
    let test = "the_benchmark_of_cores_runs_small_on_two_of_them";
    if let Some(why) = NetLab::unavailable() {
        return skipped(test, &why);
    }
    let mut command = Command::new(GREENWAVE);
    command.args(["bench", "cores", "--scale", "smoke", "--cores", "2", "--json", "--lib"]).arg(library());
    let out = command.output().expect("it starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).expect("--json prints JSON");
    schema::conforms(&json);
    let rows = json["rows"].as_array().expect("rows");
    let of = |row: &serde_json::Value| {
        [&row["server"], &row["stack"]].map(|name| name.as_str().map(str::to_owned))
    };
    let names: Vec<_> = rows.iter().flat_map(of).flatten().collect();
    let all = ["echo-64", "nginx", "memcached"].map(|name| [name, "kernel", name, "greenwave"]).concat();
    assert_eq!(names, all);
    for row in rows {
        match row["not_run"].as_str() {
            Some(why) => {
                assert!(why == "the program is not installed" && row["server"] != "echo-64", "{row}");
                skipped(test, &format!("its part with {}: {why}", row["server"]));
            }
            None => assert_eq!((&row["cores"], &row["broken"]), (&2.into(), &0.0.into()), "{row}"),
        }
    }
    let answered = |row: &serde_json::Value| row["answers_per_s"].as_f64().is_some_and(|rate| rate > 0.0);
    assert!(rows.iter().all(|row| answered(row) || row["not_run"].is_string()), "{json:#}");
}

//~ programs: the matrix of programs (`bench matrix`) reports what works and what fails
#[test]
fn the_matrix_says_what_works_and_what_does_not() {
    let test = "the_matrix_says_what_works_and_what_does_not";
    let why = NetLab::unavailable();
    if let Some(why) = why.or_else(|| (!netlab::is_installed("lighttpd")).then(|| "no lighttpd".to_owned())) {
        return skipped(test, &why);
    }
    let matrix = |lib: &Path, features: &str| {
        let mut command = Command::new(GREENWAVE);
        command.args(["bench", "matrix", "--programs", "lighttpd", "--features", features]);
        let out = command.args(["--json", "--lib"]).arg(lib).output().expect("it starts");
        let json: serde_json::Value = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
        let results = json["rows"].as_array().expect("rows").iter().map(|row| row["result"].to_string());
        (out.status.code(), results.collect::<Vec<_>>().join(" "), json)
    };
    let (code, results, json) = matrix(library(), "serves,kill,suite");
    assert_eq!(results, r#""works" "works" "not applicable""#, "{json:#}");
    assert_eq!((code, &json["holds"]), (Some(0), &true.into()));
    // The loader ignores a file that is no library, and no host has our address.
    let (code, results, json) = matrix(&Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"), "serves");
    let results = (results.as_str(), &json["holds"]);
    assert_eq!((code, results), (Some(1), (r#""fails""#, &false.into())), "{json:#}");
}

//~ adps: Table 1 (lighttpd, near and far users) runs small on every stack
#[test]
fn table_1_runs_small_on_every_stack() {
    let test = "table_1_runs_small_on_every_stack";
    let why = NetLab::unavailable();
    if let Some(why) = why.or_else(|| (!netlab::is_installed("lighttpd")).then(|| "no lighttpd".to_owned())) {
        return skipped(test, &why);
    }
    // The library then lies beside the program.
    library();
    let mut command = Command::new(GREENWAVE);
    command.args(["exp", "run", "adps/e5", "--scale", "smoke", "--json"]);
    let out = command.output().expect("it starts");
    let json: serde_json::Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    assert_eq!(json["world"], "host");
    let claims = json["claims"].as_array().expect("a list");
    assert!(claims.iter().all(|claim| claim["verdict"] == "holds"), "{json}");
    assert!(!claims.is_empty() && out.status.success(), "{json}");
}
