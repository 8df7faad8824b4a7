//! Fabric's queues against queueing theory.
//!
//! Sources are open loop: they do not react to queueing. Tests of a discipline run it on the
//! engine as a single server. Tests of ports use flows of one segment, or with an unlimited
//! window, so that the first port is the queue. The theoretical mean must lie within the 99 %
//! interval of batch means, which must be narrow.

//~ fabric: queues under open-loop sources agree with M/M/1, M/D/1, M/G/1, processor sharing and priorities

use std::sync::Arc;

use queueing::theory::{feedback, mg1, mm1};
use queueing::{
    Bytes, Discipline, Distribution, Entry, FairQueue, Fifo, FlowId, Label, Priority, PushResult, Rng, Span,
    Strict, Thresholds, Time,
};
use sim::fabric::{Config, Sizes, TraceFlow, run};

const BATCHES: usize = 20;
/// Student's t at 0.995 for one degree of freedom less than there are batches.
const T_995: f64 = 2.861;

/// Checks that the mean of `values`, in order of arrival, is `theory`; the first batch is
/// warm-up.
#[track_caller]
fn agree(what: &str, values: &[f64], theory: f64) {
    let batch = values.len() / (BATCHES + 1);
    let means = values.chunks_exact(batch).skip(1).take(BATCHES);
    let means: Vec<f64> = means.map(|batch| batch.iter().sum::<f64>() / batch.len() as f64).collect();
    let mean = means.iter().sum::<f64>() / BATCHES as f64;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (BATCHES - 1) as f64;
    let half = T_995 * (variance / BATCHES as f64).sqrt();
    assert!(half / theory < 0.15, "{what}: {mean:.4e} ± {half:.1e} says nothing");
    assert!((mean - theory).abs() <= half, "{what}: {mean:.4e} ± {half:.1e}, theory {theory:.4e}");
}

/// Job: packets of equal service time, at the given levels.
struct Job {
    at: Time,
    /// Level of each packet, never rising in urgency.
    levels: Vec<Priority>,
    each: Span,
}

/// Packet of job `flow`.
#[derive(Clone)]
struct Piece {
    flow: u32,
    level: Priority,
}

impl Entry for Piece {
    fn label(&self) -> Label {
        Label::new(self.level)
    }

    fn flow(&self) -> FlowId {
        FlowId(self.flow.into())
    }
}

enum Event {
    Arrive(u32),
    Served(u32),
}

/// Time in the system of each job, up to the end of its last packet, in s.
fn sojourns(mut queue: impl Discipline<Piece>, jobs: &[Job]) -> Vec<f64> {
    let mut engine = sim::Engine::new();
    let mut left: Vec<usize> = jobs.iter().map(|job| job.levels.len()).collect();
    let (mut busy, mut sojourns) = (false, vec![f64::NAN; jobs.len()]);
    engine.schedule(jobs[0].at, Event::Arrive(0));
    while let Some((now, event)) = engine.next() {
        match event {
            Event::Arrive(number) => {
                for &level in &jobs[number as usize].levels {
                    let pushed = queue.push(now, Piece { flow: number, level });
                    assert!(matches!(pushed, PushResult::Queued), "there is room");
                }
                if let Some(next) = jobs.get(number as usize + 1) {
                    engine.schedule(next.at, Event::Arrive(number + 1));
                }
            }
            Event::Served(number) => {
                busy = false;
                let number = number as usize;
                left[number] -= 1;
                if left[number] == 0 {
                    sojourns[number] = now.since(jobs[number].at).as_secs_f64();
                }
            }
        }
        if !busy && let Some(Piece { flow, .. }) = queue.pop(now) {
            busy = true;
            engine.schedule(now + jobs[flow as usize].each, Event::Served(flow));
        }
    }
    sojourns
}

/// Poisson arrivals of jobs; `job` draws their packets.
fn poisson(count: usize, rate_per_s: f64, job: impl Fn(&mut Rng) -> (Vec<Priority>, Span)) -> Vec<Job> {
    let arrivals = queueing::Arrivals::Poisson { rate_per_s };
    let mut rng = Rng::seeded(2);
    let times = arrivals.times(Time::ZERO, Rng::seeded(1)).take(count);
    times
        .map(|at| {
            let (levels, each) = job(&mut rng);
            Job { at, levels, each }
        })
        .collect()
}

const ROOM: usize = 10_000_000;
const SEGMENT: Span = Span::from_nanos(1_200);

#[test]
fn exponential_packets_in_fifo_order_are_an_mm1_queue() {
    let distribution: Distribution = "exp 10us".parse().unwrap();
    for load in [0.5, 0.8] {
        let rate = load / distribution.mean().as_secs_f64();
        let jobs = poisson(400_000, rate, |rng| (vec![Priority::HIGHEST], distribution.sample(rng)));
        let theory = mm1::sojourn_mean(rate, distribution.mean()).unwrap().as_secs_f64();
        agree("M/M/1", &sojourns(Fifo::new(ROOM), &jobs), theory);
    }
}

#[test]
fn whole_web_search_flows_in_fifo_order_are_an_mg1_queue() {
    let demand = Sizes::WebSearch.demand();
    let second = SEGMENT.as_secs_f64();
    for load in [0.5, 0.8] {
        let rate = load / (Sizes::WebSearch.mean() * second);
        let jobs = poisson(400_000, rate, |rng| {
            let segments = Sizes::WebSearch.size(0, rng.unit());
            (vec![Priority::HIGHEST], SEGMENT * segments.into())
        });
        let square = demand.second_moment() * second * second;
        let wait = mg1::wait_mean_of(rate, Sizes::WebSearch.mean() * second, square).unwrap();
        let found = sojourns(Fifo::new(ROOM), &jobs);
        let waits: Vec<f64> =
            found.iter().zip(&jobs).map(|(sojourn, job)| sojourn - job.each.as_secs_f64()).collect();
        agree("M/G/1", &waits, wait.as_secs_f64());
    }
}

/// Web-search flow sizes divided by 32, to limit the number of packets.
fn short(rng: &mut Rng) -> usize {
    Sizes::WebSearch.size(0, rng.unit()).div_ceil(32) as usize
}

/// Mean number of packets of [`short`].
fn short_mean() -> f64 {
    let mut rng = Rng::seeded(3);
    (0..4_000_000).map(|_| short(&mut rng) as f64).sum::<f64>() / 4e6
}

#[test]
fn packet_round_robin_approximates_processor_sharing() {
    for load in [0.5, 0.8] {
        let rate = load / (short_mean() * SEGMENT.as_secs_f64());
        let jobs = poisson(200_000, rate, |rng| (vec![Priority::HIGHEST; short(rng)], SEGMENT));
        let found = sojourns(FairQueue::new(ROOM), &jobs);
        let theory = mg1::slowdown_shared(load).unwrap();
        // Processor sharing is approximate for jobs of few packets.
        for (least, most) in [(16, 100), (100, usize::MAX)] {
            let slowdown = |(sojourn, job): (&f64, &Job)| {
                let packets = job.levels.len();
                let alone = SEGMENT.as_secs_f64() * packets as f64;
                (least..most).contains(&packets).then_some(sojourn / alone)
            };
            let slowdowns: Vec<f64> = found.iter().zip(&jobs).filter_map(slowdown).collect();
            agree(&format!("slowdown of {least} packets and more at load {load}"), &slowdowns, theory);
        }
    }
}

#[test]
fn pias_levels_match_the_queueing_model_of_its_thresholds() {
    let thresholds = [2.0, 10.0, 100.0];
    let points = [(1.0, 0.0), (1.0, 0.3), (5.0, 0.5), (60.0, 0.8), (400.0, 1.0)];
    let demand = feedback::SizeDistribution::new(points.to_vec()).unwrap();
    let draw = |rng: &mut Rng| {
        let unit = rng.unit();
        let pair = points.windows(2).find(|pair| unit < pair[1].1).unwrap();
        let part = (unit - pair[0].1) / (pair[1].1 - pair[0].1);
        (pair[0].0 + (pair[1].0 - pair[0].0) * part).round() as u64
    };
    let sinks = Thresholds::new(thresholds.map(|packets| Bytes::new(packets as u64)).to_vec()).unwrap();
    let load = 0.7;
    let rate = load / (demand.mean() * SEGMENT.as_secs_f64());
    let jobs = poisson(150_000, rate, |rng| {
        // The first packet has no bytes of the flow before it.
        let levels = (0..draw(rng)).map(|before| sinks.level(Bytes::new(before + 1)));
        (levels.collect(), SEGMENT)
    });
    let theory = feedback::sojourn_mean(&demand, load, &thresholds).unwrap() * SEGMENT.as_secs_f64();
    agree("PIAS", &sojourns(Strict::new(ROOM, |_| Fifo::new(ROOM)), &jobs), theory);
}

#[test]
fn strict_levels_are_a_non_preemptive_priority_queue() {
    let distribution: Distribution = "exp 10us".parse().unwrap();
    let class = |load: f64| mg1::Mg1Class {
        rate_per_s: load / distribution.mean().as_secs_f64(),
        service: distribution,
    };
    let classes = [class(0.2), class(0.3), class(0.25)];
    let total: f64 = classes.iter().map(|class| class.rate_per_s).sum();
    let jobs = poisson(2_000_000, total, |rng| {
        let unit = rng.unit() * total;
        let first = classes[0].rate_per_s;
        let level = usize::from(unit >= first) + usize::from(unit >= first + classes[1].rate_per_s);
        (vec![Priority::new(level as u8).unwrap()], distribution.sample(rng))
    });
    let found = sojourns(Strict::new(ROOM, |_| Fifo::new(ROOM)), &jobs);
    for index in 0..classes.len() {
        let of_class = |(sojourn, job): (&f64, &Job)| {
            (job.levels[0].index() == index).then_some(sojourn - job.each.as_secs_f64())
        };
        let waits: Vec<f64> = found.iter().zip(&jobs).filter_map(of_class).collect();
        let theory = mg1::wait_mean_nonpreemptive(&classes, index).unwrap().as_secs_f64();
        agree(&format!("class {index}"), &waits, theory);
    }
}

/// Flow completion time beyond the ideal, in s, of flows from the first host to the second,
/// without losses and with an unlimited window.
fn waits(scheduler: &str, flows: Vec<TraceFlow>) -> Vec<f64> {
    let text = format!(
        "topology = {{ kind = \"star\", hosts = 2, host = {{ gbps = 10, delay = \"20us\" }} }}\n\
         scheduler = \"{scheduler}\"\nbuffer_size = 1000000\nflows = {}\nsizes = \"websearch\"\n\
         arrivals = \"uniform 1\"\nsenders = \"first\"\n\
         transport = {{ window = 1e9, window_max = 1e9, rto = \"1000s\" }}",
        flows.len()
    );
    let mut config = Config::from_toml(&text).unwrap();
    config.planned = Some(Arc::from(flows));
    let outcome = run(&config);
    assert_eq!(outcome.counters.dropped, 0);
    let wait = |flow: &sim::fabric::FlowOutcome| flow.took.unwrap().as_secs_f64() - flow.ideal.as_secs_f64();
    outcome.flows.iter().map(wait).collect()
}

fn planned(count: usize, rate_per_s: f64, segments: impl Fn(&mut Rng) -> u64) -> Vec<TraceFlow> {
    let arrivals = queueing::Arrivals::Poisson { rate_per_s };
    let mut rng = Rng::seeded(5);
    let times = arrivals.times(Time::ZERO, Rng::seeded(4)).take(count);
    times.map(|start| TraceFlow { start, from: 0, to: 1, bytes: segments(&mut rng) * 1460 }).collect()
}

#[test]
fn poisson_segments_at_a_port_are_an_md1_queue() {
    for load in [0.5, 0.8] {
        let rate = load / SEGMENT.as_secs_f64();
        let theory = mg1::wait_mean(rate, &Distribution::Constant(SEGMENT)).unwrap().as_secs_f64();
        agree("M/D/1", &waits("fifo", planned(200_000, rate, |_| 1)), theory);
    }
}

#[test]
fn poisson_flows_at_a_port_are_an_mg1_queue() {
    // Geometric: k segments with probability p (1 - p)^(k - 1).
    let p: f64 = 0.125;
    let (mean, square) = (1.0 / p, (2.0 - p) / (p * p));
    let (load, second) = (0.7, SEGMENT.as_secs_f64());
    let rate = load / (mean * second);
    let flows = planned(60_000, rate, |rng| (rng.exponential() / -(1.0 - p).ln()) as u64 + 1);
    let theory = mg1::wait_mean_of(rate, mean * second, square * second * second).unwrap();
    agree("M/G/1", &waits("fifo", flows), theory.as_secs_f64());
}
