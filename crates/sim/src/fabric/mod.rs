//! Packet-level simulation of switched networks.
//!
//! Hosts send flows through switches. Every port is one of `queueing`'s disciplines: the
//! simulated queue is the one that runs in production. Packets are headers and lengths; no
//! bytes are copied. A run replays exactly from its seed, on any number of threads. Transports:
//! the papers' ns-2 DCTCP or `net`'s TCP.
//!
//! Source: set-up of PIAS (NSDI '15) §6 and FISH §4.

mod barrier;
mod buffer_config;
mod config;
mod flow_arrivals;
mod flow_trace;
mod hosts;
mod ideal;
mod message_port;
mod mrg32k3a;
mod net_tcp;
mod ns2;
mod occupancy;
mod outcome;
mod packet;
mod parallel;
mod partition;
mod partitioner;
mod port;
mod protocol;
mod queues;
mod sizes;
mod topology;

pub(crate) use buffer_config::depth;
pub use buffer_config::{BufferConfig, Codel, LevelAssignment, Marking, RedParams};
pub use config::{Config, Multipath, RngStreams, Senders, Transport};
pub use flow_trace::{BadLine, TraceFlow};
pub use net_tcp::NetTcpSettings as Modern;
pub use ns2::Ns2Settings as Ns2;
pub use occupancy::{INSTANTS, LOCATIONS, Occupancy, Waited};
pub use outcome::{Counters, FlowOutcome, Outcome};
pub use packet::{ACK_BYTES, MSS, Packet, PacketKind, SEGMENT_BYTES};
pub use queues::{SCHEDULERS, Scheduler};
pub use sizes::{BadSizes, Sizes};
pub use topology::{Cable, DirectedLink, Node, Topology, Wiring};

pub use crate::BadConfig;
pub(crate) use message_port::{MessagePort, MessagePortStats, PreparedFabric, segments};
use partition::Partition;
use partitioner::Partitioning;
use protocol::Protocol;
use queueing::Time;

/// Runs the fabric until every flow is done and the last packet has left it, or until the time
/// limit.
///
/// # Panics
/// If the configuration does not pass [`Config::check`].
#[must_use]
pub fn run(config: &Config) -> Outcome {
    run_on(config, 1, &mut |_| {})
}

/// Same as [`run`], on up to `threads` threads, the calling one included. The outcome does not
/// depend on the number of threads. `on_done` receives the number of completed flows from time
/// to time.
///
/// # Panics
/// The same as for [`run`].
#[must_use]
pub fn run_on(config: &Config, threads: usize, on_done: &mut dyn FnMut(u32)) -> Outcome {
    config.check().expect("a checked configuration");
    let thresholds = || config.host_thresholds();
    match &config.transport {
        Transport::Ns2(settings) => {
            simulate(config, threads, on_done, || ns2::Ns2::new(*settings, thresholds()))
        }
        Transport::Modern(settings) => {
            simulate(config, threads, on_done, || net_tcp::NetTcp::new(settings, thresholds()))
        }
    }
}

fn simulate<P: Protocol>(
    config: &Config,
    threads: usize,
    on_done: &mut dyn FnMut(u32),
    protocol: impl Fn() -> P,
) -> Outcome {
    let wiring = config.topology.wire();
    let partitioning = Partitioning::new(&wiring, threads);
    let partition = |number| Partition::new(config, &wiring, &partitioning, number, protocol());
    let partitions = (0..partitioning.partitions).map(partition).collect();
    finish(parallel::run(partitions, on_done))
}

/// Merges the results of all partitions.
fn finish<P: Protocol>(mut partitions: Vec<Partition<'_, P>>) -> Outcome {
    let end = partitions.iter().map(|partition| partition.last).max().unwrap_or(Time::ZERO);
    partitions.iter_mut().for_each(|partition| partition.end(end));
    let mut flows: Vec<(u32, FlowOutcome)> = partitions.iter_mut().flat_map(Partition::records).collect();
    flows.sort_unstable_by_key(|&(number, _)| number);
    for &(number, expired) in partitions.iter().flat_map(|partition| &partition.expired) {
        if let Ok(index) = flows.binary_search_by_key(&number, |&(number, _)| number) {
            flows[index].1.timeouts += expired;
        }
    }
    let flows: Vec<FlowOutcome> = flows.into_iter().map(|(_, flow)| flow).collect();
    Outcome {
        active_max: active_max(&flows),
        flows,
        counters: partitions.iter().map(Partition::total_counters).sum(),
        elapsed: end.since(Time::ZERO),
        events: partitions.iter().map(|partition| partition.event_count).sum(),
        occupancy: occupancy::Sampler::finish(
            partitions.into_iter().map(|partition| partition.sampler).collect(),
        ),
    }
}

/// Largest number of concurrently active flows.
fn active_max(flows: &[FlowOutcome]) -> u32 {
    let end = |flow: &FlowOutcome| Some(flow.began + flow.took?);
    let mut finish_times: Vec<Time> = flows.iter().filter_map(end).collect();
    finish_times.sort_unstable();
    let mut finish_times = finish_times.into_iter().peekable();
    let (mut active, mut most) = (0, 0);
    for flow in flows {
        while finish_times.next_if(|&end| end <= flow.began).is_some() {
            active -= 1;
        }
        active += 1;
        most = most.max(active);
    }
    most
}
