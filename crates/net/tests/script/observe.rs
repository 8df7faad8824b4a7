//! Assertions of scripts: `%{ assert NAME op VALUE }%`.

use std::cmp::Ordering;

use super::ast::Assertion;
use super::run::{Failure, Runner};
use super::settings::span;

/// Valid names, apart from `counter.NAME`.
const NAMES: &str = "cwnd, srtt, recovering, received, acked, unread, connected, peer_closed, closed, writable, \
                     connections, isn_advance, counter.NAME";

impl Runner {
    /// Checks one assertion against the stack.
    pub fn check(&mut self, assertion: &Assertion) -> Result<(), Failure> {
        let Assertion { name, fd, op, value } = assertion;
        let got = self.observe(name, *fd)?;
        let order = match (number(&got), number(value)) {
            (Some(got), Some(value)) => got.partial_cmp(&value),
            _ if got == *value => Some(Ordering::Equal),
            _ => None,
        };
        let holds = match op.as_str() {
            "==" => order == Some(Ordering::Equal),
            "!=" => order != Some(Ordering::Equal),
            "<" => order == Some(Ordering::Less),
            "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            ">" => order == Some(Ordering::Greater),
            _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        };
        if holds {
            return Ok(());
        }
        Err(Failure::differs("it is not so", format!("{name} {op} {value}"), format!("{name} == {got}")))
    }

    fn observe(&self, name: &str, fd: Option<i64>) -> Result<String, Failure> {
        if let Some(counter) = name.strip_prefix("counter.") {
            return self.counter(counter);
        }
        if name == "connections" {
            return Ok(self.stack.connections().to_string());
        }
        if name == "isn_advance" {
            return Ok(self.isn_advance().map_or("none".to_owned(), |advance| advance.to_string()));
        }
        let Some((id, stream)) = self.sockets.stream(fd) else {
            return Err(Failure::new(format!("{name} needs a connection, and there is none")));
        };
        let closed = || stream.closed.map_or("no".to_owned(), |reason| format!("{reason:?}"));
        match name {
            "connected" => return Ok(stream.connected.to_string()),
            "peer_closed" => return Ok(stream.peer_closed.to_string()),
            "writable" => return Ok(stream.writable.to_string()),
            "closed" => return Ok(closed()),
            "unread" => return Ok(self.stack.received(id).len().to_string()),
            _ => {}
        }
        let Some(flow) = self.stack.flow(id) else {
            return Err(Failure::new(format!("the connection is gone ({})", closed())));
        };
        match name {
            "cwnd" => Ok(flow.cwnd.get().to_string()),
            "srtt" => Ok(flow.srtt.map_or("none".to_owned(), |srtt| format!("{}ns", srtt.as_nanos()))),
            "recovering" => Ok(flow.recovering.to_string()),
            "received" => Ok(flow.received.get().to_string()),
            "acked" => Ok(flow.sent.get().to_string()),
            _ => Err(Failure::new(format!("there is no {name:?}; valid: {NAMES}"))),
        }
    }

    /// Counter by the name of its field; the sum of an array.
    fn counter(&self, name: &str) -> Result<String, Failure> {
        let text = format!("{:?}", self.stack.counters());
        let Some((_, rest)) = text.split_once(&format!(" {name}: ")) else {
            return Err(Failure::new(format!("there is no counter {name:?}; valid: a field of Counters")));
        };
        let list = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let digits = list.map_or_else(|| rest.split([',', ' ']).next().unwrap_or_default(), |(list, _)| list);
        let sum: u64 = digits.split(',').filter_map(|n| n.trim().parse::<u64>().ok()).sum();
        Ok(sum.to_string())
    }
}

/// Number, or time in nanoseconds.
fn number(text: &str) -> Option<f64> {
    text.parse().ok().or_else(|| span(text).map(|span| span.as_nanos() as f64))
}
