//! Flow trace: one flow per line, `start_s src_host dst_host bytes`.

use std::fmt;

use queueing::{Span, Time};

use super::packet::MSS;

/// One flow of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFlow {
    /// Start time.
    pub start: Time,
    /// Sending host, from 0.
    pub from: u32,
    /// Receiving host.
    pub to: u32,
    /// Size in bytes, at least 1; rounded up to full segments.
    pub bytes: u64,
}

/// Invalid line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: usize,
    /// The value and the valid ones.
    pub reason: String,
}

impl std::error::Error for BadLine {}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl TraceFlow {
    /// Largest size of a flow, in bytes.
    pub const BYTES_MAX: u64 = u32::MAX as u64 * MSS;
    /// Latest start, in seconds: about eleven days.
    const START_MAX_S: f64 = 1e6;

    /// Parses flows between hosts 0..`hosts`, in any order; returns them sorted by start. Empty
    /// lines and text after `#` are ignored.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn list(text: &str, hosts: u32) -> Result<Vec<Self>, BadLine> {
        Ok(Self::numbered(text, hosts)?.into_iter().map(|(_, flow)| flow).collect())
    }

    /// Same as [`list`](Self::list), with the number of each flow's line, from 1.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn numbered(text: &str, hosts: u32) -> Result<Vec<(u64, Self)>, BadLine> {
        let mut flows = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            let flow = Self::read(&words, hosts).map_err(|reason| BadLine { line: index + 1, reason })?;
            flows.push((index as u64 + 1, flow));
        }
        flows.sort_by_key(|(_, flow)| flow.start);
        Ok(flows)
    }

    fn read(words: &[&str], hosts: u32) -> Result<Self, String> {
        let &[start, from, to, bytes] = words else {
            return Err(format!(
                "{} words are not the four of: start_s src_host dst_host bytes",
                words.len()
            ));
        };
        let start_s: f64 = start
            .parse()
            .ok()
            .filter(|start| (0.0..=Self::START_MAX_S).contains(start))
            .ok_or_else(|| format!("start {start:?} is not in 0..={} s", Self::START_MAX_S))?;
        let host = |word: &str| {
            let host = word.parse().ok().filter(|host| (0..hosts).contains(host));
            host.ok_or_else(|| format!("host {word:?} is not in 0..={}", hosts - 1))
        };
        let (from, to) = (host(from)?, host(to)?);
        if from == to {
            return Err(format!("host {from} sends to itself; two hosts make a flow"));
        }
        let bytes = bytes
            .parse()
            .ok()
            .filter(|bytes| (1..=Self::BYTES_MAX).contains(bytes))
            .ok_or_else(|| format!("bytes {bytes:?} is not in 1..={}", Self::BYTES_MAX))?;
        Ok(Self { start: Time::ZERO + Span::from_secs_f64(start_s), from, to, bytes })
    }
}

//~ fabric: flow lists, incast and all-to-all rounds start as defined
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_trace_may_be_unsorted() {
        let flows = TraceFlow::list("# replay\n0.5 1 0 20\n\n0 0 1 1e3\n", 2).unwrap_err();
        assert_eq!(
            flows.to_string(),
            format!("line 4: bytes \"1e3\" is not in 1..={}", TraceFlow::BYTES_MAX)
        );
        let flows = TraceFlow::list("# replay\n0.5 1 0 20\n\n0 0 1 1000 # first\n", 2).unwrap();
        let at = |ns| Time::from_nanos(ns);
        let expected = [
            TraceFlow { start: at(0), from: 0, to: 1, bytes: 1000 },
            TraceFlow { start: at(500_000_000), from: 1, to: 0, bytes: 20 },
        ];
        assert_eq!(flows, expected);
        let lines = TraceFlow::numbered("# replay\n0.5 1 0 20\n\n0 0 1 1000 # first\n", 2).unwrap();
        assert_eq!(lines.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number_and_reason() {
        let refused = [
            ("0 1 2", "3 words"),
            ("0 1 2 3 4", "5 words"),
            ("-1 0 1 9", "start \"-1\""),
            ("nan 0 1 9", "start \"nan\""),
            ("0 0 4 9", "host \"4\" is not in 0..=3"),
            ("0 -1 2 9", "host \"-1\""),
            ("0 2 2 9", "itself"),
            ("0 0 1 0", "bytes \"0\""),
            ("0 0 1 9.5", "bytes \"9.5\""),
            ("0 0 1 99999999999999999999", "bytes"),
        ];
        for (text, expected) in refused {
            let error = TraceFlow::list(&format!("0 0 1 9\n{text}"), 4).unwrap_err();
            assert!(error.line == 2 && error.reason.contains(expected), "{text}: {error}");
        }
    }
}
