//! Summary of a server at its end: counters, shed connections and waits per stage; as tables, or
//! the same figures as JSON.

use queueing::Span;
use runtime::shard::Stats;
use serde_json::{Value, json};

use super::Proto;
use crate::report::{Plot, ResultHeader};
use crate::table::{Table, micros};
use crate::{guard_args, malformed_summary};

/// Quantiles that are shown.
const SHOWN: [(f64, &str); 3] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9")];

/// Prints the summary of one shard.
pub(super) fn print(stats: &Stats, proto: Proto, guarded: bool) {
    let c = &stats.counters;
    match proto {
        Proto::Tcp => outln!(
            "\n{} connections, {} requests, {} responses, {} resets",
            c.accepted,
            c.requests,
            c.responses,
            c.aborted
        ),
        Proto::Udp => outln!(
            "\n{} datagrams, {} requests, {} responses, {} not sent",
            c.datagrams,
            c.requests,
            c.responses,
            c.unsent
        ),
    }
    malformed_summary::line(&stats.malformed).into_iter().for_each(|line| outln!("{line}"));
    if guarded {
        let [p50, p99, _] = quantiles(&stats.delay);
        outln!("guard: age of the oldest waiting connection, p50 {p50} p99 {p99}");
        outln!("{}", guard_args::shed(&c.guard));
    }
    if c.requests > 0 {
        outln!("{}", waits(stats));
        let uses = stats.buffers;
        let (share, asked) = (uses.hit_rate() * 100.0, uses.requests);
        outln!("buffer pool: {share:.1} % of {asked} allocations reused, {} small buffers", uses.small);
    }
}

fn waits(stats: &Stats) -> Table {
    let [p50, p99, p999] = SHOWN.map(|(_, name)| name);
    let mut table =
        Table::new(2, &["priority", "stage", "count", p50, p99, p999]).groups(&[("", 3), ("wait, µs", 3)]);
    for (class, stage, histogram) in stats.stages.iter().filter(|(.., histogram)| histogram.count() > 0) {
        let spans = SHOWN.map(|(q, _)| micros(histogram.quantile(q)));
        let words = [class.to_owned(), stage.to_owned(), histogram.count().to_string()];
        table.row([words, spans].concat());
    }
    table
}

fn quantiles(histogram: &queueing::Histogram) -> [Span; 3] {
    SHOWN.map(|(q, _)| histogram.quantile(q))
}

/// Summary of every shard as JSON, after `header`.
pub(super) fn json(header: &ResultHeader, stats: &[Stats]) -> Value {
    let shards: Vec<_> = stats.iter().map(shard).collect();
    let body = json!({ "world": "host", "shards": shards, "plots": [waits_plot(stats)] });
    header.stamp(body)
}

/// Bars for each shard and priority, of the mean waits at each stage: means add up, unlike
/// quantiles.
fn waits_plot(stats: &[Stats]) -> Plot {
    let mut bars: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    for (number, shard) in stats.iter().enumerate() {
        for (priority, stage, histogram) in
            shard.stages.iter().filter(|(.., histogram)| histogram.count() > 0)
        {
            let name = match stats.len() {
                1 => format!("priority {priority}"),
                _ => format!("shard {number}, priority {priority}"),
            };
            let part = (stage.to_owned(), histogram.mean().as_micros_f64());
            match bars.iter_mut().find(|bar| bar.0 == name) {
                Some(bar) => bar.1.push(part),
                None => bars.push((name, vec![part])),
            }
        }
    }
    Plot::bars("Mean wait by stage", "µs", bars)
}

fn shard(stats: &Stats) -> Value {
    let c = &stats.counters;
    let spread = |histogram: &queueing::Histogram| {
        let spans = SHOWN.map(|(q, name)| (name.to_owned(), json!(histogram.quantile(q).as_nanos())));
        Value::Object(spans.into_iter().collect())
    };
    let classes = guard_args::classes(&c.guard).map(|(class, of)| {
        let shed = json!({ "rate": of.by_rate, "present": of.by_presence, "closed": of.by_closing });
        json!({ "class": class.level(), "seen": of.seen, "shed": shed })
    });
    let stages = stats.stages.iter().filter(|(.., histogram)| histogram.count() > 0);
    let stages = stages.map(|(priority, stage, histogram)| {
        let (count, waited_ns) = (histogram.count(), spread(histogram));
        json!({ "priority": priority, "stage": stage, "count": count, "waited_ns": waited_ns })
    });
    let uses = stats.buffers;
    json!({
        "connections": c.accepted,
        "datagrams": c.datagrams,
        "requests": c.requests,
        "responses": c.responses,
        "resets": c.aborted,
        "guard": { "classes": classes.collect::<Vec<_>>(), "delay_ns": spread(&stats.delay) },
        "buffers": { "asked": uses.requests, "pooled": uses.pooled, "small": uses.small, "hit_rate": uses.hit_rate() },
        "waits": stages.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use runtime::shard::Shed;

    use super::*;

    #[test]
    fn shed_connections_are_listed_by_class_and_reason_in_table_and_json() {
        let mut stats = Stats::default();
        stats.counters.guard[7] = Shed { seen: 12, by_rate: 4, by_presence: 0, by_closing: 3 };
        let table = guard_args::shed(&stats.counters.guard).to_string();
        let row = table.lines().last().expect("a row").split_whitespace().collect::<Vec<_>>();
        assert_eq!(row, ["7", "12", "4", "0", "3", "5"]);
        let json = json(&ResultHeader::of_host("serve", None), &[stats]);
        crate::report::schema::conforms(&json);
        let class = &json["shards"][0]["guard"]["classes"][0];
        assert_eq!(
            (&class["class"], &class["seen"], &class["shed"]["closed"]),
            (&json!(7), &json!(12), &json!(3))
        );
        assert_eq!(json["shards"][0]["buffers"]["hit_rate"], json!(1.0));
    }
}
