//! Comparisons as tables of 80 columns, and as an HTML page.

use std::fmt::Write as _;

use super::{ClaimChange, Comparison, Difference, Measure, Method};
use crate::report::html::{self, Section, folded};
use crate::report::plot::Plot;
use crate::report::run::ParsedResult;
use crate::table::{Table, in_unit, number_or_dash};
use crate::verdict::ClaimVerdict;

/// Largest width of a claim's or a row's name on a terminal.
const CLAIM_WIDTH: usize = 24;
const ROW_WIDTH: usize = 40;
/// Maximum number of metrics, and of settings, shown for each pair on a terminal.
const FIGURES_MAX: usize = 12;
const SETTINGS_MAX: usize = 5;

/// Terminal text: claims, the figures with the largest changes, and one closing line.
#[must_use]
pub fn text(comparisons: &[Comparison], unpaired: &[String]) -> String {
    let mut text = String::new();
    for compared in comparisons {
        let _ = writeln!(text, "{}", compared.a.name);
        for (label, run) in [("A", &compared.a), ("B", &compared.b)] {
            let _ = writeln!(text, "{label}: {}", origin(run));
            if let Some(machine) = &run.header.machine {
                let _ = writeln!(text, "   {machine}");
            }
        }
        for (path, a, b) in compared.settings.iter().take(SETTINGS_MAX) {
            let _ = writeln!(text, "{}", cut(&format!("setting {path}: {a} in A, {b} in B"), 80));
        }
        if compared.settings.len() > SETTINGS_MAX {
            let _ = writeln!(text, "and {} more settings differ", compared.settings.len() - SETTINGS_MAX);
        }
        if !compared.claims.is_empty() {
            let _ = write!(text, "\n{}", claims(compared, false));
        }
        let shown = if has_intervals(compared) { significant(compared) } else { quantiles(compared) };
        if !shown.is_empty() {
            let _ = write!(text, "\n{}", figures(shown.iter().take(FIGURES_MAX).copied(), ROW_WIDTH));
        }
        let _ = writeln!(text, "\n{}\n", method_note(compared));
    }
    unpaired.iter().for_each(|line| text.extend([line.as_str(), "\n"]));
    text + &closing(comparisons) + "\n"
}

/// HTML page with all comparisons.
#[must_use]
pub fn page(comparisons: &[Comparison], unpaired: &[String]) -> String {
    let mut lines = vec![closing(comparisons)];
    lines.extend(unpaired.iter().cloned());
    let mut sections = vec![Section::text("", &lines.join("\n"))];
    for compared in comparisons {
        let with_machine = |run: &ParsedResult| {
            let machine = run.header.machine.as_ref().map_or(String::new(), |machine| format!(", {machine}"));
            origin(run) + &machine
        };
        let [a, b] = [&compared.a, &compared.b].map(with_machine);
        let pairs = [("A", a), ("B", b), ("found", method_note(compared))];
        let mut body = Section::pairs("", &pairs).body;
        if !compared.claims.is_empty() {
            body += &Section::new("Claims", claims(compared, true).html()).inner();
        }
        body += &compared.plots().iter().map(Plot::html).collect::<String>();
        let significant = significant(compared);
        if !significant.is_empty() {
            let table = figures(significant.iter().copied(), usize::MAX);
            body += &Section::new("Figures that differ beyond their interval", table.html()).inner();
        }
        if !compared.figures.is_empty() {
            let all = figures(compared.figures.iter(), usize::MAX);
            body += &folded(&format!("all {} figures", all.len()), &all.html());
        }
        if !compared.settings.is_empty() {
            let mut table = Table::new(3, &["setting", "A", "B"]);
            for (path, a, b) in &compared.settings {
                table.row([path, a, b].map(String::clone).to_vec());
            }
            body += &Section::new("Settings that differ", table.html()).inner();
        }
        sections.push(Section::new(compared.b.title.clone(), body));
    }
    html::page("Two runs of greenwave, compared", &sections)
}

/// Origin of a run, in one line.
fn origin(run: &ParsedResult) -> String {
    let header = &run.header;
    let seed = header.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
    let facts = run.facts.iter().filter(|(name, _)| ["scale", "runs"].contains(&name.as_str()));
    let facts: String = facts.map(|(name, value)| format!(", {name} {value}")).collect();
    format!("greenwave {}, {}, world {}{seed}{facts}", header.version, header.date, header.world)
}

/// Table of claims; a page has space for whole names and for bounds.
fn claims(compared: &Comparison, for_page: bool) -> Table {
    let (width, bound) = if for_page { (usize::MAX, &["bound"][..]) } else { (CLAIM_WIDTH, &[][..]) };
    let columns = ["A", "B", "B/A", "±", "differs", "verdict"];
    let mut table = Table::new(1, &[&["claim"][..], bound, &columns].concat());
    for claim in &compared.claims {
        let mut row = vec![cut(&claim.id, width)];
        row.extend(for_page.then(|| claim.bound.clone()));
        row.extend(claim.values.map(number_or_dash));
        row.extend(cells(claim.difference));
        row.push(claim.verdict.words().to_owned());
        table.row(row);
    }
    table
}

fn figures<'a>(measures: impl Iterator<Item = &'a Measure>, width: usize) -> Table {
    let mut table = Table::new(1, &["figure", "A", "B", "B/A", "±", "differs"]);
    for measure in measures {
        let (name, unit) = &measure.column;
        let (before, after) = if measure.row.is_empty() { ("", "") } else { (measure.row.as_str(), " ") };
        let unit_after = if ["", "1"].contains(&unit.as_str()) { String::new() } else { format!(", {unit}") };
        let name = cut(&format!("{before}{after}{name}{unit_after}"), width);
        let [a, b] = measure.values.map(|value| in_unit(unit, value));
        table.row([&[name, a, b][..], &cells(Some(measure.difference))].concat());
    }
    table
}

/// B/A, half its interval, and its significance.
fn cells(difference: Option<Difference>) -> [String; 3] {
    let differs = match difference.and_then(|difference| difference.differs) {
        Some(true) => "yes",
        Some(false) => "no",
        None => "–",
    };
    [
        number_or_dash(difference.and_then(|d| d.ratio)),
        number_or_dash(difference.and_then(|d| d.half)),
        differs.to_owned(),
    ]
}

/// Figures that differ significantly, the largest change first.
fn significant(compared: &Comparison) -> Vec<&Measure> {
    let mut significant: Vec<&Measure> =
        compared.figures.iter().filter(|measure| measure.difference.differs == Some(true)).collect();
    // A change from zero counts as the largest.
    let step = |measure: &Measure| match measure.difference.ratio {
        Some(ratio) if ratio > 0.0 => ratio.ln().abs(),
        _ => f64::INFINITY,
    };
    significant.sort_by(|a, b| step(b).total_cmp(&step(a)));
    significant
}

/// True if any figure has an interval.
fn has_intervals(compared: &Comparison) -> bool {
    compared.figures.iter().any(|measure| measure.difference.differs.is_some())
}

/// Quantiles of all rows, for runs without intervals: p99 first, then the others in their order; all
/// figures where there are no quantiles.
fn quantiles(compared: &Comparison) -> Vec<&Measure> {
    let is_quantile =
        |name: &str| name.strip_prefix('p').is_some_and(|rest| rest.starts_with(char::is_numeric));
    let all = || compared.figures.iter();
    let mut shown: Vec<&Measure> = all().filter(|measure| is_quantile(&measure.column.0)).collect();
    // Stable: rows keep their order.
    shown.sort_by_key(|measure| measure.column.0 != "p99");
    if shown.is_empty() { all().collect() } else { shown }
}

/// Method of judging differences, and the number of differences expected by chance.
fn method_note(compared: &Comparison) -> String {
    let all = || {
        let of_claims = compared.claims.iter().filter_map(|claim| claim.difference);
        of_claims.chain(compared.figures.iter().map(|measure| measure.difference))
    };
    let count = |method| all().filter(|difference| difference.method == method).count();
    let with_interval = all().filter(|difference| difference.differs.is_some()).count();
    let differ = all().filter(|difference| difference.differs == Some(true)).count();
    if with_interval == 0 {
        return "only one run each: no confidence intervals, so these differences cannot be judged"
            .to_owned();
    }
    let methods = [
        (Method::Seed, "paired by seed"),
        (Method::Welch, "by Welch"),
        (Method::Nothing, "without an interval"),
    ];
    let methods: Vec<_> = methods.into_iter().filter(|(method, _)| count(*method) > 0).collect();
    let methods: Vec<_> =
        methods.into_iter().map(|(method, words)| format!("{} {words}", count(method))).collect();
    format!(
        "{differ} of {with_interval} figures differ beyond their 95 % interval (chance alone: about {});\n\
         {}\n±: half the interval of B - A, over A",
        with_interval / 20,
        methods.join(", ")
    )
}

/// Words of all changes, in the order of the closing line.
const CHANGES: [&str; 9] = [
    ClaimChange::Both(ClaimVerdict::Holds).words(),
    ClaimChange::Now { verdict: ClaimVerdict::Holds, was: ClaimVerdict::Fails }.words(),
    ClaimChange::Now { verdict: ClaimVerdict::Fails, was: ClaimVerdict::Holds }.words(),
    ClaimChange::Both(ClaimVerdict::Fails).words(),
    ClaimChange::Now { verdict: ClaimVerdict::Undecided, was: ClaimVerdict::Holds }.words(),
    ClaimChange::Both(ClaimVerdict::Undecided).words(),
    ClaimChange::OnlyInA.words(),
    ClaimChange::OnlyInB.words(),
    ClaimChange::NotMeasured.words(),
];

fn closing(comparisons: &[Comparison]) -> String {
    let claims = || comparisons.iter().flat_map(|compared| &compared.claims);
    let count = |words: &str| claims().filter(|claim| claim.verdict.words() == words).count();
    let counted = CHANGES.into_iter().filter(|words| count(words) > 0);
    let counted: Vec<_> = counted.map(|words| format!("{} {words}", count(words))).collect();
    if counted.is_empty() { "no claims".to_owned() } else { format!("claims: {}", counted.join(", ")) }
}

/// `text` truncated to `width` characters.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}
