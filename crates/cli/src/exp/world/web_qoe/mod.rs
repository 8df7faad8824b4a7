//! World `pages`: an unmodified web server with a near and a far client population on a real
//! machine. Source: ADPS Table 1.
//!
//! The server is lighttpd of Debian's package, on the kernel's TCP (mode `kernel`), or on
//! greenwave's stack without a policy (`none`) or with scenario 3 as a policy (`adps`): connections
//! with a long RTT or with losses are less urgent. Server and stack have core 1, clients core 0.
//! Each population is a greenwave stack behind its own impaired path: a `--fault` on its device,
//! for its sent frames or both directions, before a kernel bridge. Every connection requests a page
//! once per period, all at once, or the next page when the last has arrived. Runs are serialized.

pub mod qoe;

use host::affinity;
use load::closed_loop::{KindResults, LoadModel, RequestStream as Requests};
use net::device::fault_injector::{FaultInjector, Rates};
use netlab::NetLab;
use queueing::{CoreId, Rng, Span};
use serde::Deserialize;
use toml::Table;

use self::qoe::qoe;
use super::host_requirements::{HostLock, check_installed};
use super::{ClassFigures, PreparedRun, RunResult, TimeKind, World, checked, column, metric, points};
use crate::error::Error;
use crate::programs::{Item, Program, ProgramSettings, ProgramSetup, SMALL, StackChoice};
use crate::settings::{text, text_or_none, within};

pub const WORLD: World = World {
    name: "pages",
    kind: TimeKind::host(1),
    note: "pages loaded in the measured time; QoE: computed from the response time alone",
    stats: &[
        column("pages", "1/s", "pages/s"),
        column("p50", "µs", "p50"),
        column("p99", "µs", "p99"),
        column("qoe50", "ratio", "p50"),
        column("qoe99", "ratio", "p99"),
        column("cores", "share", "cores"),
        metric("mean", "µs"),
        column("broken", "1", "broken"),
        metric("answers", "1"),
        metric("unanswered", "1"),
    ],
    groups: &[("", 4), ("response", 2), ("QoE", 2), ("", 2)],
    plot_stat: "p99",
    parts: &[],
    prepare,
};

/// Settings of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Connections of both populations together, half of them near.
    connections: u32,
    /// Length of a page.
    bytes: usize,
    /// Faults of frames to the server.
    #[serde(deserialize_with = "text")]
    near: Rates,
    #[serde(deserialize_with = "text")]
    far: Rates,
    /// True if the faults also apply to frames from the server.
    #[serde(default)]
    both_ways: bool,
    /// Period in which every connection requests one page, all at once; when absent, each requests
    /// the next page when the last has arrived.
    #[serde(default, deserialize_with = "text_or_none")]
    period: Option<Span>,
    /// Less urgent connections: those with a longer RTT,
    #[serde(deserialize_with = "text")]
    rtt_max: Span,
    /// or with a larger loss rate.
    loss_max: f64,
    /// Warm-up before pages count.
    #[serde(deserialize_with = "text")]
    warmup: Span,
    /// Duration in which pages count.
    #[serde(deserialize_with = "text")]
    duration: Span,
    /// Seed of the path's faults.
    #[serde(default)]
    seed: u64,
}

fn prepare(mode: &str, settings: Table) -> Result<PreparedRun, String> {
    let stack = match mode {
        "kernel" => StackChoice::Kernel,
        "none" => StackChoice::None,
        "adps" => StackChoice::Adps,
        other => return Err(format!("mode {other:?} is not one of kernel, none, adps")),
    };
    let config = checked(settings, Config::check)?;
    Ok(Box::new(move || run(&config, stack)))
}

impl Config {
    fn check(&self) -> Result<(), String> {
        within("connections", self.connections.into(), 2.0..=8000.0)?;
        within("bytes", self.bytes as f64, 1.0..=1e8)?;
        within("loss_max", self.loss_max, 0.0..=1.0)?;
        within("period in seconds", self.period.map_or(1.0, Span::as_secs_f64), 0.001..=3600.0)?;
        within("duration in seconds", self.duration.as_secs_f64(), 0.01..=3600.0)
    }

    /// Scenario 3 as a policy.
    fn policy(&self) -> String {
        let rule = |condition: &str| format!("[[rule]]\nlayer = \"transport\"\n{condition}\npriority = 7\n");
        let (rtt, loss) = (self.rtt_max.as_nanos(), self.loss_max);
        let [long, lossy] = [format!("rtt = \"> {rtt}ns\""), format!("loss = \"> {loss}\"")]
            .map(|condition| rule(&condition));
        format!("default = 0\n{long}{lossy}")
    }
}

static RUN_LOCK: HostLock<()> = HostLock::new();

fn run(config: &Config, stack: StackChoice) -> Result<RunResult, Error> {
    let _lock = RUN_LOCK.enter();
    let (server, advice) = (Program::Lighttpd, "sudo greenwave exp run adps/e5");
    if let Some(why) = NetLab::unavailable() {
        return Err(Error::new(format!("world pages: {why}")).advice(advice));
    }
    check_installed("pages", server.name(), server.name())?;
    let cores = affinity::cores().map_err(|e| Error::new(e.to_string()))?;
    let (client, core): (CoreId, CoreId) = (cores[0], cores[cores.len() - 1]);
    let (page, policy) = (Item { key: "p", bytes: config.bytes }, config.policy());
    let setting = ProgramSettings {
        client,
        receive: client,
        server: core,
        device: "xdp",
        busy_poll: Span::ZERO,
        lib: None,
        items: &[SMALL, page],
        policy: &policy,
        seed: config.seed,
    };
    let failed = |why: String| Error::new(format!("world pages, {}: {why}", stack.name()));
    let lab = NetLab::new("pages").map_err(|e| Error::new(e.to_string()))?;
    let path_faults = [config.near, config.far];
    let rng = Rng::seeded(config.seed);
    let return_faults = |faults| if config.both_ways { faults } else { Rates::NONE };
    let with_faults = |n: usize, device| {
        FaultInjector::with_faults(
            device,
            [path_faults[n], return_faults(path_faults[n])],
            &rng.fork(n as u64),
        )
    };
    let mut setup =
        ProgramSetup::new(&lab, server, stack, &setting, path_faults.len(), with_faults).map_err(failed)?;
    let (request, answer) = server.request(page);
    let half = config.connections / 2;
    let population = |connections| {
        let pace = LoadModel::periodic(connections, config.period);
        vec![Requests { connections, request: request.clone(), answer, pace }]
    };
    let populations = vec![population(half), population(config.connections - half)];
    let measured = setup.measure(populations, config.warmup, config.duration).map_err(failed)?;
    let seconds = measured.span.as_secs_f64();
    let row = |(class, tally): (&str, &KindResults)| row(class, tally, seconds, measured.cores);
    let rows: Vec<ClassFigures> = ["near", "far"].into_iter().zip(&measured.kinds).map(row).collect();
    Ok(RunResult { events: measured.kinds.iter().map(|tally| tally.answers).sum(), rows, noise: None })
}

fn row(class: &str, tally: &KindResults, seconds: f64, cores: f64) -> ClassFigures {
    let latency = &tally.latency;
    // No samples, no quantile.
    let of = |span: Span| if tally.answers > 0 { span.as_secs_f64() } else { f64::NAN };
    let (p50, p99) = (of(latency.quantile(0.5)), of(latency.quantile(0.99)));
    let figures = vec![
        tally.answers as f64 / seconds,
        p50 * 1e6,
        p99 * 1e6,
        qoe(p50),
        qoe(p99),
        cores,
        of(latency.mean()) * 1e6,
        tally.broken as f64,
        tally.answers as f64,
        tally.unanswered as f64,
    ];
    ClassFigures { class: class.to_owned(), figures, cdf: points(latency.cdf()) }
}

#[cfg(test)]
mod tests {
    use classify::rules::Policy;

    use super::*;

    const TEXT: &str = "connections = 10\nbytes = 1000\nnear = \"delay=25ms\"\nfar = \"delay=100ms,loss=1%\"\n\
        rtt_max = \"100ms\"\nloss_max = 0.005\nwarmup = \"1s\"\nduration = \"1s\"\n";

    #[test]
    fn settings_are_read_and_make_a_policy() {
        let config: Config = toml::from_str(TEXT).unwrap();
        assert_eq!(config.check(), Ok(()));
        assert_eq!((config.far.loss, config.near.delay.0), (0.01, Span::from_millis(25)));
        assert_eq!(Policy::parse(&config.policy()).map_err(|e| e.message).unwrap().rules().len(), 2);
        assert!(prepare("fast", toml::from_str(TEXT).unwrap()).is_err());
        let none: Config = toml::from_str(&TEXT.replace("connections = 10", "connections = 0")).unwrap();
        assert_eq!(none.check(), Err("connections 0 is outside 2..=8000".to_owned()));
    }
}
