//! Choice of the DRAM sensor for a configuration.

use hostsched::{Counters, Limit, NullSensor, Probe, ProbedCounters, Sensor};
use queueing::CoreId;

use super::config::{Config, SensorName};
use crate::Error;

/// The sensor of DRAM load around `cores`, and the reason for it.
///
/// # Errors
/// Counters were requested, and there are none.
pub fn sensor(config: &Config, cores: &[CoreId]) -> Result<(Box<dyn Sensor>, String), Error> {
    let none = |why: &str| -> (Box<dyn Sensor>, String) { (Box::new(NullSensor), why.to_owned()) };
    let probe = |why: &str, blamed: &str| -> (Box<dyn Sensor>, String) {
        let limit = Limit { slowdown: config.latency_max, bandwidth: config.bandwidth_max_gb * 1e9 };
        let probe = Probe::new(Probe::size(), limit);
        let why = format!(
            "{why}a DRAM load takes {} on an idle machine; {} times that counts as {} GB/s; \
             {blamed} is throttled",
            probe.idle(),
            config.latency_max,
            config.bandwidth_max_gb
        );
        (Box::new(probe), why)
    };
    let counters = || {
        Counters::detect(cores).map(|counters| (Box::new(counters) as Box<dyn Sensor>, COUNTED.to_owned()))
    };
    Ok(match config.sensor {
        SensorName::None => none("set in the configuration: memory bandwidth is not managed"),
        SensorName::Auto if !config.needs_bandwidth() => none("the policy does not use memory bandwidth"),
        SensorName::Auto => match Counters::detect(cores) {
            Ok(counters) => {
                let (load, why) = probe("", "the task with most cache misses");
                (Box::new(ProbedCounters { load, misses: Box::new(counters) }), why)
            }
            Err(_) => probe("no hardware counters; ", MOST_TIME),
        },
        SensorName::Probe => probe("", MOST_TIME),
        SensorName::Counters => counters()
            .map_err(|why| Error::new(format!("sensor counters: {why}")).advice("sensor = \"auto\""))?,
    })
}

const MOST_TIME: &str = "the task that uses most CPU time";
const COUNTED: &str = "hardware counters: bytes per socket, and cache misses per core if available";
