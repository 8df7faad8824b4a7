//! HTML page of one run or of several: claims first, then plots and figures, then the settings to
//! repeat it.

use super::html::{Section, anchor, escape, folded, page};
use super::plot::Plot;
use super::run::{CheckedClaim, ParsedResult};
use super::tables::{ResultFigure, ResultTable};
use crate::bound::margin_in_words;
use crate::table::{Table, in_unit, number_or_dash, with_half};
use crate::verdict::{ClaimVerdict, VerdictCounts, more_runs_in_words};

/// Number of rows above which a table is folded.
const ROWS_OPEN_MAX: usize = 40;
/// Largest number of values shown for one setting.
const VALUES_MAX: usize = 8;

/// Page of `runs`, which is not empty.
#[must_use]
pub fn of(runs: &[ParsedResult]) -> String {
    match runs {
        [run] => page(&run.title, &[vec![lead(run)], sections(run)].concat()),
        several => page("Runs of greenwave", &articles(several)),
    }
}

/// Number of the runs' claims by verdict, in one line; those without a figure are not met.
#[must_use]
pub fn score(runs: &[ParsedResult]) -> String {
    let counts: VerdictCounts = runs.iter().flat_map(ParsedResult::verdicts).collect();
    let not_measured = runs.iter().map(|run| run.claims.len()).sum::<usize>() - counts.all();
    match (counts.all(), not_measured) {
        (0, 0) => "no claims".to_owned(),
        (_, 0) => counts.to_string(),
        (_, missing) => format!("{counts}; {missing} more not measured"),
    }
}

/// Several runs: a list of links, all claims, then each run.
fn articles(runs: &[ParsedResult]) -> Vec<Section> {
    let id = |number: usize, run: &ParsedResult| format!("run-{}-{}", number + 1, anchor(&run.name));
    let link = |(number, run): (usize, &ParsedResult)| {
        let (id, title) = (id(number, run), escape(&run.title));
        format!(
            "<li><a href=\"#{id}\">{title}</a>: {}, {}</li>\n",
            escape(&run.name),
            score(std::slice::from_ref(run))
        )
    };
    let links: String = runs.iter().enumerate().map(link).collect();
    let mut sections =
        vec![Section::new("", format!("<p>{}</p>\n<nav>\n<ul>\n{links}</ul>\n</nav>\n", score(runs)))];
    sections.extend(runs.iter().enumerate().map(|(number, run)| {
        let parts: String =
            [vec![lead(run)], self::sections(run)].concat().iter().map(Section::inner).collect();
        let heading = format!("<h2 id=\"{}\">{}</h2>\n", id(number, run), escape(&run.title));
        Section::new("", heading + &parts)
    }));
    sections
}

fn lead(run: &ParsedResult) -> Section {
    let mut lines: Vec<String> = run.source.iter().cloned().collect();
    lines.push(format!(
        "{}; world {}, {}",
        score(std::slice::from_ref(run)),
        run.header.world,
        run.header.date
    ));
    Section::text("", &lines.join("\n"))
}

fn sections(run: &ParsedResult) -> Vec<Section> {
    let mut sections = Vec::new();
    if !run.claims.is_empty() {
        sections.push(Section::new("Claims", claims(run)));
    }
    if !run.plots.is_empty() {
        sections.push(Section::new("Plots", run.plots.iter().map(Plot::html).collect::<String>()));
    }
    sections.extend(run.tables.iter().map(figures));
    if !run.notes.is_empty() {
        sections.push(Section::pairs("Notes", &run.notes));
    }
    sections.push(set_up(run));
    if !run.settings.is_empty() {
        let pairs: Vec<_> =
            run.settings.iter().map(|(path, text)| (path.as_str(), shortened(text))).collect();
        let body = folded(&format!("{} settings", pairs.len()), &Section::pairs("", &pairs).body);
        sections.push(Section::new("Settings", body));
    }
    if !run.header.doctor.is_empty() {
        sections.push(doctor(run));
    }
    sections
}

/// Table of claims with their texts, and the reasons why some do not hold.
fn claims(run: &ParsedResult) -> String {
    let header = ["claim", "paper", "ours", "±", "ours/paper", "bound", "verdict", "at"];
    let mut table = Table::new(1, &header);
    for claim in &run.claims {
        table.row(vec![
            claim.id.clone(),
            number_or_dash(claim.paper),
            number_or_dash(claim.estimate),
            number_or_dash(claim.interval),
            number_or_dash(claim.estimate.zip(claim.paper).map(|(estimate, paper)| estimate / paper)),
            margin_in_words(&claim.bound, claim.margin),
            claim.verdict.map_or("not measured", ClaimVerdict::word).to_owned(),
            claim.at.clone(),
        ]);
    }
    let reasons: String = run.claims.iter().filter_map(reason).collect();
    let paragraph =
        |id: &String| format!("<p class=\"note\">{}: not checked at this scale</p>\n", escape(id));
    let left_out: String = run.not_checked.iter().map(paragraph).collect();
    let says: Vec<_> = run.claims.iter().filter(|c| !c.says.is_empty()).map(|c| (&c.id, &c.says)).collect();
    let says = match says.as_slice() {
        [] => String::new(),
        says => folded("Claims", &Section::pairs("", says).body),
    };
    format!("{reasons}{}{left_out}{says}", table.html())
}

/// Why a claim does not hold, as a paragraph; none if it holds or was not measured.
fn reason(claim: &CheckedClaim) -> Option<String> {
    let why = claim.why.as_deref();
    let (verdict, reason) = match claim.verdict? {
        ClaimVerdict::Holds => return None,
        ClaimVerdict::Fails => ("does not hold", why.unwrap_or("cause unknown").to_owned()),
        ClaimVerdict::Undecided => {
            let runs = claim.seeds.iter().flatten().count() as u64;
            let why = why.map_or(String::new(), |why| format!("; {why}"));
            ("is undecided", more_runs_in_words(runs, claim.more_runs) + &why)
        }
    };
    Some(format!("<p><strong>{}</strong> {verdict}: {}</p>\n", escape(&claim.id), escape(&reason)))
}

/// Table of figures; a single row without labels becomes name-value pairs.
fn figures(rows: &ResultTable) -> Section {
    let heading = match rows.name.as_str() {
        "figures" => "Figures".to_owned(),
        "run" => "The whole run".to_owned(),
        name => capitalised(&name.replace('_', " ")),
    };
    let title = |(name, unit): &(String, String)| match unit.as_str() {
        "" | "1" => name.clone(),
        unit => format!("{name}, {unit}"),
    };
    if let ([row], []) = (rows.rows.as_slice(), rows.labels.as_slice()) {
        let cells = rows.columns.iter().zip(&row.figures);
        let pairs: Vec<_> =
            cells.map(|(column, figure)| (title(column), cell(column, figure.as_ref()))).collect();
        return Section::pairs(heading, &pairs);
    }
    let titles: Vec<String> = rows.labels.iter().cloned().chain(rows.columns.iter().map(title)).collect();
    let mut table = Table::new(rows.labels.len(), &titles.iter().map(String::as_str).collect::<Vec<_>>());
    for row in &rows.rows {
        let cells =
            rows.columns.iter().zip(&row.figures).map(|(column, figure)| cell(column, figure.as_ref()));
        table.row(row.labels.iter().cloned().chain(cells).collect());
    }
    let html = table.html();
    let body = match table.len() {
        many if many > ROWS_OPEN_MAX => folded(&format!("{many} rows"), &html),
        _ => html,
    };
    Section::new(heading, body)
}

/// A figure with its interval, formatted by its unit.
fn cell((_, unit): &(String, String), figure: Option<&ResultFigure>) -> String {
    let Some(figure) = figure else { return "–".to_owned() };
    match (unit.as_str(), figure.interval) {
        (unit, Some(half)) => with_half(unit, figure.value, half),
        ("", None) if figure.value.fract() == 0.0 => format!("{:.0}", figure.value),
        (unit, None) => in_unit(unit, figure.value),
    }
}

fn set_up(run: &ParsedResult) -> Section {
    let header = &run.header;
    let seed = header.seed.map_or("none".to_owned(), |seed| seed.to_string());
    let mut pairs = vec![
        ("repeat".to_owned(), header.repeat()),
        ("world".to_owned(), header.world.clone()),
        ("seed".to_owned(), seed),
        ("machine".to_owned(), header.machine.clone().unwrap_or("any (simulated)".to_owned())),
        ("date".to_owned(), header.date.clone()),
        ("greenwave".to_owned(), header.version.clone()),
    ];
    let names: Vec<_> = pairs.iter().map(|(name, _)| name.clone()).collect();
    pairs.extend(run.facts.iter().filter(|(name, _)| !names.contains(name)).cloned());
    Section::pairs("Set-up", &pairs)
}

fn doctor(run: &ParsedResult) -> Section {
    let mut table = Table::new(5, &["command", "mechanism", "here", "seen", "try"]);
    for finding in &run.header.doctor {
        let words =
            [&finding.command, &finding.mechanism, &finding.health, &finding.observation].map(String::clone);
        table.row([&words[..], &[finding.remedies.join("; ")]].concat());
    }
    let works = run.header.doctor.iter().filter(|finding| finding.works()).count();
    let summary = format!("{works} of {} mechanisms work without limits", table.len());
    Section::new("Findings of the doctor", folded(&summary, &table.html()))
}

fn shortened(text: &str) -> String {
    let values: Vec<&str> = text.split(" | ").collect();
    match values.len() {
        many if many > VALUES_MAX => format!("{} | … ({many} values)", values[..VALUES_MAX].join(" | ")),
        _ => text.to_owned(),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
