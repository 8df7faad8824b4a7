//! The page is self-contained, and no name becomes markup.

use super::super::fixture::{at, sched, serve};
use super::*;

#[test]
fn the_page_is_self_contained_and_readable_without_scripts() {
    let html = html(&serve(12).snapshot(at(12.0), 10), 10);
    for foreign in ["http:", "https:", "<link", "@import", "src=", "url("] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    assert!(!html.contains("<!--"), "a place that was not filled");
    let before_script = html.split("<script>").next().expect("a beginning");
    for part in
        ["<noscript><meta http-equiv=\"refresh\"", "<td class=\"word\">event</td>", "polyline class=\"shed\""]
    {
        assert!(before_script.contains(part), "{part} in {before_script}");
    }
    assert!(html.contains("data-window title=\"key 2\" aria-current=\"true\">10 s"), "{html}");
}

#[test]
fn a_task_s_name_is_text() {
    let html = html(&sched().snapshot(at(2.0), 10), 10);
    assert!(html.contains("&lt;batch&gt;") && !html.contains("<batch>"), "{html}");
}

#[test]
fn a_core_s_timeline_is_split_at_reassignments() {
    let snapshot = sched().snapshot(at(2.0), 1);
    let of = |owner| -> Vec<(f64, f64, &str)> {
        let pieces = pieces(owner, &snapshot.moves, 1.0, 2.0);
        pieces.into_iter().map(|piece| (piece.from_s, piece.to_s, piece.holder)).collect()
    };
    assert_eq!(of(&snapshot.owners[0]), [(1.0, 2.0, "memcached")]);
    let second = [(1.0, 1.5, "<batch>"), (1.5, 1.75, "memcached"), (1.75, 2.0, "<batch>")];
    assert_eq!(of(&snapshot.owners[1]), second);
}

//~ views: the slowest requests of the window show where they waited
#[test]
fn a_request_s_path_is_text() {
    let html = html(&serve(3).snapshot(at(3.0), 10), 10);
    assert!(html.contains("GET /&lt;pay&gt;/by-a-") && !html.contains("<pay>"), "{html}");
}
