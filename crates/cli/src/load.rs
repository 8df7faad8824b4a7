//! `greenwave load`: an open-loop load generator on the kernel's sockets.
//!
//! Requests are due by the clock, independent of the server. Latency counts from a request's due
//! time, so a stalled server cannot hide its stalls; that from the send time stands beside it. The
//! exit status says if the run was good: 1 if a `--fail-if` is true, 3 if the plan's load was not offered.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::load::kernel::{AppProtocol, KernelError};
use ::load::protocol::http::HttpRequest;
use ::load::{FailCondition, Plan, Report, RequestClass, Spread, kernel};
use clap::ValueEnum;
use queueing::{Arrivals, Clock as _, Distribution, Span};

use crate::options::Burst;
use crate::report::{Plot, ResultHeader};
use crate::{Error, load_row, progress};
use outcome::Outcome;

mod outcome;

/// Generate open-loop load over kernel sockets.
///
/// Exit status 0: done; 1: a --fail-if is true; 3: none is, but less than 99 % of
/// the load was offered, so the figures are those of another load.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the server, such as 10.77.0.2:80.
    #[arg(long, value_name = "HOST:PORT")]
    target: String,
    /// Application protocol.
    #[arg(long, value_enum, default_value = "http")]
    protocol: Speaks,
    /// Path of the requests (http).
    #[arg(long, default_value = "/")]
    path: String,
    /// Method of the requests [default: GET, or POST with --body] (http).
    #[arg(long)]
    method: Option<String>,
    /// Header of the requests: 'x-tier: gold'; repeatable (http).
    #[arg(long = "header", value_name = "HEADER")]
    headers: Vec<String>,
    /// Content of the requests: text, or @FILE (http).
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,
    /// Request rate per second; Poisson arrivals.
    #[arg(long, value_name = "PER_SECOND", conflicts_with = "burst", required_unless_present = "burst")]
    rate: Option<f64>,
    /// Bursts of SIZE requests every PERIOD, such as 300/10ms.
    #[arg(long, value_name = "SIZE/PERIOD")]
    burst: Option<Burst>,
    /// Keep-alive connections; each carries one class.
    #[arg(long, default_value_t = 50)]
    connections: u32,
    /// Test duration.
    #[arg(long, default_value = "5s")]
    duration: Span,
    /// Warm-up time at the start; its requests are not counted.
    #[arg(long, default_value = "0s")]
    warmup: Span,
    /// Request timeout, from the scheduled send time.
    #[arg(long, default_value = "1s")]
    timeout: Span,
    /// Share of urgent requests, 0 to 1 (synthetic).
    #[arg(long, default_value_t = 0.05)]
    urgent: f64,
    /// Service time of a request, such as 5us (synthetic).
    #[arg(long, default_value = "5us")]
    service: Distribution,
    /// Request length in bytes, 32 to 65536 (synthetic).
    #[arg(long, default_value_t = 64)]
    length: usize,
    /// Condition that fails the run: p50, p90, p99, p999, max, errors or rate,
    /// such as 'p99>5ms', 'errors>0.1%' or 'rate<19000'; repeatable.
    #[arg(long, value_name = "CONDITION", verbatim_doc_comment)]
    fail_if: Vec<FailCondition>,
    /// Seed of the arrivals; the same seed replays the same requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Speaks {
    /// HTTP/1.1 GET.
    Http,
    /// Protocol of greenwave's synthetic server.
    Synthetic,
}

/// Generates the load and prints the results.
///
/// # Errors
/// Arguments out of range, or a target that does not answer.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let target = resolve(&args.target)?;
    let plan = args.plan()?;
    let protocol = args.app_protocol()?;
    answers(target)?;
    let requests = plan.arrivals.rate_per_s() * args.duration.as_secs_f64();
    let bar = progress::bar(requests as u64);
    bar.set_message(format!("load {target}"));
    let mut on_progress = |p: ::load::Progress| bar.set_position(p.settled);
    let clock = host::Monotonic::new();
    let stop = host::signals::flag();
    let begun = clock.now();
    let report = kernel::run(&plan, target, &protocol, &clock, &mut on_progress, stop);
    let took = clock.now().since(begun);
    bar.finish_and_clear();
    let is_partial = stop.load(Ordering::Relaxed);
    let mut report = match report {
        Err(_) if is_partial => return Err(Error::interrupted(" before the first request")),
        report => report.map_err(|e| refused(&e))?,
    };
    report.machine = Some(host::Machine::this().to_string());
    let outcome = Outcome::of(&report, &plan, &args.fail_if);
    if args.json {
        outln!("{:#}", as_json(&report, args.seed, is_partial, &outcome)?);
        return partial(is_partial, took, args, &outcome);
    }
    out!("{}", load_row::latency_table(&report));
    let answered = report.answered() as f64 / report.requests().max(1) as f64;
    outln!(
        "{} of {} answered ({:.3} %), {} reconnects   (seed {}, target {target})",
        report.answered(),
        report.requests(),
        100.0 * answered,
        report.reconnects,
        args.seed,
    );
    if !is_partial {
        outcome.lines().iter().for_each(|line| outln!("{line}"));
    }
    partial(is_partial, took, args, &outcome)
}

/// Exit status of a run that completed, or was interrupted after `took`.
fn partial(is_partial: bool, took: Span, args: &Args, outcome: &Outcome) -> Result<ExitCode, Error> {
    if !is_partial {
        return Ok(ExitCode::from(outcome.status()));
    }
    let most = took.min(args.duration);
    let what = format!(
        " after {most} of {}: the figures cover this part; requests in flight count as unanswered",
        args.duration
    );
    Err(Error::interrupted(&what))
}

/// The report with a header, and the distributions of its figures.
fn as_json(
    report: &Report,
    seed: u64,
    is_partial: bool,
    outcome: &Outcome,
) -> Result<serde_json::Value, Error> {
    let curves = report.classes.iter().map(|class| (class.name.clone(), load_row::curve(class)));
    let plots = [Plot::cdf("Latency from the scheduled send time", curves)];
    let mut body = serde_json::to_value(report).map_err(|e| Error::new(e.to_string()))?;
    body["plots"] = serde_json::json!(plots);
    body["errors"] = report.errors().into();
    body["from_send"] = report.classes.iter().map(outcome::from_send).collect();
    body["plan"] = outcome.plan_json();
    body["fail_if"] = outcome.conditions_json();
    if is_partial {
        body["partial"] = true.into();
    }
    Ok(ResultHeader::of_host("load", Some(seed)).stamp(body))
}

impl Args {
    /// Checks the arguments before it connects.
    ///
    /// # Errors
    /// The errors of [`run`].
    pub fn check(&self) -> Result<(), Error> {
        resolve(&self.target)?;
        self.app_protocol()?;
        self.plan().map(drop)
    }

    /// The protocol, and the request of HTTP.
    fn app_protocol(&self) -> Result<AppProtocol, Error> {
        if let Speaks::Synthetic = self.protocol {
            return match (&self.method, &self.body, self.headers.is_empty()) {
                (None, None, true) => Ok(AppProtocol::Synthetic),
                _ => Err(Error::new("--method, --header and --body are parts of HTTP requests")
                    .advice("--protocol http")),
            };
        }
        let body = match self.body.as_deref() {
            None => Vec::new(),
            Some(text) => match text.strip_prefix('@') {
                Some(path) => std::fs::read(path).map_err(|e| Error::file(path.as_ref(), &e))?,
                None => text.as_bytes().to_vec(),
            },
        };
        let header = |text: &String| {
            let bad = || {
                Error::new(format!("header {text:?} is not NAME: VALUE")).advice("--header 'x-tier: gold'")
            };
            let (name, value) = text.split_once(':').ok_or_else(bad)?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let headers = self.headers.iter().map(header).collect::<Result<_, Error>>()?;
        let method = if self.body.is_some() { "POST" } else { "GET" };
        let method = self.method.clone().unwrap_or_else(|| method.to_owned());
        let request = HttpRequest { method, path: self.path.clone(), headers, body };
        request.validate().map_err(|e| Error::new(e.to_string()))?;
        Ok(AppProtocol::Http(request))
    }

    fn plan(&self) -> Result<Plan, Error> {
        let arrivals = match (self.rate, self.burst) {
            (_, Some(Burst { size, period })) => Arrivals::Burst { size, period, spacing: Span::ZERO },
            (Some(rate_per_s), None) if rate_per_s.is_finite() && rate_per_s > 0.0 => {
                Arrivals::Poisson { rate_per_s }
            }
            (rate, None) => {
                let what = format!("rate {} is not a number above 0", rate.unwrap_or_default());
                return Err(Error::new(what).advice("--rate 1000"));
            }
        };
        let class = |name: &str, share: f64, kind: u8, priority: u8| RequestClass {
            name: name.to_owned(),
            share,
            service: self.service,
            length: self.length,
            kind,
            priority,
        };
        if !(0.0..=1.0).contains(&self.urgent) {
            return Err(Error::new(format!("urgent {} is outside 0..=1", self.urgent)));
        }
        let classes = match self.protocol {
            Speaks::Http => vec![class("all", 1.0, 0, 0)],
            Speaks::Synthetic => {
                let both = [class("LS", self.urgent, 1, 0), class("other", 1.0 - self.urgent, 2, 7)];
                both.into_iter().filter(|class| class.share > 0.0).collect()
            }
        };
        let mut plan = Plan::new(self.connections, arrivals, classes);
        // A connection's bytes keep their order, so an urgent request behind
        // others on the same connection would wait for them.
        plan.spread = Spread::PerClass;
        plan.duration = Some(self.duration);
        plan.warmup = self.warmup;
        plan.timeout = self.timeout;
        plan.seed = self.seed;
        plan.validate().map_err(|e| refused(&KernelError::from(e)))?;
        Ok(plan)
    }
}

/// The first address of `target`.
fn resolve(target: &str) -> Result<SocketAddr, Error> {
    let bad = |why: String| {
        Error::new(format!("target {target:?}: {why}")).advice("HOST:PORT, such as 10.77.0.2:80")
    };
    let mut found = target.to_socket_addrs().map_err(|e| bad(e.to_string()))?;
    found.next().ok_or_else(|| bad("no address".to_owned()))
}

/// Refuses a target without a listener at once; the run itself retries a busy one for longer.
fn answers(target: SocketAddr) -> Result<(), Error> {
    let tried = TcpStream::connect_timeout(&target, ANSWERS_WITHIN);
    tried.map(drop).map_err(|e| {
        let what = format!("target {target}: {}", crate::error::plain(&e.to_string()));
        Error::new(what).advice(format!("start a server on {target}"))
    })
}

/// Connect timeout: long enough for a lost SYN to be retransmitted.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

fn refused(e: &KernelError) -> Error {
    let error = Error::new(e.to_string());
    match e {
        KernelError::Opening { target, .. } => error.advice(format!("start a server on {target}")),
        _ => error,
    }
}
