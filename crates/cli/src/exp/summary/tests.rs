//! Tests of the summary table, its page and its record.

use serde_json::json;

use super::*;

fn result(name: &str, holds: bool) -> Value {
    json!({
        "experiment": name, "source": "Fig. 1", "world": "sim", "machine": null, "scale": "paper", "seed": 7, "runs": 3,
        "claims": [{
            "id": "p99", "paper": 2.0, "ours": 3.0, "interval": 0.1, "bound": "<= 4", "holds": holds,
            "why": if holds { Value::Null } else { json!("the link is slower") },
        }],
    })
}

//~ cli: a failed claim is shown with its reason
//~ results: the table of all claims has three kinds of verdicts, and the runs that an undecided claim needs
#[test]
fn each_claim_is_a_row_and_a_failed_one_has_its_reason() {
    let mut overview = Overview::default();
    overview.add(result("a/one", true)).unwrap();
    let mut two = result("b/two", false);
    let mut other = two["claims"][0].clone();
    other["id"] = json!("p999");
    let undecided = json!({
        "id": "p50", "paper": 2.0, "ours": 3.9, "interval": 0.2, "bound": "<= 4", "holds": false,
        "verdict": "undecided", "why": null,
    });
    two["claims"].as_array_mut().unwrap().extend([other, undecided]);
    overview.add(two).unwrap();
    overview.add_missing("b/three", &Error::new("no nginx").advice("apt-get install nginx-light"));
    let expected = "\
experiment  claim  paper  ours      ±  ours/paper  bound    verdict
a/one       p99     2.00  3.00  0.100        1.50   <= 4      holds
b/two       p99     2.00  3.00  0.100        1.50   <= 4      FAILS
b/two       p999    2.00  3.00  0.100        1.50   <= 4      FAILS
b/two       p50     2.00  3.90  0.200        1.95   <= 4  undecided
  b/two p99, p999: the link is slower
  b/two p50: undecided: about 2 more runs than the 3 would decide
  b/three could not run: error: no nginx;  try: apt-get install nginx-light

1 of 4 claims hold, 2 fail, 1 is undecided in 2 experiments; 1 could not run
";
    assert_eq!(overview.text(), expected);
}

//~ cli: a failed claim is shown with its reason
#[test]
fn the_reason_of_a_failure_is_from_the_experiment_s_present_file() {
    let mut overview = Overview::default();
    let mut old = result("platform/green", false);
    old["claims"][0]["id"] = json!("tail-idle");
    overview.add(old).unwrap();
    let text = overview.text();
    assert!(
        text.contains("platform/green p999-off-over-on-idle: a kernel that takes cores from BE at once"),
        "{text}"
    );
}

//~ cli: `exp table --markdown` names date, seed and machine of each row
#[test]
fn a_page_gives_the_origin_of_each_row() {
    let mut overview = Overview::default();
    let mut dated = result("a/one", true);
    dated["date"] = json!("2026-11-21");
    dated["machine"] = json!("2 cores");
    overview.add(dated).unwrap();
    let page = overview.markdown(None);
    assert!(page.contains("| a/one | p99 | 2.00 | 3.00 | 0.100 | 1.50 | <= 4 | holds |"), "{page}");
    let origin = "| a/one | Fig. 1 | world sim, scale paper, seed 7, 3 runs, 2026-11-21, 2 cores |";
    assert!(page.contains(origin), "{page}");
}

//~ results: the page of results begins with figures to quote, each with its command
#[test]
fn a_page_begins_with_figures_to_quote() {
    let mut overview = Overview::default();
    let mut quoted = result("adps/fig5", true);
    quoted["claims"][0]["id"] = json!("adps-over-none");
    overview.add(quoted).unwrap();
    let page = overview.markdown(None);
    let lines = "\n\n- 1 of 1 claims hold in 1 experiments\n- p99 of urgent requests, with priorities ÷ \
                 without: **3.00 ± 0.100** (`greenwave exp run adps/fig5 --scale paper`)\n\n`greenwave exp table";
    assert!(page.contains(lines), "{page}");
}

#[test]
fn a_page_shows_the_figures_that_are_written_beside_it() {
    let mut overview = Overview::default();
    let mut with_plots = result("a/one", true);
    with_plots["plots"] = json!([
        {"plot": "bars", "title": "p99 of LS", "unit": "µs", "bars": [{"name": "adps", "parts": [["p99", 3.0]]}]},
        {"plot": "cdf", "title": "Latency", "series": [{"name": "adps", "points": [[3.0, 1.0]]}]},
    ]);
    overview.add(with_plots).unwrap();
    overview.add(result("b/none", true)).unwrap();
    let folder = std::env::temp_dir().join(format!("greenwave-results-{}", std::process::id()));
    assert_eq!(overview.write(&folder), Ok(4));
    let page = std::fs::read_to_string(folder.join("results.md")).unwrap();
    let svg = |name: &str| std::fs::read_to_string(folder.join("results").join(name)).unwrap();
    assert!(svg("a-one.svg").starts_with("<svg") && svg("a-one-2.svg").contains("Latency"));
    std::fs::remove_dir_all(&folder).unwrap();
    let figures = "\n## a/one\n![p99 of LS](results/a-one.svg)\n![Latency](results/a-one-2.svg)\n";
    assert!(page.ends_with(figures), "{page}");
}

//~ results: experiments that are not run again keep their recorded rows
#[test]
fn results_of_experiments_that_are_not_run_again_stay_as_recorded() {
    let folder = std::env::temp_dir().join(format!("greenwave-record-{}", std::process::id()));
    let with_plot = |name: &str, holds| {
        let mut result = result(name, holds);
        let bars = json!([{"name": "adps", "parts": [["p99", 3.0]]}]);
        result["plots"] = json!([{"plot": "bars", "title": "p99 of LS", "unit": "µs", "bars": bars}]);
        result["date"] = json!("2026-11-21");
        result
    };
    let page = |results: &[(&str, bool)]| {
        let mut overview = Overview::default();
        results.iter().for_each(|&(name, holds)| overview.add(with_plot(name, holds)).unwrap());
        overview.write(&folder).unwrap();
        std::fs::read_to_string(folder.join("results.md")).unwrap()
    };
    let whole = page(&[("adps/fig1", true), ("fish/fig2", false)]);
    assert_eq!(page(&[("fish/fig2", false)]), whole, "the other experiment's rows are kept");
    let changed = page(&[("fish/fig2", true)]);
    assert!(changed.contains("2 of 2 claims hold in 2 experiments"), "{changed}");
    let page_unshipped = page(&[("not/shipped", true)]);
    assert!(page_unshipped.contains("3 of 3"), "{page_unshipped}");
    assert!(!page(&[("fish/fig2", true)]).contains("not/shipped"), "no longer a shipped experiment");
    std::fs::write(folder.join("results/record.json"), "[{}]").unwrap();
    let mut overview = Overview::default();
    overview.add(with_plot("fish/fig2", true)).unwrap();
    let error = overview.write(&folder).unwrap_err().to_string();
    assert!(error.contains("record.json is not a record of results"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

//~ results: results of earlier versions are judged again by their value, interval and bound
#[test]
fn a_record_of_an_earlier_version_is_judged_again() {
    let folder = std::env::temp_dir().join(format!("greenwave-rejudged-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("results")).unwrap();
    let mut old = result("fish/fig2", true);
    old["claims"][0]["interval"] = json!(1.5);
    std::fs::write(folder.join("results/record.json"), json!([old]).to_string()).unwrap();
    assert_eq!(Overview::default().write(&folder), Ok(2), "from the record alone");
    let page = std::fs::read_to_string(folder.join("results.md")).unwrap();
    assert!(page.contains("| <= 4 | undecided |"), "{page}");
    assert!(page.contains("* fish/fig2 p99: undecided: about 1 more run than the 3 would decide"), "{page}");
    let record = std::fs::read_to_string(folder.join("results/record.json")).unwrap();
    assert!(record.contains(r#""holds":false,"verdict":"undecided""#), "{record}");
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(Overview::default().write(&folder).is_err(), "nothing to write");
}

#[test]
fn an_object_without_the_keys_of_a_result_is_refused() {
    assert!(Overview::default().add(json!({"experiment": "a/one"})).is_err());
}
