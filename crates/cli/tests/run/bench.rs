//! What compares an unmodified program on the kernel's TCP and on ours runs, small.

use super::*;

#[test]
fn table_1_runs_small_on_every_stack() {
    let test = "table_1_runs_small_on_every_stack";
    let why = Lab::unavailable();
    if let Some(why) = why.or_else(|| (!host::lab::is_there("lighttpd")).then(|| "no lighttpd".to_owned())) {
        return skipped(test, &why);
    }
    // The library lies beside the program then.
    library();
    let mut command = Command::new(GREENWAVE);
    command.args(["exp", "run", "adps/e5", "--scale", "smoke", "--json"]);
    let out = command.output().expect("it starts");
    let json: serde_json::Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    assert_eq!(json["world"], "host");
    let claims = json["claims"].as_array().expect("a list");
    assert!(claims.iter().all(|claim| claim["holds"] == true), "{json}");
    assert!(!claims.is_empty() && out.status.success(), "{json}");
}
