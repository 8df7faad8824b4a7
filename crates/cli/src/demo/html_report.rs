//! HTML report of the demo: results, breakdown of latency, machine.

use ::load::{ClassReport, Report};
use runtime::Mode;
use runtime::mode::MODES;

use super::Settings;
use crate::load_row;
use crate::report::{self, Plot, Section};
use crate::table::Table;

/// Page for `results`.
pub(super) fn page(settings: &Settings, results: &[(Mode, Report)], table: &Table, last: &str) -> String {
    let intro = "A few latency-sensitive requests (LS) share one server with many others. All arrive in bursts. \
                 Each mode below served the same requests through the same TCP/IP stack; only the scheduling differs.";
    let mut sections = vec![Section::text("", &format!("{last}\n{intro}")), figures(table)];
    sections.extend(plots(results).iter().map(|plot| Section::new("", plot.html())));
    sections.push(modes(results));
    sections.push(set_up(settings));
    report::page("greenwave demo", &sections)
}

/// Distribution of latency and breakdown of the p99, for each class.
pub(super) fn plots(results: &[(Mode, Report)]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for name in classes(results) {
        let modes: Vec<(String, &ClassReport)> = results
            .iter()
            .filter_map(|(mode, report)| Some((mode.name().to_owned(), report.class(&name)?)))
            .collect();
        let curves = modes.iter().map(|(mode, class)| (mode.clone(), load_row::curve(class)));
        plots.push(Plot::cdf(format!("Latency of {name}"), curves));
        let bars = modes.iter().map(|(mode, class)| (mode.clone(), parts(class)));
        plots.push(Plot::bars(format!("Where the p99 of {name} went"), "µs", bars));
    }
    plots
}

fn figures(table: &Table) -> Section {
    let note = "<p class=\"note\">Times in µs, from the scheduled send time. never: never sent; late: sent more \
                than 1 ms after that time; rest: client, wire and retransmissions. The stages are those of the \
                requests around the p99.</p>\n";
    Section::new("Figures", format!("{}{note}", table.html()))
}

fn classes(results: &[(Mode, Report)]) -> Vec<String> {
    let first = results.first().map(|(_, report)| report.classes.as_slice()).unwrap_or_default();
    first.iter().map(|class| class.name.clone()).collect()
}

fn parts(class: &ClassReport) -> Vec<(String, f64)> {
    let stages = class.at_p99.stages();
    stages.into_iter().map(|(name, span)| (name.to_owned(), span.as_micros_f64())).collect()
}

fn modes(results: &[(Mode, Report)]) -> Section {
    let shown = |wanted: &Mode| results.iter().any(|(mode, _)| mode == wanted);
    let lines = MODES.iter().filter(|(mode, ..)| shown(mode));
    let pairs: Vec<(&str, String)> = lines.map(|(_, name, about)| (*name, (*about).to_owned())).collect();
    Section::pairs("Modes", &pairs)
}

fn set_up(settings: &Settings) -> Section {
    let workers = match settings.workers {
        0 => "the stack's own thread".to_owned(),
        n => format!("{n} threads"),
    };
    let pairs = [
        ("world", "host: real frames over an in-memory link, real clock".to_owned()),
        ("machine", settings.machine.to_string()),
        ("seed", settings.seed.to_string()),
        ("duration", format!("{} per mode and round, without the first tenth (warm-up)", settings.duration)),
        ("rounds", format!("{}; the run with the median LS p99 is shown for each mode", settings.rounds)),
        ("requests", format!("{}, {} apart", settings.burst, settings.spacing)),
        ("service", format!("{} each", settings.service)),
        ("latency-sensitive", format!("{} % of requests", settings.urgent * 100.0)),
        ("connections", format!("{}, each carries one class", settings.connections)),
        ("served by", workers),
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
    ];
    Section::pairs("Set-up", &pairs)
}
