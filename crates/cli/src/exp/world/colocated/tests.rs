//! Tests that need no program.

use super::super::line;
use super::*;

const TEXT: &str = r#"
    lc = "memcached"
    be = "stream-dram"
    rate = 1000.0
    warmup = "1s"
    duration = "2s"
"#;

fn config(more: &str) -> Result<Config, String> {
    let mut table: Table = toml::from_str(&format!("{TEXT}{more}")).map_err(|e| line(&e))?;
    table.entry("sharing").or_insert_with(|| Value::String("linux".to_owned()));
    checked(table, Config::check)
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    assert!(config("").is_ok());
    let check = |more: &str, says: &str| {
        let error = config(more).expect_err(more);
        assert!(error.contains(says), "{says:?} is not in {error:?}");
    };
    check("be_share = 1", "be_share 1 is outside 0.05..=0.95");
    check("connections = 0", "connections 0 is outside 1..=10000");
    check("tail_target = \"0ms\"", "tail_target in seconds 0 is outside");
    check(
        "sharing = \"shared\"",
        "`alone`, `linux`, `idle`, `static`, `parties`, `caladan`, `caladan-runtime`",
    );
    check("threads = 3", "threads");
}

#[test]
fn a_mode_is_a_way_to_share_and_every_plan_is_valid() {
    let text: Table = toml::from_str(TEXT).unwrap();
    for mode in ["alone", "linux", "idle", "static", "parties", "caladan"] {
        assert!(prepare(mode, text.clone()).is_ok(), "{mode}");
    }
    assert!(prepare("numa", text.clone()).is_err());
    // Only a program on greenwave's runtime publishes its queueing delay.
    for (lc, refused) in [
        ("storage", None),
        ("tpcc", None),
        ("memcached", Some("memcached does not run on greenwave's runtime")),
    ] {
        let mut text = text.clone();
        text.insert("lc".to_owned(), Value::String(lc.to_owned()));
        let error = prepare("caladan-runtime", text).err();
        assert_eq!(error.is_some(), refused.is_some(), "{lc}: {error:?}");
        assert!(error.zip(refused).is_none_or(|(error, says)| error.ends_with(says)), "{lc}");
    }
    for lc in [Critical::Memcached, Critical::Storage, Critical::Tpcc] {
        let plan = Config { lc, ..config("").unwrap() }.plan();
        assert_eq!(plan.validate(), Ok(()), "{lc:?}");
        assert_eq!(plan.duration, Some(Span::from_secs(3)));
    }
}
