//! Third-party load generators that count errors.

use netlab::is_installed;

use super::harness::{ListeningServer, Trial};
use super::http_checks::serving;
use super::program::{SetupVariant, TestedProgram};
use super::verdict::TrialResult;

pub fn load(program: TestedProgram, world: &Trial<'_>) -> Result<TrialResult, String> {
    let server = serving(program, world, SetupVariant::Usual, b"")?;
    let generators: &[Generator] = match program {
        TestedProgram::Redis => &[Generator::Redis("1"), Generator::Redis("16")],
        TestedProgram::Memcached => &[Generator::Memcslap("set"), Generator::Memcslap("get")],
        _ => &[Generator::Wrk, Generator::Ab(true), Generator::Ab(false), Generator::H2load],
    };
    let mut missing = Vec::new();
    for generator in generators {
        if !is_installed(generator.file()) {
            missing.push(generator.file());
            continue;
        }
        let words = generator.words(&server);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = world.peer_client(&words)?;
        generator.check_output(&output).map_err(|why| format!("{}: {why}", words.join(" ")))?;
    }
    missing.dedup();
    server.stop()?;
    Ok(match missing.len() {
        0 => TrialResult::Works,
        n if n == generators.len() => {
            TrialResult::Skipped(format!("{} is not installed", missing.join(", ")))
        }
        _ => TrialResult::Limited(format!("tried without {}, which is not installed", missing.join(", "))),
    })
}

#[derive(Clone, Copy, Debug)]
enum Generator {
    Wrk,
    /// ab, with or without keep-alive.
    Ab(bool),
    H2load,
    /// redis-benchmark, with this number of pipelined requests.
    Redis(&'static str),
    /// memcslap, with this kind of operation.
    Memcslap(&'static str),
}

impl Generator {
    const fn file(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Ab(_) => "ab",
            Self::H2load => "h2load",
            Self::Redis(_) => "redis-benchmark",
            Self::Memcslap(_) => "memcslap",
        }
    }

    fn words(self, server: &ListeningServer<'_>) -> Vec<String> {
        let (ip, port) = (server.to.ip(), server.to.port());
        let url = format!("http://{ip}/small");
        let words = match self {
            Self::Wrk => format!("wrk --threads 2 --connections 50 --duration 3s --timeout 30s {url}"),
            Self::Ab(true) => format!("ab -q -k -c 20 -n 5000 {url}"),
            Self::Ab(false) => format!("ab -q -c 20 -n 2000 {url}"),
            Self::H2load => format!("h2load --h1 --requests 5000 --clients 50 {url}"),
            Self::Redis(pipeline) => {
                format!("redis-benchmark -h {ip} -p {port} -n 10000 -c 50 -P {pipeline} -q")
            }
            Self::Memcslap(test) => {
                format!("memcslap --servers={ip}:{port} --concurrency=20 --execute-number=500 --test={test}")
            }
        };
        words.split(' ').map(str::to_owned).collect()
    }

    /// Checks the load generator's `output` for incomplete or failed requests.
    fn check_output(self, output: &str) -> Result<(), String> {
        let number = |begin: &str| {
            let line = output.lines().find_map(|line| line.trim().strip_prefix(begin))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        let none = |begins: &[&str]| begins.iter().all(|begin| !output.contains(begin));
        let check_output = match self {
            Self::Wrk => {
                output.contains(" requests in ") && none(&["Socket errors", "Non-2xx", "  0 requests"])
            }
            Self::Ab(_) => {
                let complete = number("Complete requests:").is_some_and(|complete| complete > 0);
                complete && number("Failed requests:") == Some(0) && none(&["Non-2xx", "Write errors"])
            }
            Self::H2load => {
                output.contains(" 0 failed, 0 errored, 0 timeout") && none(&["requests: 0 total"])
            }
            Self::Redis(_) => {
                output.matches("requests per second").count() >= 15 && none(&["Error", "error"])
            }
            Self::Memcslap(_) => output.contains("Time total:") && none(&["FAILURE", "rror", "Failed"]),
        };
        let lines: Vec<&str> = output.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        check_output.then_some(()).ok_or_else(|| lines.join("; ").chars().take(600).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_generators_output_is_parsed() {
        let wrk = "Running 3s test @ http://10.7.0.2/small\n  2 threads and 50 connections\n  \
                   12345 requests in 3.01s, 2.00MB read\nRequests/sec:   4101.33\n";
        let ab = "Complete requests:      5000\nFailed requests:        0\nKeep-Alive requests:    5000\n";
        let h2load =
            "requests: 5000 total, 5000 started, 5000 done, 5000 succeeded, 0 failed, 0 errored, 0 timeout\n";
        for (generator, output, wrong) in [
            (Generator::Wrk, wrk, ("Requests/sec", "Socket errors: connect 0, read 3\nRequests/sec")),
            (Generator::Ab(true), ab, ("Failed requests:        0", "Failed requests:        2")),
            (Generator::H2load, h2load, ("0 errored", "7 errored")),
        ] {
            assert_eq!(generator.check_output(output), Ok(()));
            assert!(generator.check_output(&output.replace(wrong.0, wrong.1)).is_err());
            assert!(generator.check_output("").is_err());
        }
    }
}
