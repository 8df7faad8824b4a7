//! `testbed tier SETTINGS`: one service as a process, on a given address.
//!
//! Used for services in separate network namespaces; other runners hold all services in one
//! process. A call carries its service time here and at each of the services that work on its
//! parts. The level is that of its connection ([`dscp`](crate::dscp)). Parts use connections
//! of the same level, of the next more urgent one if the request is late, or of the next less
//! urgent one if it can bear a loss. Layers, from the outside: level, guard, queue, work.
//! Prints its address, and one line of statistics at the end of stdin.

use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use deadline::tower::{DeadlineLayer, Grpc as HeadersOnly, PropagateLayer, Settings, give_way, scope, slack};
use deadline::{Limits, Shedding, Slack};
use guard::tower::{GuardLayer, Queue};
use guard::{Class, Params};
use queueing::{Histogram, Span};
use rustix::net::sockopt::set_tcp_congestion;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tonic::body::Body;
use tonic::codegen::tokio_stream::StreamExt;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Status};
use tower::util::MapRequestLayer;

use crate::Error;
use crate::dscp::{DscpStream, LevelHeader, level};
use crate::rpc::{self, Handler, Method, PATHS, RpcClient};
use crate::work::work;

/// Settings of a service.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tier {
    /// Listening address.
    listen: SocketAddr,
    /// Services that each work on a part of every request, before it is answered.
    parts: Vec<SocketAddr>,
    /// Concurrency: requests in service at once, 1..=1000.
    threads: usize,
    /// Order of the queue, by name.
    order: String,
    /// Load shedding of the queue, by name.
    shedding: String,
    /// Maximum time for which a request may be passed over, ns.
    #[serde(alias = "patience_ns")]
    age_max_ns: u64,
    /// Capacity of the queue.
    capacity: usize,
    /// Bytes of an answer, at most a MiB.
    answer: usize,
    /// Congestion control of accepted connections, such as `cubic`; default: the kernel's.
    #[serde(default)]
    congestion: Option<String>,
    /// DSCP per level, most urgent first; the last is shed first.
    dscp: Vec<u8>,
    /// Cost of a packet lost on the way to parts, ns; if absent, no request counts as ahead of
    /// its budget.
    #[serde(default)]
    loss_ns: Option<u64>,
    /// Policy of the guard, by name.
    guard: String,
    /// Target queueing delay of the guard, ns.
    guard_target_ns: u64,
    /// File for reports of the queue, for a guard in front of the service.
    #[serde(default, alias = "tells")]
    queue_report: Option<PathBuf>,
}

/// Runs the service described by the only argument until stdin ends.
///
/// # Errors
/// One line: the invalid setting, or a service for parts that does not answer.
pub fn command(mut arguments: impl Iterator<Item = String>) -> Result<(), Error> {
    let tier = Tier::parse(&arguments.next().unwrap_or_default())?;
    let runtime =
        Builder::new_multi_thread().enable_all().max_blocking_threads(tier.threads + SPARE_THREADS).build();
    let runtime = runtime.map_err(|e| Error::new(format!("runtime: {e}"), "ulimit -u, ulimit -n"))?;
    let stats = Arc::new(Mutex::new(Stats::default()));
    let Serving { address, queue, guard } = runtime.block_on(start(&tier, &stats))?;
    println!("listens {address}");
    // The parent closes stdin, at the latest when it exits.
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    println!("{}", stats_json(&stats, &queue, &guard));
    runtime.shutdown_background();
    Ok(())
}

impl Tier {
    fn parse(text: &str) -> Result<Self, Error> {
        let bad = |cause: String| Error::new(format!("tier: {cause}"), SPEC);
        let tier: Self = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
        let outside =
            |name: &str, given: usize, most: usize| Err(bad(format!("{name} {given} is outside 1..={most}")));
        match &tier {
            Self { threads, .. } if !(1..=1_000).contains(threads) => outside("threads", *threads, 1_000),
            Self { capacity, .. } if !(1..=CAPACITY_MAX).contains(capacity) => {
                outside("capacity", *capacity, CAPACITY_MAX)
            }
            Self { answer, .. } if !(1..=ANSWER_MAX).contains(answer) => {
                outside("answer", *answer, ANSWER_MAX)
            }
            Self { dscp, .. }
                if dscp.is_empty() || dscp.len() > PATHS.len() || dscp.iter().any(|&dscp| dscp > 63) =>
            {
                Err(bad(format!("dscp {dscp:?} is not 1 to 8 values of 0..=63")))
            }
            _ => tier.queue().map(|_| tier),
        }
    }

    fn queue(&self) -> Result<deadline::QueueSettings, Error> {
        let bad = |e: queueing::UnknownName| Error::new(format!("tier: {e}"), SPEC);
        let (order, shedding) = (self.order.parse().map_err(bad)?, self.shedding.parse().map_err(bad)?);
        let age_max = Span::from_nanos(self.age_max_ns);
        Ok(deadline::QueueSettings { capacity: self.capacity, order, shedding, age_max })
    }
}

/// Running service.
struct Serving {
    address: SocketAddr,
    queue: DeadlineLayer,
    guard: GuardLayer,
}

/// Connects to the services for parts, and serves.
async fn start(tier: &Tier, stats: &Arc<Mutex<Stats>>) -> Result<Serving, Error> {
    let queue = tier.queue()?;
    let propagate = propagate_layer(queue.shedding);
    let waiting = tier.capacity.saturating_mul(2);
    let mut parts = Vec::new();
    for &address in &tier.parts {
        let mut levels = Vec::new();
        for &dscp in &tier.dscp {
            levels.push(RpcClient::connect_as(dscp, address, &propagate, waiting).await?);
        }
        parts.push(levels);
    }
    let validation = Limits { trusted: true, longest: Span::MAX, ..Limits::default() };
    let settings = Settings {
        limit: tier.threads,
        released_max: tier.capacity,
        queue,
        validation,
        methods_max: PATHS.len(),
        ..Settings::default()
    };
    let layer = DeadlineLayer::new(settings);
    let inside = layer.clone();
    let params = Params { delay_target: Span::from_nanos(tier.guard_target_ns), ..Params::default() };
    let guard = GuardLayer::new(&tier.guard, params)
        .map_err(|e| Error::new(format!("tier: guard {e}"), SPEC))?
        .with_queue_probe(move || Queue::from(&inside))
        .classes(tier.dscp.len() as u8, |headers| Class::new(level(headers) as u8));
    let guard = match &tier.queue_report {
        Some(path) => guard.with_queue_report(path).map_err(|e| {
            Error::new(format!("tier: queue report {}: {e}", path.display()), "a writable file")
        })?,
        None => guard,
    };
    let failed = |e: std::io::Error| Error::new(format!("{}: {e}", tier.listen), "ip address, ss -ltn");
    let listener = TcpListener::bind(tier.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if let Some(congestion) = &tier.congestion {
        // Accepted connections inherit it.
        set_tcp_congestion(&listener, congestion).map_err(|e| failed(e.into()))?;
    }
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let header = LevelHeader::new(&tier.dscp);
    let server = rpc::builder(waiting)
        .layer(MapRequestLayer::new(move |request: http::Request<Body>| header.write(request)))
        .layer(guard.clone().with_reject_response(HeadersOnly))
        .layer(layer.clone().with_reject_response(HeadersOnly))
        .add_service(Method(handler(tier, parts, queue.shedding, stats)));
    tokio::spawn(server.serve_with_incoming(incoming.map(|stream| stream.and_then(DscpStream::new))));
    Ok(Serving { address, queue: layer, guard })
}

/// Layer that propagates budgets; advisory with shedding `none`.
pub(crate) fn propagate_layer(shedding: Shedding) -> PropagateLayer {
    match shedding {
        Shedding::None => PropagateLayer::new().advisory(),
        _ => PropagateLayer::new(),
    }
}

/// Works, yields, calls `parts` (by service and level), and answers. With shedding, a late
/// request uses a level more urgent for its parts, and one that can bear a loss a level less
/// urgent.
fn handler(
    tier: &Tier,
    parts: Vec<Vec<RpcClient>>,
    shedding: Shedding,
    stats: &Arc<Mutex<Stats>>,
) -> Handler {
    let (parts, stats, answer) = (Arc::new(parts), Arc::clone(stats), tier.answer);
    let loss = tier.loss_ns.map(Span::from_nanos);
    Arc::new(move |request: Request<Bytes>| {
        let (parts, stats) = (Arc::clone(&parts), Arc::clone(&stats));
        Box::pin(async move {
            let times = service_times(&request).filter(|times| times.len() == parts.len() + 1);
            let times = times
                .ok_or_else(|| Status::invalid_argument("no service times for this service and each part"))?;
            let level = level(request.metadata().as_ref());
            work(times[0]).await;
            let budget = deadline::tower::budget().ok_or_else(|| Status::internal("no budget"))?;
            let stage_times = budget.stages().last().copied().unwrap_or_default();
            stats.lock().unwrap_or_else(PoisonError::into_inner).served(&stage_times, times[0]);
            give_way();
            let slack = if shedding == Shedding::None { Slack::OnTime } else { slack(loss) };
            let mut calls = JoinSet::new();
            for (part, &service) in parts.iter().zip(&times[1..]) {
                let mut client = part[part_level(level, slack, part.len())].clone();
                calls.spawn(scope(budget, async move {
                    client.call_as(level, call_with_times(&[service])).await
                }));
            }
            while let Some(done) = calls.join_next().await {
                done.map_err(|e| Status::internal(e.to_string()))??;
            }
            Ok(Bytes::from(vec![0; answer]))
        })
    })
}

/// Level of the connection for the parts of a request of `level`.
fn part_level(level: usize, slack: Slack, levels: usize) -> usize {
    match slack {
        Slack::Behind => level.saturating_sub(1),
        Slack::OnTime => level,
        Slack::Ahead => (level + 1).min(levels - 1),
    }
}

/// Call with the service times of the called service and of those that work on its parts.
pub(crate) fn call_with_times(service: &[Span]) -> Request<Bytes> {
    let mut call = Request::new(Bytes::new());
    let text: Vec<String> = service.iter().map(|span| span.as_nanos().to_string()).collect();
    call.metadata_mut().insert(SERVICE, text.join(",").parse().expect("digits and commas"));
    call
}

/// Service times of a call made by [`call_with_times`].
fn service_times(request: &Request<Bytes>) -> Option<Vec<Span>> {
    let text = request.metadata().get(SERVICE)?.to_str().ok()?;
    text.split(',').map(|number| number.parse().ok().map(Span::from_nanos)).collect()
}

/// Statistics of served requests.
#[derive(Debug, Default)]
struct Stats {
    queue: Histogram,
    /// Total service time beyond the planned one.
    excess: Span,
}

impl Stats {
    fn served(&mut self, stage_times: &deadline::StageTime, planned: Span) {
        self.queue.record(stage_times.queue);
        self.excess += stage_times.service.saturating_sub(planned);
    }
}

/// Statistics as one line of JSON.
fn stats_json(stats: &Mutex<Stats>, queue: &DeadlineLayer, guard: &GuardLayer) -> String {
    let stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
    let (counts, worked) = (queue.counts(), stats.queue.count());
    let guarded = guard.counts();
    json!({
        "worked": worked,
        "first": guarded.first().map_or(0, |class| class.offered),
        "last": guarded.last().map_or(0, |class| class.offered),
        "unbudgeted": counts.faults.iter().sum::<u64>(),
        "refused": counts.expired + counts.infeasible + counts.full,
        "shed": guarded.iter().map(|class| class.shed).sum::<u64>(),
        "queue_p50_ns": stats.queue.quantile(0.5).as_nanos(),
        "queue_p99_ns": stats.queue.quantile(0.99).as_nanos(),
        "beyond_ns": stats.excess.as_nanos().checked_div(worked).unwrap_or(0),
    })
    .to_string()
}

/// Header with the service times of a request, ns.
const SERVICE: &str = "testbed-service";
/// Advice for invalid settings.
const SPEC: &str = "see the settings of a tier in spec/testbed.md";
/// Maximum capacity of a queue, the same as for a runner.
const CAPACITY_MAX: usize = 100_000_000;
const ANSWER_MAX: usize = 1 << 20;
/// Number of blocking threads in addition to the service's.
const SPARE_THREADS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const TIER: &str = r#"{"listen":"127.0.0.1:0","parts":["127.0.0.1:7"],"threads":1,"order":"edf",
        "shedding":"infeasible","age_max_ns":1000000000,"capacity":10,"answer":100,"dscp":[46,10],
        "guard":"queue-delay","guard_target_ns":20000000}"#;

    #[test]
    fn an_invalid_tier_is_refused_with_the_valid_values() {
        assert!(Tier::parse(TIER).is_ok());
        let check = |from: &str, to: &str, says: &str| {
            let error = Tier::parse(&TIER.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with("error: tier: ") && error.contains("\n  try: "), "{error}");
            assert!(error.contains(says), "{says:?} is not in {error}");
        };
        check("\"listen\"", "\"listens\"", "unknown field `listens`");
        check("edf", "first", "order \"first\" is not one of fifo");
        check("\"threads\":1", "\"threads\":0", "threads 0 is outside 1..=1000");
        check("\"capacity\":10", "\"capacity\":0", "capacity 0 is outside");
        check("\"answer\":100", "\"answer\":2000000", "answer 2000000 is outside 1..=1048576");
        check("[46,10]", "[46,64]", "dscp [46, 64]");
        check("[46,10]", "[]", "dscp []");
    }

    #[test]
    fn a_request_uses_its_levels_connection_or_the_next_one() {
        let levels = |slack| [0, 1, 2].map(|level| part_level(level, slack, 3));
        assert_eq!(levels(Slack::Behind), [0, 0, 1]);
        assert_eq!(levels(Slack::OnTime), [0, 1, 2]);
        assert_eq!(levels(Slack::Ahead), [1, 2, 2]);
    }

    #[test]
    fn a_tier_receives_what_it_is_sent() {
        let spans = [3, 0, 7].map(Span::from_nanos);
        assert_eq!(service_times(&call_with_times(&spans)), Some(spans.to_vec()));
        assert_eq!(service_times(&Request::new(Bytes::new())), None);
    }
}
