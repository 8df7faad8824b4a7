//! `greenwave load`: an open-loop load generator on the kernel's sockets.
//!
//! Requests are due by the clock, independent of the server. Latency counts from a request's due
//! time, so a stalled server cannot hide its stalls.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::load::kernel::{AppProtocol, KernelError};
use ::load::{Plan, Report, RequestClass, Spread, kernel};
use clap::ValueEnum;
use queueing::{Arrivals, Clock as _, Distribution, Span};

use crate::options::Burst;
use crate::report::{Plot, ResultHeader};
use crate::{Error, load_row, progress};

/// Generate open-loop load over kernel sockets.
#[derive(clap::Args)]
pub struct Args {
    /// Address of the server, such as 10.77.0.2:80.
    #[arg(long, value_name = "HOST:PORT")]
    target: String,
    /// Application protocol.
    #[arg(long, value_enum, default_value = "http")]
    protocol: Speaks,
    /// Path of the GET requests (http).
    #[arg(long, default_value = "/")]
    path: String,
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
    answers(target)?;
    let protocol = match args.protocol {
        Speaks::Http => AppProtocol::Http { path: args.path.clone() },
        Speaks::Synthetic => AppProtocol::Synthetic,
    };
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
    if args.json {
        outln!("{:#}", as_json(&report, args.seed, is_partial)?);
        return partial(is_partial, took, args);
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
    partial(is_partial, took, args)
}

/// Outcome of a run that was interrupted after `took`, or completed.
fn partial(is_partial: bool, took: Span, args: &Args) -> Result<ExitCode, Error> {
    if !is_partial {
        return Ok(ExitCode::SUCCESS);
    }
    let most = took.min(args.duration);
    let what = format!(
        " after {most} of {}: the figures cover this part; requests in flight count as unanswered",
        args.duration
    );
    Err(Error::interrupted(&what))
}

/// The report with a header, and the distributions of its figures.
fn as_json(report: &Report, seed: u64, is_partial: bool) -> Result<serde_json::Value, Error> {
    let curves = report.classes.iter().map(|class| (class.name.clone(), load_row::curve(class)));
    let plots = [Plot::cdf("Latency from the scheduled send time", curves)];
    let mut body = serde_json::to_value(report).map_err(|e| Error::new(e.to_string()))?;
    body["plots"] = serde_json::json!(plots);
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
        self.plan().map(drop)
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
