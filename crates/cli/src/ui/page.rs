//! HTML page of a snapshot, rendered in Rust: tables and two drawings. Its script only fetches the
//! next version; without a script the page reloads itself. One document without external parts.

use std::fmt::Write as _;

use super::snapshot::{Move, Owner, Snapshot};
use super::tables::{self, TitledTable};
use crate::report::escape;
use crate::table::number;

const PAGE: &str = include_str!("page.html");
/// Selectable lengths of the window in seconds; the keys 1 to 4.
pub const WINDOWS_S: [u64; 4] = [1, 10, 30, 60];

/// The page of `snapshot`, requested over `window_s` seconds.
pub fn html(snapshot: &Snapshot, window_s: u64) -> String {
    let links = WINDOWS_S.iter().enumerate().map(|(index, &length)| {
        let current = if length == window_s { " aria-current=\"true\"" } else { "" };
        let key = index + 1;
        format!("<a href=\"/?window={length}\" data-window title=\"key {key}\"{current}>{length} s</a>\n")
    });
    let title = escape(&format!("greenwave {}", snapshot.command));
    PAGE.replace("<!--title-->", &title)
        .replace("<!--windows-->", &links.collect::<String>())
        .replace("<!--main-->", &main(snapshot))
}

fn main(snapshot: &Snapshot) -> String {
    let mut main = format!("\n<h1>{}</h1>\n", escape(&tables::headline(snapshot)));
    if let Some(caution) = tables::caution(snapshot) {
        let _ = writeln!(main, "<p class=\"note\">{}</p>", escape(&caution));
    }
    let _ = writeln!(main, "<p class=\"soft\">{}</p>", escape(&tables::rate(snapshot)));
    main += &throughput(snapshot);
    main += &cores(snapshot);
    for TitledTable { title, table } in tables::sections(snapshot) {
        let _ = write!(main, "<section>\n<h2>{}</h2>\n{}</section>\n", escape(title), table.html());
    }
    main
}

/// Width of drawings, and height of the throughput's, in units that scale to the available space.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 100.0;

/// Throughput and shed connections over the last minute.
fn throughput(snapshot: &Snapshot) -> String {
    let history = &snapshot.history;
    let (Some(first), Some(last)) = (history.first(), history.last()) else { return String::new() };
    if history.len() < 2 {
        return String::new();
    }
    let most = history.iter().map(|point| point.rate.max(point.shed)).fold(0.0, f64::max).max(1e-9);
    let seconds = (last.at_s - first.at_s).max(1e-9);
    let line = |class: &str, of: &dyn Fn(usize) -> f64| {
        let coordinates = history.iter().enumerate().map(|(index, point)| {
            let x = (point.at_s - first.at_s) / seconds * WIDTH;
            format!("{x:.1},{:.1} ", HEIGHT - 1.0 - of(index) / most * (HEIGHT - 2.0))
        });
        format!("<polyline class=\"{class}\" points=\"{}\"/>\n", coordinates.collect::<String>().trim_end())
    };
    let rate = line("rate", &|index| history[index].rate);
    let is_shed = history.iter().any(|point| point.shed > 0.0);
    let shed = if is_shed { line("shed", &|index| history[index].shed) } else { String::new() };
    let words = format!(
        "peak {}/s in the last {seconds:.0} s{}",
        number(most),
        if is_shed { "; red: shed" } else { "" }
    );
    format!(
        "<p class=\"soft\">{}</p>\n\
         <svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"throughput\">\n{rate}{shed}</svg>\n",
        escape(&words)
    )
}

/// An interval of a core's time.
#[derive(Clone, Debug, PartialEq)]
struct Piece<'a> {
    from_s: f64,
    to_s: f64,
    holder: &'a str,
    why: &'a str,
}

/// Holders of `owner`'s core over the window, in order.
fn pieces<'a>(owner: &'a Owner, moves: &'a [Move], begin_s: f64, end_s: f64) -> Vec<Piece<'a>> {
    let mut pieces: Vec<Piece<'a>> = Vec::new();
    let its = || moves.iter().filter(|moved| moved.core == owner.core);
    let now = owner.task.as_deref().unwrap_or(&owner.how);
    let mut piece = Piece { from_s: begin_s, to_s: end_s, holder: now, why: "" };
    if let Some(first) = its().next() {
        piece.holder = &first.from;
    }
    for moved in its() {
        pieces.push(Piece { to_s: moved.at_s, ..piece.clone() });
        piece = Piece { from_s: moved.at_s, to_s: end_s, holder: &moved.to, why: &moved.why };
    }
    pieces.push(piece);
    pieces.retain(|piece| piece.to_s > piece.from_s);
    pieces
}

/// Core assignment over time.
fn cores(snapshot: &Snapshot) -> String {
    let Snapshot { owners, moves, at_s, silent_s, window_s, .. } = snapshot;
    let end_s = at_s - silent_s;
    let (begin_s, seconds) = (end_s - window_s, window_s.max(1e-9));
    if owners.is_empty() {
        return String::new();
    }
    let mut names: Vec<&str> = Vec::new();
    let mut rows = String::new();
    for owner in owners {
        let core = owner.core;
        let _ = write!(
            rows,
            "<div class=\"core\"><span>{core}</span><svg viewBox=\"0 0 {WIDTH} 1\" \
             preserveAspectRatio=\"none\" role=\"img\" aria-label=\"core {core}\">"
        );
        for Piece { from_s, to_s, holder, why } in pieces(owner, moves, begin_s, end_s) {
            let class = colour(&mut names, holder);
            let (x, width) = ((from_s - begin_s) / seconds * WIDTH, (to_s - from_s) / seconds * WIDTH);
            let words = format!("core {core}: {holder} for {:.3} s; {why}", to_s - from_s);
            let _ = write!(
                rows,
                "<rect class=\"{class}\" x=\"{x:.1}\" width=\"{:.1}\" height=\"1\"><title>{}</title></rect>",
                width.max(0.5),
                escape(words.trim_end_matches("; "))
            );
        }
        rows += "</svg></div>\n";
    }
    let keys: String = names.iter().enumerate().map(|(index, name)| key(class_of(index), name)).collect();
    let lost = match snapshot.moves_lost {
        0 => String::new(),
        lost => format!("; {lost} earlier moves not shown"),
    };
    let no_task = key("none", "no task");
    format!(
        "<h2>Core assignment, last {window_s:.0} s</h2>\n{rows}<p class=\"soft\">{keys}{no_task}{lost}</p>\n"
    )
}

/// Legend entry: a patch in the colour of `class`, and its name.
fn key(class: &str, name: &str) -> String {
    let patch = format!("<svg viewBox=\"0 0 1 1\"><rect class=\"{class}\" width=\"1\" height=\"1\"/></svg>");
    format!("<span class=\"key\">{patch}</span>{}", escape(name))
}

/// The class of `holder`'s colour; `names` are the tasks so far.
fn colour<'a>(names: &mut Vec<&'a str>, holder: &'a str) -> &'static str {
    if ["free", "shared"].contains(&holder) {
        return "none";
    }
    let index = names.iter().position(|name| *name == holder).unwrap_or_else(|| {
        names.push(holder);
        names.len() - 1
    });
    class_of(index)
}

const fn class_of(index: usize) -> &'static str {
    ["c0", "c1", "c2", "c3", "c4", "c5"][index % 6]
}

//~ views: the page is self-contained and escapes names; slow or invalid clients block no other
#[cfg(test)]
mod tests;
