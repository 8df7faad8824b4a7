//! Tables contain the figures, and fit.

use super::super::fixture::{at, sched, serve};
use super::*;

fn titles(snapshot: &Snapshot) -> Vec<&'static str> {
    sections(snapshot).iter().map(|section| section.title).collect()
}

#[test]
fn a_server_s_tables_show_waits_and_shed_connections_by_class() {
    let text = text(&serve(12).snapshot(at(12.0), 10));
    let row = |begin: &[&str]| {
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let begins = |cells: &Vec<String>| {
            cells.len() > begin.len() && cells.iter().zip(begin).all(|(cell, word)| cell == word)
        };
        text.lines().map(cells).find(begins)
    };
    assert!(text.starts_with("greenwave serve, http on tap:gw0 port 80, mode learned; process "), "{text}");
    assert!(text.contains("1000 responses a second, 5.00 shed, over 10 s"), "{text}");
    let waits = row(&["7", "event"]).expect("class 7 waited");
    assert_eq!(waits[2], "100", "as many a second: {text}");
    assert_eq!(row(&["tap:gw0", "7"]).expect("a guard")[2..], ["240", "20.0", "5.00", "60"], "{text}");
    assert_eq!(row(&["event", "3"]).expect("a queue").len(), 3, "{text}");
    assert_eq!(row(&["dropped", "late"]).expect("a counter")[2..], ["12", "1.00"], "{text}");
}

#[test]
fn a_scheduler_s_tables_show_core_assignments_with_reasons() {
    let snapshot = sched().snapshot(at(2.0), 10);
    assert_eq!(titles(&snapshot), ["Tasks", "Cores", "Core moves", "Counters"]);
    let text = text(&snapshot);
    let first = text.lines().skip_while(|line| !line.starts_with("s ago")).nth(1).expect("a move");
    assert_eq!(first, "0.25   1     memcached  <batch>    memcached returned it", "{text}");
}

#[test]
fn no_line_of_the_text_is_wider_than_80_columns() {
    for (live, now) in [(serve(70), 70.0), (sched(), 2.0)] {
        let text = text(&live.snapshot(at(now), 60));
        let wide: Vec<&str> = text.lines().skip(1).filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:#?}");
    }
}

#[test]
fn old_figures_say_so() {
    let live = serve(3);
    assert_eq!(caution(&live.snapshot(at(3.5), 10)), None);
    let text = caution(&live.snapshot(at(60.0), 10)).expect("a caution");
    assert!(text.starts_with("serve has sent no update for 57 s"), "{text}");
}

#[test]
fn the_highest_of_a_sparkline_is_the_tallest_and_the_latest_stands_last() {
    assert_eq!(sparkline([9.0, 0.0, 3.5, 7.0].into_iter(), 3), "▁▅█");
    assert_eq!(sparkline([0.0, 0.0].into_iter(), 5), "▁▁");
    assert_eq!(sparkline([].into_iter(), 5), "");
}

//~ views: the slowest requests of the window show where they waited
#[test]
fn the_slowest_requests_of_the_window_show_their_stages() {
    let snapshot = serve(12).snapshot(at(12.0), 10);
    let section = sections(&snapshot).into_iter().find(|section| section.title == "Slow requests, µs");
    let text = section.expect("there are some").table.to_string();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["s", "ago", "class", "request", "total", "nic", "tcp", "event", "service", "out"]);
    assert_eq!(rows[1][..4], ["0.5", "7", "GET", "/<pay>/by-a-car…"], "{text}");
    assert_eq!(rows[1][5..], ["12", "0.40", "96000", "15", "0"], "{text}");
    assert_eq!(rows.len(), 1 + 8, "{text}");
    assert!(snapshot.slow.iter().all(|request| request.class == 7), "the slowest of all");
    let one = serve(1).snapshot(at(1.0), 1);
    let text = super::text(&one);
    assert!(text.lines().any(|line| line.contains("  gone: GET /<pay>/by…")), "{text}");
}
