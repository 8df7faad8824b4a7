//! Plan of a simulation: all arguments are read and checked before anything runs.

use std::path::Path;
use std::sync::Arc;

use sim::fabric::{Config, MSS, TraceFlow};
use toml::{Table, Value};

use super::args::Args;
use super::workload::Spacing;
use crate::error::Error;
use crate::exp;

/// One planned run.
pub struct PlannedRun {
    pub scheduler: String,
    pub seed: u64,
    pub config: Config,
}

/// All runs, and their common settings.
pub struct SimPlan {
    /// Seeds of a scheduler are adjacent, in order.
    pub points: Vec<PlannedRun>,
    /// Line numbers of a list of flows, in order of start.
    pub lines: Option<Vec<u64>>,
    /// Description of the flows.
    pub flows: String,
    /// As in [`Config::load`]; unset for a list of flows.
    pub load: Option<f64>,
    /// Thresholds in segments.
    pub thresholds: Vec<u64>,
}

/// Built-in networks: name and contents of the equivalent file.
pub const BUILT_IN: [(&str, &str); 2] = [
    ("two-hosts", "kind = \"star\"\nhosts = 2\nhost = { gbps = 10, delay = \"20200ns\" }\n"),
    (
        "leaf-spine",
        "kind = \"leaf-spine\"\nleaves = 4\nspines = 4\nhosts_per_leaf = 4\n\
         host = { gbps = 10, delay = \"20200ns\" }\ncore = { gbps = 20, delay = \"200ns\" }\n",
    ),
];

/// Settings with an option of their own, which would not see a value given by `--set`.
const OWN: [(&str, &str); 11] = [
    ("scheduler", "--scheduler fish"),
    ("thresholds", "--thresholds 909,1329,1648"),
    ("buffer_size", "--buffer-packets 240"),
    ("ecn_threshold", "--ecn-threshold 65"),
    ("multipath", "--multipath ecmp"),
    ("flows", "--count 1000"),
    ("sizes", "--workload websearch"),
    ("arrivals", "--arrivals poisson"),
    ("limit", "--duration 20ms"),
    ("seed", "--seeds 1..10"),
    ("occupancy", "--out FILE, which shows the queue lengths"),
];

/// Default load for the choice of thresholds.
const LOAD: f64 = 0.8;
/// Number of levels of the chosen thresholds.
const LEVELS: usize = queueing::Priority::LEVELS;
/// Size of the sample of a list of flows, evenly over their sizes.
const SAMPLE: usize = 10_000;
/// Default number of flows of a run without a duration.
const FLOWS: u32 = 1000;
/// Maximum number of flows of a run.
const FLOWS_MAX: u32 = 10_000_000;

impl SimPlan {
    /// Reads and checks `args`.
    ///
    /// # Errors
    /// The invalid value, the valid ones, and advice.
    pub fn new(args: &Args) -> Result<Self, Error> {
        let mut shared = config(args, "fifo")?;
        let (mut load, mut lines) = (None, None);
        let flows = match &args.flow_trace {
            Some(path) => {
                let (numbers, planned) = read_flows(path, shared.topology.hosts())?;
                lines = Some(numbers);
                shared.flows = planned.len() as u32;
                shared.planned = Some(planned);
                path.display().to_string()
            }
            None => {
                load = Some(arrive(args, &mut shared)?);
                args.workload.text.clone()
            }
        };
        let thresholds = thresholds(args, &shared, load)?;
        shared.thresholds.clone_from(&thresholds);
        let mut points = Vec::new();
        for (index, scheduler) in args.scheduler.iter().enumerate() {
            if args.scheduler[..index].contains(scheduler) {
                return Err(Error::new(format!("scheduler {scheduler} is listed twice"))
                    .advice("--scheduler fifo,pias,fish"));
            }
            let discipline = config(args, scheduler)?.scheduler;
            for seed in args.seeds.0.clone() {
                let config = Config { scheduler: discipline, seed, ..shared.clone() };
                config.check().map_err(|e| refused(args, &e.to_string()))?;
                points.push(PlannedRun { scheduler: scheduler.clone(), seed, config });
            }
        }
        Ok(Self { points, lines, flows, load, thresholds })
    }
}

/// The settings of `args` as a configuration, without flows and thresholds.
fn config(args: &Args, scheduler: &str) -> Result<Config, Error> {
    let topology = topology(&args.topology)?;
    let hosts = topology.get("hosts").and_then(Value::as_integer);
    let senders = args.workload.senders.clone().unwrap_or_else(|| match (&args.senders, hosts) {
        (Some(senders), _) => senders.as_str().into(),
        (None, Some(2)) => "first".into(),
        (None, _) => "all".into(),
    });
    let limit = args.duration.map(|span| format!("{}ns", span.as_nanos()));
    let mut settings = Table::from_iter([
        ("topology".to_owned(), Value::Table(topology)),
        ("scheduler".to_owned(), scheduler.into()),
        ("buffer_size".to_owned(), depth(&args.buffer_packets)),
        ("ecn_threshold".to_owned(), depth(&args.ecn_threshold)),
        ("multipath".to_owned(), args.multipath.setting().into()),
        ("flows".to_owned(), args.count.unwrap_or(if limit.is_some() { FLOWS_MAX } else { FLOWS }).into()),
        ("sizes".to_owned(), args.workload.sizes.as_str().into()),
        // Replaced by those of `arrive`; of the kind that every setting allows.
        ("arrivals".to_owned(), "poisson 1".into()),
        ("senders".to_owned(), senders),
        ("occupancy".to_owned(), true.into()),
    ]);
    settings.extend(limit.map(|limit| ("limit".to_owned(), limit.into())));
    let mut settings = Value::Table(settings);
    for set in &args.set {
        let bad = |why: &str| {
            Error::new(format!("--set {set:?}: {why}")).advice("--set KEY=VALUE, such as transport.window=10")
        };
        let (key, value) = set.split_once('=').ok_or_else(|| bad("no ="))?;
        let read: Option<Value> = toml::from_str(&format!("value = {value}"))
            .ok()
            .and_then(|mut table: Table| table.remove("value"));
        let value = read.unwrap_or_else(|| value.into());
        if let Some((_, option)) = OWN.iter().find(|(own, _)| *own == key) {
            return Err(Error::new(format!("--set {set:?}: {key} has its own flag")).advice(*option));
        }
        let steps: Vec<&str> = key.split('.').collect();
        exp::set_path(&mut settings, &steps, &value).map_err(|e| bad(&e))?;
    }
    let config: Config = settings.try_into().map_err(|e: toml::de::Error| refused(args, &e.to_string()))?;
    config.check().map_err(|e| refused(args, &e.to_string()))?;
    Ok(config)
}

/// A number of packets, or any other value of an experiment's file.
fn depth(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| text.into(), Value::from)
}

/// The built-in network called `name`, or the file of that name.
fn topology(name: &str) -> Result<Table, Error> {
    let built_in = BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
    let text = match built_in {
        Some(text) => text,
        None => std::fs::read_to_string(name).map_err(|e| {
            let names = BUILT_IN.map(|(name, _)| name).join(", ");
            let what = format!("topology {name:?}: {}", crate::error::plain(&e.to_string()));
            Error::new(what).advice(format!("one of {names}, or a TOML file"))
        })?,
    };
    text.parse().map_err(|e: toml::de::Error| {
        crate::toml_error::of(&text, &e, |line| format!("{name}:{line}"))
            .or_advice(|| TOPOLOGY_ADVICE.to_owned())
    })
}

/// Sets the flows' arrival process; returns its load.
fn arrive(args: &Args, config: &mut Config) -> Result<f64, Error> {
    let load = match (args.arrivals, args.load) {
        (Spacing::Given(arrivals), Some(load)) => {
            return Err(Error::new(format!(
                "load {load} and arrivals \"{arrivals}\" both set the arrival rate"
            ))
            .advice("one of --load 0.8 and --arrivals \"poisson 1000\""));
        }
        (Spacing::Given(arrivals), None) => {
            config.arrivals = arrivals;
            config.load()
        }
        (spacing, load) => {
            let load = load.unwrap_or(LOAD);
            config.arrivals = spacing.at(config.arrivals_at(load));
            load
        }
    };
    if load >= 1.0 && args.duration.is_none() {
        let load = (load * 1e3).round() / 1e3;
        let what = format!("load {load} is not below 1: links are overloaded and waits grow without bound");
        return Err(Error::new(what).advice("--load 0.8, or --duration 20ms to limit the run"));
    }
    Ok(load)
}

/// The flows listed in the file at `path`, and their line numbers.
fn read_flows(path: &Path, hosts: u32) -> Result<(Vec<u64>, Arc<[TraceFlow]>), Error> {
    let bad = |why: String| {
        Error::new(format!("{}: {why}", path.display()))
            .advice("one flow per line: start_s src_host dst_host bytes, such as 0.001 0 5 20000")
    };
    let text =
        std::fs::read_to_string(path).map_err(|e| bad(crate::error::plain(&e.to_string()).to_owned()))?;
    let flows = TraceFlow::numbered(&text, hosts).map_err(|e| bad(e.to_string()))?;
    if !(1..=FLOWS_MAX as usize).contains(&flows.len()) {
        return Err(bad(format!("{} flows are outside 1..={FLOWS_MAX}", flows.len())));
    }
    let (lines, flows): (Vec<u64>, Vec<TraceFlow>) = flows.into_iter().unzip();
    Ok((lines, flows.into()))
}

/// The given thresholds, or the best for these flows.
fn thresholds(args: &Args, config: &Config, load: Option<f64>) -> Result<Vec<u64>, Error> {
    if let Some(given) = &args.thresholds {
        let config = Config { thresholds: given.clone(), ..config.clone() };
        config.thresholds().map_err(|e| refused(args, &e.to_string()))?;
        return Ok(given.clone());
    }
    let sizes = config.planned.as_ref().map(|planned| {
        let mut segments: Vec<u32> = planned.iter().map(|flow| flow.bytes.div_ceil(MSS) as u32).collect();
        segments.sort_unstable();
        let step = segments.len().div_ceil(SAMPLE);
        sim::fabric::Sizes::List(segments.into_iter().step_by(step).collect())
    });
    let demand = sizes.as_ref().unwrap_or(&config.sizes).demand();
    let load = load.filter(|&load| load < 1.0).unwrap_or(LOAD);
    Ok(queueing::theory::feedback::thresholds_best(&demand, load, LEVELS).unwrap_or_default())
}

/// Error of an invalid configuration, with advice.
fn refused(args: &Args, what: &str) -> Error {
    let what = what.trim();
    let known: [(&str, &str); 6] = [
        ("threshold", "--thresholds 909,1329,1648 (segments, increasing), or greenwave sim thresholds"),
        ("scheduler", "--scheduler fifo,pias,fish"),
        ("incast", "--workload \"incast 8\", fewer than there are hosts"),
        ("buffer_size", "--buffer-packets 240"),
        ("flows", "--count 1000"),
        ("limit", "--duration 20ms"),
    ];
    // Expected values would match unrelated advice.
    let message = what.split(", expected").next().unwrap_or(what);
    let of_topology = message.contains("topology") || what.contains("in `topology");
    let advice = match of_topology {
        true => Some(TOPOLOGY_ADVICE),
        false => known.iter().find(|(word, _)| message.contains(word)).map(|(_, advice)| *advice),
    };
    let is_file = BUILT_IN.iter().all(|(name, _)| *name != args.topology);
    let what = if of_topology && is_file { format!("{}: {what}", args.topology) } else { what.to_owned() };
    Error::new(what).advice(advice.unwrap_or("greenwave sim fabric --help"))
}

const TOPOLOGY_ADVICE: &str = "--topology leaf-spine, or a file with kind = \"star\", hosts = 2, \
                               host = { gbps = 10, delay = \"20us\" }";
